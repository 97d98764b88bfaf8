//! `weir bench esp`: packets that an SA encrypts and, in the same gateway, another SA decrypts, by cipher, length, and number
//! of SAs, beside the engine alone.
//!
//! The gateway is its own peer: both outer addresses are its own. A packet comes in, is encrypted, arrives as ESP for the
//! gateway, is decrypted, enters a second routing domain and leaves. So sequence numbers and windows are real, and no packet
//! is ever replayed.

pub(crate) mod captures;

use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use weir_base::tsc;
use weir_crypto::{Algorithm, Secret};
use weir_plane::model::{
    AclAction, AclRule, Address, Addresses, Gateway, Interface, InterfaceIndex, InterfaceKind, Ipsec, Neighbor, Origin,
    OuterDf, OuterDscp, OuterLabel, Route, RouteTarget, Sa, SaIndex, SaKey, SaMode, Spd, SpdAction, SpdCache, SpdIndex,
    SpdRule, Vrf, VrfIndex,
};
use weir_plane::node::Node;
use weir_port::spec::{Middleware, PortSpec};

use crate::report::figure::{Figure, Target};
use crate::report::table::Table;
use crate::report::{Page, Report, machine};
use crate::turns::{Outcome, Run, Samples};
use crate::{Error, crypto, machine as cpu, model};
use captures::LINK;

/// Octets of the packets that are encrypted, from their IP header on.
const SIZES: [u32; 3] = [64, 512, 1400];

/// SAs of the cases with many: each has a host of its own.
const MANY: u32 = 10_000;

/// Flows of each SA of the cases with many, on average; so nearly every SA has some.
const FLOWS: u32 = 4;

/// The measurement of `weir bench esp`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Esp {
    /// Ticks of the time-stamp counter per second.
    pub tick_frequency: f64,
    /// The name of the CPU.
    pub cpu: String,
    /// Turns: medians are over these.
    pub turns: usize,
    /// Flows of UDP.
    pub flows: u32,
    /// The cases.
    pub cases: Vec<Case>,
    /// Packets whose SPI no SA has.
    #[serde(default)]
    pub unknown: Vec<Unknown>,
}

/// The cost of packets of ESP with random SPIs, which are dropped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Unknown {
    /// The family of the packets: `ipv4` or `ipv6`.
    pub family: String,
    /// SAs of the gateway.
    pub sas: u32,
    /// Ticks per packet of the node `esp-decrypt`.
    pub decrypt: Figure,
    /// Ticks per packet of all nodes.
    pub graph: Figure,
    /// The target for the node.
    pub target: Target,
}

/// The cost of a case, in ticks per packet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// The algorithm.
    pub algorithm: String,
    /// The engine.
    pub engine: String,
    /// The family of inner and outer header: `ipv4` or `ipv6`.
    pub family: String,
    /// Outbound SAs, and as many inbound ones.
    pub sas: u32,
    /// Numbers of the anti-replay window.
    pub window: u32,
    /// Octets from the inner IP header on.
    pub octets: u32,
    /// The node `esp-encrypt`.
    pub encrypt: Figure,
    /// The node `esp-decrypt`.
    pub decrypt: Figure,
    /// The engine alone: sealing as much text.
    pub seal: Figure,
    /// The engine alone: opening as much text.
    pub open: Figure,
    /// All nodes, both ways, with two lookups and the policy.
    pub graph: Figure,
    /// The target for encryption.
    pub target: Option<Target>,
}

impl Report for Esp {
    const SCHEMA: &'static str = "weir.bench.esp/1";

