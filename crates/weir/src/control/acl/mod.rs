//! Access lists that change by the control socket: a batch of changes, a list as a whole, the members of a group.

pub mod attached;
pub(crate) mod edits;
pub(crate) mod live;
pub(crate) mod lost;
pub(super) mod read;

use serde::{Deserialize, Serialize};

use super::source;

/// The body of `POST /v1/acl/LIST/changes`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchRequest {
    /// The source of the change.
    #[serde(default = "source::usual")]
    pub source: String,
    /// The changes, in this order. Each change sees the list after the change before it.
    pub changes: Vec<Change>,
}

/// A change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// Rules that are new.
    Insert(Insert),
    /// A rule that goes.
    Delete(Which),
    /// A rule, or several, in the place of another.
    Replace(Replace),
}

/// Rules that are new. At most one of `at`, `before` and `after` is there; else they come behind all others.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Insert {
    /// Rules, one a line.
    pub rules: String,
    /// The place of the first of them from now on, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<usize>,
    /// The id of the rule before which they come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<u32>,
    /// The id of the rule behind which they come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u32>,
}

/// A rule of a list: exactly one of both is there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Which {
    /// Its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u32>,
    /// Its place, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<usize>,
}

/// Rules in the place of another, which is named by one of `id` and `at`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replace {
    /// Rules, one a line.
    pub rules: String,
    /// The id of the replaced rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u32>,
    /// Its place, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<usize>,
}

/// The body of `PUT /v1/group/NAME`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupRequest {
    /// The source of the change.
    #[serde(default = "source::usual")]
    pub source: String,
    /// The kind of the group; needed for a new group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<GroupKind>,
    /// All that is in it from now on, as the configuration writes members of its kind.
    pub members: Vec<String>,
}

/// The kind of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum GroupKind {
    /// Prefixes, addresses and ranges of them
    Addresses,
    /// Ports and ranges of them
    Ports,
    /// Interfaces
    Interfaces,
}

impl GroupKind {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            GroupKind::Addresses => "addresses",
            GroupKind::Ports => "ports",
            GroupKind::Interfaces => "interfaces",
        }
    }
}

/// Whether there is to be a list of the name already that is put.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Expect {
    /// There is none.
    New,
    /// There is one.
    Existing,
}

impl Expect {
    /// The word of the query.
    pub const fn name(self) -> &'static str {
        match self {
            Expect::New => "new",
            Expect::Existing => "existing",
        }
    }
}
