//! Established flows beside a flood of new sessions, which has half of the packets. The flows are of IPv6 and the flood is of
//! IPv4, so that the nodes of one family have the established packets alone.

use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_packet::vector::VECTOR;
use weir_packet::wire::MacAddress;
use weir_plane::bench::Bench;
use weir_plane::model::{AclRule, Gateway, InterfaceKind};
use weir_plane::node::Node;
use weir_port::spec::{GeneratorSpec, PortSpec, StreamSource, StreamSpec};

use super::hits::ticks;
use super::plan::{Plan, Version};
use crate::report::figure::{Figure, Target};
use crate::turns::WINDOW;
use crate::{Error, frames, model};

/// Established flows, half of them each way.
pub(super) const FLOWS: u32 = 10_000;
/// Flows of the flood, of each port.
const FLOOD_FLOWS: u32 = 1 << 20;
/// Packets of the flood until it has filled its share, by half-open sessions.
const FILLING: usize = 2;
/// Octets of a packet behind the header of UDP.
const PAYLOAD: usize = 8;

/// The cost of established packets in a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Floods {
    /// Other sessions, and the flood.
    pub case: String,
    /// Sessions, those of the flood included.
    pub sessions: usize,
    /// Half-open ones among them.
    pub half_open: usize,
    /// Established sessions that are gone.
    pub lost: usize,
    /// Ticks per packet of `ip6-flow`.
    pub node: Figure,
    /// By the same with an empty table.
    pub empty: Figure,
    /// By the same with as many sessions, and no flood.
    pub equal: Option<Figure>,
    /// The target for `empty`.
    pub empty_target: Option<Target>,
    /// The target for `equal`.
    pub target: Option<Target>,
}

/// Measures established flows alone, beside as many sessions as a flood leaves, and beside the flood, which keeps so many
/// half-open sessions.
pub(super) fn measure(half_open: u32, (turns, windows): (usize, usize)) -> Result<Vec<Floods>, Error> {
    // Flows of the flood may be the same: one packet for each does not fill the share.
    let packets = [Some(0), Some(u64::from(half_open) * 11 / 10), None];
    // Half of the packets are of the flood.
    let rounds = (2 * FILLING * half_open as usize).div_ceil(VECTOR);
    let scratch = tempfile::tempdir().map_err(Error::Scratch)?;
    let mut benches = Vec::new();
    for packets in packets {
        let mut bench = Bench::new(&gateway(half_open, packets, scratch.path())?, 1)?;
        bench.window(rounds);
        benches.push((bench, Vec::new()));
    }
    for _ in 0..turns * windows {
        for (bench, costs) in &mut benches {
            let nodes = bench.window(WINDOW);
            let own = nodes.iter().find(|own| own.node == Node::Ip6Flow && own.packets > 0);
            costs.extend(own.map(ticks));
        }
    }
    let by = |costs: &[f64], others: &[f64]| Figure::of(costs.iter().zip(others).map(|(own, other)| own / other));
    let names = ["alone", "beside as many sessions", "beside a flood"];
    let costs: Vec<&Vec<f64>> = benches.iter().map(|(_, costs)| costs).collect();
    let case = |(at, (bench, own)): (usize, &(Bench, Vec<f64>))| {
        let (sessions, half_open) = (bench.sessions().0, bench.half_open());
        let empty = by(own, costs[0]);
        let equal = (at == 2).then(|| by(own, costs[1]));
        Floods {
            case: names[at].to_owned(),
            sessions,
            half_open,
            lost: (FLOWS as usize / 2).saturating_sub(sessions - half_open),
            node: Figure::of(own.iter().copied()),
            empty_target: equal.map(|_| Target::at_most(1.35, empty.median)),
            empty,
            target: equal.map(|own| Target::at_most(1.05, own.median)),
            equal,
        }
    };
    Ok(benches.iter().enumerate().map(case).collect())
}

/// A gateway of both families whose ports bring established flows, and so many packets of a flood; `None`: without an end. A folder
/// keeps the packets of the established flows, which have replies.
fn gateway(half_open: u32, packets: Option<u64>, folder: &Path) -> Result<Gateway, Error> {
    let (plan, flood) = (Plan::of(false), Plan::of(true));
    let mut gateway = plan.gateway(FLOWS);
    let other = flood.gateway(2 * FLOOD_FLOWS);
    gateway.routes.extend(other.routes);
    gateway.neighbors.extend(other.neighbors);
    for (list, other) in gateway.acls.iter_mut().zip(&other.acls) {
        list.rules = list.rules.iter().chain(&*other.rules).cloned().collect::<Vec<AclRule>>().into();
    }
    for ((number, interface), other) in gateway.interfaces.iter_mut().enumerate().zip(other.interfaces) {
        let mac = MacAddress([2, 0, 0, 0, 0xff, number as u8]);
        (interface.mac, interface.addresses) = (Some(mac), [&interface.addresses[..], &other.addresses[..]].concat());
        let frames = (0..FLOWS / 2).map(|flow| {
            let at = |network: usize| model::range(plan.networks[network], flow as u16).1;
            let ports = (1024 + flow as u16, 2048 + flow as u16);
            match number {
                0 => frames::udp(mac, (at(0), at(1)), ports, PAYLOAD),
                _ => frames::udp(mac, (at(1), at(0)), (ports.1, ports.0), PAYLOAD),
            }
        });
        let established = streams(frames::looped(&frames::capture(folder, &format!("{number}.pcap"), frames)?));
        let of_flood = match other.kind {
            InterfaceKind::Port { port, .. } if packets != Some(0) => streams(port),
            _ => Vec::new(),
        };
        let of_flood = of_flood.into_iter().map(|mut own| {
            if let StreamSource::Template(template) = &mut own.source {
                template.destination_mac = Some(mac.0);
            }
            StreamSpec { count: packets.map(|all| all / 2), ..own }
        });
        let port = PortSpec::Generator(GeneratorSpec { streams: established.into_iter().chain(of_flood).collect() });
        interface.kind = model::interface("", port, plan.links[number].0).kind;
    }
    plan.apply(&mut gateway, &Version { sessions: true, fast: true, ..Version::policies("sessions, fast path") });
    gateway.flow_table.sessions = FLOWS + 2 * half_open;
    gateway.flow_table.half_open = half_open;
    // No session ends for its time.
    gateway.flow_table.timeouts.all().for_each(|(_, time)| *time = Duration::from_secs(86_400));
    Ok(gateway)
}

/// The streams of a port.
fn streams(port: PortSpec) -> Vec<StreamSpec> {
    match port {
        PortSpec::Generator(GeneratorSpec { streams }) => streams,
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_fills_its_share_and_ends_no_established_session() {
        let of_flood = 10_000;
        let floods = measure(of_flood, (1, 2)).unwrap();
        assert!(floods.iter().all(|own| own.node.median > 0.0), "{floods:?}");
        let of = |at: usize| (floods[at].sessions, floods[at].half_open, floods[at].lost);
        let (own, of_flood) = (FLOWS as usize / 2, of_flood as usize);
        assert_eq!(of(0), (own, 0, 0), "alone");
        assert_eq!(of(1), (own + of_flood, of_flood, 0), "beside as many sessions");
        assert_eq!(of(2), (own + of_flood, of_flood, 0), "beside a flood");
    }
}
