//! `port = { vxlan = { … } }` and the other tunnels.

use std::net::IpAddr;

use toml::de::DeValue;
use weir_packet::tunnel::{Carrier, Id};
use weir_packet::wire::vxlan;
use weir_plane::model::{MssClamp, OuterDf, OuterDscp, OuterTtl};

use super::super::diagnostic::{Code, Diagnostic};
use super::super::source::{At, Span};
use super::super::table::{Reader, Table, Value};
use super::mss::mss_clamp;

/// Keys of each carrier. The table is kept beside the names of [`Carrier`].
const KEYS: [(Carrier, &[&str]); 5] = [
    (
        Carrier::Vxlan,
        &["local", "remote", "vni", "port", "zero-checksum", "vrf", "ttl", "dscp", "ecn", "df", "mss-clamp"],
    ),
    (
        Carrier::Geneve,
        &["local", "remote", "vni", "port", "zero-checksum", "vrf", "ttl", "dscp", "ecn", "df", "mss-clamp"],
    ),
    (
        Carrier::Gue,
        &["local", "remote", "direct", "port", "zero-checksum", "vrf", "ttl", "dscp", "ecn", "df", "mss-clamp"],
    ),
    (Carrier::Gre, &["local", "remote", "key", "checksum", "vrf", "ttl", "dscp", "ecn", "df", "mss-clamp"]),
    (Carrier::Ip, &["local", "remote", "vrf", "ttl", "dscp", "ecn", "df", "mss-clamp"]),
];

/// A tunnel.
pub(in super::super) struct Tunnel {
    pub(in super::super) span: Span,
    pub(in super::super) carrier: Carrier,
    pub(in super::super) local: At<IpAddr>,
    pub(in super::super) remote: At<IpAddr>,
    pub(in super::super) vrf: Option<At<String>>,
    pub(in super::super) id: Id,
    pub(in super::super) port: u16,
    pub(in super::super) direct: bool,
    pub(in super::super) checksum: bool,
    pub(in super::super) zero_checksum: bool,
    pub(in super::super) ttl: OuterTtl,
    pub(in super::super) dscp: OuterDscp,
    pub(in super::super) ecn: bool,
    pub(in super::super) df: OuterDf,
    pub(in super::super) mss_clamp: Option<MssClamp>,
}

/// The carrier and the settings of a port that is a tunnel; `None`: it is another port.
pub(super) fn of_port<'d>(value: Value<'d>) -> Option<(Carrier, Value<'d>)> {
    let DeValue::Table(table) = value.get_ref() else { return None };
    let mut entries = table.iter();
    let (Some((key, value)), None) = (entries.next(), entries.next()) else { return None };
    let carrier = Carrier::ALL.into_iter().find(|carrier| carrier.name() == &**key.get_ref())?;
    Some((carrier, value))
}

/// Reads the settings of a tunnel.
pub(super) fn read(reader: &mut Reader<'_>, carrier: Carrier, value: Value<'_>) -> Option<Tunnel> {
    let keys = KEYS.iter().find(|own| own.0 == carrier).map_or(&[][..], |own| own.1);
    let table = reader.table(value, "a tunnel", keys)?;
    let local = reader.require(&table, "local").and_then(|value| reader.host_address(value));
    let remote = reader.require(&table, "remote").and_then(|value| reader.host_address(value));
    let id = match carrier {
        Carrier::Vxlan | Carrier::Geneve => reader
            .require(&table, "vni")
            .and_then(|value| reader.u32(value, "the identifier of a network", 0..=vxlan::MOST_VNI))
            .map(Id::network),
        Carrier::Gre => match table.get("key") {
            Some(value) => reader.u32(value, "a key", 0..=u32::MAX).map(|key| Id::key(Some(key))),
            None => Some(Id::NONE),
        },
        Carrier::Gue | Carrier::Ip => Some(Id::NONE),
    };
    let port = match (table.get("port"), carrier.port()) {
        (Some(value), _) => reader.u16(value, "a port", 1..=u16::MAX),
        (None, port) => Some(port.unwrap_or(0)),
    };
    let ttl = table.get("ttl").map_or(Some(OuterTtl::default()), |value| ttl(reader, value));
    let dscp = table.get("dscp").map_or(Some(OuterDscp::Copy), |value| match value.get_ref() {
        DeValue::String(_) => reader.choice(value, "rule for the DSCP", &[("copy", OuterDscp::Copy)]),
        _ => reader.u8(value, "a DSCP", 0..=63).map(OuterDscp::Fixed),
    });
    let df = table.get("df").map_or(Some(OuterDf::Copy), |value| {
        let choices = [("copy", OuterDf::Copy), ("set", OuterDf::Set), ("clear", OuterDf::Clear)];
        reader.choice(value, "rule for the DF bit", &choices)
    });
    let mut is = |key: &str, otherwise: bool| switch(reader, &table, key, otherwise);
    let (direct, checksum) = (is("direct", false), is("checksum", false));
    let (zero_checksum, ecn) = (is("zero-checksum", false), is("ecn", true));
    let vrf = table.get("vrf").and_then(|value| reader.reference(value, "a VRF's name"));
    let clamp = table.get("mss-clamp").map(|value| mss_clamp(reader, value));
    let (local, remote) = (local?, remote?);
    if zero_checksum && local.value.is_ipv4() {
        let message = "`zero-checksum` has no meaning over IPv4, where packets have no UDP checksum in any case";
        reader.report(Diagnostic::error(Code::ConflictingKeys, table.span, message).help("leave it out"));
    }
    Some(Tunnel {
        span: table.span,
        carrier,
        local,
        remote,
        vrf,
        id: id?,
        port: port?,
        direct,
        checksum,
        zero_checksum,
        ttl: ttl?,
        dscp: dscp?,
        ecn,
        df: df?,
        mss_clamp: clamp.unwrap_or_default(),
    })
}

fn switch(reader: &mut Reader<'_>, table: &Table<'_>, key: &str, otherwise: bool) -> bool {
    table.get(key).and_then(|value| reader.boolean(value)).unwrap_or(otherwise)
}

fn ttl(reader: &mut Reader<'_>, value: Value<'_>) -> Option<OuterTtl> {
    match value.get_ref() {
        DeValue::String(_) => reader.choice(value, "rule for the TTL", &[("copy", OuterTtl::Copy)]),
        _ => reader.u8(value, "a TTL", 1..=u8::MAX).map(OuterTtl::Fixed),
    }
}
