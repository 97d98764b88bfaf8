//! The tools of the plane's tests: a builder of models, a gateway whose ports keep the frames that they send, and a
//! reader of frames with another parser than weir's.

#![allow(dead_code, missing_docs, unreachable_pub, reason = "every test file uses its own part of the kit")]

pub mod access;
pub mod acl;
pub mod bridge;
pub mod classify;
pub mod esp;
pub mod link;
pub mod spd;
pub mod steer;
pub mod syn;
pub mod tunnel;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex};

use ipnet::IpNet;
use weir_base::clock::Time;
use weir_packet::buffer::Cache;
use weir_packet::checksum;
use weir_packet::text::{Macs, PacketText};
use weir_packet::vector::{Indices, Vector};
use weir_packet::wire::MacAddress;
use weir_packet::wire::ethernet::ethertype;
use weir_plane::harness::{Harness, Options, Outcome, Verdict};
use weir_plane::model::{
    Access, AclAction, AclRule, Address, Buffers, FlowTable, Follow, Gateway, IcmpLimits, Interface, InterfaceIndex,
    InterfaceKind, LineCard, Match, Mechanism, Merge, NatFiltering, NatIndex, NatList, NatMapping, NatRule, NatTarget,
    NatVerb, Neighbor, NextHop, Origin, PerFamily, Place, Route, RouteTarget, SavIndex, SavLayout, SavPolicy, SavRule,
    SavRules, Scope, Tag, Tunnel, Vrf, VrfIndex,
};
use weir_plane::reason::Reason;
use weir_plane::stats::Conservation;
use weir_port::Transmitter;
use weir_port::spec::{Middleware, PortSpec, SizeSpec, TapSpec, TemplateSpec, Transport};

/// The hardware address of the stations that send to the gateway.
pub const HOST: MacAddress = MacAddress([2, 0, 0, 0, 0xaa, 1]);

/// The hardware address of the kit's n-th port.
pub fn own_mac(index: usize) -> MacAddress {
    MacAddress([2, 0, 0, 0, (index >> 8) as u8, index as u8])
}

/// The hardware address of a neighbour of the kit.
pub fn mac(last: u8) -> MacAddress {
    MacAddress([2, 0, 0, 0, 0xbb, last])
}

pub fn ip(text: &str) -> IpAddr {
    text.parse().unwrap_or_else(|_| panic!("{text}: no address"))
}

/// Datagrams of 100 octets, of 256 flows, from and to ranges of addresses.
pub fn template(source: (&str, &str), destination: (&str, &str)) -> TemplateSpec {
    TemplateSpec {
        source: (ip(source.0), ip(source.1)),
        destination: (ip(destination.0), ip(destination.1)),
        protocol: Transport::Udp,
        source_port: (1000, 60_000),
        destination_port: (53, 53),
        size: SizeSpec::Fixed(100),
        flows: 256,
        ttl: 64,
        dont_fragment: false,
        vlan: Vec::new(),
        source_mac: None,
        destination_mac: None,
        seed: 3,
    }
}

/// Grows a model, line by line as a configuration would.
#[derive(Clone)]
pub struct Build(pub Gateway);

impl Build {
    pub fn new() -> Build {
        Build(Gateway {
            // Tests of the fast path have the first packet of a flow learned.
            flow_table: FlowTable { packets: 1, ..FlowTable::default() },
            ..Gateway::empty()
        })
    }

    fn origin(&mut self, text: String) -> Origin {
        let line = 1 + self.0.interfaces.len() + self.0.routes.len() + self.0.neighbors.len() + self.0.sav.len();
        self.0.origins.add(Place { file: "kit".into(), line: line as u32, text: text.into() })
    }

    pub fn interface(&self, name: &str) -> InterfaceIndex {
        let index = self.0.interfaces.iter().position(|interface| interface.name == name);
        InterfaceIndex(index.unwrap_or_else(|| panic!("no interface {name}")) as u32)
    }

    pub fn add_interface(
        mut self,
        name: &str,
        kind: InterfaceKind,
        mac: Option<MacAddress>,
        addresses: &[&str],
    ) -> Build {
        let origin = self.origin(format!("interface {name}"));
        let addresses = addresses.iter().map(|net| Address { net: net.parse().unwrap(), origin }).collect();
        let vrf = VrfIndex(0);
        let name = name.to_owned();
        let (punt, router_advertisement) = (None, None);
        self.0.interfaces.push(Interface {
            name,
            kind,
            mac,
            mtu: 1500,
            addresses,
            vrf,
            zone: None,
            fast_path: true,
            merge: Merge::default(),
            punt,
            follow: Follow::default(),
            router_advertisement,
            sav: PerFamily::default(),
            access: Access::default(),
            nat: None,
            spd: None,
            steer: None,
            origin,
        });
        self
    }

