//! `esp-encrypt` and `esp-decrypt`: packets of SAs (RFC 4303), sealed and opened in batches by the engines of `weir-crypto`.

mod arrival;
mod behind_nat;
mod build;
mod datagrams;
mod decrypt;
mod encrypt;
mod fragments;
mod jobs;
mod originate;
mod path;
mod reported;
mod seen;
mod segments;
mod selectors;
mod warm;

pub(super) use arrival::{Arrival, arrival, awaits_ports, is_for_gateway, owner_hash};
pub(super) use decrypt::run as decrypt;
pub(super) use encrypt::run as encrypt;
pub(crate) use originate::originate;
pub(super) use path::{clamp_decrypted, exceeded_by_host};
pub(super) use reported::{is_report, take_report};
pub(super) use selectors::has_own_interface;
