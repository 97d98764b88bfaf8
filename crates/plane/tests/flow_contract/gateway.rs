//! Random gateways: each part of a model comes from a seed of its own, so that a reload can change one part alone.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use weir_base::random::Random;
use weir_packet::wire::MacAddress;
use weir_plane::model::{
    AclAction, AclDefault, AclIndex, AclLimit, AclList, AclRule, Addresses, Alarm, AllowlistIndex, BindingsIndex,
    Ethertypes, FlowTable, Gateway, Group, Groups, IcmpLimits, InterfaceIndex, Interfaces, IpFamily, Learn, Limits,
    LinkCheck, Match, Mechanism, Merge, NextHop, Order, Origin, PerFamily, Ports, RateLimit, RatePer, RateUnit,
    Rejection, RouteTarget, Sampler, SamplerIndex, Sampling, SavAction, SavIndex, SavLayout, SavRules, Slaac,
    SpecialAction, SpecialSources, TcpFlags, Transport, Urpf, UrpfMode, VrfIndex,
};

use weir_port::spec::TapSpec;

use crate::kit::{Build, mac, own_mac};
use crate::nat::translators;
use crate::steer::steer;
use crate::tunnels::tunnels;
use crate::{bridges, classify, spd};

/// Networks behind the links' neighbours.
pub const REMOTE: usize = 8;

/// Returns one of several values.
pub fn pick<T: Copy>(random: &mut Random, values: &[T]) -> T {
    values[random.below(values.len() as u64) as usize]
}

/// Returns a number of a range.
pub fn between(random: &mut Random, least: u64, most: u64) -> u64 {
    least + random.below(most - least + 1)
}

/// The interfaces of a pair of gateways, which no reload changes: three to five.
#[derive(Debug, Clone)]
pub struct Links {
    pub count: usize,
    /// Addresses that flows have: most prefixes of rules cover some of them.
    pub addresses: Vec<IpAddr>,
    /// The fourth is a VLAN of the first, the fifth one with two tags of the second; else all are ports.
    pub tagged: bool,
    /// Samplers take each packet. A sampler that takes one in several takes other packets where their order differs.
    pub exact_samples: bool,
    /// Hosts from .4 on are no static neighbours.
    pub learned: bool,
    /// Models have routes, access lists and bindings alone, and no rule opens sessions: where one does, each change of rules
    /// concerns all flows. Most prefixes lie around few addresses, inside each other. So changes are noted by prefix.
    pub bare: bool,
    /// Models have routes, access lists, translation and many limits, in one zone for each VRF. Packets come in by any interface, so
    /// replies often pass other interfaces than what opened their session.
    pub crossed: bool,
    /// There is a bridge beside the links.
    pub bridged: bool,
    /// Rules open sessions. Where they do, translated packets take no decisions.
    pub opens: bool,
    /// Steer rules move packets to these many workers; 0: none does.
    pub queues: usize,
    /// Lists come and go, groups are as declared again, and NAT rules move by their Ids.
    pub edited: bool,
}

impl Links {
    pub fn random(random: &mut Random, learned: bool, (bare, crossed): (bool, bool)) -> Links {
        let count = between(random, 3, 5) as usize;
        let (tagged, exact_samples) = (random.chance(0.5), random.chance(0.5));
        let opens = !bare && (!crossed || random.chance(0.75));
        Links {
            count,
            addresses: Vec::new(),
            tagged,
            exact_samples,
            learned,
            bare,
            crossed,
            bridged: false,
            opens,
            queues: 0,
            edited: false,
        }
    }

    /// Returns the action of a rule that opens sessions, or what takes its place.
    pub fn reflect(&self) -> AclAction {
        if self.opens { AclAction::Reflect } else { AclAction::Permit }
    }

    pub fn name(&self, index: usize) -> &'static str {
        ["p0", "p1", "p2", "p3", "p4"][index]
    }

    /// Returns the port that carries an interface, and the tags of its packets as text.
    pub fn port(&self, index: usize) -> (usize, &'static str) {
        match index {
            3 if self.tagged => (0, " vlan 5"),
            4 if self.tagged => (1, " vlan 100 inner 7"),
            _ => (index, ""),
        }
    }

    pub fn mac(&self, index: usize) -> MacAddress {
        own_mac(self.port(index).0)
    }

    /// Returns the interface that leads to a remote network.
    pub fn home(&self, remote: usize) -> usize {
        remote % self.count
    }
}

/// Returns the address of a host on a link.
pub fn host(link: usize, v6: bool, number: u8) -> IpAddr {
    match v6 {
        false => Ipv4Addr::new(10, link as u8, 0, number).into(),
        true => Ipv6Addr::new(0x2001, 0xdb8, link as u16, 0, 0, 0, 0, number.into()).into(),
    }
}

