//! The statistics of a running gateway: plain values that the control thread takes from the workers' counters without
//! stopping them. The command line renders them as tables and JSON.

mod access;
mod acl;
mod bridge;
mod classify;
mod ipsec;
mod sav;
mod spd;
mod steer;
mod traffic;
mod tunnel;

use std::borrow::Cow;
use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::changed::Changed;

pub use access::{AllowlistStats, BindingRow, BindingsStats, EthertypeStats, LearnedRow, PrefixRow, RefusedRow};
pub use acl::{AclListStats, AclRuleRow, AclSectionStats, AclTableStats};
pub use bridge::{BridgeMover, BridgePortRow, BridgeStats, MacRow};
pub use classify::{ClassifyCount, ClassifyCounted, ClassifyStats};
pub use ipsec::{PathMtu, SaDirection, SaInbound, SaLife, SaPhase, SaStats};
pub use sav::{InvalidSourceRow, InvalidSources, SavEntryRow, SavInterfaceStats, SavPolicyStats, SavTableStats};
pub use spd::{SpdCacheRow, SpdRuleRow, SpdStats};
pub use steer::{SteerPlace, SteerRuleRow, SteerStats};
pub use traffic::Traffic;
pub use tunnel::{TunnelPath, TunnelStats};

/// A word of the program's own, or one that was read from JSON.
pub type Name = Cow<'static, str>;

/// One reading of every counter.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Snapshot {
    /// Seconds since the gateway started, or since the counters were last cleared.
    pub elapsed: f64,
    /// Ticks of the time-stamp counter per second.
    pub tick_frequency: f64,
    /// Each worker's runtime.
    pub workers: Vec<WorkerStats>,
    /// Every drop reason, whether it occurred or not, in the order of the enumeration.
    pub drops: Vec<DropStats>,
    /// Every interface, in the order of the configuration.
    pub interfaces: Vec<InterfaceStats>,
    /// Source address validation: each interface and family that has or had a policy.
    pub sav: Vec<SavInterfaceStats>,
    /// Where all packets went.
    pub conservation: Conservation,
    /// Packet buffers.
    pub buffers: BufferStats,
    /// The table of neighbours.
    pub neighbors: NeighborStats,
    /// Forwarding tables, neighbours and whatever else is bounded.
    pub tables: Vec<TableStats>,
}

/// A worker's runtime, as `show runtime` shows it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WorkerStats {
    /// Number, from 0.
    pub worker: usize,
    /// The CPU it is pinned to.
    pub core: Option<usize>,
    /// Its nodes in the order of the graph, including nodes that never ran.
    pub nodes: Vec<NodeStats>,
    /// Packets received from ports.
    pub received: u64,
    /// Packets handed to ports.
    pub transmitted: u64,
    /// Packets dropped.
    pub dropped: u64,
    /// Packets delivered to the gateway itself.
    pub local: u64,
    /// Neighbour events that were lost because the ring to the control thread was full.
    pub events_lost: u64,
    /// Main-loop rounds, and how many of them found nothing to do.
    pub loops: u64,
    /// Rounds that found nothing.
    pub idle_loops: u64,
    /// Times it went to sleep.
    pub sleeps: u64,
    /// It sleeps now: it waits for a packet, a time, or a word of another thread.
    pub asleep: bool,
}

/// A node's runtime on one worker.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NodeStats {
    /// Its name, e.g. `ip4-lookup`.
    pub name: &'static str,
    /// `polling` or `sleeping` for inputs, as their worker does; `active` else.
    pub state: &'static str,
    /// Vectors it was given.
    pub calls: u64,
    /// Packets in them.
    pub packets: u64,
    /// Times it was suspended: for `rx` the times that its worker went to sleep, 0 for all others, which run to completion.
    pub suspends: u64,
    /// Ticks spent in it.
    pub ticks: u64,
    /// Vectors by the number of their packets, by [class](crate::graph::counters::VECTOR_CLASSES).
    pub by_packets: Vec<u64>,
    /// Vectors by their ticks per packet, by [class](crate::graph::counters::TICK_CLASSES).
    pub by_ticks: Vec<u64>,
}

