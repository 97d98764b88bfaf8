//! Functions of this crate for generic ones: a generic function is compiled where its types are filled in. The large ones of a
//! classifier took more time in the crates that use them, and in their tests, than all the rest of these.

use std::any::TypeId;
use std::mem::{ManuallyDrop, transmute_copy};

use crate::lpm::Key;

/// Calls the one of two functions that is for a family. Arguments are one tuple.
///
/// # Safety
/// If `K` is `u32`, `A` and `A4` are one type but for lifetimes, and so are `R` and `R4`; if it is `u128`, `A` and `A6`, and `R` and
/// `R6`. Lifetimes in the result are those of the arguments.
#[inline(always)]
pub(super) unsafe fn call<K: Key, A, R, A4, R4, A6, R6>(args: A, ipv4: fn(A4) -> R4, ipv6: fn(A6) -> R6) -> R {
    // What is copied here is not dropped there.
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