/// Returns the address of a host in a remote network.
pub fn remote(network: usize, v6: bool, number: u8) -> IpAddr {
    match v6 {
        false => Ipv4Addr::new(198, 18, network as u8, number).into(),
        true => Ipv6Addr::new(0x2001, 0xdb8, 0xff00 + network as u16, 0, 0, 0, 0, number.into()).into(),
    }
}

/// Returns the hardware address of a host on a link.
pub fn station(link: usize, number: u8) -> MacAddress {
    mac(link as u8 * 16 + number)
}

/// Returns the prefix of an address.
pub fn net(address: IpAddr, length: u8) -> IpNet {
    IpNet::new(address, length).expect("a length of the family").trunc()
}

/// Returns a prefix of sources or destinations that traffic has.
pub fn prefix(random: &mut Random, links: &Links, v6: bool) -> IpNet {
    if links.bare && random.chance(0.7) {
        let around = links.addresses.iter().filter(|own| own.is_ipv6() == v6).nth(random.below(2) as usize);
        if let Some(&around) = around {
            let lengths: &[u8] = if v6 { &[128, 126, 64, 48, 47, 32, 16] } else { &[32, 30, 28, 24, 23, 15, 8] };
            return net(around, pick(random, lengths));
        }
    }
    let number = between(random, 1, 12) as u8;
    let known = links.addresses.get(random.below(links.addresses.len() as u64) as usize).copied();
    let address = match (known, random.chance(0.5)) {
        (Some(known), _) if known.is_ipv6() == v6 => known,
        (_, true) => host(random.below(links.count as u64) as usize, v6, number),
        (_, false) => remote(random.below(REMOTE as u64) as usize, v6, number),
    };
    let lengths: &[u8] = if v6 { &[128, 126, 64, 48, 48, 47, 46, 32] } else { &[32, 30, 28, 24, 24, 23, 22, 8, 15] };
    net(address, pick(random, lengths))
}

macro_rules! parts {
    ($($part:ident $name:literal),*) => {
        /// A part of a model.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Part {
            $($part,)*
        }

        impl Part {
            pub const ALL: &[Part] = &[$(Part::$part,)*];

            pub const fn name(self) -> &'static str {
                match self { $(Part::$part => $name,)* }
            }
        }
    };
}

parts! {
    Addresses "reload-addresses", Vrfs "reload-vrfs", Zones "reload-zones", Punt "reload-punt", Mtu "reload-mtu",
    Routes "reload-routes", Neighbors "reload-neighbors", Policies "reload-sav", Validated "reload-sav-interfaces",
    Samplers "reload-samplers", Groups "reload-groups", Lists "reload-acls", Filtered "reload-acl-interfaces",
    Sources "reload-allowlists", Bindings "reload-bindings", Ethertypes "reload-ethertypes",
    Sessions "reload-flow-table", Icmp "reload-icmp", Nat "reload-nat", Spd "reload-spd",
    Sas "reload-sas", Tunnels "reload-tunnels", Classify "reload-classify", Steer "reload-steer",
    Bridges "reload-bridges"
}

/// The seeds of a model's parts.
#[derive(Debug, Clone)]
pub struct Seeds([u64; Part::ALL.len()]);

impl Seeds {
    pub fn random(random: &mut Random) -> Seeds {
        Seeds(std::array::from_fn(|_| random.next()))
    }

    /// Changes one part.
    pub fn change(&mut self, part: Part, random: &mut Random) {
        self.0[part as usize] = random.next();
    }

    fn of(&self, part: Part) -> Random {
        Random::from_seed(self.0[part as usize])
    }

