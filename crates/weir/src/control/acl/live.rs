//! Commands for access lists, carried out by the engine.

use std::sync::Arc;

use weir_plane::compile::{AclEdit, AclEdited, AclError, AclGroup, AclRestored, AclSaid};
use weir_plane::engine::{Engine, EngineError};
use weir_plane::model::{AclAction, AclDefault, AclList, AclRule, InterfaceIndex, Origin, Rejection};
use weir_plane::{model, stats};

use super::super::refusal::{Kind, Refusal};
use super::super::remarks::Remarks;
use super::read::{self, Changes, MOST_CHANGES, Spot, Text, Wrong};
use super::{Change, Expect, GroupRequest};
use crate::render::acl::changed::{Changed, Regrouped, Restored};
use crate::render::acl::rules::{Rule, Rules};
use crate::render::acl::{Acls, Chain, Group, Hits, List, WorstLookup};
use crate::render::matched::Matched;
use crate::render::number::plural;
use crate::rules::acl::{Role, Rule as Written};
use crate::rules::is_name;
use crate::rules::prefix::Short;
use crate::rules::steer::checks as steer;
use crate::suggest::closest;

/// The default by which packets open sessions.
const OPENS: AclDefault = AclDefault::Action(AclAction::Reflect);

/// The word for what a list does with packets that no rule of it matches.
pub(crate) fn word(default: AclDefault) -> &'static str {
    match default {
        AclDefault::Next => "next",
        AclDefault::Action(AclAction::Permit) => "permit",
        AclDefault::Action(AclAction::Reflect) => "permit+reflect",
        AclDefault::Action(AclAction::Deny) => "deny",
        AclDefault::Action(AclAction::Reject(Rejection::Usual)) => "reject",
        AclDefault::Action(AclAction::Reject(Rejection::Reset)) => "reject+reset",
        AclDefault::Action(AclAction::Reject(Rejection::Icmp)) => "reject+icmp",
    }
}

/// Says what happens to packets that match no rule of the only list of an interface; `None`: they pass.
pub(crate) fn unmatched(default: AclDefault) -> Option<&'static str> {
    match default {
        AclDefault::Next | AclDefault::Action(AclAction::Deny) => Some("denied"),
        AclDefault::Action(AclAction::Reject(_)) => Some("rejected"),
        AclDefault::Action(AclAction::Permit | AclAction::Reflect) => None,
    }
}

/// Reads the default of a list.
///
/// # Errors
/// Says that there is no such word.
pub(crate) fn default(word: &str) -> Result<AclDefault, String> {
    Ok(match word {
        "next" => AclDefault::Next,
        "permit" => AclDefault::Action(AclAction::Permit),
        "deny" => AclDefault::Action(AclAction::Deny),
        "reject" => AclDefault::Action(AclAction::Reject(Rejection::Usual)),
        _ => {
            let word = word.escape_debug();
            return Err(format!("`{word}` is no default of a list: write next, permit, deny or reject"));
        }
    })
}

fn hits(traffic: stats::Traffic) -> Hits {
    Hits { packets: traffic.packets, bytes: traffic.bytes }
}

/// A rule as one would write it.
pub(crate) fn written(gateway: &model::Gateway, rule: &AclRule) -> String {
    let name = |index: InterfaceIndex| -> Arc<str> {
        gateway.interfaces.get(index.0 as usize).map_or("?", |interface| interface.name.as_str()).into()
    };
    Written::of(rule, name).to_string()
}

/// Returns the members of a group as the configuration writes them.
pub(crate) fn member(gateway: &model::Gateway, group: &AclGroup) -> Vec<String> {
    match group {
        AclGroup::Addresses(group) => {
            let text = |addresses: &model::Addresses| match addresses {
                model::Addresses::Net(net) => Short(net).to_string(),
                model::Addresses::Range(first, last) => format!("{first}-{last}"),
                model::Addresses::Any => "any".to_owned(),
                model::Addresses::Group(group) => format!("@{}", group.name),
            };
            group.members.iter().map(text).collect()
        }
        AclGroup::Ports(group) => {
            let text = |range: &std::ops::RangeInclusive<u16>| match (range.start(), range.end()) {
                (first, last) if first == last => first.to_string(),
                (first, last) => format!("{first}-{last}"),
            };
            group.members.iter().map(text).collect()
        }
        AclGroup::Interfaces(group) => {
            let name = |index: &InterfaceIndex| gateway.interfaces.get(index.0 as usize);
            group.members.iter().filter_map(name).map(|interface| interface.name.clone()).collect()
        }
    }
}

