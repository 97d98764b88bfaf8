//! Interfaces that follow their punt devices.

use std::sync::{MutexGuard, PoisonError};

use weir_plane::model::Interface;

use super::super::host::Host;
use super::Running;
use crate::events;

impl Running {
    pub(super) fn host_so_far(&self) -> MutexGuard<'_, Host> {
        // It is replaced as a whole.
        self.host.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the host has given punt devices something else since. To be called some times a second.
    pub(crate) fn has_news_of_host(&self) -> bool {
        let model = self.engine.model();
        let follows = |own: &Interface| own.follow.mtu || own.follow.addresses;
        let host = self.host_so_far();
        (!host.is_empty() || model.interfaces.iter().any(follows)) && host.is_behind(&model, self.engine.host_sides())
    }

    /// Has interfaces take over what the host gives their punt devices now. To be called on a thread that may wait.
    pub(crate) fn follow_host(&self) {
        let _changing = self.change_alone();
        if self.confirm_by().is_some() {
            // The gateway may go back to another model.
            return;
        }
        let _alone = self.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.host_so_far().clone();
        let mut gateway = (*self.engine.model()).clone();
        let (next, refused) = before.next(&mut gateway, self.engine.host_sides());
        for line in refused {
            tracing::warn!(kind = events::Kind::Link.name(), "{line}");
        }
        let differences = before.differences(&next);
        if differences.is_empty() {
            *self.host_so_far() = next;
            return;
        }
        if let Err(refusal) = self.put_edited(gateway) {
            tracing::warn!(kind = events::Kind::Link.name(), "cannot follow the host: {}", refusal.for_log());
            // It is not tried again until the host changes something.
            self.host_so_far().note(next);
            return;
        }
        *self.host_so_far() = next;
        for (name, has) in differences {
            let (interface, has) = (name.as_str(), has.words());
            tracing::info!(kind = events::Kind::Link.name(), interface, "interface {name}: from the host: {has}");
        }
    }
}
