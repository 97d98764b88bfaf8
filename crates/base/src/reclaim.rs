//! Publish and reclaim: wait-free readers, and memory that is freed after all readers have passed.
//!
//! # The idea
//! Workers read structures that a control thread replaces. A reader must not lock, so the writer swaps a pointer and
//! *retires* the old object. The object may be freed when no reader can hold a reference to it. This is
//! quiescent-state-based reclamation:
//!
//! - A [`Domain`] has one epoch counter and a fixed number of reader slots, one cache line each.
//! - A [`Reader`] is one slot. [`Reader::pin`], called once per vector, writes the current epoch into the slot.
//!   Dropping the [`Guard`] writes *away* (zero). A sleeping reader is away and delays nothing.
//! - Retiring takes a [`Stamp`]: the epoch before its increment. The stamp has *passed* when every slot is away or has
//!   a later epoch.
//!
//! # Why the ordering is right
//! A reader pins, then loads a pointer. A writer swaps this pointer, takes stamp `e`, and later scans the slots. Both
//! run a `SeqCst` fence between their write and their read (slot then pointer; pointer then slots). One of the fences
//! is first in the single total order of such fences:
//!
//! 1. *The scan's fence is first.* The swap happens before it, so the reader's load after the later fence sees the
//!    swap. The reader never gets the old object.
//! 2. *The reader's fence is first.* The scan sees this pin's slot value `s` or a later value.
//!    - A later value was stored with release after the reader's last use of the object and is loaded with acquire. All
//!      uses happen before the object is freed.
//!    - `s > e`: the reader's acquire load of the epoch saw the release increment after the swap, so its pointer load
//!      sees the swap, as in case 1.
//!    - `s <= e`: the stamp has not passed, and the object stays.
//!
//! New readers take over slots through a flag with acquire and release. A slot is away whenever it changes hands.

use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Largest number of readers of a domain.
pub const MAX_READERS: usize = 64;

/// Slot value of a reader that is not pinned. Epochs start at 1.
const AWAY: u64 = 0;

/// A set of readers, and the retired objects that wait for them to pass. A gateway has one.
///
/// Clones are handles of the same domain.
#[derive(Clone)]
pub struct Domain(Arc<Shared>);

struct Shared {
    epoch: Line<AtomicU64>,
    slots: [Line<Slot>; MAX_READERS],
    /// Control threads inside [`Published::with`]; while there is one, no stamp passes.
    visitors: AtomicUsize,
    waiting: Mutex<VecDeque<Waiting>>,
}

struct Slot {
    seen: AtomicU64,
    taken: AtomicBool,
}

struct Waiting {
    since: Stamp,
    // Held for its destructor only.
    _object: Retired,
}

/// A boxed value that readers may still borrow, with the function that frees it.
///
/// Not a `Box`: moving a `Box` claims exclusive access to its content, and readers may still refer to it.
struct Retired {
    value: NonNull<()>,
    /// # Safety
    /// Called once, with `value`, when no reader can refer to it.
    free: unsafe fn(NonNull<()>),
}

// SAFETY: `new` takes only pointers to values that another thread may own and drop.
unsafe impl Send for Retired {}

impl Retired {
    /// # Safety
    /// `value` came from [`Box::into_raw`], and no other code frees it.
    unsafe fn new<T: Send + 'static>(value: NonNull<T>) -> Retired {
        /// # Safety
        /// As for [`Retired::free`], for a value of this type.
        unsafe fn free<T>(value: NonNull<()>) {
            // SAFETY: by the contract, the pointer came from a box of this type, and no reference to the value is left.
            drop(unsafe { Box::from_raw(value.cast::<T>().as_ptr()) });
        }
        Retired { value: value.cast(), free: free::<T> }
    }
}

impl Drop for Retired {
    fn drop(&mut self) {
        // SAFETY: called once. A domain drops retired objects when all readers have passed, or with its last handle,
        // when no reader exists.
        unsafe { (self.free)(self.value) }
    }
}

/// Separates its content from neighbouring cache lines. Two lines, because CPUs fetch adjacent lines in pairs.
#[repr(align(128))]
struct Line<T>(T);

/// A point in a domain's history. Objects unlinked before it may be reused once it has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp(u64);

/// All reader slots of the domain are in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyReaders;

impl fmt::Display for TooManyReaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "all {MAX_READERS} reader slots of the domain are taken")
    }
}

