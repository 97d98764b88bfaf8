//! Interfaces and neighbours.

use weir_plane::stats::{InterfaceStats, Snapshot};

use super::super::family::Kind::{Counter, Gauge};
use super::super::family::{Family, Table};

const INTERFACES: Table<InterfaceStats> = Table {
    labels: "interface",
    columns: &[
        (Gauge, "weir_interface_up", "1 while packets can pass.", |i| i.up.into()),
        (Gauge, "weir_interface_mtu_bytes", "Octets of the largest IP packet.", |i| u64::from(i.mtu).into()),
        (Counter, "weir_interface_rx_packets", "Packets received.", |i| i.rx.packets.into()),
        (Counter, "weir_interface_rx_bytes", "Octets of received frames.", |i| i.rx.bytes.into()),
        (Counter, "weir_interface_tx_packets", "Packets transmitted.", |i| i.tx.packets.into()),
        (Counter, "weir_interface_tx_bytes", "Octets of transmitted frames.", |i| i.tx.bytes.into()),
        (Counter, "weir_interface_dropped_packets", "Packets received here and dropped.", |i| i.dropped.packets.into()),
        (Counter, "weir_interface_dropped_bytes", "Octets of frames received here and dropped.", |i| {
            i.dropped.bytes.into()
        }),
        (Counter, "weir_interface_punt_packets", "Packets received here and given to the host.", |i| {
            i.punt.packets.into()
        }),
        (Counter, "weir_interface_punt_bytes", "Octets of frames received here and given to the host.", |i| {
            i.punt.bytes.into()
        }),
        (Counter, "weir_interface_merged_packets", "Packets that went into super-packets.", |i| i.merged.1.into()),
        (Counter, "weir_interface_merges", "Super-packets that were made of them.", |i| i.merged.0.into()),
        (Counter, "weir_interface_cuts", "Super-packets that were cut on their way out.", |i| i.cut.0.into()),
        (Counter, "weir_interface_cut_packets", "Packets that they were cut into.", |i| i.cut.1.into()),
        (Counter, "weir_interface_no_buffer_packets", "Frames for which no buffer was left.", |i| i.no_buffer.into()),
        (Counter, "weir_interface_kernel_dropped_packets", "Frames that the kernel dropped before the port.", |i| {
            i.kernel_drops.into()
        }),
        (Counter, "weir_interface_receive_errors", "Frames that the port could not deliver.", |i| {
            i.receive_errors.into()
        }),
        (Counter, "weir_interface_transmit_errors", "Frames that the port refused to send.", |i| {
            i.transmit_errors.into()
        }),
    ],
};

pub(super) fn read(snapshot: &Snapshot) -> Vec<Family> {
    let mut families = INTERFACES.read(&snapshot.interfaces, |interface| vec![interface.name.clone()]);
    let help = "Packets that fault injection changed, by what it did.";
    let mut faults = Family::new(Counter, "weir_interface_fault_packets", "interface,fault", help);
    for interface in &snapshot.interfaces {
        for &(fault, packets) in &interface.faults {
            faults.push([interface.name.as_str(), fault], packets);
        }
    }
    let help = "1 while packets can pass the punt device.";
    let mut punt_up = Family::new(Gauge, "weir_interface_punt_up", "interface", help);
    let help = "Packets that the punt device did not take.";
    let mut punt_failed = Family::new(Counter, "weir_interface_punt_failed_packets", "interface", help);
    for (interface, device) in snapshot.interfaces.iter().filter_map(|own| Some((own, own.punt_device.as_ref()?))) {
        punt_up.push([interface.name.as_str()], u64::from(device.state == "up"));
        punt_failed.push([interface.name.as_str()], device.failed);
    }
    let neighbors = &snapshot.neighbors;
    families.extend([
        faults,
        punt_up,
        punt_failed,
        Family::new(Gauge, "weir_neighbors", "", "Neighbours that were learned.").with([], neighbors.entries),
        Family::new(Gauge, "weir_neighbors_max", "", "Neighbours that there may be.").with([], neighbors.limit),
        Family::new(Gauge, "weir_neighbors_incomplete", "", "Neighbours that have not answered yet.")
            .with([], neighbors.incomplete),
        Family::new(Counter, "weir_neighbor_evicted", "", "Neighbours that made room for others.")
            .with([], neighbors.evicted),
        Family::new(Counter, "weir_neighbor_refused", "", "Neighbours for which there was no room.")
            .with([], neighbors.refused),
        Family::new(Counter, "weir_neighbor_unsent", "", "Solicitations that the rate limit held back.")
            .with([], neighbors.unsent),
    ]);
    families
}