    /// A null port of its own.
    pub fn port(self, name: &str, addresses: &[&str]) -> Build {
        self.port_of(name, PortSpec::Null, addresses)
    }

    pub fn port_of(self, name: &str, port: PortSpec, addresses: &[&str]) -> Build {
        let mac = own_mac(self.0.interfaces.len());
        let kind = InterfaceKind::Port { port, middleware: Middleware::default(), queues: 1 };
        self.add_interface(name, kind, Some(mac), addresses)
    }

    /// A tunnel to another host.
    pub fn tunnel(self, name: &str, tunnel: Tunnel, addresses: &[&str]) -> Build {
        let mac = own_mac(self.0.interfaces.len());
        self.add_interface(name, InterfaceKind::Tunnel(tunnel), Some(mac), addresses).mtu(1500 - tunnel.overhead())
    }

    /// `tags`: VLAN id, or outer and inner id: then the outer tag is an 802.1ad one.
    pub fn vlan(self, name: &str, parent: &str, tags: &[u16], addresses: &[&str]) -> Build {
        let parent = self.interface(parent);
        let outer = Tag { tpid: if tags.len() > 1 { ethertype::QINQ } else { ethertype::VLAN }, vid: tags[0] };
        self.add_interface(name, InterfaceKind::Vlan { parent, outer, inner: tags.get(1).copied() }, None, addresses)
    }

    /// Gives the host what is for it on the interface that was added last.
    pub fn punt(self) -> Build {
        let name = format!("host{}", self.0.interfaces.len());
        let spec = TapSpec { name, persistent: false, offload: false, mtu: None, addresses: Vec::new(), mac: None };
        self.with(|interface| interface.punt = Some(spec))
    }

    /// Changes the interface that was added last.
    pub fn with(mut self, change: impl FnOnce(&mut Interface)) -> Build {
        change(self.0.interfaces.last_mut().unwrap());
        self
    }

    pub fn mtu(self, mtu: u32) -> Build {
        self.with(|interface| interface.mtu = mtu)
    }

    /// Puts the interface that was added last into a VRF.
    pub fn in_vrf(mut self, name: &str) -> Build {
        let index = self.vrf(name);
        self.with(|interface| interface.vrf = index)
    }

    pub fn vrf(&mut self, name: &str) -> VrfIndex {
        let known = self.0.vrfs.iter().position(|vrf| vrf.name == name);
        let index = known.unwrap_or_else(|| {
            self.0.vrfs.push(Vrf::named(name));
            self.0.vrfs.len() - 1
        });
        VrfIndex(index as u16)
    }

    /// Translates the sources of packets that leave by an interface into its address and these ports.
    pub fn masquerade(self, interface: &str, ports: std::ops::RangeInclusive<u16>) -> Build {
        self.nat(interface, NatVerb::Source, Some(NatTarget { addresses: None, ports: Some(ports) }))
    }

    /// Limits the translations of each inside address by the last rule that was added.
    pub fn limit_per_address(mut self, most: u32) -> Build {
        let list = self.0.nat.last_mut().expect("a list of rules");
        let limited = list.rules.iter().cloned().map(|rule| NatRule { limit_per_address: Some(most), ..rule });
        list.rules = limited.collect();
        self
    }

    /// Limits the translations of a VRF.
    pub fn nat_limit(mut self, vrf: &str, most: u32) -> Build {
        let index = self.vrf(vrf);
        self.0.vrfs[usize::from(index.0)].nat_limit = Some(most);
        self
    }

    /// Has inside endpoints keep their outside endpoints by the last list that was added.
    pub fn endpoint_independent(mut self, filtering: NatFiltering) -> Build {
        self.0.nat.last_mut().expect("a list of rules").mapping = NatMapping::EndpointIndependent(filtering);
        self
    }

