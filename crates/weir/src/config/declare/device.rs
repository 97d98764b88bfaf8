//! Devices of the kernel: `af-packet`, `tap` and `tun` ports, and the `punt` of an interface.

use toml::de::DeValue;
use weir_plane::model::Follow;
use weir_port::spec::{AfPacketSpec, PortSpec, TapSpec};

use super::super::table::{Reader, Table, Value};
use super::{Device, HostAddress, Uses, refuse};

const AF_PACKET_KEYS: &[&str] = &["interface", "promiscuous", "offload", "shared"];

const TAP_KEYS: &[&str] = &["name", "persistent", "offload", "mtu", "address", "mac"];

const PUNT_KEYS: &[&str] = &["name", "persistent", "offload", "mtu", "address", "carrier", "follow"];

/// The least MTU of the kernel's side (RFC 791).
const LEAST_MTU: u32 = 68;

/// Reads `af-packet`: the name of a device, or a table.
pub(super) fn af_packet(reader: &mut Reader<'_>, value: Value<'_>, uses: &mut Uses) -> Option<PortSpec> {
    let spec = |interface| AfPacketSpec { interface, promiscuous: true, offload: true, shared: false };
    if let DeValue::String(_) = value.get_ref() {
        return Some(PortSpec::AfPacket(spec(device(reader, value, uses)?)));
    }
    let table = reader.table(value, "an af-packet port", AF_PACKET_KEYS)?;
    let interface = reader.require(&table, "interface").and_then(|value| device(reader, value, uses));
    let promiscuous = flag(reader, &table, "promiscuous", true);
    let offload = flag(reader, &table, "offload", true);
    let shared = flag(reader, &table, "shared", false);
    Some(PortSpec::AfPacket(AfPacketSpec { promiscuous, offload, shared, ..spec(interface?) }))
}

/// Reads `tap`: the name of a device, or a table.
pub(super) fn tap(reader: &mut Reader<'_>, value: Value<'_>, uses: &mut Uses) -> Option<PortSpec> {
    side(reader, value, "a tap port", TAP_KEYS, uses).map(PortSpec::Tap)
}

/// Reads `tun`: the name of a device, or a table.
pub(super) fn tun(reader: &mut Reader<'_>, value: Value<'_>, uses: &mut Uses) -> Option<PortSpec> {
    if let DeValue::Table(_) = value.get_ref() {
        let table = reader.open_table(value, "a tun port")?;
        refuse(reader, &table, &["mac"], "has no meaning for a tun device, which has no link layer");
    }
    side(reader, value, "a tun port", TAP_KEYS, uses).map(PortSpec::Tun)
}

/// Reads `punt`: the name of a device, or a table. Addresses are left empty where none are stated.
pub(super) fn punt(reader: &mut Reader<'_>, value: Value<'_>, uses: &mut Uses) -> Option<(TapSpec, Follow)> {
    let spec = side(reader, value, "`punt`", PUNT_KEYS, uses)?;
    let mut follow = Follow::default();
    if let DeValue::Table(_) = value.get_ref() {
        let table = reader.open_table(value, "`punt`")?;
        follow.carrier = flag(reader, &table, "carrier", follow.carrier);
        for value in table.get("follow").map_or(&[][..], |value| reader.one_or_more(value)) {
            let choices =
                [("mtu", Followed::Mtu), ("addresses", Followed::Addresses), ("neighbors", Followed::Neighbors)];
            match reader.choice(value, "property of a device", &choices) {
                Some(Followed::Mtu) => follow.mtu = true,
                Some(Followed::Addresses) => follow.addresses = true,
                Some(Followed::Neighbors) => follow.neighbors = true,
                None => {}
            }
        }
        if follow.mtu {
            refuse(reader, &table, &["mtu"], "has no meaning where the interface follows the MTU of the device");
        }
    }
    Some((spec, follow))
}

/// A property of a device that its interface takes over.
#[derive(Clone, Copy)]
enum Followed {
    Mtu,
    Addresses,
    Neighbors,
}

/// The kernel's side of a tun or tap device.
fn side(
    reader: &mut Reader<'_>,
    value: Value<'_>,
    what: &'static str,
    keys: &[&str],
    uses: &mut Uses,
) -> Option<TapSpec> {
    let spec = |name| TapSpec { name, persistent: false, offload: true, mtu: None, addresses: Vec::new(), mac: None };
    if let DeValue::String(_) = value.get_ref() {
        return Some(spec(device(reader, value, uses)?));
    }
    let table = reader.table(value, what, keys)?;
    let name = reader.require(&table, "name").and_then(|value| device(reader, value, uses));
    let persistent = flag(reader, &table, "persistent", false);
    let offload = flag(reader, &table, "offload", true);
    let mtu = table.get("mtu").and_then(|value| reader.u32(value, "an MTU", LEAST_MTU..=65_535));
    let mac = table.get("mac").and_then(|value| reader.mac(value)).map(|mac| mac.0);
    let mut addresses = Vec::new();
    if let Some(value) = table.get("address") {
        uses.states_addresses = true;
        for value in reader.one_or_more(value) {
            if let Some(address) = reader.interface_address(value) {
                addresses.push(address.value);
                uses.host.push(HostAddress { net: address.value, span: address.span });
            }
        }
    }
    Some(TapSpec { persistent, offload, mtu, addresses, mac, ..spec(name?) })
}

/// The name of a device, which is noted as used.
fn device(reader: &mut Reader<'_>, value: Value<'_>, uses: &mut Uses) -> Option<String> {
    let name = reader.device(value)?;
    let text = name.value.to_owned();
    uses.device = Some(Device { name: text.clone(), span: name.span });
    Some(text)
}

fn flag(reader: &mut Reader<'_>, table: &Table<'_>, key: &str, default: bool) -> bool {
    table.get(key).and_then(|value| reader.boolean(value)).unwrap_or(default)
}
