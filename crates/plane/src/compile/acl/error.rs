//! Why a change to access lists or groups is refused.

use weir_table::classify::Error;

/// Why a change was refused. Nothing of it has happened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AclError {
    /// There is no such list.
    #[error("there is no access list with the name `{list}`")]
    NoSuchList {
        /// The name of the request.
        list: String,
        /// The names of all lists.
        lists: Vec<String>,
    },
    /// The list has no such rule.
    #[error("access list `{list}` has no rule {number}")]
    NoSuchRule {
        /// The list.
        list: String,
        /// The number of the request.
        number: u32,
    },
    /// The list is shorter.
    #[error("access list `{list}` has {rules} rule{}: there is no place {} to put one", if *rules == 1 { "" } else { "s" }, index + 1)]
    NoSuchPlace {
        /// The list.
        list: String,
        /// The place of the request, counted from 0.
        index: usize,
        /// How many rules it has.
        rules: usize,
    },
    /// A rule logs, and the list does not say where to.
    #[error("rule {place} logs, but access list `{list}` has no sampler")]
    NoSampler {
        /// The list.
        list: String,
        /// Which of the rules that were given, counted from 1.
        place: usize,
    },
    /// There is no such group, or it is of another kind.
    #[error("there is no group `{group}` of the kind that is meant")]
    NoSuchGroup {
        /// The name of the request.
        group: String,
    },
    /// A group would have no members.
    #[error("group `{group}` would have no members: rules that name it would match nothing")]
    EmptyGroup {
        /// The group.
        group: String,
    },
    /// A group would be in itself.
    #[error("group `{group}` would be in itself")]
    GroupCycle {
        /// The group.
        group: String,
    },
    /// The groups that are not as they were declared would have too many members.
    #[error(
        "the groups that are changed while the gateway runs would have {members} members or more: `acl-rules` allows {most}"
    )]
    GroupsFull {
        /// How many, at least.
        members: usize,
        /// How many they may have.
        most: usize,
    },
    /// A rule would match nothing.
    #[error(
        "rule {place} of access list `{list}` would match nothing: its groups would have no addresses of a family that it is about"
    )]
    NoFamily {
        /// The list.
        list: String,
        /// The place of the rule, counted from 1: in the request if it is new, or else in the list.
        place: usize,
    },
    /// A rule of another list would match nothing.
    #[error(
        "rule {place} of `{of}` would match nothing: its groups would have no addresses of a family that it is about"
    )]
    NoFamilyIn {
        /// The kind and the name of the list.
        of: String,
        /// The place of the rule in it, counted from 1.
        place: usize,
    },
    /// There is a list of this name.
    #[error("there is an access list with the name `{list}` already")]
    Exists {
        /// The list.
        list: String,
    },
    /// Interfaces name the list.
    #[error("cannot remove access list `{list}`: {} it", used_by(interfaces))]
    InUse {
        /// The list.
        list: String,
        /// The interfaces.
        interfaces: Vec<String>,
    },
    /// The list is one of the configuration's.
    #[error("access list `{list}` is declared in the configuration: remove it there")]
    Declared {
        /// The list.
        list: String,
    },
    /// Rules or other groups name the group.
    #[error("cannot remove group `{group}`: {} it", named_by(rules, others, groups))]
    GroupInUse {
        /// The group.
        group: String,
        /// The lists that have such rules, each with the rules' numbers, one or more.
        rules: Vec<(String, Vec<u32>)>,
        /// Other lists that have such rules, by kind and name, each with the rules' places.
        others: Vec<(String, Vec<u32>)>,
        /// The groups.
        groups: Vec<String>,
    },
    /// The group is one of the configuration's, and nobody changed it since.
    #[error("group `{group}` is declared in the configuration, and as it says there: remove it there")]
    GroupDeclared {
        /// The group.
        group: String,
    },
    /// There is no room.
    #[error("access list `{list}`: {full}")]
    NoRoom {
        /// The list.
        list: String,
        /// Which limit was met.
        full: Error,
    },
}

/// Rules of a list that an error names one by one, at most.
const NAMED: usize = 8;

/// The interfaces that use a list, as the subject of a sentence, and its verb.
fn used_by(interfaces: &[String]) -> String {
    let (s, uses) = if interfaces.len() == 1 { ("", "uses") } else { ("s", "use") };
    format!("interface{s} {} {uses}", interfaces.join(", "))
}

/// Names the rules and groups that use a group, as the subject of a sentence, and its verb.
fn named_by(rules: &[(String, Vec<u32>)], others: &[(String, Vec<u32>)], groups: &[String]) -> String {
    let of_rules = |numbers: &[u32]| {
        let named: Vec<String> = numbers.iter().take(NAMED).map(u32::to_string).collect();
        let more = match numbers.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("rule{} {}{more}", if numbers.len() > 1 { "s" } else { "" }, named.join(", "))
    };
    let lists = rules.iter().map(|(list, numbers)| format!("access list `{list}` ({})", of_rules(numbers)));
    let others = others.iter().map(|(of, places)| format!("`{of}` ({})", of_rules(places)));
    let all: Vec<String> = lists.chain(others).chain(groups.iter().map(|group| format!("group `{group}`"))).collect();
    format!("{} use{}", all.join(", "), if all.len() > 1 { "" } else { "s" })
}
