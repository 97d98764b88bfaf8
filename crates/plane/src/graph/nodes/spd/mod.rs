//! `ip4-spd-in`, `ip6-spd-in`, `ip4-spd-out`, `ip6-spd-out`: match packets that come in, and packets that leave, against the SPD
//! of their interface (RFC 4301, 5.1 and 5.2).
//!
//! Packets of interfaces with one SPD are looked up together. Packets that were held by a neighbour are matched once: the
//! lookup sends packets here behind the neighbour's queue.

mod batch;
mod beside;
mod cache;
mod dispose;
mod fragment;
mod selectors;
mod share;
mod single;

use weir_packet::packet::Packet;
use weir_packet::parse::ParseFlags;
use weir_packet::vector::{Indices, VECTOR, Vector};
use weir_table::classify::{Fields, NO_RULE};

use super::acl::fragments::At;
use super::stage::Stage;
use super::{Context, fields};
use crate::graph::flags::DECRYPTED;
use crate::graph::flow::Unlearned;
use crate::root::NONE;
use crate::root::family::Family;
use crate::root::spd::{self, Spd};

use batch::Batch;
use beside::is_beside;
use fragment::{Seen, fragment};
pub(super) use selectors::{Checked, admit};
pub(super) use single::{Sent, protects, receive, send};

/// Matches packets. `OUTPUT`: they leave.
pub(super) fn run<K: Family, const OUTPUT: bool>(context: &mut Context<'_>, vector: &mut Vector, frame: &Indices) {
    let mut others = group::<K, OUTPUT>(context, vector, frame);
    while !others.is_empty() {
        others = group::<K, OUTPUT>(context, vector, &others);
    }
}

/// The interface whose SPD a packet matches.
#[inline(always)]
fn interface<const OUTPUT: bool>(context: &Context<'_>, packet: &Packet) -> u32 {
    match OUTPUT {
        true => context.root.adjacencies.get(packet.forwarding() as usize).map_or(NONE, |own| own.interface),
        false => packet.interface(),
    }
}

/// Matches the packets that have the SPD of the first packet; returns the others.
#[inline(always)]
fn group<K: Family, const OUTPUT: bool>(context: &mut Context<'_>, vector: &mut Vector, frame: &Indices) -> Indices {
    let root = context.root;
    let mut others = Indices::new();
    let Some(&first) = frame.places().first() else { return others };
    let number = |interface: u32| root.interfaces.get(interface as usize).map_or(spd::NONE, |own| own.spd);
    let mut by = interface::<OUTPUT>(context, &vector[first]);
    let wanted = number(by);
    let mut is_wanted = true;
    let spd = root.spd.list.get(usize::from(wanted)).map(|spd| &**spd);
    let mut beside = Indices::new();
    let mut batch = Batch { places: Indices::new(), fields: [Fields::default(); VECTOR], octets: [0; VECTOR] };
    for &place in frame.places() {
        let packet = &mut vector[place];
        let own = interface::<OUTPUT>(context, packet);
        if own != by {
            (by, is_wanted) = (own, number(own) == wanted);
        }
        if !is_wanted {
            others.push(place);
            continue;
        }
        if is_beside::<OUTPUT>(context, packet) {
            // Of a flow of these, only packets that were decrypted take decisions.
            if !packet.state().contains(DECRYPTED) {
                context.notes.forget(place, Unlearned::Spd);
            }
            beside.push(place);
            continue;
        }
        let index = batch.places.len();
        fields::of::<K>(packet, &mut batch.fields[index]);
        if packet.flags().contains(ParseFlags::FRAGMENT)
            && let Some(spd) = spd
        {
            context.notes.forget(place, Unlearned::Spd);
            let stage = if OUTPUT { Stage::Lookup } else { Stage::Spd };
            let at = At { stage, output: OUTPUT, interface: by };
            match fragment(context, packet, place, K::of(spd), batch.fields[index], at) {
                Seen::Fields(fields) => batch.fields[index] = fields,
                Seen::Beside => {
                    beside.push(place);
                    continue;
                }
                Seen::Gone => continue,
            }
        }
        let packet = &vector[place];
        batch.octets[index] = (packet.len() - packet.l3_offset()) as u32;
        batch.places.push(place);
    }
    if !beside.is_empty() {
        dispose::onward::<OUTPUT>(context, vector, &beside, K::IS_V4);
    }
    match spd {
        Some(spd) => apply::<K, OUTPUT>(context, vector, &batch, spd),
        None => dispose::onward::<OUTPUT>(context, vector, &batch.places, K::IS_V4),
    }
    others
}

#[inline(always)]
fn apply<K: Family, const OUTPUT: bool>(context: &mut Context<'_>, vector: &mut Vector, batch: &Batch<K>, spd: &Spd) {
    let count = batch.places.len();
    let mut found = [NO_RULE; VECTOR];
    let (sides, fields) = (K::of(spd), &batch.fields[..count]);
    match &sides.cached[usize::from(OUTPUT)] {
        None => sides.table(OUTPUT).lookup_each(context.guard, fields, &mut found[..count]),
        Some(cached) => cache::look_up(context, spd, cached, OUTPUT, fields, &mut found[..count]),
    }
    if OUTPUT && spd.is_shared {
        for (found, &place) in found.iter_mut().zip(batch.places.places()) {
            *found = share::pick(context, spd, &vector[place], *found);
        }
    }
    dispose::run::<K, OUTPUT>(context, vector, batch, spd, &found[..count]);
}
