//! What a model wants of lists, made beside what runs: to be put into force as a whole, or forgotten.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use weir_table::classify::Error;
use weir_table::sav::NoRoom;

use super::chains::{Arranged, next_number};
use super::compare::{Known, same_list};
use super::dropped::{Lost, LostEdits, opens};
use super::groups;
use super::list::{List, table};
use super::nested::Live;
use super::order::{Entry, Order};
use super::reapply::{Carried, Carry, Narrowed};
use super::rebased::Rebased;
use super::resolve::All;
use super::section::{Full, Sequence};
use super::store::{Input, Store, sequence};
use crate::compile::boxes::count;
use crate::compile::table_full::TableFull;
use crate::model::{AclList, AclRule, Gateway, Interface, Origin};
use crate::root::acl::NONE;

/// What [`Store::prepare`] made: to be put into force, or given back.
#[derive(Default)]
pub(in crate::compile) struct Staged {
    /// In the order of the model.
    pub(super) lists: Vec<Slot>,
    /// Those that were made while the gateway ran, and stay.
    pub(super) created: Vec<Slot>,
    pub(super) live_groups: Live,
    pub(super) lost: Vec<LostEdits>,
    pub(super) arranged: Arranged,
    /// By the model's index of an interface: its chains, in and out.
    pub(super) interfaces: Vec<(u16, u16)>,
    /// By the numbers of lists that are made anew: the numbers that they do not have any more.
    pub(super) gone: HashMap<u32, Vec<u32>>,
    /// Numbers that are new.
    fresh: Vec<u32>,
}

/// A list, with its number.
pub(super) enum Slot {
    /// It means what it meant. By another model what its rules name has other indices, and they stand elsewhere.
    Keep(u32, Option<Box<List>>),
    /// Anew.
    Fresh(u32, Box<List>),
}

impl Slot {
    pub(super) fn number(&self) -> u32 {
        let (Slot::Keep(number, _) | Slot::Fresh(number, _)) = self;
        *number
    }
}

impl Store {
    /// Makes what a model wants and what is not there yet.
    pub(in crate::compile) fn prepare(&self, input: Input<'_>) -> Result<Staged, TableFull> {
        let mut staged = Staged::default();
        match self.stage(input, &mut staged) {
            Ok(()) => Ok(staged),
            Err(full) => {
                self.abandon(staged);
                Err(full)
            }
        }
    }

    /// Forgets what was made.
    pub(in crate::compile) fn abandon(&self, staged: Staged) {
        self.numbers.give_back(staged.fresh);
    }

    /// Whether some list or group was edited.
    pub(in crate::compile) fn has_edits(&self) -> bool {
        !self.live_groups.changed.is_empty() || self.lists.iter().flatten().any(List::has_edits)
    }

    /// Returns the edits that would end with a model, and that protect: without them more packets might pass.
    pub(in crate::compile) fn refused(&self, input: Input<'_>) -> Result<Vec<LostEdits>, TableFull> {
        let mut staged = Staged::default();
        let done = self.stage_lists(input, &mut staged);
        let mut lost = std::mem::take(&mut staged.lost);
        self.abandon(staged);
        done?;
        lost.retain(|lost| lost.protects);
        for lost in &mut lost {
            if let Lost::Rules(rules) = &mut lost.lost {
                rules.retain(|rule| rule.protects);
            }
        }
        Ok(lost)
    }

    fn stage(&self, input: Input<'_>, staged: &mut Staged) -> Result<(), TableFull> {
        self.stage_lists(input, staged)?;
        self.stage_chains(input, staged)
    }