/// A drop reason and how often it occurred.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DropStats {
    /// The node that drops for it.
    pub node: Name,
    /// Kebab-case name.
    pub reason: Name,
    /// `error`, `warning` or `info`.
    pub severity: Name,
    /// Packets dropped.
    #[serde(rename = "count")]
    pub packets: u64,
    /// The meaning of the reason, in a sentence.
    pub description: Name,
}

/// An interface's counters.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct InterfaceStats {
    /// Its name.
    pub name: String,
    /// Kind of its port (`generator`, `pcap`, `null`, `af-packet`, `tap`, `tun`) or `vlan`.
    pub kind: &'static str,
    /// Capabilities of its port, such as `tx-tcp4` and `rx-checksum`; empty for a VLAN.
    pub capabilities: Vec<&'static str>,
    /// Packets can pass.
    pub up: bool,
    /// Hardware address; empty for interfaces without a link layer.
    pub mac: String,
    /// Largest IP packet, in octets.
    pub mtu: u32,
    /// VRF.
    pub vrf: String,
    /// Addresses, `address/length`.
    pub addresses: Vec<String>,
    /// The addresses that follow from the hardware address, not from the configuration.
    pub automatic: Vec<String>,
    /// The tentative addresses: duplicate address detection has not ended, or has found another station.
    pub tentative: Vec<String>,
    /// Received, in packets and octets of frames.
    pub rx: Traffic,
    /// Transmitted.
    pub tx: Traffic,
    /// Dropped after being received here.
    pub dropped: Traffic,
    /// Given to the host by the punt device, after being received here.
    pub punt: Traffic,
    /// Its punt device.
    pub punt_device: Option<PuntDevice>,
    /// Super-packets that were made of packets that leave here, and these packets.
    pub merged: (u64, u64),
    /// Super-packets that were cut here, and their segments.
    pub cut: (u64, u64),
    /// Frames waiting in the port for which no buffer was left.
    pub no_buffer: u64,
    /// Frames that the kernel dropped before they came to us, the port's ring being full.
    pub kernel_drops: u64,
    /// Frames the port could not deliver.
    pub receive_errors: u64,
    /// Frames the port refused to send.
    pub transmit_errors: u64,
    /// Effects of fault injection: (`dropped` | `duplicated` | `reordered` | `corrupted` | `truncated`, packets); empty
    /// without it.
    pub faults: Vec<(&'static str, u64)>,
    /// Where it was declared, `file:line`.
    pub origin: String,
}

/// The punt device of an interface.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PuntDevice {
    /// Its name.
    pub name: String,
    /// `up`, `down` or `missing`.
    pub state: &'static str,
    /// Packets that it did not take.
    pub failed: u64,
}

/// Where all packets went: `received + created = transmitted + local + held + dropped + absorbed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Conservation {
    /// From ports.
    pub received: u64,
    /// Made by weir: ICMP messages, fragments, answers.
    pub created: u64,
    /// To ports.
    pub transmitted: u64,
    /// Delivered to the gateway itself.
    pub local: u64,
    /// Waiting: on their way between workers, for a neighbour, for reassembly.
    pub held: u64,
    /// Dropped, for any reason.
    pub dropped: u64,
    /// Gone into others: packets that were fragmented, reassembled or merged.
    pub absorbed: u64,
}

impl Conservation {
    /// Returns the number of packets that the equation lacks: 0 unless packets are in the graph or weir has an error.
    pub fn imbalance(&self) -> i64 {
        let into = self.received + self.created;
        let out = self.transmitted + self.local + self.held + self.dropped + self.absorbed;
        into as i64 - out as i64
    }
}

/// Packet buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BufferStats {
    /// Small buffers in all, and free in the pool.
    pub small: (usize, usize),
    /// Large buffers in all, and free in the pool.
    pub large: (usize, usize),
    /// Reserved huge pages (else transparent or ordinary ones).
    pub huge_pages: bool,
}

/// A bounded table.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct TableStats {
    /// Its name, e.g. `fib4 default`.
    pub name: String,
    /// Entries in use.
    pub used: u64,
    /// Entries there may be.
    pub limit: u64,
    /// Octets of memory.
    pub bytes: u64,
    /// The behaviour of a full table.
    pub when_full: Name,
}