    /// A rule about all packets, named by an interface.
    pub fn nat(mut self, interface: &str, verb: NatVerb, source: Option<NatTarget>) -> Build {
        let rule = NatRule {
            verb,
            matches: AclRule::all(AclAction::Permit, Origin::default()),
            to_interface: false,
            source,
            destination: None,
            preserve: false,
            parity: false,
            log: false,
            limit_per_address: None,
            comment: None,
        };
        let index = NatIndex(self.0.nat.len() as u16);
        self.0.nat.push(NatList {
            name: interface.into(),
            rules: vec![rule].into(),
            ids: None,
            limit: None,
            limit_origin: Origin::default(),
            mss_clamp: None,
            mapping: NatMapping::default(),
            log: false,
            ipfix: None,
            origin: Origin::default(),
        });
        let at = self.interface(interface).0 as usize;
        self.0.interfaces[at].nat = Some(index);
        self
    }

    /// Limits the translations of the list that was added last.
    pub fn list_limit(mut self, most: u32) -> Build {
        self.0.nat.last_mut().unwrap().limit = Some(most);
        self
    }

    pub fn route(self, prefix: &str, target: RouteTarget) -> Build {
        self.route_in("default", prefix, target)
    }

    pub fn route_in(mut self, vrf: &str, prefix: &str, target: RouteTarget) -> Build {
        let (vrf, origin) = (self.vrf(vrf), self.origin(format!("route {prefix}")));
        let prefix: IpNet = prefix.parse().unwrap();
        assert_eq!(prefix, prefix.trunc());
        self.0.routes.push(Route { vrf, prefix, metric: 0, target, origin });
        self
    }

    /// Paths: `interface`, or `interface address`, or either with ` weight N`.
    pub fn via(self, prefix: &str, paths: &[&str]) -> Build {
        self.via_in("default", prefix, paths)
    }

    pub fn via_in(self, vrf: &str, prefix: &str, paths: &[&str]) -> Build {
        let path = |text: &&str| {
            let (path, weight) = text.split_once(" weight ").unwrap_or((text, "1"));
            let (interface, address) =
                path.split_once(' ').map_or((path, None), |(name, address)| (name, Some(ip(address))));
            NextHop { interface: self.interface(interface), address, weight: weight.parse().unwrap() }
        };
        let paths: Arc<[NextHop]> = paths.iter().map(path).collect();
        self.route_in(vrf, prefix, RouteTarget::Via(paths))
    }

    /// Sets the metric of the route that was added last.
    pub fn metric(mut self, metric: u32) -> Build {
        self.0.routes.last_mut().unwrap().metric = metric;
        self
    }

    /// Rules, each `permit from PREFIX on IF, IF` or `deny …`, perhaps with `interface` before it; not incremental.
    pub fn rules(&mut self, rules: &[&str]) -> SavRules {
        let rule = |text: &&str| {
            let origin = self.0.origins.add(Place { file: "kit".into(), line: 1, text: (*text).into() });
            let (scope, words) = match text.strip_prefix("interface ") {
                Some(words) => (Scope::Interface, words),
                None => (Scope::Prefix, *text),
            };
            let (permit, rest) = match words.split_once(" from ").unwrap_or_else(|| panic!("{text}")) {
                ("permit", rest) => (true, rest),
                ("deny", rest) => (false, rest),
                _ => panic!("{text}"),
            };
            let (prefix, names) = rest.split_once(" on ").unwrap_or_else(|| panic!("{text}"));
            let prefix: IpNet = prefix.parse().unwrap();
            assert_eq!(prefix, prefix.trunc());
            let interfaces = names.split(", ").map(|name| self.interface(name)).collect();
            SavRule { prefix, interfaces, permit, scope, origin }
        };
        let list = rules.iter().map(rule).collect::<Vec<_>>().into();
        SavRules { list, incremental: false, hits: false }
    }

    /// A policy with a table of these rules, of which the most specific decides.
    pub fn table(mut self, name: &str, rules: &[&str]) -> Build {
        let rules = self.rules(rules);
        let (matching, layout) = (Match::MostSpecific, SavLayout::Merged);
        self.policy(name, Mechanism::Table { rules, matching, layout })
    }

    /// A policy of source address validation that discards.
    pub fn policy(mut self, name: &str, mechanism: Mechanism) -> Build {
        let origin = self.origin(format!("[sav.{name}]"));
        self.0.sav.push(SavPolicy::new(name.to_owned(), mechanism, origin));
        self
    }