/// Returns the chains of sequences of access lists, without a look at their rules.
pub(crate) fn chains(engine: &Engine) -> Vec<Chain> {
    let chain = |chain: stats::AclSectionStats| {
        let (lists, input, output) = (chain.lists, chain.input, chain.output);
        [("ipv4", chain.v4), ("ipv6", chain.v6)].map(|(family, table)| Chain {
            lists: lists.clone(),
            input: input.clone(),
            output: output.clone(),
            family: family.to_owned(),
            boxes: table.boxes as u64,
            bytes: (table.lookup_octets + table.control_octets) as u64,
            needs_transport: table.needs_transport,
            is_last: chain.is_last,
            worst_lookup: WorstLookup {
                ticks: table.worst.ticks as u64,
                nodes: table.worst.nodes as u64,
                overlapping: table.worst.overlapping as u64,
            },
        })
    };
    engine.acl_sections().into_iter().flat_map(chain).collect()
}

/// All lists.
pub(crate) fn lists(engine: &Engine) -> Acls {
    let list = |list: stats::AclListStats| List {
        name: list.name,
        default: word(list.default).to_owned(),
        rules: list.rules,
        live: list.live,
        matched: hits(list.matched),
        unmatched: hits(list.default_matched),
        input: list.input,
        output: list.output,
        origin: list.origin,
    };
    Acls {
        lists: engine.acl_lists().into_iter().map(list).collect(),
        groups: engine.acl_groups(|gateway, group, said| Group {
            name: group.name().to_string(),
            kind: group.kind().to_owned(),
            members: member(gateway, &group),
            source: said.map_or_else(|| "file".to_owned(), |said| said.source.to_string()),
        }),
        chains: chains(engine),
    }
}

/// The rules of a list, so many at most.
pub(crate) fn rules(engine: &Engine, list: &str, most: usize) -> Option<Rules> {
    let row = |gateway: &model::Gateway, row: stats::AclRuleRow| Rule {
        place: row.index + 1,
        id: row.number,
        rule: written(gateway, &row.rule),
        hits: hits(row.matched),
        limited: row.limited,
        rate: None,
        source: row.source,
        origin: row.origin,
        time: row.time,
    };
    let (rules, total) = engine.acl_rules(list, |_| true, most, row)?;
    let of = engine.acl_lists().into_iter().find(|known| known.name == list)?;
    Some(Rules {
        list: list.to_owned(),
        input: of.input,
        output: of.output,
        default: word(of.default).to_owned(),
        unmatched: hits(of.default_matched),
        unmatched_rate: None,
        interval: None,
        total,
        rules,
    })
}

/// Some rule of a list opens sessions, or its default does: of a model, with the live edits.
pub(crate) fn opens_sessions(engine: &Engine, gateway: &model::Gateway, list: &str) -> bool {
    let model = engine.model();
    let of = |gateway: &'_ model::Gateway| gateway.acls.iter().find(|own| own.name == list).cloned();
    let (now, next) = (of(&model), of(gateway));
    let stays = now.iter().zip(&next).any(|(now, next)| says_the_same(now, next));
    if !stays && next.as_ref().is_some_and(steer::opens_sessions) {
        return true;
    }
    // Rules of the file that a reload takes away do not count, nor do rules that live edits took away.
    let by_rule = |rule: &AclRule| rule.action == AclAction::Reflect;
    let counts = |_: &model::Gateway, row: stats::AclRuleRow| stays || row.time.is_some();
    let (rows, _) = engine.acl_rules(list, by_rule, usize::MAX, counts).unwrap_or_default();
    let is_declared = now.is_some_and(|own| own.default == OPENS);
    rows.contains(&true) || engine.acl_default(list) == Some(OPENS) && (stays || !is_declared)
}

