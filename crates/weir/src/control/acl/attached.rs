//! Access lists that live edits attach to interfaces, or detach from them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_plane::compile::patch::{Anchor, Edit, Effect, Gap, Slot, Spot, Why, rebase};
use weir_plane::model::{Gateway, Interface};

use super::super::refusal::{Kind, Refusal};
use super::super::source;
use crate::render::acl::attached::Attached;
use crate::render::changes;
use crate::render::reloaded::Lost;
use crate::suggest::closest;

/// Lists that edits attach to an interface and direction, and lists of the file that they detach, at most.
const MOST: usize = 64;

/// The body of `POST /v1/acl/LIST/attach` and `POST /v1/acl/LIST/detach`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttachRequest {
    /// The source of the edit.
    #[serde(default = "source::usual")]
    pub source: String,
    /// The interface.
    pub interface: String,
    /// The direction of the packets.
    pub direction: Direction,
    /// The list in front of which an attached list stands; `None`: it is the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
}

/// The direction of packets at an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// Packets that come in
    In,
    /// Packets that leave
    Out,
}

impl Direction {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Direction::In => "in",
            Direction::Out => "out",
        }
    }

    fn is_output(self) -> bool {
        self == Direction::Out
    }
}

/// The source of an edit, and its time in seconds of the Unix epoch.
type Said = (String, u64);

/// The lists of an interface and direction, with their edits.
#[derive(Debug, Clone)]
struct Edited {
    declared: Vec<String>,
    lists: Vec<(String, Spot, Option<Said>)>,
    detached: BTreeMap<u32, Said>,
}

/// The edits, by interface and direction.
#[derive(Debug, Clone, Default)]
pub(crate) struct Attachments(BTreeMap<(String, Direction), Edited>);

impl Edited {
    fn new(declared: Vec<String>) -> Edited {
        let lists =
            declared.iter().cloned().zip(0..).map(|(name, index)| (name, Spot::Declared(index), None)).collect();
        Edited { declared, lists, detached: BTreeMap::new() }
    }

    fn edits(&self) -> usize {
        self.detached.len() + self.lists.iter().filter(|(_, spot, _)| matches!(spot, Spot::Added(_))).count()
    }

    fn names(&self) -> Vec<String> {
        self.lists.iter().map(|(name, ..)| name.clone()).collect()
    }

    fn attach(&mut self, list: &str, at: usize, said: Said) {
        let spot = |at: usize| self.lists.get(at).map(|(_, spot, _)| *spot);
        let gap = Gap { previous: at.checked_sub(1).and_then(spot), next: spot(at), declared: self.declared.len() };
        let entry = match gap.declared().find(|&index| self.declared[index as usize] == list) {
            Some(index) => {
                self.detached.remove(&index);
                (list.to_owned(), Spot::Declared(index), None)
            }
            None => (list.to_owned(), Spot::Added(gap.anchor(false)), Some(said)),
        };
        self.lists.insert(at, entry);
    }

    fn detach(&mut self, at: usize, said: Said) {
        if let (_, Spot::Declared(index), _) = self.lists.remove(at) {
            self.detached.insert(index, said);
        }
    }

    /// Applies the edits to other lists; `is_there` knows the lists that exist. Also returns the edits that do not apply, each with
    /// whether it attached a list.
    fn rebased(&self, declared: Vec<String>, is_there: impl Fn(&str) -> bool) -> (Edited, Vec<(String, bool)>) {
        let mut lost = Vec::new();
        let stays = |(name, spot, _): &&(String, Spot, Option<Said>)| match spot {
            Spot::Added(_) if !is_there(name) => {
                lost.push((format!("list `{name}` is no longer attached: it does not exist"), true));
                false
            }
            _ => true,
        };
        let lists: Vec<&(String, Spot, Option<Said>)> = self.lists.iter().filter(stays).collect();
        let items: Vec<(String, Spot)> = lists.iter().map(|(name, spot, _)| (name.clone(), *spot)).collect();
        let rebased = rebase(&self.declared, &items, &declared, |_| Effect { opens: true, closes: true }, |_, _| true);
        for (edit, why) in rebased.lost {
            let why = match why {
                Why::AnchorGone(index) | Why::AnchorAmbiguous(index) => {
                    format!("the interface no longer names `{}` beside it", self.declared[index as usize])
                }
                Why::NoLongerEmpty => "the interface had no lists, and has some".to_owned(),
                Why::RuleAmbiguous => "the interface names it several times".to_owned(),
                Why::Passed(item) => format!("the file moves `{}` to its other side", items[item].0),
            };
            lost.push(match edit {
                Edit::Added(item) => (format!("list `{}` is no longer attached: {why}", items[item].0), true),
                Edit::Removed(index) => {
                    (format!("list `{}` is no longer detached: {why}", self.declared[index as usize]), false)
                }
            });
        }
        let place = |slot: Slot| match slot {
            Slot::Declared(index) => (declared[index as usize].clone(), Spot::Declared(index), None),
            Slot::Added(item, anchor) => (items[item].0.clone(), Spot::Added(anchor), lists[item].2.clone()),
        };
        let lists: Vec<_> = rebased.slots.into_iter().map(place).collect();
        let said: BTreeMap<&str, &Said> =
            self.detached.iter().map(|(&index, said)| (self.declared[index as usize].as_str(), said)).collect();
        let is_listed = |index: u32| lists.iter().any(|(_, spot, _)| *spot == Spot::Declared(index));
        let detached = (0..).zip(&declared).filter(|(index, _)| !is_listed(*index));
        let detached =
            detached.filter_map(|(index, name)| Some((index, (*said.get(name.as_str())?).clone()))).collect();
        (Edited { declared, lists, detached }, lost)
    }
}

