//! Bridges and classifier tables.

use weir_plane::stats::BridgeStats;

use super::super::family::Family;
use super::super::family::Kind::{Counter, Gauge};
use super::super::family::Table;
use crate::control::Gateway;
use crate::render::classify::Table as Classify;

const BRIDGES: Table<BridgeStats> = Table {
    labels: "bridge",
    columns: &[
        (Gauge, "weir_bridge_macs", "Stations that the bridge knows.", |b| b.macs.into()),
        (Counter, "weir_bridge_known_frames", "Frames to known stations.", |b| b.known.into()),
        (Counter, "weir_bridge_unknown_frames", "Flooded frames to unknown stations.", |b| b.unknown.into()),
        (Counter, "weir_bridge_broadcast_frames", "Flooded broadcasts.", |b| b.broadcast.into()),
        (Counter, "weir_bridge_multicast_frames", "Flooded multicasts.", |b| b.multicast.into()),
        (Counter, "weir_bridge_own_frames", "Frames to the own station.", |b| b.own.into()),
        (Counter, "weir_bridge_storm_frames", "Frames that the storm limit dropped.", |b| b.storm.into()),
        (Counter, "weir_bridge_copies", "Copies that flooding made.", |b| b.copies.into()),
        (Counter, "weir_bridge_lost_copies", "Copies that were not made.", |b| b.lost.into()),
        (Counter, "weir_bridge_learned_macs", "Stations that were learned.", |b| b.learned.into()),
        (Counter, "weir_bridge_moved_macs", "Stations that moved to another port.", |b| b.moved.into()),
        (Counter, "weir_bridge_held_frames", "Frames of stations that were not to move.", |b| b.held.into()),
        (Counter, "weir_bridge_full_frames", "Frames of stations for which there was no room.", |b| b.full.into()),
    ],
};

const CLASSIFY: Table<Classify> = Table {
    labels: "table",
    columns: &[
        (Gauge, "weir_classify_sessions", "Sessions of the classifier table.", |t| t.sessions.into()),
        (Gauge, "weir_classify_sessions_max", "Sessions that the classifier table may have.", |t| t.size.into()),
        (Gauge, "weir_classify_bytes", "Octets of memory of the table.", |t| t.bytes.into()),
        (Counter, "weir_classify_matched_packets", "Packets that matched a session.", |t| t.matched.into()),
        (Counter, "weir_classify_missed_packets", "Packets that matched none, without a next table.", |t| {
            t.missed.into()
        }),
    ],
};

pub(super) fn read(gateway: &dyn Gateway) -> Vec<Family> {
    let mut families = BRIDGES.read(&gateway.bridges(), |bridge| vec![bridge.name.clone()]);
    families.extend(CLASSIFY.read(&gateway.classify(None, 0).tables, |table| vec![table.name.clone()]));
    families
}