/// Counters of learned decisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FastPath {
    /// Decisions that there are, but for those of sessions.
    pub decisions: u64,
    /// Octets of memory.
    pub octets: u64,
    /// Packets that took a decision.
    pub hits: u64,
    /// Packets of flows about which nothing was learned, but for those of the next row.
    pub new: u64,
    /// Packets that a rule with `no-flow` matched.
    pub no_flow: u64,
    /// Packets of flows that were decided before something changed, by [`Changed`].
    pub changed: [u64; Changed::COUNT],
    /// Packets that differ in a field on which the decision depends.
    pub differs: u64,
    /// Packets that can take no decision.
    pub excluded: u64,
    /// Decisions that were learned, for new flows or again.
    pub learned: u64,
    /// Decisions for which there was no room.
    pub refused: u64,
    /// Decisions that were forgotten for their age.
    pub expired: u64,
}

/// Counters of sessions, since the start. Each session that was opened has ended, by one cause, or is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SessionsCounted {
    /// Sessions that were opened.
    pub opened: u64,
    /// Sessions that are open; their time may be over.
    pub open: u64,
    /// Sessions that ended by age.
    pub expired: u64,
    /// Half-open sessions that ended for a newer one.
    pub replaced: u64,
    /// Sessions that ended because the rules permit them no longer, or translate them otherwise.
    pub revoked: u64,
    /// Sessions that ended for a new connection with the same addresses and ports.
    pub renewed: u64,
    /// Sessions that ended with the vector that opened them, as none of its packets passed.
    pub unconfirmed: u64,
    /// Sessions that a user ended.
    pub cleared: u64,
}

/// Sessions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Flows {
    /// The first of them, in the order of the listing.
    pub rows: Vec<FlowRow>,
    /// All that match.
    pub total: usize,
    /// All that there are.
    pub all: usize,
    /// Counters of all sessions.
    pub counted: SessionsCounted,
    /// Learned decisions.
    pub fast_path: FastPath,
}

/// A session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowRow {
    /// The worker that owns it.
    pub worker: usize,
    /// The number of its zone, and the name: that of a VRF, unless interfaces name a zone.
    pub zone: (u16, String),
    /// The protocol.
    pub protocol: u8,
    /// Its state.
    pub state: &'static str,
    /// No reply has passed; of TCP, it was never established.
    pub half_open: bool,
    /// The source of its first packet.
    pub source: std::net::IpAddr,
    /// The destination of its first packet.
    pub destination: std::net::IpAddr,
    /// Source and destination port of its first packet, if the protocol has ports.
    pub ports: Option<(u16, u16)>,
    /// The type of an ICMP request, and its identifier.
    pub request: Option<(u8, u16)>,
    /// The interface that its first packet came in by.
    pub received_on: String,
    /// The rules that opened it.
    pub rules: Vec<FlowRule>,
    /// Time since it was opened.
    pub age: Duration,
    /// Time since its last packet.
    pub idle: Duration,
    /// Time until it ends, if no packet passes before.
    pub expires: Duration,
    /// Packets, in its original direction and in the other.
    pub packets: [u64; 2],
    /// Octets from the IP header on, likewise.
    pub bytes: [u64; 2],
    /// Why packets of each direction walk; `None`: they take a learned decision.
    pub slow: [Option<&'static str>; 2],
}

/// The rule that opened a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowRule {
    /// The interface whose list has the rule.
    pub interface: String,
    /// The list is for egress.
    pub output: bool,
    /// The list; `None`: the rule is gone, and the session stays.
    pub list: Option<String>,
    /// The rule's number.
    pub number: Option<u32>,
    /// Where the rule was declared.
    pub origin: Option<String>,
}

/// Some translations, and how many there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Translations {
    /// The first of them.
    pub rows: Vec<TranslationRow>,
    /// How many match.
    pub total: usize,
    /// How many there are.
    pub all: usize,
}

/// A NAT rule, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NatRuleName {
    /// Its list.
    pub list: String,
    /// Its id there.
    pub rule: u32,
    /// Where it was declared.
    pub origin: String,
}

