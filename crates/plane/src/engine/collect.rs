//! From workers' counters to plain values, and the difference between two readings.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use weir_base::clock::Time;
use weir_port::PortCounters;

use std::sync::atomic::{AtomicU64, Ordering};

use crate::compile::Map;
use crate::engine::alarm::Reading;
use crate::graph::counters::WorkerCounters;
use crate::model::{Gateway, PerFamily, SavIndex};
use crate::node::Node;
use crate::reason::Reason;
use crate::root::InterfaceCounters;
use crate::root::counters::{Counter, TrafficCounter};
use crate::root::sav::{By, PLACES, SavCounters, Sources, Spoofed};
use crate::root::{Interface, Root};
use crate::stats::{
    Conservation, DropStats, EthertypeStats, InterfaceStats, InvalidSourceRow, InvalidSources, NodeStats, SamplerStats,
    SavInterfaceStats, Snapshot, Traffic, WorkerStats,
};

/// Adds up where all packets of these workers went.
pub(crate) fn conservation<'a>(workers: impl Iterator<Item = &'a WorkerCounters>) -> Conservation {
    let mut sum = Conservation::default();
    let (mut out, mut taken) = (0, 0);
    for worker in workers {
        taken += worker.handed_in.value() + worker.dequeued.value() + worker.ended.value() + worker.released.value();
        taken += worker.settled.value() + worker.resumed.value();
        out += worker.handed_out.value() + worker.queued.value() + worker.begun.value() + worker.held_fragments.value();
        out += worker.entrusted.value() + worker.deferred.value();
        sum.transmitted += worker.transmitted.value();
        sum.local += worker.local.value();
        sum.dropped += worker.dropped();
        sum.absorbed += worker.absorbed.value();
        sum.created += worker.created.value();
        sum.received += worker.received.value();
    }
    sum.held = out.saturating_sub(taken);
    sum
}

/// A worker's runtime since its start.
pub(crate) fn worker(number: usize, core: Option<usize>, asleep: bool, counters: &WorkerCounters) -> WorkerStats {
    let nodes = Node::ALL.iter().zip(&counters.nodes);
    let sleeps = counters.sleeps.value();
    WorkerStats {
        worker: number,
        core,
        nodes: nodes
            .map(|(node, counters)| NodeStats {
                name: node.name(),
                state: if asleep && node.is_input() { "sleeping" } else { node.state() },
                calls: counters.calls.value(),
                packets: counters.packets.value(),
                // A worker is suspended as a whole, where it takes its packets.
                suspends: if *node == Node::Rx { sleeps } else { 0 },
                ticks: counters.ticks.value(),
                by_packets: counters.by_packets.iter().map(Counter::value).collect(),
                by_ticks: counters.by_ticks.iter().map(Counter::value).collect(),
            })
            .collect(),
        received: counters.received.value(),
        transmitted: counters.transmitted.value(),
        dropped: counters.dropped(),
        local: counters.local.value(),
        events_lost: counters.events_lost.value(),
        loops: counters.loops.value(),
        idle_loops: counters.idle_loops.value(),
        sleeps,
        asleep,
    }
}

/// Drops by reason, over all workers.
pub(crate) fn drops<'a>(workers: impl Iterator<Item = &'a WorkerCounters>) -> Vec<DropStats> {
    let mut packets = [0; Reason::COUNT];
    for worker in workers {
        for (sum, counter) in packets.iter_mut().zip(&worker.drops) {
            *sum += counter.value();
        }
    }
    let row = |(reason, packets): (&Reason, u64)| DropStats {
        reason: reason.name().into(),
        description: reason.description().into(),
        severity: reason.severity().name().into(),
        node: reason.node().into(),
        packets,
    };
    Reason::ALL.iter().zip(packets).map(row).collect()
}

