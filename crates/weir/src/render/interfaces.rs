//! `show interfaces`: what each interface is, and what passed it.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use weir_plane::stats;

use super::Report;
use super::acl::Chain;
use super::number::plural;
use super::table::{Align, Table};

/// Every interface, in the order of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interfaces {
    /// Each interface.
    pub interfaces: Vec<Interface>,
    /// Ports that failed while the gateway ran, each once.
    pub failures: Vec<String>,
}

/// An interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// `up` or `down`.
    pub state: String,
    /// Kind of its port, or `vlan`.
    pub kind: String,
    /// Capabilities of its port: `tx-` for work that it takes over from the gateway, `rx-` for work that received packets
    /// leave to the gateway. Empty for a VLAN.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
    /// Hardware address; empty for interfaces without a link layer.
    pub mac: String,
    /// Largest IP packet, in octets.
    pub mtu: u32,
    /// VRF.
    pub vrf: String,
    /// Addresses with the length of their prefix.
    pub addresses: Vec<String>,
    /// Addresses that follow from the hardware address, not from the configuration.
    pub automatic: Vec<String>,
    /// Tentative addresses: duplicate address detection has not ended, or has found another station.
    pub tentative: Vec<String>,
    /// Where it was declared.
    pub origin: String,
    /// The ingress access lists in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub acl_in: Vec<String>,
    /// The egress access lists in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub acl_out: Vec<String>,
    /// The traffic counters.
    #[serde(flatten)]
    pub counters: Counters,
    /// The MTU and the addresses that it has from the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_host: Option<FromHost>,
    /// Its punt device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub punt_device: Option<PuntDevice>,
    /// The super-packets that were made and cut here; `None` if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub super_packets: Option<SuperPackets>,
    /// The effects of fault injection; empty without it.
    pub faults: Vec<Fault>,
}

/// The MTU and the addresses that an interface has from the host, by its punt device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct FromHost {
    /// The MTU, in place of that of the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// Addresses with the length of their prefix.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// Static neighbours.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub neighbors: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl FromHost {
    /// Prints `MTU 1400, 192.0.2.7/24, 3 neighbours`.
    #[must_use]
    pub fn words(&self) -> String {
        let mtu = self.mtu.map(|mtu| format!("MTU {mtu}"));
        let neighbors = (self.neighbors > 0).then(|| plural(self.neighbors, "neighbour"));
        let words: Vec<String> = mtu.into_iter().chain(self.addresses.iter().cloned()).chain(neighbors).collect();
        if words.is_empty() { "nothing".to_owned() } else { words.join(", ") }
    }
}

/// The punt device of an interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct PuntDevice {
    /// Its name.
    pub name: String,
    /// `up`, `down` or `missing`.
    pub state: String,
    /// Packets that it did not take.
    pub failed: u64,
}

/// Super-packets of packets that left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SuperPackets {
    /// Super-packets that were made.
    pub made: u64,
    /// Packets that went into them.
    pub merged: u64,
    /// Super-packets that were cut.
    pub cut: u64,
    /// Their segments.
    pub segments: u64,
}

impl SuperPackets {
    fn new(interface: &stats::InterfaceStats) -> Option<Self> {
        let ((made, merged), (cut, segments)) = (interface.merged, interface.cut);
        (made > 0 || cut > 0).then_some(SuperPackets { made, merged, cut, segments })
    }
}

/// The traffic counters of an interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Counters {
    /// Packets received.
    pub rx_packets: u64,
    /// Octets received.
    pub rx_bytes: u64,
    /// Packets transmitted.
    pub tx_packets: u64,
    /// Octets transmitted.
    pub tx_bytes: u64,
    /// Packets dropped after they were received here.
    pub dropped_packets: u64,
    /// Octets of those.
    pub dropped_bytes: u64,
    /// Packets given to the host after they were received here.
    pub punt_packets: u64,
    /// Octets of those.
    pub punt_bytes: u64,
    /// Frames for which no buffer was left.
    pub no_buffer: u64,
    /// Frames that the kernel dropped, the port's ring being full.
    pub kernel_drops: u64,
    /// Frames that the port could not deliver.
    pub receive_errors: u64,
    /// Frames that the port refused to send.
    pub transmit_errors: u64,
}

/// A kind of injected fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// The kind of fault.
    pub fault: String,
    /// To how many packets.
    pub packets: u64,
}

impl Interfaces {
    /// Of a snapshot, and the ports that failed.
    pub fn new(snapshot: &stats::Snapshot, failures: Vec<String>) -> Self {
        Interfaces { interfaces: snapshot.interfaces.iter().map(Interface::new).collect(), failures }
    }

