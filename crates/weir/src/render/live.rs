//! The live table of a terminal: rates between two readings.

use weir_plane::stats::{DropStats, InterfaceStats, NodeStats, Snapshot};

use super::number::{ratio, short};
use super::sum::Sum;
use super::summary::together;
use super::table::{Align, Table};

/// Drop reasons shown, at most.
const TOP: usize = 10;

/// Formats the changes between two snapshots that are `seconds` apart.
pub fn live(before: &Snapshot, now: &Snapshot, seconds: f64) -> String {
    let per_second = |then: u64, now: u64| ratio(now.saturating_sub(then) as f64, seconds);
    let mut text = interfaces(before, now, per_second);
    text.push('\n');
    text.push_str(&nodes(&together(&before.workers), &together(&now.workers), per_second));
    text.push('\n');
    text.push_str(&drops(&before.drops, &now.drops, per_second));
    text.push('\n');
    text.push_str(&Sum::new(&now.conservation).text());
    text
}

fn interfaces(before: &Snapshot, now: &Snapshot, per_second: impl Fn(u64, u64) -> f64) -> String {
    let numbers = ["RX packet/s", "RX bit/s", "TX packet/s", "TX bit/s", "Dropped/s"];
    let columns: Vec<_> =
        std::iter::once(("Interface", Align::Left)).chain(numbers.map(|name| (name, Align::Right))).collect();
    let mut table = Table::new(&columns);
    let none = InterfaceStats::default();
    for interface in &now.interfaces {
        let then = before.interfaces.iter().find(|then| then.name == interface.name).unwrap_or(&none);
        table.row([
            interface.name.clone(),
            short(per_second(then.rx.packets, interface.rx.packets)),
            short(8.0 * per_second(then.rx.bytes, interface.rx.bytes)),
            short(per_second(then.tx.packets, interface.tx.packets)),
            short(8.0 * per_second(then.tx.bytes, interface.tx.bytes)),
            short(per_second(then.dropped.packets, interface.dropped.packets)),
        ]);
    }
    table.text()
}

fn nodes(before: &[NodeStats], now: &[NodeStats], per_second: impl Fn(u64, u64) -> f64) -> String {
    let mut table = Table::new(&[
        ("Node", Align::Left),
        ("Packet/s", Align::Right),
        ("Ticks/packet", Align::Right),
        ("Packets/call", Align::Right),
    ]);
    let none = NodeStats::default();
    for node in now.iter().filter(|node| node.calls > 0) {
        let then = before.iter().find(|then| then.name == node.name).unwrap_or(&none);
        let packets = node.packets.saturating_sub(then.packets) as f64;
        table.row([
            node.name.to_owned(),
            short(per_second(then.packets, node.packets)),
            format!("{:.1}", ratio(node.ticks.saturating_sub(then.ticks) as f64, packets)),
            format!("{:.1}", ratio(packets, node.calls.saturating_sub(then.calls) as f64)),
        ]);
    }
    table.text()
}

fn drops(before: &[DropStats], now: &[DropStats], per_second: impl Fn(u64, u64) -> f64) -> String {
    let mut drops: Vec<(f64, &DropStats)> = now
        .iter()
        .filter(|drop| drop.packets > 0)
        .map(|drop| {
            let then = before.iter().find(|then| then.reason == drop.reason).map_or(0, |then| then.packets);
            (per_second(then, drop.packets), drop)
        })
        .collect();
    drops.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.packets.cmp(&a.1.packets)));
    let mut table = Table::new(&[
        ("Dropped for", Align::Left),
        ("Per second", Align::Right),
        ("In all", Align::Right),
        ("Meaning", Align::Left),
    ]);
    for (rate, drop) in drops.into_iter().take(TOP) {
        table.row([drop.reason.to_string(), short(rate), drop.packets.to_string(), drop.description.to_string()]);
    }
    table.text()
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn rates_between_two_readings() {
        let before = sample::snapshot();
        let mut now = sample::snapshot();
        now.interfaces[0].rx.packets += 500_000;
        now.interfaces[0].rx.bytes += 32_000_000;
        now.workers[0].nodes[1].packets += 1000;
        now.workers[0].nodes[1].calls += 10;
        now.workers[0].nodes[1].ticks += 33_000;
        now.drops[0].packets += 5;
        let text = live(&before, &now, 0.5);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "Interface  RX packet/s  RX bit/s  TX packet/s  TX bit/s  Dropped/s");
        assert_eq!(lines[1], "wan             1.00 M     512 M            0         0          0");
        assert!(lines.contains(&"ethernet-input    2.00 k          33.0         100.0"), "{text}");
        let first = lines.iter().position(|line| line.starts_with("Dropped for")).unwrap() + 1;
        assert_eq!(lines[first], "no-route             10      45  No route covers the destination.");
        assert!(lines[first + 1].starts_with("blackhole"));
    }

    #[test]
    fn counters_that_were_cleared_in_between_are_no_disaster() {
        let text = live(&sample::snapshot(), &Snapshot::default(), 0.5);
        assert!(text.ends_with("every packet is accounted for\n"));
        live(&Snapshot::default(), &sample::snapshot(), 0.0);
    }
}
