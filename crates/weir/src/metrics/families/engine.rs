//! The gateway itself: workers, nodes, drop reasons, buffers, tables.

use weir_plane::graph::counters::{tick_bound, vector_bound};
use weir_plane::stats::{NodeStats, Snapshot, TableStats, WorkerStats};

use super::super::family::Kind::{Counter, Gauge, Histogram, Info};
use super::super::family::{Classes, Family, Table, Value};
use crate::render::version::Version;

const WORKERS: Table<WorkerStats> = Table {
    labels: "worker",
    columns: &[
        (Counter, "weir_worker_received_packets", "Packets received from ports.", |w| w.received.into()),
        (Counter, "weir_worker_transmitted_packets", "Packets that ports took.", |w| w.transmitted.into()),
        (Counter, "weir_worker_dropped_packets", "Packets dropped.", |w| w.dropped.into()),
        (Counter, "weir_worker_local_packets", "Packets delivered to the gateway itself.", |w| w.local.into()),
        (Counter, "weir_worker_loops", "Rounds of the main loop.", |w| w.loops.into()),
        (Counter, "weir_worker_idle_loops", "Rounds of the main loop without work.", |w| w.idle_loops.into()),
        (Counter, "weir_worker_sleeps", "Times that the worker went to sleep.", |w| w.sleeps.into()),
        (Counter, "weir_worker_events_lost", "Events for which the control thread had no room.", |w| {
            w.events_lost.into()
        }),
        (Gauge, "weir_worker_asleep", "1 while the worker sleeps.", |w| w.asleep.into()),
    ],
};

const NODES: Table<(usize, NodeStats)> = Table {
    labels: "worker,node",
    columns: &[
        (Counter, "weir_node_calls", "Vectors that the node processed.", |n| n.1.calls.into()),
        (Counter, "weir_node_packets", "Packets that the node processed.", |n| n.1.packets.into()),
        (Counter, "weir_node_ticks", "Ticks of the time-stamp counter spent in the node.", |n| n.1.ticks.into()),
        (Histogram, "weir_node_vector_packets", "Vectors of the node, by their packets.", |n| {
            let bounds = (0..n.1.by_packets.len()).map(|class| vector_bound(class) as f64);
            classes(n.1.packets as f64, bounds, &n.1.by_packets)
        }),
        // A sum of quotients is not counted: the sum is that of a vector whose packets all cost the mean.
        (Histogram, "weir_node_packet_ticks", "Vectors of the node, by their ticks per packet.", |n| {
            let bounds =
                (0..n.1.by_ticks.len()).map(|class| tick_bound(class).map_or(f64::INFINITY, |bound| bound as f64));
            let mean = if n.1.packets == 0 { 0.0 } else { n.1.ticks as f64 / n.1.packets as f64 };
            let vectors: u64 = n.1.by_ticks.iter().sum();
            classes(mean * vectors as f64, bounds, &n.1.by_ticks)
        }),
    ],
};

/// Vectors by class.
fn classes(sum: f64, bounds: impl Iterator<Item = f64>, counted: &[u64]) -> Value {
    let mut classes: Vec<_> = bounds.zip(counted.iter().copied()).collect();
    if classes.last().is_none_or(|last| last.0 != f64::INFINITY) {
        classes.push((f64::INFINITY, 0));
    }
    Value::Classes(Classes { sum, classes })
}

pub(super) fn read(version: &Version, snapshot: &Snapshot) -> Vec<Family> {
    let mut families = vec![
        Family::new(Info, "weir_build", "version", "The program.").with([version.version.as_str()], Value::None),
        Family::new(
            Gauge,
            "weir_generation",
            "",
            "The generation of what is in force: it rises with reloads, and with live edits but those of access lists.",
        )
        .with([], version.generation),
        Family::new(Gauge, "weir_uptime_seconds", "", "Seconds since the gateway started.").with([], version.uptime),
        Family::new(Gauge, "weir_tick_frequency_hertz", "", "Ticks of the time-stamp counter per second.")
            .with([], snapshot.tick_frequency),
    ];
    families.extend(WORKERS.read(&snapshot.workers, |worker| vec![worker.worker.to_string()]));
    // Nodes that never ran would be most of the series.
    let visited = |worker: &WorkerStats| {
        let number = worker.worker;
        worker.nodes.iter().filter(|node| node.calls > 0).map(move |node| (number, node.clone())).collect::<Vec<_>>()
    };
    let nodes: Vec<_> = snapshot.workers.iter().flat_map(visited).collect();
    families.extend(NODES.read(&nodes, |(worker, node)| vec![worker.to_string(), node.name.to_owned()]));
    families.push(drops(snapshot));
    families.extend(conservation(snapshot));
    families.push(buffers(snapshot));
    families.extend(TABLES.read(&snapshot.tables, |table| vec![table.name.clone()]));
    families
}

fn drops(snapshot: &Snapshot) -> Family {
    let help = "Packets dropped, by reason.";
    let mut family = Family::new(Counter, "weir_drop_packets", "reason,node,severity", help);
    for drop in &snapshot.drops {
        family.push([&*drop.reason, &*drop.node, &*drop.severity], drop.packets);
    }
    family
}

fn conservation(snapshot: &Snapshot) -> [Family; 2] {
    let all = &snapshot.conservation;
    let help = "Where all packets came from and went: received and created; transmitted, local, dropped and absorbed.";
    let mut family = Family::new(Counter, "weir_conservation_packets", "part", help);
    for (part, packets) in [
        ("received", all.received),
        ("created", all.created),
        ("transmitted", all.transmitted),
        ("local", all.local),
        ("dropped", all.dropped),
        ("absorbed", all.absorbed),
    ] {
        family.push([part], packets);
    }
    [family, Family::new(Gauge, "weir_held_packets", "", "Packets that wait in the gateway.").with([], all.held)]
}

fn buffers(snapshot: &Snapshot) -> Family {
    let mut family = Family::new(Gauge, "weir_buffers", "size,state", "Packet buffers, by size: all, and free ones.");
    for (size, (all, free)) in [("small", snapshot.buffers.small), ("large", snapshot.buffers.large)] {
        family.push([size, "all"], all);
        family.push([size, "free"], free);
    }
    family
}

const TABLES: Table<TableStats> = Table {
    labels: "table",
    columns: &[
        (Gauge, "weir_table_entries", "Entries of a bounded table.", |t| t.used.into()),
        (Gauge, "weir_table_entries_max", "Entries that the table may have.", |t| t.limit.into()),
        (Gauge, "weir_table_bytes", "Octets of the table's memory.", |t| t.bytes.into()),
    ],
};
