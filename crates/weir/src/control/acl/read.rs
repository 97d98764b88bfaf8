//! Rules, changes and members of groups that come by the control socket, as a gateway takes them. Everything that is wrong is
//! found before anything is changed.

use std::sync::Arc;

use weir_plane::compile::{AclChange, AclEdit, AclGroup, AclMembers, At};
use weir_plane::model::{self, AclRule, Gateway, Group, Origin};

use super::super::remarks::Remarks;
use super::{Change, Which};
use crate::render::number::plural;
use crate::render::remark::Remark;
use crate::rules::acl::{self, Members, Role, Vocabulary};
use crate::rules::{Names, acl::Reading};

/// Changes of a batch, at most: more than that is a list of its own.
pub(super) const MOST_CHANGES: usize = 10_000;

/// Returns the names that rules may use, with the present groups of a gateway.
pub(in super::super) fn vocabulary(gateway: &Gateway, groups: &[AclGroup]) -> Vocabulary {
    let mut vocabulary = Vocabulary::of(gateway);
    for group in groups {
        let members = match group.clone() {
            AclGroup::Addresses(group) => Members::Addresses(group),
            AclGroup::Ports(group) => Members::Ports(group),
            AclGroup::Interfaces(group) => Members::Interfaces(group),
        };
        vocabulary.add_group(Arc::clone(group.name()), Some(members));
    }
    vocabulary
}

/// Where a rule stood in what was sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Spot {
    /// The change, from 1; of a batch.
    change: Option<usize>,
    /// The line, from 1, where there may be several.
    line: Option<u32>,
}

impl Spot {
    pub(super) fn remark(self, message: String, help: Option<&str>) -> Remark {
        let Spot { change, line } = self;
        Remark { change, line, message, help: help.map(str::to_owned), ..Remark::default() }
    }
}

/// A text of rules.
#[derive(Debug)]
pub(super) struct Text<'t> {
    text: &'t str,
    reading: Reading,
    change: Option<usize>,
}

impl<'t> Text<'t> {
    /// Reads a text, of a change of a batch or by itself; notes what is wrong or odd.
    pub(super) fn read(
        text: &'t str,
        change: Option<usize>,
        errors: &mut Remarks,
        warnings: &mut Remarks,
    ) -> Option<Text<'t>> {
        let alone = change.is_some() && !text.contains('\n');
        match acl::read(text) {
            Ok(reading) => {
                warnings.of_text(change, alone, &reading.warnings);
                Some(Text { text, reading, change })
            }
            Err(findings) => {
                errors.of_text(change, alone, &findings);
                None
            }
        }
    }

    /// Whether it has no rule.
    pub(super) fn is_empty(&self) -> bool {
        self.reading.lines.is_empty()
    }

    /// Its rules by what names stand for, and where each stood; notes what is wrong.
    pub(super) fn rules(&self, vocabulary: &Vocabulary, errors: &mut Remarks) -> Vec<(Spot, AclRule)> {
        let mut rules = Vec::with_capacity(self.reading.lines.len());
        // Lines are counted from the rule before.
        let (mut line, mut from) = (1, 0);
        for read in &self.reading.lines {
            let (start, end) = (read.start as usize, read.end as usize);
            line += self.text[from..start].bytes().filter(|&byte| byte == b'\n').count() as u32;
            from = start;
            let several = self.change.is_none() || self.text.contains('\n');
            let spot = Spot { change: self.change, line: several.then_some(line) };
            match read.rule.model(vocabulary, Origin::default()) {
                Ok(rule) => rules.push((spot, rule)),
                Err(wrong) => {
                    let before = self.text[..start].rfind('\n').map_or(0, |newline| newline + 1);
                    let indent = self.text[before..start].chars().filter(|&c| c != '\u{feff}').count() as u32;
                    for finding in wrong.into_iter().map(|wrong| wrong.finding(&self.text[start..end])) {
                        let Spot { change, line } = spot;
                        let column = Some(finding.column + indent);
                        let help = finding.help;
                        errors.push(|| Remark {
                            change,
                            line,
                            column,
                            message: finding.message,
                            help,
                            ..Remark::default()
                        });
                    }
                }
            }
        }
        rules
    }
}

