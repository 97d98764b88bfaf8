//! Packets that are not validated, by rules on their fields that apply before all other checks.

use weir_packet::packet::Packet;
use weir_packet::vector::{Indices, VECTOR, Vector};
use weir_table::classify::Fields;

use super::super::stage::{self, Stage};
use super::super::{Context, fields, wire};
use super::invalid::Marks;
use super::note::note;

use crate::graph::flow::Unlearned;
use crate::graph::record::Said;
use crate::root::family::Family;
use crate::root::sav::Validator;

/// Sends packets that are exempt past validation; gives the others, in their order.
#[inline(never)]
pub(super) fn part<K: Family>(context: &mut Context<'_>, vector: &Vector, frame: &Indices) -> Indices {
    let root = context.root;
    let places = frame.places();
    let number = |place: u8| {
        let interface = root.interfaces.get(vector[place].interface() as usize);
        interface.map_or(crate::root::sav::NONE, |interface| *K::of(&interface.sav))
    };
    let (mut exempt, mut asked) = (Marks::default(), Marks::default());
    for (first, &place) in places.iter().enumerate() {
        let own = number(place);
        let validator = K::of(&root.sav).get(usize::from(own));
        let Some((validator, rules)) = validator.and_then(|own| Some((own, own.exempt.as_ref()?))) else { continue };
        if asked.has(first) {
            continue;
        }
        // All packets of the same policy together, wherever they stand.
        let (mut fields, mut indexes) = ([Fields::default(); VECTOR], [0u8; VECTOR]);
        let mut count = 0;
        for (index, &place) in places.iter().enumerate().skip(first) {
            if number(place) == own {
                asked.set(index);
                fields::of::<K>(&vector[place], &mut fields[count]);
                indexes[count] = index as u8;
                count += 1;
            }
        }
        rules.each(&fields[..count], |at, rule| {
            let index = usize::from(indexes[at]);
            exempt.set(index);
            let packet = &vector[places[index]];
            pass(context, packet, validator, rule, (*K::source(packet)).into());
        });
    }
    let (mut past, mut others) = (Indices::new(), Indices::new());
    for (index, &place) in places.iter().enumerate() {
        if exempt.has(index) {
            // Another packet of the flow may not be exempt.
            context.notes.forget(place, Unlearned::Validation);
            past.push(place);
        } else {
            others.push(place);
        }
    }
    stage::onward(context, vector, &past, None, Stage::Bindings, K::IS_V4);
    others
}

/// Whether one packet is exempt, which is counted.
#[cold]
pub(super) fn one<K: Family>(context: &mut Context<'_>, packet: &Packet, validator: &Validator<K>) -> bool {
    let Some(rules) = &validator.exempt else { return false };
    let mut found = None;
    let mut fields = [Fields::default()];
    fields::of::<K>(packet, &mut fields[0]);
    rules.each(&fields, |_, rule| found = Some(rule));
    if let Some(rule) = found {
        pass(context, packet, validator, rule, (*K::source(packet)).into());
    }
    found.is_some()
}

/// Counts a packet that is exempt.
fn pass<K: Family>(
    context: &mut Context<'_>,
    packet: &Packet,
    validator: &Validator<K>,
    rule: u32,
    source: std::net::IpAddr,
) {
    if let Some(interface) = context.root.interfaces.get(packet.interface() as usize) {
        Validator::<K>::counters(interface, context.worker).exempt.add(wire::packets(packet));
    }
    if context.recorder.is_on() {
        note(context, packet, validator, source, Said::Exempt(rule));
    }
}
