//! Which line of the configuration decided a packet's fate.

use weir_plane::harness::{Harness, Outcome, Verdict};
use weir_plane::model::Place;
use weir_plane::reason::Reason;

/// The place of the route that decided: the one a packet was forwarded by, or that led to its end. `None` where weir
/// itself decided: a malformed packet, a TTL that is used up, a destination without a route.
pub(super) fn place(harness: &Harness, outcome: &Outcome) -> Option<Place> {
    let decided = match outcome.verdict {
        Verdict::Forward | Verdict::Local | Verdict::Held => true,
        Verdict::Drop(reason) => is_of_route(reason),
    };
    let route = outcome.route.as_ref().filter(|_| decided)?;
    harness.place(route.origin)
}

/// Whether a packet met its end because of where its route led.
fn is_of_route(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::Blackhole
            | Reason::Unreachable
            | Reason::TentativeAddress
            | Reason::Broadcast
            | Reason::NoNeighbor
            | Reason::LocalUnhandled
            | Reason::LocalFragment
    )
}
