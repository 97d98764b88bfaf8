//! `weir bench nat`: established flows with translation beside the same without, first packets of translations, and draws of ports
//! from pools that fill up.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use weir_base::tsc;
use weir_packet::vector::VECTOR;
use weir_plane::bench::Bench;
use weir_plane::model::{
    AclAction, AclRule, Addresses, FastPath, Gateway, NatIndex, NatList, NatMapping, NatRule, NatTarget, NatVerb,
    Origin, RouteTarget,
};
use weir_plane::node::Node;
use weir_port::spec::{GeneratorSpec, PortSpec, SizeSpec, StreamSource, StreamSpec, TemplateSpec, Transport};

use crate::flow::translated::{self, Measured};
use crate::prefixes::Prefixes;
use crate::report::figure::{Figure, Target};
use crate::report::table::Table;
use crate::report::{Page, Report, machine};
use crate::turns::{Outcome, Run};
use crate::{Error, machine as cpu, model};

/// Ports of a pool with one address: those from 1024 on.
const PORTS: u32 = 64_512;

/// First packets that are sent beyond the ports of a pool.
const BEYOND: u32 = 4_096;

/// The measurement of `weir bench nat`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Nat {
    /// Ticks of the time-stamp counter per second.
    pub tick_frequency: f64,
    /// The name of the CPU.
    pub cpu: String,
    /// Turns, and runs that fill a pool: medians are over these.
    pub turns: usize,
    /// Flows whose translations are established.
    pub established: Vec<Established>,
    /// Established flows under all policies.
    #[serde(default)]
    pub policies: Vec<Policies>,
    /// First packets, by how full the pool is.
    pub draws: Vec<Draw>,
    /// Translations that begin one after the other.
    pub openings: Vec<Opening>,
}

/// The cost of packets of established flows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Established {
    /// `ipv4` or `ipv6`.
    pub family: String,
    /// Flows.
    pub flows: u32,
    /// Ticks per packet from `ethernet-input` to `output`, by the fast path, without translation.
    pub plain: Figure,
    /// The same with translation.
    pub translated: Figure,
    /// The difference.
    pub added: Figure,
    /// The target for the difference.
    pub target: Option<Target>,
}

/// The cost of packets of established flows that are translated, validated and permitted by lists.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Policies {
    /// `ipv4` or `ipv6`.
    pub family: String,
    /// Flows.
    pub flows: u32,
    /// Routes of the gateway.
    pub routes: usize,
    /// Ticks per packet from `ethernet-input` to `output`, forwarding alone.
    pub plain: Figure,
    /// The same with all policies and translation, by the fast path.
    pub translated: Figure,
    /// The second by the first.
    pub ratio: Figure,
    /// The target for the ratio.
    pub target: Target,
}

/// The cost of first packets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Draw {
    /// Ports that translations have, in percent.
    pub full: u32,
    /// Ticks per packet of `ip4-nat-out`: the rule, the port, the session, the packet.
    pub node: Figure,
    /// Ticks more than in a pool that is nearly empty.
    pub added: Figure,
    /// Packets that found a port, in percent.
    pub found: f64,
    /// The target for the ticks more.
    pub target: Option<Target>,
    /// The target for `found`.
    #[serde(default)]
    pub found_target: Option<Target>,
}

/// The cost of translations that begin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Opening {
    /// `ipv4` or `ipv6`.
    pub family: String,
    /// Translations.
    pub translations: u64,
    /// Translations per second of one worker, the ports' work included.
    pub rate: f64,
    /// Octets of memory per translation.
    pub octets: f64,
    /// Microseconds of a vector of first packets in the nodes, which 999 of 1,000 do not exceed.
    pub step: f64,
    /// Microseconds around the nodes of such a vector, in which the tables grow, which 999 of 1,000 do not exceed.
    pub growth: f64,
    /// The target for the rate.
    pub target: Target,
    /// The target for `octets`.
    #[serde(default)]
    pub octets_target: Option<Target>,
    /// The target for `step`.
    #[serde(default)]
    pub vector_target: Option<Target>,
    /// The target for `growth`.
    pub step_target: Target,
}

