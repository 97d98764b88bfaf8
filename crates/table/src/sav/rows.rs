//! Rows: sets of interfaces as bits that readers look at while others are added.
//!
//! Equal sets share a row, unless every prefix is to have its own. A row is used again for another set once nobody can
//! come by its number any more: see [`Numbers`].

use std::collections::HashMap;
use std::io;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use weir_base::reclaim::Domain;
use weir_base::region::Region;

use crate::lpm::Folding;

use super::Set;
use super::numbers::Numbers;

/// The row of sources that no prefix covers.
pub(super) const UNKNOWN: u32 = 0;

/// Atomic numbers, zero at first, in address space of which pages take memory when they are first used.
struct Lazy<A> {
    region: Region,
    len: usize,
    kind: PhantomData<A>,
}

/// Numbers for which octets of zero are the number zero.
trait Zeroed {}
impl Zeroed for AtomicU8 {}
impl Zeroed for AtomicU32 {}
impl Zeroed for AtomicU64 {}

impl<A: Zeroed> Lazy<A> {
    fn new(len: usize) -> io::Result<Lazy<A>> {
        let octets = len.checked_mul(size_of::<A>()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Lazy { region: Region::reserve(octets)?, len, kind: PhantomData })
    }

    #[inline(always)]
    fn all(&self) -> &[A] {
        // SAFETY: the region has `len` of them, is aligned to 2 MiB, zeroed, and lives as long as `self`; nobody refers to
        // it but by these shared references to atomic numbers.
        unsafe { std::slice::from_raw_parts(self.region.base().cast::<A>().as_ptr(), self.len) }
    }

    #[inline(always)]
    fn at(&self, index: usize) -> Option<&A> {
        self.all().get(index)
    }
}

/// The bits, as readers see them.
pub(super) struct Bits {
    /// Words of a row.
    width: usize,
    words: Lazy<AtomicU64>,
    /// The mark of each row.
    marks: Lazy<AtomicU8>,
    /// The number of the prefix that each row is of, if it is of one.
    owners: Lazy<AtomicU32>,
}

impl Bits {
    /// Room for so many rows of so many interfaces.
    fn new(rows: usize, interfaces: u32) -> io::Result<Bits> {
        let width = (interfaces as usize).div_ceil(64).max(1);
        let words = rows.checked_mul(width).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Bits { width, words: Lazy::new(words)?, marks: Lazy::new(rows)?, owners: Lazy::new(rows)? })
    }

    /// The bits of an interface. One that there is no room for is in no row.
    #[inline(always)]
    pub(super) fn column(&self, interface: u32) -> Column<'_> {
        let word = (interface / 64) as usize;
        let words = if word < self.width { self.words.all().get(word..).unwrap_or_default() } else { &[] };
        Column { words, width: self.width, bit: interface % 64 }
    }

    /// The mark of a row.
    #[inline(always)]
    pub(super) fn mark(&self, row: u32) -> u8 {
        self.marks.at(row as usize).map_or(0, |mark| mark.load(Ordering::Relaxed))
    }

    /// The number of the prefix that a row is of; 0: of none, or of many.
    #[inline(always)]
    pub(super) fn owner(&self, row: u32) -> u32 {
        self.owners.at(row as usize).map_or(0, |owner| owner.load(Ordering::Relaxed))
    }

    /// Writes a row that nobody looks at.
    fn write(&self, row: u32, (set, mark): &Row, owner: u32) {
        let row = row as usize;
        let word = |word: usize| self.words.at(row * self.width + word).expect("rows are numbered below the limit");
        (0..self.width).for_each(|index| word(index).store(0, Ordering::Relaxed));
        for interface in set.iter().filter(|interface| ((interface / 64) as usize) < self.width) {
            word((interface / 64) as usize).fetch_or(1 << (interface % 64), Ordering::Relaxed);
        }
        // Pages of what no table of this kind uses stay untouched.
        if self.mark(row as u32) != *mark {
            self.marks.at(row).expect("there is one for each row").store(*mark, Ordering::Relaxed);
        }
        if self.owner(row as u32) != owner {
            self.owners.at(row).expect("there is one for each row").store(owner, Ordering::Relaxed);
        }
    }
}