    /// Interfaces validate by a policy, both families.
    pub fn validate(mut self, interfaces: &[&str], policy: &str) -> Build {
        let index = self.0.sav.iter().position(|known| known.name == policy).unwrap();
        let index = Some(SavIndex(index as u16));
        for name in interfaces {
            let interface = self.interface(name).0 as usize;
            self.0.interfaces[interface].sav = PerFamily { v4: index, v6: index };
        }
        self
    }

    pub fn line_card(mut self, name: &str, interfaces: &[&str]) -> Build {
        let interfaces = interfaces.iter().map(|name| self.interface(name)).collect();
        let origin = self.origin(format!("[line-card.{name}]"));
        self.0.line_cards.push(LineCard { name: name.to_owned(), interfaces, origin });
        self
    }

    pub fn neighbor(mut self, interface: &str, address: &str, mac: MacAddress) -> Build {
        let (interface, origin) = (self.interface(interface), self.origin(format!("neighbor {address}")));
        self.0.neighbors.push(Neighbor { interface, address: ip(address), mac, origin });
        self
    }

    pub fn icmp(mut self, icmp: IcmpLimits) -> Build {
        self.0.icmp = icmp;
        self
    }

    pub fn buffers(mut self, small: u32, large: u32) -> Build {
        self.0.buffers = Buffers { small, large, large_is_default: false };
        self
    }

    /// The gateway, strict about neighbours.
    pub fn rig(self) -> Rig {
        self.rig_of_seed(7)
    }

    /// The gateway, whose random numbers are of a seed.
    pub fn rig_of_seed(self, seed: u64) -> Rig {
        Rig::new(self.0, Options { seed, invent_neighbors: false })
    }

    /// The gateway, making up the hardware addresses of neighbours.
    pub fn inventive(self) -> Rig {
        Rig::new(self.0, Options { seed: 7, invent_neighbors: true })
    }
}

/// Two ports, both families: `lan` (10.0.0.1/24, 2001:db8:a::1/64, fe80::1) and `wan` (192.0.2.1/24, 2001:db8:b::1/64),
/// a neighbour on each (…::2, .2; macs 1 on lan, 2 on wan) and default routes by the one on `wan`.
pub fn two_ports() -> Build {
    Build::new()
        .port("lan", &["10.0.0.1/24", "2001:db8:a::1/64", "fe80::1/64"])
        .port("wan", &["192.0.2.1/24", "2001:db8:b::1/64", "fe80::2/64"])
        .neighbor("lan", "10.0.0.2", mac(1))
        .neighbor("lan", "2001:db8:a::2", mac(1))
        .neighbor("wan", "192.0.2.2", mac(2))
        .neighbor("wan", "2001:db8:b::2", mac(2))
        .via("0.0.0.0/0", &["wan 192.0.2.2"])
        .via("::/0", &["wan 2001:db8:b::2"])
}

/// Frames that were sent, with the numbers of their ports.
pub type Sent = Arc<Mutex<Vec<(u32, Vec<u8>)>>>;

/// Keeps what is sent.
pub struct Capturing {
    port: u32,
    sent: Sent,
    room: Arc<Mutex<usize>>,
}

impl Capturing {
    /// It takes all frames.
    pub fn new(port: u32, sent: &Sent) -> Capturing {
        Capturing { port, sent: Arc::clone(sent), room: Arc::new(Mutex::new(usize::MAX)) }
    }
}

impl Transmitter for Capturing {
    fn transmit(&mut self, vector: &mut Vector, frame: &Indices, _: &mut Indices, _: &mut Cache, _: Time) -> usize {
        let mut room = self.room.lock().unwrap();
        let count = frame.len().min(*room);
        *room -= count;
        let mut sent = self.sent.lock().unwrap();
        sent.extend(frame.places()[..count].iter().map(|&place| (self.port, vector[place].data().to_vec())));
        count
    }
}

/// A gateway with ports that keep what is sent to them. After every step, what went in must have come to some end.
pub struct Rig {
    pub harness: Harness,
    sent: Sent,
    /// How many frames ports still take.
    pub room: Arc<Mutex<usize>>,
    now: u64,
}

/// The outcome of a packet.
pub struct Passage {
    pub outcome: Outcome,
    /// The names of ports, and the frames that left by them.
    pub out: Vec<(String, Vec<u8>)>,
}

impl Rig {
    pub fn new(model: Gateway, options: Options) -> Rig {
        Rig::with_workers(model, options, 1)
    }