    fn page(&self) -> Page {
        let table = Table::of(&self.cases)
            .words("Algorithm", |case| case.algorithm.clone())
            .words("Engine", |case| case.engine.clone())
            .words("Family", |case| case.family.clone())
            .number("SAs", 0, |case| f64::from(case.sas))
            .number("Window", 0, |case| f64::from(case.window))
            .number("Octets", 0, |case| f64::from(case.octets))
            .number("Encrypt", 0, |case| case.encrypt.median)
            .number("Decrypt", 0, |case| case.decrypt.median)
            .number("Seal", 0, |case| case.seal.median)
            .number("Open", 0, |case| case.open.median)
            .number("Graph", 0, |case| case.graph.median)
            .target(|case| case.target);
        let unknown = Table::of(&self.unknown)
            .words("Family", |case| case.family.clone())
            .number("SAs", 0, |case| f64::from(case.sas))
            .number("Decrypt", 1, |case| case.decrypt.median)
            .number("Graph", 1, |case| case.graph.median)
            .target(|case| Some(case.target));
        Page::default()
            .line(machine(&self.cpu, self.tick_frequency))
            .line(format!(
                "ticks are per packet: medians of {} turns; tunnel mode, {} flows of UDP",
                self.turns, self.flows
            ))
            .line("encrypt, decrypt: the nodes; seal, open: the engine alone; graph: all nodes, both ways")
            .table(table)
            .line("packets with random SPIs, which no SA has")
            .table(unknown)
    }
}

/// A case that is to be measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    algorithm: Algorithm,
    v4: bool,
    sas: u32,
    window: u32,
}

impl Plan {
    /// All ciphers with one SA; and AES-128-GCM with many, with a great window, and over IPv6.
    fn all(many: u32) -> Vec<Plan> {
        let named = |name: &str| name.parse::<Algorithm>().expect("a constant name");
        let gcm = Plan { algorithm: named("aes128gcm16"), v4: true, sas: 1, window: 64 };
        let others = [
            "aes256gcm16",
            "aes128gmac",
            "chacha20poly1305",
            "aes128ccm16",
            "aes128-sha1",
            "aes128-sha256",
            "aes256-sha512",
            "aes128ctr-sha256",
            "null-sha256",
            "null",
        ];
        let other = |name: &str| {
            let algorithm = named(name);
            Plan { algorithm, window: if algorithm.has_integrity() { 64 } else { 0 }, ..gcm }
        };
        let own = [gcm, Plan { sas: many, ..gcm }, Plan { window: 4096, ..gcm }, Plan { v4: false, ..gcm }];
        own.into_iter().chain(others.into_iter().map(other)).collect()
    }

    /// The SPI of the first SA.
    pub(crate) const SPI: u32 = 0x1000;

    /// No cipher, with one SA.
    pub(crate) fn null() -> Plan {
        Plan { algorithm: Algorithm::Unprotected, v4: true, sas: 1, window: 0 }
    }

    /// AES-128-GCM with one SA.
    pub(crate) fn one(v4: bool) -> Plan {
        Plan { v4, ..Plan::all(1)[0] }
    }

    /// The targets for encryption, by size.
    fn targets(&self) -> Option<[f64; 3]> {
        let is_gcm = self.algorithm.to_string() == "aes128gcm16" && self.v4;
        match self.sas {
            1 if is_gcm => Some([75.0, 130.0, 255.0]),
            MANY if is_gcm => Some([120.0, 190.0, 330.0]),
            _ => None,
        }
    }
}

impl Esp {
    /// Measures all cases on a CPU, by default the last one that may be used. `quick` takes a small part of the effort.
    ///
    /// # Errors
    /// If there is no room, or packets do not go where they should.
    pub fn measure(cpu: Option<usize>, quick: bool) -> Result<Esp, Error> {
        cpu::pin(cpu)?;
        let (turns, windows, many) = if quick { (2, 2, 100) } else { (7, 5, MANY) };
        let mut cases = Vec::new();
        // The first four show that it works.
        let plans = Plan::all(many).into_iter().take(if quick { 4 } else { usize::MAX });
        for plan in plans {
            cases.extend(measure(plan, FLOWS * many, turns, windows)?);
        }
        let mut unknown = Vec::new();
        for v4 in [true, false] {
            for sas in [1, many] {
                unknown.push(measure_unknown(Plan { sas, ..Plan::one(v4) }, turns, windows)?);
            }
        }
        let (tick_frequency, cpu) = (tsc::frequency(), cpu::cpu_name());
        Ok(Esp { tick_frequency, cpu, turns, flows: FLOWS * many, cases, unknown })
    }
}

