//! Stages the lists and groups of a model with the live edits that apply: a commit puts them into force, or they are abandoned.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::applied::{Applied, Target};
use super::bounds::Bounds;
use super::chains::Arranged;
use super::dropped::{Lost, LostEdits, opens};
use super::elsewhere::{self, Site};
use super::groups::{self, AclGroup};
use super::list::List;
use super::live_groups::GroupEdits;
use super::nested::{Changed, Live};
use super::regrouped::Regrouped;
use super::resolve::All;
use super::store::{Input, Store};
use crate::compile::boxes::count;
use crate::compile::table_full::TableFull;
use crate::model::{AclList, AclRule, Gateway};

/// The access lists and groups of a model, with the live edits that apply.
#[derive(Default)]
pub struct StagedAcls {
    /// In the order of the model.
    pub(super) lists: Vec<Slot>,
    /// Live lists that stay.
    pub(super) created: Vec<Slot>,
    pub(super) live_groups: Live,
    /// Edits that end.
    pub(super) lost: Vec<LostEdits>,
    pub(super) arranged: Arranged,
    /// By the model's index of an interface: its chains for ingress and egress.
    pub(super) interfaces: Vec<(u16, u16)>,
    /// By the numbers of lists with other rules: the numbers of rules that are gone.
    pub(super) gone: HashMap<u32, Vec<u32>>,
    /// Numbers of new rules.
    fresh: Vec<u32>,
}

/// A list, with its number.
pub(super) enum Slot {
    /// The list has the same rules. By another model they have other indices and lines.
    Keep(u32, Option<Box<List>>),
    /// The list has other rules.
    Fresh(u32, Box<List>),
}

impl Slot {
    pub(super) fn number(&self) -> u32 {
        let (Slot::Keep(number, _) | Slot::Fresh(number, _)) = self;
        *number
    }
}

impl StagedAcls {
    /// Returns the edits that end.
    pub fn ending(&self) -> Vec<LostEdits> {
        self.lost.clone()
    }

    /// Returns the edits that end and that protect: without them more packets might pass.
    pub fn protecting(&self) -> Vec<LostEdits> {
        let mut lost: Vec<LostEdits> = self.lost.iter().filter(|lost| lost.protects).cloned().collect();
        for lost in &mut lost {
            if let Lost::Rules(rules) = &mut lost.lost {
                rules.retain(|rule| rule.protects);
            }
        }
        lost
    }
}

impl Store {
    /// Stages the lists and groups of a model. [`Store::prepare`] compiles them.
    ///
    /// `edits` are other live edits of groups than those in force.
    pub(in crate::compile) fn stage(
        &self,
        input: Input<'_>,
        edits: Option<&GroupEdits>,
    ) -> Result<StagedAcls, TableFull> {
        let mut staged = StagedAcls::default();
        match self.stage_lists(input, edits, &mut staged) {
            Ok(()) => Ok(staged),
            Err(full) => {
                self.abandon(staged);
                Err(full)
            }
        }
    }

    /// Gives back the numbers of new rules.
    pub(in crate::compile) fn abandon(&self, staged: StagedAcls) {
        self.numbers.give_back(staged.fresh);
    }

    /// Returns the groups of a model with the live edits that apply: groups of the model, and then the others by name.
    pub(in crate::compile) fn groups_of(&self, input: Input<'_>) -> Vec<AclGroup> {
        let declared = &input.gateway.groups;
        if self.live_groups.changed.is_empty() {
            return groups::all(declared).collect();
        }
        let indices: HashMap<u32, u32> = input.map.interfaces.iter().copied().zip(0..).collect();
        let (live, _) = self.stage_groups(input, &indices, &self.live_groups.changed, &mut StagedAcls::default());
        live.rows(declared).map(|(group, _)| group).collect()
    }

