//! Sessions, learned decisions, translations, security policies and SAs.

use weir_plane::changed::Changed;
use weir_plane::model::IpFamily;
use weir_plane::stats::{
    FastPath, NatPool, NatStats, NatVrf, SaDirection, SaInbound, SaStats, SessionsCounted, SpdCacheRow,
};

use super::super::family::Kind::{Counter, Gauge};
use super::super::family::{Family, Table};
use super::policies::MOST_RULES;
use crate::config::Detail;
use crate::control::Gateway;

const SESSIONS: Table<SessionsCounted> = Table {
    labels: "",
    columns: &[
        (Counter, "weir_session_opened", "Sessions opened.", |s| s.opened.into()),
        (Counter, "weir_session_expired", "Sessions that ended by age.", |s| s.expired.into()),
        (Counter, "weir_session_replaced", "Half-open sessions that ended for a newer one.", |s| s.replaced.into()),
        (Counter, "weir_session_revoked", "Sessions that the rules permit no longer.", |s| s.revoked.into()),
        (Counter, "weir_session_renewed", "Sessions that ended for a new connection of their ports.", |s| {
            s.renewed.into()
        }),
        (Counter, "weir_session_unconfirmed", "Sessions whose first packets were dropped.", |s| s.unconfirmed.into()),
        (Counter, "weir_session_cleared", "Sessions that a user ended.", |s| s.cleared.into()),
    ],
};

const FAST_PATH: Table<FastPath> = Table {
    labels: "",
    columns: &[
        (Gauge, "weir_flow_decisions", "Learned decisions beside those of sessions.", |f| f.decisions.into()),
        (Gauge, "weir_flow_bytes", "Octets of their memory.", |f| f.octets.into()),
        (Counter, "weir_flow_hit_packets", "Packets that took a learned decision.", |f| f.hits.into()),
        (Counter, "weir_flow_learned", "Decisions learned, for new flows or again.", |f| f.learned.into()),
        (Counter, "weir_flow_refused", "Decisions for which there was no room.", |f| f.refused.into()),
        (Counter, "weir_flow_expired", "Decisions forgotten for their age.", |f| f.expired.into()),
    ],
};

const POOLS: Table<NatPool> = Table {
    labels: "list,id,interface",
    columns: &[
        (Gauge, "weir_nat_translations", "Translations that have an outside address of the rule.", |p| {
            p.translations.into()
        }),
        (Gauge, "weir_nat_addresses_used", "Outside addresses of the rule that have translations.", |p| {
            p.addresses_used.into()
        }),
        (Counter, "weir_nat_exhausted_packets", "Packets that found no free port or address.", |p| p.exhausted.into()),
    ],
};

const VRFS: Table<NatVrf> = Table {
    labels: "vrf",
    columns: &[
        (Gauge, "weir_nat_vrf_translations", "Translations whose first packets came in by the VRF.", |v| {
            v.translations.into()
        }),
        (Gauge, "weir_nat_vrf_limit", "Translations that the VRF may have; 0 without a limit.", |v| {
            u64::from(v.limit.unwrap_or(0)).into()
        }),
        (Counter, "weir_nat_vrf_limited_packets", "Packets beyond the limit of the VRF.", |v| v.limited.into()),
    ],
};

const LISTS: Table<NatStats> = Table {
    labels: "list",
    columns: &[
        (Gauge, "weir_nat_list_translations", "Translations that rules of the list have begun.", |l| {
            u64::from(l.held.unwrap_or(0)).into()
        }),
        (Gauge, "weir_nat_list_limit", "Translations that the list may have.", |l| {
            u64::from(l.limit.unwrap_or(0)).into()
        }),
        (Counter, "weir_nat_list_limited_packets", "Packets beyond the limit of the list.", |l| l.limited.into()),
    ],
};

const CACHES: Table<(String, SpdCacheRow)> = Table {
    labels: "spd,direction,family",
    columns: &[
        (Gauge, "weir_spd_cache_entries", "Entries of the cache of policies.", |c| c.1.entries.into()),
        (Gauge, "weir_spd_cache_places", "Places of the cache of policies.", |c| c.1.places.into()),
        (Counter, "weir_spd_cache_hit_packets", "Packets whose flow the cache has.", |c| c.1.hits.into()),
        (Counter, "weir_spd_cache_miss_packets", "Packets whose flow the cache has not.", |c| c.1.misses.into()),
        (Counter, "weir_spd_cache_stale_packets", "Packets whose flow a change had decided again.", |c| {
            c.1.stale.into()
        }),
        (Counter, "weir_spd_cache_overwritten", "Entries that other flows overwrote.", |c| c.1.overwritten.into()),
    ],
};

