//! Effects of a reload, found out before it.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use weir_plane::engine::{FlowFilter, FlowOrder};
use weir_plane::model::{AclList, AclRule, Gateway, Interface, InterfaceIndex, NatRule, Origin};
use weir_plane::stats::AclRuleRow;

use super::super::ReloadError;
use super::super::acl::live;
use super::super::acl::lost::lost;
use super::super::differences::differences;
use super::super::refusal::{Kind, Refusal};
use super::super::services::Settings;
use super::edits::Wrong;
use super::{Running, placed};
use crate::config::Texts;
use crate::render::preview::Preview;
use crate::render::reloaded::Lost;
use crate::rules::acl::Rule;
use crate::saved;

impl Running {
    /// Finds out what a reload of a file would do; `None`: of the gateway's own.
    pub(super) fn preview_of(&self, file: Option<&Path>) -> Result<Preview, Box<Refusal>> {
        let own = self.file.as_deref().ok_or_else(|| Box::new(Refusal::of_reload(&ReloadError::NoFile, false)))?;
        let file = file.unwrap_or(own);
        let read = beside(file, own);
        let (mut loaded, _) = self.load_with(&read);
        let texts = Texts::of(&read, &loaded);
        let Some(mut gateway) = loaded.gateway.take() else {
            return Err(Refusal::of_reload(&ReloadError::Invalid(Box::new(loaded)), false).into());
        };
        let mut preview =
            Preview { file: file.display().to_string(), generation: self.engine.generation(), ..Preview::default() };
        preview.refused.extend(self.changes_at_start(&loaded).map(str::to_owned));
        if !is_same(file, own) {
            preview.notes.push(format!("a reload reads {}, not this file", own.display()));
        }
        if let Some(by) = self.confirm_by() {
            preview
                .refused
                .push(format!("a reload waits for its confirmation until {}", crate::render::time::utc_seconds(by)));
        }
        let _alone = self.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.engine.model();
        let carried = self.carry(&mut gateway);
        preview.refused.extend(carried.wrong.as_ref().map(Wrong::refusal));
        let origins = gateway.origins.clone();
        let found = self.engine.preview(&gateway);
        let found = found.map_err(|error| Refusal::new(Kind::Failed, placed(&error, &origins)))?;
        preview.refused.extend(found.restart);
        let ends = carried.protects || found.lost.iter().any(|edits| edits.protects);
        if ends && carried.wrong.is_none() {
            let message = "live edits that protect would end: add them to the file, or reload with `--drop-changes`";
            preview.refused.push(message.to_owned());
        }
        let lost_acls: Vec<Lost> = found.lost.into_iter().map(|edits| lost(&before, edits)).collect();
        let sources_end = Settings::of(&loaded).ended(self.sources.read());
        preview.lost = lost_acls.iter().chain(&carried.lost).chain(&sources_end).flat_map(Lost::lines).collect();
        preview.reopened = found.reopened;
        let mut lists = differences(&before, &gateway);
        lists.changed.extend(Settings::of(&loaded).differing(&self.settings()));
        let with = |names: Vec<String>, lists: Vec<String>| -> Vec<String> {
            names.into_iter().map(|name| format!("interface {name}")).chain(lists).collect()
        };
        preview.added = with(found.difference.added, lists.added);
        preview.removed = with(found.difference.removed, lists.removed);
        preview.changed = with(found.difference.changed, lists.changed);
        (preview.routes, preview.routes_before) = found.difference.routes;
        self.count_flows((&before, &gateway), &mut preview);
        if let Ok(now) = self.texts() {
            let (now, then) = (saved::objects(&now), saved::objects(&texts));
            if let (Ok(now), Ok(then)) = (now, then) {
                preview.objects = saved::compare(&now, &then).into_iter().map(super::saved::plain).collect();
            }
        }
        Ok(preview)
    }

