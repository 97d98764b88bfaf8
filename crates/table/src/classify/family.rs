//! Non-generic functions behind generic ones. Every crate compiles the generic functions that it uses; the large ones
//! of a classifier took most of the compile time.

use std::any::TypeId;
use std::mem::{ManuallyDrop, transmute_copy};

use crate::lpm::Key;

/// Calls the one of two functions for a family. Arguments are one tuple.
///
/// # Safety
/// If `K` is `u32`, `A` and `A4` are the same type except for lifetimes, and so are `R` and `R4`; if it is `u128`, `A`
/// and `A6`, and `R` and `R6`. Lifetimes in the result are those of the arguments.
#[inline(always)]
pub(super) unsafe fn call<K: Key, A, R, A4, R4, A6, R6>(args: A, ipv4: fn(A4) -> R4, ipv6: fn(A6) -> R6) -> R {
    // The copied arguments are not dropped here.
    let args = ManuallyDrop::new(args);
    if TypeId::of::<K>() == TypeId::of::<u32>() {
        // SAFETY: the caller's promise.
        return unsafe { transmute_copy(&ManuallyDrop::new(ipv4(transmute_copy(&args)))) };
    }
    // Keys are of two families.
    assert!(TypeId::of::<K>() == TypeId::of::<u128>());
    // SAFETY: the caller's promise.
    unsafe { transmute_copy(&ManuallyDrop::new(ipv6(transmute_copy(&args)))) }
}
