//! Pairs of SAs as people want to see them.

use std::sync::Arc;

use weir_base::clock::Time;

use super::cleared::Cleared;
use super::upkeep::Upkeep;
use crate::compile::Map;
use crate::model::Gateway;
use crate::root::Root;
use crate::root::ipsec::SaCounters;
use crate::stats::{PathMtu, SaDirection, SaInbound, SaStats};

/// The pairs of SAs, in the order of the configuration, with their counters since these were cleared.
pub(crate) fn rows(
    model: &Gateway,
    map: &Map,
    root: &Root,
    (upkeep, cleared, now): (&Upkeep, &Cleared, Time),
) -> Vec<SaStats> {
    counted(model, map, root, (upkeep, now)).map(|(counters, row)| cleared.sa(&counters, row)).collect()
}

/// The same with all that was counted, and the counters themselves.
pub(crate) fn counted<'a>(
    model: &'a Gateway,
    map: &'a Map,
    root: &'a Root,
    (upkeep, now): (&'a Upkeep, Time),
) -> impl Iterator<Item = (Arc<[SaCounters]>, SaStats)> + 'a {
    let row = move |(sa, &number): (&crate::model::Sa, &u32)| {
        let own = root.ipsec.sa(number)?;
        let sum = |of: &dyn Fn(&SaCounters) -> u64| own.counters.iter().map(of).sum::<u64>();
        let [outbound_life, inbound_life] = upkeep.lives(now, number);
        let outbound = own.outbound.as_ref().map(|out| SaDirection {
            spi: out.spi,
            engine: out.key.engine_name(),
            packets: sum(&|own| own.outbound.packets.value()),
            bytes: sum(&|own| own.outbound.bytes.value()),
            next: out.sequence.next(),
            reserved: Some(out.sequence.reserved()).filter(|&end| end != u64::MAX),
            exhausted: sum(&|own| own.exhausted.value()),
            unreserved: sum(&|own| own.unreserved.value()),
            path_mtu: out.path.get(now).map(|own| PathMtu { mtu: own.mtu, left: own.left }),
            dummies: sum(&|own| own.dummies_sent.value()),
            life: outbound_life,
        });
        let inbound = own.inbound.as_ref().map(|into| SaInbound {
            spi: into.spi,
            engine: into.key.engine_name(),
            packets: sum(&|own| own.inbound.packets.value()),
            bytes: sum(&|own| own.inbound.bytes.value()),
            highest: into.window.top(),
            window: into.window.size(),
            replayed: sum(&|own| own.replayed.value()),
            lost: sum(&|own| own.lost.value()),
            auth_failed: sum(&|own| own.auth_failed.value()),
            malformed: sum(&|own| own.malformed.value()),
            dummies: sum(&|own| own.dummies.value()),
            selector: sum(&|own| own.selector.value()),
            life: inbound_life,
        });
        let row = SaStats {
            name: sa.name.clone(),
            mode: sa.mode,
            local: sa.local,
            remote: sa.remote,
            vrf: model.vrfs[usize::from(sa.vrf.0)].name.clone(),
            algorithm: sa.algorithm,
            esn: sa.esn,
            encapsulation: sa.encapsulation,
            interface: sa.interface.map(|index| model.interfaces[index.0 as usize].name.clone()),
            outbound,
            inbound,
            keepalives: sum(&|own| own.keepalives.value()),
            lifetimes: sa.lifetimes,
            expired: sum(&|own| own.expired.value()),
            origin: model.origins.place(sa.origin).map_or_else(String::new, |place| place.to_string()),
        };
        Some((Arc::clone(&own.counters), row))
    };
    model.sas.iter().zip(&map.sas).filter_map(row)
}
