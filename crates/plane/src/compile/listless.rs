//! Interfaces without lists whose zone has sessions: packets of sessions count there, too, so that states and times follow both
//! directions.

use std::sync::Arc;

use crate::model::PerFamily;
use crate::root::Interface;
use crate::root::acl::{Access, NONE, ONLY_SESSIONS};

/// The interfaces as roots have them.
#[derive(Default)]
pub(super) struct Shown {
    interfaces: Arc<[Interface]>,
    /// The zones whose lists open sessions.
    reflecting: Arc<[bool]>,
    /// Some interface is without a list of a direction where its zone has sessions.
    has_listless: bool,
}

impl Shown {
    /// The interfaces for the next root, with these lists. `changed`: they are others than before.
    pub(super) fn next(&mut self, interfaces: &[Interface], changed: bool, access: &mut Access) -> Arc<[Interface]> {
        if changed || self.reflecting != access.reflecting {
            let mut shown = interfaces.to_vec();
            self.has_listless = false;
            // Ports of bridges have one zone on both sides of a frame.
            for own in shown.iter_mut().filter(|own| access.reflects(own.zone) && !own.bridge.is_port()) {
                for chain in [&mut own.acl_in, &mut own.acl_out] {
                    if chain.v4 == NONE && chain.v6 == NONE {
                        *chain = PerFamily { v4: ONLY_SESSIONS, v6: ONLY_SESSIONS };
                        self.has_listless = true;
                    }
                }
            }
            self.interfaces = shown.into();
            self.reflecting = Arc::clone(&access.reflecting);
        }
        access.input |= self.has_listless;
        access.output |= self.has_listless;
        Arc::clone(&self.interfaces)
    }
}