    /// Makes the lists and groups of a model, with the edits that apply.
    fn stage_lists(&self, input: Input<'_>, staged: &mut Staged) -> Result<(), TableFull> {
        let Input { gateway, map, .. } = input;
        let indices: HashMap<u32, u32> = map.interfaces.iter().copied().zip(0..).collect();
        let (live, widened) = self.stage_groups(input, &indices, staged);
        let groups = All { live: &live, declared: &gateway.groups };
        let differs =
            self.interfaces != map.interfaces || gateway.groups != self.declared_groups || !staged.lost.is_empty();
        let old = self.interfaces.clone();
        let carry = Carry { groups, widened: &widened, old: &old, new: &map.interfaces, indices, differs };
        let names: HashMap<Arc<str>, u32> = self.names().collect();
        let declared: HashSet<&str> = gateway.acls.iter().map(|list| list.name.as_str()).collect();
        let mut bounds = Bounds { limit: input.means().limit, used: 0 };
        for number in 0..self.lists.len() as u32 {
            let Some(list) = self.list(number).filter(|list| !declared.contains(&*list.name)) else { continue };
            let carried = if list.created.is_some() { carry.carry(list, &list.declared) } else { None };
            match carried {
                Some(carried) => {
                    bounds.used += carried.rules(list);
                    staged.lost.extend(carried.lost(list));
                    staged.created.push(self.carried(&bounds, number, carried, &list.declared)?);
                }
                None if list.has_edits() => staged.lost.push(list.lost(Lost::Gone)),
                None => {}
            }
        }
        let taken = self.lists.iter().map(Option::is_some).collect::<Vec<_>>();
        let mut vacant = (0..).filter(|&number| !taken.get(number as usize).copied().unwrap_or(false));
        for list in &gateway.acls {
            let known = names.get(list.name.as_str()).copied();
            let number = known.or_else(|| vacant.next()).unwrap_or_default();
            let before = known.and_then(|number| self.list(number));
            let same = before
                .filter(|before| before.created.is_none() && same_list(&before.declared, &old, list, &map.interfaces));
            if let Some((before, carried)) = same.and_then(|before| Some((before, carry.carry(before, list)?))) {
                bounds.used += carried.rules(before);
                staged.lost.extend(carried.lost(before));
                bounds.check(list, 0)?;
                staged.lists.push(self.carried(&bounds, number, carried, list)?);
                continue;
            }
            let list = match before {
                Some(before) if before.is_edited() => self.rebased(&mut bounds, &carry, before, list, staged)?,
                _ => {
                    let other = before.filter(|before| before.created.is_some() && !carry.is_saved(before, list));
                    staged.lost.extend(other.map(|before| {
                        let is_attached = gateway.interfaces.iter().any(|interface| {
                            let of = |output| gateway.lists_of(interface, output);
                            of(false).into_iter().chain(of(true)).any(|name| *name == *before.name)
                        });
                        let lost = before.lost(Lost::Declared);
                        LostEdits { protects: lost.protects || is_attached, ..lost }
                    }));
                    bounds.used += list.rules.len();
                    bounds.check(list, list.rules.len())?;
                    self.anew(&bounds, &carry, number, list, &mut staged.fresh)?
                }
            };
            staged.lists.push(Slot::Fresh(number, Box::new(list)));
        }
        self.protect_groups(gateway, &live, staged);
        staged.live_groups = live;
        Ok(())
    }

    /// Finds out which edits of groups that ended protect: those of groups that a rule names which refuses packets.
    fn protect_groups(&self, gateway: &Gateway, live: &Live, staged: &mut Staged) {
        let closing = |rule: &&AclRule| !opens(rule.action);
        let declared = gateway.acls.iter().flat_map(|list| &*list.rules);
        let added = self.lists.iter().flatten().flat_map(|list| {
            list.order.iter().filter(|entry| entry.declared().is_none()).map(|entry| list.rule(entry))
        });
        let named: HashSet<&Arc<str>> = declared.chain(added).filter(closing).flat_map(groups::names).collect();
        for lost in &mut staged.lost {
            let Some(name) = lost.of.strip_prefix("group ").map(Arc::<str>::from) else { continue };
            let (before, now) =
                (self.live_groups.around(&self.declared_groups, [&name]), live.around(&gateway.groups, [&name]));
            lost.protects = before.iter().chain(&now).any(|name| named.contains(name));
        }
    }

    /// Finds out which groups keep the members that they were given; gives what they are then, and the groups that are as
    /// declared again though they are declared as they were, or name such a group.
    fn stage_groups(
        &self,
        input: Input<'_>,
        indices: &HashMap<u32, u32>,
        staged: &mut Staged,
    ) -> (Live, HashSet<Arc<str>>) {
        let Input { gateway, .. } = input;
        let before = (&*self.interfaces, &self.declared_groups);
        let mut narrowed = Narrowed::of(&self.live_groups.changed, before, indices, &gateway.groups);
        let live = loop {
            let live = narrowed.live(input.means().limit);
            // The file's rules have addresses of their families by the file's groups.
            let groups = All { live: &live, declared: &gateway.groups };
            let has_none = |rule: &&AclRule| groups.resolve(rule).is_ok_and(|rule| count(&rule) == 0);
            let mut rules = gateway.acls.iter().flat_map(|list| &*list.rules).filter(|rule| groups.concern(rule));
            let Some(rule) = rules.find(has_none) else { break live };
            let mut named: Vec<&Arc<str>> = live.changed.keys().collect();
            named.retain(|&name| {
                let around = live.around(&gateway.groups, [name]);
                groups::names(rule).any(|own| around.contains(own))
            });
            named.sort_unstable();
            named.into_iter().for_each(|name| narrowed.give_back(name, Lost::DoesNotGo));
        };
        let widened = live.around(&gateway.groups, narrowed.given_back()).into_iter().cloned().collect();
        let mut all = narrowed.told();
        all.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        let of = |(name, lost)| LostEdits { of: format!("group {name}"), rules: 0, protects: false, lost };
        staged.lost.extend(all.into_iter().map(of));
        (live, widened)
    }