impl std::error::Error for TooManyReaders {}

impl Domain {
    /// Creates a domain without readers.
    pub fn new() -> Domain {
        Domain(Arc::new(Shared {
            epoch: Line(AtomicU64::new(AWAY + 1)),
            slots: std::array::from_fn(|_| Line(Slot { seen: AtomicU64::new(AWAY), taken: AtomicBool::new(false) })),
            visitors: AtomicUsize::new(0),
            waiting: Mutex::new(VecDeque::new()),
        }))
    }

    /// Takes one of the [`MAX_READERS`] reader slots until the [`Reader`] is dropped.
    pub fn reader(&self) -> Result<Reader, TooManyReaders> {
        let free = |slot: &Line<Slot>| {
            slot.0.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
        };
        let index = self.0.slots.iter().position(free).ok_or(TooManyReaders)?;
        Ok(Reader { domain: self.clone(), index })
    }

    /// Retires `object`: drops it once every reader has passed.
    ///
    /// The caller must have unlinked it, so that no new reader finds it.
    pub fn retire<T: Send + 'static>(&self, object: T) {
        let value = NonNull::from(Box::leak(Box::new(object)));
        // SAFETY: the pointer comes from a box and has no copy.
        self.enqueue(unsafe { Retired::new(value) });
    }

    fn enqueue(&self, object: Retired) {
        // The lock keeps the queue in the order of stamps.
        let mut waiting = self.lock();
        let since = self.stamp();
        waiting.push_back(Waiting { since, _object: object });
    }

    /// Takes a stamp, for memory that its owner reclaims itself. Memory unlinked before the call may be reused once the
    /// stamp has [passed](Domain::passed).
    pub fn stamp(&self) -> Stamp {
        // Release: a reader of the new epoch also sees the preceding unlinking.
        Stamp(self.0.epoch.0.fetch_add(1, Ordering::AcqRel))
    }

    /// Returns whether all readers that could have seen objects unlinked before `stamp` have passed.
    ///
    /// The call must happen after the stamp was taken: on the same thread, or with the stamp received through a lock or
    /// channel.
    pub fn passed(&self, stamp: Stamp) -> bool {
        stamp < self.horizon()
    }

    /// Returns the first stamp that has not passed.
    fn horizon(&self) -> Stamp {
        // Upper bound of the stamps that the caller can know; later ones cannot have passed.
        let epoch = self.0.epoch.0.load(Ordering::Acquire);
        // Pairs with the fences in `pin` and `visit`: see "Why the ordering is right".
        fence(Ordering::SeqCst);
        if self.0.visitors.load(Ordering::Acquire) != 0 {
            return Stamp(0);
        }
        let seen = |slot: &Line<Slot>| match slot.0.seen.load(Ordering::Acquire) {
            AWAY => None,
            seen => Some(seen),
        };
        let oldest = self.0.slots.iter().filter_map(seen).min();
        Stamp(oldest.unwrap_or(epoch).min(epoch))
    }

    /// Drops all retired objects that all readers have passed. Returns the number of the remaining ones.
    pub fn collect(&self) -> usize {
        loop {
            // Drops the objects without the lock, because their destructors may retire others.
            let (batch, left) = {
                let mut waiting = self.lock();
                let horizon = self.horizon();
                let passed = waiting.partition_point(|entry| entry.since < horizon);
                let batch: Vec<Waiting> = waiting.drain(..passed).collect();
                (batch, waiting.len())
            };
            if batch.is_empty() {
                return left;
            }
            drop(batch);
        }
    }

    /// Returns the number of retired objects that wait for readers.
    pub fn waiting(&self) -> usize {
        self.lock().len()
    }

    /// Blocks until all objects retired before the call are dropped.
    ///
    /// For control threads only: a thread that holds a [`Guard`] of this domain, or is inside [`Published::with`],
    /// would wait for itself.
    pub fn synchronize(&self) {
        self.wait(self.stamp());
        self.collect();
    }

    /// Blocks until a stamp has [passed](Domain::passed). For control threads only, as [`synchronize`](Domain::synchronize).
    pub fn wait(&self, stamp: Stamp) {
        let mut rounds = 0u32;
        while !self.passed(stamp) {
            // A vector takes microseconds; a reader that is pinned longer was preempted.
            match rounds {
                0..64 => std::hint::spin_loop(),
                64..128 => std::thread::yield_now(),
                _ => std::thread::sleep(Duration::from_micros(50)),
            }
            rounds = rounds.saturating_add(1);
        }
    }

    /// Returns whether `guard` belongs to a reader of this domain. Only then does it protect objects of the domain.
    #[inline]
    pub fn owns(&self, guard: &Guard<'_>) -> bool {
        Arc::ptr_eq(&self.0, &guard.reader.domain.0)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Waiting>> {
        // No user code runs under the lock, so a poisoned queue is consistent.
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Suspends all reclamation until the result is dropped.
    fn visit(&self) -> Visit<'_> {
        self.0.visitors.fetch_add(1, Ordering::AcqRel);
        fence(Ordering::SeqCst);
        Visit(self)
    }
}

