//! The keys of every mechanism: the actions for invalid packets, and exemptions.

use std::time::Duration;

use weir_plane::model::{Alarm, LinkCheck, RateLimit, RatePer, RateUnit, SavAction, SavLayout};

use super::super::super::diagnostic::{Code, Diagnostic};
use super::super::super::table::{Reader, Table, Value};
use super::super::rules::understood;
use super::super::{At, route};
use super::policy::{Limit, Mechanism, Policy, Response};
use crate::rules::{Names, acl};

/// The default window of an alarm.
const WINDOW: Duration = Duration::from_secs(10);
const LONGEST_WINDOW: Duration = Duration::from_secs(3600);

const ACTIONS: &[(&str, SavAction)] = &[
    ("permit", SavAction::Permit),
    ("discard", SavAction::Discard),
    ("rate-limit", SavAction::RateLimit),
    ("redirect", SavAction::Redirect),
];

const LINK_CHECKS: &[(&str, LinkCheck)] =
    &[("off", LinkCheck::Off), ("known", LinkCheck::Known), ("strict", LinkCheck::Strict)];

/// Reads the keys of a policy.
pub(super) fn read(reader: &mut Reader<'_>, table: &Table<'_>) -> Response {
    let action = table.get("action");
    let place = action.map(|value| reader.span(value.span()));
    let action = action.and_then(|value| reader.choice(value, "action", ACTIONS)).unwrap_or(SavAction::Discard);
    let rate_limit = table.get("rate-limit").and_then(|value| rate_limit(reader, value));
    let (redirect, lost_redirect) = table.get("redirect").map_or((Vec::new(), false), |value| {
        let targets = reader.one_at_least(value, "target").iter();
        let targets: Vec<_> =
            targets.map(|value| route::path(reader, value, "a target", &["address", "interface"])).collect();
        let lost = targets.is_empty() || targets.iter().any(Option::is_none);
        (targets.into_iter().flatten().collect(), lost)
    });
    let link_check = table.get("link-check").and_then(|value| reader.choice(value, "link check", LINK_CHECKS));
    let alarm = table.get("alarm").and_then(|value| alarm(reader, value));
    for (needs, key, example) in [
        (SavAction::RateLimit, "rate-limit", "rate-limit = { packets = 1000 }"),
        (SavAction::Redirect, "redirect", "redirect = { address = \"…\" }"),
    ] {
        if let Some(place) = place.filter(|_| action == needs && !table.has(key) && !reader.is_excused(table, key)) {
            let found =
                Diagnostic::error(Code::MissingKey, place, format!("the action `{}` needs `{key}`", needs.name()));
            reader.report(found.help(format!("write `{example}`")));
        }
    }
    let link_check = link_check.unwrap_or_default();
    Response { action, rate_limit, redirect, lost_redirect, link_check, alarm }
}

fn rate_limit(reader: &mut Reader<'_>, value: Value<'_>) -> Option<Limit> {
    let table = reader.table(value, "`rate-limit`", &["packets", "bits", "burst", "per"])?;
    let (unit, rate) = match (table.get("packets"), table.get("bits")) {
        (Some(packets), None) => (RateUnit::Packets, reader.quantity(packets, "a number of packets")),
        (None, Some(bits)) => (RateUnit::Bits, reader.quantity(bits, "a number of bits")),
        (Some(packets), Some(bits)) => {
            let (packets, bits) = (reader.span(packets.span()), reader.span(bits.span()));
            let message = "a rate is of either `packets` or `bits`";
            reader.report(
                Diagnostic::error(Code::ConflictingKeys, bits, message).related(packets, "beside these packets"),
            );
            return None;
        }
        (None, None) => {
            if !reader.is_excused(&table, "packets") && !reader.is_excused(&table, "bits") {
                let found = Diagnostic::error(Code::MissingKey, table.span, "`rate-limit` needs `packets` or `bits`");
                reader.report(found.help("write `rate-limit = { packets = 1000 }`, or `{ bits = \"10M\" }`"));
            }
            return None;
        }
    };
    let burst = match table.get("burst") {
        Some(value) => Some(reader.quantity(value, "a burst")?),
        None => None,
    };
    let per = table.get("per");
    let place = per.map(|value| reader.span(value.span()));
    let pers = &[("interface", RatePer::Interface), ("rule", RatePer::Rule)];
    let per = per.and_then(|value| reader.choice(value, "owner of a limit", pers));
    let rate = rate?;
    let burst = burst.unwrap_or_else(|| acl::default_burst(unit, rate));
    Some(Limit { limit: RateLimit { unit, rate, burst, per: per.unwrap_or(RatePer::Interface) }, per: place })
}

fn alarm(reader: &mut Reader<'_>, value: Value<'_>) -> Option<Alarm> {
    let table = reader.table(value, "`alarm`", &["packets", "window"])?;
    let packets = reader.require(&table, "packets");
    let packets = packets.and_then(|value| reader.quantity(value, "a number of packets"));
    let second = Duration::from_secs(1);
    let window = match table.get("window") {
        Some(value) => reader.duration(value, "an alarm's window", second..=LONGEST_WINDOW, second)?,
        None => WINDOW,
    };
    // At most an hour, as just seen.
    Some(Alarm { packets: packets?, window: window.as_secs() as u32 })
}

impl Policy {
    /// Refuses limits for each rule where rules cannot be distinguished.
    pub(super) fn check_limit(&self, reader: &mut Reader<'_>) {
        let Some(Limit { limit: RateLimit { per: RatePer::Rule, .. }, per: Some(place) }) = &self.response.rate_limit
        else {
            return;
        };
        let why = match &self.mechanism {
            Some(Mechanism::Urpf { .. }) => "for a mechanism without rules",
            Some(Mechanism::Table { layout: SavLayout::Cards(_), .. }) => {
                "with `layout = \"cards\"`: tables of line cards do not distinguish rules"
            }
            _ => return,
        };
        let message = format!("`per = \"rule\"` has no meaning {why}");
        reader.report(Diagnostic::error(Code::ConflictingKeys, *place, message));
    }
}

/// Reads the rules that say which packets are not validated.
pub(super) fn exempt(reader: &mut Reader<'_>, value: Value<'_>) -> Vec<At<acl::Rule>> {
    let mut names = Names::default();
    let values = reader.one_or_more(value).iter();
    values.filter_map(|value| understood(reader, value, |text| acl::parse(text, &mut names))).collect()
}
