//! The table of the guide to access lists on VPP: forwarding, and what lists and allowlists add to it.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use weir_packet::wire::protocol::UDP;
use weir_plane::model::{
    AclAction, AclDefault, AclIndex, AclList, AclRule, Addresses, AllowedSources, Allowlist, AllowlistIndex, Gateway,
    Interface, Origin, PerFamily, Ports, RouteTarget, Transport,
};
use weir_plane::node::Node;

use super::Effort;
use super::packet::Ip;
use crate::Error;
use crate::model;
use crate::report::figure::{Figure, Target};
use crate::turns::{Outcome, Run};

/// Flows, half of them each way.
const FLOWS: u32 = 10_000;

/// The figures of the guide for a case, in cycles of its machine.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Theirs {
    /// Cycles of forwarding alone, in the same table.
    pub base: Option<u32>,
    /// Cycles with it.
    pub with: Option<u32>,
    /// Clocks of the node in its `show runtime`.
    pub node: f64,
}

/// The cost of forwarding of a family, alone and with the guide's cases.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Guide {
    /// `ipv4` or `ipv6`.
    pub family: String,
    /// Flows.
    pub flows: u32,
    /// Octets of a frame, without the frame check sequence.
    pub size: usize,
    /// Ticks per packet of forwarding alone.
    pub base: Figure,
    /// Packets per second of one worker that forwards alone, the ports' work included.
    pub base_rate: f64,
    /// The cases.
    pub rows: Vec<GuideRow>,
    /// The ticks of nodes, case by case.
    pub nodes: Vec<GuideNode>,
}

/// A case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GuideRow {
    /// The policies of the case.
    pub case: String,
    /// The figures of the guide for it.
    pub theirs: Option<Theirs>,
    /// Ticks per packet.
    pub with: Figure,
    /// The ticks added to forwarding alone.
    pub added: Figure,
    /// Packets per second of one worker, the ports' work included.
    pub rate: f64,
    /// The node.
    pub node: String,
    /// Its ticks, per packet that passes it.
    pub ticks: Figure,
    /// The cycles of VPP's node on a machine of this kind, if known.
    pub vpp: Option<u32>,
    /// The target for the node's ticks.
    pub target: Option<Target>,
}

/// The ticks of a node in a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GuideNode {
    /// The case.
    pub case: String,
    /// The node.
    pub node: String,
    /// Its ticks, per packet that passes it.
    pub ticks: Figure,
    /// The guide's nodes that do this.
    pub their_node: String,
    /// Their clocks.
    pub theirs: Option<f64>,
}

/// The direction in which interfaces have lists.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Where {
    Input,
    Output,
    Allow,
    /// On one of the two interfaces, as the guide does.
    AllowOne,
}

struct Case {
    name: &'static str,
    place: Where,
    /// Which list, if it is a list.
    list: u16,
    /// The guide's figures, of IPv4.
    theirs: Option<Theirs>,
    vpp: Option<u32>,
    target: Option<f64>,
}

const CASES: [Case; 7] = [
    Case {
        name: "input, stateless, 3 rules",
        place: Where::Input,
        list: 0,
        theirs: Some(Theirs { base: Some(136), with: Some(273), node: 175.0 }),
        vpp: None,
        target: None,
    },
    Case {
        name: "output, stateless, 12 rules",
        place: Where::Output,
        list: 1,
        theirs: Some(Theirs { base: None, with: None, node: 178.0 }),
        vpp: None,
        target: None,
    },
    Case {
        name: "input, stateful, 3 rules",
        place: Where::Input,
        list: 3,
        theirs: Some(Theirs { base: Some(136), with: Some(226), node: 101.0 }),
        vpp: None,
        target: None,
    },
    Case {
        name: "output, stateful, 12 rules",
        place: Where::Output,
        list: 4,
        theirs: Some(Theirs { base: None, with: None, node: 104.0 }),
        vpp: None,
        target: None,
    },
    Case {
        name: "input, stateless, 1 rule",
        place: Where::Input,
        list: 2,
        theirs: None,
        vpp: Some(62),
        target: Some(15.0),
    },
    Case {
        name: "allowlist, one way",
        place: Where::AllowOne,
        list: 0,
        theirs: Some(Theirs { base: Some(132), with: Some(165), node: 19.8 + 32.4 }),
        vpp: None,
        target: None,
    },
    Case {
        name: "allowlist, both ways",
        place: Where::Allow,
        list: 0,
        theirs: None,
        vpp: Some(17),
        target: Some(10.0),
    },
];

/// The guide's figures for forwarding alone: cycles and millions of packets per second, beside lists and beside
/// allowlists.
pub(super) const THEIR_BASES: [(u32, f64); 2] = [(136, 18.26), (132, 18.81)];

