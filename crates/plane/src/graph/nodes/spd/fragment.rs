//! Fragments, as an SPD matches them.

use weir_packet::packet::Packet;
use weir_table::classify::{Fields, Fragment};

use super::super::Context;
use super::super::acl::fragments::{self, At};
use crate::root::family::Family;
use crate::root::spd::Sides;

/// The fields of a fragment that an SPD sees. `None`: the fragment waits for the first of its datagram, or was dropped.
#[cold]
pub(super) fn fragment<K: Family>(
    context: &mut Context<'_>,
    packet: &mut Packet,
    place: u8,
    sides: &Sides<K>,
    fields: Fields<K>,
    at: At,
) -> Option<Fields<K>> {
    let seen = fragments::take(context, packet, place, sides.needs_transport, fields, at)?;
    if !sides.is_opaque || seen.fragment() != Fragment::Later {
        return Some(seen);
    }
    // An opaque rule matches what a later fragment itself has, whatever is known of the first one.
    Some(Fields::new(seen.source(), seen.destination(), seen.protocol()).with_fragment(Fragment::Later))
}