impl Default for Domain {
    fn default() -> Domain {
        Domain::new()
    }
}

impl fmt::Debug for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Domain")
            .field("epoch", &self.0.epoch.0.load(Ordering::Relaxed))
            .field("waiting", &self.waiting())
            .finish_non_exhaustive()
    }
}

struct Visit<'d>(&'d Domain);

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        self.0.0.visitors.fetch_sub(1, Ordering::Release);
    }
}

/// A thread's slot in a [`Domain`]. A worker owns one and pins it once per vector.
pub struct Reader {
    domain: Domain,
    index: usize,
}

impl Reader {
    /// Pins the reader. Objects loaded with the guard are not freed before the guard is dropped.
    ///
    /// Costs a store and a full fence: call it per vector, not per packet.
    #[inline]
    pub fn pin(&mut self) -> Guard<'_> {
        // Acquire: an epoch after a stamp makes the preceding unlinking visible.
        let epoch = self.domain.0.epoch.0.load(Ordering::Acquire);
        // Release: a scan that sees this pin happens after all reads under earlier pins.
        self.slot().seen.store(epoch, Ordering::Release);
        // No load under the guard may precede the visibility of the slot's store to a scan.
        fence(Ordering::SeqCst);
        Guard { reader: self, not_send: PhantomData }
    }

    /// Returns the domain of the reader.
    pub fn domain(&self) -> &Domain {
        &self.domain
    }

    #[inline]
    fn slot(&self) -> &Slot {
        &self.domain.0.slots[self.index].0
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // A leaked guard may have left the slot pinned; it can no longer be in use.
        self.slot().seen.store(AWAY, Ordering::Release);
        self.slot().taken.store(false, Ordering::Release);
        // Objects may wait for this reader only, and may hold the domain's last handles.
        self.domain.collect();
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("index", &self.index).finish_non_exhaustive()
    }
}

/// A pinned [`Reader`]: access to the objects that its domain protects.
///
/// Stays on its thread. Dropping it unpins the reader.
pub struct Guard<'r> {
    reader: &'r Reader,
    not_send: PhantomData<*const ()>,
}

impl Guard<'_> {
    /// Returns the domain of the guard.
    pub fn domain(&self) -> &Domain {
        &self.reader.domain
    }
}

impl Drop for Guard<'_> {
    #[inline]
    fn drop(&mut self) {
        // Release: all reads under this guard happen before a scan that sees the reader away.
        self.reader.slot().seen.store(AWAY, Ordering::Release);
    }
}

impl fmt::Debug for Guard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Guard").field(&self.reader.index).finish()
    }
}

/// A value that readers load without waiting while control threads replace it.
pub struct Published<T: Send + Sync + 'static> {
    value: AtomicPtr<T>,
    domain: Domain,
}

