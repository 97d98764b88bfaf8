//! Rule sets: what a lookup takes, beside rte_acl's over the same packets and in turns with it; what the node takes in the
//! graph; how large classifiers are, and how long they take to load.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::peer::{self, Peer};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use weir_base::clock::Time;
use weir_base::random::Random;
use weir_base::reclaim::{Domain, Guard};
use weir_base::tsc;
use weir_packet::wire::MacAddress;
use weir_plane::model::{AclDefault, AclIndex, AclList, Gateway, Origin, RouteTarget};
use weir_plane::node::Node;
use weir_port::pcap::{CaptureError, Writer as Capture};
use weir_port::spec::{GeneratorSpec, PortSpec, StreamSource, StreamSpec};
use weir_table::classify::{Fields, Limits, NO_RULE, Rule, Table, Writer};

use super::Effort;
use super::packet::{Ip, Packet};
use super::sets::Set;
use crate::Error;
use crate::model;
use crate::report::figure::{Figure, Target};
use crate::turns::{Outcome, Run};

/// As many as packets in a vector.
pub(super) const VECTOR: usize = 256;

/// The program in a directory of peers that times rte_acl.
const PEER: &str = "peer-acl";

/// Rules that are loaded in time, and the time.
const LOADED: (usize, f64) = (50_000, 200.0);

/// Packets that are held against a linear search.
const CHECKED: usize = 500;

/// The cost of a set of rules.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SetCost {
    /// `ipv4` or `ipv6`.
    pub family: String,
    /// Its name.
    pub name: String,
    /// Rules.
    pub rules: usize,
    /// Octets that lookups read, per rule.
    pub octets: f64,
    /// Octets that the writer has beside, per rule.
    pub side_octets: f64,
    /// Milliseconds to load all rules.
    pub load_ms: f64,
    /// The target for it, of sets of about 50,000 rules: in proportion to their number.
    pub load_target: Option<Target>,
    /// Milliseconds that the peer takes to build its tables, if there is one.
    pub peer_load_ms: Option<f64>,
    /// The cost of lookups, by traffic.
    pub traffic: Vec<TrafficCost>,
}

/// The cost of lookups of one kind of traffic.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrafficCost {
    /// `spread` or `local`.
    pub traffic: String,
    /// Packets, which come again and again in this order.
    pub packets: usize,
    /// Ticks per lookup.
    pub lookup: Figure,
    /// The target for them.
    pub lookup_target: Option<Target>,
    /// The peer's functions.
    pub peers: Vec<PeerCost>,
    /// Why there is nothing of the peer, if it took part and failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_error: Option<String>,
    /// Our ticks to those of the fastest of them.
    pub ratio: Option<f64>,
    /// The target for the ratio.
    pub ratio_target: Option<Target>,
    /// Ticks of the node in the graph.
    pub node: Figure,
    /// The target for them.
    pub node_target: Option<Target>,
    /// The ticks that the list adds to the graph.
    pub added: Figure,
}

impl TrafficCost {
    /// Returns the fastest of the peer's functions.
    pub(super) fn fastest(&self) -> Option<&PeerCost> {
        self.peers.iter().min_by(|one, other| one.median.total_cmp(&other.median))
    }
}

/// The cost of a function of the peer for the same packets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PeerCost {
    /// Library and function.
    pub name: String,
    /// Ticks per lookup, the median.
    pub median: f64,
    /// The least of the repeats.
    pub min: f64,
}

/// Targets of a set of IPv4: for a lookup, the ratio to rte_acl, the node.
fn targets(v4: bool, rules: usize) -> (Option<f64>, Option<f64>, Option<f64>) {
    match rules {
        _ if !v4 => (None, None, None),
        500..2_000 => (None, Some(0.8), Some(40.0)),
        5_000..20_000 => (Some(60.0), Some(0.8), None),
        _ => (None, None, None),
    }
}

