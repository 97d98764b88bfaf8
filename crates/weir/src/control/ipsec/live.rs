//! The live changes, and the overlay that they are.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use toml::de::DeTable;
use weir_plane::engine::sa_name;
use weir_plane::model::{Gateway, Spd};
use weir_plane::stats::{SaLife, SaPhase, SaStats};

use super::super::acl::{Change, Insert, Replace, Which};
use super::super::lists::Said;
use super::super::refusal::{Kind, Refusal};
use super::super::remarks::Remarks;
use super::edit::{SaEdit, SpdEdit};
use crate::config::{OverRule, OverSa, OverSpd, Overlay, Successor};
use crate::render::changes::{Edit, Kind as EditKind};
use crate::render::ipsec_changed::SpdChanged;
use crate::render::remark::Remark;
use crate::render::sas::{Part, Rekey};
use crate::rules::Names;
use crate::rules::spd::{self, Rule as Written};
use crate::suggest::closest;

/// The time that the old pair still receives once the new one sends.
const GRACE: Duration = Duration::from_secs(30);

/// Changes of a batch, at most.
const MOST_CHANGES: usize = 10_000;

/// The live changes of pairs of SAs and of SPDs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Live {
    pub(super) sas: BTreeMap<String, Pair>,
    pub(super) spds: BTreeMap<String, OverSpd>,
    /// The sources that removed rules of the files, by SPD and rule.
    pub(super) removed: BTreeMap<String, BTreeMap<String, Said>>,
}

/// A pair of SAs that came by the socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pair {
    said: Said,
    pub(super) keys: String,
    pub(super) next: Option<Next>,
}

/// The pair that takes its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Next {
    said: Said,
    keys: String,
    /// The time from which on it sends.
    leads: Option<Instant>,
}

fn refuse<T>(kind: Kind, message: String) -> Result<T, Box<Refusal>> {
    Err(Refusal::new(kind, message + "; nothing was changed").into())
}

/// The name of the pair that takes the place of another.
fn next_name(name: &str) -> String {
    format!("{name}-next")
}

impl Live {
    /// The overlay of the configuration.
    pub(crate) fn overlay(&self) -> Overlay {
        let mut overlay = Overlay { spds: self.spds.values().cloned().collect(), ..Overlay::default() };
        for (name, pair) in &self.sas {
            overlay.sas.push(over_sa(name, &pair.said.source, &pair.keys));
            if let Some(next) = &pair.next {
                let new = next_name(name);
                overlay.sas.push(over_sa(&new, &next.said.source, &next.keys));
                overlay.successors.push(Successor { old: name.clone(), new, leads: next.leads.is_some() });
            }
        }
        overlay
    }

    /// A pair, and the pair that takes its place.
    pub(super) fn pair(&self, name: &str) -> Option<(OverSa, Option<OverSa>)> {
        let pair = self.sas.get(name)?;
        let next = pair.next.as_ref().map(|next| over_sa(&next_name(name), &next.said.source, &next.keys));
        Some((over_sa(name, &pair.said.source, &pair.keys), next))
    }

    /// The rules of an SPD that was changed.
    pub(crate) fn spd(&self, name: &str) -> Option<&OverSpd> {
        self.spds.get(name)
    }

    /// The parts that pairs have in rekeys, by name.
    pub(crate) fn rekeys(&self) -> HashMap<String, Rekey> {
        let mut all = HashMap::new();
        for (name, pair) in &self.sas {
            let Some(next) = &pair.next else { continue };
            let left = next.leads.map(|since| GRACE.saturating_sub(since.elapsed()).as_secs());
            let new = next_name(name);
            let old = Rekey { part: Part::Old, other: new.clone(), sends: left.is_none(), seconds_left: left };
            let next = Rekey { part: Part::New, other: name.clone(), sends: left.is_some(), seconds_left: None };
            all.insert(name.clone(), old);
            all.insert(new, next);
        }
        all
    }