    /// Returns the model of these seeds.
    pub fn model(&self, links: &Links) -> Gateway {
        let mut build = self.interfaces(links);
        build = routes(&mut self.of(Part::Routes), links, build);
        neighbors(&mut self.of(Part::Neighbors), links, &mut build);
        samplers(&mut self.of(Part::Samplers), links, &mut build.0);
        build.0.groups = groups(&mut self.of(Part::Groups), links);
        build = policies(&mut self.of(Part::Policies), links, build);
        if links.bare {
            lists(&mut self.of(Part::Lists), links, &mut build.0);
            filtered(&mut self.of(Part::Filtered), &mut build.0);
            build = bindings(&mut self.of(Part::Bindings), links, build);
            build.0.flow_table.packets = 1;
            build.0.limits = limits();
            return build.0;
        }
        if links.crossed {
            lists(&mut self.of(Part::Lists), links, &mut build.0);
            crossed(&mut self.of(Part::Filtered), &mut build.0);
            translators(&mut self.of(Part::Nat), links, &mut build.0);
            build.0.flow_table = flow_table(&mut self.of(Part::Sessions));
            build.0.limits = limits();
            return build.0;
        }
        validated(&mut self.of(Part::Validated), &mut build.0);
        lists(&mut self.of(Part::Lists), links, &mut build.0);
        filtered(&mut self.of(Part::Filtered), &mut build.0);
        build = sources(&mut self.of(Part::Sources), links, build);
        build = bindings(&mut self.of(Part::Bindings), links, build);
        ethertypes(&mut self.of(Part::Ethertypes), &mut build.0);
        translators(&mut self.of(Part::Nat), links, &mut build.0);
        spd::policies(&mut self.of(Part::Spd), links, &mut build.0);
        spd::sas(&mut self.of(Part::Sas), links, &mut build.0);
        bridges::bridges(&mut self.of(Part::Bridges), links, &mut build);
        tunnels(&mut self.of(Part::Tunnels), links, &mut build.0);
        classify::tables(&mut self.of(Part::Classify), links, &mut build.0);
        steer(&mut self.of(Part::Steer), links, &mut build.0);
        build.0.flow_table = flow_table(&mut self.of(Part::Sessions));
        build.0.icmp = icmp(&mut self.of(Part::Icmp));
        build.0.limits = limits();
        build.0
    }

    fn interfaces(&self, links: &Links) -> Build {
        let [mut addresses, mut vrfs, mut zones, mut punt, mut mtu] =
            [Part::Addresses, Part::Vrfs, Part::Zones, Part::Punt, Part::Mtu].map(|part| self.of(part));
        let (mut build, red) = (Build::new(), if vrfs.chance(0.15) { vrfs.below(4) as usize } else { usize::MAX });
        build.vrf("red");
        let zoned = if links.crossed { 0.0 } else { pick(&mut zones, &[0.0, 0.2, 0.2, 0.6]) };
        for index in 0..links.count {
            let (name, number) = (links.name(index), if addresses.chance(0.1) { 99 } else { 1 });
            let mut own = vec![format!("10.{index}.0.{number}/24")];
            own.extend([format!("2001:db8:{index:x}::{number:x}/64"), format!("fe80::{:x}/64", index + 1)]);
            match addresses.below(20) {
                0 => drop(own.remove(0)),
                1 => own.truncate(1),
                _ => {}
            }
            let own: Vec<&str> = own.iter().map(String::as_str).collect();
            build = match links.port(index) {
                (parent, " vlan 5") => build.vlan(name, links.name(parent), &[5], &own),
                (parent, " vlan 100 inner 7") => build.vlan(name, links.name(parent), &[100, 7], &own),
                _ => build.port(name, &own),
            };
            build = build.mtu(if mtu.chance(0.2) { pick(&mut mtu, &[1280, 1400, 9000]) } else { 1500 });
            let merge = pick(&mut mtu, &[Merge::Off, Merge::Tunnelled, Merge::All, Merge::All]);
            build = build.with(|interface| interface.merge = merge);
            if index == red {
                build = build.in_vrf("red");
            }
            let vrf = build.0.interfaces[index].vrf.0;
            if zones.chance(zoned) {
                build = build.with(|interface| interface.zone = Some(format!("zone{vrf}")));
            }
            if punt.chance(0.2) {
                let name = format!("host{index}");
                let spec =
                    TapSpec { name, persistent: false, offload: false, mtu: None, addresses: Vec::new(), mac: None };
                build = build.with(|interface| interface.punt = Some(spec));
            }
        }
        build
    }
}

fn limits() -> Limits {
    Limits { routes: 10_000, neighbors: 1000, sav_prefixes: 1000, sav_sets: 200, ..Limits::default() }
}

fn has(build: &Build, interface: usize, v6: bool) -> bool {
    build.0.interfaces[interface].addresses.iter().any(|own| own.net.addr().is_ipv6() == v6)
}

/// Returns an interface of a VRF: the first choice, if it belongs to it.
fn of_vrf(random: &mut Random, build: &Build, links: &Links, vrf: VrfIndex, first: Option<usize>, v6: bool) -> usize {
    let fits = |index: &usize| build.0.interfaces[*index].vrf == vrf && has(build, *index, v6);
    let all: Vec<usize> = (0..links.count).filter(fits).collect();
    match first.filter(fits) {
        Some(first) => first,
        None if all.is_empty() => usize::MAX,
        None => pick(random, &all),
    }
}