/// Why a batch is refused.
#[derive(Debug)]
pub(super) enum Wrong {
    /// Something is wrong with what was sent.
    Invalid(Remarks),
    /// It would be right for another list.
    Conflict(Remarks),
}

/// A batch that was understood.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) edit: AclEdit,
    /// Where its rules stood, in their order.
    pub(super) spots: Vec<Spot>,
}

/// The parts of a batch that are read without the gateway.
pub(super) struct Changes<'c> {
    changes: &'c [Change],
    texts: Vec<Option<Text<'c>>>,
}

impl<'c> Changes<'c> {
    /// Reads the rules of changes; notes what is wrong or odd.
    pub(super) fn read(changes: &'c [Change], errors: &mut Remarks, warnings: &mut Remarks) -> Changes<'c> {
        let mut texts = Vec::with_capacity(changes.len());
        for (number, change) in (1..).zip(changes) {
            let (text, named) = match change {
                Change::Insert(insert) => {
                    let named = [insert.at.is_some(), insert.before.is_some(), insert.after.is_some()];
                    (Some(&insert.rules), named.into_iter().filter(|&named| named).count() <= 1)
                }
                Change::Delete(Which { id, at }) => (None, id.is_some() != at.is_some()),
                Change::Replace(replace) => (Some(&replace.rules), replace.id.is_some() != replace.at.is_some()),
            };
            let spot = Spot { change: Some(number), line: None };
            if !named {
                let message = match change {
                    Change::Insert(_) => "one of `at`, `before` and `after` says where, or none",
                    _ => "either `id` or `at` says which rule",
                };
                errors.push(|| spot.remark(message.to_owned(), None));
            }
            let text = text.and_then(|text| Text::read(text, Some(number), errors, warnings));
            if text.as_ref().is_some_and(Text::is_empty) {
                errors.push(|| spot.remark("there is no rule in it".to_owned(), None));
            }
            texts.push(text);
        }
        Changes { changes, texts }
    }

    /// Whether the ids of the list are needed to understand it.
    pub(super) fn need_ids(&self) -> bool {
        match self.changes {
            [Change::Insert(_)] => false,
            [Change::Delete(Which { at, .. })] => at.is_some(),
            _ => true,
        }
    }

    /// Returns the edit of a list with these ids, in their order. `None`: the edit itself finds rules that do not exist.
    pub(super) fn batch(&self, ids: Option<&[u32]>, vocabulary: &Vocabulary, errors: &Remarks) -> Result<Batch, Wrong> {
        let mut errors = errors.clone();
        let mut list = ids.map(|ids| List(ids.iter().copied().map(Some).collect()));
        let mut absent = Remarks::default();
        let mut edits = Vec::new();
        let mut spots = Vec::new();
        for (number, (change, text)) in (1..).zip(self.changes.iter().zip(&self.texts)) {
            let spot = Spot { change: Some(number), line: None };
            let read = text.as_ref().map_or_else(Vec::new, |text| text.rules(vocabulary, &mut errors));
            let count = read.len();
            let (places, rules): (Vec<Spot>, Vec<AclRule>) = read.into_iter().unzip();
            spots.extend(places);
            let mut missing = |message: String| absent.push(|| spot.remark(message, None));
            match change {
                Change::Insert(insert) => {
                    let at = match (insert.at, insert.before, insert.after) {
                        (Some(0), ..) => {
                            missing("places are counted from 1".to_owned());
                            continue;
                        }
                        (Some(place), ..) => At::Index(place - 1),
                        (_, Some(id), _) => At::Before(id),
                        (.., Some(id)) => At::After(id),
                        _ => At::End,
                    };
                    if let Some(list) = &mut list
                        && let Err(message) = list.insert(at, count)
                    {
                        missing(message);
                    }
                    edits.push(AclEdit::Insert { at, rules });
                }
                Change::Delete(which) => match which.find(list.as_ref()) {
                    Ok(None) => {}
                    Ok(Some(id)) => {
                        if let Some(list) = &mut list {
                            list.delete(id);
                        }
                        edits.push(AclEdit::Delete { rules: vec![id] });
                    }
                    Err(message) => missing(message),
                },
                Change::Replace(replace) => {
                    let which = Which { id: replace.id, at: replace.at };
                    match which.find(list.as_ref()) {
                        Ok(None) => {}
                        Ok(Some(id)) => {
                            if let Some(list) = &mut list {
                                // It was found there.
                                let _ = list.insert(At::Before(id), count);
                                list.delete(id);
                            }
                            edits.push(AclEdit::Insert { at: At::Before(id), rules });
                            edits.push(AclEdit::Delete { rules: vec![id] });
                        }
                        Err(message) => missing(message),
                    }
                }
            }
        }
        if !errors.is_empty() {
            absent.shown.into_iter().for_each(|remark| errors.push(|| remark));
            errors.shown.sort_by_key(|remark| (remark.change, remark.line, remark.column));
            return Err(Wrong::Invalid(errors));
        }
        if !absent.is_empty() {
            return Err(Wrong::Conflict(absent));
        }
        Ok(Batch { edit: together(edits), spots })
    }
}

/// Several changes as one.
fn together(mut edits: Vec<AclEdit>) -> AclEdit {
    if edits.len() == 1
        && let Some(edit) = edits.pop()
    {
        return edit;
    }
    let mut all = Vec::with_capacity(edits.len());
    for edit in edits {
        match edit {
            AclEdit::Insert { at, rules } => all.push(AclChange::Insert(at, rules)),
            AclEdit::Delete { rules } => all.extend(rules.into_iter().map(AclChange::Delete)),
            AclEdit::Batch(changes) => all.extend(changes),
            AclEdit::Replace { .. } => unreachable!("no change of a batch is a whole list"),
        }
    }
    AclEdit::Batch(all)
}

/// The ids of a list while a batch changes it; `None`: a rule that came by the batch.
struct List(Vec<Option<u32>>);

impl List {
    /// How many rules it has, in words.
    fn count(&self) -> String {
        plural(self.0.len() as u64, "rule")
    }