    /// A gateway with so many workers.
    pub fn with_workers(model: Gateway, options: Options, workers: usize) -> Rig {
        let harness = Harness::with_workers(model, options, workers).unwrap();
        let mut rig = Rig { harness, sent: Sent::default(), room: Arc::new(Mutex::new(usize::MAX)), now: 0 };
        rig.advance(1);
        rig.connect();
        rig
    }

    fn connect(&mut self) {
        for index in 0..self.harness.model().interfaces.len() as u32 {
            let own = Some(index).filter(|&index| self.harness.port_of(index) == index);
            let punt = self.harness.model().interfaces[index as usize].punt.is_some();
            for port in own.into_iter().chain(punt.then(|| self.harness.punt_port(index))) {
                let of_worker = || {
                    let (sent, room) = (Arc::clone(&self.sent), Arc::clone(&self.room));
                    Box::new(Capturing { port, sent, room }) as Box<dyn Transmitter>
                };
                self.harness.connect_each(port, of_worker);
            }
        }
    }

    pub fn reload(&mut self, build: Build) {
        self.harness.reload(build.0).unwrap();
        self.connect();
    }

    pub fn index(&self, name: &str) -> u32 {
        let mut interfaces = self.harness.model().interfaces.iter();
        interfaces.position(|interface| interface.name == name).unwrap_or_else(|| panic!("no interface {name}")) as u32
    }

    /// The name of an interface by its port, or `punt NAME` of the punt device of one.
    fn name(&self, port: u32) -> String {
        let interfaces = &self.harness.model().interfaces;
        match (0..).zip(interfaces).find(|&(index, _)| self.harness.punt_port(index) == port) {
            Some((_, interface)) => format!("punt {}", interface.name),
            None => interfaces[port as usize].name.clone(),
        }
    }

    /// A frame of this text, for the hardware address of an interface.
    pub fn frame(&self, interface: &str, text: &str) -> Vec<u8> {
        let to = MacAddress(self.harness.interface_mac(self.index(interface)).unwrap());
        frame(text, to)
    }

    /// Sends what a text describes through the port of an interface, with the tags that are in the text.
    pub fn send(&mut self, interface: &str, text: &str) -> Passage {
        let frame = self.frame(interface, text);
        self.put(interface, &frame)
    }

    /// Sends a frame.
    pub fn put(&mut self, interface: &str, frame: &[u8]) -> Passage {
        let mut all = self.put_all(interface, std::slice::from_ref(&frame));
        assert_eq!(all.0.len(), 1);
        Passage { outcome: all.0.remove(0), out: all.1 }
    }

    /// Sends up to 256 frames in one vector.
    pub fn put_all<F: AsRef<[u8]>>(&mut self, interface: &str, frames: &[F]) -> (Vec<Outcome>, Vec<(String, Vec<u8>)>) {
        let (port, now) = (self.harness.port_of(self.index(interface)), Time(self.now));
        self.put_by(frames, |harness, number, frame| harness.inject(port, frame, now, number))
    }

    /// Sends packets without link-layer headers in one vector, as if they had been taken out of so many tunnels, the
    /// innermost of which is an interface.
    pub fn put_decapsulated<P: AsRef<[u8]>>(
        &mut self,
        interface: &str,
        nesting: u8,
        packets: &[P],
    ) -> (Vec<Outcome>, Vec<(String, Vec<u8>)>) {
        let interface = self.index(interface);
        self.put_by(packets, |harness, number, packet| harness.inject_decapsulated(interface, nesting, packet, number))
    }

    /// Sends up to 256 frames in one vector, as the host does by an interface's punt device.
    pub fn host_sends<F: AsRef<[u8]>>(&mut self, interface: &str, frames: &[F]) -> Vec<(String, Vec<u8>)> {
        let (port, now) = (self.harness.punt_port(self.index(interface)), Time(self.now));
        self.put_by(frames, |harness, number, frame| harness.inject(port, frame, now, number)).1
    }

    /// Runs the graph for due timers: returns the outcomes of held packets, and the frames that left.
    pub fn idle(&mut self) -> (Vec<Outcome>, Vec<(String, Vec<u8>)>) {
        self.put_by(&[[0u8; 0]; 0], |_, _, _| true)
    }

