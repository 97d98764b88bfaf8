//! Packet buffers: chunks of one bounded region, in two sizes.
//!
//! The gateway allocates all buffers at its start, in huge pages if there are any. A *small* chunk (2 KiB) holds an
//! ordinary frame, a *large* chunk a super-packet of 64 KiB. A chunk begins with [`SCRATCH`] octets for metadata that few
//! packets have. [`HEADROOM`] octets for encapsulation follow, then the frame, then [`TAILROOM`] for trailers. Chunk sizes
//! are multiples of 2 KiB and the region is one mapping, so that a port can register it as an AF_XDP UMEM.
//!
//! A `Buffer` owns its chunk. Workers allocate from and return to their own [`Cache`], which exchanges batches of chunks
//! with the shared [`Pool`]. A buffer that is dropped returns to the pool whose region holds its chunk: a list of all pools
//! of the process says which. So a buffer is one pointer, and none is lost.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use weir_base::region::{Pages, Region};

/// Octets at the start of a chunk, for metadata that few packets have: no header ever reaches into them.
pub const SCRATCH: usize = 64;
/// Octets in front of a new frame, for headers that are added later.
pub const HEADROOM: usize = 320;
/// Octets behind a new frame, for trailers that are added later: padding, ICV and next header of ESP (RFC 4303, 2).
pub const TAILROOM: usize = 64;
/// Where a new frame starts in its chunk, in octets.
pub(crate) const FRAME: usize = SCRATCH + HEADROOM;
/// Octets of a small chunk.
pub const SMALL: usize = 2048;
/// Octets of a large chunk: scratch, headroom, the longest frame and tailroom, with room to round up.
pub const LARGE: usize = 68 * 1024;
/// Octets of the longest frame in a small buffer.
pub const SMALL_FRAME: usize = SMALL - FRAME - TAILROOM;
/// Octets of the longest frame in a large buffer: an IPv6 packet with a payload of 65,535 octets behind an Ethernet
/// header with two tags.
pub const MAX_FRAME: usize = 40 + 65_535 + 22;

const _: () = assert!(LARGE >= FRAME + MAX_FRAME + TAILROOM && LARGE.is_multiple_of(SMALL));

/// Chunks that move between a cache and the pool at once.
const BATCH: usize = 128;

/// How a pool is to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolSize {
    /// Small chunks.
    pub small: usize,
    /// Large chunks.
    pub large: usize,
}

/// How full a pool is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Occupancy {
    /// Small chunks in all, and in the pool (those in workers' caches count as out).
    pub small: (usize, usize),
    /// Large chunks in all, and in the pool.
    pub large: (usize, usize),
    /// The kind of its pages.
    pub pages: Pages,
}

struct Class {
    total: usize,
    free: Mutex<Vec<NonNull<u8>>>,
}

impl Class {
    fn free(&self) -> MutexGuard<'_, Vec<NonNull<u8>>> {
        // The list is valid after every single push and pop, so a panic elsewhere leaves nothing half done.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Inner {
    region: Region,
    small: Class,
    large: Class,
    /// Address of the first small chunk, of the first large chunk, and of the end.
    start: usize,
    boundary: usize,
    end: usize,
    handles: AtomicUsize,
}

impl Inner {
    fn class(&self, chunk: NonNull<u8>) -> &Class {
        if (chunk.as_ptr() as usize) < self.boundary { &self.small } else { &self.large }
    }

    /// The chunk is one of this pool's.
    #[inline(always)]
    fn owns(&self, chunk: NonNull<u8>) -> bool {
        (self.start..self.end).contains(&(chunk.as_ptr() as usize))
    }
}

/// The pools of the process: buffers that are dropped find the pool of their chunk here. The usual buffer never looks, as
/// it goes back to a worker's cache.
static POOLS: RwLock<Vec<Listed>> = RwLock::new(Vec::new());

struct Listed(NonNull<Inner>);

// SAFETY: `Inner` may be used by any thread (see `Pool`), and stays listed only while it lives.
unsafe impl Send for Listed {}
// SAFETY: as above.
unsafe impl Sync for Listed {}

/// The shared pool; cheap to clone.
pub struct Pool {
    inner: NonNull<Inner>,
}

// SAFETY: `Inner` is shared behind a counted handle; its lists are under mutexes, the rest is written once. The chunk
// pointers in the lists point into the region, which has no thread affinity.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

