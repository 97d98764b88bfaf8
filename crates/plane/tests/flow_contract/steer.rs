//! Random steer rules, which act before the fast path.

use weir_base::random::Random;
use weir_packet::identify::Identifier;
use weir_packet::wire::MacAddress;
use weir_plane::model::{
    AclRule, ClassifyStart, Gateway, InterfaceIndex, IpFamily, NextHop, Origin, SteerHeader, SteerIndex, SteerList,
    SteerMac, SteerMacs, SteerNode, SteerOctets, SteerRule, SteerWay,
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
    for interface in &mut model.interfaces {
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
        _ => SteerWay::On,
    };
    SteerRule {
        count: true,
        mark: random.chance(0.3).then(|| random.below(3) as u32).filter(|_| way != SteerWay::Drop),
        way,
        unchecked: true,
        vlan: random.chance(0.1).then_some(5..=100),
        id: random.chance(0.05).then_some((Identifier::Vni, 0..=9)),
        octets: random.chance(0.05).then(|| SteerOctets {
            start: ClassifyStart::Network,
            at: 4,
            value: [0, random.below(2) as u8].into(),
            mask: [0, 1].into(),
        }),
        macs: SteerMacs {
            from: random.chance(0.05).then_some(SteerMac { mac: MacAddress([2, 0, 0, 0, 0, 0]), length: 8 }),
            to: None,
        },
        inner: None,
        frame: None,
        matches,
        names_family: false,
        comment: None,
    }
}