    pub fn put_by<F: AsRef<[u8]>>(
        &mut self,
        frames: &[F],
        inject: impl Fn(&mut Harness, u32, &[u8]) -> bool,
    ) -> (Vec<Outcome>, Vec<(String, Vec<u8>)>) {
        let before = self.harness.conservation();
        for (number, frame) in frames.iter().enumerate() {
            assert!(inject(&mut self.harness, number as u32, frame.as_ref()), "no buffer");
        }
        let outcomes = self.harness.run();
        let after = self.harness.conservation();
        assert_eq!(after.imbalance(), 0, "{after:?}");
        assert_eq!(after.received - before.received, frames.len() as u64);
        let sent: Vec<_> = std::mem::take(&mut *self.sent.lock().unwrap());
        let sent: Vec<_> = sent.into_iter().map(|(port, frame)| (self.name(port), frame)).collect();
        // What the host gets counts as delivered.
        let forwarded = sent.iter().filter(|(port, _)| !port.starts_with("punt ")).count();
        assert_eq!(after.transmitted - before.transmitted, forwarded as u64);
        (outcomes, sent)
    }

    /// Moves the clock on.
    pub fn advance(&mut self, nanoseconds: u64) {
        self.now += nanoseconds;
        self.harness.set_time(Time(self.now));
    }

    pub fn conservation(&self) -> Conservation {
        self.harness.conservation()
    }

    /// Sends a packet, and checks that it is dropped for this reason without an error.
    #[track_caller]
    pub fn drops(&mut self, interface: &str, text: &str, reason: Reason) {
        let frame = self.frame(interface, text);
        self.drops_frame(interface, &frame, reason);
    }

    #[track_caller]
    pub fn drops_frame(&mut self, interface: &str, frame: &[u8], reason: Reason) {
        let before = self.harness.drops(reason);
        let result = self.put(interface, frame);
        assert_eq!(result.outcome.verdict, Verdict::Drop(reason));
        assert_eq!(self.harness.drops(reason), before + 1);
        assert!(result.out.is_empty(), "{:?}", result.out);
    }

    /// Sends, and wants a drop for this reason with one ICMP error about it; returns the error.
    #[track_caller]
    pub fn told(&mut self, interface: &str, text: &str, reason: Reason) -> Seen {
        let frame = self.frame(interface, text);
        self.told_frame(interface, &frame, reason)
    }

    #[track_caller]
    pub fn told_frame(&mut self, interface: &str, frame: &[u8], reason: Reason) -> Seen {
        let before = self.harness.drops(reason);
        let result = self.put(interface, frame);
        assert_eq!(result.outcome.verdict, Verdict::Drop(reason));
        assert_eq!(self.harness.drops(reason), before + 1);
        let seen = result.only();
        seen.assert_error_about(frame);
        seen
    }

    /// Sends, and wants one frame out, forwarded; returns it.
    #[track_caller]
    pub fn forwards(&mut self, interface: &str, text: &str) -> Seen {
        let frame = self.frame(interface, text);
        self.forwards_frame(interface, &frame)
    }

    #[track_caller]
    pub fn forwards_frame(&mut self, interface: &str, frame: &[u8]) -> Seen {
        let result = self.put(interface, frame);
        assert_eq!(result.outcome.verdict, Verdict::Forward);
        let seen = result.only();
        seen.assert_forwarded(frame);
        seen
    }

    /// Sends an echo request, and wants the reply.
    #[track_caller]
    pub fn answers(&mut self, interface: &str, text: &str) -> Seen {
        let result = self.send(interface, text);
        assert_eq!(result.outcome.verdict, Verdict::Local);
        result.only()
    }
}

impl Passage {
    /// The only frame that came out.
    #[track_caller]
    pub fn only(&self) -> Seen {
        assert_eq!(self.out.len(), 1, "frames out; verdict {:?}", self.outcome.verdict);
        Seen::new(&self.out[0].0, &self.out[0].1)
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.out.iter().map(|(port, frame)| Seen::new(port, frame)).collect()
    }
}

pub fn frame(text: &str, to: MacAddress) -> Vec<u8> {
    let text: PacketText = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
    text.frame(Macs { from: HOST, to })
}

/// Where the IP header starts.
pub fn l3(frame: &[u8]) -> usize {
    let mut at = 12;
    while matches!(frame[at..at + 2], [0x81, 0x00] | [0x88, 0xa8]) {
        at += 4;
    }
    at + 2
}

