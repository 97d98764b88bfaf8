//! `[nat.NAME]`: rules that translate addresses.

use weir_plane::model::{MssClamp, NatFiltering, NatMapping};

use super::super::super::table::{Reader, Table, Value};
use super::super::mss::mss_clamp;
use super::super::rules::understood;
use super::super::vrf::nat_limit;
use super::super::{At, refuse};
use crate::rules::{Names, nat};

/// A list of rules.
pub(in super::super::super) struct Nat {
    pub(in super::super::super) name: At<String>,
    pub(in super::super::super) rules: Vec<At<nat::Rule>>,
    pub(in super::super::super) limit: Option<At<u32>>,
    pub(in super::super::super) mss_clamp: Option<MssClamp>,
    pub(in super::super::super) mapping: NatMapping,
    pub(in super::super::super) log: bool,
    pub(in super::super::super) ipfix: Option<At<String>>,
}

/// Reads a list that stands under this name.
pub(super) fn read(reader: &mut Reader<'_>, name: At<String>, value: Value<'_>) -> Option<Nat> {
    let table = reader.table(
        value,
        "a list of rules that translate",
        &["rules", "limit", "mss-clamp", "mapping", "filtering", "log", "ipfix"],
    )?;
    let mut names = Names::default();
    let mut rules = Vec::new();
    if let Some(value) = reader.require(&table, "rules") {
        for value in reader.rules(value) {
            rules.extend(understood(reader, value, |text| nat::parse(text, &mut names)));
        }
    }
    let limit = table.get("limit").and_then(|value| nat_limit(reader, value));
    let mss_clamp = table.get("mss-clamp").and_then(|value| mss_clamp(reader, value));
    let mapping = mapping(reader, &table);
    let log = table.get("log").and_then(|value| reader.boolean(value)).unwrap_or_default();
    let ipfix = table.get("ipfix").and_then(|value| reader.reference(value, "a sampler's name"));
    Some(Nat { name, rules, limit, mss_clamp, mapping, log, ipfix })
}

/// Reads whether outside endpoints depend on destinations, and which packets they let in.
fn mapping(reader: &mut Reader<'_>, table: &Table<'_>) -> NatMapping {
    let mut independent = |key: &str, what: &str| {
        let kinds = [("endpoint-dependent", false), ("endpoint-independent", true)];
        table.get(key).and_then(|value| reader.choice(value, what, &kinds))
    };
    let maps = independent("mapping", "mapping").unwrap_or_default();
    let is_open = independent("filtering", "filtering").unwrap_or_default();
    match (maps, is_open) {
        (false, _) => {
            if !reader.is_excused(table, "mapping") {
                refuse(reader, table, &["filtering"], "has no meaning without `mapping = \"endpoint-independent\"`");
            }
            NatMapping::EndpointDependent
        }
        (true, false) => NatMapping::EndpointIndependent(NatFiltering::EndpointDependent),
        (true, true) => NatMapping::EndpointIndependent(NatFiltering::EndpointIndependent),
    }
}