    /// Changes a pair of SAs on a copy.
    pub(crate) fn edit_sa(
        &self,
        gateway: &Gateway,
        name: &str,
        said: &Said,
        edit: SaEdit<'_>,
    ) -> Result<Live, Box<Refusal>> {
        let mut live = self.clone();
        if let SaEdit::Add(keys) = edit {
            if let Some(old) = self.rekeyed_as(name) {
                let message =
                    format!("a rekey of the pair of SAs `{old}` names the new pair `{name}`: take another name");
                return refuse(Kind::Conflict, message);
            }
            if gateway.sas.iter().any(|sa| sa.name == name) {
                return refuse(Kind::Conflict, format!("there is a pair of SAs `{name}` already"));
            }
            let pair = Pair { said: said.clone(), keys: whole(name, keys)?, next: None };
            live.sas.insert(name.to_owned(), pair);
            return Ok(live);
        }
        if let Some(old) = self.rekeyed_by(name) {
            let help =
                format!("`weir sa switch {old}` and `weir sa finish {old}` end the rekey, `weir undo` takes it back");
            return refuse(Kind::Conflict, format!("`{name}` is the new pair of a rekey of `{old}`: {help}"));
        }
        let Some(pair) = live.sas.get_mut(name) else {
            return match gateway.sas.iter().any(|sa| sa.name == name) {
                true => {
                    let help = "(docs/ipsec.md, New keys, has the steps without a loss)";
                    let message = format!("the pair of SAs `{name}` is of a file: change it there, and reload {help}");
                    refuse(Kind::InUse, message)
                }
                false => refuse(Kind::NotFound, format!("there is no pair of SAs `{name}`")),
            };
        };
        let no_rekey = || refuse(Kind::Conflict, format!("no rekey of `{name}` is under way"));
        match edit {
            SaEdit::Add(_) => {}
            SaEdit::Update(_) | SaEdit::Rekey(_) if pair.next.is_some() => {
                return refuse(
                    Kind::Conflict,
                    format!(
                        "a rekey of `{name}` is under way: `weir sa switch {name}` and `weir sa finish {name}` end it"
                    ),
                );
            }
            SaEdit::Update(keys) => {
                *pair = Pair { said: said.clone(), keys: whole(name, keys)?, next: None };
            }
            SaEdit::Rekey(keys) => {
                let next = next_name(name);
                if gateway.sas.iter().any(|sa| sa.name == next) {
                    return refuse(
                        Kind::Conflict,
                        format!("there is a pair of SAs `{next}`, the name of the new pair"),
                    );
                }
                pair.next = Some(Next { said: said.clone(), keys: whole(&next, keys)?, leads: None });
            }
            SaEdit::Switch => match &mut pair.next {
                Some(next) if next.leads.is_none() => next.leads = Some(Instant::now()),
                Some(_) => {
                    let message =
                        format!("the new pair of `{name}` sends already: `weir sa finish {name}` ends the rekey");
                    return refuse(Kind::Conflict, message);
                }
                None => return no_rekey(),
            },
            SaEdit::Finish => match pair.next.take() {
                Some(Next { said, keys, leads: Some(_) }) => *pair = Pair { said, keys, next: None },
                Some(_) => {
                    return refuse(
                        Kind::Conflict,
                        format!("the new pair of `{name}` does not send yet: `weir sa switch {name}` has it send"),
                    );
                }
                None => return no_rekey(),
            },
            SaEdit::Delete => {
                let named = rules_that_name(gateway, name);
                if let Some(rule) = named.first() {
                    let message = format!("rules name the pair of SAs `{name}`, such as `{rule}`: delete them first");
                    return refuse(Kind::InUse, message);
                }
                live.sas.remove(name);
            }
        }
        Ok(live)
    }