impl Attachments {
    /// Attaches a list to an interface on a copy of a gateway, whose live lists are `live`; or detaches it.
    pub(crate) fn change(
        &self,
        gateway: &Gateway,
        live: &[String],
        list: &str,
        (request, attach): (&AttachRequest, bool),
        time: u64,
    ) -> Result<(Gateway, Attachments, Attached), Box<Refusal>> {
        let AttachRequest { source, interface, direction, before } = request;
        let mut lists: Vec<String> = gateway.acls.iter().map(|list| list.name.clone()).collect();
        lists.extend(live.iter().filter(|name| !gateway.acls.iter().any(|list| list.name == **name)).cloned());
        let found = gateway.interfaces.iter().position(|known| known.name == *interface).ok_or_else(|| {
            let names: Vec<String> = gateway.interfaces.iter().map(|interface| interface.name.clone()).collect();
            let help = help(interface, &names);
            Refusal::new(Kind::NotFound, format!("there is no interface `{interface}`; {help}"))
        })?;
        if !lists.iter().any(|known| known == list) {
            let message = format!("there is no access list with the name `{list}`; {}", help(list, &lists));
            return Err(Refusal { lists, ..Refusal::new(Kind::UnknownList, message) }.into());
        }
        let key = (interface.clone(), *direction);
        let of = format!("interface {interface}, {}", direction.name());
        let refuse =
            |message: String| Box::new(Refusal::new(Kind::Conflict, format!("{message}; nothing was changed")));
        let declared = |interface: &Interface| names(gateway, interface, direction.is_output());
        let new = || Edited::new(declared(&gateway.interfaces[found]));
        let mut edited = self.0.get(&key).cloned().unwrap_or_else(new);
        let at = |list: &str| edited.lists.iter().position(|(name, ..)| name == list);
        let said = (source.clone(), time);
        match (attach, at(list)) {
            (true, Some(_)) => return Err(refuse(format!("{of} has the list `{list}` already"))),
            (false, None) => {
                return Err(refuse(format!("{of} does not have the list `{list}`; {}", help(list, &edited.names()))));
            }
            (false, Some(place)) => edited.detach(place, said),
            (true, None) => {
                let place = match before {
                    None => edited.lists.len(),
                    Some(before) => at(before).ok_or_else(|| {
                        refuse(format!("{of} does not have the list `{before}`; {}", help(before, &edited.names())))
                    })?,
                };
                edited.attach(list, place, said);
            }
        }
        if edited.edits() > MOST {
            return Err(Refusal::new(
                Kind::NoRoom,
                format!("{of} would have more than {MOST} attached and detached lists; nothing was changed"),
            )
            .into());
        }
        let report = Attached {
            interface: interface.clone(),
            direction: direction.name().to_owned(),
            list: list.to_owned(),
            attached: attach,
            lists: edited.names(),
            others: None,
        };
        let mut all = self.clone();
        let mut gateway = gateway.clone();
        put(&mut gateway.interfaces[found], *direction, &edited);
        match edited.edits() {
            0 => drop(all.0.remove(&key)),
            _ => drop(all.0.insert(key, edited)),
        }
        Ok((gateway, all, report))
    }

