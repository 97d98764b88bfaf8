//! `[bridge.NAME]`: interfaces that are one link.

use std::time::Duration;

use toml::de::DeValue;
use weir_packet::wire::MacAddress;
use weir_plane::model::{Bridge as Model, Floods, RateLimit, RatePer, RateUnit};

use super::super::diagnostic::{Code, Diagnostic};
use super::super::source::At;
use super::super::table::{Reader, Table, Value};
use crate::rules::acl::default_burst;

const KEYS: &[&str] = &["interfaces", "learn", "ageing", "macs", "flood", "storm-limit", "move-limit", "static"];

/// The longest ageing time (IEEE 802.1Q, table 8-6).
const LONGEST_AGEING: Duration = Duration::from_secs(1_000_000);

/// A bridge.
pub(in super::super) struct Bridge {
    pub(in super::super) name: At<String>,
    pub(in super::super) ports: Vec<Port>,
    pub(in super::super) learns: bool,
    pub(in super::super) ageing: u32,
    pub(in super::super) macs: u32,
    pub(in super::super) floods: Floods,
    pub(in super::super) storm_limit: Option<RateLimit>,
    pub(in super::super) move_limit: Option<RateLimit>,
    pub(in super::super) stations: Vec<Station>,
}

/// A port of a bridge.
pub(in super::super) struct Port {
    pub(in super::super) interface: At<String>,
    pub(in super::super) group: Option<u16>,
}

/// A configured station.
pub(in super::super) struct Station {
    pub(in super::super) mac: At<MacAddress>,
    pub(in super::super) interface: At<String>,
}

/// Reads a bridge.
pub(super) fn read(reader: &mut Reader<'_>, name: At<String>, value: Value<'_>) -> Option<Bridge> {
    let table = reader.table(value, "a bridge", KEYS)?;
    let mut ports = Vec::new();
    if let Some(value) = reader.require(&table, "interfaces") {
        for value in reader.one_at_least(value, "interface") {
            ports.extend(port(reader, value));
        }
    }
    let second = Duration::from_secs(1);
    let ageing = match table.get("ageing") {
        Some(value) if matches!(value.get_ref(), DeValue::String(text) if text == "never") => Some(0),
        Some(value) => reader
            .duration(value, "the time after which a silent station is forgotten", second..=LONGEST_AGEING, second)
            // At most a million, as just seen.
            .map(|time| time.as_secs() as u32),
        None => Some(Model::AGEING),
    };
    let macs = match table.get("macs") {
        Some(value) => reader.u32(value, "the number of stations", 1..=Model::MOST_MACS),
        None => Some(Model::MACS),
    };
    let learns = table.get("learn").map_or(Some(true), |value| reader.boolean(value));
    let floods = table.get("flood").map_or(Floods::ALL, |value| floods(reader, value));
    let mut stations = Vec::new();
    for value in table.get("static").map_or(&[][..], |value| reader.one_or_more(value)) {
        stations.extend(station(reader, value));
    }
    Some(Bridge {
        name,
        ports,
        learns: learns?,
        ageing: ageing?,
        macs: macs?,
        floods,
        storm_limit: limit(reader, &table, "storm-limit"),
        move_limit: limit(reader, &table, "move-limit"),
        stations,
    })
}

fn port(reader: &mut Reader<'_>, value: Value<'_>) -> Option<Port> {
    const WHAT: &str = "an interface's name";
    if !matches!(value.get_ref(), DeValue::Table(_)) {
        return Some(Port { interface: reader.reference(value, WHAT)?, group: None });
    }
    let table = reader.table(value, "a port of a bridge", &["name", "split-horizon"])?;
    let interface = reader.require(&table, "name").and_then(|value| reader.reference(value, WHAT));
    let group = match table.get("split-horizon") {
        Some(value) => Some(reader.u16(value, "a split-horizon group", 0..=u16::MAX)?),
        None => None,
    };
    Some(Port { interface: interface?, group })
}

fn floods(reader: &mut Reader<'_>, value: Value<'_>) -> Floods {
    const KINDS: &[(&str, usize)] = &[("unknown", 0), ("broadcast", 1), ("multicast", 2)];
    let mut kinds = [false; 3];
    for value in reader.one_or_more(value) {
        if let Some(kind) = reader.choice(value, "kind of frames that a bridge floods", KINDS) {
            kinds[kind] = true;
        }
    }
    Floods { unknown: kinds[0], broadcast: kinds[1], multicast: kinds[2] }
}

fn station(reader: &mut Reader<'_>, value: Value<'_>) -> Option<Station> {
    let table = reader.table(value, "a configured station", &["mac", "interface"])?;
    let mac = reader.require(&table, "mac").and_then(|value| {
        let span = reader.span(value.span());
        Some(At { value: reader.mac(value)?, span })
    });
    let interface = reader.require(&table, "interface");
    let interface = interface.and_then(|value| reader.reference(value, "an interface's name"));
    Some(Station { mac: mac?, interface: interface? })
}

/// An integer or a string that says 0.
fn is_zero(value: Value<'_>) -> bool {
    match value.get_ref() {
        DeValue::Integer(number) => number.as_str() == "0",
        DeValue::String(text) => text == "0",
        _ => false,
    }
}

/// A limit such as `{ packets = 1000, burst = 100 }`.
fn limit(reader: &mut Reader<'_>, table: &Table<'_>, key: &'static str) -> Option<RateLimit> {
    let value = table.get(key)?;
    let example = format!("write `{key} = {{ packets = 1000 }}`");
    if !matches!(value.get_ref(), DeValue::Table(_)) {
        let span = reader.span(value.span());
        let message = format!("`{key}` is a table of `packets` or `bits` in a second");
        reader.report(Diagnostic::error(Code::WrongType, span, message).help(example));
        return None;
    }
    // Moves have no bits.
    let keys: &[&str] = if key == "move-limit" { &["packets", "burst"] } else { &["packets", "bits", "burst"] };
    let table = reader.table(value, "a limit", keys)?;
    if let Some(zero) = ["packets", "bits"].iter().filter_map(|key| table.get(key)).find(|value| is_zero(value)) {
        let span = reader.span(zero.span());
        let message = format!("`{key}` is 1 at least");
        let none = match key {
            "storm-limit" => {
                "`flood` names the kinds of frames that are flooded; without `storm-limit` there is no limit"
            }
            _ => "`learn = false` keeps stations from being learned; without `move-limit` there is no limit",
        };
        reader.report(Diagnostic::error(Code::OutOfRange, span, message).help(none));
        return None;
    }
    let (unit, rate) = match (table.get("packets"), table.get("bits")) {
        (Some(packets), None) => (RateUnit::Packets, reader.quantity(packets, "a number of packets")?),
        (None, Some(bits)) => (RateUnit::Bits, reader.quantity(bits, "a number of bits")?),
        (Some(_), Some(_)) => {
            let message = format!("`{key}` is of either `packets` or `bits`");
            reader.report(Diagnostic::error(Code::ConflictingKeys, table.span, message));
            return None;
        }
        (None, None) => {
            let found = Diagnostic::error(Code::MissingKey, table.span, format!("`{key}` needs `packets` or `bits`"));
            reader.report(found.help(example));
            return None;
        }
    };
    let burst = match table.get("burst") {
        Some(value) => reader.quantity(value, "a burst")?,
        None => default_burst(unit, rate),
    };
    Some(RateLimit { unit, rate, burst, per: RatePer::Interface })
}
