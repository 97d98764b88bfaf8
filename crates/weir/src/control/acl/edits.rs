//! The live edits of access lists and groups, in words.

use weir_plane::compile::{AclEditKind, AclEditRow, AclMembers, AclSaid};
use weir_plane::model;

use super::live::{member, word, written};
use crate::render::changes::{Edit, Kind};

/// Returns an edit in words: a line for it, or for each member of a group.
pub(crate) fn rows(gateway: &model::Gateway, row: AclEditRow) -> Vec<Edit> {
    let AclEditRow { name, edit, said: AclSaid { source, time } } = row;
    let line = |object: &str, edit, what| Edit {
        of: format!("{object} {name}"),
        edit,
        what,
        id: None,
        place: None,
        source: Some(source.to_string()),
        time: Some(time),
    };
    match edit {
        AclEditKind::Created => vec![line("acl", Kind::Created, String::new())],
        AclEditKind::Default(live, file) => {
            vec![line("acl", Kind::Default, format!("{}, in the file {}", word(live), word(file)))]
        }
        AclEditKind::Removed(rule) => vec![line("acl", Kind::Removed, written(gateway, &rule))],
        AclEditKind::Added { number, rule, anchor } => {
            let place = anchor.map(|(anchor, behind)| {
                format!("{} {}", if behind { "behind" } else { "before" }, written(gateway, &anchor))
            });
            vec![Edit { id: Some(number), place, ..line("acl", Kind::Added, written(gateway, &rule)) }]
        }
        AclEditKind::Members { added, removed } => {
            let members = |members: &AclMembers| {
                let groups = members.groups.iter().map(|group| format!("@{group}"));
                member(gateway, &members.own).into_iter().chain(groups).collect::<Vec<_>>()
            };
            let added = members(&added).into_iter().map(|member| line("group", Kind::Added, member));
            let removed = members(&removed).into_iter().map(|member| line("group", Kind::Removed, member));
            added.chain(removed).collect()
        }
    }
}