/// The bits of an interface in all rows.
#[derive(Clone, Copy)]
pub(super) struct Column<'b> {
    /// From that of its bit in row 0 on.
    words: &'b [AtomicU64],
    width: usize,
    bit: u32,
}

impl Column<'_> {
    /// Whether a row has the interface.
    #[inline(always)]
    pub(super) fn has(self, row: u32) -> bool {
        // The value that named this row was loaded with acquire, after the bits were stored.
        let bits = self.words.get(row as usize * self.width).map_or(0, |word| word.load(Ordering::Relaxed));
        bits >> self.bit & 1 != 0
    }
}

/// What a row says: the interfaces, and its mark.
pub(super) type Row = (Set, u8);

struct Kept {
    row: u32,
    users: u32,
}

/// The writer's side: which set has which row. `T` is the table whose values name rows.
pub(super) struct Rows<T> {
    bits: Arc<Bits>,
    numbers: Numbers<T>,
    /// The rows that are shared.
    sets: HashMap<Row, Kept, Folding>,
    /// Those that are not.
    alone: usize,
}

impl<T> Rows<T> {
    pub(super) fn new(domain: &Domain, limit: u32, interfaces: u32) -> io::Result<Rows<T>> {
        Ok(Rows {
            bits: Arc::new(Bits::new(limit as usize + 1, interfaces)?),
            numbers: Numbers::new(domain, limit),
            sets: HashMap::with_hasher(Folding::random()),
            alone: 0,
        })
    }

    /// Another table is current from now on.
    pub(super) fn supersede(&mut self, table: &Arc<T>) {
        self.numbers.supersede(table);
    }

    /// See [`Numbers::collect`].
    pub(super) fn collect(&mut self) {
        self.numbers.collect();
    }

    pub(super) fn bits(&self) -> &Arc<Bits> {
        &self.bits
    }

    /// The row of a set, which has one user more. `None`: there is no room.
    pub(super) fn take(&mut self, set: &Row) -> Option<u32> {
        if let Some(kept) = self.sets.get_mut(set) {
            kept.users += 1;
            return Some(kept.row);
        }
        let row = self.numbers.take()?;
        self.bits.write(row, set, 0);
        self.sets.insert(set.clone(), Kept { row, users: 1 });
        Some(row)
    }

    /// The row of a set has one user less.
    pub(super) fn give(&mut self, set: &Row) {
        let Some(kept) = self.sets.get_mut(set) else { return };
        kept.users -= 1;
        if kept.users == 0 {
            self.numbers.give(kept.row);
            self.sets.remove(set);
        }
    }

    /// A row for the prefix that has the number `owner`, and for no other. `None`: there is no room.
    pub(super) fn take_alone(&mut self, set: &Row, owner: u32) -> Option<u32> {
        let row = self.numbers.take()?;
        self.bits.write(row, set, owner);
        self.alone += 1;
        Some(row)
    }

    /// A row that was taken alone is not needed any more.
    pub(super) fn give_alone(&mut self, row: u32) {
        self.numbers.give(row);
        self.alone -= 1;
    }

    /// Rows in use, and how many there may be.
    pub(super) fn occupancy(&self) -> (usize, usize) {
        (self.sets.len() + self.alone, self.numbers.limit() as usize)
    }

    /// Octets of the bits that were ever used, with what stands beside them.
    pub(super) fn octets(&self) -> usize {
        let beside = if self.alone > 0 { size_of::<u32>() } else { 0 };
        self.numbers.used() as usize * (self.bits.width * 8 + beside + 1)
    }

    /// Octets of the writer's notes.
    pub(super) fn side_octets(&self) -> usize {
        self.sets.capacity() * 8 / 7 * (size_of::<(Row, Kept)>() + 1) + self.numbers.octets()
    }
}