/// The file declares a list as before, wherever its rules stand now.
fn says_the_same(now: &AclList, next: &AclList) -> bool {
    let alike = |(now, next): (&AclRule, &AclRule)| AclRule { origin: next.origin, ..now.clone() } == *next;
    now.default == next.default
        && now.rules.len() == next.rules.len()
        && now.rules.iter().zip(next.rules.iter()).all(alike)
}

/// Refuses an edit by which a list opens sessions that a steer rule leads to another worker.
fn refuse_steered(gateway: &model::Gateway, list: &str, edit: &AclEdit) -> Result<(), Failed> {
    if !edit.opens_sessions() {
        return Ok(());
    }
    steer::refused(gateway, |own| own == list).map_or(Ok(()), |own| Err(Failed::Steered(own.message)))
}

/// Returns the rules and defaults of all lists that matched packets, in the order of lists and rules.
pub(crate) fn matched(engine: &Engine) -> Vec<Matched> {
    let of = |list: stats::AclListStats| {
        let matched = |place, rule: String, own| {
            let hits = hits(own);
            (hits.packets > 0).then(|| Matched { list: list.name.clone(), place, rule, hits })
        };
        let row = |gateway: &model::Gateway, row: stats::AclRuleRow| {
            let rule = if row.matched.packets > 0 { written(gateway, &row.rule) } else { String::new() };
            matched(Some(row.index + 1), rule, row.matched)
        };
        let (rules, _) = engine.acl_rules(&list.name, |_| true, usize::MAX, row).unwrap_or_default();
        let default = matched(None, word(list.default).to_owned(), list.default_matched);
        rules.into_iter().chain([default]).flatten().collect::<Vec<_>>()
    };
    engine.acl_lists().into_iter().flat_map(of).collect()
}

/// Why something was not done, as far as it is known while the engine does it.
enum Failed {
    Refused(AclError),
    Steered(String),
    /// Rules outside of access lists cannot have the members of a group.
    Unfit(String),
    /// The model with them cannot come into force.
    Engine(EngineError),
    Invalid(Remarks),
    Conflict(Remarks),
}

impl From<AclError> for Failed {
    fn from(error: AclError) -> Failed {
        Failed::Refused(error)
    }
}

impl From<EngineError> for Failed {
    fn from(error: EngineError) -> Failed {
        Failed::Engine(error)
    }
}

impl From<Wrong> for Failed {
    fn from(wrong: Wrong) -> Failed {
        match wrong {
            Wrong::Invalid(remarks) => Failed::Invalid(remarks),
            Wrong::Conflict(remarks) => Failed::Conflict(remarks),
        }
    }
}

impl Failed {
    fn refusal(self, spots: &[Spot]) -> Refusal {
        match self {
            Failed::Refused(error) => Refusal::of_acl(error, spots),
            Failed::Steered(message) | Failed::Unfit(message) => {
                Refusal::new(Kind::Conflict, format!("{message}; nothing was changed"))
            }
            Failed::Engine(error) => Refusal::new(Kind::NoRoom, format!("{error}; nothing was changed")),
            Failed::Invalid(remarks) => Refusal::of_rules(Kind::InvalidRules, remarks),
            Failed::Conflict(remarks) => Refusal::of_rules(Kind::Conflict, remarks),
        }
    }
}

