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

use super::numbers::Numbers;
use super::{Set, Verdict};

/// The row of sources that no prefix covers.
pub(super) const UNKNOWN: u32 = 0;

/// What rows keep of each interface, as it stands in words.
pub trait Cell: Copy + std::fmt::Debug + Send + Sync + 'static {
    /// Bits of an interface: they divide 64.
    const BITS: u32;

    /// What stands for a verdict; 0 for [`Verdict::Invalid`].
    fn code(verdict: Verdict) -> u64;

    /// The verdict of a row, by the word with the interface's code in its lowest bits.
    fn verdict(row: u32, word: u64) -> Verdict;
}

/// Valid or not; but all is unknown in row 0, and in no other.
#[derive(Debug, Clone, Copy)]
pub struct Bit;

impl Cell for Bit {
    const BITS: u32 = 1;

    fn code(verdict: Verdict) -> u64 {
        u64::from(verdict == Verdict::Valid)
    }

    #[inline(always)]
    fn verdict(row: u32, word: u64) -> Verdict {
        let known = if word & 1 != 0 { Verdict::Valid } else { Verdict::Invalid };
        if row == UNKNOWN { Verdict::Unknown } else { known }
    }
}

/// Any verdict, in any row.
#[derive(Debug, Clone, Copy)]
pub struct Pair;

impl Cell for Pair {
    const BITS: u32 = 2;

    fn code(verdict: Verdict) -> u64 {
        match verdict {
            Verdict::Invalid => 0,
            Verdict::Valid => 1,
            Verdict::Unknown => 2,
        }
    }

    #[inline(always)]
    fn verdict(_: u32, word: u64) -> Verdict {
        match word & 3 {
            0 => Verdict::Invalid,
            1 => Verdict::Valid,
            _ => Verdict::Unknown,
        }
    }
}

/// What a row says. Of several sets that an interface is in the last counts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Row {
    /// Of interfaces in none of the sets.
    pub rest: Verdict,
    /// Interfaces that are not valid: many rows may have the same set.
    pub closed: Set,
    /// More that are not.
    pub invalid: Set,
    /// Interfaces that are valid.
    pub valid: Set,
    /// What else is to be known of the row, 0 where nobody looks at it.
    pub mark: u8,
}

impl Row {
    /// These interfaces are valid, and no others.
    pub(super) fn of(valid: Set) -> Row {
        Row { rest: Verdict::Invalid, closed: Set::default(), invalid: Set::default(), valid, mark: 0 }
    }
}

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
pub(super) struct Bits<C> {
    /// Words of a row.
    width: usize,
    words: Lazy<AtomicU64>,
    /// The mark of each row.
    marks: Lazy<AtomicU8>,
    /// The number of the prefix that each row is of, if it is of one.
    owners: Lazy<AtomicU32>,
    kind: PhantomData<C>,
}

/// Words of a row of so many interfaces.
pub(super) fn width<C: Cell>(interfaces: u32) -> usize {
    (interfaces as usize).div_ceil((64 / C::BITS) as usize).max(1)
}

impl<C: Cell> Bits<C> {
    /// Interfaces of a word.
    const OF_WORD: u32 = 64 / C::BITS;

    /// Room for so many rows of so many interfaces.
    fn new(rows: usize, interfaces: u32) -> io::Result<Bits<C>> {
        let width = width::<C>(interfaces);
        let words = rows.checked_mul(width).ok_or(io::ErrorKind::OutOfMemory)?;
        let bits = Bits {
            width,
            words: Lazy::new(words)?,
            marks: Lazy::new(rows)?,
            owners: Lazy::new(rows)?,
            kind: PhantomData,
        };
        if C::code(Verdict::Unknown) != 0 {
            bits.write(UNKNOWN, &Row { rest: Verdict::Unknown, ..Row::of(Set::default()) }, 0);
        }
        Ok(bits)
    }

    /// The bits of an interface. One that there is no room for is not valid in any row, but [`UNKNOWN`] where that is known
    /// by its number.
    #[inline(always)]
    pub(super) fn column(&self, interface: u32) -> Column<'_, C> {
        let word = (interface / Self::OF_WORD) as usize;
        let words = if word < self.width { self.words.all().get(word..).unwrap_or_default() } else { &[] };
        Column { words, width: self.width, bit: interface % Self::OF_WORD * C::BITS, kind: PhantomData }
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
    fn write(&self, row: u32, wanted: &Row, owner: u32) {
        let row = row as usize;
        let word = |word: usize| self.words.at(row * self.width + word).expect("rows are numbered below the limit");
        // As many times as there are interfaces in a word.
        let all = |verdict| u64::MAX / ((1 << C::BITS) - 1) * C::code(verdict);
        (0..self.width).for_each(|index| word(index).store(all(wanted.rest), Ordering::Relaxed));
        let invalid = wanted.closed.iter().chain(wanted.invalid.iter()).map(|interface| (interface, Verdict::Invalid));
        for (interface, verdict) in invalid.chain(wanted.valid.iter().map(|interface| (interface, Verdict::Valid))) {
            let (index, bit) = ((interface / Self::OF_WORD) as usize, interface % Self::OF_WORD * C::BITS);
            if index < self.width {
                let others = word(index).load(Ordering::Relaxed) & !(((1 << C::BITS) - 1) << bit);
                word(index).store(others | C::code(verdict) << bit, Ordering::Relaxed);
            }
        }
        // Pages of what no table of this kind uses stay untouched.
        if self.mark(row as u32) != wanted.mark {
            self.marks.at(row).expect("there is one for each row").store(wanted.mark, Ordering::Relaxed);
        }
        if self.owner(row as u32) != owner {
            self.owners.at(row).expect("there is one for each row").store(owner, Ordering::Relaxed);
        }
    }
}

/// The bits of an interface in all rows.
#[derive(Clone, Copy)]
pub(super) struct Column<'b, C> {
    /// From that of its bits in row 0 on.
    words: &'b [AtomicU64],
    width: usize,
    bit: u32,
    kind: PhantomData<C>,
}

impl<C: Cell> Column<'_, C> {
    /// What a row says of the interface.
    #[inline(always)]
    pub(super) fn verdict(self, row: u32) -> Verdict {
        // The value that named this row was loaded with acquire, after the bits were stored.
        let bits = self.words.get(row as usize * self.width).map_or(0, |word| word.load(Ordering::Relaxed));
        C::verdict(row, bits >> self.bit)
    }
}

struct Kept {
    row: u32,
    users: u32,
}

/// The writer's side: which set has which row. `T` is the table whose values name rows.
pub(super) struct Rows<T, C> {
    bits: Arc<Bits<C>>,
    numbers: Numbers<T>,
    /// The rows that are shared.
    sets: HashMap<Row, Kept, Folding>,
    /// Those that are not.
    alone: usize,
}

impl<T, C: Cell> Rows<T, C> {
    pub(super) fn new(domain: &Domain, limit: u32, interfaces: u32) -> io::Result<Rows<T, C>> {
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

    pub(super) fn bits(&self) -> &Arc<Bits<C>> {
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
