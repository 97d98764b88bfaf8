//! Random rules that translate, and replies to packets that left: their ports are drawn, so no pool of flows has them.

use std::net::IpAddr;

use weir_base::random::Random;
use weir_packet::checksum::Delta;
use weir_plane::model::{
    AclAction, AclRule, Addresses, Gateway, Group, IpFamily, MssClamp, NatFiltering, NatIndex, NatList, NatMapping,
    NatRule, NatTarget, NatVerb, NextHop, Origin, Ports, RouteTarget, Transport, VrfIndex,
};

use crate::gateway::{Links, PORTS, REMOTE, between, net, pick, prefix, remote};
use crate::kit::l3;

/// Adds lists of rules, of which about half of the models have none. Crossed models without sessions of lists translate nearly all.
pub fn translators(random: &mut Random, links: &Links, model: &mut Gateway) {
    let (share, most) = if links.crossed { (0.9, 1) } else { (0.35, 5) };
    if if links.crossed { links.opens } else { random.chance(0.5) } {
        return;
    }
    for number in 0..2 {
        let mut rules: Vec<NatRule> = (0..between(random, 1, most)).map(|_| rule(random, links)).collect();
        rules.extend([false, true].into_iter().filter(|_| links.crossed).map(of_all));
        if links.edited && random.chance(0.5) {
            rules.insert(0, npt(random));
        }
        let mss_clamp = pick(random, &[None, Some(MssClamp::Mtu), Some(MssClamp::Value(1000))]);
        let name = format!("n{number}");
        let filtering = pick(random, &[NatFiltering::EndpointDependent, NatFiltering::EndpointIndependent]);
        let mapping =
            if random.chance(0.4) { NatMapping::EndpointIndependent(filtering) } else { NatMapping::default() };
        // A configuration whose routes link VRFs has none.
        let mapping = if links_vrfs(model) { NatMapping::default() } else { mapping };
        model.nat.push(NatList {
            name,
            rules: rules.into(),
            ids: None,
            limit: (links.edited && number == 0).then_some(4),
            limit_origin: Origin::default(),
            mss_clamp,
            mapping,
            log: false,
            ipfix: None,
            origin: Origin::default(),
        });
    }
    for interface in &mut model.interfaces {
        interface.nat = random.chance(share).then(|| NatIndex(random.below(2) as u16));
    }
    for vrf in model.vrfs.iter_mut().filter(|_| links.edited) {
        vrf.nat_limit = random.chance(0.5).then(|| between(random, 1, 6) as u32);
    }
}

/// Whether a route of one VRF leads to an interface of another one.
pub fn links_vrfs(model: &Gateway) -> bool {
    let leads =
        |vrf: VrfIndex, hops: &[NextHop]| hops.iter().any(|hop| model.interfaces[hop.interface.0 as usize].vrf != vrf);
    model.routes.iter().any(|route| matches!(&route.target, RouteTarget::Via(hops) if leads(route.vrf, hops)))
}

fn single(address: IpAddr) -> Addresses {
    Addresses::Net(net(address, if address.is_ipv6() { 128 } else { 32 }))
}

/// Translates the sources of all packets of a family.
fn of_all(v6: bool) -> NatRule {
    let family = Some(if v6 { IpFamily::V6 } else { IpFamily::V4 });
    NatRule {
        verb: NatVerb::Source,
        matches: AclRule { family, ..AclRule::all(AclAction::Permit, Origin(0)) },
        to_interface: false,
        source: Some(NatTarget { addresses: Some(single(remote(0, v6, 250))), ports: None }),
        destination: None,
        preserve: false,
        log: false,
        limit_per_address: None,
        parity: false,
        comment: None,
    }
}

/// Maps a prefix of IPv6 without sessions.
fn npt(random: &mut Random) -> NatRule {
    let network = random.below(REMOTE as u64) as usize;
    let prefix = |network| Addresses::Net(net(remote(network % REMOTE, true, 1), 48));
    let from = prefix(network);
    NatRule {
        verb: NatVerb::Map,
        matches: AclRule { family: Some(IpFamily::V6), from, ..AclRule::all(AclAction::Permit, Origin(0)) },
        source: Some(NatTarget { addresses: Some(prefix(network + 1)), ports: None }),
        ..of_all(true)
    }
}