impl Refusal {
    /// Of changes to access lists that could not be put into force. `spots` are where their rules stood.
    fn of_acl(error: AclError, spots: &[Spot]) -> Refusal {
        let message = error.to_string();
        match error {
            AclError::NoSuchList { list, lists } => {
                let help = match closest(&list, &lists) {
                    Some(name) => format!("did you mean `{name}`?"),
                    None if lists.is_empty() => "there is none".to_owned(),
                    None => format!("there are {}", lists.join(", ")),
                };
                Refusal { lists, ..Refusal::new(Kind::UnknownList, format!("{message}; {help}")) }
            }
            AclError::NoSuchRule { .. }
            | AclError::NoSuchPlace { .. }
            | AclError::NoFamily { .. }
            | AclError::NoFamilyIn { .. }
            | AclError::Exists { .. } => Refusal::new(Kind::Conflict, format!("{message}; nothing was changed")),
            AclError::NoSampler { list, place } => {
                let spot = spots.get(place.wrapping_sub(1)).copied().unwrap_or_default();
                let message = format!("the rule logs, and access list `{list}` has no sampler");
                let help = format!("declare `sample` under `[acl.{list}]`, or leave `log` out");
                let mut remarks = Remarks::default();
                remarks.push(|| spot.remark(message, Some(&help)));
                Refusal::of_rules(Kind::InvalidRules, remarks)
            }
            AclError::NoSuchGroup { .. } => Refusal::new(Kind::UnknownGroup, format!("{message}; nothing was changed")),
            AclError::EmptyGroup { .. } | AclError::GroupCycle { .. } => {
                Refusal::new(Kind::BadRequest, format!("{message}; nothing was changed"))
            }
            AclError::InUse { .. }
            | AclError::Declared { .. }
            | AclError::GroupInUse { .. }
            | AclError::GroupDeclared { .. } => Refusal::new(Kind::InUse, message),
            _ => Refusal::new(Kind::NoRoom, format!("{message}; nothing was changed")),
        }
    }
}

fn said(source: &str, time: u64) -> AclSaid {
    AclSaid { source: source.into(), time }
}

fn changed(list: &str, source: &str, created: bool, edited: AclEdited, warnings: Remarks) -> Changed {
    Changed {
        list: list.to_owned(),
        source: source.to_owned(),
        created,
        inserted: edited.added,
        deleted: edited.deleted,
        moved: edited.moved,
        rules: edited.rules,
        default: None,
        default_before: None,
        warnings: warnings.shown,
        more_warnings: warnings.more,
    }
}

fn groups(engine: &Engine) -> Vec<AclGroup> {
    engine.acl_groups(|_, group, _| group)
}

/// Carries out a batch, at a time in seconds of the Unix epoch.
pub(crate) fn change(
    engine: &Engine,
    list: &str,
    source: &str,
    changes: &[Change],
    time: u64,
) -> Result<Changed, Box<Refusal>> {
    if changes.len() > MOST_CHANGES {
        let message = format!("a batch has at most {MOST_CHANGES} changes: replace the list as a whole");
        return Err(Refusal::new(Kind::TooLarge, message).into());
    }
    let (mut errors, mut warnings) = (Remarks::default(), Remarks::default());
    let changes = Changes::read(changes, &mut errors, &mut warnings);
    let ids = match changes.need_ids() {
        false => None,
        true => match engine.acl_rules(list, |_| true, usize::MAX, |_, row| row.number) {
            Some((ids, _)) => Some(ids),
            None => return Err(Refusal::of_acl(no_such_list(engine, list), &[]).into()),
        },
    };
    let groups = groups(engine);
    let understood =
        |gateway: &model::Gateway| changes.batch(ids.as_deref(), &read::vocabulary(gateway, &groups), &errors);
    let before = beforehand(engine, understood);
    let mut spots = Vec::new();
    let edited = engine.edit_acl(list, &said(source, time), |gateway| {
        let batch = before.of(gateway, understood)?;
        spots = batch.spots;
        refuse_steered(gateway, list, &batch.edit)?;
        Ok::<_, Failed>(batch.edit)
    });
    match edited {
        Ok(edited) => Ok(changed(list, source, false, edited, warnings)),
        Err(failed) => Err(failed.refusal(&spots).into()),
    }
}

/// A request that was read by a model while the engine went on.
struct Beforehand<T> {
    model: Arc<model::Gateway>,
    understood: T,
}

/// Understands something by the model in force. It may take long, so the engine does not wait for it.
fn beforehand<T>(engine: &Engine, understand: impl FnOnce(&model::Gateway) -> T) -> Beforehand<T> {
    let model = engine.model();
    Beforehand { understood: understand(&model), model }
}