const OUTBOUND: Table<(String, SaDirection)> = Table {
    labels: "sa",
    columns: &[
        (Counter, "weir_sa_out_packets", "Packets that the SA encrypted.", |s| s.1.packets.into()),
        (Counter, "weir_sa_out_bytes", "Octets of these packets before encryption.", |s| s.1.bytes.into()),
        (Counter, "weir_sa_exhausted_packets", "Packets beyond the last sequence number.", |s| s.1.exhausted.into()),
        (Counter, "weir_sa_unreserved_packets", "Packets without a reserved sequence number.", |s| {
            s.1.unreserved.into()
        }),
        (Counter, "weir_sa_out_dummy_packets", "Dummy packets that the SA sent.", |s| s.1.dummies.into()),
    ],
};

const INBOUND: Table<(String, SaInbound)> = Table {
    labels: "sa",
    columns: &[
        (Counter, "weir_sa_in_packets", "Packets that the SA decrypted.", |s| s.1.packets.into()),
        (Counter, "weir_sa_in_bytes", "Octets of these packets after decryption.", |s| s.1.bytes.into()),
        (Counter, "weir_sa_replayed_packets", "Packets that the anti-replay window refused.", |s| s.1.replayed.into()),
        (Counter, "weir_sa_lost_packets", "Sequence numbers that never came.", |s| s.1.lost.into()),
        (Counter, "weir_sa_auth_failed_packets", "Packets that failed authentication.", |s| s.1.auth_failed.into()),
        (Counter, "weir_sa_malformed_packets", "Packets malformed inside.", |s| s.1.malformed.into()),
        (Counter, "weir_sa_selector_packets", "Decrypted packets that fit no policy.", |s| s.1.selector.into()),
        (Counter, "weir_sa_in_dummy_packets", "Dummy packets that the peer sent.", |s| s.1.dummies.into()),
    ],
};

const PAIRS: Table<SaStats> = Table {
    labels: "sa",
    columns: &[
        (Counter, "weir_sa_keepalive_packets", "Keepalives that were sent for the pair.", |s| s.keepalives.into()),
        (Counter, "weir_sa_expired_packets", "Packets behind a hard lifetime.", |s| s.expired.into()),
    ],
};

pub(super) fn read(gateway: &dyn Gateway, detail: Detail) -> Vec<Family> {
    let mut families = Vec::new();
    if let Ok(flows) = gateway.flows(None, None, 0) {
        families.extend(SESSIONS.read([&flows.counted], |_| Vec::new()));
        families.extend(FAST_PATH.read([&flows.fast_path], |_| Vec::new()));
        families.push(walked(flows.fast_path));
        families.push(decided_anew(flows.fast_path));
    }
    let labels = |pool: &NatPool| vec![pool.list.clone(), pool.rule.to_string(), pool.interface.clone()];
    families.extend(POOLS.read(&gateway.nat_pools(), labels));
    families.extend(VRFS.read(&gateway.nat_vrfs(), |own| vec![own.vrf.clone()]));
    let lists = gateway.nat_lists();
    families.extend(LISTS.read(lists.iter().filter(|own| own.limit.is_some()), |own| vec![own.name.clone()]));
    families.extend(nat_rules(&lists, detail));
    families.extend(steer_rules(gateway, detail));
    families.extend(spds(gateway, detail));
    families.extend(sas(&gateway.sas(), detail));
    families
}

/// Packets that the policies checked, by the reason.
fn walked(flows: FastPath) -> Family {
    let help = "Packets that all policies checked, by the reason: the flow is new, a rule has `no-flow`, something \
                changed, a compared field differs, or such packets take no decision.";
    let mut family = Family::new(Counter, "weir_flow_checked_packets", "reason", help);
    for (reason, packets) in [
        ("new", flows.new),
        ("no-flow", flows.no_flow),
        ("changed", flows.changed.iter().sum()),
        ("differs", flows.differs),
        ("excluded", flows.excluded),
    ] {
        family.push([reason], packets);
    }
    family
}