fn routes(random: &mut Random, links: &Links, mut build: Build) -> Build {
    for (network, v6) in (0..REMOTE).flat_map(|network| [(network, false), (network, true)]) {
        let home = links.home(network);
        let vrf = build.0.interfaces[home].vrf;
        let (wide, narrow) = if v6 { (48, 124) } else { (24, 28) };
        let (prefix, part) = (net(remote(network, v6, 1), wide), net(remote(network, v6, 1), narrow));
        let first = if random.chance(0.85) { Some(home) } else { None };
        let main = of_vrf(random, &build, links, vrf, first, v6);
        let other = of_vrf(random, &build, links, vrf, None, v6);
        if main == usize::MAX {
            continue;
        }
        let add = |build: Build, prefix: IpNet, metric, target| {
            let name = ["default", "red"][usize::from(vrf.0)];
            build.route_in(name, &prefix.to_string(), target).metric(metric)
        };
        let mut by = |interface: usize, number: u8, weight| {
            let by_v6 = v6 || random.chance(0.05) && has(&build, interface, true);
            let address = Some(host(interface, by_v6, number));
            NextHop { interface: InterfaceIndex(interface as u32), address, weight }
        };
        let via = |paths: &[NextHop]| RouteTarget::Via(paths.into());
        let one = via(&[by(main, 2, 1)]);
        let (two, both) = ([by(main, 2, 1), by(main, 3, 3)], [by(main, 2, 2), by(other, 3, 1)]);
        let (alternate, four) = (via(&[by(other, 3, 1)]), via(&[by(main, 4, 1)]));
        let direct = NextHop { address: None, ..by(main, 2, 1) };
        build = match random.below(24) {
            0..=8 => add(build, prefix, 0, one),
            9 | 10 => add(build, prefix, 0, via(&two)),
            11..=13 => add(build, prefix, 0, via(&both)),
            14 => add(build, prefix, 0, RouteTarget::Blackhole),
            15 => add(build, prefix, 0, RouteTarget::Unreachable),
            16 => build,
            17 => add(build, prefix, 0, via(&[direct])),
            18 => add(add(build, prefix, 0, one), part, 0, via(&both)),
            19 => add(add(build, prefix, 0, one), part, 0, RouteTarget::Blackhole),
            20 => add(add(build, prefix, 0, one), part, 0, RouteTarget::Prohibit),
            21 => add(add(build, prefix, 0, one), prefix, 5, alternate),
            22 => add(add(build, prefix, 0, one), part, 0, RouteTarget::Local),
            _ => add(build, prefix, 0, four),
        };
    }
    // Routes into the other VRF.
    let leaks = if random.chance(0.6) { 0.4 } else { 0.0 };
    for (network, v6) in (0..REMOTE).flat_map(|network| [(network, false), (network, true)]) {
        let home = links.home(network);
        let vrf = build.0.interfaces[home].vrf;
        if random.chance(leaks) && has(&build, home, v6) {
            let address = Some(host(home, v6, 2));
            let path = NextHop { interface: InterfaceIndex(home as u32), address, weight: 1 };
            let prefix = net(remote(network, v6, 1), if v6 { 48 } else { 24 });
            let target = RouteTarget::Via(Arc::new([path]));
            build = build.route_in(["red", "default"][usize::from(vrf.0)], &prefix.to_string(), target);
        }
    }
    for (name, prefix) in [("default", "0.0.0.0/0"), ("default", "::/0"), ("red", "0.0.0.0/0"), ("red", "::/0")] {
        let (vrf, v6) = (VrfIndex(u16::from(name == "red")), prefix == "::/0");
        let by = if random.chance(leaks) { VrfIndex(1 - vrf.0) } else { vrf };
        let interface = of_vrf(random, &build, links, by, None, v6);
        if random.chance(0.7) && interface != usize::MAX {
            let address = Some(host(interface, v6, 2));
            let path = NextHop { interface: InterfaceIndex(interface as u32), address, weight: 1 };
            build = build.route_in(name, prefix, RouteTarget::Via(Arc::new([path])));
        }
    }
    build
}

fn neighbors(random: &mut Random, links: &Links, build: &mut Build) {
    // Of crossed models, the gateways that routes lead to are found as well, and lost.
    let last = match (links.learned, links.crossed) {
        (true, true) => 1,
        (true, false) => 3,
        (false, _) => 6,
    };
    for (link, number, v6) in (0..links.count)
        .flat_map(|link| (2..=last).flat_map(move |number| [(link, number, false), (link, number, true)]))
    {
        let at = if random.chance(0.04) { station(link, 12) } else { station(link, number) };
        if random.chance(0.96) && has(build, link, v6) {
            let added = build.clone().neighbor(links.name(link), &host(link, v6, number).to_string(), at);
            *build = added;
        }
    }
}

fn samplers(random: &mut Random, links: &Links, model: &mut Gateway) {
    model.samplers = vec![Sampler {
        name: "s".into(),
        pcap: None,
        ipfix: Some("127.0.0.1:4739".parse().expect("an address")),
        snap_length: pick(random, &[64, 128, 256]),
        rate: if links.exact_samples { 1_000_000_000 } else { pick(random, &[1, 100, 1_000_000]) },
        origin: Origin::default(),
    }];
}

