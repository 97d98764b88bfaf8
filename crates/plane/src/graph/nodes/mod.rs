//! The nodes: each sees a vector, the root and its worker's own state, and nothing else. No allocation, no lock, no log
//! line, no system call.

mod acl;
mod allow;
mod arp_input;
mod bridge;
mod captured;
mod classify;
mod context;
mod discard;
mod esp;
mod ethernet_input;
mod fields;
mod flow;
mod fragment;
mod frame_input;
mod handover;
mod host_input;
mod icmp_error;
mod ip_input;
mod limit;
mod link;
mod link_local;
mod local;
mod lookup;
mod mac_ip;
mod merging;
mod mss;
mod nat;
mod nd_input;
mod neighbor;
mod next_hop;
mod options;
mod output;
mod piece;
mod plain;
mod punt;
mod rewrite;
mod route;
mod sav;
mod savi;
mod scope;
mod session;
mod snoop;
mod spd;
mod stage;
mod steer;
mod supers;
mod transmission;
mod tunnel;
mod wire;

use weir_packet::vector::{Indices, Vector};

pub(crate) use bridge::Upkeep;
pub(crate) use captured::{emerged, enter};
use context::Answer;
pub(crate) use context::{Context, Limits, Next};
pub(crate) use discard::discard;
pub(crate) use esp::originate;
pub(crate) use fields::matches;
pub(crate) use lookup::decide;
pub(crate) use merging::cut;
pub(crate) use sav::redirect_again;
pub(crate) use stage::{Stage, UNSTEERED, entry, steer_again as unsteered};
pub(crate) use steer::leave as steer_again;

use crate::graph::batch::Batches;
use crate::node::Node;

/// Runs a node. `pieces` holds fragments and copies on their way out, and is empty between nodes. `batches`: memory for fields.
#[inline]
pub(crate) fn run(
    node: Node,
    context: &mut Context<'_>,
    (pieces, batches): (&mut Vector, &mut Batches),
    vector: &mut Vector,
    frame: &Indices,
) {
    match node {
        // Inputs are run by the worker itself: nothing is ever sent to them.
        Node::Rx | Node::HandoverInput | Node::FlowAge => {}
        Node::EthernetInput => ethernet_input::run(context, vector, frame),
        Node::IpInput => frame_input::run(context, vector, frame),
        Node::BridgeInput => bridge::input(context, vector, frame),
        Node::HostInput => host_input::run(context, pieces, vector, frame),
        Node::ArpInput => arp_input::run(context, pieces, vector, frame),
        Node::NdInput => nd_input::run(context, pieces, vector, frame),
        Node::Ip4Steer => steer::run::<u32>(context, batches, vector, frame),
        Node::Ip6Steer => steer::run::<u128>(context, batches, vector, frame),
        Node::Handover => handover::run(context, vector, frame),
        Node::Ip4Flow => flow::run::<u32>(context, vector, frame),
        Node::Ip6Flow => flow::run::<u128>(context, vector, frame),
        Node::Ip4Sav => sav::run::<u32>(context, batches, vector, frame),
        Node::Ip6Sav => sav::run::<u128>(context, batches, vector, frame),
        Node::Ip4AclIn => acl::run::<u32, acl::Input>(context, batches, vector, frame),
        Node::Ip6AclIn => acl::run::<u128, acl::Input>(context, batches, vector, frame),
        Node::Ip4NatOut => nat::output::<u32>(context, vector, frame),
        Node::Ip6NatOut => nat::output::<u128>(context, vector, frame),
        Node::Ip4AclOut => acl::run::<u32, acl::Output>(context, batches, vector, frame),
        Node::Ip6AclOut => acl::run::<u128, acl::Output>(context, batches, vector, frame),
        Node::Ip4MacIp => mac_ip::run::<u32>(context, vector, frame),
        Node::Ip6MacIp => mac_ip::run::<u128>(context, vector, frame),
        Node::Ip4Allow => allow::run::<u32>(context, batches, vector, frame),
        Node::Ip6Allow => allow::run::<u128>(context, batches, vector, frame),
        Node::Ip4Classify => classify::run::<u32, false>(context, vector, frame),
        Node::Ip6Classify => classify::run::<u128, false>(context, vector, frame),
        Node::Ip4ClassifyOut => classify::run::<u32, true>(context, vector, frame),
        Node::Ip6ClassifyOut => classify::run::<u128, true>(context, vector, frame),
        Node::Ip4SpdIn => spd::run::<u32, false>(context, vector, frame),
        Node::Ip6SpdIn => spd::run::<u128, false>(context, vector, frame),
        Node::Ip4NatIn => nat::input::<u32>(context, vector, frame),
        Node::Ip6NatIn => nat::input::<u128>(context, vector, frame),
        Node::Ip4Lookup => lookup::ipv4(context, vector, frame),
        Node::Ip6Lookup => lookup::ipv6(context, vector, frame),
        Node::EspDecrypt => esp::decrypt(context, vector, frame),
        Node::EspEncrypt => esp::encrypt(context, vector, frame),
        Node::TunnelDecap => tunnel::decap(context, vector, frame),
        Node::TunnelEncap => tunnel::encap(context, vector, frame),
        Node::BridgeForward => bridge::forward(context, pieces, vector, frame),
        Node::Neighbor => neighbor::run(context, vector, frame),
        Node::Ip4SpdOut => spd::run::<u32, true>(context, vector, frame),
        Node::Ip6SpdOut => spd::run::<u128, true>(context, vector, frame),
        Node::Ip4Rewrite => rewrite::run::<u32>(context, vector, frame),
        Node::Ip6Rewrite => rewrite::run::<u128>(context, vector, frame),
        Node::Ip4Fragment => fragment::run::<u32>(context, pieces, vector, frame),
        Node::Ip6Fragment => fragment::run::<u128>(context, pieces, vector, frame),
        Node::Local => local::run(context, pieces, vector, frame),
        Node::Punt => punt::run(context, vector, frame),
        Node::IcmpError => icmp_error::run(context, vector, frame),
        Node::BridgeOutput => bridge::output(context, pieces, vector, frame),
        Node::Output => output::run(context, vector, frame),
        Node::Drop => discard::run(context, vector, frame),
    }
}