impl Report for Nat {
    const SCHEMA: &'static str = "weir.bench.nat/1";

    fn page(&self) -> Page {
        let established = Table::of(&self.established)
            .words("Family", |own| own.family.clone())
            .number("Flows", 0, |own| Some(f64::from(own.flows)))
            .number("Plain", 1, |own| Some(own.plain.median))
            .number("Translated", 1, |own| Some(own.translated.median))
            .number("Added", 1, |own| Some(own.added.median))
            .target(|own| own.target);
        let draws = Table::of(&self.draws)
            .number("Full_%", 0, |own| Some(f64::from(own.full)))
            .number("Nat_node", 0, |own| Some(own.node.median))
            .number("Added", 0, |own| Some(own.added.median))
            .target(|own| own.target)
            .number("Found_%", 1, |own| Some(own.found))
            .words("Target_found", |own| own.found_target);
        let openings = Table::of(&self.openings)
            .words("Family", |own| own.family.clone())
            .number("Translations", 0, |own| Some(own.translations as f64))
            .number("M/s", 2, |own| Some(own.rate / 1e6))
            .target(|own| Some(own.target))
            .number("Octets", 0, |own| Some(own.octets))
            .words("Target_octets", |own| own.octets_target)
            .number("Vector_us", 1, |own| Some(own.step))
            .words("Target_vector", |own| own.vector_target)
            .number("Growth_us", 1, |own| Some(own.growth))
            .words("Target_growth", |own| own.step_target.text());
        let policies = Table::of(&self.policies)
            .words("Family", |own| own.family.clone())
            .number("Flows", 0, |own| Some(f64::from(own.flows)))
            .number("Routes", 0, |own| Some(own.routes as f64))
            .number("Plain", 1, |own| Some(own.plain.median))
            .number("All_policies", 1, |own| Some(own.translated.median))
            .number("Ratio", 2, |own| Some(own.ratio.median))
            .target(|own| Some(own.target));
        Page::default()
            .line(machine(&self.cpu, self.tick_frequency))
            .line(format!("ticks are per packet: medians of {} turns; fast path on", self.turns))
            .table(established)
            .line("VPP's nat44-ed, by its own figures: 91 ticks, and 18 in the nodes around it")
            .line("")
            .line("all policies (strict uRPF, lists of 1000 rules both ways) and translation, by forwarding alone")
            .table(policies)
            .line("")
            .line("first packets to one server, by how full a pool of one address is")
            .table(draws)
            .line("")
            .line("translations that begin, of one worker")
            .table(openings)
            .line("microseconds: 999 of 1,000 vectors take no longer in the nodes, or around them, where tables grow")
    }
}

impl Nat {
    /// Measures all cases on a CPU, by default the last one that may be used. `quick` takes a small part of the effort.
    ///
    /// # Errors
    /// If there is no room, or packets do not go where they should.
    pub fn measure(cpu: Option<usize>, quick: bool) -> Result<Nat, Error> {
        cpu::pin(cpu)?;
        let (turns, windows, fills) = if quick { (3, 5, 1) } else { (15, 40, 5) };
        let sizes: &[u32] = if quick { &[10_000] } else { &[10_000, 1_000_000] };
        let begun = if quick { 50_000 } else { 1_000_000 };
        let (mut rows, mut openings, mut policies) = (Vec::new(), Vec::new(), Vec::new());
        let full = (!quick).then(|| Prefixes::made(1));
        for v4 in [true, false] {
            policies.push(under_policies(v4, None, (turns, windows))?);
            if let Some(full) = &full {
                policies.push(under_policies(v4, Some(full), (turns, windows))?);
            }
            for &flows in sizes {
                rows.push(established(v4, flows, turns, windows)?);
            }
            openings.push(opening(v4, begun)?);
        }
        let frequency = tsc::frequency();
        let draws = draws(fills)?;
        Ok(Nat { tick_frequency: frequency, cpu: cpu::cpu_name(), turns, established: rows, policies, draws, openings })
    }
}