/// Measures the table for a family.
pub(super) fn measure<K: Ip>(effort: &Effort) -> Result<Guide, Error> {
    let plain = gateway::<K>();
    let mut run = Run::new(&plain)?;
    run.add(&plain, &[], Outcome::Forwarded)?;
    let nodes = Nodes::of::<K>();
    for case in &CASES {
        let mut model = plain.clone();
        enable(&mut model, case);
        run.add(&model, &[nodes.policy(case.place)], Outcome::Forwarded)?;
    }
    let samples = run.turns(effort.turns, effort.windows, FLOWS as usize)?;
    let (base, others) = samples.split_first().expect("the first has no policy");
    let v4 = K::BITS == 32;
    let mut rows = Vec::new();
    let mut each = Vec::new();
    for (case, samples) in CASES.iter().zip(others) {
        let node = nodes.policy(case.place);
        let ticks = samples.node(node);
        let theirs = case.theirs.filter(|_| v4);
        rows.push(GuideRow {
            case: case.name.to_owned(),
            theirs,
            with: samples.graph(),
            added: samples.added(base),
            rate: samples.rate(),
            node: node.name().to_owned(),
            ticks,
            vpp: case.vpp.filter(|_| v4),
            target: case.target.map(|most| Target::at_most(most, ticks.median)),
        });
        for node in samples.nodes() {
            let (their_node, clocks) = match theirs {
                Some(_) => their_node(case, node),
                None => ("", None),
            };
            each.push(GuideNode {
                case: case.name.to_owned(),
                node: node.name().to_owned(),
                ticks: samples.node(node),
                their_node: their_node.to_owned(),
                theirs: clocks,
            });
        }
    }
    Ok(Guide {
        family: K::NAME.to_owned(),
        flows: FLOWS,
        size: K::SIZE,
        base: base.graph(),
        base_rate: base.rate(),
        rows,
        nodes: each,
    })
}

/// The policy nodes of a family.
struct Nodes {
    input: Node,
    output: Node,
    allow: Node,
}

impl Nodes {
    fn of<K: Ip>() -> Nodes {
        match K::BITS {
            32 => Nodes { input: Node::Ip4AclIn, output: Node::Ip4AclOut, allow: Node::Ip4Allow },
            _ => Nodes { input: Node::Ip6AclIn, output: Node::Ip6AclOut, allow: Node::Ip6Allow },
        }
    }

    /// The node that packets have to pass. Vectors hold packets of both interfaces, and pass a node as a whole.
    fn policy(&self, place: Where) -> Node {
        match place {
            Where::Input => self.input,
            Where::Output => self.output,
            Where::Allow | Where::AllowOne => self.allow,
        }
    }
}

/// Returns the guide's `show runtime` figure for the work of a node of weir: the mean where VPP has two nodes.
fn their_node(case: &Case, node: Node) -> (&'static str, Option<f64>) {
    let own = case.theirs.map(|theirs| theirs.node);
    let (input, lookup, rewrite, output) = match case.place {
        Where::Input => (15.5 + 32.3, 29.1, 24.8, (9.47 + 10.2) / 2.0),
        // Lists for what leaves have it go by `interface-output`.
        Where::Output => (15.6 + 19.5, 28.8, 35.3, 11.3 + (9.22 + 9.75) / 2.0),
        Where::Allow | Where::AllowOne => (15.9 + (31.3 + 22.3) / 2.0, 30.8, 24.7, (10.3 + 9.92) / 2.0),
    };
    match node {
        Node::EthernetInput => ("ethernet-input, ip4-input", Some(input)),
        Node::Ip4AclIn => ("acl-plugin-in-ip4-fa", own),
        Node::Ip4AclOut => ("acl-plugin-out-ip4-fa", own),
        Node::Ip4Allow => ("cop-input, ip4-cop-whitelist", Some(19.8 + 32.4)),
        Node::Ip4Lookup => ("ip4-lookup", Some(lookup)),
        Node::Ip4Rewrite => ("ip4-rewrite", Some(rewrite)),
        Node::Output => ("interface-output", Some(output)),
        _ => ("", None),
    }
}

fn enable(model: &mut Gateway, case: &Case) {
    for (number, interface) in model.interfaces.iter_mut().enumerate() {
        let list = vec![AclIndex(case.list)];
        let own = vec![AllowlistIndex(number as u16)];
        let allow = PerFamily { v4: own.clone(), v6: own };
        match case.place {
            Where::Input => interface.access.acl_in = list,
            Where::Output => interface.access.acl_out = list,
            Where::AllowOne if number > 0 => (),
            Where::Allow | Where::AllowOne => interface.access.allow = allow,
        }
    }
}

