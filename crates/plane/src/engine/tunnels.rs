//! Reports tunnels with their counters.

use std::sync::Arc;

use weir_base::clock::Time;
use weir_packet::tunnel::{Carrier, Id};

use super::cleared::Cleared;
use crate::compile::Map;
use crate::model::Gateway;
use crate::root::Root;
use crate::root::tunnel::TunnelCounters;
use crate::stats::{TunnelPath, TunnelStats};

/// Returns the tunnels, in the order of the configuration, with their counters since these were cleared.
pub(crate) fn rows((model, map): (&Gateway, &Map), root: &Root, cleared: &Cleared, now: Time) -> Vec<TunnelStats> {
    counted((model, map), root, now).map(|(counters, row)| cleared.tunnel(&counters, row)).collect()
}

/// Returns the tunnels with all that was counted, and the counters themselves.
pub(crate) fn counted<'a>(
    (model, map): (&'a Gateway, &'a Map),
    root: &'a Root,
    now: Time,
) -> impl Iterator<Item = (Arc<[TunnelCounters]>, TunnelStats)> + 'a {
    let row = move |(interface, &number): (&crate::model::Interface, &u32)| {
        let own = root.tunnels.of(number)?;
        let sum = |of: &dyn Fn(&TunnelCounters) -> u64| own.counters.iter().map(of).sum::<u64>();
        let (carrier, id) = (own.wanted.carrier, own.wanted.id.0 as u32);
        let row = TunnelStats {
            name: interface.name.clone(),
            kind: carrier.name().to_owned(),
            vni: carrier.is_ethernet().then_some(id),
            key: (carrier == Carrier::Gre && own.wanted.id != Id::NONE).then_some(id),
            port: Some(own.wanted.port).filter(|&port| port != 0),
            local: own.wanted.local,
            remote: own.wanted.remote,
            vrf: model.vrfs[usize::from(own.wanted.vrf.0)].name.clone(),
            mtu: interface.mtu,
            path: own.path.get(now).map(|learned| TunnelPath {
                mtu: learned.mtu,
                inner_mtu: own.inner(learned.mtu.into()) as u16,
                seconds_left: learned.left.as_secs(),
            }),
            out_packets: sum(&|own| own.outbound.packets.value()),
            out_bytes: sum(&|own| own.outbound.bytes.value()),
            in_packets: sum(&|own| own.inbound.packets.value()),
            in_bytes: sum(&|own| own.inbound.bytes.value()),
            refused: sum(&|own| own.refused.value()),
            too_long: sum(&|own| own.too_long.value()),
            lowered: sum(&|own| own.lowered.value()),
            origin: model.origins.place(interface.origin).map_or_else(String::new, |place| place.to_string()),
        };
        Some((Arc::clone(&own.counters), row))
    };
    model.interfaces.iter().zip(&map.interfaces).filter_map(row)
}
