//! Bridges: `bridge-input` checks frames that come in by the ports of bridges, and has the lists of a port decide about packets in
//! them; `bridge-forward` learns stations and finds the ports of frames; `bridge-output` does so with the frames of the gateway's
//! own station.

mod egress;
mod flood;
mod forward;
mod frame;
mod input;
mod tags;
mod upkeep;

pub(super) use egress::leave;
pub(super) use forward::{forward, output};
pub(super) use input::run as input;
pub(super) use tags::{of as tags_of, take_off};
pub(crate) use upkeep::Upkeep;
