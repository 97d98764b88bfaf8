//! `esp-encrypt` and `esp-decrypt`: packets of SAs (RFC 4303), sealed and opened in batches by the engines of `weir-crypto`.

mod arrival;
mod build;
mod decrypt;
mod encrypt;
mod fragments;
mod path;
mod selectors;

use weir_crypto::{Job, Key};

pub(super) use arrival::{Arrival, arrival, is_for_gateway, owner_hash};
pub(super) use decrypt::run as decrypt;
pub(super) use encrypt::run as encrypt;
pub(super) use selectors::{admit, has_own_interface};

/// Packets that are sealed or opened at once.
const BATCH: usize = 32;

/// Jobs without a packet, to be replaced.
#[inline(always)]
fn no_jobs<'a>(key: &'a Key) -> [Job<'a>; BATCH] {
    std::array::from_fn(|_| Job::esp(key, &mut [], None))
}
