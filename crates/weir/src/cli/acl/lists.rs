//! `weir acl list`, `insert`, `delete`, `change`, `replace`, `create`, `remove` and `group`. Each call is one batch: all of it
//! happens, or nothing.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};

use super::super::edit::{Editor, Live, Source, path_of, rules_of, source_name};
use super::super::error::Error;
use super::super::output::print;
use super::super::query::target;
use super::super::text::Input;
use crate::control::acl::attached::{AttachRequest, Direction};
use crate::control::acl::{Change, Expect, GroupKind, GroupRequest, Insert, Replace, Which};
use crate::control::source;
use crate::render::Report as _;
use crate::render::acl::attached::Attached;
use crate::render::acl::changed::{Changed, Regrouped};
use crate::render::acl::rules::Rules;
use crate::rules::acl::Rule;

/// The operations on lists.
#[derive(Debug, Subcommand)]
pub(super) enum Lists {
    /// Prints the rules of a list, one a line, as they can be read again
    List {
        /// The list
        list: String,
    },
    /// Inserts rules into a list: behind all others, unless an option names the place
    Insert {
        /// The list
        list: String,
        /// Rules, each in quotes: `'permit tcp from any to 192.0.2.1 port 443'`; a single one may be several words
        #[arg(required = true, num_args = 1.., value_name = "RULE")]
        rules: Vec<String>,
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        source: Source,
    },
    /// Deletes rules of a list
    Delete {
        /// The list
        list: String,
        /// Their ids, as `weir show acl LIST` shows them; or rules, each in quotes, of which the list has one each
        #[arg(required_unless_present = "at", num_args = 1.., value_name = "ID|RULE")]
        rules: Vec<String>,
        /// The rules at these places, from 1, as they are before any of them goes: `--at 1 3`
        #[arg(long, num_args = 1.., value_delimiter = ',', conflicts_with = "rules", value_name = "N",
            value_parser = clap::value_parser!(u32).range(1..))]
        at: Vec<u32>,
        #[command(flatten)]
        source: Source,
    },
    /// Puts a rule in the place of another
    Change {
        /// The list
        list: String,
        /// The id of the rule to replace, as `weir show acl LIST` shows it
        id: u32,
        /// Rules, each in quotes; a single one may be several words
        #[arg(required = true, num_args = 1.., value_name = "RULE")]
        rules: Vec<String>,
        #[command(flatten)]
        source: Source,
    },
    /// Replaces all rules of a list by the rules of a file; rules in both keep their counters
    Replace {
        /// The list
        list: String,
        /// Rules, one a line, each with a line end; `-`: those on standard input
        file: PathBuf,
        /// The file may have no rule: then the list loses all of its own
        #[arg(long)]
        allow_empty: bool,
        #[command(flatten)]
        more: More,
    },
    /// Creates a list that the configuration does not have, with the rules of a file or none; `attach` gives it to interfaces
    Create {
        /// The list
        list: String,
        /// Rules, one a line, each with a line end; `-`: those on standard input
        file: Option<PathBuf>,
        #[command(flatten)]
        more: More,
    },
    /// Attaches a list to an interface: behind all its other lists, unless an option names the place
    Attach {
        /// The list
        list: String,
        /// The interface
        interface: String,
        /// The direction of the packets
        #[arg(value_enum)]
        direction: Direction,
        /// Before this list of the interface
        #[arg(long, value_name = "LIST")]
        before: Option<String>,
        #[command(flatten)]
        source: Source,
    },
    /// Detaches a list from an interface
    Detach {
        /// The list
        list: String,
        /// The interface
        interface: String,
        /// The direction of the packets
        #[arg(value_enum)]
        direction: Direction,
        #[command(flatten)]
        source: Source,
    },
    /// Removes a list that was created and that no interface uses
    Remove {
        /// The list
        list: String,
    },
    /// Sets the members of a group, in all rules that name it at once
    Group {
        /// The group
        group: String,
        /// All its members from now on: addresses, ports or interfaces, as the group has them, and `@others`
        #[arg(required_unless_present = "remove", num_args = 1.., value_name = "MEMBER")]
        members: Vec<String>,
        /// Takes back what was set: removes a group that the configuration does not have, unless something names it; any
        /// other is as configured again
        #[arg(long, conflicts_with_all = ["members", "kind", "name"])]
        remove: bool,
        /// Kind of members; needed for a new group
        #[arg(long, value_enum)]
        kind: Option<GroupKind>,
        #[command(flatten)]
        source: Source,
    },
}