/// A translation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TranslationRow {
    /// The worker that owns it.
    pub worker: usize,
    /// The protocol.
    pub protocol: u8,
    /// Its state.
    pub state: &'static str,
    /// No reply has passed; of TCP, it was never established.
    pub half_open: bool,
    /// The VRFs that its first packet came in by and left by; empty: that is gone.
    pub vrfs: [String; 2],
    /// The numbers of their zones of translations.
    pub zones: [u16; 2],
    /// The type of its ICMP requests.
    pub icmp_type: Option<u8>,
    /// The endpoints of its first packet, as it came in.
    pub before: NatEnds,
    /// The endpoints of its first packet, as it left.
    pub after: NatEnds,
    /// The interface that its first packet came in by.
    pub received_on: String,
    /// The list of the rule that gave it; `None`: the rules are others now, and no packet has passed since.
    pub list: Option<String>,
    /// The id of the rule in the list.
    pub rule: Option<u32>,
    /// Where the rule was declared.
    pub origin: Option<String>,
    /// The rule that gave its source, if that is another one.
    pub source_by: Option<NatRuleName>,
    /// Time since it was opened.
    pub age: Duration,
    /// Time since its last packet.
    pub idle: Duration,
    /// Time until it ends, if no packet passes before.
    pub expires: Duration,
    /// Packets, in its original direction and in the other.
    pub packets: [u64; 2],
    /// Octets from the IP header on, likewise.
    pub bytes: [u64; 2],
    /// Why its packets do not take learned decisions, likewise; `None`: they take them.
    pub slow: [Option<&'static str>; 2],
}

/// The endpoints of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NatEnds {
    /// Source address.
    pub source: std::net::IpAddr,
    /// Destination address.
    pub destination: std::net::IpAddr,
    /// Ports, if the protocol has some.
    pub ports: Option<(u16, u16)>,
    /// The identifier of an ICMP request.
    pub identifier: Option<u16>,
}

/// A list of rules that translate.
#[derive(Debug, Clone, PartialEq)]
pub struct NatStats {
    /// Its name.
    pub name: String,
    /// The interfaces that name it.
    pub interfaces: Vec<String>,
    /// Translations that its rules may begin, at all its interfaces.
    pub limit: Option<u32>,
    /// Translations that there are; `None`: nothing limits them, or no interface names the list.
    pub held: Option<u32>,
    /// Packets beyond the limit.
    pub limited: u64,
    /// The greatest segment size in SYN segments of its translations.
    pub mss_clamp: Option<crate::model::MssClamp>,
    /// Whether inside endpoints keep their outside endpoints.
    pub mapping: crate::model::NatMapping,
    /// Its rules, in order.
    pub rules: Vec<NatRuleRow>,
    /// Where it was declared.
    pub origin: String,
}

/// A rule that translates, and what it has done.
#[derive(Debug, Clone, PartialEq)]
pub struct NatRuleRow {
    /// Its id: its place from 1 until the list changes while the gateway runs.
    pub id: u32,
    /// The rule.
    pub rule: crate::model::NatRule,
    /// Packets that it translated or kept.
    pub packets: u64,
    /// Their octets from the IP header on.
    pub bytes: u64,
    /// Translations that it began.
    pub opened: u64,
    /// Packets that found no free port or address.
    pub exhausted: u64,
    /// SYN segments whose maximum segment size it lowered.
    pub clamped: u64,
    /// Packets whose source had as many translations as it may have.
    pub limited: u64,
    /// Where it was declared.
    pub origin: String,
}

/// The translations of a VRF.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NatVrf {
    /// The VRF that their first packets come in by.
    pub vrf: String,
    /// Its translations.
    pub translations: usize,
    /// How many it may have.
    pub limit: Option<u32>,
    /// Packets beyond the limit.
    pub limited: u64,
}

/// An inside address, and its translations by a rule at an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NatUser {
    /// The rule's list.
    pub list: String,
    /// Its id there.
    pub rule: u32,
    /// The interface.
    pub interface: String,
    /// The VRF of the address.
    pub vrf: String,
    /// The address.
    pub address: std::net::IpAddr,
    /// Its translations now.
    pub translations: usize,
    /// How many it may have.
    pub limit: Option<u32>,
    /// Where the rule was declared.
    pub origin: String,
}

/// Packets that found no free port or address of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NatExhausted {
    /// The outside address; `None`: those beyond the first 256 of the rule.
    pub address: Option<std::net::IpAddr>,
    /// The protocol: `tcp`, `udp`, `icmp` (of both families) or `other`.
    pub protocol: &'static str,
    /// How many packets.
    pub packets: u64,
}

