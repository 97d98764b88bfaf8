//! Hits while routes change.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use weir_packet::vector::VECTOR;
use weir_plane::bench::Bench;
use weir_plane::model::{Gateway, RouteTarget};
use weir_plane::node::Node;

use crate::report::figure::Target;
use crate::{Error, model};

/// Changes of routes a second.
pub(super) const RATE: f64 = 1000.0;

/// The share of packets that take a decision while routes to hosts of the flows come and go.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Routes {
    /// `ipv4` or `ipv6`.
    pub family: String,
    /// Flows, half of them each way.
    pub flows: u32,
    /// Changes of two routes each: one comes, one goes.
    pub changes: usize,
    /// Vectors between two changes: so many as the worker forwards in a thousandth of a second.
    pub vectors: usize,
    /// Percent of packets that took a decision.
    pub hits: f64,
    /// Ticks per packet of the flow node, all packets.
    pub ticks: f64,
    /// The target for `hits`.
    pub target: Target,
}

impl Routes {
    /// Measures a gateway whose flows have all been decided; `rate` is its packets a second while nothing changes. Hosts are
    /// those of a network whose packets take a hop.
    pub(super) fn measure(
        bench: &mut Bench,
        mut gateway: Gateway,
        (network, hop): (IpNet, RouteTarget),
        (flows, rate, changes): (u32, f64, usize),
    ) -> Result<Routes, Error> {
        let vectors = ((rate / RATE) as usize / VECTOR).max(1);
        let root = bench.compile(&gateway)?;
        bench.enforce(&root);
        bench.window(2 * flows as usize / VECTOR);
        let node = if network.addr().is_ipv4() { Node::Ip4Flow } else { Node::Ip6Flow };
        let before = bench.fast_path();
        let (mut packets, mut ticks) = (0, 0);
        for number in 0..changes {
            gateway.routes.truncate(2);
            // An odd step visits all hosts.
            let prefix = IpNet::from(host(network, (number * 40_503) as u16));
            gateway.routes.push(model::route(prefix, hop.clone()));
            let root = bench.compile(&gateway)?;
            bench.enforce(&root);
            for own in bench.window(vectors).iter().filter(|own| own.node == node) {
                packets += own.packets;
                ticks += own.ticks;
            }
        }
        let hits = 100.0 * (bench.fast_path().hits - before.hits) as f64 / packets as f64;
        Ok(Routes {
            family: if network.addr().is_ipv4() { "ipv4" } else { "ipv6" }.to_owned(),
            flows,
            changes,
            vectors,
            hits,
            ticks: ticks as f64 / packets as f64,
            target: Target::at_least(99.0, hits),
        })
    }
}

/// A host of a network.
fn host(network: IpNet, number: u16) -> IpAddr {
    match network.network() {
        IpAddr::V4(first) => (u32::from(first) + u32::from(number)).to_be_bytes().into(),
        IpAddr::V6(first) => (u128::from(first) + u128::from(number)).to_be_bytes().into(),
    }
}
