//! No memory that held a key is given back before it is wiped.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use weir_crypto::{Algorithm, Secret, engines};

/// The octet of which the key consists. The first round key of AES is the key itself.
const KEY: [u8; 16] = [0x5a; 16];

/// Blocks that were given back with the key in them.
static LEFT: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, which looks at what it gets back.
struct Watching;

// SAFETY: All calls go to the system's allocator as they are. A block is read before it is given back, and its octets are initialised
// as far as `alloc` sets them to 0.
unsafe impl GlobalAlloc for Watching {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: The caller keeps to the contract of `alloc`, which is that of `alloc_zeroed`, too.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: The block is the caller's until it is given back, and all of its octets were set when it was made.
        let octets = unsafe { std::slice::from_raw_parts(block, layout.size()) };
        if octets.windows(KEY.len()).any(|window| window == KEY) {
            LEFT.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: The caller keeps to the contract of `dealloc`.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Watching = Watching;

/// Returns the number of blocks with the key that were given back meanwhile.
fn left(what: impl FnOnce()) -> usize {
    let before = LEFT.load(Ordering::Relaxed);
    what();
    LEFT.load(Ordering::Relaxed) - before
}

#[test]
fn keys_are_wiped() {
    assert_eq!(left(|| drop(std::hint::black_box(KEY.to_vec()))), 1, "a block that is not wiped is found");
    for engine in engines::all() {
        for algorithm in Algorithm::all().iter().filter(|algorithm| engine.supports(**algorithm)) {
            let cipher = vec![KEY[0]; algorithm.cipher_key_octets()];
            let integrity = vec![KEY[0]; algorithm.integrity_key_octets()];
            let count = left(|| {
                let secret = Secret::new(&cipher, &integrity);
                let key = engine.key(*algorithm, &secret).expect("the engine has the algorithm");
                drop(key.clone());
                drop((secret, key));
            });
            assert_eq!(count, 0, "{} {algorithm}", engine.name());
        }
    }
}