/// Where in a list.
#[derive(Debug, Clone, Copy, Args)]
#[group(multiple = false)]
pub(in super::super) struct Place {
    /// So that the first of them is the Nth rule of the list
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    at: Option<u32>,
    /// Before the rule with this id
    #[arg(long, value_name = "ID")]
    before: Option<u32>,
    /// Behind the rule with this id
    #[arg(long, value_name = "ID")]
    after: Option<u32>,
}

impl Place {
    /// Rules that are to come there.
    pub(in super::super) fn insert(&self, rules: &[String]) -> Insert {
        let Place { at, before, after } = *self;
        Insert { rules: text(rules), at: at.map(|at| at as usize), before, after }
    }
}

/// The properties of a list beside its rules.
#[derive(Debug, Args)]
pub(super) struct More {
    /// The action for packets that no rule matches [default: unchanged; `next` for a new list]
    #[arg(long, value_enum, value_name = "ACTION")]
    default: Option<Default>,
    /// The source that the rules belong to [default: the file's name, or `api`]
    #[arg(long, value_name = "NAME", value_parser = source_name)]
    source: Option<String>,
}

/// The action for packets that no rule matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Default {
    /// The next list of the interface decides; behind the last one they are denied
    Next,
    /// They go on
    Permit,
    /// They are dropped
    Deny,
    /// They are dropped, and their senders notified
    Reject,
}

impl Default {
    const fn name(self) -> &'static str {
        match self {
            Default::Next => "next",
            Default::Permit => "permit",
            Default::Deny => "deny",
            Default::Reject => "reject",
        }
    }
}

impl Lists {
    pub(super) fn run(&self, live: &Live) -> Result<(), Error> {
        let editor = live.editor();
        let batch = |list: &str, source: &Source, changes| editor.batch::<Changed>(&path(list), source, changes);
        match self {
            Lists::List { list } => {
                let (rules, json) = editor.client.show::<Rules>(&path(list))?;
                if editor.json { print(&json) } else { print(&rules.file()) }
            }
            Lists::Insert { list, rules, place, source } => {
                batch(list, source, vec![Change::Insert(place.insert(rules))])
            }
            Lists::Delete { list, rules, at, source } => {
                let ids = ids(&editor, list, rules)?;
                batch(list, source, deletions(&ids, at))
            }
            Lists::Change { list, id, rules, source } => {
                let change = Change::Replace(Replace { rules: text(rules), id: Some(*id), at: None });
                batch(list, source, vec![change])
            }
            Lists::Replace { list, file, allow_empty, more } => {
                put(&editor, list, Some(file), more, Expect::Existing, *allow_empty)
            }
            Lists::Create { list, file, more } => put(&editor, list, file.as_deref(), more, Expect::New, false),
            Lists::Attach { list, interface, direction, before, source } => {
                attach(&editor, list, "attach", (interface, *direction, before.clone()), source)
            }
            Lists::Detach { list, interface, direction, source } => {
                attach(&editor, list, "detach", (interface, *direction, None), source)
            }
            Lists::Remove { list } => editor.client.delete(&path(list)).map(drop).map_err(Error::from),
            Lists::Group { group, remove: true, .. } => {
                editor.report::<Regrouped>(editor.client.delete(&group_path(group)), None)
            }
            Lists::Group { group, members, kind, source, remove: false } => {
                let order = GroupRequest { source: source.name.clone(), kind: *kind, members: members.clone() };
                editor.report::<Regrouped>(editor.client.put_json(&group_path(group), &order), None)
            }
        }
    }
}

