//! The disposition of packets that do not simply pass: rejected or dropped packets, packets that are offered to a
//! sampler, and packets that pass as far as the limit of their rule permits.

use weir_packet::packet::Packet;
use weir_packet::parse::ParseFlags;
use weir_packet::vector::{Indices, Vector};
use weir_packet::wire::protocol;

use super::super::{Context, flow, limit, session};
use super::direction::Direction;
use crate::graph::flags::{ORIGINATED, RESET};
use crate::graph::record::Fate;
use crate::graph::sample::{About, Cause, Treatment};
use crate::model::Rejection;
use crate::reason::Reason;
use crate::root::acl::{Action, Found, Special};
use crate::root::family::Family;

/// Sends each packet where what was found for it says.
#[inline(never)]
pub(super) fn pass<K: Family, D: Direction>(
    context: &mut Context<'_>,
    vector: &mut Vector,
    frame: &Indices,
    found: &[u32],
) {
    let (mut usual, mut limited) = (Indices::new(), Indices::new());
    for (&place, &found) in frame.places().iter().zip(found) {
        let packet = &mut vector[place];
        let found = Found::of(found);
        match of_one::<D>(context, packet, found) {
            None if context.notes.limited(place).is_some() => limited.push(place),
            None => usual.push(place),
            Some(Reason::AclReject) => {
                if is_reset(context, packet, found) {
                    packet.add_state(RESET);
                }
                context.next.refuse_aloud(packet, place, Reason::AclReject);
            }
            Some(reason) => {
                context.notes.end_limited(place);
                context.next.refuse(packet, place, reason);
            }
        }
    }
    if !limited.is_empty() {
        flow::go_on::<K>(context, vector, &limited, D::OUTPUT);
    }
    D::onward(context, vector, &usual, None, K::IS_V4);
}

/// Why a packet is dropped, if it is.
fn of_one<D: Direction>(context: &mut Context<'_>, packet: &mut Packet, found: Found) -> Option<Reason> {
    // The record of a packet does not continue with the gateway's answer to it.
    if context.recorder.is_on() && !packet.state().contains(ORIGINATED) {
        let interface = D::interface(context.root.adjacencies.view(), packet);
        let session = session::role(context, packet, D::OUTPUT, found);
        context.record(packet, Fate::Filtered { interface, output: D::OUTPUT, found, session });
    }
    if found.just_permits() {
        return None;
    }
    let special = if found.is_special() { context.root.acl.pages.special(found) } else { None };
    let refused = match found.action() {
        Action::Permit => special.and_then(|special| limited(context, packet, special)),
        Action::Deny => Some(Reason::AclDeny),
        Action::Reject => Some(Reason::AclReject),
    };
    // What the gateway makes itself is no frame yet that could be shown.
    if let Some(choice) = special.and_then(|special| special.sample)
        && packet.l3_offset() > 0
    {
        let treatment = match refused {
            None => Treatment::Passed,
            Some(Reason::AclRateLimit) => Treatment::RateLimited,
            Some(_) => Treatment::Dropped,
        };
        let about = About { cause: Cause::Logged { rule: found.number(), output: D::OUTPUT }, treatment };
        context.samples.offer(context.root, context.now, packet, choice, about);
    }
    refused
}

/// A packet that is permitted is dropped for it where others have used up what may pass.
fn limited(context: &mut Context<'_>, packet: &mut Packet, special: &Special) -> Option<Reason> {
    limit::packet(context, packet, (special.meter.as_ref()?, 0), Reason::AclRateLimit)
}

/// Returns whether a rejected packet is answered by a TCP reset. Fragments are answered by an ICMP error unless the
/// rule requests resets.
fn is_reset(context: &Context<'_>, packet: &Packet, found: Found) -> bool {
    let special = if found.is_special() { context.root.acl.pages.special(found) } else { None };
    match special.map_or(Rejection::Usual, |special| special.rejection) {
        Rejection::Usual => packet.protocol() == protocol::TCP && !packet.flags().intersects(ParseFlags::FRAGMENT),
        Rejection::Reset => true,
        Rejection::Icmp => false,
    }
}
