//! `[[interface]]`.

use toml::de::DeValue;
use weir_plane::model::{Merge, PerFamily};
use weir_port::spec::{FaultSpec, Middleware};

use super::super::diagnostic::{Code, Diagnostic};
use super::super::source::Source;
use super::super::table::{Reader, Table, Value};
use super::{FileUse, Interface, Kind, Punt, Uses, access, advertisement, device, port, refuse, sav, tunnel};
use crate::rules::ANY;

const KEYS: &[&str] = &[
    "name",
    "port",
    "queues",
    "parent",
    "vlan",
    "mac",
    "mtu",
    "vrf",
    "zone",
    "address",
    "merge",
    "punt",
    "router-advertisement",
    "sav",
    "acl",
    "allow",
    "ethertypes",
    "mac-ip",
    "dhcp-trusted",
    "slaac-trusted",
    "classify",
    "nat",
    "spd",
    "steer",
    "fault",
    "capture",
];

const FAULT_KEYS: &[&str] = &["drop", "duplicate", "reorder", "corrupt", "truncate", "seed"];

/// The least MTU of IPv4 (RFC 791).
const LEAST_MTU: u32 = 68;

/// Reads an interface; `None` when it has no name to be known by.
pub(super) fn read(reader: &mut Reader<'_>, value: Value<'_>, source: &Source) -> Option<Interface> {
    let table = reader.table(value, "an interface", KEYS)?;
    let name = reader.require(&table, "name").and_then(|value| reader.name(value));
    if let Some(name) = &name
        && name.value == ANY
    {
        let message = format!("`{ANY}` stands for all interfaces in rules, so none has this name");
        reader.report(Diagnostic::error(Code::InvalidName, name.span, message));
    }
    let kind = kind(reader, &table, source);
    let mac = table.get("mac").and_then(|value| {
        let span = reader.span(value.span());
        Some(super::At { value: reader.mac(value)?, span })
    });
    let mtu = table.get("mtu").and_then(|value| {
        let span = reader.span(value.span());
        let mtu = reader.u32(value, "an MTU", LEAST_MTU..=65_535)?;
        Some(super::At { value: mtu, span })
    });
    let vrf = table.get("vrf").and_then(|value| reader.reference(value, "a VRF's name"));
    let lost_vrf = table.has("vrf") && vrf.is_none();
    let zone = table.get("zone").and_then(|value| reader.name(value));
    let mut addresses = Vec::new();
    let mut lost_addresses = reader.is_damaged(table.span);
    if let Some(value) = table.get("address") {
        for value in reader.one_or_more(value) {
            match reader.interface_address(value) {
                Some(address) => addresses.push(address),
                None => lost_addresses = true,
            }
        }
    }
    let merge = table.get("merge").and_then(|value| {
        let choices = [("off", Merge::Off), ("tunnelled", Merge::Tunnelled), ("all", Merge::All)];
        reader.choice(value, "kind of packets to be merged", &choices)
    });
    let punt = table.get("punt").and_then(|value| {
        let mut uses = Uses::default();
        let (spec, follow) = device::punt(reader, value, &mut uses)?;
        Some(Punt { spec, follow, uses })
    });
    let router_advertisement = table.get("router-advertisement").and_then(|value| {
        let span = reader.span(value.span());
        Some(super::At { value: advertisement::read(reader, value)?, span })
    });
    let access = access::of_interface(reader, &table);
    if matches!(kind, Some(Kind::Ipsec))
        && let Some(list) = access.acl_out.first()
    {
        let message = "`out` has no meaning here: no packets leave by an interface for decrypted packets";
        let found = Diagnostic::error(Code::ConflictingKeys, list.span, message);
        reader.report(found.help("name the list at the interface by which the packets of ESP leave"));
    }
    let sav = table.get("sav").map_or_else(PerFamily::default, |value| sav::of_interface(reader, value));
    Some(Interface {
        name: name?,
        kind,
        mac,
        mtu,
        vrf,
        lost_vrf,
        zone,
        addresses,
        lost_addresses,
        merge: merge.unwrap_or_default(),
        punt,
        router_advertisement,
        sav,
        access,
        nat: table.get("nat").and_then(|value| reader.reference(value, "the name of a list of NAT rules")),
        spd: table.get("spd").and_then(|value| reader.reference(value, "the name of an SPD")),
        steer: table.get("steer").and_then(|value| reader.reference(value, "the name of a list of steer rules")),
    })
}