/// Makes an IPv4 header checksum right again.
pub fn mend(frame: &mut [u8]) {
    let at = l3(frame);
    let length = usize::from(frame[at] & 15) * 4;
    frame[at + 10..at + 12].fill(0);
    let sum = checksum::of(&frame[at..at + length]);
    frame[at + 10..at + 12].copy_from_slice(&sum.to_be_bytes());
}

/// Fragments of an IPv4 frame without options, cut behind so many octets of its payload.
pub fn cut(frame: &[u8], at: usize) -> [Vec<u8>; 2] {
    let (head, end) = (14 + 20, 14 + 20 + at);
    let mut pieces = [frame[..end].to_vec(), [&frame[..head], &frame[end..]].concat()];
    for (piece, word) in pieces.iter_mut().zip([0x2000, (at / 8) as u16]) {
        let length = (piece.len() - 14) as u16;
        piece[14 + 2..14 + 4].copy_from_slice(&length.to_be_bytes());
        piece[14 + 6..14 + 8].copy_from_slice(&word.to_be_bytes());
        mend(piece);
    }
    pieces
}

/// Puts options (padded) into a frame with an IPv4 header of 20 octets.
pub fn with_options(frame: &[u8], options: &[u8]) -> Vec<u8> {
    let at = l3(frame);
    let mut options = options.to_vec();
    options.resize(options.len().next_multiple_of(4), 0);
    let mut new = frame.to_vec();
    new.splice(at + 20..at + 20, options.iter().copied());
    new[at] = 0x45 + (options.len() / 4) as u8;
    let total = u16::from_be_bytes([frame[at + 2], frame[at + 3]]) + options.len() as u16;
    new[at + 2..at + 4].copy_from_slice(&total.to_be_bytes());
    mend(&mut new);
    new
}

/// Inserts extension headers behind an IPv6 header: their octets, the number of the first, and the next header of the
/// last.
pub fn with_extensions(frame: &[u8], first: u8, headers: &[u8]) -> Vec<u8> {
    let at = l3(frame);
    let mut new = frame.to_vec();
    new.splice(at + 40..at + 40, headers.iter().copied());
    new[at + 6] = first;
    let length = u16::from_be_bytes([frame[at + 4], frame[at + 5]]) + headers.len() as u16;
    new[at + 4..at + 6].copy_from_slice(&length.to_be_bytes());
    new
}

/// A frame that came out, as `etherparse` reads it. Checksums have been checked.
#[derive(Debug, Clone)]
pub struct Seen {
    pub port: String,
    pub to: MacAddress,
    pub from: MacAddress,
    /// VLAN tags from the outermost, as (TPID, VLAN id).
    pub tags: Vec<(u16, u16)>,
    pub source: IpAddr,
    pub destination: IpAddr,
    pub ttl: u8,
    pub protocol: u8,
    /// Type, code, and what stands behind the checksum.
    pub icmp: Option<(u8, u8, u32)>,
    /// The IP packet.
    pub packet: Vec<u8>,
}

impl Seen {
    #[track_caller]
    pub fn new(port: &str, frame: &[u8]) -> Seen {
        use etherparse::{NetSlice, SlicedPacket, TransportSlice};
        let sliced = SlicedPacket::from_ethernet(frame).unwrap_or_else(|error| panic!("{error}: {frame:02x?}"));
        let at = l3(frame);
        let mut tags = Vec::new();
        for tag in (12..at - 2).step_by(4) {
            let word = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
            tags.push((word(tag), word(tag + 2)));
        }
        assert_eq!(sliced.link_exts.len(), tags.len());
        let (source, destination, ttl, protocol): (IpAddr, IpAddr, u8, u8) = match sliced.net.as_ref().unwrap() {
            NetSlice::Ipv4(slice) => {
                assert_eq!(frame[at - 2..at], [8, 0]);
                let header = slice.header();
                assert_eq!(header.to_header().calc_header_checksum(), header.header_checksum(), "header checksum");
                assert_eq!(usize::from(header.total_len()), frame.len() - at, "total length");
                (header.source_addr().into(), header.destination_addr().into(), header.ttl(), header.protocol().0)
            }
            NetSlice::Ipv6(slice) => {
                assert_eq!(frame[at - 2..at], [0x86, 0xdd]);
                let header = slice.header();
                assert_eq!(usize::from(header.payload_length()) + 40, frame.len() - at, "payload length");
                let protocol = slice.payload().ip_number.0;
                (header.source_addr().into(), header.destination_addr().into(), header.hop_limit(), protocol)
            }
            NetSlice::Arp(_) => panic!("ARP came out"),
        };
        let icmp = match &sliced.transport {
            Some(TransportSlice::Icmpv4(icmp)) => {
                assert!(checksum::is_valid(icmp.slice()), "ICMP checksum");
                Some((icmp.type_u8(), icmp.code_u8(), u32::from_be_bytes(icmp.bytes5to8())))
            }
            Some(TransportSlice::Icmpv6(icmp)) => {
                let (IpAddr::V6(from), IpAddr::V6(to)) = (source, destination) else { unreachable!() };
                assert!(icmp.is_checksum_valid(from.octets(), to.octets()), "ICMPv6 checksum");
                Some((icmp.type_u8(), icmp.code_u8(), u32::from_be_bytes(icmp.bytes5to8())))
            }
            _ => None,
        };
        let mac = |at: usize| MacAddress(*frame[at..].first_chunk().unwrap());
        let (to, from) = (mac(0), mac(6));
        let packet = frame[at..].to_vec();
        Seen { port: port.into(), to, from, tags, source, destination, ttl, protocol, icmp, packet }
    }