    /// Counts the sessions and translations that a reload concerns.
    fn count_flows(&self, (before, after): (&Gateway, &Gateway), preview: &mut Preview) {
        let regrouped = self.regrouped(before, after);
        let concerned: HashSet<&str> = preview
            .removed
            .iter()
            .chain(&preview.changed)
            .filter_map(|name| name.split_once(' '))
            .filter(|(kind, _)| matches!(*kind, "interface" | "acl"))
            .map(|(_, name)| name)
            .collect();
        let is_concerned = |name: &str| concerned.contains(name) || regrouped.contains(name);
        let mut zones: HashSet<&str> = HashSet::new();
        for interface in &before.interfaces {
            let lists = [false, true].map(|output| before.lists_of(interface, output)).concat();
            if is_concerned(&interface.name) || lists.iter().any(|list| is_concerned(list)) {
                let vrf = before.vrfs[usize::from(interface.vrf.0)].name.as_str();
                zones.insert(interface.zone.as_deref().unwrap_or(vrf));
            }
        }
        let all = |translations| {
            let filter = FlowFilter { translations, ..FlowFilter::default() };
            self.engine.flows(|_| Ok::<_, std::convert::Infallible>(filter), FlowOrder::Age, usize::MAX)
        };
        let Ok(sessions) = all(false);
        preview.sessions_total = sessions.total;
        preview.sessions = match before.flow_table.recheck == after.flow_table.recheck {
            true => sessions.rows.iter().filter(|row| zones.contains(row.zone.1.as_str())).count(),
            // Sessions go on for another reason.
            false => sessions.total,
        };
        let differs = preview.removed.iter().chain(&preview.changed).any(|name| name.starts_with("nat "));
        if differs || translators(before) != translators(after) {
            let Ok(translations) = all(true);
            preview.translations = translations.total;
        }
    }

    /// Returns the access lists with rules that name a group which has other members by another model, with the live edits of
    /// groups.
    fn regrouped(&self, before: &Gateway, after: &Gateway) -> HashSet<String> {
        let members = |gateway: &Gateway| -> HashMap<String, Vec<String>> {
            let groups = self.engine.groups_of(gateway);
            groups.iter().map(|group| (group.name().to_string(), live::member(gateway, group))).collect()
        };
        let (had, has) = (members(before), members(after));
        let differs = |name: &str| had.get(name) != has.get(name);
        if had == has {
            return HashSet::new();
        }
        let named = |gateway: &Gateway, list: &AclList| {
            let name = |index: InterfaceIndex| gateway.interfaces[index.0 as usize].name.as_str().into();
            list.rules.iter().any(|rule| Rule::of(rule, name).groups().any(differs))
        };
        let of = |gateway: &Gateway| -> Vec<String> {
            gateway.acls.iter().filter(|list| named(gateway, list)).map(|list| list.name.clone()).collect()
        };
        let live = self.engine.acl_lists().into_iter().filter(|list| {
            let named = |_: &Gateway, row: AclRuleRow| Rule::of(&row.rule, |_| "".into()).groups().any(differs);
            let is_edited = list.edited || list.created.is_some();
            let rules = || self.engine.acl_rules(&list.name, |_| true, usize::MAX, named);
            is_edited && rules().is_some_and(|(rules, _)| rules.contains(&true))
        });
        of(before).into_iter().chain(of(after)).chain(live.map(|list| list.name)).collect()
    }
}

/// An interface that translates: its name and VRF, its list, the rules without their places, and its addresses if a rule stands
/// for them.
type Translator<'g> = (&'g str, &'g str, &'g str, Vec<NatRule>, Vec<IpAddr>);

/// Returns the interfaces of a model that translate. If they are the same by two models, translations go on.
fn translators(gateway: &Gateway) -> Vec<Translator<'_>> {
    fn translator<'g>(gateway: &'g Gateway, own: &'g Interface) -> Option<Translator<'g>> {
        let list = &gateway.nat[usize::from(own.nat?.0)];
        let bare = |rule: &NatRule| NatRule {
            matches: AclRule { origin: Origin::default(), ..rule.matches.clone() },
            comment: None,
            ..rule.clone()
        };
        let stands_for_it = |rule: &NatRule| {
            let targets = [&rule.source, &rule.destination];
            rule.to_interface || targets.into_iter().flatten().any(|target| target.addresses.is_none())
        };
        let addresses = match list.rules.iter().any(stands_for_it) {
            true => own.addresses.iter().map(|address| address.net.addr()).collect(),
            false => Vec::new(),
        };
        let vrf = gateway.vrfs[usize::from(own.vrf.0)].name.as_str();
        Some((own.name.as_str(), vrf, list.name.as_str(), list.rules.iter().map(bare).collect(), addresses))
    }
    gateway.interfaces.iter().filter_map(|own| translator(gateway, own)).collect()
}

fn is_same(one: &Path, other: &Path) -> bool {
    let canonical = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    canonical(one) == canonical(other)
}

/// Returns a file by the name of its folder that a reload knows, if it is in the same one: paths in the file begin there, and others
/// than those in force would be changes.
fn beside(file: &Path, own: &Path) -> PathBuf {
    let folder = |path: &Path| path.parent().filter(|own| *own != Path::new("")).unwrap_or(Path::new(".")).to_owned();
    match file.file_name() {
        Some(name) if is_same(&folder(file), &folder(own)) => own.with_file_name(name),
        _ => file.to_owned(),
    }
}