    fn stage_lists(
        &self,
        input: Input<'_>,
        edits: Option<&GroupEdits>,
        staged: &mut StagedAcls,
    ) -> Result<(), TableFull> {
        let Input { gateway, map, .. } = input;
        let indices: HashMap<u32, u32> = map.interfaces.iter().copied().zip(0..).collect();
        let changed = edits.map_or(&self.live_groups.changed, |edits| &edits.0);
        let (live, widened) = self.stage_groups(input, &indices, changed, staged);
        let groups = All { live: &live, declared: &gateway.groups };
        let differs = self.interfaces != map.interfaces
            || gateway.groups != self.declared_groups
            || edits.is_some()
            || !staged.lost.is_empty();
        let (old, new) = (&*self.interfaces, &*map.interfaces);
        let target = Target { groups, widened: &widened, old, new, indices, differs };
        let names: HashMap<Arc<str>, u32> = self.names().collect();
        let declared: HashSet<&str> = gateway.acls.iter().map(|list| list.name.as_str()).collect();
        let mut bounds = Bounds::new(input.means().limit);
        for number in 0..self.lists.len() as u32 {
            let Some(list) = self.list(number).filter(|list| !declared.contains(&*list.name)) else { continue };
            if list.created.is_some() {
                let slot = self.applied((number, list), None, &target, &mut bounds, staged)?;
                staged.created.push(slot);
            } else if list.has_edits() {
                staged.lost.push(list.lost(Lost::Gone));
            }
        }
        let taken = self.lists.iter().map(Option::is_some).collect::<Vec<_>>();
        let mut vacant = (0..).filter(|&number| !taken.get(number as usize).copied().unwrap_or(false));
        for declared in &gateway.acls {
            let known = names.get(declared.name.as_str()).and_then(|&number| Some((number, self.list(number)?)));
            let slot = match known {
                Some((number, list)) => {
                    if list.created.is_some() && !target.is_saved(list, declared) {
                        staged.lost.push(replaced(list, gateway));
                    }
                    self.applied((number, list), Some(declared), &target, &mut bounds, staged)?
                }
                None => {
                    let number = vacant.next().unwrap_or_default();
                    Slot::Fresh(number, Box::new(self.declared(declared, &target, &mut bounds, &mut staged.fresh)?))
                }
            };
            staged.lists.push(slot);
        }
        self.protect_groups(gateway, &live, staged);
        staged.live_groups = live;
        Ok(())
    }

    /// Applies the edits of a list; `declared` is its declaration, `None` for a live list that the model does not declare.
    fn applied(
        &self,
        (number, list): (u32, &List),
        declared: Option<&AclList>,
        target: &Target<'_>,
        bounds: &mut Bounds,
        staged: &mut StagedAcls,
    ) -> Result<Slot, TableFull> {
        let StagedAcls { lost, fresh, .. } = staged;
        let of = declared.unwrap_or(&list.declared);
        Ok(match target.apply(list, declared, || self.allocate(fresh), lost) {
            Applied::Same => {
                bounds.add(of, list.order.len(), 0)?;
                Slot::Keep(number, None)
            }
            Applied::Moved(list) => {
                bounds.add(of, list.order.len(), 0)?;
                Slot::Keep(number, Some(list))
            }
            Applied::Changed(mut list, entries) => {
                bounds.add(of, entries.len(), of.rules.len().min(entries.len()))?;
                list.order = bounds.spread(of, entries)?;
                Slot::Fresh(number, list)
            }
        })
    }

    /// Returns a list that is new.
    fn declared(
        &self,
        declared: &AclList,
        target: &Target<'_>,
        bounds: &mut Bounds,
        fresh: &mut Vec<u32>,
    ) -> Result<List, TableFull> {
        let entries = target.declared(None, declared, || self.allocate(fresh));
        bounds.add(declared, entries.len(), entries.len())?;
        Ok(List {
            name: declared.name.as_str().into(),
            order: bounds.spread(declared, entries)?,
            default: declared.default,
            number: self.allocate(fresh),
            choice: None,
            reflects: false,
            declared: declared.clone(),
            created: None,
            removed: Arc::default(),
            default_said: None,
        })
    }