/// The plan of a family's gateway: the source and the destination network of packets; a source and a destination that
/// no packet has; each interface's address and a neighbour behind it.
struct Plan {
    networks: [IpNet; 2],
    absent: [IpAddr; 2],
    links: [(IpNet, IpAddr); 2],
}

impl Plan {
    fn of<K: Ip>() -> Plan {
        let net = |text: &str| text.parse::<IpNet>().expect("a constant prefix");
        let address = |text: &str| text.parse::<IpAddr>().expect("a constant address");
        match K::BITS {
            32 => Plan {
                networks: [net("10.10.10.0/24"), net("20.20.20.0/24")],
                absent: [address("30.30.30.1"), address("40.40.40.1")],
                links: [(net("192.0.2.1/24"), address("192.0.2.2")), (net("198.51.100.1/24"), address("198.51.100.2"))],
            },
            _ => Plan {
                networks: [net("2001:db8:10::/64"), net("2001:db8:20::/64")],
                absent: [address("2001:db8:30::1"), address("2001:db8:40::1")],
                links: [
                    (net("2001:db8:1::1/64"), address("2001:db8:1::2")),
                    (net("2001:db8:2::1/64"), address("2001:db8:2::2")),
                ],
            },
        }
    }
}

/// So many rules that no packet matches, then one for each network.
fn list(plan: &Plan, absent: u8) -> Arc<[AclRule]> {
    let host = |address: IpAddr, number: u8| {
        let bits = match address {
            IpAddr::V4(address) => IpAddr::V4((address.to_bits() + u32::from(number)).into()),
            IpAddr::V6(address) => IpAddr::V6((address.to_bits() + u128::from(number)).into()),
        };
        Addresses::Net(IpNet::from(bits))
    };
    let port = || Ports::from(1000..=1000);
    let none = (0..absent).map(|number| AclRule {
        from: host(plan.absent[0], number),
        to: host(plan.absent[1], number),
        transport: Transport::Ports { protocol: UDP, source: port(), destination: port(), flags: None },
        ..AclRule::all(AclAction::Permit, Origin(0))
    });
    let some = plan
        .networks
        .map(|network| AclRule { from: Addresses::Net(network), ..AclRule::all(AclAction::Permit, Origin(0)) });
    none.chain(some).collect()
}

/// The same rules, which open sessions.
fn reflecting(rules: Arc<[AclRule]>) -> Arc<[AclRule]> {
    rules.iter().map(|rule| AclRule { action: AclAction::Reflect, ..rule.clone() }).collect()
}

/// Builds two interfaces that each send to the other's network, without policies.
fn gateway<K: Ip>() -> Gateway {
    let plan = Plan::of::<K>();
    let interface = |number: usize| -> Interface {
        let (from, to) = (plan.networks[number], plan.networks[1 - number]);
        // The first 256 addresses of each.
        let (from, to) = (model::range(from, 255), model::range(to, 255));
        let port = model::udp(from, to, K::SIZE as u32, FLOWS / 2, 1 + number as u64);
        model::interface(["a", "b"][number], port, plan.links[number].0)
    };
    let list = |name: &str, rules: Arc<[AclRule]>| AclList {
        name: name.to_owned(),
        rules,
        default: AclDefault::Next,
        sample: None,
        origin: Origin(0),
    };
    let one = AclRule {
        transport: Transport::Ports {
            protocol: UDP,
            source: Ports::ALL,
            destination: Ports::from(1024..=u16::MAX),
            flags: None,
        },
        ..AclRule::all(AclAction::Permit, Origin(0))
    };
    Gateway {
        interfaces: vec![interface(0), interface(1)],
        routes: (0..2)
            .map(|number| {
                let target = RouteTarget::Via([model::hop(number as u32, plan.links[number].1)].into());
                model::route(plan.networks[number], target)
            })
            .collect(),
        neighbors: (0..2)
            .map(|number| model::neighbor(number as u32, plan.links[number].1, [2, 0, 0, 0, 1, number as u8]))
            .collect(),
        acls: vec![
            list("three", self::list(&plan, 1)),
            list("twelve", self::list(&plan, 10)),
            list("one", [one].into()),
            list("three, stateful", reflecting(self::list(&plan, 1))),
            list("twelve, stateful", reflecting(self::list(&plan, 10))),
        ],
        allowlists: (0..2)
            .map(|number| Allowlist {
                name: format!("of {number}"),
                sources: AllowedSources::Prefixes([(plan.networks[number], Origin(0))].into()),
                origin: Origin(0),
            })
            .collect(),
        ..model::empty()
    }
}