    /// With the access lists of each, which have these chains.
    #[must_use]
    pub fn with_lists(mut self, chains: &[Chain]) -> Self {
        let lists = |of: fn(&Chain) -> &[String], name: &String| {
            chains.iter().find(|chain| of(chain).contains(name)).map_or_else(Vec::new, |chain| chain.lists.clone())
        };
        for interface in &mut self.interfaces {
            interface.acl_in = lists(|chain| &chain.input, &interface.name);
            interface.acl_out = lists(|chain| &chain.output, &interface.name);
        }
        self
    }
}

impl Interfaces {
    /// Adds what interfaces have from the host, by name.
    #[must_use]
    pub fn with_host(mut self, mut host: std::collections::BTreeMap<String, FromHost>) -> Self {
        for interface in &mut self.interfaces {
            interface.from_host = host.remove(&interface.name);
        }
        self
    }
}

impl Interface {
    fn new(interface: &stats::InterfaceStats) -> Self {
        let fault = |&(fault, packets): &(&'static str, u64)| Fault { fault: fault.to_owned(), packets };
        Interface {
            name: interface.name.clone(),
            state: if interface.up { "up" } else { "down" }.to_owned(),
            kind: interface.kind.to_owned(),
            capabilities: interface.capabilities.iter().map(|&name| name.to_owned()).collect(),
            mac: interface.mac.clone(),
            mtu: interface.mtu,
            vrf: interface.vrf.clone(),
            addresses: interface.addresses.clone(),
            automatic: interface.automatic.clone(),
            tentative: interface.tentative.clone(),
            origin: interface.origin.clone(),
            acl_in: Vec::new(),
            acl_out: Vec::new(),
            from_host: None,
            counters: Counters::new(interface),
            punt_device: interface.punt_device.as_ref().map(|device| PuntDevice {
                name: device.name.clone(),
                state: device.state.to_owned(),
                failed: device.failed,
            }),
            super_packets: SuperPackets::new(interface),
            faults: interface.faults.iter().map(fault).collect(),
        }
    }
}

impl Counters {
    fn new(interface: &stats::InterfaceStats) -> Self {
        Counters {
            rx_packets: interface.rx.packets,
            rx_bytes: interface.rx.bytes,
            tx_packets: interface.tx.packets,
            tx_bytes: interface.tx.bytes,
            dropped_packets: interface.dropped.packets,
            dropped_bytes: interface.dropped.bytes,
            punt_packets: interface.punt.packets,
            punt_bytes: interface.punt.bytes,
            no_buffer: interface.no_buffer,
            kernel_drops: interface.kernel_drops,
            receive_errors: interface.receive_errors,
            transmit_errors: interface.transmit_errors,
        }
    }
}

/// Formats the traffic of the interfaces as a table.
pub fn traffic(interfaces: &[Interface]) -> String {
    let names = [
        "RX packets",
        "RX bytes",
        "TX packets",
        "TX bytes",
        "Dropped",
        "Dropped bytes",
        "Punted",
        "No buffer",
        "Kernel drops",
        "RX errors",
        "TX errors",
    ];
    let columns: Vec<_> =
        std::iter::once(("Name", Align::Left)).chain(names.into_iter().map(|name| (name, Align::Right))).collect();
    let mut table = Table::new(&columns);
    for Interface { name, counters, .. } in interfaces {
        table.row([
            name.clone(),
            counters.rx_packets.to_string(),
            counters.rx_bytes.to_string(),
            counters.tx_packets.to_string(),
            counters.tx_bytes.to_string(),
            counters.dropped_packets.to_string(),
            counters.dropped_bytes.to_string(),
            counters.punt_packets.to_string(),
            counters.no_buffer.to_string(),
            counters.kernel_drops.to_string(),
            counters.receive_errors.to_string(),
            counters.transmit_errors.to_string(),
        ]);
    }
    table.text()
}

/// The access lists of interfaces that have any: lines, or nothing.
fn access(interfaces: &[Interface]) -> String {
    let mut text = String::new();
    for Interface { name, acl_in, acl_out, .. } in interfaces {
        let lists = [("in", acl_in), ("out", acl_out)].into_iter().filter(|(_, lists)| !lists.is_empty());
        let lists: Vec<String> = lists.map(|(way, lists)| format!("{way} {}", lists.join(", "))).collect();
        if !lists.is_empty() {
            let _ = writeln!(text, "access lists on {name}: {}", lists.join("; "));
        }
    }
    text
}

/// Addresses that are not used, what interfaces have from the host, super-packets, what fault injection did, and which ports failed: lines, or nothing.
fn troubles(interfaces: &[Interface], failures: &[String]) -> String {
    let mut text = String::new();
    for interface in interfaces.iter().filter(|interface| !interface.tentative.is_empty()) {
        let _ = writeln!(text, "not used on {} (tentative): {}", interface.name, interface.tentative.join(", "));
    }
    for (interface, own) in interfaces.iter().filter_map(|each| Some((each, each.from_host.as_ref()?))) {
        let _ = writeln!(text, "from the host on {}: {}", interface.name, own.words());
    }
    for (interface, own) in interfaces.iter().filter_map(|each| Some((each, each.punt_device.as_ref()?))) {
        let PuntDevice { name, state, failed } = own;
        if state != "up" || *failed > 0 {
            let s = if *failed == 1 { "" } else { "s" };
            let _ =
                writeln!(text, "punt device of {}: {name} is {state}; {failed} packet{s} not punted", interface.name);
        }
    }
    for (interface, own) in interfaces.iter().filter_map(|each| Some((each, each.super_packets.as_ref()?))) {
        let SuperPackets { made, merged, cut, segments } = own;
        let _ = writeln!(
            text,
            "super-packets on {}: {merged} packets merged into {made}; {cut} cut into {segments} packets",
            interface.name
        );
    }
    for interface in interfaces.iter().filter(|interface| !interface.faults.is_empty()) {
        let faults: Vec<_> =
            interface.faults.iter().map(|Fault { fault, packets }| format!("{packets} {fault}")).collect();
        let _ = writeln!(text, "injected faults on {}: {}", interface.name, faults.join(", "));
    }
    for failure in failures {
        let _ = writeln!(text, "failed: {failure}");
    }
    text
}

impl Report for Interfaces {
    const SCHEMA: &'static str = "weir.show.interfaces/1";

