//! `[nat.NAME]`: rules that translate addresses.

use std::ops::RangeInclusive;

use toml::de::DeValue;
use weir_plane::model::MssClamp;

use super::super::super::table::{Reader, Value};
use super::super::At;
use super::super::rules::understood;
use crate::rules::{Names, nat};

/// Maximum segment sizes: the least that hosts of Linux accept, and the greatest that fits a packet of IPv4.
const MSS: RangeInclusive<u16> = 88..=65_495;

/// A list of rules.
pub(in super::super::super) struct Nat {
    pub(in super::super::super) name: At<String>,
    pub(in super::super::super) rules: Vec<At<nat::Rule>>,
    pub(in super::super::super) mss_clamp: Option<MssClamp>,
}

/// Reads a list that stands under this name.
pub(super) fn read(reader: &mut Reader<'_>, name: At<String>, value: Value<'_>) -> Option<Nat> {
    let table = reader.table(value, "a list of rules that translate", &["rules", "mss-clamp"])?;
    let mut names = Names::default();
    let mut rules = Vec::new();
    if let Some(value) = reader.require(&table, "rules") {
        for value in reader.one_at_least(value, "rule") {
            rules.extend(understood(reader, value, |text| nat::parse(text, &mut names)));
        }
    }
    let mss_clamp = table.get("mss-clamp").and_then(|value| mss_clamp(reader, value));
    Some(Nat { name, rules, mss_clamp })
}

/// Reads a maximum segment size, or `mtu`.
fn mss_clamp(reader: &mut Reader<'_>, value: Value<'_>) -> Option<MssClamp> {
    match value.get_ref() {
        DeValue::Integer(_) => reader.u16(value, "the maximum segment size", MSS).map(MssClamp::Value),
        DeValue::String(_) => reader.choice(value, "maximum segment size", &[("mtu", MssClamp::Mtu)]),
        _ => reader.wrong_type(value, "an integer (the maximum segment size) or `mtu`"),
    }
}
