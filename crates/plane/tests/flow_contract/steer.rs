//! Random steer rules, which act before the fast path.

use std::sync::Arc;

use weir_base::random::Random;
use weir_packet::identify::Identifier;
use weir_packet::wire::MacAddress;
use weir_plane::model::{
    AclRule, ClassifyStart, Gateway, Groups, InterfaceIndex, IpFamily, NextHop, Origin, Ports, SteerFrame, SteerHeader,
    SteerIndex, SteerInner, SteerList, SteerMac, SteerMacs, SteerNode, SteerOctets, SteerRule, SteerWay, Transport,
};

use crate::gateway::{Links, between, host, pick, rule};

/// Adds lists, of which most models have none.
pub fn steer(random: &mut Random, links: &Links, model: &mut Gateway) {
    if random.chance(0.6) {
        return;
    }
    for number in 0..2 {
        let rules: Vec<SteerRule> = (0..between(random, 1, 5)).map(|_| one(random, links, model)).collect();
        model.steer.push(SteerList { name: format!("s{number}"), rules: rules.into(), origin: Origin::default() });
    }
    let is_port = |index: usize| model.bridges.iter().any(|own| own.has_port(InterfaceIndex(index as u32)));
    let routed: Vec<bool> = (0..model.interfaces.len()).map(|index| !is_port(index)).collect();
    for (interface, _) in model.interfaces.iter_mut().zip(routed).filter(|(_, is)| *is) {
        interface.steer = random.chance(0.4).then(|| SteerIndex(random.below(2) as u16));
    }
}

fn one(random: &mut Random, links: &Links, model: &Gateway) -> SteerRule {
    let own = rule(random, links, &model.groups);
    let matches = AclRule { mark: None, received_on: None, log: false, limit: None, flow: None, ..own };
    let v6 = matches.family == Some(IpFamily::V6);
    let way = match random.below(10) {
        0 | 9 => SteerWay::Drop,
        1 | 2 => {
            let link = random.below(links.count as u64) as usize;
            let address = random.chance(0.7).then(|| host(link, v6, 2));
            let hop = NextHop { interface: InterfaceIndex(link as u32), address, weight: 1 };
            // A rule about both families has no next hop of one.
            let hop = NextHop { address: hop.address.filter(|_| matches.family.is_some()), ..hop };
            SteerWay::To { hop, interface: None }
        }
        3 if matches.family == Some(IpFamily::V4) => SteerWay::Node(SteerNode::Ip4Lookup),
        3 if v6 => SteerWay::Node(SteerNode::Ip6Lookup),
        4 => SteerWay::Advance(pick(random, &[14, 42]), pick(random, &[SteerHeader::Ip4, SteerHeader::Ethernet])),
        8 if links.queues > 0 => SteerWay::Queue((model.steer.len() % links.queues) as u16),
        _ => SteerWay::On,
    };
    let is_frame = random.chance(0.1);
    let frame = is_frame.then(|| SteerFrame { ethertype: random.chance(0.7).then_some(0x88b5) });
    // Frames are dropped, or leave by an interface.
    let way = match way {
        SteerWay::To { hop, interface } if is_frame => {
            SteerWay::To { hop: NextHop { address: None, ..hop }, interface }
        }
        way @ (SteerWay::Drop | SteerWay::On) => way,
        _ if is_frame => SteerWay::On,
        way => way,
    };
    let inside = (!is_frame && random.chance(0.15)).then(|| {
        let own = rule(random, links, &Groups::default());
        let matches = AclRule { mark: None, received_on: None, log: false, limit: None, flow: None, ..own };
        Arc::new(SteerInner { matches, names_family: false })
    });
    // The headers in front of the packet inside follow from the identifier.
    let (id, matches) = match (&inside, random.below(3)) {
        (None, _) => (random.chance(0.05).then_some((Identifier::Vni, 0..=9)), matches),
        (Some(_), 0) => (Some((Identifier::Vni, 0..=1)), of_udp(matches)),
        (Some(_), 1) => (Some((Identifier::Teid, 0..=1)), of_udp(matches)),
        (Some(_), _) => (None, of_ip(random, matches)),
    };
    SteerRule {
        count: true,
        mark: random.chance(0.3).then(|| random.below(3) as u32).filter(|_| way != SteerWay::Drop),
        way,
        unchecked: true,
        vlan: random.chance(0.1).then_some(5..=100),
        id,
        octets: (!is_frame && random.chance(0.05)).then(|| SteerOctets {
            start: ClassifyStart::Network,
            at: 4,
            value: [0, random.below(2) as u8].into(),
            mask: [0, 1].into(),
        }),
        macs: SteerMacs {
            from: random.chance(0.05).then_some(SteerMac { mac: MacAddress([2, 0, 0, 0, 0, 0]), length: 8 }),
            to: None,
        },
        inner: inside,
        frame,
        matches,
        names_family: false,
        comment: None,
    }
}

/// The same rule about datagrams of UDP alone.
fn of_udp(rule: AclRule) -> AclRule {
    let transport = Transport::Ports { protocol: 17, source: Ports::Any, destination: Ports::Any, flags: None };
    AclRule { transport, ..rule }
}

/// The same rule about packets that carry another behind their own header.
fn of_ip(random: &mut Random, rule: AclRule) -> AclRule {
    AclRule { transport: Transport::Protocol(pick(random, &[4, 41])), fragment: None, ..rule }
}