fn sampling(random: &mut Random, links: &Links) -> Sampling {
    Sampling { one_in: if links.exact_samples { 1 } else { pick(random, &[1, 2, 10]) }, to: SamplerIndex(0) }
}

fn some_interfaces(random: &mut Random, links: &Links) -> Vec<usize> {
    let bits = between(random, 1, (1 << links.count) - 1);
    (0..links.count).filter(|index| bits >> index & 1 != 0).collect()
}

/// Returns the members of the group of addresses: some of each family.
pub fn addresses(random: &mut Random, links: &Links) -> Arc<[Addresses]> {
    let families = [false, true, false, true, true, false];
    let count = between(random, 2, 6) as usize;
    families[..count].iter().map(|&v6| Addresses::Net(prefix(random, links, v6))).collect()
}

/// Returns the members of the group of ports.
pub fn ports(random: &mut Random) -> Arc<[std::ops::RangeInclusive<u16>]> {
    (0..between(random, 1, 3)).map(|_| range(random)).collect()
}

/// Returns the members of the group of interfaces.
pub fn interfaces(random: &mut Random, links: &Links) -> Arc<[InterfaceIndex]> {
    some_interfaces(random, links).into_iter().map(|index| InterfaceIndex(index as u32)).collect()
}

fn groups(random: &mut Random, links: &Links) -> Groups {
    Groups {
        addresses: vec![Group { name: "hosts".into(), members: addresses(random, links) }],
        ports: vec![Group { name: "web".into(), members: ports(random) }],
        interfaces: vec![Group { name: "edge".into(), members: interfaces(random, links) }],
        nested: Vec::new(),
    }
}

/// Ports of flows and rules.
pub const PORTS: [u16; 8] = [7, 53, 80, 443, 1000, 1001, 5000, 60_000];

fn range(random: &mut Random) -> std::ops::RangeInclusive<u16> {
    let first = pick(random, &PORTS);
    first..=first.saturating_add(pick(random, &[0, 0, 1, 100, 5000]))
}

/// Returns a rule of an access list; `groups` are those of the model in force.
pub fn rule(random: &mut Random, links: &Links, groups: &Groups) -> AclRule {
    let v6 = random.chance(0.5);
    let action = match random.below(20) {
        0..=8 => AclAction::Permit,
        9..=14 => links.reflect(),
        15 | 16 => AclAction::Deny,
        17 => AclAction::Reject(Rejection::Usual),
        18 => AclAction::Reject(Rejection::Icmp),
        _ => AclAction::Reject(Rejection::Usual),
    };
    // The interfaces of a list are noted for it, where another rule is noted by its prefixes.
    let is_wide = links.crossed && random.chance(0.5);
    let side = |random: &mut Random| match random.below(12) {
        _ if is_wide => Addresses::Any,
        0..=2 => Addresses::Net(prefix(random, links, v6)),
        3 => {
            let network = random.below(REMOTE as u64) as usize;
            let first = between(random, 1, 8) as u8;
            Addresses::Range(remote(network, v6, first), remote(network, v6, first + random.below(9) as u8))
        }
        4 => groups.addresses.first().map_or(Addresses::Any, |group| Addresses::Group(group.clone())),
        _ => Addresses::Any,
    };
    let (mut from, to) = (side(random), side(random));
    let drops = matches!(action, AclAction::Deny | AclAction::Reject(_));
    if drops && !links.crossed && from == Addresses::Any && random.chance(0.7) {
        from = Addresses::Net(prefix(random, links, v6));
    }
    let named = |addresses: &Addresses| matches!(addresses, Addresses::Net(_) | Addresses::Range(..));
    let family = if named(&from) || named(&to) {
        None
    } else {
        pick(random, &[None, None, Some(IpFamily::V4), Some(IpFamily::V6)])
    };
    let side = |random: &mut Random| match random.below(6) {
        0 => groups.ports.first().map_or(Ports::Any, |group| Ports::Group(group.clone())),
        1 | 2 => range(random).into(),
        _ => Ports::Any,
    };
    let transport = match random.below(9) {
        0..=2 => Transport::Any,
        3 => Transport::Protocol(pick(random, &[6, 17, 1, 58, 50, 47, 99])),
        4 | 5 => {
            let (source, destination) = (side(random), side(random));
            Transport::Ports { protocol: pick(random, &[6, 17, 17, 132]), source, destination, flags: None }
        }
        6 | 7 => {
            let (value, mask) = pick(random, &[(0x10, 0x10), (0x02, 0x12), (0x10, 0x17), (0x04, 0x04), (0, 0x08)]);
            let flags = Some(TcpFlags { value, mask });
            Transport::Ports { protocol: 6, source: Ports::Any, destination: side(random), flags }
        }
        _ => {
            let (protocol, first) = pick(random, &[(1, 8), (1, 0), (58, 128), (58, 129), (1, 3), (58, 1)]);
            let code = pick(random, &[None, Some((0, 0)), Some((1, 9))]).map(|(first, last)| first..=last);
            Transport::Icmp { protocol, icmp_type: Some(first..=first), code }
        }
    };
    let edge = groups.interfaces.first();
    let received_on = random.chance(0.1).then(|| match edge {
        Some(group) if random.chance(0.4) => Interfaces::Group(group.clone()),
        _ => Interfaces::List(interfaces(random, links)),
    });
    let later = matches!(transport, Transport::Any | Transport::Protocol(_)) && action != AclAction::Reflect;
    let limit = random.chance(if links.crossed { 0.2 } else { 0.04 }).then(|| {
        let (unit, rate, burst) = pick(
            random,
            &[(RateUnit::Packets, 1, 1), (RateUnit::Packets, 1000, 50), (RateUnit::Bits, 1_000_000, 600_000)],
        );
        AclLimit { unit, rate, burst }
    });
    let log = random.chance(if links.crossed { 0.2 } else { 0.04 });
    let permits = matches!(action, AclAction::Permit | AclAction::Reflect);
    let flow = random.chance(0.12).then(|| random.chance(0.5)).filter(|_| permits);
    AclRule {
        family,
        from,
        to,
        transport,
        fragment: random.chance(0.06).then(|| later && random.chance(0.5)),
        dscp: random.chance(0.08).then(|| random.below(3) as u8),
        mark: random.chance(if links.bare { 0.0 } else { 0.02 }).then(|| random.below(3) as u32),
        received_on,
        log,
        limit,
        flow,
        ..AclRule::all(action, Origin::default())
    }
}