    /// A pair whose rekey goes on by itself: the peer's first packet for the new pair has come, the old pair may send no more, or it is
    /// not needed any more.
    pub(crate) fn due(&self, sas: impl FnOnce() -> Vec<SaStats>) -> Option<(String, SaEdit<'static>)> {
        let mut waiting = self.sas.iter().filter_map(|(name, pair)| Some((name, pair.next.as_ref()?))).peekable();
        waiting.peek()?;
        let sas = sas();
        let has_come = |name: &str| {
            let new = next_name(name);
            let is = |sa: &&SaStats| sa.name == new;
            sas.iter().find(is).and_then(|sa| sa.inbound.as_ref()).is_some_and(|into| into.packets > 0)
        };
        // Without the new pair, no packet would leave from now on.
        let is_over = |name: &str| {
            let old = sas.iter().find(|sa| sa.name == name).and_then(|sa| sa.outbound.as_ref());
            let has_expired = |life: SaLife| matches!(life.phase, SaPhase::Expired(_));
            old.is_some_and(|old| old.exhausted > 0 || old.life.is_some_and(has_expired))
        };
        waiting.find_map(|(name, next)| match next.leads {
            None if has_come(name) || is_over(name) => Some((name.clone(), SaEdit::Switch)),
            Some(since) if since.elapsed() >= GRACE => Some((name.clone(), SaEdit::Finish)),
            _ => None,
        })
    }

    /// The pair whose rekeys name their new pair so. Pairs of files have no rekeys.
    fn rekeyed_as(&self, new: &str) -> Option<&str> {
        self.sas.keys().find(|name| next_name(name) == new).map(String::as_str)
    }

    /// The pair that a new pair takes the place of, if this is the name of one.
    fn rekeyed_by(&self, new: &str) -> Option<&str> {
        let is = |(name, pair): &(&String, &Pair)| pair.next.is_some() && next_name(name) == new;
        self.sas.iter().find(is).map(|(name, _)| name.as_str())
    }

    /// Refuses rules that name the new pair of a rekey: its name goes with the rekey.
    fn check_names(&self, rules: &[OverRule]) -> Result<(), Box<Refusal>> {
        for rule in rules.iter().filter(|rule| rule.source.is_some()) {
            let words: Vec<&str> = rule.text.split_whitespace().collect();
            let named = words.windows(2).find(|pair| pair[0] == "sa").map(|pair| pair[1]);
            if let Some((new, old)) = named.and_then(|new| Some((new, self.rekeyed_by(new)?))) {
                let message = format!("`{}` names `{new}`, the new pair of a rekey of `{old}`", rule.text);
                return refuse(Kind::Conflict, format!("{message}: name `{old}`, whose rules hold for both"));
            }
        }
        Ok(())
    }

    /// A rekey is under way.
    pub(crate) fn is_rekeying(&self) -> bool {
        self.sas.values().any(|pair| pair.next.is_some())
    }

    /// Changes the rules of an SPD on a copy.
    pub(crate) fn edit_spd(
        &self,
        gateway: &Gateway,
        name: &str,
        said: &Said,
        edit: SpdEdit<'_>,
    ) -> Result<(Live, SpdChanged), Box<Refusal>> {
        let mut live = self.clone();
        if edit == SpdEdit::Reset {
            live.removed.remove(name);
            return match live.spds.remove(name) {
                Some(over) => {
                    let own: Vec<String> = over.rules.into_iter().map(|rule| rule.text).collect();
                    let changed = SpdChanged {
                        spd: name.to_owned(),
                        source: said.source.clone(),
                        inserted: missing(&over.declared, &own),
                        deleted: missing(&own, &over.declared),
                        rules: over.declared.len(),
                        ..Default::default()
                    };
                    Ok((live, changed))
                }
                None => refuse(Kind::Conflict, format!("the socket has not changed the SPD `{name}`")),
            };
        }
        let mut over = match live.spds.remove(name) {
            Some(over) => over,
            None => self.declared(gateway, spd_named(gateway, name)?),
        };
        let mut warnings = Remarks::default();
        let (inserted, deleted) = match edit {
            SpdEdit::Reset => (0, 0),
            SpdEdit::Batch(changes) => batch(&mut over.rules, said, changes, &mut warnings)?,
            SpdEdit::Replace { text, allow_empty } => replace(&mut over, said, (text, allow_empty), &mut warnings)?,
        };
        self.check_names(&over.rules)?;
        let changed = SpdChanged {
            spd: name.to_owned(),
            source: said.source.clone(),
            inserted,
            deleted,
            rules: over.rules.len(),
            warnings: warnings.shown,
            more_warnings: warnings.more,
        };
        live.note_removed(&over, said);
        live.spds.insert(name.to_owned(), over);
        Ok((live, changed))
    }

