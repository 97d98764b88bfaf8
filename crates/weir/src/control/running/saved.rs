//! The running configuration, compared with its file and written as files.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use weir_plane::engine::LostEdit;

use super::super::acl::live::{self, word};
use super::super::differences::differences;
use super::super::ipsec::model::without_rekeys;
use super::super::objects::sessions;
use super::super::refusal::{Kind, Refusal};
use super::super::{ReloadError, Safe, source};
use super::Running;
use crate::config::{self, Loaded, Overlay, Texts};
use crate::render::changes;
use crate::render::diff::{Diff, Line, Object, Sign};
use crate::render::history::{Confirmed, History, Undone};
use crate::render::number::plural;
use crate::render::preview::Preview;
use crate::render::reloaded::Reloaded;
use crate::render::saved::{Saved, SavedFile};
use crate::saved::{self, Difference, Edits, GroupEdit, Listed};

/// Lines of an object that are shown, at most.
const LINES: usize = 10_000;

fn failed(message: impl Into<String>) -> Box<Refusal> {
    Refusal::new(Kind::Failed, message).into()
}

impl Running {
    /// Returns the texts of the configuration in force.
    pub(super) fn texts(&self) -> Result<Arc<Texts>, Box<Refusal>> {
        let texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner).clone();
        texts.ok_or_else(|| Refusal::of_reload(&ReloadError::NoFile, false).into())
    }

    /// Returns the live edits as the objects that they leave.
    pub(super) fn edited(&self) -> Edits {
        let model = self.engine.model();
        let mut edits = Edits::default();
        for list in self.engine.acl_lists().into_iter().filter(|list| list.edited || list.created.is_some()) {
            let Some(rules) = live::rules(&self.engine, &list.name, usize::MAX) else { continue };
            let declared = model.acls.iter().find(|own| own.name == list.name).map(|own| own.default);
            edits.acls.push(Listed {
                rules: rules.rules.into_iter().map(|rule| rule.rule).collect(),
                default: (declared != Some(list.default)).then(|| word(list.default).to_owned()),
                name: list.name,
            });
        }
        let groups = self.engine.acl_groups(|gateway, group, said| {
            said.map(|_| GroupEdit {
                name: group.name().to_string(),
                kind: group.kind().to_owned(),
                members: live::member(gateway, &group),
            })
        });
        edits.groups = groups.into_iter().flatten().collect();
        let listed = |(name, rules): (&str, Vec<String>)| Listed { name: name.to_owned(), rules, default: None };
        edits.nats = self.nat_so_far().rules().map(listed).collect();
        edits.tables = self.classify_so_far().changed();
        edits.bindings = self.bindings_so_far().rules().map(listed).collect();
        edits.steers = self.steers_so_far().rules().map(listed).collect();
        edits.allowlists = self.allowlists_so_far().lists().map(listed).collect();
        let live = self.live().clone();
        (edits.sas, edits.spds) = (live.pairs(), live.changed_spds());
        let attached = self.attached_so_far();
        edits.attached =
            attached.lists().map(|(name, direction, lists)| (name.to_owned(), direction.name(), lists)).collect();
        let policies = self.engine.sav_policies();
        let staged = policies.into_iter().filter_map(|policy| {
            let (action, _) = policy.stage?;
            (action != policy.action).then(|| (policy.name, action.to_owned()))
        });
        edits.stages = staged.collect();
        edits
    }

    /// Returns the texts of the running configuration: those in force with the live edits.
    fn running_texts(&self, texts: &Texts, edits: &Edits) -> Result<Texts, Box<Refusal>> {
        let files = saved::save(texts, edits).map_err(failed)?;
        Ok(texts.with(files.into_iter().map(|file| (file.path, file.text))))
    }

    /// Says what of the running configuration no file has.
    fn unsaved(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for name in self.live().rekeying() {
            notes.push(format!("sa {name}: a rekey is under way; the pair is the old one"));
        }
        for policy in self.engine.sav_policies() {
            let live = policy.sources.iter().filter(|(source, entries)| source != source::FILE && *entries > 0);
            for (source, entries) in live {
                let entries = plural(*entries as u64, "entry");
                notes.push(format!(
                    "sav {}: {entries} of the source {source} belong to it, and are not saved",
                    policy.name
                ));
            }
        }
        notes
    }

    /// Checks that saved texts are the running configuration.
    fn verify(&self, texts: &Texts, edits: &Edits) -> Result<(), Box<Refusal>> {
        let loaded = config::load_texts(texts, &Overlay::default());
        let Some(gateway) = &loaded.gateway else {
            return Err(failed(format!("the running configuration cannot be saved: {}", unsaveable(&loaded))));
        };
        let rekeying = self.live().rekeying();
        let mut running = self.engine.model();
        if !rekeying.is_empty() {
            without_rekeys(Arc::make_mut(&mut running), &rekeying);
        }
        let found = differences(&running, gateway);
        let differs = found.added.into_iter().chain(found.removed).chain(found.changed);
        // Lists and groups with live edits are no part of the model: they are compared below. A table without `size` may
        // have more room than its sessions in the file need.
        let apart = ["acl ", "group ", "classify "];
        let differs = differs.filter(|name| !apart.iter().any(|kind| name.starts_with(kind)));
        // The model has the action of the file; that of a stage is saved.
        let staged =
            |name: &str| edits.stages.iter().any(|(policy, _)| name.strip_prefix("sav ") == Some(policy.as_str()));
        let differs = differs.filter(|name| !staged(name));
        let mut differs: Vec<String> = differs.collect();
        for list in &edits.acls {
            let saved = gateway.acls.iter().find(|own| own.name == list.name);
            let saved = saved.map(|own| own.rules.iter().map(|rule| live::written(gateway, rule)).collect::<Vec<_>>());
            if saved.as_ref() != Some(&list.rules) {
                differs.push(format!("acl {}", list.name));
            }
        }
        for table in &running.classify {
            let saved = gateway.classify.iter().find(|own| own.name == table.name);
            if saved.map(|own| sessions(gateway, own)) != Some(sessions(&running, table)) {
                differs.push(format!("classify {}", table.name));
            }
        }
        match differs.first() {
            None => Ok(()),
            Some(name) => Err(failed(format!("the running configuration cannot be saved: {name} would differ"))),
        }
    }
}