    /// Applies the edits to a new configuration; `live` are the live lists. Returns the edits, the edits that end, and whether
    /// packets might pass without one of these.
    pub(crate) fn carry(&self, gateway: &mut Gateway, live: &[String]) -> (Attachments, Vec<Lost>, bool) {
        let (mut all, mut lost, mut protects) = (Attachments::default(), Vec::new(), false);
        for ((interface, direction), edited) in &self.0 {
            let of = format!("interface {interface}, {}", direction.name());
            let Some(found) = gateway.interfaces.iter().position(|known| known.name == *interface) else {
                let attached = edited.lists.iter().any(|(_, spot, _)| matches!(spot, Spot::Added(_)));
                protects |= attached;
                let part = "the configuration does not have it: its attached lists are gone";
                lost.push(Lost { of, rules: 0, parts: vec![part.to_owned()], more: 0 });
                continue;
            };
            let declared = names(gateway, &gateway.interfaces[found], direction.is_output());
            let is_there =
                |name: &str| gateway.acls.iter().any(|list| list.name == name) || live.iter().any(|list| list == name);
            let (carried, gone) = edited.rebased(declared, is_there);
            protects |= gone.iter().any(|(_, attached)| *attached);
            if !gone.is_empty() {
                let parts = gone.into_iter().map(|(part, _)| part).collect();
                lost.push(Lost { of, rules: 0, parts, more: 0 });
            }
            if carried.edits() > 0 {
                put(&mut gateway.interfaces[found], *direction, &carried);
                all.0.insert((interface.clone(), *direction), carried);
            }
        }
        (all, lost, protects)
    }

    /// Returns the lists of each interface and direction with edits.
    pub(crate) fn lists(&self) -> impl Iterator<Item = (&str, Direction, Vec<String>)> {
        self.0.iter().map(|((interface, direction), edited)| (interface.as_str(), *direction, edited.names()))
    }

    /// Returns the edits.
    pub(crate) fn edits(&self) -> Vec<changes::Edit> {
        let mut edits = Vec::new();
        for ((interface, direction), edited) in &self.0 {
            let mut edit = |edit, what: &str, place, (source, time): &Said| {
                edits.push(changes::Edit {
                    of: format!("interface {interface}"),
                    edit,
                    what: format!("{what} ({})", direction.name()),
                    id: None,
                    place,
                    source: Some(source.clone()),
                    time: Some(*time),
                });
            };
            for (name, spot, said) in &edited.lists {
                let (Spot::Added(anchor), Some(said)) = (spot, said) else { continue };
                let place = match *anchor {
                    Anchor::Before(index) => Some(format!("before {}", edited.declared[index as usize])),
                    Anchor::Behind(index) => Some(format!("behind {}", edited.declared[index as usize])),
                    Anchor::Nothing => None,
                };
                edit(changes::Kind::Attached, name, place, said);
            }
            for (&index, said) in &edited.detached {
                edit(changes::Kind::Detached, &edited.declared[index as usize], None, said);
            }
        }
        edits
    }
}

/// The lists of an interface as the configuration names them, each once.
fn names(gateway: &Gateway, interface: &Interface, output: bool) -> Vec<String> {
    let lists = if output { &interface.access.acl_out } else { &interface.access.acl_in };
    let mut names: Vec<String> = Vec::new();
    for list in lists.iter().map(|list| &gateway.acls[usize::from(list.0)].name) {
        if !names.contains(list) {
            names.push(list.clone());
        }
    }
    names
}

fn put(interface: &mut Interface, direction: Direction, edited: &Edited) {
    let lists = edited.lists.iter().map(|(name, ..)| name.as_str().into()).collect();
    interface.access.live_lists[usize::from(direction.is_output())] = (edited.edits() > 0).then_some(lists);
}

