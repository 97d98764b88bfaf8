//! The `router-advertisement` of an interface.

use std::ops::RangeInclusive;
use std::time::Duration;

use toml::de::DeValue;
use weir_plane::model::RouterAdvertisement;

use super::super::diagnostic::{Code, Diagnostic};
use super::super::table::{Reader, Value};

const KEYS: &[&str] =
    &["interval", "lifetime", "autonomous", "valid-lifetime", "preferred-lifetime", "managed", "other"];

/// MaxRtrAdvInterval, in seconds (RFC 4861, 6.2.1).
const INTERVALS: RangeInclusive<u64> = 4..=1800;

/// AdvDefaultLifetime, at most.
const LONGEST_LIFETIME: u64 = 9000;

/// Lifetimes of prefixes, at most: a hundred years of 365.25 days. Only 2^32 - 1 seconds are for ever (4.6.2).
const LONGEST_PREFIX: u64 = 100 * 31_557_600;

/// Reads it: `true` for all defaults, `false` for none at all, or a table. Defaults are those of RFC 4861, 6.2.1.
pub(super) fn read(reader: &mut Reader<'_>, value: Value<'_>) -> Option<RouterAdvertisement> {
    let default = RouterAdvertisement {
        interval: 600,
        lifetime: 1800,
        autonomous: true,
        valid_lifetime: 30 * 86_400,
        preferred_lifetime: 7 * 86_400,
        managed: false,
        other: false,
    };
    match value.get_ref() {
        DeValue::Boolean(wanted) => return wanted.then_some(default),
        DeValue::Table(_) => {}
        _ => return reader.wrong_type(value, "`true`, `false` or a table (`router-advertisement`)"),
    }
    let table = reader.table(value, "`router-advertisement`", KEYS)?;
    let mut seconds = |key: &str, what: &str, range: RangeInclusive<u64>| {
        let second = Duration::from_secs;
        let range = second(*range.start())..=second(*range.end());
        Some(reader.duration(table.get(key)?, what, range, second(1))?.as_secs())
    };
    let interval = seconds("interval", "an interval of advertisements", INTERVALS).unwrap_or(600);
    let lifetime = seconds("lifetime", "a default router's lifetime", 0..=LONGEST_LIFETIME);
    let valid = seconds("valid-lifetime", "a prefix's lifetime", 0..=LONGEST_PREFIX);
    let preferred = seconds("preferred-lifetime", "a prefix's lifetime", 0..=LONGEST_PREFIX);
    let mut flag = |key: &str, default: bool| table.get(key).and_then(|value| reader.boolean(value)).unwrap_or(default);
    let (autonomous, managed, other) = (flag("autonomous", true), flag("managed", false), flag("other", false));
    if let (Some(lifetime), Some(value)) = (lifetime, table.get("lifetime"))
        && lifetime != 0
        && lifetime < interval
    {
        let message = format!("a default router's lifetime of {lifetime}s ends before the next advertisement");
        let found = Diagnostic::error(Code::OutOfRange, reader.span(value.span()), message);
        let found = match table.get("interval") {
            Some(interval) => found.related(reader.span(interval.span()), "the interval"),
            None => found,
        };
        reader.report(found.help(format!("it is 0s (no default router) or at least the interval, {interval}s")));
    }
    let valid_lifetime = valid.unwrap_or(u64::from(default.valid_lifetime));
    // A prefix that is valid for less than the default is preferred for as long as it is valid.
    let preferred_lifetime = preferred.unwrap_or(u64::from(default.preferred_lifetime).min(valid_lifetime));
    if let Some(value) = table.get("preferred-lifetime")
        && preferred_lifetime > valid_lifetime
    {
        let message = "addresses cannot be preferred for longer than their prefix is valid";
        let found = Diagnostic::error(Code::OutOfRange, reader.span(value.span()), message);
        let found = match table.get("valid-lifetime") {
            Some(valid) => found.related(reader.span(valid.span()), "the prefix's lifetime"),
            None => found.help("`valid-lifetime` is `30d` unless given"),
        };
        reader.report(found);
    }
    Some(RouterAdvertisement {
        interval: narrow(interval),
        lifetime: lifetime.map_or_else(|| narrow((3 * interval).min(LONGEST_LIFETIME)), narrow),
        autonomous,
        valid_lifetime: u32::try_from(valid_lifetime).unwrap_or(u32::MAX),
        preferred_lifetime: u32::try_from(preferred_lifetime).unwrap_or(u32::MAX),
        managed,
        other,
    })
}

/// Seconds that have been found to be within their range.
fn narrow(seconds: u64) -> u16 {
    u16::try_from(seconds).unwrap_or(u16::MAX)
}