/// An interface's counters, over all workers; the rest is left empty.
pub(crate) fn interface(workers: &[InterfaceCounters], port: Option<&PortCounters>, faults: bool) -> InterfaceStats {
    let sum = |of: fn(&InterfaceCounters) -> &TrafficCounter| {
        workers.iter().map(of).fold(Traffic::default(), |sum, counter| Traffic {
            packets: sum.packets + counter.packets.value(),
            bytes: sum.bytes + counter.bytes.value(),
        })
    };
    let both = |of: fn(&InterfaceCounters) -> &(Counter, Counter)| {
        workers.iter().map(of).fold((0, 0), |sum, own| (sum.0 + own.0.value(), sum.1 + own.1.value()))
    };
    let read = |of: fn(&PortCounters) -> &AtomicU64| port.map_or(0, |port| of(port).load(Ordering::Relaxed));
    let fault_counts = [
        ("dropped", read(|port| &port.faults.dropped)),
        ("duplicated", read(|port| &port.faults.duplicated)),
        ("reordered", read(|port| &port.faults.reordered)),
        ("corrupted", read(|port| &port.faults.corrupted)),
        ("truncated", read(|port| &port.faults.truncated)),
    ];
    InterfaceStats {
        rx: sum(|counters| &counters.rx),
        tx: sum(|counters| &counters.tx),
        dropped: sum(|counters| &counters.dropped),
        punt: sum(|counters| &counters.punt),
        merged: both(|counters| &counters.merged),
        cut: both(|counters| &counters.cut),
        no_buffer: read(|port| &port.no_buffer),
        kernel_drops: read(|port| &port.kernel_drops),
        receive_errors: read(|port| &port.receive_errors),
        transmit_errors: read(|port| &port.transmit_errors),
        faults: if faults { fault_counts.to_vec() } else { Vec::new() },
        ..InterfaceStats::default()
    }
}

/// Returns the counters of the samplers, in the order of the model.
pub(crate) fn samplers(map: &Map, root: &Root) -> Vec<SamplerStats> {
    let compiled = map.samplers.iter().filter_map(|&number| root.samplers.get(number as usize));
    compiled.map(|sampler| sampler.stats()).collect()
}

/// Selects the SAV counters of one family of an interface.
type OfFamily = fn(&InterfaceCounters) -> &SavCounters;

/// Returns the counts of invalid packets for policies with alarms.
pub(crate) fn alarms(model: &Gateway, map: &Map, root: &Root) -> Vec<Reading> {
    let mut readings: Vec<Reading> = Vec::new();
    for (interface, &number) in model.interfaces.iter().zip(&map.interfaces) {
        let Some(compiled) = root.interfaces.get(number as usize) else { continue };
        let families: [(_, OfFamily); 2] =
            [(interface.sav.v4, |counters| &counters.sav.v4), (interface.sav.v6, |counters| &counters.sav.v6)];
        for (own, of) in families {
            let Some(policy) = own.map(|policy| &model.sav[usize::from(policy.0)]) else { continue };
            let Some(alarm) = policy.alarm else { continue };
            let counters = compiled.counters.iter().flat_map(|worker| &of(worker).invalid);
            let packets = counters.map(|counter| counter.packets.value()).sum();
            match readings.last_mut() {
                Some(both) if both.interface == interface.name && both.policy == policy.name => both.packets += packets,
                _ => readings.push(Reading {
                    interface: interface.name.clone(),
                    policy: policy.name.clone(),
                    families: PerFamily { v4: interface.sav.v4 == own, v6: interface.sav.v6 == own },
                    alarm,
                    packets,
                }),
            }
        }
    }
    readings
}

/// Returns the SAV counters of interfaces that have or had a policy.
pub(crate) fn sav(model: &Gateway, map: &Map, root: &Root) -> Vec<SavInterfaceStats> {
    let mut rows = Vec::new();
    for (interface, &number) in model.interfaces.iter().zip(&map.interfaces) {
        let Some(compiled) = root.interfaces.get(number as usize) else { continue };
        let name = |policy: SavIndex| model.sav[usize::from(policy.0)].name.as_str();
        rows.extend(sav_rows(compiled, [interface.sav.v4.map(name), interface.sav.v6.map(name)]));
    }
    rows
}