    fn allocate(&self, fresh: &mut Vec<u32>) -> u32 {
        let number = self.numbers.allocate();
        fresh.push(number);
        number
    }

    /// Marks the edits of groups that protect: a rule that denies packets names the group.
    fn protect_groups(&self, gateway: &Gateway, live: &Live, staged: &mut StagedAcls) {
        let closing = |rule: &&AclRule| !opens(rule.action);
        let declared = gateway.acls.iter().flat_map(|list| &*list.rules);
        let added = self.lists.iter().flatten().flat_map(|list| {
            list.order.iter().filter(|entry| entry.declared().is_none()).map(|entry| list.rule(entry))
        });
        let others = elsewhere::sites(gateway).filter(|site| site.protects()).flat_map(|site| site.names());
        let named: HashSet<&Arc<str>> =
            declared.chain(added).filter(closing).flat_map(groups::names).chain(others).collect();
        for lost in &mut staged.lost {
            let Some(name) = lost.of.strip_prefix("group ").map(Arc::<str>::from) else { continue };
            let (before, now) =
                (self.live_groups.around(&self.declared_groups, [&name]), live.around(&gateway.groups, [&name]));
            lost.protects = before.iter().chain(&now).any(|name| named.contains(name));
        }
    }

    /// Applies the edits of groups. Returns the groups with the edits that stay, and the groups whose edits end with the groups
    /// that contain them.
    fn stage_groups(
        &self,
        input: Input<'_>,
        indices: &HashMap<u32, u32>,
        changed: &Changed,
        staged: &mut StagedAcls,
    ) -> (Live, HashSet<Arc<str>>) {
        let Input { gateway, .. } = input;
        let before = (&*self.interfaces, &self.declared_groups);
        let mut regrouped = Regrouped::of(changed, before, indices, &gateway.groups);
        let live = loop {
            let live = regrouped.live(input.means().limit);
            // Rules of the file have addresses of their families by the groups of the file.
            let groups = All { live: &live, declared: &gateway.groups };
            let has_none = |rule: &&AclRule| groups.resolve(rule).is_ok_and(|rule| count(&rule) == 0);
            let mut rules = gateway.acls.iter().flat_map(|list| &*list.rules).filter(|rule| groups.concern(rule));
            let of_list = rules.find(has_none).map(|rule| groups::names(rule).collect::<Vec<_>>());
            let elsewhere = || {
                let concerned = |site: &Site<'_>| site.names().any(|name| live.now.contains_key(name));
                let unfit = elsewhere::sites(gateway).find(|site| concerned(site) && !site.fits(&groups));
                unfit.map(|site| site.names().collect())
            };
            let Some(names) = of_list.or_else(elsewhere) else { break live };
            let mut named: Vec<&Arc<str>> = live.changed.keys().collect();
            named.retain(|&name| {
                let around = live.around(&gateway.groups, [name]);
                names.iter().any(|own| around.contains(own))
            });
            named.sort_unstable();
            named.into_iter().for_each(|name| regrouped.end(name, Lost::DoesNotGo));
        };
        let widened = live.around(&gateway.groups, regrouped.ended()).into_iter().cloned().collect();
        let mut all = regrouped.report();
        all.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        let of = |(name, lost)| LostEdits { of: format!("group {name}"), rules: 0, protects: false, lost };
        staged.lost.extend(all.into_iter().map(of));
        (live, widened)
    }
}

/// Reports that a model declares a live list with other rules.
fn replaced(list: &List, gateway: &Gateway) -> LostEdits {
    let is_attached = gateway.interfaces.iter().any(|interface| {
        let lists = |output| gateway.lists_of(interface, output);
        lists(false).into_iter().chain(lists(true)).any(|name| *name == *list.name)
    });
    let lost = list.lost(Lost::Declared);
    LostEdits { protects: lost.protects || is_attached, ..lost }
}
