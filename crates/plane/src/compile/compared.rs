//! The parts of a version on which learned decisions depend, beside routes, and what of them differs between two versions.
//!
//! Routes and single rules are no part of it: their changes are noted where they are made. Neither is anything that a packet
//! with a decision still reads: adjacencies, the MTU and the port of an interface.

use std::sync::Arc;

use super::noted::Noted;
use crate::model::FlowTable;
use crate::root::acl::{self, Chain};
use crate::root::allow::{Allowlists, List, Sources};
use crate::root::bindings::{Bindings, Bound};
use crate::root::family::{Both, Family};
use crate::root::sav::{Check, Validator, Validators};
use crate::root::spd::Spd;
use crate::root::{Interface, Root};

/// The parts of a version.
pub(super) struct Compared {
    interfaces: Arc<[Interface]>,
    buckets: Arc<[u32]>,
    sav: Validators,
    acl: Acl,
    allow: Allowlists,
    bindings: Bindings,
    spds: Arc<[Arc<Spd>]>,
    flow_table: FlowTable,
    invent_neighbors: bool,
    ethertypes_out: bool,
}

/// The access lists.
struct Acl {
    v4: Arc<[Chain<u32>]>,
    v6: Arc<[Chain<u128>]>,
    reflecting: Arc<[bool]>,
    /// Another one after each change of rules.
    version: u64,
}

impl Both for Acl {
    type Part<K: Family> = Arc<[Chain<K>]>;

    fn v4(&self) -> &Arc<[Chain<u32>]> {
        &self.v4
    }

    fn v6(&self) -> &Arc<[Chain<u128>]> {
        &self.v6
    }
}

impl Compared {
    pub(super) fn of(root: &Root) -> Compared {
        let acl = &root.acl;
        Compared {
            interfaces: Arc::clone(&root.interfaces),
            buckets: Arc::clone(&root.buckets),
            sav: root.sav.clone(),
            acl: Acl {
                v4: Arc::clone(&acl.v4),
                v6: Arc::clone(&acl.v6),
                reflecting: Arc::clone(&acl.reflecting),
                version: acl.version(),
            },
            allow: root.allow.clone(),
            bindings: root.bindings.clone(),
            spds: Arc::clone(&root.spd.list),
            flow_table: root.flow_table,
            invent_neighbors: root.invent_neighbors,
            ethertypes_out: root.ethertypes_out,
        }
    }

    /// Nothing about an interface can differ: what is shared is the same.
    fn shares_interfaces(&self, other: &Compared) -> bool {
        Arc::ptr_eq(&self.interfaces, &other.interfaces)
            && Arc::ptr_eq(&self.sav.v4, &other.sav.v4)
            && Arc::ptr_eq(&self.sav.v6, &other.sav.v6)
            && Arc::ptr_eq(&self.acl.v4, &other.acl.v4)
            && Arc::ptr_eq(&self.acl.v6, &other.acl.v6)
            && Arc::ptr_eq(&self.allow.v4, &other.allow.v4)
            && Arc::ptr_eq(&self.allow.v6, &other.allow.v6)
            && Arc::ptr_eq(&self.bindings.lists, &other.bindings.lists)
            && Arc::ptr_eq(&self.spds, &other.spds)
    }
}

/// Notes what differs between a version and the one before.
pub(super) fn differences(before: &Compared, now: &Compared, noted: &mut Noted) {
    let opens = |of: &Compared| of.acl.reflecting.contains(&true);
    // A set of paths has the same number as long as it is in use, and new ones have numbers behind.
    let sets = before.buckets.len().min(now.buckets.len());
    let is_global = before.acl.reflecting != now.acl.reflecting
        || before.buckets[..sets] != now.buckets[..sets]
        || !before.sav.reverse.agrees(&now.sav.reverse)
        || before.flow_table != now.flow_table
        || before.invent_neighbors != now.invent_neighbors
        || before.ethertypes_out != now.ethertypes_out;
    if is_global {
        return noted.all();
    }
    // The opener of a session is matched again after each change of rules, whatever its packets come in by.
    if before.acl.version != now.acl.version && opens(now) {
        noted.sessions();
    }
    if before.shares_interfaces(now) {
        return;
    }
    for (number, interface) in (0..).zip(&*now.interfaces) {
        // One that is new has no decisions.
        let Some(old) = before.interfaces.get(number as usize) else { continue };
        let is_same = is_same_interface(old, interface)
            && is_same_policy::<u32>((before, old), (now, interface))
            && is_same_policy::<u128>((before, old), (now, interface))
            && is_same_binding((before, old), (now, interface))
            && is_same_spd((before, old), (now, interface));
        if !is_same {
            noted.interface(number);
        }
    }
}