fn lists(random: &mut Random, links: &Links, model: &mut Gateway) {
    for number in 0..4 {
        let most = if random.chance(0.1) { 120 } else { 12 };
        let count = between(random, 1, most);
        let mut rules: Vec<AclRule> = (0..count).map(|_| rule(random, links, &model.groups)).collect();
        // Each is of another place, as in a file.
        let place = weir_plane::model::Place { file: "acl".into(), line: 1, text: "".into() };
        rules.iter_mut().for_each(|rule| rule.origin = model.origins.add(place.clone()));
        let default = match random.below(14) {
            0 => AclDefault::Next,
            1..=7 => AclDefault::Action(AclAction::Permit),
            8..=11 => AclDefault::Action(links.reflect()),
            12 => AclDefault::Action(AclAction::Deny),
            _ => AclDefault::Action(AclAction::Reject(Rejection::Usual)),
        };
        let (name, sample) = (format!("l{number}"), Some(sampling(random, links)));
        model.acls.push(AclList { name, rules: rules.into(), default, sample, origin: Origin::default() });
    }
}

fn filtered(random: &mut Random, model: &mut Gateway) {
    let (lists, most) = (model.acls.len() as u64, pick(random, &[0, 1, 1, 2]));
    for interface in &mut model.interfaces {
        let mut some = || {
            let mut some: Vec<AclIndex> =
                (0..random.below(most + 1)).map(|_| AclIndex(random.below(lists) as u16)).collect();
            some.dedup();
            some
        };
        (interface.access.acl_in, interface.access.acl_out) = (some(), some());
    }
}

/// Gives few directions of interfaces a list, so that most ways of a session pass one list or none.
fn crossed(random: &mut Random, model: &mut Gateway) {
    let (lists, share) = (model.acls.len() as u64, pick(random, &[0.3, 0.5, 0.7]));
    for interface in &mut model.interfaces {
        let mut some = || match random.chance(share) {
            true => vec![AclIndex(random.below(lists) as u16)],
            false => Vec::new(),
        };
        (interface.access.acl_in, interface.access.acl_out) = (some(), some());
    }
}

/// Returns rules that take most sources for valid, as words.
fn valid_sources(random: &mut Random, links: &Links) -> Vec<String> {
    let mut rules = Vec::new();
    for v6 in [false, true] {
        let (near, far) = if v6 { (48, 48) } else { (24, 24) };
        for link in 0..links.count {
            rules.push(format!("permit from {} on {}", net(host(link, v6, 1), near), links.name(link)));
        }
        for network in 0..REMOTE {
            let mut names = links.name(links.home(network)).to_owned();
            if random.chance(0.1) {
                let other = links.name(random.below(links.count as u64) as usize);
                names = if other == names { names } else { format!("{names}, {other}") };
            }
            rules.push(format!("permit from {} on {names}", net(remote(network, v6, 1), far)));
        }
    }
    rules.retain(|_| random.chance(0.93));
    rules
}