    fn position(&self, id: u32) -> Result<usize, String> {
        self.0.iter().position(|own| *own == Some(id)).ok_or_else(|| format!("the list has no rule with the id {id}"))
    }

    fn insert(&mut self, at: At, count: usize) -> Result<(), String> {
        let index = match at {
            At::Index(index) if index > self.0.len() => {
                return Err(format!("the list has {}: there is no place {}", self.count(), index + 1));
            }
            At::Index(index) => index,
            At::End => self.0.len(),
            At::Before(id) => self.position(id)?,
            At::After(id) => self.position(id)? + 1,
        };
        self.0.splice(index..index, std::iter::repeat_n(None, count));
        Ok(())
    }

    fn delete(&mut self, id: u32) {
        if let Ok(at) = self.position(id) {
            self.0.remove(at);
        }
    }
}

impl Which {
    /// Returns the id of the rule; `None`: it names none, which was reported.
    fn find(self, list: Option<&List>) -> Result<Option<u32>, String> {
        let found = match (self, list) {
            (Which { id: Some(id), .. }, Some(list)) => list.position(id).map(|_| id),
            (Which { id: Some(id), .. }, None) => Ok(id),
            (Which { at: Some(place), .. }, Some(list)) => match place.checked_sub(1).map(|index| list.0.get(index)) {
                None => Err("places are counted from 1".to_owned()),
                Some(None) => Err(format!("the list has {}: there is none at place {place}", list.count())),
                Some(Some(None)) => Err(format!("the rule at place {place} comes by this very batch")),
                Some(Some(Some(id))) => Ok(*id),
            },
            (Which { at: None, .. }, _) | (_, None) => return Ok(None),
        };
        found.map(Some)
    }
}

/// Reads the members of a group of a kind: its own, and the groups that it names.
pub(super) fn group(
    name: &str,
    role: Role,
    written: &[String],
    vocabulary: &Vocabulary,
) -> Result<(AclMembers, Remarks), Remarks> {
    let (mut errors, mut warnings) = (Remarks::default(), Remarks::default());
    let mut names = Names::default();
    let mut addresses: Vec<model::Addresses> = Vec::new();
    let mut ports = Vec::new();
    let mut interfaces = Vec::new();
    let mut groups: Vec<Arc<str>> = Vec::new();
    for (number, text) in (1..).zip(written) {
        let of = |spot: Option<usize>| (spot, true);
        let (change, alone) = of(Some(number));
        let found = match role {
            Role::Addresses => acl::parse_addresses(text, &mut names).map(|(read, odd)| {
                warnings.of_text(change, alone, &odd);
                match read {
                    acl::Addresses::Any => Ok(None),
                    acl::Addresses::Net(net) => {
                        addresses.push(model::Addresses::Net(net));
                        Ok(None)
                    }
                    acl::Addresses::Range(first, last) => {
                        addresses.push(model::Addresses::Range(first, last));
                        Ok(None)
                    }
                    acl::Addresses::Group(name) => vocabulary.group(&name, role).map(|_| Some(name)),
                }
            }),
            Role::Ports => acl::parse_ports(text, &mut names).map(|(read, odd)| {
                warnings.of_text(change, alone, &odd);
                match read {
                    acl::Ports::Any => Ok(None),
                    acl::Ports::Range(range) => {
                        ports.push(range);
                        Ok(None)
                    }
                    acl::Ports::Group(name) => vocabulary.group(&name, role).map(|_| Some(name)),
                }
            }),
            Role::Interfaces => Ok(match text.strip_prefix(acl::GROUP) {
                Some(name) => vocabulary.group(name, role).map(|_| Some(name.into())),
                None => vocabulary.interface(text).map(|index| {
                    interfaces.extend(index);
                    None
                }),
            }),
        };
        match found {
            Ok(Ok(named)) => groups.extend(named),
            Ok(Err(wrong)) => {
                let finding = wrong.finding(text);
                let column = Some(finding.column);
                let (message, help) = (finding.message, finding.help);
                errors.push(|| Remark { change, column, message, help, ..Remark::default() });
            }
            Err(findings) => errors.of_text(change, alone, &findings),
        }
    }
    if !errors.is_empty() {
        return Err(errors.of_members());
    }
    let warnings = warnings.of_members();
    let name = name.into();
    let own = match role {
        Role::Addresses => AclGroup::Addresses(Group { name, members: once(addresses) }),
        Role::Ports => AclGroup::Ports(Group { name, members: once(ports) }),
        Role::Interfaces => AclGroup::Interfaces(Group { name, members: once(interfaces) }),
    };
    Ok((AclMembers { own, groups: once(groups) }, warnings))
}

/// Each once, in their order.
fn once<T: Clone + Eq + std::hash::Hash>(members: Vec<T>) -> Arc<[T]> {
    let mut known = std::collections::HashSet::with_capacity(members.len());
    members.into_iter().filter(|member| known.insert(member.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Insert, Replace};
    use super::*;
    use crate::config;

    fn words() -> Vocabulary {
        let text = "version = 1\n[group.web]\nports = [80, 443]\n[[interface]]\nname = \"wan\"\nport = \"null\"\n";
        vocabulary(&config::parse_str("x.toml", text).gateway.unwrap(), &[])
    }

    fn insert(rules: &str) -> Insert {
        Insert { rules: rules.to_owned(), ..Insert::default() }
    }

    fn batch(changes: &[Change], ids: Option<&[u32]>) -> Result<AclEdit, Vec<String>> {
        let (mut errors, mut warnings) = (Remarks::default(), Remarks::default());
        let read = Changes::read(changes, &mut errors, &mut warnings);
        let result = read.batch(ids, &words(), &errors);
        result.map(|batch| batch.edit).map_err(|wrong| match wrong {
            Wrong::Invalid(remarks) | Wrong::Conflict(remarks) => {
                remarks.shown.iter().map(ToString::to_string).collect()
            }
        })
    }

    const ANY: &str = "deny ip from any to any";

    fn shape(edit: &AclEdit) -> Vec<String> {
        let AclEdit::Batch(changes) = edit else { panic!("{edit:?}") };
        let shape = |change: &AclChange| match change {
            AclChange::Insert(at, rules) => {
                let actions = rules.iter().map(|rule| format!(" {:?}", rule.action));
                format!("{at:?}{}", actions.collect::<String>())
            }
            AclChange::Delete(id) => format!("-{id}"),
            AclChange::Replace(id, _) => format!("~{id}"),
        };
        changes.iter().map(shape).collect()
    }

    #[test]
    fn one_change_is_done_in_place() {
        let alone = [Change::Insert(Insert { before: Some(4), ..insert(ANY) })];
        let AclEdit::Insert { at: At::Before(4), rules } = batch(&alone, None).unwrap() else { panic!() };
        assert_eq!(rules.len(), 1);
        let gone = [Change::Delete(Which { id: None, at: Some(2) })];
        assert_eq!(batch(&gone, Some(&[9, 8])), Ok(AclEdit::Delete { rules: vec![8] }));
    }

    #[test]
    fn each_change_finds_the_list_as_the_one_before_left_it() {
        let changes = [
            Change::Insert(Insert { at: Some(1), ..insert("permit ip from any to any\ndeny ip from any to any") }),
            // The rule that was the first.
            Change::Delete(Which { id: None, at: Some(3) }),
            Change::Replace(Replace { rules: ANY.into(), id: Some(8), at: None }),
            Change::Insert(Insert { after: Some(7), ..insert("permit ip from any to any\ndeny ip from any to any") }),
        ];
        assert_eq!(
            shape(&batch(&changes, Some(&[9, 8, 7])).unwrap()),
            ["Index(0) Permit Deny", "-9", "Before(8) Deny", "-8", "After(7) Permit Deny"]
        );
    }

    #[test]
    fn all_that_is_wrong_is_told_with_its_place() {
        let changes = [
            Change::Insert(insert("deny ip from any to any port 80")),
            Change::Insert(insert("deny ip from any to any\n  deny tcp from any to any port @wbe\n")),
            Change::Delete(Which { id: Some(77), at: None }),
            Change::Delete(Which::default()),
            Change::Insert(insert("# nothing")),
        ];
        let wrong = batch(&changes, Some(&[9])).unwrap_err();
        assert_eq!(wrong.len(), 5, "{wrong:#?}");
        assert!(wrong[0].starts_with("change 1, column 25: "), "{wrong:#?}");
        assert_eq!(wrong[1], "change 2, line 2, column 33: there is no group `wbe` (did you mean `@web`?)");
        assert_eq!(wrong[2], "change 3: the list has no rule with the id 77");
        assert_eq!(wrong[3], "change 4: either `id` or `at` says which rule");
        assert_eq!(wrong[4], "change 5: there is no rule in it");
    }

    #[test]
    fn places_that_are_not_there_are_conflicts() {
        let places = |at| [Change::Insert(Insert { at: Some(at), ..insert(ANY) }), Change::Insert(insert(ANY))];
        assert!(batch(&places(2), Some(&[9])).is_ok());
        assert_eq!(batch(&places(3), Some(&[9])).unwrap_err(), ["change 1: the list has 1 rule: there is no place 3"]);
        assert_eq!(batch(&places(0), Some(&[9])).unwrap_err(), ["change 1: places are counted from 1"]);
        let own = [Change::Insert(insert(ANY)), Change::Delete(Which { id: None, at: Some(2) })];
        assert_eq!(batch(&own, Some(&[9])).unwrap_err(), ["change 2: the rule at place 2 comes by this very batch"]);
    }

    #[test]
    fn groups_have_members_of_their_kind() {
        let members = |role, members: &[&str]| {
            let members: Vec<String> = members.iter().map(ToString::to_string).collect();
            group("new", role, &members, &words())
                .map(|(members, _)| members)
                .map_err(|remarks| remarks.shown.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        let ports = members(Role::Ports, &["22", "@web", "80", "22", "8000-8999", "@web"]).unwrap();
        assert_eq!(*ports.groups, ["web".into()], "what is in it is found when it is needed");
        let AclGroup::Ports(own) = ports.own else { panic!() };
        assert_eq!(*own.members, [22..=22, 80..=80, 8000..=8999]);
        let hosts = members(Role::Addresses, &["10.0.0.1", "2001:db8::/32"]).unwrap();
        assert_eq!((hosts.own.len(), hosts.groups.len()), (2, 0));
        let wrong = members(Role::Addresses, &["10.0.0.300", "@web", "@none"]).unwrap_err();
        assert_eq!(wrong.len(), 3, "{wrong:#?}");
        assert!(wrong[1].ends_with("`web` is a group of ports, not of addresses"), "{wrong:#?}");
        let wrong = members(Role::Interfaces, &["wan", "wam"]).unwrap_err();
        assert_eq!(wrong, ["member 2, column 1: there is no interface `wam` (did you mean `wan`?)"]);
    }
}