/// Returns the ids of rules that are given by id or by their text.
fn ids(editor: &Editor, list: &str, rules: &[String]) -> Result<Vec<u32>, Error> {
    let mut listed: Option<Rules> = None;
    let mut ids = Vec::with_capacity(rules.len());
    for text in rules {
        if let Ok(id) = text.parse() {
            ids.push(id);
            continue;
        }
        let rule = text.parse::<Rule>().map_err(|_| {
            let shown = text.escape_debug();
            Error::Usage(format!(
                "expected the id of a rule or a rule, found `{shown}`; `weir show acl {list}` shows both"
            ))
        })?;
        if listed.is_none() {
            listed = Some(editor.client.show::<Rules>(&path(list))?.0);
        }
        let all = listed.as_ref().map_or(&[][..], |listed| &listed.rules);
        let text = rule.to_string();
        let found: Vec<u32> = all.iter().filter(|own| own.rule == text).map(|own| own.id).collect();
        match found[..] {
            [id] => ids.push(id),
            [] => {
                let message =
                    format!("{list} has no rule `{text}`; `weir show acl {list}` shows them; nothing was changed");
                return Err(Error::Failed(message));
            }
            _ => {
                let found: Vec<String> = found.iter().map(ToString::to_string).collect();
                let message =
                    format!("several rules of {list} read so; name the ids: {}; nothing was changed", found.join(", "));
                return Err(Error::Failed(message));
            }
        }
    }
    Ok(ids)
}

fn path(list: &str) -> String {
    path_of("acl", list)
}

fn group_path(group: &str) -> String {
    path_of("group", group)
}

/// A line for each rule.
fn text(rules: &[String]) -> String {
    rules_of(rules).join("\n")
}

/// Places are those of the list as it is: the last ones go first.
pub(in super::super) fn deletions(ids: &[u32], at: &[u32]) -> Vec<Change> {
    let mut places = at.to_vec();
    places.sort_unstable_by_key(|&place| std::cmp::Reverse(place));
    places.dedup();
    let by_place = places.into_iter().map(|place| Which { id: None, at: Some(place as usize) });
    by_place.chain(ids.iter().map(|&id| Which { id: Some(id), at: None })).map(Change::Delete).collect()
}

fn attach(
    editor: &Editor,
    list: &str,
    what: &str,
    (interface, direction, before): (&str, Direction, Option<String>),
    source: &Source,
) -> Result<(), Error> {
    let order = AttachRequest { source: source.name.clone(), interface: interface.to_owned(), direction, before };
    let json = editor.client.post(&format!("{}/{what}", path(list)), &order)?;
    if editor.json { print(&json) } else { print(&editor.client.read::<Attached>(&json)?.text()) }
}

fn put(
    editor: &Editor,
    list: &str,
    file: Option<&Path>,
    more: &More,
    expect: Expect,
    allow_empty: bool,
) -> Result<(), Error> {
    let input = file.map(Input::of);
    let source = match (&more.source, input) {
        (Some(source), _) => source.clone(),
        (None, Some(input)) => input.source()?,
        (None, None) => source::usual(),
    };
    let text = input.map_or(Ok(String::new()), |input| input.read_whole(true))?;
    let default = more.default.map(|default| default.name().to_owned());
    let query = [
        ("source", Some(source)),
        ("default", default),
        ("expect", Some(expect.name().to_owned())),
        ("allow-empty", allow_empty.then(|| "true".to_owned())),
    ];
    editor.report::<Changed>(editor.client.put(&target(&path(list), query), "text/plain", text), input)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_before_any_rule_went() {
        let by = |change: Change| match change {
            Change::Delete(Which { id: Some(id), at: None }) => format!("id {id}"),
            Change::Delete(Which { id: None, at: Some(at) }) => format!("at {at}"),
            other => panic!("{other:?}"),
        };
        let deleted: Vec<String> = deletions(&[7, 5], &[2, 9, 2]).into_iter().map(by).collect();
        assert_eq!(deleted, ["at 9", "at 2", "id 7", "id 5"]);
    }

    #[test]
    fn rules_are_lines() {
        let words = |words: &[&str]| text(&words.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(words(&["permit ip from any to any", "deny ip from any to any"]).lines().count(), 2);
        assert_eq!(words(&["deny", "ip", "from", "any", "to", "any"]), "deny ip from any to any");
    }
}
