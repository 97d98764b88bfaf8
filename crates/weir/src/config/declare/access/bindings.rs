//! `[mac-ip.NAME]`: which hardware addresses may use which addresses of IP.

use std::time::Duration;

use ipnet::{IpNet, Ipv6Net};
use toml::de::DeValue;
use weir_plane::model::{Learn, Slaac};

use super::super::super::diagnostic::Code;
use super::super::super::table::{Reader, Table, Value};
use super::super::At;
use super::super::rules::understood;
use crate::rules::binding::{self, Binding};

/// A list of bindings.
pub(in super::super::super) struct Bindings {
    pub(in super::super::super) name: At<String>,
    pub(in super::super::super) rules: Vec<At<Binding>>,
    pub(in super::super::super) learn: Option<Learn>,
    /// Prefixes of addresses that are learned by first use; none: all are.
    pub(in super::super::super) prefixes: Vec<Ipv6Net>,
}

/// Learned bindings of a list at most, unless the list says how many.
const LEARNED: u32 = 4096;

/// Learned bindings of a list at most, whatever it says.
const MOST_LEARNED: u32 = 65_536;

/// Seconds without packets after which a station is probed for an address, at most.
const LONGEST_LIFETIME: u32 = 86_400;

/// A source of bindings.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Dhcp,
    Slaac,
}

/// Reads bindings that stand under this name.
pub(super) fn read(reader: &mut Reader<'_>, name: At<String>, value: Value<'_>) -> Option<Bindings> {
    const KEYS: &[&str] = &["rules", "learn", "learn-limit", "slaac-limit", "slaac-lifetime", "slaac-prefixes"];
    let table = reader.table(value, "a list of bindings", KEYS)?;
    let mut rules = Vec::new();
    let learn = learn(reader, &table);
    let prefixes = prefixes(reader, &table, learn);
    // A list that learns may have no rules of its own.
    let value = if table.has("learn") { table.get("rules") } else { reader.require(&table, "rules") };
    if let Some(value) = value {
        for value in reader.rules(value) {
            rules.extend(understood(reader, value, binding::parse));
        }
    }
    Some(Bindings { name, rules, learn, prefixes })
}

/// Reads the prefixes of addresses that are learned by first use.
fn prefixes(reader: &mut Reader<'_>, table: &Table<'_>, learn: Option<Learn>) -> Vec<Ipv6Net> {
    let Some(value) = table.get("slaac-prefixes") else { return Vec::new() };
    // Sources that could not be read were reported.
    if learn.map_or(!table.has("learn"), |learn| learn.slaac.is_none()) {
        let message = "`slaac-prefixes` has no meaning without `learn = \"slaac\"`";
        reader.error(Code::ConflictingKeys, value, message);
    }
    let mut prefixes = Vec::new();
    for value in reader.one_at_least(value, "prefix") {
        match reader.prefix(value).map(|prefix| prefix.value) {
            Some(IpNet::V6(prefix)) => prefixes.push(prefix),
            Some(IpNet::V4(_)) => {
                reader.error(Code::FamilyMismatch, value, "addresses are learned by first use for IPv6 alone");
            }
            None => {}
        }
    }
    prefixes
}

/// Reads what a list learns. `None`: nothing, or the sources could not be read.
fn learn(reader: &mut Reader<'_>, table: &Table<'_>) -> Option<Learn> {
    let mut from = Vec::new();
    if let Some(value) = table.get("learn") {
        let choices = [("dhcp", Source::Dhcp), ("slaac", Source::Slaac)];
        for value in reader.one_at_least(value, "source of bindings") {
            from.extend(reader.choice(value, "source of bindings", &choices));
        }
    }
    let limit = table.get("learn-limit").and_then(|value| {
        if !table.has("learn") {
            let message = "`learn-limit` has no meaning without `learn`";
            reader.error(Code::ConflictingKeys, value, message);
        }
        reader.u32(value, "the number of learned bindings", 1..=MOST_LEARNED)
    });
    let learns_slaac = from.contains(&Source::Slaac);
    let mut of_slaac = |key: &str, what: &str, most: u32, is_time: bool| {
        let value = table.get(key)?;
        // Sources that could not be read were reported.
        if !learns_slaac && (!from.is_empty() || !table.has("learn")) {
            reader.error(Code::ConflictingKeys, value, format!("`{key}` has no meaning without `learn = \"slaac\"`"));
        }
        // An integer of seconds was the only form once.
        if !is_time || matches!(value.get_ref(), DeValue::Integer(_)) {
            return reader.u32(value, what, 1..=most);
        }
        let second = Duration::from_secs(1);
        let time = reader.duration(value, what, second..=second * most, second)?;
        u32::try_from(time.as_secs()).ok()
    };
    let default = Slaac::default();
    let slaac = Slaac {
        limit: of_slaac("slaac-limit", "the number of addresses of an interface", MOST_LEARNED, false)
            .unwrap_or(default.limit),
        lifetime: of_slaac("slaac-lifetime", "the seconds without packets", LONGEST_LIFETIME, true)
            .unwrap_or(default.lifetime),
    };
    (!from.is_empty()).then(|| Learn {
        limit: limit.unwrap_or(LEARNED),
        dhcp: from.contains(&Source::Dhcp),
        slaac: learns_slaac.then_some(slaac),
    })
}
