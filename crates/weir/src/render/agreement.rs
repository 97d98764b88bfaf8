//! Whatever the counters say: the JSON has its schema, and a program that reads it reads what a person does.

use proptest::collection::vec;
use proptest::prelude::*;
use weir_plane::stats::*;

use super::buffers::Buffers;
use super::errors::Errors;
use super::interfaces::Interfaces;
use super::neighbors::Neighbors;
use super::runtime::Runtime;
use super::sav::Sav;
use super::summary::{Ended, Summary};
use super::tables::Tables;
use super::{Report, json, read};

/// Counters that add up without overflow.
fn counter() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 0..10u64, 0..1u64 << 50]
}

fn traffic() -> impl Strategy<Value = Traffic> {
    (counter(), counter()).prop_map(|(packets, bytes)| Traffic { packets, bytes })
}

fn node() -> impl Strategy<Value = NodeStats> {
    let name = prop::sample::select(vec!["rx", "ip4-lookup", "ip6-lookup", "drop"]);
    (name, counter(), counter(), counter()).prop_map(|(name, calls, packets, ticks)| NodeStats {
        name,
        state: "active",
        calls,
        packets,
        ticks,
        ..NodeStats::default()
    })
}

fn worker() -> impl Strategy<Value = WorkerStats> {
    let counters = [counter().boxed(), counter().boxed(), counter().boxed(), counter().boxed()];
    (0..16usize, prop::option::of(0..64usize), vec(node(), 0..5), counters).prop_map(
        |(worker, core, nodes, counters)| {
            let [received, transmitted, dropped, local] = counters;
            WorkerStats {
                worker,
                core,
                nodes,
                received,
                transmitted,
                dropped,
                local,
                loops: received,
                idle_loops: dropped,
                ..WorkerStats::default()
            }
        },
    )
}

fn interface() -> impl Strategy<Value = InterfaceStats> {
    (
        any::<String>(),
        any::<bool>(),
        any::<u32>(),
        vec(any::<String>(), 0..3),
        [traffic(), traffic(), traffic()],
        counter(),
    )
        .prop_map(|(name, up, mtu, addresses, [rx, tx, dropped], errors)| InterfaceStats {
            name,
            kind: "null",
            up,
            mtu,
            addresses,
            rx,
            tx,
            dropped,
            receive_errors: errors,
            faults: if up { vec![("dropped", errors)] } else { Vec::new() },
            ..Default::default()
        })
}

fn snapshot() -> impl Strategy<Value = Snapshot> {
    let drop = counter().prop_map(|packets| DropStats {
        reason: "no-route".into(),
        description: "No.".into(),
        severity: "info".into(),
        node: "any".into(),
        packets,
    });
    let sums = [counter().boxed(), counter().boxed(), counter().boxed(), counter().boxed()];
    (0.0..1e9f64, vec(worker(), 0..3), vec(drop, 0..4), vec(interface(), 0..4), sums).prop_map(
        |(elapsed, workers, drops, interfaces, [received, created, transmitted, dropped])| Snapshot {
            elapsed,
            tick_frequency: elapsed,
            workers,
            drops,
            sav: interfaces
                .iter()
                .map(|interface| SavInterfaceStats {
                    interface: interface.name.clone(),
                    family: "ipv6",
                    checked: interface.rx.packets,
                    invalid: vec![("acl", interface.dropped), ("special", interface.tx)],
                    ..Default::default()
                })
                .collect(),
            interfaces,
            conservation: Conservation { received, created, transmitted, dropped, ..Default::default() },
            buffers: BufferStats { small: (received as usize, created as usize), ..Default::default() },
            neighbors: NeighborStats { entries: received, evicted: dropped, ..Default::default() },
            tables: vec![TableStats { used: received, bytes: created, ..Default::default() }],
        },
    )
}

fn agrees<R: Report + PartialEq + std::fmt::Debug>(report: &R) -> Result<(), TestCaseError> {
    let json = json(report);
    prop_assert!(!json.contains('\n'));
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    prop_assert_eq!(&value["schema"], R::SCHEMA);
    let read = read::<R>(&json).unwrap();
    prop_assert_eq!(&read, report);
    prop_assert_eq!(read.text(), report.text());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn programs_read_what_people_read(snapshot in snapshot(), all: bool, failures in vec(any::<String>(), 0..2)) {
        agrees(&Runtime::new(&snapshot, all))?;
        agrees(&Errors::new(&snapshot, all))?;
        agrees(&Interfaces::new(&snapshot, failures.clone()))?;
        agrees(&Sav::new(super::sample::sav_policies(), &snapshot))?;
        agrees(&Buffers::new(&snapshot))?;
        agrees(&Tables::new(&snapshot, &[]))?;
        agrees(&Neighbors::new(Vec::new(), &snapshot.neighbors))?;
        agrees(&Summary::new(&snapshot, Ended::Signal, snapshot.elapsed, 1, failures))?;
    }

    #[test]
    fn a_live_table_stands_whatever_comes(before in snapshot(), now in snapshot(), seconds in 0.0..10.0f64) {
        prop_assert!(super::live::live(&before, &now, seconds).ends_with('\n'));
    }
}
