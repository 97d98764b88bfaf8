//! Which line of the configuration decided a packet's fate.

use weir_plane::harness::{Harness, Outcome, Verdict};
use weir_plane::model::Place;
use weir_plane::reason::Reason;
use weir_plane::sav::By;

use super::{access, classify, nat, sa, spd, steer, tunnel};

/// The place of what decided: the route that a packet was forwarded by or that led to its end, or the steer rule or session that
/// gave its next hop instead, or the rule by which its source was not valid, or the rule or list by which it was refused, or that has a fragment wait. `None` where weir
/// itself decided: a malformed packet, a TTL that is used up, a destination or a source without a route.
pub(super) fn place(harness: &Harness, outcome: &Outcome) -> Option<Place> {
    if let Verdict::Drop(reason) = outcome.verdict
        && (By::of_reason(reason).is_some() || matches!(reason, Reason::SavRateLimit | Reason::SavRedirect))
    {
        // Rules of the same prefix decide together: the first that has a place stands for them.
        return outcome.sav.as_ref()?.by.iter().find_map(|named| harness.place(named.origin));
    }
    let translated = |reason: Reason| {
        nat::not_translated_by(harness, outcome).filter(|_| {
            matches!(
                reason,
                Reason::NatExhausted
                    | Reason::NatLimit
                    | Reason::NatListLimit
                    | Reason::NatVrfLimit
                    | Reason::NatUntranslated
                    | Reason::NatWorker
                    | Reason::SessionLimit
                    | Reason::SessionPickup
            )
        })
    };
    match outcome.verdict {
        Verdict::Drop(reason) if let Some(place) = translated(reason) => return Some(place),
        Verdict::Drop(
            Reason::AclDeny | Reason::AclReject | Reason::AclRateLimit | Reason::SessionLimit | Reason::SessionPickup,
        ) => {
            return access::refused_by(harness, outcome);
        }
        Verdict::Drop(Reason::SteerDrop | Reason::SteerRedirect | Reason::SteerAdvance) => {
            return steer::last(harness, outcome);
        }
        Verdict::Drop(Reason::SpdDiscard | Reason::SpdNoMatch | Reason::SpdUnprotected) => {
            return spd::dropped_by(harness, outcome);
        }
        Verdict::Drop(Reason::EspNoOutbound | Reason::EspSelector) if !outcome.spd.is_empty() => {
            return spd::dropped_by(harness, outcome);
        }
        Verdict::Drop(Reason::AclFragment) => return access::asked_by(harness, outcome),
        Verdict::Held if outcome.waits => return access::asked_by(harness, outcome),
        Verdict::Drop(Reason::AclEthertype) => return harness.place(outcome.unlisted?.origin),
        Verdict::Drop(
            Reason::EspReplay
            | Reason::EspExpired
            | Reason::EspAuth
            | Reason::EspMalformed
            | Reason::EspDummy
            | Reason::EspEcn
            | Reason::EspSelector
            | Reason::EspTransport,
        ) => return sa::last(harness, outcome),
        Verdict::Drop(Reason::TunnelMalformed | Reason::TunnelChecksum | Reason::TunnelEcn | Reason::TunnelLoop)
            if !outcome.tunnels.is_empty() =>
        {
            return tunnel::last(harness, outcome);
        }
        Verdict::Drop(Reason::MacIp) => return access::not_bound_by(harness, outcome),
        Verdict::Drop(Reason::ClassifyDeny | Reason::ClassifyRateLimit) => {
            return classify::dropped_by(harness, outcome);
        }
        Verdict::Drop(Reason::NotAllowed) => return access::not_allowed_by(harness, outcome),
        _ => {}
    }
    let decided = match outcome.verdict {
        Verdict::Forward | Verdict::Local | Verdict::Held => true,
        Verdict::Drop(reason) => is_of_route(reason),
    };
    match (&outcome.route, &outcome.directed) {
        _ if !decided => None,
        (Some(route), _) => harness.place(route.origin),
        (None, Some(directed)) if directed.steered => steer::last(harness, outcome),
        (None, Some(_)) => classify::led_by(harness, outcome),
        (None, None) => None,
    }
}

/// Whether a packet met its end because of where its route led.
fn is_of_route(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::Blackhole
            | Reason::Unreachable
            | Reason::Prohibit
            | Reason::TentativeAddress
            | Reason::Broadcast
            | Reason::NoNeighbor
            | Reason::LocalUnhandled
            | Reason::LocalFragment
    )
}