fn measure(plan: Plan, flows: u32, turns: usize, windows: usize) -> Result<Vec<Case>, Error> {
    let mut cases = Vec::new();
    for (index, octets) in SIZES.into_iter().enumerate() {
        let networks = Networks::of(plan.v4);
        let gateway = networks.gateway(plan, flows, octets)?;
        let engine = gateway.sas.first().and_then(|sa| Some(sa.outbound.as_ref()?.key().engine_name())).unwrap_or("");
        let mut run = Run::new(&gateway)?;
        let out = if plan.v4 { Node::Ip4SpdOut } else { Node::Ip6SpdOut };
        run.add(&gateway, &[out, Node::EspEncrypt, Node::EspDecrypt], Outcome::Forwarded)?;
        let samples = run.turns(turns, windows, flows as usize)?;
        let [own]: &[Samples; 1] = samples.as_slice().try_into().expect("a version has samples");
        let text = text(plan.algorithm, octets as usize);
        let (seal, open) = crypto::alone(plan.algorithm, plan.sas as usize, text, 4 * turns)?;
        let encrypt = own.node(Node::EspEncrypt);
        cases.push(Case {
            algorithm: plan.algorithm.to_string(),
            engine: engine.to_owned(),
            family: if plan.v4 { "ipv4" } else { "ipv6" }.to_owned(),
            sas: plan.sas,
            window: plan.window,
            octets,
            target: plan.targets().map(|most| Target::at_most(most[index], encrypt.median)),
            encrypt,
            decrypt: own.node(Node::EspDecrypt),
            seal,
            open,
            graph: own.graph(),
        });
    }
    Ok(cases)
}

/// The frames with random SPIs that a port repeats.
const STRANGERS: usize = 4096;

/// The target for a packet with an unknown SPI, in ticks.
const STRANGER: f64 = 15.0;

fn measure_unknown(plan: Plan, turns: usize, windows: usize) -> Result<Unknown, Error> {
    let networks = Networks::of(plan.v4);
    let frames = captures::unknown(networks.own(), STRANGERS, 64);
    let repeated = captures::Repeated::new(&frames)?;
    let gateway = networks.inbound(plan, repeated.port.clone())?;
    let mut run = Run::new(&gateway)?;
    // The SPD lets ESP for the gateway pass.
    let spd = if plan.v4 { Node::Ip4SpdIn } else { Node::Ip6SpdIn };
    run.add(&gateway, &[spd, Node::EspDecrypt], Outcome::Dropped)?;
    let samples = run.turns(turns, windows, STRANGERS)?;
    let [own]: &[Samples; 1] = samples.as_slice().try_into().expect("a version has samples");
    let decrypt = own.node(Node::EspDecrypt);
    Ok(Unknown {
        family: if plan.v4 { "ipv4" } else { "ipv6" }.to_owned(),
        sas: plan.sas,
        target: Target::at_most(STRANGER, decrypt.median),
        decrypt,
        graph: own.graph(),
    })
}

/// Octets of text of a packet of so many octets: with its trailer, padded as RFC 4303 and the cipher demand.
fn text(algorithm: Algorithm, octets: usize) -> usize {
    (octets + 2).next_multiple_of(algorithm.block_octets().max(4))
}

/// The networks of a family.
pub(crate) struct Networks {
    from: IpNet,
    to: IpNet,
    link: IpNet,
    outer: [IpNet; 2],
    way_out: IpNet,
    neighbors: [IpAddr; 2],
}