/// A gateway between a network of clients and one of servers.
struct Plan {
    v4: bool,
    flows: u32,
    /// The pool of outside addresses.
    pool: IpNet,
    /// All packets are for one server, and one port there.
    is_one_server: bool,
}

impl Plan {
    fn of(v4: bool, flows: u32) -> Plan {
        let pool = if v4 { "203.0.113.0/24" } else { "2001:db8:a::/120" };
        Plan { v4, flows, pool: net(pool), is_one_server: false }
    }

    fn gateway(&self) -> Gateway {
        let text = |v4: &'static str, v6: &'static str| if self.v4 { v4 } else { v6 };
        let (clients, servers) =
            (net(text("10.16.0.0/12", "2001:db8:10::/48")), net(text("20.16.0.0/12", "2001:db8:20::/48")));
        let hop: IpAddr = text("198.51.100.2", "2001:db8:2::2").parse().expect("a constant address");
        let last = if self.is_one_server { 0 } else { 0xffff };
        let template = TemplateSpec {
            source: model::range(clients, 0xffff),
            destination: model::range(servers, last),
            protocol: Transport::Udp,
            source_port: (1024, u16::MAX),
            destination_port: (53, if self.is_one_server { 53 } else { 5353 }),
            size: SizeSpec::Fixed(if self.v4 { 60 } else { 78 }),
            flows: self.flows,
            ttl: 64,
            dont_fragment: true,
            vlan: Vec::new(),
            source_mac: None,
            destination_mac: None,
            seed: 1,
        };
        let stream = StreamSpec { source: StreamSource::Template(template), rate: None, count: None };
        let clients_port = PortSpec::Generator(GeneratorSpec { streams: vec![stream] });
        let inside = model::interface("inside", clients_port, net(text("192.0.2.1/24", "2001:db8:1::1/64")));
        let outside = model::interface("outside", PortSpec::Null, net(text("198.51.100.1/24", "2001:db8:2::1/64")));
        let rule = NatRule {
            verb: NatVerb::Source,
            matches: AclRule::all(AclAction::Permit, Origin(0)),
            to_interface: false,
            source: Some(NatTarget { addresses: Some(Addresses::Net(self.pool)), ports: None }),
            destination: None,
            preserve: false,
            parity: false,
            log: false,
            limit_per_address: None,
            comment: None,
        };
        let list = NatList {
            name: "edge".to_owned(),
            rules: [rule].into(),
            ids: None,
            limit: None,
            limit_origin: Origin(0),
            mss_clamp: None,
            mapping: NatMapping::default(),
            log: false,
            ipfix: None,
            origin: Origin(0),
        };
        let mut gateway = Gateway {
            interfaces: vec![inside, outside],
            routes: vec![model::route(servers, RouteTarget::Via([model::hop(1, hop)].into()))],
            neighbors: vec![model::neighbor(1, hop, [2, 0, 0, 0, 1, 1])],
            nat: vec![list],
            ..model::empty()
        };
        let room = 2 * self.flows;
        (gateway.flow_table.flows, gateway.flow_table.sessions, gateway.flow_table.half_open) = (room, room, room);
        gateway.flow_table.enabled = FastPath::On;
        gateway
    }

    /// The same, with translation at the outside interface.
    fn translating(&self) -> Gateway {
        let mut gateway = self.gateway();
        gateway.interfaces[1].nat = Some(NatIndex(0));
        gateway
    }
}

fn net(text: &str) -> IpNet {
    text.parse().expect("a constant prefix")
}

fn name(v4: bool) -> String {
    if v4 { "ipv4" } else { "ipv6" }.to_owned()
}

