//! Prefetching of cache lines.

/// Prefetches the cache line of `address` for reading, into all cache levels. Never faults, whatever the address.
#[inline(always)]
pub fn read<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: PREFETCHT0 is a hint and does not fault on any address; SSE is part of x86-64.
        unsafe { core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(address.cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Prefetches the cache lines of a value. One that is not aligned to lines may have one more than its size says, which is left
/// out.
#[inline(always)]
pub fn value<T>(value: &T) {
    let first = (&raw const *value).cast::<u8>();
    for line in 0..size_of::<T>().div_ceil(64) {
        read(first.wrapping_add(64 * line));
    }
}
