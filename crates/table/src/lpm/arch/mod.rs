//! The lookup bodies, and the selection of one for this CPU.
//!
//! [`marks`] is the algorithm for IPv4, [`ranges`] the one for IPv6. Each is compiled for every CPU, for x86-64 with
//! AVX2 and bit instructions, and with AVX-512. The vector instructions serve sorting between passes and the search
//! inside nodes. Blocks are always read one key at a time: a gather is slower than as many loads.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod lanes;
mod marks;
mod portable;
mod ranges;

use weir_base::prefetch;

use self::lanes::{Isa, LANES};
use super::key::Key;
use super::view::View;

/// Looks up every key.
///
/// # Safety
/// Every block that is reachable from the view during the call stays unchanged until its end, except for its leaves,
/// which may be stored to atomically.
#[inline]
pub(crate) unsafe fn lookup<K: Key>(view: &View<'_, K>, key: impl Fn(usize) -> K, out: &mut [u32]) {
    #[cfg(target_arch = "x86_64")]
    if has_avx2() {
        if has_avx512() {
            // SAFETY: the CPU has the features; the rest is the caller's promise.
            return unsafe { with_avx512(view, key, out) };
        }
        // SAFETY: as above.
        return unsafe { with_avx2(view, key, out) };
    }
    // SAFETY: the caller's promise.
    unsafe { body::<K, portable::Portable>(view, key, out) }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn has_avx2() -> bool {
    is_x86_feature_detected!("popcnt") && is_x86_feature_detected!("bmi2") && is_x86_feature_detected!("avx2")
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vl")
}

/// Runs the family's algorithm, a vector of keys at a time.
///
/// # Safety
/// As for [`lookup`], and the CPU has the features of `I`.
#[inline(always)]
unsafe fn body<K: Key, I: Isa>(view: &View<'_, K>, key: impl Fn(usize) -> K, out: &mut [u32]) {
    let mut first = 0;
    for out in out.chunks_mut(LANES) {
        let key = |index| key(first + index);
        // SAFETY: the caller's promise.
        unsafe {
            match K::FRAME {
                0 => marks::vector::<K, I>(view, key, out),
                _ => ranges::vector::<K, I>(view, key, out),
            }
        }
        first += LANES;
    }
}

/// # Safety
/// As for [`lookup`], and the CPU has the features.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "popcnt,bmi2,avx2,avx512f,avx512vl")]
unsafe fn with_avx512<K: Key>(view: &View<'_, K>, key: impl Fn(usize) -> K, out: &mut [u32]) {
    // SAFETY: the caller's promise.
    unsafe { body::<K, avx512::Avx512>(view, key, out) }
}

/// # Safety
/// As for [`lookup`], and the CPU has the features.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "popcnt,bmi2,avx2")]
unsafe fn with_avx2<K: Key>(view: &View<'_, K>, key: impl Fn(usize) -> K, out: &mut [u32]) {
    // SAFETY: the caller's promise.
    unsafe { body::<K, avx2::Avx2>(view, key, out) }
}

/// Prefetches adjacent keys. A vector of them may be a page long, and CPUs do not prefetch across its end.
#[inline(always)]
pub(crate) fn fetch<T>(keys: &[T]) {
    for line in keys.chunks((64 / size_of::<T>()).max(1)) {
        prefetch::read(line.as_ptr());
    }
}

/// A lookup body, on a slice of keys.
#[cfg(test)]
pub(crate) type Body<K> = unsafe fn(&View<'_, K>, &[K], &mut [u32]);

/// Returns all bodies that this CPU can run.
#[cfg(test)]
pub(crate) fn bodies<K: Key>() -> Vec<Body<K>> {
    let mut bodies: Vec<Body<K>> = vec![|view, keys, out| {
        // SAFETY: the caller's promise.
        unsafe { body::<K, portable::Portable>(view, |index| keys[index], out) }
    }];
    #[cfg(target_arch = "x86_64")]
    if has_avx2() {
        bodies.push(|view, keys, out| {
            // SAFETY: the CPU has the features; the rest is the caller's promise.
            unsafe { with_avx2(view, |index| keys[index], out) }
        });
        if has_avx512() {
            bodies.push(|view, keys, out| {
                // SAFETY: as above.
                unsafe { with_avx512(view, |index| keys[index], out) }
            });
        }
    }
    bodies
}