    /// Notes the source that removed rules of the files from an SPD.
    fn note_removed(&mut self, over: &OverSpd, said: &Said) {
        let own: Vec<String> = over.rules.iter().map(|rule| rule.text.clone()).collect();
        let mut before = self.removed.remove(&over.name).unwrap_or_default();
        let removed = unmatched(&over.declared, &own).map(|text| {
            let said = before.remove(text).unwrap_or_else(|| said.clone());
            (text.clone(), said)
        });
        let removed: BTreeMap<String, Said> = removed.collect();
        if !removed.is_empty() {
            self.removed.insert(over.name.clone(), removed);
        }
    }

    /// An SPD as the files declare it: without the rules that a rekey added.
    fn declared(&self, gateway: &Gateway, spd: &Spd) -> OverSpd {
        let is_next = |sa: Option<&str>| {
            let pairs = self.sas.iter().filter(|(_, pair)| pair.next.is_some());
            sa.is_some_and(|sa| pairs.map(|(name, _)| next_name(name)).any(|next| next == sa))
        };
        let rules = spd.rules.iter().map(|rule| Written::of(rule, |sa| sa_name(gateway, sa)));
        let rules: Vec<String> =
            rules.filter(|rule| !is_next(rule.sa.as_deref())).map(|rule| rule.to_string()).collect();
        let own = rules.iter().map(|text| OverRule { text: text.clone(), source: None, time: None }).collect();
        OverSpd { name: spd.name.clone(), declared: rules, rules: own }
    }

    /// The pairs and the rules that came or went by the socket, for `show changes`.
    pub(crate) fn edits(&self) -> Vec<Edit> {
        let row = |of: &str, edit, what: &str, said: Option<(&str, u64)>| {
            let (of, what) = (of.to_owned(), what.to_owned());
            let (source, time) = said.map(|(source, time)| (source.to_owned(), time)).unzip();
            Edit { of, edit, what, id: None, place: None, source, time }
        };
        let mut edits = Vec::new();
        for (name, pair) in &self.sas {
            edits.push(row(&format!("sa {name}"), EditKind::Created, "pair of SAs", by(&pair.said)));
            if let Some(next) = &pair.next {
                let of = format!("sa {}", next_name(name));
                edits.push(row(&of, EditKind::Created, "pair of SAs of a rekey", by(&next.said)));
            }
        }
        for over in self.spds.values() {
            let of = format!("spd {}", over.name);
            let own: Vec<String> = over.rules.iter().map(|rule| rule.text.clone()).collect();
            for text in unmatched(&own, &over.declared) {
                let said = over.rules.iter().filter(|rule| rule.text == *text);
                let said = said.filter_map(|rule| Some((rule.source.as_deref()?, rule.time?))).next();
                edits.push(row(&of, EditKind::Added, text, said));
            }
            let removed = self.removed.get(&over.name);
            for text in unmatched(&over.declared, &own) {
                let said = removed.and_then(|removed| removed.get(text));
                edits.push(row(&of, EditKind::Removed, text, said.and_then(by)));
            }
        }
        edits
    }