fn mechanism(random: &mut Random, links: &Links, build: &mut Build) -> Mechanism {
    let kind = random.below(9);
    if kind < 3 {
        let mode = [UrpfMode::Strict, UrpfMode::Loose, UrpfMode::Feasible][kind as usize];
        let vrf = random.chance(0.1).then_some(VrfIndex(1));
        return Mechanism::Urpf(Urpf { mode, default_route: random.chance(0.5), vrf });
    }
    let mut texts = valid_sources(random, links);
    let cards = kind == 8;
    for _ in 0..random.below(4) {
        let names: Vec<&str> = some_interfaces(random, links).into_iter().map(|index| links.name(index)).collect();
        let v6 = random.chance(0.5);
        let (prefix, names) = (prefix(random, links, v6), names.join(", "));
        let list = match random.below(8) {
            0 if !cards && kind > 4 => "interface permit",
            1 | 2 if !cards && kind > 4 => "interface deny",
            3..=5 if !cards => "deny",
            _ => "permit",
        };
        let at = if random.chance(0.5) { 0 } else { texts.len() };
        texts.insert(at, format!("{list} from {prefix} on {names}"));
    }
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let (incremental, hits) = (random.chance(0.3), random.chance(0.5));
    let rules = SavRules { incremental, hits, ..build.rules(&texts) };
    let matching = pick(random, &[Match::MostSpecific, Match::AnyCovering]);
    match kind {
        3 | 4 => Mechanism::Acl(rules),
        8 => {
            let layout = SavLayout::Cards(pick(random, &[Order::Serial, Order::Parallel]));
            Mechanism::Table { rules, matching, layout }
        }
        _ => Mechanism::Table { rules, matching, layout: SavLayout::Merged },
    }
}

fn policies(random: &mut Random, links: &Links, mut build: Build) -> Build {
    build = build.line_card("card", &[links.name(0), links.name(2)]);
    for number in 0..4 {
        let mechanism = mechanism(random, links, &mut build);
        let merged = !matches!(mechanism, Mechanism::Urpf(_) | Mechanism::Table { layout: SavLayout::Cards(_), .. });
        build = build.policy(&format!("s{number}"), mechanism);
        let mut exempt = Vec::new();
        while random.chance(0.2) {
            let mut rule = rule(random, links, &build.0.groups);
            rule.action = pick(random, &[AclAction::Permit, AclAction::Permit, AclAction::Deny]);
            (rule.log, rule.limit, rule.received_on, rule.flow) = (false, None, None, None);
            exempt.push(rule);
        }
        let per = if merged { pick(random, &[RatePer::Interface, RatePer::Rule]) } else { RatePer::Interface };
        let (unit, rate, burst) = pick(
            random,
            &[(RateUnit::Packets, 1, 1), (RateUnit::Packets, 1000, 20), (RateUnit::Bits, 1_000_000, 600_000)],
        );
        let to = random.below(links.count as u64) as usize;
        let to = |v6| {
            let address = has(&build, to, v6).then(|| host(to, v6, 2));
            Some(NextHop { interface: InterfaceIndex(to as u32), address, weight: 1 })
        };
        let redirect = PerFamily { v4: to(false), v6: to(true) };
        let policy = build.0.sav.last_mut().expect("it was added");
        policy.action = pick(
            random,
            &[SavAction::Discard, SavAction::Discard, SavAction::Permit, SavAction::RateLimit, SavAction::Redirect],
        );
        policy.redirect = redirect;
        policy.rate_limit = Some(RateLimit { unit, rate, burst, per });
        policy.sample = random.chance(0.3).then(|| sampling(random, links));
        policy.exempt = exempt.into();
        policy.link_check = pick(random, &[LinkCheck::Known, LinkCheck::Strict]);
        if random.chance(0.75) {
            policy.link_check = LinkCheck::Off;
        }
        policy.alarm = random.chance(0.3).then_some(Alarm { packets: 10, window: 1 });
        if random.chance(0.3) {
            let mut any = || pick(random, &[SpecialAction::Permit, SpecialAction::Deny, SpecialAction::Check]);
            policy.special = SpecialSources {
                unconfigured: any(),
                unspecified: any(),
                loopback: any(),
                link_local: any(),
                multicast: any(),
                broadcast: any(),
            };
        }
    }
    build
}