fn established(v4: bool, flows: u32, turns: usize, windows: usize) -> Result<Established, Error> {
    let plan = Plan::of(v4, flows);
    let mut run = Run::new(&plan.gateway())?;
    run.add(&plan.gateway(), &[], Outcome::Forwarded)?;
    run.add(&plan.translating(), &[], Outcome::Forwarded)?;
    // Each flow opens its translation, has its decision learned, and takes it twice before the first window.
    let samples = run.turns(turns, windows, 4 * flows as usize)?;
    let walks = if v4 { Node::Ip4NatOut } else { Node::Ip6NatOut };
    if let Some(node) = samples[1].nodes().into_iter().find(|&node| node == walks) {
        let packets = samples[1].packets();
        let (expected, node) = (packets, node.name());
        return Err(Error::Packets {
            version: "translating".to_owned(),
            before: 0,
            expected,
            received: packets,
            node,
            passed: packets,
            transmitted: packets,
            dropped: 0,
        });
    }
    let (plain, translated) = (samples[0].graph(), samples[1].graph());
    let added = samples[1].added(&samples[0]);
    let most = if v4 { Some(4.0) } else { (flows <= 10_000).then_some(8.0) };
    let target = most.map(|most| Target::at_most(most, added.median));
    Ok(Established { family: name(v4), flows, plain, translated, added, target })
}

/// Flows under all policies that are translated.
fn under_policies(v4: bool, full: Option<&Prefixes>, effort: (usize, usize)) -> Result<Policies, Error> {
    const FLOWS: u32 = 10_000;
    let Measured { routes, plain, translated, ratio } = translated::measure(v4, FLOWS, full, effort)?;
    let target = Target::at_most(if full.is_some() { 1.15 } else { 1.2 }, ratio.median);
    Ok(Policies { family: name(v4), flows: FLOWS, routes, plain, translated, ratio, target })
}

/// Fills pools of one address, and returns the cost of first packets on the way.
fn draws(fills: usize) -> Result<Vec<Draw>, Error> {
    // Vectors around a fill, in per mille.
    let levels: [(u32, std::ops::Range<u32>); 4] = [(0, 10..40), (50, 480..520), (98, 975..985), (100, 999..1001)];
    let mut costs = vec![Vec::new(); levels.len()];
    let mut found = vec![(0, 0); levels.len()];
    for seed in 1..=fills as u64 {
        let plan = Plan { pool: net("203.0.113.1/32"), is_one_server: true, ..Plan::of(true, PORTS + BEYOND) };
        let mut bench = Bench::new(&plan.translating(), seed)?;
        for _ in 0..(PORTS + BEYOND) as usize / VECTOR {
            let before = bench.conservation();
            let full = before.transmitted * 1000 / u64::from(PORTS);
            let nodes = bench.window(1);
            let after = bench.conservation();
            let Some(level) = levels.iter().position(|(_, range)| range.contains(&(full as u32))) else { continue };
            let Some(node) = nodes.iter().find(|own| own.node == Node::Ip4NatOut && own.packets > 0) else { continue };
            costs[level].push(node.ticks as f64 / node.packets as f64);
            found[level].0 += after.transmitted - before.transmitted;
            found[level].1 += after.received - before.received;
        }
    }
    let empty = Figure::of(costs[0].iter().copied()).median;
    type Fill = (u32, std::ops::Range<u32>);
    let row = |(((full, _), costs), (found, all)): ((&Fill, &Vec<f64>), &(u64, u64))| {
        let added = Figure::of(costs.iter().map(|cost| cost - empty));
        let node = Figure::of(costs.iter().copied());
        let target = match full {
            50 => Some(Target::at_most(150.0, added.median)),
            98 => Some(Target::at_most(3000.0, added.median)),
            // A packet that finds no port is refused within ten microseconds.
            100 => Some(Target::at_most((tsc::frequency() * 10e-6).round(), node.median)),
            _ => None,
        };
        let found = 100.0 * *found as f64 / (*all).max(1) as f64;
        let found_target = (*full == 98).then(|| Target::at_least(99.0, found));
        Draw { full: *full, node, added, found, target, found_target }
    };
    Ok(levels.iter().zip(&costs).zip(&found).map(row).collect())
}

