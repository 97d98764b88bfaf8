//! The memory of buckets: regions of up to 2 MiB, each with the tags of its buckets and behind them their entries. An address
//! follows from the number of a bucket and one load, that of its region's base.

use std::io;
use std::marker::PhantomData;
use std::ptr::NonNull;

use weir_base::region::Region;
use weir_base::supply::Supply;

use super::bucket::{BUCKETS, Entry, LANES, Tags};

/// The buckets of a table. Their number grows by groups.
pub(super) struct Buckets<K, V, A> {
    /// The first octet of each region.
    bases: Vec<NonNull<u8>>,
    /// Buckets in use: their tags and all of their entries are initialised.
    len: usize,
    regions: Vec<Region>,
    supply: Supply,
    entries: PhantomData<Entry<K, V, A>>,
}

// SAFETY: `bases` point into regions that the value owns, which have no thread affinity; what lies in them is tags and entries.
unsafe impl<K: Send, V: Send, A: Send> Send for Buckets<K, V, A> {}
// SAFETY: shared access reads only.
unsafe impl<K: Sync, V: Sync, A: Sync> Sync for Buckets<K, V, A> {}

impl<K: Copy + Default, V: Copy + Default, A: Copy> Buckets<K, V, A> {
    /// Buckets of a region: a power of two that fits into 2 MiB, and a group at least.
    const OF_REGION: usize = {
        let octets = size_of::<Tags>() + LANES * size_of::<Entry<K, V, A>>();
        let fitting = (2 << 20) / octets;
        if fitting < BUCKETS { BUCKETS } else { 1 << fitting.ilog2() }
    };
    /// Octets of a region. The entries begin behind the tags, which are cache lines.
    const OCTETS: usize = Self::OF_REGION * (size_of::<Tags>() + LANES * size_of::<Entry<K, V, A>>());
    /// The bits of a bucket's number that name it in its region.
    const IN_REGION: usize = Self::OF_REGION - 1;

    /// No buckets.
    pub(super) fn new() -> Self {
        const { assert!(align_of::<Entry<K, V, A>>() <= size_of::<Tags>() && BUCKETS.is_power_of_two()) };
        Buckets { bases: Vec::new(), len: 0, regions: Vec::new(), supply: Supply::new(), entries: PhantomData }
    }

    /// Buckets in use.
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Octets of memory.
    pub(super) fn octets(&self) -> usize {
        self.regions.iter().map(Region::len).sum()
    }

    /// Adds an empty group of buckets.
    ///
    /// # Errors
    /// If the system lacks memory.
    pub(super) fn add_group(&mut self) -> io::Result<()> {
        let from = self.len;
        if from / Self::OF_REGION == self.regions.len() {
            let region = self.supply.take(Self::OCTETS)?;
            self.bases.push(region.base());
            self.regions.push(region);
        }
        // The next region is made ready while this one fills. A table of one region may stay as small.
        let first = if self.regions.len() > 1 { 0 } else { Self::OF_REGION / 4 };
        if from % Self::OF_REGION / BUCKETS == first / BUCKETS {
            self.supply.order(Self::OCTETS);
        }
        let base = self.bases[from / Self::OF_REGION];
        let vacant = Entry::new(K::default(), V::default());
        let (first, last) = (from & Self::IN_REGION, (from & Self::IN_REGION) + BUCKETS);
        let (tags, entries) = (size_of::<Tags>(), LANES * size_of::<Entry<K, V, A>>());
        let behind = Self::OF_REGION * tags;
        let region = &self.regions[from / Self::OF_REGION];
        region.allocate(first * tags..last * tags)?;
        region.allocate(behind + first * entries..behind + last * entries)?;
        for bucket in first..last {
            // SAFETY: the bucket is one of the region, which has OCTETS: the tags of OF_REGION buckets and then LANES entries of
            // each, aligned as the region's base and the tags are. Nobody refers to a bucket from `len` on.
            unsafe {
                base.cast::<Tags>().add(bucket).write(Tags::EMPTY);
                let entries = base.add(Self::OF_REGION * size_of::<Tags>()).cast::<Entry<K, V, A>>();
                (0..LANES).for_each(|lane| entries.add(bucket * LANES + lane).write(vacant));
            }
        }
        self.len += BUCKETS;
        Ok(())
    }

    /// The tags of a bucket; `None` if it is not in use.
    #[inline(always)]
    pub(super) fn tags(&self, bucket: usize) -> Option<&Tags> {
        // SAFETY: the bucket is in use, so its tags are initialised.
        (bucket < self.len).then(|| unsafe { self.tags_of(bucket).as_ref() })
    }

    /// The tags of a bucket, to be changed.
    #[inline(always)]
    pub(super) fn tags_mut(&mut self, bucket: usize) -> Option<&mut Tags> {
        // SAFETY: as above; `&mut self` makes the access exclusive.
        (bucket < self.len).then(|| unsafe { self.tags_of(bucket).as_mut() })
    }

    /// The content of a lane, taken or vacant; `None` if there is no such lane.
    #[inline(always)]
    pub(super) fn entry(&self, bucket: usize, lane: usize) -> Option<&Entry<K, V, A>> {
        // SAFETY: the bucket is in use, so its entries are initialised.
        (bucket < self.len && lane < LANES).then(|| unsafe { self.entry_of(bucket, lane).as_ref() })
    }

    /// The content of a lane, to be changed.
    #[inline(always)]
    pub(super) fn entry_mut(&mut self, bucket: usize, lane: usize) -> Option<&mut Entry<K, V, A>> {
        // SAFETY: as above; `&mut self` makes the access exclusive.
        (bucket < self.len && lane < LANES).then(|| unsafe { self.entry_of(bucket, lane).as_mut() })
    }

    /// Where the tags and the entries of a bucket are, whose number is below [`Buckets::len`].
    #[inline(always)]
    pub(super) fn addresses(&self, bucket: usize) -> (NonNull<Tags>, NonNull<Entry<K, V, A>>) {
        assert!(bucket < self.len, "a bucket that is not in use");
        // SAFETY: it is in use.
        unsafe { (self.tags_of(bucket), self.entry_of(bucket, 0)) }
    }

    /// # Safety
    /// The bucket is in use.
    #[inline(always)]
    unsafe fn tags_of(&self, bucket: usize) -> NonNull<Tags> {
        // SAFETY: there is a region for each bucket in use, and the tags of OF_REGION buckets are its first.
        unsafe { self.bases.get_unchecked(bucket / Self::OF_REGION).cast::<Tags>().add(bucket & Self::IN_REGION) }
    }

    /// # Safety
    /// The bucket is in use, and `lane` is below [`LANES`].
    #[inline(always)]
    unsafe fn entry_of(&self, bucket: usize, lane: usize) -> NonNull<Entry<K, V, A>> {
        // SAFETY: there is a region for each bucket in use; behind its tags it has LANES entries for each of OF_REGION buckets.
        unsafe {
            let entries = self.bases.get_unchecked(bucket / Self::OF_REGION).add(Self::OF_REGION * size_of::<Tags>());
            entries.cast::<Entry<K, V, A>>().add((bucket & Self::IN_REGION) * LANES + lane)
        }
    }
}