/// The outside addresses of a rule at an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NatPool {
    /// The rule's list.
    pub list: String,
    /// Its id there.
    pub rule: u32,
    /// The interface.
    pub interface: String,
    /// How many addresses there are.
    pub addresses: u128,
    /// The ports that it gives; `None`: packets keep theirs.
    pub ports: Option<std::ops::RangeInclusive<u16>>,
    /// Translations that have one of them now.
    pub translations: usize,
    /// Addresses that have translations.
    pub addresses_used: usize,
    /// The addresses with the most translations.
    pub greatest: Vec<(std::net::IpAddr, usize)>,
    /// Packets that found no free port or address.
    pub exhausted: u64,
    /// The same by outside address and protocol.
    pub exhausted_by: Vec<NatExhausted>,
    /// Where the rule was declared.
    pub origin: String,
}

/// A route, as `show routes` shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteRow {
    /// VRF.
    pub vrf: String,
    /// Destination prefix.
    pub prefix: String,
    /// `via`, `blackhole`, `unreachable`, `prohibit`, `local`, `connected` or `neighbor`.
    pub kind: Name,
    /// Its paths.
    pub paths: Vec<PathRow>,
    /// Where it was declared, `file:line`; empty when built in.
    pub origin: String,
    /// Its source: `file` (with all that follows from addresses and neighbours), `host` (the same of addresses that an interface has
    /// from the host), `fpm` or `kernel`.
    #[serde(default)]
    pub source: Name,
    /// The program that added it, if another source says so: `bgp`, `ospf`, `static` and others, or a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Name>,
    /// Its metric, if another source says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<u32>,
}

/// The route that an address takes in a VRF.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteTo {
    /// VRF.
    pub vrf: String,
    /// The route in force; `None`: no prefix covers the address.
    pub route: Option<RouteRow>,
    /// The other routes for its prefix, the next one first: `[[route]]` by metric, then one of each other source.
    pub candidates: Vec<RouteRow>,
}

/// A path of a route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct PathRow {
    /// Egress interface.
    pub interface: String,
    /// Next hop; `None`: on the link.
    pub address: Option<IpAddr>,
    /// Configured weight.
    pub weight: u8,
    /// Share of flows it takes now, 0.0 ..= 1.0, in thousandths.
    pub share_permille: u16,
    /// Hardware address of the next hop, when known.
    pub mac: Option<String>,
}

/// How full the table of neighbours is, and what that led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct NeighborStats {
    /// Neighbours that were learned.
    pub entries: u64,
    /// How many there may be.
    pub limit: u64,
    /// Neighbours that were solicited and have never answered.
    pub incomplete: u64,
    /// Neighbours that were evicted.
    pub evicted: u64,
    /// Neighbours that were refused because none could be evicted.
    pub refused: u64,
    /// Questions and announcements that the rate did not allow.
    pub unsent: u64,
    /// Neighbour events that were lost because the ring to the control thread was full.
    pub events_lost: u64,
}

/// A neighbour, as `show neighbors` shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NeighborRow {
    /// Link.
    pub interface: String,
    /// Address.
    pub address: IpAddr,
    /// Hardware address; empty while it is not known.
    pub mac: String,
    /// `static`, or as RFC 4861, 7.3.2, has it: `incomplete`, `reachable`, `stale`, `delay`, `probe`.
    pub state: Name,
    /// `static`: it is configured. `host`: the host has it at the punt device. `dynamic`: it was learned.
    pub source: Name,
    /// Seconds since it last answered a solicitation, where it was learned and ever did.
    pub age: Option<f64>,
    /// Where it was declared; empty where it was learned.
    pub origin: String,
}

/// The counters of a sampler. They count from its first start; `clear` does not reset them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SamplerStats {
    /// Its name.
    pub name: String,
    /// Packets of which some were to be taken.
    pub offered: u64,
    /// Packets that were sampled.
    pub taken: u64,
    /// Packets that were not sampled because of the rate limit.
    pub over_rate: u64,
    /// Packets that were not sampled because the ring of a worker had no room.
    pub ring_full: u64,
}
