//! Fragments, as an SPD matches them.
//!
//! Fragments for a UDP port that ESP comes to pass beside the SPD, as whole packets of ESP do: only the datagram shows whether it
//! is ESP. A datagram that is not, such as one of IKE, matches the SPD once it is put together.

use weir_packet::packet::Packet;
use weir_table::classify::{Fields, Fragment};

use super::super::acl::fragments::{self, At};
use super::super::{Context, esp};
use crate::root::family::Family;
use crate::root::spd::Sides;

/// A fragment, to an SPD.
pub(super) enum Seen<K> {
    /// The fields that rules compare.
    Fields(Fields<K>),
    /// A part of what may be ESP in UDP for the gateway.
    Beside,
    /// It waits for the first fragment of its datagram, or was dropped.
    Gone,
}

/// Returns the part of a fragment that an SPD sees.
#[cold]
pub(super) fn fragment<K: Family>(
    context: &mut Context<'_>,
    packet: &mut Packet,
    place: u8,
    sides: &Sides<K>,
    fields: Fields<K>,
    at: At,
) -> Seen<K> {
    let is_awaited = !at.output && esp::awaits_ports(context.root, packet);
    let needs_ports = sides.needs_transport || is_awaited;
    let Some(seen) = fragments::take(context, packet, place, needs_ports, fields, at) else { return Seen::Gone };
    if is_awaited && seen.ports().is_some_and(|(_, destination)| context.root.ipsec.has_port(destination)) {
        return Seen::Beside;
    }
    if !sides.is_opaque || seen.fragment() != Fragment::Later {
        return Seen::Fields(seen);
    }
    // An opaque rule matches what a later fragment itself has, whatever is known of the first one.
    Seen::Fields(Fields::new(seen.source(), seen.destination(), seen.protocol()).with_fragment(Fragment::Later))
}