fn help(name: &str, names: &[String]) -> String {
    match closest(name, names) {
        Some(known) => format!("did you mean `{known}`?"),
        None if names.is_empty() => "there is none".to_owned(),
        None => format!("there are {}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "acl = { in = [\"a\", \"b\"] }";

    fn gateway(lists: &str) -> Gateway {
        let text = format!(
            "version = 1\n[[interface]]\nname = \"wan\"\nport = \"null\"\n{lists}\n\
             [acl.a]\nrules = []\n[acl.b]\nrules = []\n[acl.c]\nrules = []\n"
        );
        let loaded = crate::config::parse_str("test.toml", &text);
        let findings = loaded.text(false);
        loaded.gateway.unwrap_or_else(|| panic!("{findings}"))
    }

    fn request(before: Option<&str>) -> AttachRequest {
        let (source, interface) = ("noc".to_owned(), "wan".to_owned());
        AttachRequest { source, interface, direction: Direction::In, before: before.map(str::to_owned) }
    }

    fn lists(gateway: &Gateway) -> Vec<String> {
        gateway.lists_of(&gateway.interfaces[0], false).into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn lists_come_to_interfaces_and_go() {
        let live = ["live".to_owned()];
        let before = gateway(TWO);
        let attach = |all: &Attachments, gateway: &Gateway, list: &str, before| {
            all.change(gateway, &live, list, (&request(before), true), 7)
        };
        let (now, all, report) = attach(&Attachments::default(), &before, "live", Some("b")).unwrap();
        assert_eq!((lists(&now), report.lists), (vec!["a".into(), "live".into(), "b".into()], lists(&now)));
        assert_eq!(lists(&before), ["a", "b"]);
        let edits = all.edits();
        assert_eq!((edits[0].what.as_str(), edits[0].place.as_deref()), ("live (in)", Some("before b")));
        let message = |refused: Result<(Gateway, Attachments, Attached), Box<Refusal>>| refused.unwrap_err().message;
        assert!(message(attach(&all, &now, "live", None)).contains("has the list `live` already"));
        assert!(message(attach(&all, &now, "lvie", None)).contains("did you mean `live`?"));
        assert!(message(attach(&all, &now, "c", Some("d"))).contains("does not have the list `d`"));
        let detach = |all: &Attachments, gateway: &Gateway, list: &str| {
            all.change(gateway, &live, list, (&request(None), false), 8)
        };
        assert!(message(detach(&all, &now, "c")).contains("does not have the list `c`"));
        let (without, all, _) = detach(&all, &now, "a").unwrap();
        assert_eq!(lists(&without), ["live", "b"]);
        assert_eq!(all.edits()[1].edit, changes::Kind::Detached);
        // Opposite edits cancel.
        let (now, all, _) = attach(&all, &without, "a", Some("live")).unwrap();
        let (now, all, _) = detach(&all, &now, "live").unwrap();
        assert_eq!((all.edits(), lists(&now)), (vec![], vec!["a".into(), "b".into()]));
        assert_eq!(now.interfaces[0].access.live_lists, [None, None]);
        // None is left.
        let (now, all, _) = detach(&all, &now, "a").unwrap();
        let (now, _, _) = detach(&all, &now, "b").unwrap();
        assert_eq!((lists(&now).len(), now.interfaces[0].access.live_lists[0].is_some()), (0, true));
    }

    #[test]
    fn reloads_keep_attached_lists_beside_their_anchors() {
        let live = ["live".to_owned()];
        let before = gateway(TWO);
        let change = |all: &Attachments, gateway: &Gateway, list: &str, before, attach| {
            all.change(gateway, &live, list, (&request(before), attach), 7).unwrap()
        };
        let (now, all, _) = change(&Attachments::default(), &before, "live", Some("b"), true);
        let (_, all, _) = change(&all, &now, "a", None, false);
        let carried = |text: &str, live: &[String]| {
            let mut gateway = gateway(text);
            let (all, lost, protects) = all.carry(&mut gateway, live);
            let lost: Vec<String> = lost.iter().flat_map(Lost::lines).collect();
            (lists(&gateway), lost, protects, all.edits().len())
        };
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        assert_eq!(carried(TWO, &live), (words(&["live", "b"]), vec![], false, 2));
        let other = "acl = { in = [\"a\", \"c\", \"b\"] }";
        assert_eq!(carried(other, &live), (words(&["c", "live", "b"]), vec![], false, 2));
        let (now, lost, protects, edits) = carried("acl = { in = [\"a\", \"c\"] }", &live);
        assert_eq!((now, protects, edits), (words(&["c"]), true, 1));
        assert_eq!(
            lost,
            ["interface wan, in: list `live` is no longer attached: the interface no longer names `b` beside it"]
        );
        let (now, lost, protects, _) = carried(TWO, &[]);
        assert_eq!((now, lost.len(), protects), (words(&["b"]), 1, true));
        // The file says what the edits say.
        let (_, all, _) = change(&Attachments::default(), &before, "c", None, true);
        let mut saved = gateway("acl = { in = [\"a\", \"b\", \"c\"] }");
        let (all, lost, _) = all.carry(&mut saved, &[]);
        assert_eq!((all.edits(), lost, lists(&saved)), (vec![], vec![], words(&["a", "b", "c"])));
    }
}