/// Packets whose flows were decided anew, by what had changed.
fn decided_anew(flows: FastPath) -> Family {
    let help = "Packets whose flows were decided anew, as something had changed: a part of the configuration that concerns all, a \
                policy of an interface, a prefix, the next hop, or the session.";
    let mut family = Family::new(Counter, "weir_flow_changed_packets", "change", help);
    for (changed, packets) in Changed::ALL.iter().zip(flows.changed) {
        family.push([changed.name()], packets);
    }
    family
}

/// Rules of NAT, by their ids.
fn nat_rules(lists: &[NatStats], detail: Detail) -> [Family; 4] {
    let family = |name, help| Family::new(Counter, name, "list,id", help);
    let mut packets = family("weir_nat_rule_packets", "Packets that a NAT rule translated or kept.");
    let mut bytes = family("weir_nat_rule_bytes", "Their octets from the IP header on.");
    let mut limited =
        family("weir_nat_rule_limited_packets", "Packets whose source has as many translations as it may.");
    let mut clamped = family("weir_nat_rule_clamped_segments", "SYN segments whose MSS a NAT rule lowered.");
    for list in lists.iter().filter(|_| detail.rules) {
        for rule in list.rules.iter().take(MOST_RULES) {
            let values = [list.name.as_str(), &rule.id.to_string()];
            packets.push(values, rule.packets);
            bytes.push(values, rule.bytes);
            limited.push(values, rule.limited);
            clamped.push(values, rule.clamped);
        }
    }
    [packets, bytes, limited, clamped]
}

/// Steer rules, by their ids.
fn steer_rules(gateway: &dyn Gateway, detail: Detail) -> [Family; 2] {
    let labels = "list,id";
    let mut packets = Family::new(Counter, "weir_steer_rule_packets", labels, "Packets that a steer rule matched.");
    let mut bytes = Family::new(Counter, "weir_steer_rule_bytes", labels, "Their octets from the IP header on.");
    for list in gateway.steer().iter().filter(|_| detail.rules) {
        for rule in list.rules.iter().take(MOST_RULES) {
            let values = [list.name.as_str(), &rule.id.to_string()];
            packets.push(values, rule.matched.packets);
            bytes.push(values, rule.matched.bytes);
        }
    }
    [packets, bytes]
}

fn spds(gateway: &dyn Gateway, detail: Detail) -> Vec<Family> {
    let spds = gateway.spds();
    let labels = "spd,place,direction";
    let mut packets = Family::new(Counter, "weir_spd_rule_packets", labels, "Packets that a policy matched.");
    let mut bytes = Family::new(Counter, "weir_spd_rule_bytes", labels, "Their octets from the IP header on.");
    for spd in spds.iter().filter(|_| detail.rules) {
        for (place, rule) in (1..).zip(spd.rules.iter().take(MOST_RULES)) {
            let place: i32 = place;
            for (direction, traffic) in [("out", rule.output), ("in", rule.input)] {
                let values = [spd.name.as_str(), &place.to_string(), direction];
                packets.push(values, traffic.packets);
                bytes.push(values, traffic.bytes);
            }
        }
    }
    let caches = spds.iter().flat_map(|spd| spd.caches.iter().map(|&cache| (spd.name.clone(), cache)));
    let caches: Vec<_> = caches.collect();
    let labels = |(spd, cache): &(String, SpdCacheRow)| {
        let direction = if cache.output { "out" } else { "in" };
        let family = match cache.family {
            IpFamily::V4 => "ipv4",
            IpFamily::V6 => "ipv6",
        };
        vec![spd.clone(), direction.to_owned(), family.to_owned()]
    };
    [CACHES.read(&caches, labels), vec![packets, bytes]].concat()
}

fn sas(sas: &[SaStats], detail: Detail) -> Vec<Family> {
    let name = |sa: &SaStats| sa.name.clone();
    let some = || sas.iter().filter(|_| detail.sas);
    let outbound: Vec<_> = some().filter_map(|sa| Some((name(sa), sa.outbound.clone()?))).collect();
    let inbound: Vec<_> = some().filter_map(|sa| Some((name(sa), sa.inbound.clone()?))).collect();
    let mut families =
        vec![Family::new(Gauge, "weir_sas", "", "Pairs of SAs of the configuration.").with([], sas.len())];
    families.extend(OUTBOUND.read(&outbound, |(sa, _)| vec![sa.clone()]));
    families.extend(INBOUND.read(&inbound, |(sa, _)| vec![sa.clone()]));
    families.extend(PAIRS.read(some(), |sa| vec![name(sa)]));
    families
}