/// Begins so many translations, a vector of them at once.
fn opening(v4: bool, translations: u32) -> Result<Opening, Error> {
    let mut bench = Bench::new(&Plan::of(v4, translations).translating(), 1)?;
    let frequency = tsc::frequency();
    let start = tsc::ticks();
    let (mut steps, mut growths): (Vec<f64>, Vec<f64>) = Default::default();
    for _ in 0..translations as usize / VECTOR {
        let before = tsc::ticks();
        let nodes: u64 = bench.window(1).iter().map(|own| own.ticks).sum();
        let all = tsc::ticks() - before;
        let microseconds = |ticks: u64| ticks as f64 / frequency * 1e6;
        steps.push(microseconds(nodes));
        growths.push(microseconds(all.saturating_sub(nodes)));
    }
    let seconds = (tsc::ticks() - start) as f64 / frequency;
    let (count, octets) = bench.sessions();
    let expected = steps.len() * VECTOR;
    if count != expected {
        let (expected, passed) = (expected as u64, count as u64);
        let ends = bench.conservation();
        let node = Node::Ip4NatOut.name();
        let (transmitted, dropped) = (ends.transmitted, ends.dropped);
        let (version, before) = ("first packets".to_owned(), 0);
        return Err(Error::Packets {
            version,
            before,
            expected,
            received: ends.received,
            node,
            passed,
            transmitted,
            dropped,
        });
    }
    let [step, growth] = [steps, growths].map(|mut own| {
        own.sort_by(f64::total_cmp);
        own[(own.len() * 999 / 1000).min(own.len() - 1)]
    });
    let (rate, octets) = (count as f64 / seconds, octets as f64 / count as f64);
    Ok(Opening {
        family: name(v4),
        translations: count as u64,
        rate,
        octets,
        // A million of them in 350 MB.
        octets_target: Some(Target::at_most(350.0, octets)),
        step,
        growth,
        target: Target::at_least(4e6, rate),
        vector_target: Some(Target::at_most(50.0, step)),
        step_target: Target::at_most(50.0, growth),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_measured_and_read_back() {
        let rows: Vec<Established> = [true, false].map(|v4| established(v4, 2_000, 1, 1).unwrap()).into();
        assert!(rows.iter().all(|own| own.plain.median > 0.0 && own.translated.median > 0.0));
        let draws = draws(1).unwrap();
        assert!(draws[0].found == 100.0 && draws[1].found == 100.0, "{draws:?}");
        assert!((98.0..=100.0).contains(&draws[2].found), "{draws:?}");
        assert!(draws[3].found < 60.0, "most find none: {draws:?}");
        let openings: Vec<Opening> = [true, false].map(|v4| opening(v4, 5_000).unwrap()).into();
        assert!(openings.iter().all(|own| own.rate > 0.0 && own.octets > 100.0), "{openings:?}");
        assert!(openings.iter().all(|own| own.step > 0.0 && own.growth > 0.0), "{openings:?}");
        assert!(draws[2].found_target.is_some() && draws[0].found_target.is_none(), "{draws:?}");
        let few = Prefixes::made_of(1000, 1000, 1);
        let policies = [true, false].map(|v4| [None, Some(&few)].map(|full| under_policies(v4, full, (1, 1)).unwrap()));
        let policies: Vec<Policies> = policies.into_iter().flatten().collect();
        assert!(policies.iter().all(|own| own.ratio.median > 0.0), "{policies:?}");
        assert_eq!(policies.iter().map(|own| own.routes >= 1000).collect::<Vec<_>>(), [false, true, false, true]);
        let (tick_frequency, cpu, turns) = (1e9, "none".to_owned(), 1);
        let report = Nat { tick_frequency, cpu, turns, established: rows, policies, draws, openings };
        assert_eq!(serde_json::from_str::<Nat>(&report.json()).unwrap(), report);
        assert!(report.text().contains("nat44-ed"));
    }
}