    /// The rules of an SPD as they can be read again.
    pub(crate) fn rules(&self, gateway: &Gateway, name: &str) -> Result<Vec<OverRule>, Box<Refusal>> {
        match self.spds.get(name) {
            Some(over) => Ok(over.rules.clone()),
            None => Ok(self.declared(gateway, spd_named(gateway, name)?).rules),
        }
    }
}

/// A source and its time, as listings have them.
fn by(said: &Said) -> Option<(&str, u64)> {
    Some((&said.source, said.time))
}

/// A pair of SAs as the configuration reads it.
fn over_sa(name: &str, source: &str, keys: &str) -> OverSa {
    OverSa { name: name.to_owned(), source: source.to_owned(), text: document(name, keys) }
}

/// The document of a pair of SAs.
fn document(name: &str, keys: &str) -> String {
    format!("[sa.{name}]\n{keys}")
}

/// Checks that keys of `[sa.NAME]` are of that table alone; returns them.
fn whole(name: &str, keys: &str) -> Result<String, Box<Refusal>> {
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    if !is_name {
        return refuse(Kind::BadRequest, format!("`{name}` is no name of a pair of SAs"));
    }
    // A text that is no document is reported by the reader of the configuration, with its place.
    let text = document(name, keys);
    if let Ok(table) = DeTable::parse(&text) {
        let table = table.get_ref();
        let sas = table.get("sa").and_then(|sas| sas.get_ref().as_table());
        let is_alone = table.len() == 1 && sas.is_some_and(|sas| sas.len() == 1 && sas.contains_key(name));
        if !is_alone {
            let message = format!("the text has more than the keys of `[sa.{name}]`");
            return refuse(Kind::BadRequest, message);
        }
    }
    Ok(keys.to_owned())
}

/// Counts the rules of a list that another list does not have.
fn missing(from: &[String], other: &[String]) -> usize {
    unmatched(from, other).count()
}

/// Returns the rules of a list that another list does not have.
fn unmatched<'r>(from: &'r [String], other: &[String]) -> impl Iterator<Item = &'r String> {
    let mut left: HashMap<String, usize> = HashMap::new();
    other.iter().for_each(|rule| *left.entry(rule.clone()).or_default() += 1);
    from.iter().filter(move |rule| match left.get_mut(rule.as_str()) {
        Some(count) if *count > 0 => {
            *count -= 1;
            false
        }
        _ => true,
    })
}

fn rules_that_name(gateway: &Gateway, name: &str) -> Vec<String> {
    let rules = gateway.spds.iter().flat_map(|spd| spd.rules.iter());
    let written = rules.map(|rule| Written::of(rule, |sa| sa_name(gateway, sa)));
    written.filter(|rule| rule.sa.as_deref() == Some(name)).map(|rule| rule.to_string()).collect()
}

fn spd_named<'a>(gateway: &'a Gateway, name: &str) -> Result<&'a Spd, Box<Refusal>> {
    gateway.spds.iter().find(|spd| spd.name == name).ok_or_else(|| {
        let lists: Vec<String> = gateway.spds.iter().map(|spd| spd.name.clone()).collect();
        let help = match closest(name, &lists) {
            Some(near) => format!("did you mean `{near}`?"),
            None if lists.is_empty() => "there is none".to_owned(),
            None => format!("there are {}", lists.join(", ")),
        };
        let message = format!("there is no SPD with the name `{name}`; {help}");
        Refusal { lists, ..Refusal::new(Kind::UnknownList, message) }.into()
    })
}

fn remark(change: usize, message: impl Into<String>) -> Remark {
    Remark { change: Some(change), message: message.into(), ..Remark::default() }
}

