//! The gateway of the measurements: two interfaces that send to each other's network, and its versions.

use std::sync::Arc;

use ipnet::IpNet;
use weir_plane::model::{
    AclAction, AclDefault, AclIndex, AclList, AclRule, Addresses, FastPath, Gateway, Mechanism, NatIndex, NatList,
    NatMapping, NatRule, NatTarget, NatVerb, Origin, PerFamily, Ports, SavIndex, SavPolicy, Transport, Urpf, UrpfMode,
};

pub(super) use crate::pair::Pair as Plan;

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

impl Plan {
    /// The pair with all policies, which no interface has.
    pub(super) fn gateway(&self, flows: u32) -> Gateway {
        let list = |name: &str, action: AclAction| AclList {
            name: name.to_owned(),
            rules: self.rules(action),
            default: AclDefault::Action(AclAction::Deny),
            sample: None,
            origin: Origin(0),
        };
        let urpf = Mechanism::Urpf(Urpf { mode: UrpfMode::Strict, default_route: false, vrf: None });
        let mut gateway = Gateway {
            acls: vec![list("stateless", AclAction::Permit), list("stateful", AclAction::Reflect)],
            sav: vec![SavPolicy::new("strict".to_owned(), urpf, Origin(0))],
            nat: (0..2).map(|number| self.translator(number)).collect(),
            ..self.plain(flows)
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
            ids: None,
            limit: None,
            limit_origin: Origin(0),
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
