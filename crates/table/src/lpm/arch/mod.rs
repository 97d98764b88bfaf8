//! The lookup bodies, and which of them this CPU runs.
//!
//! [`passes`] is the one algorithm. It is compiled for every CPU, once more for x86-64 with the bit-counting instructions
//! that the baseline lacks, and once with AVX-512 for what happens between passes. Nodes are read one key at a time even
//! there: a gather takes longer than as many loads.

#[cfg(target_arch = "x86_64")]
mod avx512;
mod passes;
mod portable;

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
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the CPU has the features; the rest is the caller's promise.
            return unsafe { with_avx512(view, key, out) };
        }
        // SAFETY: as above.
        return unsafe { with_bit_counting(view, key, out) };
    }
    // SAFETY: the caller's promise.
    unsafe { passes::lookup::<K, portable::Portable>(view, key, out) }
}

/// # Safety
/// As for [`lookup`], and the CPU has the features.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "popcnt,bmi2,avx512f")]
unsafe fn with_avx512<K: Key>(view: &View<'_, K>, key: impl Fn(usize) -> K, out: &mut [u32]) {
    // SAFETY: the caller's promise.
    unsafe { passes::lookup::<K, avx512::Avx512>(view, key, out) }
}

/// # Safety
/// As for [`lookup`], and the CPU has the features.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "popcnt,bmi2")]
unsafe fn with_bit_counting<K: Key>(view: &View<'_, K>, key: impl Fn(usize) -> K, out: &mut [u32]) {
    // SAFETY: the caller's promise.
    unsafe { passes::lookup::<K, portable::Portable>(view, key, out) }
}

/// A lookup body, on a slice of keys.
#[cfg(test)]
pub(crate) type Body<K> = unsafe fn(&View<'_, K>, &[K], &mut [u32]);

/// Every body that this CPU can run.
#[cfg(test)]
pub(crate) fn bodies<K: Key>() -> Vec<Body<K>> {
    let mut bodies: Vec<Body<K>> = vec![|view, keys, out| {
        // SAFETY: the caller's promise.
        unsafe { passes::lookup::<K, portable::Portable>(view, |index| keys[index], out) }
    }];
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("popcnt") && is_x86_feature_detected!("bmi2") {
        bodies.push(|view, keys, out| {
            // SAFETY: the CPU has the features; the rest is the caller's promise.
            unsafe { with_bit_counting(view, |index| keys[index], out) }
        });
        if is_x86_feature_detected!("avx512f") {
            bodies.push(|view, keys, out| {
                // SAFETY: as above.
                unsafe { with_avx512(view, |index| keys[index], out) }
            });
        }
    }
    bodies
}