impl Pool {
    /// Allocates every buffer there will be.
    ///
    /// # Errors
    /// When the system has no room for them.
    pub fn new(size: PoolSize) -> io::Result<Pool> {
        let small = size.small.checked_mul(SMALL);
        let large = size.large.checked_mul(LARGE);
        let octets = small.zip(large).and_then(|(small, large)| small.checked_add(large));
        let region = Region::new(octets.ok_or(io::ErrorKind::OutOfMemory)?)?;
        // SAFETY: offsets up to and including `octets` stay inside the region (or one past its end).
        let at = |offset: usize| unsafe { region.base().add(offset) };
        let boundary = at(size.small * SMALL);
        // Reversed, so that chunks are first handed out in ascending order.
        let chunks = |count: usize, first: usize, step: usize| Class {
            total: count,
            free: Mutex::new((0..count).rev().map(|index| at(first + index * step)).collect()),
        };
        let (small, large) = (chunks(size.small, 0, SMALL), chunks(size.large, size.small * SMALL, LARGE));
        let [start, end] = [0, size.small * SMALL + size.large * LARGE].map(|offset| at(offset).as_ptr() as usize);
        let boundary = boundary.as_ptr() as usize;
        let inner = Inner { small, large, start, boundary, end, handles: AtomicUsize::new(1), region };
        let inner = NonNull::from(Box::leak(Box::new(inner)));
        // The list is valid after each push and removal, so a panic elsewhere leaves nothing half done.
        POOLS.write().unwrap_or_else(PoisonError::into_inner).push(Listed(inner));
        Ok(Pool { inner })
    }

    fn inner(&self) -> &Inner {
        // SAFETY: `Inner` lives while there is a handle (see `Drop`), and this is one.
        unsafe { self.inner.as_ref() }
    }

    /// A worker's own stock.
    pub fn cache(&self) -> Cache {
        Cache { small: Vec::with_capacity(2 * BATCH), pool: self.clone() }
    }

    /// Returns the octets of the longest frame that the pool has a buffer for.
    pub fn longest_frame(&self) -> usize {
        if self.inner().large.total > 0 { MAX_FRAME } else { SMALL_FRAME }
    }

    /// How full the pool is.
    pub fn occupancy(&self) -> Occupancy {
        let inner = self.inner();
        let of = |class: &Class| (class.total, class.free().len());
        Occupancy { small: of(&inner.small), large: of(&inner.large), pages: inner.region.pages() }
    }
}

impl Clone for Pool {
    fn clone(&self) -> Self {
        // Relaxed: a new handle is made from a live one, as in Arc.
        self.inner().handles.fetch_add(1, Ordering::Relaxed);
        Pool { inner: self.inner }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // AcqRel: everything other handles did happens before the last one looks.
        if self.inner().handles.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        let inner = self.inner();
        // Buffers may outlive every handle: then the region stays mapped for good, which is a leak but never a
        // dangling buffer. Workers give their buffers back before they end, so it does not happen in a gateway.
        if inner.small.free().len() == inner.small.total && inner.large.free().len() == inner.large.total {
            // Every chunk is home, so no buffer looks for this pool any more.
            POOLS.write().unwrap_or_else(PoisonError::into_inner).retain(|listed| listed.0 != self.inner);
            // SAFETY: made by Box::leak in `new`; no handle is left, no buffer refers to it, and the list does not name it.
            drop(unsafe { Box::from_raw(self.inner.as_ptr()) });
        }
    }
}

/// One chunk, owned. The empty buffer owns none.
#[repr(transparent)]
pub(crate) struct Buffer {
    chunk: NonNull<u8>,
}

// SAFETY: a buffer owns its chunk alone; the pool that it returns to is Sync.
unsafe impl Send for Buffer {}

impl Buffer {
    pub(crate) const EMPTY: Buffer = Buffer { chunk: NonNull::dangling() };

    #[inline(always)]
    pub(crate) fn chunk(&self) -> NonNull<u8> {
        self.chunk
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.chunk == NonNull::dangling()
    }
}

impl Drop for Buffer {
    #[inline]
    fn drop(&mut self) {
        #[cold]
        fn give_back(chunk: NonNull<u8>) {
            let pools = POOLS.read().unwrap_or_else(PoisonError::into_inner);
            for Listed(pool) in &*pools {
                // SAFETY: a listed pool lives: it is removed under the write lock before it is freed.
                let inner = unsafe { pool.as_ref() };
                if inner.owns(chunk) {
                    inner.class(chunk).free().push(chunk);
                    return;
                }
            }
        }
        if !self.is_empty() {
            give_back(self.chunk);
        }
    }
}

/// A worker's own stock of small buffers; large ones come from the pool and go back to it one by one.
pub struct Cache {
    small: Vec<NonNull<u8>>,
    pool: Pool,
}

// SAFETY: the chunks in stock are owned by the cache.
unsafe impl Send for Cache {}

impl Cache {
    /// Takes a buffer with headroom, room for a frame of `frame` octets, and tailroom. Returns `None` if the pool is
    /// exhausted or the frame is longer than [`MAX_FRAME`].
    #[inline]
    pub(crate) fn take(&mut self, frame: usize) -> Option<Buffer> {
        let chunk = if frame <= SMALL_FRAME {
            match self.small.pop() {
                Some(chunk) => chunk,
                None => refill(&mut self.small, &self.pool.inner().small)?,
            }
        } else if frame <= MAX_FRAME {
            self.pool.inner().large.free().pop()?
        } else {
            return None;
        };
        Some(Buffer { chunk })
    }