    /// A list that goes on, as it is declared now.
    fn carried(&self, bounds: &Bounds, number: u32, carried: Carried, declared: &AclList) -> Result<Slot, TableFull> {
        let Some(list) = self.list(number) else { return Ok(Slot::Keep(number, None)) };
        let slot = |order, slot: fn(u32, Box<List>) -> Slot| {
            let (name, created) = (Arc::clone(&list.name), list.created.clone());
            let (removed, default_said) = (Arc::clone(&list.removed), list.default_said.clone());
            let declared = declared.clone();
            slot(number, Box::new(List { name, declared, order, created, removed, default_said, ..*list }))
        };
        let keep = |number, list| Slot::Keep(number, Some(list));
        Ok(match carried {
            Carried::Same => Slot::Keep(number, None),
            Carried::Moved(order) => slot(order, keep),
            Carried::Changed(entries, _) => slot(bounds.spread(declared, entries)?, Slot::Fresh),
        })
    }

    /// A list as it was declared. Rules that it has already keep their numbers.
    fn anew(
        &self,
        bounds: &Bounds,
        carry: &Carry<'_>,
        number: u32,
        declared: &AclList,
        fresh: &mut Vec<u32>,
    ) -> Result<List, TableFull> {
        let before = self.lists.get(number as usize).and_then(Option::as_ref);
        let mut known = before.map_or_else(Known::default, |before| {
            let rules: Vec<_> = before.order.iter().map(|entry| (before.rule(entry), entry.number)).collect();
            Known::new(rules.into_iter(), carry.old)
        });
        let default = before.map(|before| before.number);
        let mut allocate = || {
            let number = self.numbers.allocate();
            fresh.push(number);
            number
        };
        let mut number = |rule: &AclRule| known.take(rule, carry.new).unwrap_or_else(&mut allocate);
        let entries = (0..declared.rules.len() as u32).map(|index| carry.entry(declared, index, &mut number));
        let order = bounds.spread(declared, entries.collect())?;
        Ok(List {
            name: declared.name.as_str().into(),
            order,
            default: declared.default,
            number: default.unwrap_or_else(allocate),
            choice: None,
            reflects: false,
            declared: declared.clone(),
            created: None,
            removed: Arc::default(),
            default_said: None,
        })
    }

    /// A list with its edits, by another declaration.
    fn rebased(
        &self,
        bounds: &mut Bounds,
        carry: &Carry<'_>,
        before: &List,
        declared: &AclList,
        staged: &mut Staged,
    ) -> Result<List, TableFull> {
        let allocate = || {
            let number = self.numbers.allocate();
            staged.fresh.push(number);
            number
        };
        let Rebased { entries, removed, default, default_said, lost } = carry.rebased(before, declared, allocate);
        staged.lost.extend(lost);
        bounds.used += entries.len();
        bounds.check(declared, declared.rules.len().min(entries.len()))?;
        Ok(List {
            name: Arc::clone(&before.name),
            order: bounds.spread(declared, entries)?,
            default,
            number: before.number,
            choice: None,
            reflects: false,
            declared: declared.clone(),
            created: None,
            removed: Arc::new(removed),
            default_said,
        })
    }

