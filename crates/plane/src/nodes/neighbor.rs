//! `neighbor`: packets whose next hop has no known hardware address.

use weir_packet::vector::{Frame, Vector};

use super::Context;
use crate::reason::Reason;

pub(super) fn run(context: &mut Context<'_>, vector: &mut Vector, frame: &Frame) {
    for &place in frame.places() {
        context.next.refuse_aloud(&mut vector[place], place, Reason::NoNeighbor);
    }
}