impl<T> Beforehand<T> {
    /// Returns the request. Reads it again if another model is in force now.
    fn of(self, gateway: &model::Gateway, understand: impl FnOnce(&model::Gateway) -> T) -> T {
        if std::ptr::eq(gateway, &raw const *self.model) { self.understood } else { understand(gateway) }
    }
}

fn no_such_list(engine: &Engine, list: &str) -> AclError {
    let lists = engine.acl_lists().into_iter().map(|list| list.name).collect();
    AclError::NoSuchList { list: list.to_owned(), lists }
}

/// A list as a whole.
pub struct Put<'a> {
    /// The source of the change.
    pub source: &'a str,
    /// Its rules.
    pub text: &'a str,
    /// The default; `None`: the present one, or `next`.
    pub default: Option<AclDefault>,
    /// Whether there is to be one already.
    pub expect: Option<Expect>,
    /// A list that is there may lose all its rules.
    pub allow_empty: bool,
}

/// Replaces all rules of a list, or makes it.
pub(crate) fn put(engine: &Engine, list: &str, put: &Put<'_>, time: u64) -> Result<Changed, Box<Refusal>> {
    let Put { source, text, default, expect, allow_empty } = *put;
    let (mut errors, mut warnings) = (Remarks::default(), Remarks::default());
    let Some(text) = Text::read(text, None, &mut errors, &mut warnings) else {
        return Err(Refusal::of_rules(Kind::InvalidRules, errors).into());
    };
    let before_default = engine.acl_default(list);
    let create = match expect {
        Some(Expect::New) => true,
        Some(Expect::Existing) => false,
        None => before_default.is_none(),
    };
    if !create && text.is_empty() && !allow_empty {
        let of = engine.acl_lists().into_iter().find(|known| known.name == list);
        let Some(of) = of else { return Err(Refusal::of_acl(no_such_list(engine, list), &[]).into()) };
        let message = format!(
            "no rule was sent: access list `{list}` would lose {}; allow it with `--allow-empty` (`allow-empty=true` in a \
             query); nothing was changed",
            match of.rules {
                1 => "its only rule".to_owned(),
                rules => format!("all its {}", plural(rules as u64, "rule")),
            }
        );
        return Err(Refusal::new(Kind::Conflict, message).into());
    }
    if create && !is_name(list) {
        let message = format!("`{}` cannot be the name of an access list", list.escape_debug());
        return Err(Refusal::new(Kind::BadRequest, message).into());
    }
    let groups = groups(engine);
    let understood = |gateway: &model::Gateway| {
        let mut errors = Remarks::default();
        let rules = text.rules(&read::vocabulary(gateway, &groups), &mut errors);
        if !errors.is_empty() {
            return Err(Failed::Invalid(errors));
        }
        let understood: (Vec<Spot>, Vec<AclRule>) = rules.into_iter().unzip();
        Ok(understood)
    };
    let before = beforehand(engine, understood);
    let mut spots = Vec::new();
    let said = said(source, time);
    let edited = if create {
        engine.create_acl(&said, |gateway| {
            let (places, rules) = before.of(gateway, understood)?;
            spots = places;
            let (name, default) = (list.to_owned(), default.unwrap_or_default());
            Ok::<_, Failed>(AclList { name, rules: rules.into(), default, sample: None, origin: Origin::default() })
        })
    } else {
        engine.edit_acl(list, &said, |gateway| {
            let (places, rules) = before.of(gateway, understood)?;
            spots = places;
            let edit = AclEdit::Replace { rules, default };
            refuse_steered(gateway, list, &edit)?;
            Ok(edit)
        })
    };
    match edited {
        Ok(edited) => Ok(Changed {
            default: default.filter(|now| before_default != Some(*now)).map(|now| word(now).to_owned()),
            default_before: default
                .and(before_default)
                .filter(|was| default != Some(*was))
                .map(|was| word(was).to_owned()),
            ..changed(list, source, create, edited, warnings)
        }),
        Err(failed) => Err(failed.refusal(&spots).into()),
    }
}

/// Has a list gone that was made while the gateway ran.
pub(crate) fn remove(engine: &Engine, list: &str) -> Result<(), Box<Refusal>> {
    engine.delete_acl(list).map(drop).map_err(|error| Refusal::of_acl(error, &[]).into())
}