impl<T: Send + Sync + 'static> Published<T> {
    /// Publishes `value` to the readers of `domain`.
    pub fn new(value: T, domain: &Domain) -> Self {
        Published { value: AtomicPtr::new(Box::into_raw(Box::new(value))), domain: domain.clone() }
    }

    /// Returns the current value. The reference is valid as long as the guard, whatever is published meanwhile.
    ///
    /// # Panics
    /// If `guard` belongs to a reader of another domain.
    #[inline]
    pub fn load<'g>(&self, guard: &'g Guard<'_>) -> &'g T {
        assert!(self.domain.owns(guard), "guard of another domain");
        // SAFETY: the pointer came from a box that is freed only through `retire`, after it was unlinked here. The
        // guard pins a reader of the same domain since before this load, so the box outlives the guard and the
        // reference.
        unsafe { &*self.value.load(Ordering::Acquire) }
    }

    /// Replaces the value for all later loads and retires the old one. Drops retired objects that have passed.
    pub fn publish(&self, value: T) {
        self.replace(value);
        self.domain.collect();
    }

    /// Replaces the value as [`Published::publish`] does, but drops nothing: for threads without time to free retired
    /// objects.
    pub fn replace(&self, value: T) {
        let fresh = Box::into_raw(Box::new(value));
        let stale = self.value.swap(fresh, Ordering::AcqRel);
        self.retire(stale);
    }

    /// Passes the value to `f` on a control thread, without a reader slot. The domain frees nothing meanwhile: `f`
    /// should be short and must not call [`Domain::synchronize`].
    pub fn with<R>(&self, f: impl FnOnce(&T) -> R) -> R {
        let _visit = self.domain.visit();
        // SAFETY: as in `load`. The visit began before this load and delays the freeing of later retired objects to the
        // end of this function.
        f(unsafe { &*self.value.load(Ordering::Acquire) })
    }

    fn retire(&self, stale: *mut T) {
        let stale = NonNull::new(stale).expect("the pointer came from a box");
        // SAFETY: the pointer came from `Box::into_raw`, and the caller took it out of `value`, so no other code frees
        // it. It stays a pointer until readers, which may borrow it, have passed.
        self.domain.enqueue(unsafe { Retired::new(stale) });
    }
}

impl<T: Send + Sync + 'static> Drop for Published<T> {
    fn drop(&mut self) {
        // Loaded references are bound to guards and may outlive `self`.
        let last = *self.value.get_mut();
        self.retire(last);
        self.domain.collect();
    }
}