/// Returns the EtherType counters of interfaces that have a list of EtherTypes or have refused frames by one. `cleared`
/// is the state at the last clearing of the counters.
pub(crate) fn ethertypes(model: &Gateway, map: &Map, root: &Root, cleared: &RefusedEthertypes) -> Vec<EthertypeStats> {
    let mut rows = Vec::new();
    for (interface, &number) in model.interfaces.iter().zip(&map.interfaces) {
        let Some(compiled) = root.interfaces.get(number as usize) else { continue };
        let refused = refused_ethertypes(compiled);
        let before = cleared.get(&compiled.name).copied().unwrap_or_default();
        let both = [
            ("in", &interface.access.ethertypes_in, refused.0 - before.0),
            ("out", &interface.access.ethertypes_out, refused.1 - before.1),
        ];
        let shown = both.into_iter().filter(|(_, ethertypes, refused)| ethertypes.is_some() || *refused > 0);
        rows.extend(shown.map(|(direction, ethertypes, refused)| {
            EthertypeStats {
                interface: interface.name.clone(),
                direction,
                ethertypes: ethertypes.as_ref().map(|of| of.types.clone()),
                refused,
                origin: (ethertypes.as_ref().and_then(|of| model.origins.place(of.origin)))
                    .map_or_else(String::new, |place| place.to_string()),
            }
        }));
    }
    rows
}

/// Frames that interfaces refused for their ethertypes, by the name of the interface: in, and out.
pub(crate) type RefusedEthertypes = HashMap<Arc<str>, (u64, u64)>;

/// Returns the refused EtherTypes by interface. Interfaces that were removed are included: they may return, and their
/// counters with them.
pub(crate) fn all_refused_ethertypes(root: &Root) -> RefusedEthertypes {
    root.interfaces.iter().map(|interface| (Arc::clone(&interface.name), refused_ethertypes(interface))).collect()
}

fn refused_ethertypes(interface: &Interface) -> (u64, u64) {
    let both = |(incoming, outgoing), worker: &InterfaceCounters| {
        (incoming + worker.ethertypes.0.value(), outgoing + worker.ethertypes.1.value())
    };
    interface.counters.iter().fold((0, 0), both)
}

/// The same of interfaces that are away.
pub(crate) fn sav_of_absent(root: &Root) -> impl Iterator<Item = SavInterfaceStats> {
    root.interfaces.iter().filter(|interface| !interface.present).flat_map(|interface| sav_rows(interface, [None; 2]))
}

/// Returns the SAV counters of an interface for each family with a policy, now or before.
fn sav_rows<'a>(
    interface: &'a Interface,
    policies: [Option<&'a str>; 2],
) -> impl Iterator<Item = SavInterfaceStats> + 'a {
    let families: [(&str, OfFamily); 2] =
        [("ipv4", |counters| &counters.sav.v4), ("ipv6", |counters| &counters.sav.v6)];
    families.into_iter().zip(policies).filter_map(move |((family, of), policy)| {
        let sum = |of_one: &dyn Fn(&SavCounters) -> u64| -> u64 {
            interface.counters.iter().map(|worker| of_one(of(worker))).sum()
        };
        let checked = sum(&|counters| counters.checked.value());
        let invalid = |by: By| Traffic {
            packets: sum(&|counters| counters.invalid[by as usize].packets.value()),
            bytes: sum(&|counters| counters.invalid[by as usize].bytes.value()),
        };
        (policy.is_some() || checked > 0).then(|| SavInterfaceStats {
            interface: interface.name.to_string(),
            family,
            policy: policy.unwrap_or_default().to_owned(),
            checked,
            unknown: sum(&|counters| counters.unknown.value()),
            exempt: sum(&|counters| counters.exempt.value()),
            limited: sum(&|counters| counters.limited.value()),
            redirected: sum(&|counters| counters.redirected.value()),
            invalid: By::ALL.iter().map(|&by| (by.name(), invalid(by))).collect(),
        })
    })
}