impl Safe for Running {
    fn diff(&self, loaded: bool) -> Result<Diff, Box<Refusal>> {
        let texts = self.texts()?;
        let running = saved::objects(&self.running_texts(&texts, &self.edited())?).map_err(failed)?;
        let mut notes = Vec::new();
        let file = if loaded {
            texts.as_ref().clone()
        } else {
            let read = config::load(texts.main());
            if read.gateway.is_none() {
                return Err(Refusal::of_reload(&ReloadError::Invalid(Box::new(read)), false).into());
            }
            let now = Texts::of(texts.main(), &read);
            for changed in now.differing(&texts) {
                notes.push(format!("{} has changed since it was loaded", changed.display()));
            }
            now
        };
        let file_objects = saved::objects(&file).map_err(failed)?;
        let edits = self.live_edits(usize::MAX).edits;
        let said: HashMap<(&str, &str), &changes::Edit> =
            edits.iter().rev().map(|edit| ((edit.of.as_str(), edit.what.as_str()), edit)).collect();
        let differing = saved::compare(&file_objects, &running);
        let objects = differing.into_iter().map(|difference| object(difference, &said)).collect();
        notes.extend(self.unsaved());
        Ok(Diff { file: texts.main().display().to_string(), objects, notes })
    }

    fn saved(&self, folder: Option<&Path>) -> Result<Saved, Box<Refusal>> {
        // Edits wait, so that all of this is of one moment.
        let _changing = self.change_alone();
        let rekeying = self.live().rekeying();
        if let (None, Some(name)) = (folder, rekeying.first()) {
            // The files and the rekey would both have the pair, and no reload would take that.
            return Err(failed(format!(
                "a rekey of `{name}` is under way: `weir sa switch {name}` and `weir sa finish {name}` end it, and `weir save --out FILE` \
                 writes the old pair into another file"
            )));
        }
        let (texts, edits) = (self.texts()?, self.edited());
        let files = saved::save(&texts, &edits).map_err(failed)?;
        let running = texts.with(files.iter().map(|file| (file.path.clone(), file.text.clone())));
        self.verify(&running, &edits)?;
        let whole = folder.map(|folder| saved::whole(&texts, &edits, folder)).transpose().map_err(failed)?;
        let absolute =
            |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone()).display().to_string();
        let file = |file: saved::Saved| SavedFile { path: absolute(&file.path), before: file.before, text: file.text };
        let files = if whole.is_some() { Vec::new() } else { files.into_iter().map(file).collect() };
        Ok(Saved { file: texts.main().display().to_string(), files, whole, notes: self.unsaved() })
    }

    fn preview(&self, file: Option<&Path>) -> Result<Preview, Box<Refusal>> {
        self.preview_of(file)
    }

    fn history(&self) -> History {
        self.changes_kept()
    }

    fn undo(&self, count: usize) -> Result<Undone, Box<Refusal>> {
        self.undo_changes(count)
    }

    fn reload_for(&self, lost: LostEdit, time: Duration) -> Result<Reloaded, ReloadError> {
        self.reload_kept(lost, Some(time))
    }

    fn confirm(&self) -> Result<Confirmed, Box<Refusal>> {
        self.confirm_reload()
    }
}