    fn stage_chains(&self, input: Input<'_>, staged: &mut Staged) -> Result<(), TableFull> {
        let is_fresh = |slot: &&Slot| matches!(slot, Slot::Fresh(..));
        let fresh: HashSet<u32> = staged.lists.iter().filter(is_fresh).map(Slot::number).collect();
        // As this model has them, also those that mean the same: what is built of them is built by its indices.
        let now: HashMap<u32, &List> = staged
            .lists
            .iter()
            .filter_map(|slot| match slot {
                Slot::Keep(_, None) => None,
                Slot::Keep(number, Some(list)) | Slot::Fresh(number, list) => Some((*number, &**list)),
            })
            .collect();
        // A list that a chain has is there.
        let list = |number: u32| -> &List {
            let kept = || self.list(number).expect("a chain's list");
            now.get(&number).copied().unwrap_or_else(kept)
        };
        let mut known: HashMap<Sequence, u16> = HashMap::new();
        let mut sequences = Vec::new();
        let mut numbers: HashMap<&str, u32> = input
            .gateway
            .acls
            .iter()
            .map(|list| list.name.as_str())
            .zip(staged.lists.iter().map(Slot::number))
            .collect();
        for number in staged.created.iter().map(Slot::number) {
            numbers.extend(self.list(number).map(|list| (&*list.name, number)));
        }
        let mut chain = |interface: &Interface, output: bool| -> Result<u16, TableFull> {
            let named = input.gateway.lists_of(interface, output);
            let sequence = sequence(&named, |name| numbers.get(name).copied());
            if sequence.is_empty() {
                return Ok(NONE);
            }
            if let Some(&number) = known.get(&sequence) {
                return Ok(number);
            }
            let number = next_number(sequences.len()).ok_or_else(|| too_many_sequences(input.gateway, named[0]))?;
            known.insert(Arc::clone(&sequence), number);
            sequences.push(sequence);
            Ok(number)
        };
        let mut interfaces = Vec::with_capacity(input.gateway.interfaces.len());
        for interface in &input.gateway.interfaces {
            interfaces.push((chain(interface, false)?, chain(interface, true)?));
        }
        let anew = staged.lists.iter().chain(&staged.created).filter_map(|slot| match slot {
            Slot::Fresh(number, list) => Some((*number, self.only_before(*number, list))),
            Slot::Keep(..) => None,
        });
        staged.gone = anew.collect();
        let is_new = |number: u32| fresh.contains(&number);
        let arranged = self.arrange(input.means(), sequences, list, is_new);
        staged.arranged = arranged.map_err(|full| table_full(full, list))?;
        staged.interfaces = interfaces;
        Ok(())
    }
}

fn too_many_sequences(gateway: &Gateway, list: &str) -> TableFull {
    let declared = gateway.acls.iter().find(|declared| declared.name == list);
    TableFull {
        table: table(list),
        prefix: String::new(),
        origin: declared.map_or(Origin::default(), |declared| declared.origin),
        full: NoRoom::Sequences(usize::from(NONE)),
    }
}

/// What lists may have, and have.
struct Bounds {
    limit: usize,
    used: usize,
}

impl Bounds {
    /// Refuses a list that makes for too many rules, so many of which are new. One that none are new of is told as a whole.
    fn check(&self, list: &AclList, new: usize) -> Result<(), TableFull> {
        let Bounds { limit, used } = *self;
        if used > limit {
            let rule = list.rules[..new].get(new.saturating_sub(used - limit));
            return Err(self.too_many(list, used, rule));
        }
        Ok(())
    }

    /// Gives the rules of a list their places, and refuses more boxes than it could have.
    fn spread(&self, list: &AclList, entries: Vec<Entry>) -> Result<Order, TableFull> {
        let mut boxes = 0_usize;
        for entry in &entries {
            boxes = boxes.saturating_add(entry.width as usize);
            // Each rule may be about the family that it comes to more in.
            if boxes > self.limit.saturating_mul(2) {
                let rule = entry.declared().and_then(|index| list.rules.get(index as usize));
                return Err(self.too_many(list, boxes, rule));
            }
        }
        Ok(Order::spread(entries))
    }

    fn too_many(&self, list: &AclList, rules: usize, rule: Option<&AclRule>) -> TableFull {
        TableFull {
            table: table(&list.name),
            prefix: String::new(),
            origin: rule.map_or(list.origin, |rule| rule.origin),
            full: NoRoom::Rules(Error::TooManyRules { rules, most: self.limit }),
        }
    }
}

fn table_full<'l>(full: Full, list: impl Fn(u32) -> &'l List) -> TableFull {
    let list = list(full.list);
    TableFull {
        table: table(&list.name),
        prefix: String::new(),
        // Rules that came while the gateway ran have no place of their own.
        origin: full.rule.filter(|rule| *rule != Origin::default()).unwrap_or(list.declared.origin),
        full: NoRoom::Rules(full.error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_sequences_are_told_as_such() {
        assert_eq!((next_number(65_534), next_number(65_535)), (Some(65_534), None));
        // A list that the model does not declare, as live lists.
        let refused = too_many_sequences(&crate::kit::Build::new().0, "edge");
        assert_eq!(
            refused.to_string(),
            "acl edge: interfaces name more than 65535 different sequences of access lists"
        );
    }
}