/// Where packets came from that were entered in these tables, one of each worker, at a time.
pub(crate) fn invalid_sources<'a>(tables: impl Iterator<Item = &'a Sources>, root: &Root, now: Time) -> InvalidSources {
    let mut all = InvalidSources { limit: PLACES, ..InvalidSources::default() };
    let mut sums: HashMap<(u32, IpNet, By), Spoofed> = HashMap::new();
    for table in tables {
        all.octets += Sources::octets();
        let lost = table.lost();
        all.lost.0 += lost.prefixes;
        all.lost.1.packets += lost.packets;
        all.lost.1.bytes += lost.octets;
        for row in table.read() {
            sums.entry((row.interface, row.prefix(), row.by)).and_modify(|sum| sum.merge(&row)).or_insert(row);
        }
    }
    let mut rows: Vec<Spoofed> = sums.into_values().collect();
    rows.sort_unstable_by_key(|row| (Reverse(row.packets), row.interface, row.prefix(), row.by as u8));
    all.rows.extend(rows.into_iter().filter_map(|row| {
        Some(InvalidSourceRow {
            interface: root.interfaces.get(row.interface as usize)?.name.to_string(),
            prefix: row.prefix(),
            seen: row.seen(),
            source: row.source,
            traffic: Traffic { packets: row.packets, bytes: row.octets },
            by: row.by.name(),
            age: Duration::from_nanos(now.since(row.last)),
        })
    }));
    all
}

/// A reading less the readings at which its parts were last cleared. Conservation is never cleared: packets under way at
/// that moment would be missing from one side of it.
pub(crate) fn since(
    mut now: Snapshot,
    runtime: &Snapshot,
    errors: &Snapshot,
    interfaces: &Snapshot,
    sav: &[SavInterfaceStats],
    elapsed: f64,
) -> Snapshot {
    now.elapsed = elapsed;
    for (worker, before) in now.workers.iter_mut().zip(&runtime.workers) {
        for (node, before) in worker.nodes.iter_mut().zip(&before.nodes) {
            node.calls -= before.calls;
            node.packets -= before.packets;
            node.suspends -= before.suspends;
            node.ticks -= before.ticks;
            let classes = node.by_packets.iter_mut().chain(&mut node.by_ticks);
            for (class, before) in classes.zip(before.by_packets.iter().chain(&before.by_ticks)) {
                *class -= before;
            }
        }
        worker.received -= before.received;
        worker.transmitted -= before.transmitted;
        worker.dropped -= before.dropped;
        worker.local -= before.local;
        worker.events_lost -= before.events_lost;
        worker.loops -= before.loops;
        worker.idle_loops -= before.idle_loops;
        worker.sleeps -= before.sleeps;
    }
    for (reason, before) in now.drops.iter_mut().zip(&errors.drops) {
        reason.packets -= before.packets;
    }
    for interface in &mut now.interfaces {
        if let Some(before) = interfaces.interfaces.iter().find(|before| before.name == interface.name) {
            subtract(interface, before);
        }
    }
    for row in &mut now.sav {
        let same = |before: &&SavInterfaceStats| (&before.interface, before.family) == (&row.interface, row.family);
        let Some(before) = sav.iter().find(same) else { continue };
        row.checked -= before.checked;
        row.unknown -= before.unknown;
        row.exempt -= before.exempt;
        row.limited -= before.limited;
        row.redirected -= before.redirected;
        for ((_, now), (_, before)) in row.invalid.iter_mut().zip(&before.invalid) {
            now.packets -= before.packets;
            now.bytes -= before.bytes;
        }
    }
    now
}

/// An interface whose port was replaced since has counters of its port that began anew: those are never below 0.
fn subtract(interface: &mut InterfaceStats, before: &InterfaceStats) {
    for (now, before) in [
        (&mut interface.rx, before.rx),
        (&mut interface.tx, before.tx),
        (&mut interface.dropped, before.dropped),
        (&mut interface.punt, before.punt),
    ] {
        now.packets -= before.packets;
        now.bytes -= before.bytes;
    }
    for (now, before) in [(&mut interface.merged, before.merged), (&mut interface.cut, before.cut)] {
        *now = (now.0 - before.0, now.1 - before.1);
    }
    interface.no_buffer = interface.no_buffer.saturating_sub(before.no_buffer);
    interface.kernel_drops = interface.kernel_drops.saturating_sub(before.kernel_drops);
    interface.receive_errors = interface.receive_errors.saturating_sub(before.receive_errors);
    interface.transmit_errors = interface.transmit_errors.saturating_sub(before.transmit_errors);
    if let (Some(now), Some(before)) = (&mut interface.punt_device, &before.punt_device) {
        now.failed = now.failed.saturating_sub(before.failed);
    }
    for (now, before) in interface.faults.iter_mut().zip(&before.faults) {
        now.1 = now.1.saturating_sub(before.1);
    }
}