/// Reads rules, one a line; notes what is wrong or odd.
fn read(text: &str, change: Option<usize>, said: &Said, errors: &mut Remarks, warnings: &mut Remarks) -> Vec<OverRule> {
    let mut names = Names::default();
    let mut rules = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match spd::parse(line, &mut names) {
            Ok((rule, odd)) => {
                warnings.of_text(change, true, &odd);
                rules.push(OverRule {
                    text: rule.to_string(),
                    source: Some(said.source.clone()),
                    time: Some(said.time),
                });
            }
            Err(wrong) => errors.of_text(change, true, &wrong),
        }
    }
    if rules.is_empty() && errors.is_empty() && change.is_some() {
        errors.push(|| remark(change.unwrap_or_default(), "there is no rule in it"));
    }
    rules
}

/// The index of a place, counted from 1.
fn index(at: Option<usize>, id: bool, most: usize) -> Result<usize, String> {
    match at {
        _ if id => Err("rules of an SPD have places and no ids: use `at`".to_owned()),
        None | Some(0) => Err("a place is needed, counted from 1".to_owned()),
        Some(place) if place > most => Err(format!("there is no place {place}: the last one is {most}")),
        Some(place) => Ok(place - 1),
    }
}

/// Carries out a batch; returns how many rules came and went.
fn batch(
    rules: &mut Vec<OverRule>,
    said: &Said,
    changes: &[Change],
    warnings: &mut Remarks,
) -> Result<(usize, usize), Box<Refusal>> {
    if changes.len() > MOST_CHANGES {
        return refuse(Kind::TooLarge, format!("a batch has at most {MOST_CHANGES} changes"));
    }
    let (mut errors, mut absent) = (Remarks::default(), Remarks::default());
    let (mut inserted, mut deleted) = (0, 0);
    for (number, change) in (1..).zip(changes) {
        let done = match change {
            Change::Insert(Insert { rules: text, at, before, after }) => {
                let new = read(text, Some(number), said, &mut errors, warnings);
                let end = rules.len() + 1;
                index(at.or(Some(end)), before.is_some() || after.is_some(), end).map(|at| {
                    inserted += new.len();
                    rules.splice(at..at, new);
                })
            }
            Change::Delete(Which { id, at }) => index(*at, id.is_some(), rules.len()).map(|at| {
                rules.remove(at);
                deleted += 1;
            }),
            Change::Replace(Replace { rules: text, id, at }) => {
                let new = read(text, Some(number), said, &mut errors, warnings);
                index(*at, id.is_some(), rules.len()).map(|at| {
                    inserted += new.len();
                    deleted += 1;
                    rules.splice(at..=at, new);
                })
            }
        };
        if let Err(message) = done {
            absent.push(|| remark(number, message));
        }
    }
    if !errors.is_empty() {
        return Err(Refusal::of_rules(Kind::InvalidRules, errors).into());
    }
    if !absent.is_empty() {
        return Err(Refusal::of_rules(Kind::Conflict, absent).into());
    }
    Ok((inserted, deleted))
}

/// Replaces all rules. Unchanged rules keep their source. Returns how many came and went.
fn replace(
    over: &mut OverSpd,
    said: &Said,
    (text, allow_empty): (&str, bool),
    warnings: &mut Remarks,
) -> Result<(usize, usize), Box<Refusal>> {
    let mut errors = Remarks::default();
    let mut new = read(text, None, said, &mut errors, warnings);
    if !errors.is_empty() {
        return Err(Refusal::of_rules(Kind::InvalidRules, errors).into());
    }
    if new.is_empty() && !allow_empty {
        let message =
            format!("no rule was sent: the SPD `{}` would be empty; allow it with `--allow-empty`", over.name);
        return refuse(Kind::Conflict, message);
    }
    let mut before: Vec<Option<OverRule>> = over.rules.drain(..).map(Some).collect();
    let mut inserted = 0;
    for rule in &mut new {
        let same = before.iter_mut().find(|own| own.as_ref().is_some_and(|own| own.text == rule.text));
        match same.and_then(Option::take) {
            Some(own) => *rule = own,
            None => inserted += 1,
        }
    }
    let deleted = before.iter().flatten().count();
    over.rules = new;
    Ok((inserted, deleted))
}