fn kind(reader: &mut Reader<'_>, table: &Table<'_>, source: &Source) -> Option<Kind> {
    if let Some(value) = table.get("port") {
        refuse(
            reader,
            table,
            &["parent", "vlan"],
            "has no meaning beside `port`: an interface is a port or a VLAN of another",
        );
        if matches!(value.get_ref(), DeValue::String(kind) if kind == "ipsec") {
            const OF_PORTS: &[&str] = &[
                "queues",
                "fault",
                "capture",
                "mac",
                "mac-ip",
                "dhcp-trusted",
                "slaac-trusted",
                "punt",
                "router-advertisement",
                "ethertypes",
            ];
            refuse(reader, table, OF_PORTS, "has no meaning for decrypted packets, which have no link layer");
            let why = "has no meaning here: rules of the SPDs that name the SA decide about decrypted packets";
            refuse(reader, table, &["spd"], why);
            return Some(Kind::Ipsec);
        }
        if let Some((carrier, value)) = tunnel::of_port(value) {
            const OF_PORTS: &[&str] = &["queues", "fault", "capture", "punt"];
            refuse(reader, table, OF_PORTS, "has no meaning for a tunnel, which has no device");
            if !carrier.is_ethernet() {
                const OF_LINKS: &[&str] =
                    &["mac", "mac-ip", "dhcp-trusted", "slaac-trusted", "router-advertisement", "ethertypes"];
                refuse(reader, table, OF_LINKS, "has no meaning for this tunnel, which has no link layer");
            }
            return tunnel::read(reader, carrier, value).map(Kind::Tunnel);
        }
        if let Some(value) = of_bridge(value) {
            const OF_PORTS: &[&str] = &["queues", "fault", "capture", "punt"];
            let why = "has no meaning for the gateway's own station on a bridge, which has no device";
            refuse(reader, table, OF_PORTS, why);
            return reader.reference(value, "a bridge's name").map(Kind::Bridge);
        }
        let mut uses = Uses::default();
        let port = port::read(reader, value, source, &mut uses);
        let queues = table.get("queues").and_then(|value| reader.u16(value, "the number of queues", 1..=16));
        let fault = table.get("fault").and_then(|value| fault(reader, value));
        let capture = table.get("capture").and_then(|value| reader.path(value)).map(|path| {
            let resolved = source.resolve(path.value);
            uses.files.push(FileUse { path: resolved.clone(), span: path.span, written: true });
            resolved
        });
        return Some(Kind::Port { port, middleware: Middleware { fault, capture }, queues: queues.unwrap_or(1), uses });
    }
    if table.has("parent") || table.has("vlan") {
        refuse(reader, table, &["queues", "fault", "capture"], "belongs to a port, so it stands at the parent");
        let parent = reader.require(table, "parent").and_then(|value| reader.reference(value, "an interface's name"));
        let tags = reader.require(table, "vlan").and_then(|value| {
            let span = reader.span(value.span());
            Some(super::At { value: reader.vlan(value)?, span })
        });
        return Some(Kind::Vlan { parent: parent?, tags });
    }
    reader.missing(table, "port");
    None
}

/// The name of the bridge in `port = { bridge = "NAME" }`; `None`: it is another port.
fn of_bridge<'d>(value: Value<'d>) -> Option<Value<'d>> {
    let DeValue::Table(table) = value.get_ref() else { return None };
    let mut entries = table.iter();
    let (Some((key, value)), None) = (entries.next(), entries.next()) else { return None };
    (&**key.get_ref() == "bridge").then_some(value)
}

fn fault(reader: &mut Reader<'_>, value: Value<'_>) -> Option<FaultSpec> {
    let table = reader.table(value, "`fault`", FAULT_KEYS)?;
    let mut probability = |key: &str| table.get(key).and_then(|value| reader.probability(value, key)).unwrap_or(0.0);
    let fault = FaultSpec {
        drop: probability("drop"),
        duplicate: probability("duplicate"),
        reorder: probability("reorder"),
        corrupt: probability("corrupt"),
        truncate: probability("truncate"),
        seed: 1,
    };
    let seed = port::seed(reader, &table);
    Some(FaultSpec { seed, ..fault })
}