impl Networks {
    pub(crate) fn of(v4: bool) -> Networks {
        let net = |text: &str| text.parse::<IpNet>().expect("a constant prefix");
        let address = |text: &str| text.parse::<IpAddr>().expect("a constant address");
        match v4 {
            true => Networks {
                from: net("10.16.0.0/12"),
                to: net("20.16.0.0/12"),
                link: net("192.0.2.1/24"),
                outer: [net("198.51.100.1/24"), net("198.51.100.2/24")],
                way_out: net("203.0.113.1/24"),
                neighbors: [address("198.51.100.9"), address("203.0.113.9")],
            },
            false => Networks {
                from: net("2001:db8:10::/48"),
                to: net("2001:db8:20::/48"),
                link: net("2001:db8:1::1/64"),
                outer: [net("2001:db8:2::1/64"), net("2001:db8:2::2/64")],
                way_out: net("2001:db8:3::1/64"),
                neighbors: [address("2001:db8:2::9"), address("2001:db8:3::9")],
            },
        }
    }

    /// A gateway that encrypts to itself.
    pub(crate) fn gateway(&self, plan: Plan, flows: u32, octets: u32) -> Result<Gateway, Error> {
        let from = model::range(self.from, 0xffff);
        let last = if plan.sas == 1 { 0xffff } else { plan.sas as u16 - 1 };
        let hosts = model::range(self.to, last);
        let port = |port, name: &str, net| model::interface(name, port, net);
        let lan = port(model::udp(from, hosts, LINK + octets, flows, 1), "lan", self.link);
        let null = || PortSpec::Null;
        let mut wan = port(null(), "wan", self.outer[0]);
        wan.addresses.push(Address { net: self.outer[1], origin: Origin(0) });
        wan.spd = Some(SpdIndex(0));
        let inside = VrfIndex(1);
        let out = Interface { vrf: inside, ..port(null(), "out", self.way_out) };
        let way_in = Interface {
            kind: InterfaceKind::Ipsec,
            addresses: Vec::new(),
            vrf: inside,
            ..port(null(), "decrypted", self.way_out)
        };
        let via = |interface: u32, vrf: VrfIndex| -> Route {
            let hop = model::hop(interface, self.neighbors[usize::from(vrf.0)]);
            Route { vrf, ..model::route(self.to, RouteTarget::Via([hop].into())) }
        };
        let neighbor = |interface: u32, at: usize| -> Neighbor {
            model::neighbor(interface, self.neighbors[at], [2, 0, 0, 0, 1, at as u8])
        };
        let plain = model::empty();
        Ok(Gateway {
            vrfs: plain.vrfs.iter().cloned().chain([Vrf::named("inside")]).collect(),
            interfaces: vec![lan, wan, out, way_in],
            routes: vec![via(1, VrfIndex(0)), via(2, inside)],
            neighbors: vec![neighbor(1, 0), neighbor(2, 1)],
            spds: vec![Spd {
                name: "wan".to_owned(),
                rules: self.policies(plan.sas).into(),
                cache: SpdCache::default(),
                origin: Origin(0),
            }],
            sas: (0..plan.sas).map(|number| self.sa(plan, number)).collect::<Result<_, _>>()?,
            // Each SA both encrypts and decrypts: no policy protects the way back.
            ipsec: Ipsec { unchecked: true, ..Ipsec::default() },
            ..plain
        })
    }

    /// The gateway whose packets of ESP leave for a peer.
    pub(crate) fn outbound(&self, plan: Plan, flows: u32, octets: u32) -> Result<Gateway, Error> {
        let mut gateway = self.gateway(plan, flows, octets)?;
        for sa in &mut gateway.sas {
            sa.remote = self.neighbors[0];
        }
        Ok(gateway)
    }

    /// The gateway whose `wan` receives packets of ESP by a port. Inside packets match its policies, and leave by `out`.
    pub(crate) fn inbound(&self, plan: Plan, received: PortSpec) -> Result<Gateway, Error> {
        let mut gateway = self.gateway(plan, 1, 64)?;
        let [lan, wan, ..] = &mut gateway.interfaces[..] else { unreachable!("the gateway has four interfaces") };
        for (interface, port) in [(lan, PortSpec::Null), (wan, received)] {
            interface.kind = InterfaceKind::Port { port, middleware: Middleware::default(), queues: 1 };
        }
        gateway.interfaces[1].mac = Some(captures::STATION);
        let hop = model::hop(2, self.neighbors[1]);
        let way = Route { vrf: VrfIndex(1), ..model::route(self.from, RouteTarget::Via([hop].into())) };
        gateway.routes.push(way);
        gateway.ipsec.unchecked = false;
        for sa in &mut gateway.sas {
            sa.remote = self.neighbors[0];
            // Both SAs of a pair must not have one key.
            sa.outbound = None;
        }
        Ok(gateway)
    }

