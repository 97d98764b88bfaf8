//! The lookup bodies, and which of them this CPU runs.
//!
//! [`scalar`] is the body for every CPU. On x86-64 it is compiled once more with the bit-counting instructions that the
//! baseline lacks.

mod scalar;

use super::key::Key;
use super::table::View;

/// Looks up every key.
///
/// # Safety
/// Every block that is reachable from the view at some time during the call stays as it is until the end of it, except
/// for its leaves, which may be stored to atomically.
#[inline]
pub(crate) unsafe fn lookup<K: Key>(view: &View<'_, K>, key: impl Fn(usize) -> K, out: &mut [u32]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("popcnt") && is_x86_feature_detected!("bmi2") {
        // SAFETY: the CPU has the features; the rest is the caller's promise.
        return unsafe { with_bit_counting(view, key, out) };
    }
    // SAFETY: the caller's promise.
    unsafe { scalar::lookup(view, key, out) }
}

/// # Safety
/// As for [`lookup`], and the CPU has the features.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "popcnt,bmi1,bmi2,lzcnt")]
unsafe fn with_bit_counting<K: Key>(view: &View<'_, K>, key: impl Fn(usize) -> K, out: &mut [u32]) {
    // SAFETY: the caller's promise.
    unsafe { scalar::lookup(view, key, out) }
}
