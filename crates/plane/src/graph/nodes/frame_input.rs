//! The frames that a steer rule left of segments. They come back by `ip-input`, beside the packets that are its own.

use weir_packet::vector::{Indices, Vector};

use super::stage::Stage;
use super::{Context, ethernet_input, ip_input};

/// Takes packets of `ip-input`, some of which may be such frames.
pub(super) fn run(context: &mut Context<'_>, vector: &mut Vector, frame: &Indices) {
    match frame.places().iter().any(|&place| Stage::of(&vector[place]) == Stage::Frame) {
        true => frames(context, vector, frame),
        false => ip_input::run(context, vector, frame),
    }
}

#[cold]
fn frames(context: &mut Context<'_>, vector: &mut Vector, frame: &Indices) {
    let mut packets = Indices::new();
    for &place in frame.places() {
        let packet = &mut vector[place];
        if Stage::of(packet) != Stage::Frame {
            packets.push(place);
            continue;
        }
        packet.set_resume(Stage::Sav as u8);
        packet.clear_way();
        let admitted = ethernet_input::admit_inner(context, packet);
        ip_input::conclude(context, packet, place, admitted);
    }
    ip_input::run(context, vector, &packets);
}