/// Measures a set with both kinds of traffic.
pub(super) fn measure<K: Ip>(set: &Set<K>, effort: &Effort) -> Result<SetCost, Error> {
    let mut random = Random::from_seed(set.rules.len() as u64);
    let domain = Domain::new();
    let mut loads = Vec::new();
    let mut loaded = None;
    for _ in 0..3.min(effort.repeats) {
        // One at a time.
        drop(loaded.take());
        let start = Instant::now();
        loaded = Some(load(&domain, &set.rules)?);
        loads.push(start.elapsed().as_secs_f64() * 1e3);
    }
    let writer = loaded.map_or_else(|| load(&domain, &set.rules), Ok)?;
    let load_ms = Figure::of(loads).median;
    let stats = writer.stats();
    let rules = set.rules.len();
    let (mut traffic, mut peer_load_ms) = (Vec::new(), None);
    let kinds =
        [("spread", set.spread(effort.packets, &mut random)), ("local", set.local(effort.packets, &mut random))];
    for (name, packets) in kinds {
        let (cost, built) = with_traffic(set, name, &packets, &domain, &writer.table(), effort)?;
        traffic.push(cost);
        peer_load_ms = peer_load_ms.or(built);
    }
    let loaded = LOADED.1 * rules as f64 / LOADED.0 as f64;
    Ok(SetCost {
        family: K::NAME.to_owned(),
        name: set.name.clone(),
        rules,
        octets: stats.octets as f64 / rules as f64,
        side_octets: stats.side_octets as f64 / rules as f64,
        load_ms,
        load_target: (40_000..60_000).contains(&rules).then(|| Target::at_most(loaded.round(), load_ms)),
        peer_load_ms,
        traffic,
    })
}

/// A classifier of rules whose identity is their place.
pub(super) fn load<K: Ip>(domain: &Domain, rules: &[Rule<K>]) -> Result<Writer<K>, Error> {
    let mut writer = Writer::new(domain, Limits { rules: 1 << 20, bytes: 1 << 30 })?;
    writer.load(rules.iter().zip(0..).map(|(rule, place)| (u64::from(place) * GAP, rule.clone(), place)))?;
    Ok(writer)
}

/// Distance of places, so that rules can be put between.
pub(super) const GAP: u64 = 1 << 32;

/// Returns ticks per packet of the second of two rounds: the measurement before left other data in the caches.
pub(super) fn time<K: Ip>(table: &Table<K>, guard: &Guard<'_>, packets: &[Fields<K>], found: &mut [u32]) -> f64 {
    let mut start = 0;
    for _ in 0..2 {
        start = tsc::ticks();
        for (packets, found) in packets.chunks(VECTOR).zip(found.chunks_mut(VECTOR)) {
            table.lookup_each(guard, packets, found);
        }
        std::hint::black_box(&mut *found);
    }
    (tsc::ticks() - start) as f64 / packets.len() as f64
}

/// Measures lookups of these packets, and the time that the peer took to build its tables.
fn with_traffic<K: Ip>(
    set: &Set<K>,
    name: &str,
    packets: &[Packet<K>],
    domain: &Domain,
    table: &Table<K>,
    effort: &Effort,
) -> Result<(TrafficCost, Option<f64>), Error> {
    let fields: Vec<Fields<K>> = packets.iter().map(Packet::fields).collect();
    let mut found = vec![0; fields.len()];
    let mut reader = domain.reader()?;
    for (fields, found) in fields.chunks(VECTOR).zip(found.chunks_mut(VECTOR)) {
        table.lookup_each(&reader.pin(), fields, found);
    }
    for (fields, &found) in fields.iter().zip(&found).step_by(fields.len().div_ceil(CHECKED)) {
        let first = set.rules.iter().position(|rule| rule.matches(fields)).map_or(NO_RULE, |place| place as u32);
        if first != found {
            return Err(Error::Wrong { set: set.name.clone(), found, first });
        }
    }
    // A peer that fails, as it has no room for the rules, is reported beside the results of the others.
    let mut peer = match &effort.peers {
        Some(directory) => start_peer(&directory.join(PEER), &set.rules, packets)?,
        None => Ok(None),
    };
    let mut ticks = Vec::new();
    for _ in 0..effort.repeats {
        ticks.push(time(table, &reader.pin(), &fields, &mut found));
        peer = peer.and_then(|peer| match peer {
            Some(mut peer) => peer.repeat().map(|()| Some(peer)),
            None => Ok(None),
        });
    }
    let lookup = Figure::of(ticks);
    // The answer of peers for no rule is 0.
    let checksum = peer::checksum(found.iter().map(|&place| place.wrapping_add(1)));
    let (results, peer_error) = match peer.and_then(|peer| peer.map_or_else(|| Ok(Vec::new()), Peer::finish)) {
        Ok(results) => (results, None),
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    let (mut peers, mut built) = (Vec::new(), None);
    for result in results {
        let name = format!("{} {}", result.peer, result.variant);
        if result.checksum != checksum {
            return Err(Error::Disagree { peer: name, what: format!("packets and rules of {}", set.name) });
        }
        built = built.or_else(|| build_ms(&result.json));
        peers.push(PeerCost { name, median: result.median, min: result.min });
    }
    let ratio = peers.iter().map(|peer| lookup.median / peer.median).reduce(f64::max);
    let (lookup_most, ratio_most, node_most) = targets(K::BITS == 32, set.rules.len());
    let (node, added) = in_the_graph(set, packets, effort)?;
    let cost = TrafficCost {
        traffic: name.to_owned(),
        packets: packets.len(),
        lookup,
        lookup_target: lookup_most.map(|most| Target::at_most(most, lookup.median)),
        peers,
        peer_error,
        ratio,
        ratio_target: ratio_most.zip(ratio).map(|(most, ratio)| Target::at_most(most, ratio)),
        node,
        node_target: node_most.map(|most| Target::at_most(most, node.median)),
        added,
    };
    Ok((cost, built))
}

/// How long a peer took to build its tables, of what it printed.
fn build_ms(json: &str) -> Option<f64> {
    serde_json::from_str::<serde_json::Value>(json).ok()?.get("build_ms")?.as_f64()
}

/// Starts the peer on the same rules and packets, which it reads from files; there is none for IPv6. The inner result
/// has the peer's own error.
///
/// # Errors
/// If there is no such program, or its files cannot be written.
fn start_peer<K: Ip>(program: &Path, rules: &[Rule<K>], packets: &[Packet<K>]) -> io::Result<io::Result<Option<Peer>>> {
    let Some((text, keys)) = K::for_peers(rules, packets) else { return Ok(Ok(None)) };
    let directory = tempfile::tempdir()?;
    let (rule_file, key_file) = (directory.path().join("rules"), directory.path().join("keys"));
    std::fs::write(&rule_file, text)?;
    std::fs::write(&key_file, keys)?;
    let arguments = ["--rules".as_ref(), rule_file.as_os_str(), "--keys".as_ref(), key_file.as_os_str()];
    // It has read the files when it is ready.
    match Peer::start(program, arguments) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => Err(error),
        started => Ok(started.map(Some)),
    }
}

