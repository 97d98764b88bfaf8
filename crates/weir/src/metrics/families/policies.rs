//! Source address validation, access lists, allowlists, bindings, ethertypes, samplers and alarms.

use weir_plane::alarm;
use weir_plane::stats::{AllowlistStats, EthertypeStats, SamplerStats, SavInterfaceStats, Snapshot};

use super::super::family::Kind::{Counter, Gauge};
use super::super::family::{Family, Table};
use crate::config::Detail;
use crate::control::Gateway;
use crate::render::acl::List;

const SAV: Table<SavInterfaceStats> = Table {
    labels: "interface,family,policy",
    columns: &[
        (Counter, "weir_sav_checked_packets", "Packets whose source was validated.", |s| s.checked.into()),
        (Counter, "weir_sav_unknown_packets", "Packets that passed although no rule knows their source.", |s| {
            s.unknown.into()
        }),
        (Counter, "weir_sav_exempt_packets", "Packets exempt from validation.", |s| s.exempt.into()),
        (Counter, "weir_sav_limited_packets", "Invalid packets dropped by the rate limit.", |s| s.limited.into()),
        (Counter, "weir_sav_redirected_packets", "Invalid packets that were redirected.", |s| s.redirected.into()),
    ],
};

const LISTS: Table<List> = Table {
    labels: "list",
    columns: &[
        (Gauge, "weir_acl_rules", "Rules of the access list.", |l| l.rules.into()),
        (Counter, "weir_acl_matched_packets", "Packets that a rule of the list matched.", |l| l.matched.packets.into()),
        (Counter, "weir_acl_matched_bytes", "Their octets from the IP header on.", |l| l.matched.bytes.into()),
        (Counter, "weir_acl_unmatched_packets", "Packets that no rule of the list matched.", |l| {
            l.unmatched.packets.into()
        }),
        (Counter, "weir_acl_unmatched_bytes", "Their octets from the IP header on.", |l| l.unmatched.bytes.into()),
    ],
};

const ALLOWLISTS: Table<AllowlistStats> = Table {
    labels: "list",
    columns: &[
        (Counter, "weir_allowlist_passed_packets", "Packets whose source the list contains.", |l| l.passed.into()),
        (Counter, "weir_allowlist_refused_packets", "Packets whose source the list does not contain.", |l| {
            l.refused.into()
        }),
    ],
};

const ETHERTYPES: Table<EthertypeStats> = Table {
    labels: "interface,direction",
    columns: &[(Counter, "weir_ethertype_refused_packets", "Frames of other ethertypes than permitted.", |e| {
        e.refused.into()
    })],
};

const SAMPLERS: Table<SamplerStats> = Table {
    labels: "sampler",
    columns: &[
        (Counter, "weir_sampler_offered_packets", "Packets of which some were to be sampled.", |s| s.offered.into()),
        (Counter, "weir_sampler_taken_packets", "Packets sampled.", |s| s.taken.into()),
        (Counter, "weir_sampler_over_rate_packets", "Samples beyond the sampler's rate.", |s| s.over_rate.into()),
        (Counter, "weir_sampler_ring_full_packets", "Samples for which a worker's ring had no room.", |s| {
            s.ring_full.into()
        }),
    ],
};

const ALARMS: Table<alarm::Row> = Table {
    labels: "interface,policy",
    columns: &[
        (Gauge, "weir_alarm_raised", "1 while the alarm is raised.", |a| a.raised.is_some().into()),
        (Gauge, "weir_alarm_rate", "Invalid packets per second over the alarm's window.", |a| a.rate.into()),
        (Gauge, "weir_alarm_threshold", "Invalid packets per second that raise the alarm.", |a| a.threshold.into()),
        (Counter, "weir_alarm_raises", "Times that the alarm was raised.", |a| a.count.into()),
    ],
};

/// Entries of a SAV table that are listed at most.
const MOST_PREFIXES: usize = 10_000;

/// Rules of an access list that are listed at most.
pub(super) const MOST_RULES: usize = 10_000;

