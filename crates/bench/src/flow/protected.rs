//! Flows that a policy protects, with the fast path and without. The gateway is its own peer: it encrypts each packet, decrypts it
//! and sends it on, so that both kinds of decisions are taken.

use serde::{Deserialize, Serialize};
use weir_plane::model::{
    AclAction, AclDefault, AclIndex, AclList, AclRule, FastPath, Gateway, Origin, Ports, SpdAction, SpdRule, Transport,
};
use weir_plane::node::Node;

use crate::Error;
use crate::esp::captures::LINK;
use crate::esp::{Networks, Plan};
use crate::report::figure::Figure;
use crate::turns::{Outcome, Run};

/// Rules of each list, and policies of the SPD.
const RULES: u16 = 1000;

/// Flows of UDP.
const FLOWS: u32 = 10_000;

/// The cost of a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Protected {
    /// `ipv4` or `ipv6`: the family of inner and outer header.
    pub family: String,
    /// Octets from the inner IP header on.
    pub octets: u32,
    /// Flows of UDP.
    pub flows: u32,
    /// Packets take decisions.
    pub fast_path: bool,
    /// Ticks per packet of all nodes, both ways.
    pub total: Figure,
    /// By the same without the fast path.
    pub ratio: Figure,
    /// Inner octets, in Gbit/s of one worker that encrypts and decrypts each packet.
    pub gbps: f64,
}

/// Measures both cases of a length.
pub(super) fn measure(v4: bool, octets: u32, turns: usize, windows: usize) -> Result<Vec<Protected>, Error> {
    let off = gateway(v4, octets)?;
    let mut on = off.clone();
    on.flow_table.enabled = FastPath::On;
    let [acl_in, acl_out, out, flow] = match v4 {
        true => [Node::Ip4AclIn, Node::Ip4AclOut, Node::Ip4SpdOut, Node::Ip4Flow],
        false => [Node::Ip6AclIn, Node::Ip6AclOut, Node::Ip6SpdOut, Node::Ip6Flow],
    };
    let mut run = Run::new(&off)?;
    run.add(&off, &[acl_in, acl_out, out, Node::EspEncrypt, Node::EspDecrypt], Outcome::Forwarded)?;
    run.add(&on, &[flow, Node::EspEncrypt, Node::EspDecrypt], Outcome::Forwarded)?;
    let samples = run.turns(turns, windows, FLOWS as usize + FLOWS as usize / 2)?;
    let case = |(fast_path, own): (bool, &crate::turns::Samples)| Protected {
        family: if v4 { "ipv4" } else { "ipv6" }.to_owned(),
        octets,
        flows: FLOWS,
        fast_path,
        total: own.graph(),
        ratio: own.against(&samples[0], |own, off| own.graph / off.graph),
        gbps: own.rate() * f64::from(octets) * 8.0 / 1e9,
    };
    Ok([false, true].into_iter().zip(&samples).map(case).collect())
}

/// A gateway with one SA, the policy of which is the last of the SPD, and lists for ingress and egress.
fn gateway(v4: bool, octets: u32) -> Result<Gateway, Error> {
    debug_assert!(octets > LINK);
    let plan = Plan::one(v4);
    let mut gateway = Networks::of(v4).gateway(plan, FLOWS, octets)?;
    // No packet has these ports.
    let ports = |number: u16| Transport::Ports {
        protocol: 17,
        source: Ports::ALL,
        destination: Ports::from(number..=number),
        flags: None,
    };
    let none = |number: u16, action| AclRule { transport: ports(number), ..AclRule::all(action, Origin(0)) };
    let rules = (1..RULES).map(|number| none(number, AclAction::Deny));
    gateway.acls = vec![AclList {
        name: "list".to_owned(),
        rules: rules.chain([AclRule::all(AclAction::Permit, Origin(0))]).collect(),
        default: AclDefault::Action(AclAction::Deny),
        sample: None,
        origin: Origin(0),
    }];
    for interface in &mut gateway.interfaces[..2] {
        interface.access.acl_in = vec![AclIndex(0)];
        interface.access.acl_out = vec![AclIndex(0)];
    }
    let [spd] = &mut gateway.spds[..] else { return Ok(gateway) };
    let Some(last) = spd.rules.first().cloned() else { return Ok(gateway) };
    let other = |number| SpdRule::new(SpdAction::Bypass, none(number, AclAction::Permit));
    spd.rules = (1..RULES).map(other).chain([last]).collect();
    gateway.flow_table.flows = 4 * FLOWS;
    Ok(gateway)
}
