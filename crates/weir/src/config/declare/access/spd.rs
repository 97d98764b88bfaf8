//! `[spd.NAME]`: rules that protect, bypass or discard packets.

use weir_plane::model::SpdCache;

use super::super::super::source::Span;
use super::super::super::table::{Reader, Value};
use super::super::rules::understood;
use super::super::{At, refuse};
use crate::rules::{Names, spd};

/// The most flows of a cache: their places take 4 GiB on each worker.
const MOST_FLOWS: u32 = 16_000_000;

/// An SPD.
pub(in super::super::super) struct Spd {
    pub(in super::super::super) name: At<String>,
    pub(in super::super::super) rules: Vec<At<spd::Rule>>,
    /// Some rules have errors, and are not among these.
    pub(in super::super::super) lost_rules: bool,
    pub(in super::super::super) cache: SpdCache,
    /// Where the flows of the caches are, if the file says them.
    pub(in super::super::super) flows: Option<Span>,
}

/// Reads an SPD that stands under this name.
pub(super) fn read(reader: &mut Reader<'_>, name: At<String>, value: Value<'_>) -> Option<Spd> {
    let table = reader.table(value, "a security policy database", &["rules", "cache"])?;
    let mut names = Names::default();
    let (mut rules, mut lost_rules) = (Vec::new(), true);
    if let Some(value) = reader.require(&table, "rules") {
        let values = reader.rules(value);
        let count = values.len();
        for value in values {
            rules.extend(understood(reader, value, |text| spd::parse(text, &mut names)));
        }
        lost_rules = rules.len() < count;
    }
    let cache = table.get("cache").and_then(|value| cache(reader, value)).unwrap_or_default();
    let (cache, flows) = cache;
    Some(Spd { name, rules, lost_rules, cache, flows })
}

fn cache(reader: &mut Reader<'_>, value: Value<'_>) -> Option<(SpdCache, Option<Span>)> {
    let table = reader.table(value, "`cache`", &["outbound", "inbound", "flows"])?;
    let mut flag = |key: &str| table.get(key).and_then(|value| reader.boolean(value)).unwrap_or(false);
    let (outbound, inbound) = (flag("outbound"), flag("inbound"));
    let is_off = |key: &str| table.get(key).is_none_or(|value| value.get_ref().as_bool() == Some(false));
    let is_meant = |key: &str| reader.is_excused(&table, key);
    if ["outbound", "inbound"].into_iter().all(|key| is_off(key) && !is_meant(key)) {
        let why = "has no meaning without a cache: write `outbound = true`, `inbound = true` or both";
        refuse(reader, &table, &["flows"], why);
    }
    let value = table.get("flows");
    let flows = value.and_then(|value| reader.u32(value, "a number of flows", 1..=MOST_FLOWS));
    let cache = SpdCache { outbound, inbound, flows: flows.unwrap_or(SpdCache::default().flows) };
    Some((cache, value.map(|value| reader.span(value.span()))))
}