/// Ticks of the node, and what it adds to the graph, when these packets come in.
fn in_the_graph<K: Ip>(set: &Set<K>, packets: &[Packet<K>], effort: &Effort) -> Result<(Figure, Figure), Error> {
    let scratch = tempfile::tempdir().map_err(Error::Scratch)?;
    let mut model = gateway(set, &capture(packets, scratch.path())?);
    let mut run = Run::new(&model)?;
    run.add(&model, &[], Outcome::Forwarded)?;
    model.interfaces[0].access.acl_in = vec![AclIndex(0)];
    let node = if K::BITS == 32 { Node::Ip4AclIn } else { Node::Ip6AclIn };
    run.add(&model, &[node], Outcome::Forwarded)?;
    let samples = run.turns(effort.turns, effort.windows, packets.len())?;
    let [plain, with] = &samples[..] else { unreachable!("one version was added to the first") };
    Ok((with.node(node), with.added(plain)))
}

/// Writes packets as frames into a capture in a folder.
pub(super) fn capture<K: Ip>(packets: &[Packet<K>], folder: &Path) -> Result<PathBuf, CaptureError> {
    let path = folder.join("packets.pcap");
    let mut writer = Capture::create(&path)?;
    for packet in packets {
        writer.write(Time(0), &packet.frame(MAC))?;
    }
    writer.flush()?;
    Ok(path)
}

/// The hardware address of the interface that packets come in by.
const MAC: MacAddress = MacAddress([2, 0, 0, 0, 0xff, 0]);

/// A gateway that sends all packets of a capture to one neighbour, and has the set as a list that no interface uses yet.
pub(super) fn gateway<K: Ip>(set: &Set<K>, capture: &Path) -> Gateway {
    let parse = |text: &str| text.parse::<IpNet>().expect("a constant prefix");
    let (inside, outside, neighbor, default) = match K::BITS {
        32 => ("192.0.2.1/32", "192.0.2.2/31", "192.0.2.3", "0.0.0.0/0"),
        _ => ("2001:db8::1/128", "2001:db8::2/127", "2001:db8::3", "::/0"),
    };
    let neighbor = neighbor.parse().expect("a constant address");
    let looped = StreamSpec { source: StreamSource::Capture(capture.into()), rate: None, count: None };
    let port = PortSpec::Generator(GeneratorSpec { streams: vec![looped] });
    let mut input = model::interface("in", port, parse(inside));
    input.mac = Some(MAC);
    Gateway {
        interfaces: vec![input, model::interface("out", PortSpec::Null, parse(outside))],
        routes: vec![model::route(parse(default), RouteTarget::Via([model::hop(1, neighbor)].into()))],
        neighbors: vec![model::neighbor(1, neighbor, [2, 0, 0, 0, 1, 0])],
        acls: vec![AclList {
            name: "set".to_owned(),
            rules: set.configured(),
            default: AclDefault::Next,
            sample: None,
            origin: Origin(0),
        }],
        ..model::empty()
    }
}