impl<T: Send + Sync + 'static + fmt::Debug> fmt::Debug for Published<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with(|value| f.debug_tuple("Published").field(value).finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::thread;

    /// Counts its drops and detects a use after one.
    struct Probe {
        alive: AtomicBool,
        number: usize,
        drops: Arc<AtomicUsize>,
    }

    impl Probe {
        fn new(number: usize, drops: &Arc<AtomicUsize>) -> Probe {
            Probe { alive: AtomicBool::new(true), number, drops: drops.clone() }
        }
    }

    impl Drop for Probe {
        fn drop(&mut self) {
            assert!(self.alive.swap(false, Ordering::Relaxed), "dropped twice");
            self.drops.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_pinned_reader_keeps_what_it_loaded() {
        let domain = Domain::new();
        let drops = Arc::new(AtomicUsize::new(0));
        let root = Published::new(Probe::new(1, &drops), &domain);
        let mut reader = domain.reader().unwrap();

        let guard = reader.pin();
        let held = root.load(&guard);
        root.publish(Probe::new(2, &drops));
        assert_eq!(domain.collect(), 1);
        assert!(held.alive.load(Ordering::Relaxed));
        assert_eq!((held.number, drops.load(Ordering::Relaxed)), (1, 0));
        assert_eq!(root.load(&guard).number, 2);

        drop(guard);
        assert_eq!((domain.collect(), domain.waiting()), (0, 0));
        assert_eq!(drops.load(Ordering::Relaxed), 1);
        drop(root);
        assert_eq!(drops.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn what_was_loaded_outlives_the_published() {
        let domain = Domain::new();
        let drops = Arc::new(AtomicUsize::new(0));
        let root = Published::new(Probe::new(1, &drops), &domain);
        let mut reader = domain.reader().unwrap();
        let guard = reader.pin();
        let held = root.load(&guard);
        drop(root);
        assert!(held.alive.load(Ordering::Relaxed));
        drop(guard);
        domain.synchronize();
        assert_eq!(drops.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_later_pin_does_not_hold_an_earlier_object() {
        let domain = Domain::new();
        let drops = Arc::new(AtomicUsize::new(0));
        let root = Published::new(Probe::new(1, &drops), &domain);
        let mut early = domain.reader().unwrap();
        let mut late = domain.reader().unwrap();
        let early_guard = early.pin();
        root.publish(Probe::new(2, &drops));
        let _late_guard = late.pin();
        assert_eq!(domain.collect(), 1);
        drop(early_guard);
        assert_eq!(domain.collect(), 0);
        assert_eq!(drops.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_sleeping_reader_holds_up_nothing() {
        let domain = Domain::new();
        let mut sleeper = domain.reader().unwrap();
        drop(sleeper.pin());
        let root = Published::new(1, &domain);
        root.publish(2);
        domain.synchronize();
        assert_eq!(domain.waiting(), 0);
        assert_eq!(*root.load(&sleeper.pin()), 2);
    }

    #[test]
    fn a_visit_holds_up_everything_and_may_publish() {
        let domain = Domain::new();
        let root = Published::new(1, &domain);
        root.with(|value| {
            root.publish(2);
            assert_eq!((*value, domain.collect()), (1, 1));
        });
        assert_eq!(domain.collect(), 0);
        assert_eq!(root.with(|value| *value), 2);
    }

    #[test]
    fn a_guard_of_another_domain_is_refused() {
        let root = Published::new(1, &Domain::new());
        let stranger = Domain::new();
        let mut reader = stranger.reader().unwrap();
        let guard = reader.pin();
        assert!(catch_unwind(AssertUnwindSafe(|| *root.load(&guard))).is_err());
    }

    #[test]
    fn slots_are_bounded_and_come_back() {
        let domain = Domain::new();
        let mut readers: Vec<Reader> = (0..MAX_READERS).map(|_| domain.reader().unwrap()).collect();
        assert_eq!(domain.reader().unwrap_err(), TooManyReaders);
        readers.pop();
        assert!(domain.reader().is_ok());
    }

    #[test]
    fn a_leaked_guard_ends_with_its_reader() {
        let domain = Domain::new();
        let mut reader = domain.reader().unwrap();
        std::mem::forget(reader.pin());
        domain.retire(1);
        assert_eq!(domain.collect(), 1);
        drop(reader);
        assert_eq!(domain.waiting(), 0);
    }

    #[test]
    fn a_destructor_may_retire() {
        struct Nested(Domain, Arc<AtomicUsize>);
        impl Drop for Nested {
            fn drop(&mut self) {
                self.0.retire(Probe::new(0, &self.1));
            }
        }
        let domain = Domain::new();
        let drops = Arc::new(AtomicUsize::new(0));
        domain.retire(Nested(domain.clone(), drops.clone()));
        assert_eq!(domain.collect(), 0);
        assert_eq!(drops.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn stamps_pass_in_order() {
        let domain = Domain::new();
        let mut reader = domain.reader().unwrap();
        let before = domain.stamp();
        let guard = reader.pin();
        let during = domain.stamp();
        assert!(domain.passed(before));
        assert!(!domain.passed(during));
        drop(guard);
        assert!(domain.passed(during));
    }

    #[test]
    fn nothing_is_freed_early_or_lost_under_stress() {
        const READERS: usize = 4;
        const WRITERS: usize = 2;
        let rounds = if cfg!(miri) { 50 } else { 20_000 };
        let domain = Domain::new();
        let drops = Arc::new(AtomicUsize::new(0));
        let root = Published::new(Probe::new(0, &drops), &domain);
        let (stop, looked) = (AtomicBool::new(false), AtomicUsize::new(0));

        thread::scope(|scope| {
            for _ in 0..READERS {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        // Readers are created and dropped, too.
                        let mut reader = domain.reader().unwrap();
                        for _ in 0..100 {
                            let guard = reader.pin();
                            let first = root.load(&guard);
                            let second = root.load(&guard);
                            looked.fetch_add(1, Ordering::Relaxed);
                            for probe in [first, second] {
                                assert!(probe.alive.load(Ordering::Relaxed));
                            }
                        }
                    }
                });
            }
            let writers: Vec<_> = (0..WRITERS)
                .map(|_| {
                    scope.spawn(|| {
                        for number in 0..rounds {
                            root.publish(Probe::new(number, &drops));
                            root.with(|probe| assert!(probe.alive.load(Ordering::Relaxed)));
                            // Half of the rounds wait for a reader to load.
                            while number == rounds / 2 && looked.load(Ordering::Relaxed) == 0 {
                                thread::yield_now();
                            }
                        }
                    })
                })
                .collect();
            for writer in writers {
                writer.join().unwrap();
            }
            stop.store(true, Ordering::Relaxed);
        });

        domain.synchronize();
        assert_eq!(domain.waiting(), 0);
        assert_eq!(drops.load(Ordering::Relaxed), WRITERS * rounds);
        drop(root);
        assert_eq!(drops.load(Ordering::Relaxed), WRITERS * rounds + 1);
    }
}