    /// Takes a buffer back.
    #[inline]
    pub(crate) fn give(&mut self, buffer: Buffer) {
        if !self.pool.inner().owns(buffer.chunk) {
            return; // empty, or another pool's: its own drop finds that pool
        }
        let chunk = buffer.chunk;
        std::mem::forget(buffer);
        let inner = self.pool.inner();
        if (chunk.as_ptr() as usize) >= inner.boundary {
            // There are few: kept here, they would be missing elsewhere.
            inner.large.free().push(chunk);
            return;
        }
        self.small.push(chunk);
        if self.small.len() >= 2 * BATCH {
            surrender(&mut self.small, &inner.small, BATCH);
        }
    }

    /// The pool behind it.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }
}

#[cold]
fn refill(stock: &mut Vec<NonNull<u8>>, class: &Class) -> Option<NonNull<u8>> {
    let mut free = class.free();
    // Never more than an eighth of what is left: one worker must not starve another of the last buffers.
    let batch = BATCH.min(free.len().div_ceil(8));
    let rest = free.len() - batch;
    stock.extend(free.drain(rest..));
    drop(free);
    stock.pop()
}

#[cold]
fn surrender(stock: &mut Vec<NonNull<u8>>, class: &Class, count: usize) {
    // The longest unused go: what stays is warm in this worker's cache.
    class.free().extend(stock.drain(..count));
}

impl Drop for Cache {
    fn drop(&mut self) {
        let inner = self.pool.inner();
        let count = self.small.len();
        surrender(&mut self.small, &inner.small, count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn free(pool: &Pool) -> (usize, usize) {
        let occupancy = pool.occupancy();
        (occupancy.small.1, occupancy.large.1)
    }

    #[test]
    fn the_pool_is_bounded_and_gets_everything_back() {
        let pool = Pool::new(PoolSize { small: 600, large: 3 }).unwrap();
        let mut cache = pool.cache();
        let mut out: Vec<_> = std::iter::from_fn(|| cache.take(64)).collect();
        assert_eq!(out.len(), 600);
        let large: Vec<_> = std::iter::from_fn(|| cache.take(9000)).collect();
        assert_eq!(large.len(), 3);
        assert_eq!(free(&pool), (0, 0));
        let mut chunks: Vec<_> = out.iter().map(|buffer| buffer.chunk()).collect();
        chunks.sort();
        chunks.dedup();
        assert_eq!(chunks.len(), 600, "no chunk is handed out twice");
        for buffer in out.drain(..300) {
            cache.give(buffer);
        }
        drop(out);
        drop(large);
        drop(cache);
        assert_eq!(free(&pool), (600, 3));
    }

    #[test]
    fn large_buffers_that_one_worker_gave_back_are_there_for_another() {
        let pool = Pool::new(PoolSize { small: 1, large: 2 }).unwrap();
        let (mut taker, mut giver) = (pool.cache(), pool.cache());
        for _ in 0..10 {
            let buffer = taker.take(9000).unwrap();
            giver.give(buffer);
        }
        assert_eq!(free(&pool).1, 2);
    }

    #[test]
    fn each_frame_gets_the_smallest_chunk_that_leaves_headroom_and_tailroom() {
        let pool = Pool::new(PoolSize { small: 1, large: 1 }).unwrap();
        assert_eq!(pool.longest_frame(), MAX_FRAME);
        let mut cache = pool.cache();
        assert!(cache.take(MAX_FRAME + 1).is_none());
        let large = cache.take(SMALL_FRAME + 1).unwrap();
        assert!(cache.take(MAX_FRAME).is_none(), "the only large chunk is out");
        assert_eq!(free(&pool), (1, 0));
        drop(large);
        assert!(cache.take(MAX_FRAME).is_some());
        assert!(cache.take(SMALL_FRAME).is_some_and(|small| !small.is_empty()));
    }

    #[test]
    fn a_pool_without_large_buffers_has_none_for_long_frames() {
        let pool = Pool::new(PoolSize { small: 1, large: 0 }).unwrap();
        assert_eq!(pool.longest_frame(), SMALL_FRAME);
        assert!(pool.cache().take(SMALL_FRAME + 1).is_none());
        assert!(pool.cache().take(SMALL_FRAME).is_some());
    }

    #[test]
    fn a_buffer_may_outlive_its_pool() {
        let pool = Pool::new(PoolSize { small: 2, large: 0 }).unwrap();
        let buffer = pool.cache().take(64).unwrap();
        drop(pool);
        // SAFETY: the chunk is owned by `buffer`, and its region is still mapped.
        unsafe { buffer.chunk().write(1) };
        drop(buffer);
    }

    #[test]
    fn a_buffer_of_another_pool_goes_home() {
        let (here, there) = (PoolSize { small: 4, large: 0 }, PoolSize { small: 4, large: 0 });
        let (here, there) = (Pool::new(here).unwrap(), Pool::new(there).unwrap());
        let buffer = there.cache().take(64).unwrap();
        here.cache().give(buffer);
        assert_eq!((free(&here), free(&there)), ((4, 0), (4, 0)));
    }

    #[test]
    fn no_room_is_an_error() {
        assert!(Pool::new(PoolSize { small: usize::MAX, large: 1 }).is_err());
        assert!(Pool::new(PoolSize { small: 1 << 50, large: 1 }).is_err());
    }
}