fn is_same_interface(before: &Interface, now: &Interface) -> bool {
    let of = |of: &Interface| (of.present, of.down, of.vrf, of.zone, of.fast_path, of.nat, of.spd);
    // Tables learn nothing: it matters whether there is one.
    let has_tables =
        |of: &Interface| [of.classify_in, of.classify_out].map(|table| table == crate::root::classify::NONE);
    of(before) == of(now)
        && has_tables(before) == has_tables(now)
        && before.addresses == now.addresses
        && before.tentative == now.tentative
        && before.ethertypes_in == now.ethertypes_in
        && before.ethertypes_out == now.ethertypes_out
}

/// The policies of an interface for a family are the same.
fn is_same_policy<K: Family>((before, old): (&Compared, &Interface), (now, new): (&Compared, &Interface)) -> bool {
    let validator = |of: &Compared, number: u16| K::of(&of.sav).get(usize::from(number)).cloned();
    let validators = (validator(before, *K::of(&old.sav)), validator(now, *K::of(&new.sav)));
    let is_validated_alike = match &validators {
        (None, None) => true,
        (Some(before), Some(now)) => is_same_validator(before, now),
        _ => false,
    };
    let chains =
        |input: fn(&Interface) -> u16| is_same_chain((K::of(&before.acl), input(old)), (K::of(&now.acl), input(new)));
    let lists =
        |of: &Compared, number: u16| K::of(&of.allow).get(usize::from(number)).map(|lists| Arc::clone(&lists.0));
    let is_allowed_alike = match (lists(before, *K::of(&old.allow)), lists(now, *K::of(&new.allow))) {
        (None, None) => true,
        (Some(before), Some(now)) => before.len() == now.len() && before.iter().zip(&*now).all(is_same_list),
        _ => false,
    };
    is_validated_alike && is_allowed_alike && chains(|of| *K::of(&of.acl_in)) && chains(|of| *K::of(&of.acl_out))
}

/// Two validators find the same sources valid, and count them by the same numbers. Decisions about others are not learned.
fn is_same_validator<K: Family>(before: &Validator<K>, now: &Validator<K>) -> bool {
    let check = match (&before.check, &now.check) {
        (Check::Rules { table, default }, Check::Rules { table: other, default: also }) => {
            table.is_same(other) && default == also
        }
        (Check::Modes(table), Check::Modes(other)) => table.is_same(other),
        (Check::Card(table, order), Check::Card(other, also)) => table.is_same(other) && order == also,
        (Check::Route { vrf, strict, default }, Check::Route { vrf: other, strict: also, default: too }) => {
            (vrf, strict, default) == (other, also, too)
        }
        _ => false,
    };
    let hits = match (&before.hits, &now.hits) {
        (None, None) => true,
        (Some(before), Some(now)) => Arc::ptr_eq(before, now),
        _ => false,
    };
    // Packets of flows that rules may exempt are not learned.
    let of = |of: &Validator<K>| (of.by, of.link, of.special, of.unknown_is_valid, of.exempt.is_some());
    check && hits && of(before) == of(now)
}

/// Two chains have the same rules, but for rules that are noted one by one.
fn is_same_chain<K: Family>((before, old): (&[Chain<K>], u16), (now, new): (&[Chain<K>], u16)) -> bool {
    let (mut old, mut new) = (old, new);
    loop {
        if (old == acl::NONE) != (new == acl::NONE) {
            return false;
        }
        match (before.get(usize::from(old)), now.get(usize::from(new))) {
            (Some(before), Some(now)) if Arc::ptr_eq(&before.table, &now.table) => {
                (old, new) = (before.next, now.next);
            }
            (None, None) => return true,
            _ => return false,
        }
    }
}

fn is_same_list<K: Family>((before, now): (&List<K>, &List<K>)) -> bool {
    let sources = match (&before.sources, &now.sources) {
        (Sources::Prefixes(before), Sources::Prefixes(now)) => Arc::ptr_eq(before, now),
        (Sources::Vrf(before), Sources::Vrf(now)) => before == now,
        _ => false,
    };
    sources && Arc::ptr_eq(&before.counters, &now.counters)
}

/// The SPD of an interface is the same, but for rules, which are noted where they change.
fn is_same_spd((before, old): (&Compared, &Interface), (now, new): (&Compared, &Interface)) -> bool {
    match (before.spds.get(usize::from(old.spd)), now.spds.get(usize::from(new.spd))) {
        (None, None) => true,
        (Some(before), Some(now)) => before.id == now.id,
        _ => false,
    }
}

/// The bindings of an interface are the same.
fn is_same_binding((before, old): (&Compared, &Interface), (now, new): (&Compared, &Interface)) -> bool {
    let bound = |of: &Compared, number: u16| of.bindings.lists.get(usize::from(number)).cloned();
    match (bound(before, old.bindings), bound(now, new.bindings)) {
        (None, None) => true,
        (Some(before), Some(now)) => {
            let learns = |of: &Bound| (of.learns, of.snoops, of.watches, of.is_first_come);
            Arc::ptr_eq(&before.v4, &now.v4) && Arc::ptr_eq(&before.v6, &now.v6) && learns(&before) == learns(&now)
        }
        _ => false,
    }
}