    fn text(&self) -> String {
        let columns = ["Name", "State", "Kind", "MAC", "MTU", "VRF", "Addresses", "Declared"];
        let mut table = Table::new(&columns.map(|name| (name, if name == "MTU" { Align::Right } else { Align::Left })));
        for interface in &self.interfaces {
            table.row([
                interface.name.clone(),
                interface.state.clone(),
                interface.kind.clone(),
                if interface.mac.is_empty() { "-".to_owned() } else { interface.mac.clone() },
                interface.mtu.to_string(),
                interface.vrf.clone(),
                interface.addresses.join(","),
                interface.origin.clone(),
            ]);
        }
        let troubles = access(&self.interfaces) + &troubles(&self.interfaces, &self.failures);
        let gap = if troubles.is_empty() { "" } else { "\n" };
        format!("{}\n{}{gap}{troubles}", table.text(), traffic(&self.interfaces))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{json, read, sample};
    use super::*;

    #[test]
    fn what_is_from_the_host_has_a_line() {
        let given = FromHost { mtu: Some(1400), addresses: vec!["203.0.113.7/24".into()], neighbors: 1 };
        let host = std::collections::BTreeMap::from([("wan".to_owned(), given.clone())]);
        let interfaces = Interfaces::new(&sample::snapshot(), vec![]).with_host(host);
        assert!(interfaces.text().contains("\nfrom the host on wan: MTU 1400, 203.0.113.7/24, 1 neighbour\n"));
        let back = read::<Interfaces>(&json(&interfaces)).unwrap();
        assert_eq!((&back, &back.interfaces[0].from_host), (&interfaces, &Some(given)));
        assert_eq!(FromHost::default().words(), "nothing");
    }

    #[test]
    fn what_each_is_then_what_passed_it() {
        let interfaces = Interfaces::new(&sample::snapshot(), vec!["lan: the capture is cut short".into()]);
        assert_eq!(
            interfaces.text(),
            "\
Name  State  Kind       MAC                 MTU  VRF      Addresses                         Declared
wan   up     generator  02:00:00:00:00:01  1500  default  198.51.100.1/24,2001:db8:1::1/64  edge.toml:3
lan   down   null       -                  9000  default  -                                 edge.toml:9

Name  RX packets  RX bytes  TX packets  TX bytes  Dropped  Dropped bytes  Punted  No buffer  Kernel drops  RX errors  TX errors
wan         2000    128000           0         0      100           6400      12          0             5          0          0
lan            0         0        1900    121600        0              0       0          0             0          0          2

not used on wan (tentative): 2001:db8:1::1/64
punt device of wan: wan-host is missing; 7 packets not punted
super-packets on lan: 40 packets merged into 2; 1 cut into 45 packets
injected faults on wan: 3 dropped, 1 corrupted
failed: lan: the capture is cut short
"
        );
        assert_eq!(interfaces.interfaces[0].capabilities, ["tx-tcp4", "tx-checksum"]);
        assert!(json(&interfaces).contains("\"capabilities\":[\"tx-tcp4\",\"tx-checksum\"]"));
        assert_eq!(read::<Interfaces>(&json(&interfaces)).unwrap(), interfaces);
    }
}