/// Says what of texts that were to be saved is wrong: the objects and their lines, as no file has these texts.
fn unsaveable(loaded: &Loaded) -> String {
    let errors = loaded.diagnostics.iter().filter(|own| own.severity == config::Severity::Error);
    let words = |own: &config::Diagnostic| {
        let Some(primary) = &own.primary else { return own.message.clone() };
        let text = &loaded.sources.source(primary.span.source).text;
        let start =
            text.get(..primary.span.range().start).map_or(0, |before| before.rfind('\n').map_or(0, |at| at + 1));
        let line = text.get(start..).and_then(|rest| rest.lines().next()).unwrap_or_default().trim();
        let header = text.get(..start).and_then(|before| before.lines().rfind(|line| line.starts_with('[')));
        format!("{}: {}: `{line}`", header.unwrap_or("the configuration").trim(), own.message)
    };
    errors.map(words).collect::<Vec<_>>().join("; ")
}

/// Shows an object that differs, without the sources of its lines.
pub(super) fn plain(difference: Difference) -> Object {
    object(difference, &HashMap::new())
}

fn object(difference: Difference, said: &HashMap<(&str, &str), &changes::Edit>) -> Object {
    let Difference { object, alone, lines } = difference;
    let more = lines.len().saturating_sub(LINES);
    let line = |(sign, text): (Sign, String)| {
        // Members have their key in front.
        let bare = text.split_once(' ').map_or(text.as_str(), |(_, rest)| rest);
        let find = |what: &str| said.get(&(object.as_str(), what)).copied();
        let edit = find(&text).or_else(|| find(bare)).or_else(|| find(&attached(&text)?));
        Line { sign, source: edit.and_then(|edit| edit.source.clone()), time: edit.and_then(|edit| edit.time), text }
    };
    let lines = lines.into_iter().take(LINES).map(line).collect();
    Object { object: object.clone(), alone, lines, more }
}

/// Returns the words of the live edit that attached or detached the list of a line: `block (in)` for `acl.in block`.
fn attached(line: &str) -> Option<String> {
    let (direction, list) = line.strip_prefix("acl.")?.split_once(' ')?;
    Some(format!("{list} ({direction})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attached_lists_have_their_source() {
        let edit = changes::Edit {
            of: "interface wan".into(),
            edit: changes::Kind::Attached,
            what: "block (in)".into(),
            id: None,
            place: None,
            source: Some("noc".into()),
            time: Some(7),
        };
        let said = HashMap::from([((edit.of.as_str(), edit.what.as_str()), &edit)]);
        let lines = ["acl.in block", "acl.out block"].map(|text| (Sign::Added, text.to_owned())).to_vec();
        let shown = object(Difference { object: "interface wan".into(), alone: None, lines }, &said);
        let sources: Vec<_> = shown.lines.iter().map(|line| (line.source.as_deref(), line.time)).collect();
        assert_eq!(sources, [(Some("noc"), Some(7)), (None, None)]);
    }

    #[test]
    fn a_refusal_to_save_names_object_and_rule() {
        let loaded = config::parse_str("run.toml", "version = 1\n[steer.edge]\nrules = [\n  \"drop quic\",\n]\n");
        let said = unsaveable(&loaded);
        assert!(said.starts_with("[steer.edge]: ") && said.ends_with(": `\"drop quic\",`"), "{said}");
        assert!(!said.contains("run.toml"), "{said}");
    }
}