pub fn rule(random: &mut Random, links: &Links) -> NatRule {
    let v6 = random.chance(0.5);
    let flow = |random: &mut Random| {
        let of_family: Vec<IpAddr> = links.addresses.iter().copied().filter(|own| own.is_ipv6() == v6).collect();
        if of_family.is_empty() { remote(0, v6, 2) } else { pick(random, &of_family) }
    };
    let side = |random: &mut Random| match random.below(5) {
        0 => Addresses::Net(prefix(random, links, v6)),
        1 => single(flow(random)),
        _ => Addresses::Any,
    };
    let verb = match random.below(10) {
        0..=4 => NatVerb::Source,
        5 | 6 => NatVerb::Destination,
        7 => NatVerb::Both,
        8 => NatVerb::Map,
        _ => NatVerb::Keep,
    };
    let (mut from, mut to) = (side(random), side(random));
    let network = random.below(REMOTE as u64) as usize;
    if verb == NatVerb::Map {
        from = if random.chance(0.5) { single(flow(random)) } else { Addresses::Net(net(remote(network, v6, 1), 28)) };
    }
    if matches!(verb, NatVerb::Destination | NatVerb::Both) {
        to = single(flow(random));
    }
    let transport = match random.below(6) {
        0..=2 => Transport::Any,
        3 => Transport::Protocol(pick(random, &[6, 17])),
        _ => {
            let destination = Ports::from(pick(random, &PORTS)..=u16::MAX);
            Transport::Ports { protocol: pick(random, &[6, 17]), source: Ports::ALL, destination, flags: None }
        }
    };
    let has_ports = !matches!(transport, Transport::Any);
    let drawn = |random: &mut Random| {
        let ports = pick(random, &[None, Some((6000, 6001)), Some((6000, 6063)), Some((1000, 60_000))]);
        ports.map(|(first, last)| first..=last)
    };
    let outside = |random: &mut Random| match random.below(4) {
        0 => Addresses::Group(Group {
            name: "pool".into(),
            members: [single(remote(network, v6, 201)), single(remote(network, v6, 202))].into(),
        }),
        1 => Addresses::Range(remote(network, v6, 210), remote(network, v6, 217)),
        _ => single(remote(network, v6, 200)),
    };
    let source = match verb {
        NatVerb::Source | NatVerb::Both => {
            let addresses = (!random.chance(0.5)).then(|| outside(random));
            Some(NatTarget { addresses, ports: drawn(random) })
        }
        NatVerb::Map => {
            let length = match &from {
                Addresses::Net(own) => own.prefix_len(),
                _ => unreachable!("a map is from a prefix"),
            };
            let given = Addresses::Net(net(remote((network + 1) % REMOTE, v6, 1), length));
            Some(NatTarget { addresses: Some(given), ports: None })
        }
        NatVerb::Destination | NatVerb::Keep => None,
    };
    let destination = matches!(verb, NatVerb::Destination | NatVerb::Both).then(|| {
        let port = (has_ports && random.chance(0.5)).then(|| pick(random, &PORTS));
        NatTarget { addresses: Some(single(flow(random))), ports: port.map(|port| port..=port) }
    });
    let family = if v6 { IpFamily::V6 } else { IpFamily::V4 };
    let to_interface = matches!(verb, NatVerb::Destination | NatVerb::Both) && random.chance(0.3);
    let to = if to_interface { Addresses::Any } else { to };
    let matches = AclRule { family: Some(family), from, to, transport, ..AclRule::all(AclAction::Permit, Origin(0)) };
    let preserve = matches!(verb, NatVerb::Source | NatVerb::Both) && random.chance(0.5);
    let log = verb != NatVerb::Keep && random.chance(0.2);
    let limited = verb == NatVerb::Source && random.chance(0.3);
    let limit_per_address = limited.then(|| between(random, 1, 4) as u32);
    let parity = matches!(verb, NatVerb::Source | NatVerb::Both) && random.chance(0.2);
    NatRule {
        verb,
        matches,
        to_interface,
        source,
        destination,
        preserve,
        parity,
        log,
        limit_per_address,
        comment: None,
    }
}

/// Returns the reply to a frame that left: with the checksum as right as it was. `None`: it is no packet of TCP, UDP or echo.
pub fn reply(random: &mut Random, frame: &[u8]) -> Option<Vec<u8>> {
    let mut reply = frame.to_vec();
    reply[..12].rotate_left(6);
    let at = l3(frame);
    let (protocol, l4, addresses, length) = match frame.get(at)? >> 4 {
        4 if frame[at] == 0x45 && frame[at + 6] & 0x3f == 0 && frame[at + 7] == 0 => {
            (frame[at + 9], at + 20, at + 12, 4)
        }
        6 => (frame[at + 6], at + 40, at + 8, 16),
        _ => return None,
    };
    reply.get_mut(addresses..addresses + 2 * length)?.rotate_left(length);
    let word = |octets: &[u8], at: usize| Some(u16::from_be_bytes(octets.get(at..at + 2)?.try_into().ok()?));
    let (changed, sum) = match protocol {
        6 => {
            let syn = frame.get(l4 + 13)? & 0x12 == 0x02;
            let fin = random.chance(0.03);
            reply[l4 + 13] = if syn { 0x12 } else { 0x10 | u8::from(fin) };
            (l4 + 12, l4 + 16)
        }
        17 => (l4, l4 + 6),
        1 | 58 => {
            reply[l4] = match *frame.get(l4)? {
                8 => 0,
                128 => 129,
                _ => return None,
            };
            (l4, l4 + 2)
        }
        _ => return None,
    };
    let (old, new) = (word(frame, changed)?, word(&reply, changed)?);
    if matches!(protocol, 6 | 17) {
        reply.get_mut(l4..l4 + 4)?.rotate_left(2);
    }
    if protocol != 17 {
        let given = Delta::word(old, new).apply(word(frame, sum)?);
        reply.get_mut(sum..sum + 2)?.copy_from_slice(&given.to_be_bytes());
    }
    Some(reply)
}
