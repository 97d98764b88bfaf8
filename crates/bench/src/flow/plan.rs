//! The gateway of the measurements: two interfaces that send to each other's network, and its versions.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use weir_plane::model::{
    AclAction, AclDefault, AclIndex, AclList, AclRule, Addresses, FastPath, Gateway, Interface, Mechanism, NatIndex,
    NatList, NatMapping, NatRule, NatTarget, NatVerb, Origin, PerFamily, Ports, RouteTarget, SavIndex, SavPolicy,
    Transport, Urpf, UrpfMode,
};

use crate::model;

/// Rules of each list.
pub(super) const RULES: u32 = 1000;

/// A version of the gateway.
#[derive(Debug)]
pub(super) struct Version {
    pub(super) name: &'static str,
    pub(super) policies: bool,
    pub(super) sessions: bool,
    /// Sources are translated.
    pub(super) nat: bool,
    pub(super) fast: bool,
    /// Each flow is decided anew all the time.
    pub(super) anew: bool,
}

impl Version {
    pub(super) const fn new(name: &'static str) -> Version {
        Version { name, policies: false, sessions: false, nat: false, fast: false, anew: false }
    }

    pub(super) const fn policies(name: &'static str) -> Version {
        Version { policies: true, ..Version::new(name) }
    }
}

/// The networks of a family, each behind a neighbour on a link.
pub(super) struct Plan {
    pub(super) v4: bool,
    pub(super) networks: [IpNet; 2],
    pub(super) links: [(IpNet, IpAddr); 2],
}

impl Plan {
    pub(super) fn of(v4: bool) -> Plan {
        let net = |text: &str| text.parse::<IpNet>().expect("a constant prefix");
        let address = |text: &str| text.parse::<IpAddr>().expect("a constant address");
        let (networks, links) = match v4 {
            true => (
                [net("10.16.0.0/12"), net("20.16.0.0/12")],
                [(net("192.0.2.1/24"), address("192.0.2.2")), (net("198.51.100.1/24"), address("198.51.100.2"))],
            ),
            false => (
                [net("2001:db8:10::/48"), net("2001:db8:20::/48")],
                [
                    (net("2001:db8:1::1/64"), address("2001:db8:1::2")),
                    (net("2001:db8:2::1/64"), address("2001:db8:2::2")),
                ],
            ),
        };
        Plan { v4, networks, links }
    }

    /// Two interfaces that each send to the other's network.
    pub(super) fn gateway(&self, flows: u32) -> Gateway {
        let interface = |number: usize| -> Interface {
            let (from, to) = (self.networks[number], self.networks[1 - number]);
            let (from, to) = (model::range(from, 0xffff), model::range(to, 0xffff));
            let port = model::udp(from, to, if self.v4 { 60 } else { 78 }, flows / 2, 1 + number as u64);
            model::interface(["a", "b"][number], port, self.links[number].0)
        };
        let hops = |number: usize| RouteTarget::Via([model::hop(number as u32, self.links[number].1)].into());
        let list = |name: &str, action: AclAction| AclList {
            name: name.to_owned(),
            rules: self.rules(action),
            default: AclDefault::Action(AclAction::Deny),
            sample: None,
            origin: Origin(0),
        };
        let urpf = Mechanism::Urpf(Urpf { mode: UrpfMode::Strict, default_route: false, vrf: None });
        let mut gateway = Gateway {
            interfaces: vec![interface(0), interface(1)],
            routes: (0..2).map(|number| model::route(self.networks[number], hops(number))).collect(),
            neighbors: (0..2)
                .map(|number| model::neighbor(number as u32, self.links[number].1, [2, 0, 0, 0, 1, number as u8]))
                .collect(),
            acls: vec![list("stateless", AclAction::Permit), list("stateful", AclAction::Reflect)],
            sav: vec![SavPolicy::new("strict".to_owned(), urpf, Origin(0))],
            nat: (0..2).map(|number| self.translator(number)).collect(),
            ..model::empty()
        };
        gateway.flow_table.flows = 2 * flows;
        // Sessions and translations of other versions are still there: two of each flow, since lists see translated sources.
        gateway.flow_table.sessions = 4 * flows;
        gateway.flow_table.half_open = 4 * flows;
        gateway
    }

    /// The addresses that sources get.
    fn pools(&self) -> [IpNet; 2] {
        let pools = match self.v4 {
            true => ["203.0.113.0/24", "192.88.99.0/24"],
            false => ["2001:db8:a::/120", "2001:db8:b::/120"],
        };
        pools.map(|pool| pool.parse().expect("a constant prefix"))
    }

    /// Gives all sources that leave by an interface addresses of its pool.
    fn translator(&self, number: usize) -> NatList {
        let rule = NatRule {
            verb: NatVerb::Source,
            matches: AclRule::all(AclAction::Permit, Origin(0)),
            to_interface: false,
            source: Some(NatTarget { addresses: Some(Addresses::Net(self.pools()[number])), ports: None }),
            destination: None,
            preserve: false,
            parity: false,
            log: false,
            limit_per_address: None,
            comment: None,
        };
        NatList {
            name: ["a", "b"][number].to_owned(),
            rules: [rule].into(),
            mss_clamp: None,
            mapping: NatMapping::default(),
            log: false,
            ipfix: None,
            origin: Origin(0),
        }
    }

    /// Rules for ports that no packet has, and behind them one for each network and each pool.
    fn rules(&self, action: AclAction) -> Arc<[AclRule]> {
        let udp = |source, destination| Transport::Ports { protocol: 17, source, destination, flags: None };
        let none = (0..RULES - 4).map(|number| AclRule {
            from: Addresses::Net(self.networks[number as usize % 2]),
            transport: udp(Ports::ALL, Ports::from(number as u16..=number as u16)),
            ..AclRule::all(AclAction::Deny, Origin(0))
        });
        let of = |network| AclRule { from: Addresses::Net(network), ..AclRule::all(action, Origin(0)) };
        none.chain(self.networks.map(of)).chain(self.pools().map(of)).collect()
    }

    pub(super) fn apply(&self, model: &mut Gateway, version: &Version) {
        model.flow_table.enabled = if version.fast { FastPath::On } else { FastPath::Off };
        for (number, interface) in (0..).zip(model.interfaces.iter_mut()).filter(|_| version.nat) {
            interface.nat = Some(NatIndex(number));
        }
        for interface in model.interfaces.iter_mut().filter(|_| version.policies) {
            let list = vec![AclIndex(u16::from(version.sessions))];
            (interface.access.acl_in, interface.access.acl_out) = (list.clone(), list);
            interface.sav = PerFamily { v4: Some(SavIndex(0)), v6: Some(SavIndex(0)) };
        }
    }
}