fn validated(random: &mut Random, model: &mut Gateway) {
    let (count, share) = (model.sav.len() as u64, pick(random, &[0.0, 0.0, 0.4, 0.8]));
    for interface in &mut model.interfaces {
        let mut some = || random.chance(share).then(|| SavIndex(random.below(count) as u16));
        interface.sav = PerFamily { v4: some(), v6: some() };
    }
}

fn sources(random: &mut Random, links: &Links, mut build: Build) -> Build {
    for name in ["a0", "a1"] {
        let mut prefixes = vec!["10.0.0.0/8".to_owned(), "2001:db8::/40".to_owned()];
        for (network, v6) in (0..REMOTE).flat_map(|network| [(network, false), (network, true)]) {
            if random.chance(0.9) {
                prefixes.push(net(remote(network, v6, 1), if v6 { 48 } else { 24 }).to_string());
            }
        }
        let prefixes: Vec<&str> = prefixes.iter().map(String::as_str).collect();
        build = build.allowlist(name, &prefixes);
    }
    build = build.allowlist_of("a2", "default");
    let share = pick(random, &[0.0, 0.0, 0.3]);
    for index in 0..links.count {
        let mut some =
            || -> Vec<AllowlistIndex> { (0..3).filter(|_| random.chance(share)).map(AllowlistIndex).collect() };
        build.0.interfaces[index].access.allow = PerFamily { v4: some(), v6: some() };
    }
    build
}

fn bindings(random: &mut Random, links: &Links, mut build: Build) -> Build {
    for name in ["b0", "b1"] {
        let mut rules = Vec::new();
        for _ in 0..random.below(4) {
            let link = random.below(links.count as u64) as usize;
            let v6 = random.chance(0.5);
            let (address, from) = (station(link, between(random, 2, 8) as u8), prefix(random, links, v6));
            let action = pick(random, &["permit", "deny"]);
            rules.push(format!("{action} {address} from {from}"));
        }
        for link in 0..links.count {
            if random.chance(0.9) {
                rules.push(format!("permit {}/44 from any", mac(link as u8 * 16)));
            }
        }
        if random.chance(0.5) {
            rules.push("permit any from any".to_owned());
        }
        let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
        build = build.bindings(name, &rules);
    }
    let share = pick(random, &[0.0, 0.0, 0.5]);
    for interface in &mut build.0.interfaces {
        interface.access.bindings = random.chance(share).then(|| BindingsIndex(random.below(2) as u16));
    }
    // Whatever no rule matches may be permitted later, and no longer.
    for list in &mut build.0.bindings {
        let slaac = Slaac { limit: 4, lifetime: 1 };
        let both = Learn { slaac: Some(slaac), limit: 8, ..Learn::DHCP };
        list.learn = pick(random, &[None, None, Some(Learn::DHCP), Some(both)]);
    }
    build
}

fn ethertypes(random: &mut Random, model: &mut Gateway) {
    let share = pick(random, &[0.0, 0.0, 0.3]);
    for interface in &mut model.interfaces {
        let mut some = || {
            let both: &[u16] = &[0x0800, 0x0806, 0x86dd];
            let types = &[both, both, both, &[0x0800, 0x86dd], &[0x0800], &[0x86dd]];
            let types = pick(random, types).to_vec();
            random.chance(share).then(|| Ethertypes { types, origin: Origin::default() })
        };
        (interface.access.ethertypes_in, interface.access.ethertypes_out) = (some(), some());
    }
}

fn flow_table(random: &mut Random) -> FlowTable {
    // Most have room: a vector takes no decisions about sessions that may have to end in it.
    let sessions = if random.chance(0.25) { pick(random, &[1, 10, 60]) } else { 1000 };
    let mut table = FlowTable {
        flows: if random.chance(0.12) { pick(random, &[1, 10, 60]) } else { pick(random, &[4096, 4096, 1_000_000]) },
        sessions,
        half_open: pick(random, &[1, sessions.div_ceil(4), sessions, sessions, sessions, sessions, sessions]),
        tcp_pickup: random.chance(0.8),
        recheck: random.chance(0.7),
        packets: pick(random, &[1, 1, 1, 2, 2, 5]),
        ..FlowTable::default()
    };
    if random.chance(0.8) {
        table.timeouts.all().for_each(|(_, time)| *time = Duration::from_secs(between(random, 1, 12)));
    }
    table
}

fn icmp(random: &mut Random) -> IcmpLimits {
    match random.below(4) {
        0 => IcmpLimits::default(),
        1 => IcmpLimits { error_rate: 5, error_burst: 2, echo_rate: 5, echo_burst: 2 },
        2 => IcmpLimits { error_rate: 0, error_burst: 0, echo_rate: 0, echo_burst: 0 },
        _ => IcmpLimits { error_rate: u32::MAX, error_burst: u32::MAX, echo_rate: u32::MAX, echo_burst: u32::MAX },
    }
}