/// Takes back what a group was given while the gateway ran.
pub(crate) fn restore_group(engine: &Engine, name: &str, check: Check<'_>) -> Result<Regrouped, Box<Refusal>> {
    match engine.restore_group(name, |gateway| check(gateway).map_err(Failed::Unfit)) {
        Ok((AclRestored { kind, members, rules }, translations)) => Ok(Regrouped {
            group: name.to_owned(),
            kind: kind.to_owned(),
            members: members.unwrap_or(0),
            rules,
            translations,
            restored: Some(members.map_or(Restored::Removed, |_| Restored::AsConfigured)),
            warnings: Vec::new(),
            more_warnings: 0,
        }),
        // The live edits of other groups do not fit the declaration.
        Err(Failed::Refused(error @ AclError::GroupCycle { .. })) => {
            Err(Refusal::new(Kind::Conflict, format!("{error}; nothing was changed")).into())
        }
        Err(Failed::Refused(AclError::NoSuchGroup { .. })) => {
            let names: Vec<String> = groups(engine).iter().map(|group| group.name().to_string()).collect();
            let message = format!("there is no group `{name}`");
            let message = match closest(name, &names) {
                Some(known) => format!("{message}; did you mean `{known}`?"),
                None => message,
            };
            Err(Refusal::new(Kind::UnknownGroup, message).into())
        }
        Err(failed) => Err(failed.refusal(&[]).into()),
    }
}

/// Checks a model by which rules outside of access lists have other members of groups. Errors say why it cannot come into force.
pub(crate) type Check<'c> = &'c dyn Fn(&model::Gateway) -> Result<(), String>;

/// Sets the members of a group.
pub(crate) fn group(
    engine: &Engine,
    name: &str,
    request: &GroupRequest,
    time: u64,
    check: Check<'_>,
) -> Result<Regrouped, Box<Refusal>> {
    let groups = groups(engine);
    let known = groups.iter().find(|group| **group.name() == *name).map(AclGroup::kind);
    let kind = request.kind.map(super::GroupKind::name);
    if let (Some(known), Some(kind)) = (known, kind)
        && known != kind
    {
        let message = format!("`{name}` is a group of {known}, not of {kind}; nothing was changed");
        return Err(Refusal::new(Kind::Conflict, message).into());
    }
    let role = match known.or(kind) {
        Some("addresses") => Role::Addresses,
        Some("ports") => Role::Ports,
        Some("interfaces") => Role::Interfaces,
        _ => {
            let names: Vec<String> = groups.iter().map(|group| group.name().to_string()).collect();
            let help = match closest(name, &names) {
                Some(known) => format!("did you mean `{known}`?"),
                None => "a new one needs a `kind`: addresses, ports or interfaces".to_owned(),
            };
            return Err(Refusal::new(Kind::UnknownGroup, format!("there is no group `{name}`; {help}")).into());
        }
    };
    if !is_name(name) {
        let message = format!("`{}` cannot be the name of a group", name.escape_debug());
        return Err(Refusal::new(Kind::BadRequest, message).into());
    }
    let mut warnings = Remarks::default();
    let members = |gateway: &model::Gateway| {
        let vocabulary = read::vocabulary(gateway, &groups);
        let (members, odd) = read::group(name, role, &request.members, &vocabulary).map_err(Failed::Invalid)?;
        warnings = odd;
        Ok::<_, Failed>(members)
    };
    let check = |gateway: &model::Gateway| check(gateway).map_err(Failed::Unfit);
    let edited = engine.replace_group(&said(&request.source, time), members, check);
    let (edited, translations) = edited.map_err(|failed| Box::new(failed.refusal(&[])))?;
    let members = self::groups(engine).iter().find(|group| **group.name() == *name).map_or(0, AclGroup::len);
    Ok(Regrouped {
        group: name.to_owned(),
        kind: known.or(kind).unwrap_or_default().to_owned(),
        members,
        rules: edited.rules,
        translations,
        restored: None,
        warnings: warnings.shown,
        more_warnings: warnings.more,
    })
}
