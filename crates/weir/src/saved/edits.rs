//! The live edits of a running gateway, as the objects that they leave.

/// All that differs from the configuration in force.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Edits {
    /// Access lists.
    pub(crate) acls: Vec<Listed>,
    /// Lists of NAT rules.
    pub(crate) nats: Vec<Listed>,
    /// Lists of steer rules.
    pub(crate) steers: Vec<Listed>,
    /// Lists of bindings.
    pub(crate) bindings: Vec<Listed>,
    /// Allowlists, whose prefixes are their rules.
    pub(crate) allowlists: Vec<Listed>,
    /// SPDs.
    pub(crate) spds: Vec<Listed>,
    /// Classifier tables.
    pub(crate) tables: Vec<TableEdit>,
    /// Groups.
    pub(crate) groups: Vec<GroupEdit>,
    /// Pairs of SAs that the configuration does not have.
    pub(crate) sas: Vec<Pair>,
    /// Interfaces: the name, `in` or `out`, and the access lists.
    pub(crate) attached: Vec<(String, &'static str, Vec<String>)>,
    /// Policies of source address validation, with their actions.
    pub(crate) stages: Vec<(String, String)>,
}

/// A list of rules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Listed {
    /// Its name.
    pub(crate) name: String,
    /// Its rules, in order.
    pub(crate) rules: Vec<String>,
    /// The default of an access list.
    pub(crate) default: Option<String>,
}

/// A group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GroupEdit {
    /// Its name.
    pub(crate) name: String,
    /// `addresses`, `ports` or `interfaces`.
    pub(crate) kind: String,
    /// Its members.
    pub(crate) members: Vec<String>,
}

/// A pair of SAs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pair {
    /// Its name.
    pub(crate) name: String,
    /// The keys of `[sa.NAME]`, as they came. They name files of keys, and have no key.
    pub(crate) keys: String,
}

/// The changes of a classifier table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TableEdit {
    /// Its name.
    pub(crate) name: String,
    /// Sessions by their values, as they are written.
    pub(crate) added: Vec<(Vec<u8>, String)>,
    /// Values of sessions that are gone.
    pub(crate) removed: Vec<Vec<u8>>,
}
