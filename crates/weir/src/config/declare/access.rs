//! `[acl.NAME]`, `[group.NAME]`, `[allowlist.NAME]`, `[mac-ip.NAME]`, `[classify.NAME]`, `[nat.NAME]`, `[spd.NAME]` and `[steer.NAME]`, and what interfaces say of them.

mod allowlist;
mod bindings;
mod classify;
mod group;
mod list;
mod nat;
mod of_interface;
mod spd;
mod steer;

use super::super::table::{Reader, Table, Value};
use super::{At, lost_some};

pub(in super::super) use allowlist::{Allowlist, Sources};
pub(in super::super) use bindings::Bindings;
pub(in super::super) use classify::Classify;
pub(in super::super) use group::{Group, Members};
pub(in super::super) use list::List;
pub(in super::super) use nat::Nat;
pub(super) use of_interface::read as of_interface;
pub(in super::super) use of_interface::{Ethertypes, OfInterface};
pub(in super::super) use spd::Spd;
pub(in super::super) use steer::Steer;

/// All that is declared of access.
#[derive(Default)]
pub(in super::super) struct Access {
    pub(in super::super) groups: Vec<Group>,
    pub(in super::super) lists: Vec<List>,
    pub(in super::super) allowlists: Vec<Allowlist>,
    pub(in super::super) bindings: Vec<Bindings>,
    pub(in super::super) classify: Vec<Classify>,
    pub(in super::super) nat: Vec<Nat>,
    pub(in super::super) spd: Vec<Spd>,
    pub(in super::super) steer: Vec<Steer>,
    /// Some group or its name could not be read: names that seem unknown may be its own.
    pub(in super::super) lost_groups: bool,
    /// The same of lists.
    pub(in super::super) lost_lists: bool,
    /// The same of allowlists.
    pub(in super::super) lost_allowlists: bool,
    /// The same of bindings.
    pub(in super::super) lost_bindings: bool,
    /// The same of classifier tables.
    pub(in super::super) lost_classify: bool,
    /// The same of rules that translate.
    pub(in super::super) lost_nat: bool,
    /// The same of SPDs.
    pub(in super::super) lost_spd: bool,
    /// The same of steer rules.
    pub(in super::super) lost_steer: bool,
}

impl Access {
    /// Marks all names as incomplete: a name that seems unknown may be declared in the part that could not be read.
    pub(in super::super) fn lose_all(&mut self) {
        self.lost_groups = true;
        self.lost_lists = true;
        self.lost_allowlists = true;
        self.lost_bindings = true;
        self.lost_classify = true;
        self.lost_nat = true;
        self.lost_spd = true;
        self.lost_steer = true;
    }

    pub(super) fn read(&mut self, reader: &mut Reader<'_>, root: &Table<'_>, lost: impl Fn(&str) -> bool) {
        self.lost_groups |= lost("group") | named(reader, root, "group", group::read, &mut self.groups);
        self.lost_lists |= lost("acl") | named(reader, root, "acl", list::read, &mut self.lists);
        self.lost_allowlists |=
            lost("allowlist") | named(reader, root, "allowlist", allowlist::read, &mut self.allowlists);
        self.lost_bindings |= lost("mac-ip") | named(reader, root, "mac-ip", bindings::read, &mut self.bindings);
        self.lost_classify |= lost("classify") | named(reader, root, "classify", classify::read, &mut self.classify);
        self.lost_nat |= lost("nat") | named(reader, root, "nat", nat::read, &mut self.nat);
        self.lost_spd |= lost("spd") | named(reader, root, "spd", spd::read, &mut self.spd);
        self.lost_steer |= lost("steer") | named(reader, root, "steer", steer::read, &mut self.steer);
    }
}

/// Reads the tables of `[key.NAME]`; whether some were lost.
fn named<'d, T>(
    reader: &mut Reader<'_>,
    root: &Table<'d>,
    key: &str,
    read: impl Fn(&mut Reader<'_>, At<String>, Value<'d>) -> Option<T>,
    into: &mut Vec<T>,
) -> bool {
    let tables = reader.named_tables(root, key);
    let mut lost = lost_some(root, key, tables.len());
    for (name, value) in tables {
        let made = read(reader, name, value);
        lost |= made.is_none();
        into.extend(made);
    }
    lost
}