    /// The gateway's outer address.
    pub(crate) fn own(&self) -> IpAddr {
        self.outer[1].addr()
    }

    /// The network whose packets are encrypted.
    pub(crate) fn from(&self) -> IpNet {
        self.from
    }

    /// The source and the destination of packets inside of received ones.
    pub(crate) fn inner(&self) -> (IpAddr, IpAddr) {
        (self.to.addr(), self.from.addr())
    }

    /// A policy for each SA: for all packets if there is one SA, else for those to one host.
    fn policies(&self, sas: u32) -> Vec<SpdRule> {
        let policy = |number: u32| {
            let (_, host) = model::range(self.to, number as u16);
            let to = if sas == 1 { self.to } else { host.into() };
            let any = AclRule::all(AclAction::Permit, Origin(0));
            let matches = AclRule { from: Addresses::Net(self.from), to: Addresses::Net(to), ..any };
            SpdRule::new(SpdAction::Protect(SaIndex(number)), matches)
        };
        (0..sas).map(policy).collect()
    }

    /// A pair of SAs whose outbound one is the peer of its inbound one.
    fn sa(&self, plan: Plan, number: u32) -> Result<Sa, Error> {
        let octets = |count: usize| -> Vec<u8> {
            (0..count).map(|at| (number.wrapping_mul(0x9e37_79b9) >> (at % 4 * 8)) as u8 ^ at as u8).collect()
        };
        let (cipher, integrity) = (plan.algorithm.cipher_key_octets(), plan.algorithm.integrity_key_octets());
        let secret = Secret::new(&octets(cipher), &octets(integrity));
        let key = SaKey::new(Plan::SPI + number, plan.algorithm, &secret);
        let key = key.map_err(|error| Error::Running(format!("has no key: {error}")))?;
        Ok(Sa {
            name: format!("sa{number}"),
            mode: SaMode::Tunnel,
            vrf: VrfIndex(0),
            local: self.outer[1].addr(),
            remote: self.outer[1].addr(),
            algorithm: plan.algorithm,
            esn: plan.algorithm.has_integrity(),
            outbound: Some(key.clone()),
            inbound: Some(key),
            is_shared: false,
            window: plan.window,
            encapsulation: None,
            interface: Some(InterfaceIndex(3)),
            dscp: OuterDscp::Copy,
            ecn: true,
            df: OuterDf::Copy,
            flow_label: OuterLabel::Flow,
            hop_limit: 64,
            lifetimes: weir_plane::model::Lifetimes::default(),
            tfc: None,
            dummies: 0,
            mss_clamp: None,
            origin: Origin(0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_encrypted_and_decrypted_under_every_plan() {
        let cases: Vec<Case> = Plan::all(20).into_iter().flat_map(|plan| measure(plan, 80, 1, 1).unwrap()).collect();
        assert_eq!(cases.len(), 14 * SIZES.len());
        assert!(cases.iter().all(|case| case.encrypt.median > 0.0 && case.open.median > 0.0), "{cases:?}");
        let unknown: Vec<Unknown> =
            [true, false].map(|v4| measure_unknown(Plan { sas: 20, ..Plan::one(v4) }, 1, 1).unwrap()).into();
        assert!(unknown.iter().all(|case| case.decrypt.median > 0.0), "{unknown:?}");
        let report = Esp { tick_frequency: 1e9, cpu: "none".into(), turns: 1, flows: 80, cases, unknown };
        assert_eq!(serde_json::from_str::<Esp>(&report.json()).unwrap(), report);
        assert!(report.text().contains("chacha20poly1305"), "{}", report.text());
    }
}
