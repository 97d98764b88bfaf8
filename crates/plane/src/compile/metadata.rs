//! The keys of classifier tables on what the gateway knows of packets: numbers stand in the place of the names that sessions have.

use std::borrow::Cow;
use std::collections::HashMap;

use weir_table::masked::{Key, Mask};

use super::map::Map;
use crate::model::{ClassifySession, ClassifyTable, Gateway, META_INTERFACE};
use crate::root::NONE;
use crate::root::classify::{META_LENGTH, MetaKey};

/// The numbers of interfaces and VRFs, by name.
pub(super) struct Numbers<'m> {
    interfaces: HashMap<&'m str, u32>,
    vrfs: HashMap<&'m str, u32>,
}

/// For each session of a table that names interfaces or VRFs, their numbers; empty for other tables.
pub(super) type Named = Vec<[u32; 2]>;

impl<'m> Numbers<'m> {
    /// Returns the numbers of a model's objects.
    pub(super) fn new(gateway: &'m Gateway, map: &Map) -> Numbers<'m> {
        let interfaces =
            gateway.interfaces.iter().zip(&map.interfaces).map(|(own, &number)| (own.name.as_str(), number));
        let vrfs = gateway.vrfs.iter().zip(&map.vrfs).map(|(own, &number)| (own.name.as_str(), number.into()));
        Numbers { interfaces: interfaces.collect(), vrfs: vrfs.collect() }
    }

    /// Returns the numbers that stand for the names in a table's sessions.
    pub(super) fn named(&self, table: &ClassifyTable) -> Named {
        if !has_names(table) {
            return Vec::new();
        }
        let number = |of: &HashMap<&str, u32>, name: Option<&str>| {
            // A model's names are those of its objects.
            name.map_or(0, |name| of.get(name).copied().unwrap_or(NONE))
        };
        let of = |session: &ClassifySession| {
            let [interface, vrf] = table.start.names(&session.value);
            [number(&self.interfaces, interface), number(&self.vrfs, vrf)]
        };
        table.sessions.iter().map(of).collect()
    }
}

fn has_names(table: &ClassifyTable) -> bool {
    let [_, interface, vrf] = table.start.counted(&table.mask);
    interface || vrf
}

/// Returns the mask of a table's keys.
pub(super) fn mask(table: &ClassifyTable) -> Mask {
    let octets: Cow<'_, [u8]> = match has_names(table) {
        false => Cow::Borrowed(&*table.mask),
        true => {
            let [_, interface, vrf] = table.start.counted(&table.mask);
            let all = |is: bool| if is { u32::MAX } else { 0 };
            Cow::Owned(octets(&table.mask, [all(interface), all(vrf)]).to_vec())
        }
    };
    Mask::new(&octets).unwrap_or_else(|_| unreachable!("a model's masks are valid"))
}

/// Returns the key of the session at a place of a table.
pub(super) fn key(mask: &Mask, session: &ClassifySession, (place, named): (usize, &Named)) -> Key {
    let key = match named.get(place) {
        None => mask.value(&session.value),
        Some(&numbers) => {
            let octets = octets(&session.value, numbers);
            mask.value(&octets[..octets.len().min(mask.needed())])
        }
    };
    key.unwrap_or_else(|_| unreachable!("a model's values are covered by their mask"))
}

/// The mark at the start of these octets, and numbers behind it.
fn octets(own: &[u8], [interface, vrf]: [u32; 2]) -> [u8; META_LENGTH] {
    let mut mark = [0; META_INTERFACE];
    mark.iter_mut().zip(own).for_each(|(to, octet)| *to = *octet);
    MetaKey { mark: u32::from_be_bytes(mark), interface, vrf }.octets()
}