    /// Where it left, to which station, from which, with which VLAN ids.
    #[track_caller]
    pub fn assert_link(&self, port: &str, from: MacAddress, to: MacAddress, tags: &[(u16, u16)]) {
        assert_eq!((self.port.as_str(), self.from, self.to, self.tags.as_slice()), (port, from, to, tags));
    }

    /// It is `input` with one hop less to live, and nothing else changed; what followed the packet is cut off.
    #[track_caller]
    pub fn assert_forwarded(&self, input: &[u8]) {
        let at = l3(input);
        let mut expected = input[at..].to_vec();
        match expected[0] >> 4 {
            4 => {
                expected.truncate(usize::from(u16::from_be_bytes([expected[2], expected[3]])));
                expected[8] -= 1;
                let length = usize::from(expected[0] & 15) * 4;
                expected[10..12].fill(0);
                let sum = checksum::of(&expected[..length]);
                expected[10..12].copy_from_slice(&sum.to_be_bytes());
            }
            _ => {
                expected.truncate(40 + usize::from(u16::from_be_bytes([expected[4], expected[5]])));
                expected[7] -= 1;
            }
        }
        assert_eq!(self.packet, expected);
    }

    /// It is an ICMP error that quotes as much of the packet of `input`, as it was, as may be.
    #[track_caller]
    pub fn assert_error_about(&self, input: &[u8]) {
        let offending = &input[l3(input)..];
        let (headers, most, own) = match self.source {
            IpAddr::V4(_) => (28, 576, usize::from(u16::from_be_bytes([offending[2], offending[3]]))),
            IpAddr::V6(_) => (48, 1280, 40 + usize::from(u16::from_be_bytes([offending[4], offending[5]]))),
        };
        let quoted = &offending[..own.min(offending.len()).min(most - headers)];
        assert_eq!(&self.packet[headers..], quoted, "quoted octets");
        let (kind, _, _) = self.icmp.expect("an ICMP message");
        match self.source {
            IpAddr::V4(_) => assert!([3, 11, 12].contains(&kind)),
            IpAddr::V6(_) => assert!(kind < 128),
        }
        let source = match self.source {
            IpAddr::V4(_) => Ipv4Addr::from(*offending[12..].first_chunk::<4>().unwrap()).into(),
            IpAddr::V6(_) => IpAddr::from(Ipv6Addr::from(*offending[8..].first_chunk::<16>().unwrap())),
        };
        assert_eq!(self.destination, source, "goes back to the source");
        assert_eq!(self.ttl, 64);
    }

    /// Checks the source, type, code and the rest of the header.
    #[track_caller]
    pub fn assert_icmp(&self, from: &str, kind: u8, code: u8, rest: u32) {
        assert_eq!((self.source, self.icmp), (ip(from), Some((kind, code, rest))));
    }
}

/// How often each value occurs.
pub fn tally<T: Ord>(values: impl IntoIterator<Item = T>) -> BTreeMap<T, usize> {
    let mut counts = BTreeMap::new();
    values.into_iter().for_each(|value| *counts.entry(value).or_default() += 1);
    counts
}