pub(super) fn read(gateway: &dyn Gateway, snapshot: &Snapshot, detail: Detail) -> Vec<Family> {
    let labels = |sav: &SavInterfaceStats| vec![sav.interface.clone(), sav.family.to_owned(), sav.policy.clone()];
    let mut families = SAV.read(&snapshot.sav, labels);
    families.extend(invalid(snapshot));
    families.push(prefixes(gateway, detail));
    let lists = gateway.acls().lists;
    families.extend(LISTS.read(&lists, |list| vec![list.name.clone()]));
    families.extend(rules(gateway, &lists, detail));
    families.extend(ALLOWLISTS.read(&gateway.allowlists(), |list| vec![list.name.clone()]));
    let labels = |row: &EthertypeStats| vec![row.interface.clone(), row.direction.to_owned()];
    families.extend(ETHERTYPES.read(&gateway.ethertypes(), labels));
    families.push(bindings(gateway));
    families.extend(SAMPLERS.read(&gateway.samplers().0, |sampler| vec![sampler.name.clone()]));
    let labels = |alarm: &alarm::Row| vec![alarm.interface.clone(), alarm.policy.clone()];
    families.extend(ALARMS.read(&gateway.alarms().rows(), labels));
    families
}

/// Invalid packets by the mechanism that found them so.
fn invalid(snapshot: &Snapshot) -> [Family; 2] {
    let labels = "interface,family,policy,mechanism";
    let mut packets = Family::new(Counter, "weir_sav_invalid_packets", labels, "Packets whose source was invalid.");
    let mut bytes = Family::new(Counter, "weir_sav_invalid_bytes", labels, "Octets of their frames.");
    for row in &snapshot.sav {
        for &(mechanism, traffic) in row.invalid.iter().filter(|(_, traffic)| traffic.packets > 0) {
            let values = [row.interface.as_str(), row.family, row.policy.as_str(), mechanism];
            packets.push(values, traffic.packets);
            bytes.push(values, traffic.bytes);
        }
    }
    [packets, bytes]
}

/// Hits of the entries of SAV policies that count them.
fn prefixes(gateway: &dyn Gateway, detail: Detail) -> Family {
    let help = "Packets by the most specific prefix of their source, where the policy counts hits.";
    let mut family = Family::new(Counter, "weir_sav_prefix_packets", "policy,prefix", help);
    for policy in gateway.sav_policies().iter().filter(|_| detail.prefixes) {
        let Some((entries, _)) = gateway.sav_entries(&policy.name, None, MOST_PREFIXES) else { continue };
        let mut last = None;
        for entry in entries {
            // Entries of several scopes may have one prefix, whose packets are counted once.
            let (Some(hits), true) = (entry.hits, last.replace(entry.prefix) != Some(entry.prefix)) else { continue };
            family.push([policy.name.as_str(), &entry.prefix.to_string()], hits);
        }
    }
    family
}

/// Rules of access lists, by their ids, which edits do not change.
fn rules(gateway: &dyn Gateway, lists: &[List], detail: Detail) -> [Family; 2] {
    let mut packets =
        Family::new(Counter, "weir_acl_rule_packets", "list,id", "Packets that a rule of an access list matched.");
    let mut bytes = Family::new(Counter, "weir_acl_rule_bytes", "list,id", "Their octets from the IP header on.");
    for list in lists.iter().filter(|_| detail.rules) {
        let Some(rules) = gateway.acl_rules(&list.name, MOST_RULES) else { continue };
        for rule in rules.rules {
            let values = [list.name.as_str(), &rule.id.to_string()];
            packets.push(values, rule.hits.packets);
            bytes.push(values, rule.hits.bytes);
        }
    }
    [packets, bytes]
}

fn bindings(gateway: &dyn Gateway) -> Family {
    let help = "Packets that no binding of the list permits.";
    let mut family = Family::new(Counter, "weir_bindings_refused_packets", "list", help);
    for list in gateway.bindings() {
        let denied: u64 = list.rules.iter().filter(|rule| !rule.permit).map(|rule| rule.matched.packets).sum();
        family.push([list.name.as_str()], list.unmatched.packets + denied);
    }
    family
}
