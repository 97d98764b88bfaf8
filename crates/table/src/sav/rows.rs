//! Rows: sets of interfaces as bits, which readers read while others are added.
//!
//! Equal sets share a row, unless every prefix has its own. A row is reused when no reader can have its number: see
//! [`Numbers`].

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

/// The row of sources without a covering prefix.
pub(super) const UNKNOWN: u32 = 0;

/// The code of an interface in the words of rows.
pub trait Cell: Copy + std::fmt::Debug + Send + Sync + 'static {
    /// Bits of a code: they divide 64.
    const BITS: u32;

    /// Returns the code of a verdict; 0 for [`Verdict::Invalid`].
    fn code(verdict: Verdict) -> u64;

    /// Returns the verdict of a row from the word with the interface's code in its lowest bits.
    fn verdict(row: u32, word: u64) -> Verdict;
}

/// Valid or invalid; row 0, and no other, is unknown.
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

/// The content of a row. The last of several sets with an interface counts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Row {
    /// Verdict for interfaces in none of the sets.
    pub rest: Verdict,
    /// Invalid interfaces: many rows may share the set.
    pub closed: Set,
    /// Further invalid interfaces.
    pub invalid: Set,
    /// Valid interfaces.
    pub valid: Set,
    /// Further property of the row; 0 if unused.
    pub mark: u8,
}

impl Row {
    /// Returns the row with these valid interfaces only.
    pub(super) fn of(valid: Set) -> Row {
        Row { rest: Verdict::Invalid, closed: Set::default(), invalid: Set::default(), valid, mark: 0 }
    }
}

/// Atomic numbers, initially 0, in address space whose pages the kernel allocates on first access.
struct Lazy<A> {
    region: Region,
    len: usize,
    kind: PhantomData<A>,
}

/// Numbers whose zero is all-zero octets.
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
        // SAFETY: the region has `len` of them, is aligned to 2 MiB, zeroed, and lives as long as `self`. Only these
        // shared references to atomic numbers exist.
        unsafe { std::slice::from_raw_parts(self.region.base().cast::<A>().as_ptr(), self.len) }
    }

    #[inline(always)]
    fn at(&self, index: usize) -> Option<&A> {
        self.all().get(index)
    }
}

/// The readers' bits.
pub(super) struct Bits<C> {
    width: usize,
    words: Lazy<AtomicU64>,
    marks: Lazy<AtomicU8>,
    /// Number of the prefix of each row, if it has one.
    owners: Lazy<AtomicU32>,
    kind: PhantomData<C>,
}

pub(super) fn width<C: Cell>(interfaces: u32) -> usize {
    (interfaces as usize).div_ceil((64 / C::BITS) as usize).max(1)
}

impl<C: Cell> Bits<C> {
    /// Interfaces per word.
    const OF_WORD: u32 = 64 / C::BITS;

    /// Creates room for rows of interfaces.
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

    /// Returns the bits of an interface. An interface without room is invalid in all rows, except in [`UNKNOWN`] if its
    /// number implies that.
    #[inline(always)]
    pub(super) fn column(&self, interface: u32) -> Column<'_, C> {
        let word = (interface / Self::OF_WORD) as usize;
        let words = if word < self.width { self.words.all().get(word..).unwrap_or_default() } else { &[] };
        Column { words, width: self.width, bit: interface % Self::OF_WORD * C::BITS, kind: PhantomData }
    }

    #[inline(always)]
    pub(super) fn mark(&self, row: u32) -> u8 {
        self.marks.at(row as usize).map_or(0, |mark| mark.load(Ordering::Relaxed))
    }

    /// Returns the number of the prefix of a row; 0: none, or many.
    #[inline(always)]
    pub(super) fn owner(&self, row: u32) -> u32 {
        self.owners.at(row as usize).map_or(0, |owner| owner.load(Ordering::Relaxed))
    }

    fn write(&self, row: u32, wanted: &Row, owner: u32) {
        let row = row as usize;
        let word = |word: usize| self.words.at(row * self.width + word).expect("rows are numbered below the limit");
        // Repeats the code for each interface of a word.
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
        // Unused pages stay untouched.
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
    /// From the word of its bits in row 0 on.
    words: &'b [AtomicU64],
    width: usize,
    bit: u32,
    kind: PhantomData<C>,
}

impl<C: Cell> Column<'_, C> {
    /// Returns the verdict of a row for the interface.
    #[inline(always)]
    pub(super) fn verdict(self, row: u32) -> Verdict {
        // The bits were stored before the value that named this row, which was loaded with acquire.
        let bits = self.words.get(row as usize * self.width).map_or(0, |word| word.load(Ordering::Relaxed));
        C::verdict(row, bits >> self.bit)
    }
}

struct Kept {
    row: u32,
    users: u32,
}

/// The writer's side: the row of each set. `T` is the table whose values name rows.
pub(super) struct Rows<T, C> {
    bits: Arc<Bits<C>>,
    numbers: Numbers<T>,
    /// Shared rows.
    sets: HashMap<Row, Kept, Folding>,
    /// Number of unshared rows.
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

    /// Makes another table current.
    pub(super) fn supersede(&mut self, table: &Arc<T>) {
        self.numbers.supersede(table);
    }

    /// Starts the wait for readers, as [`Numbers::collect`] does.
    pub(super) fn collect(&mut self) {
        self.numbers.collect();
    }

    pub(super) fn bits(&self) -> &Arc<Bits<C>> {
        &self.bits
    }

    /// Returns the row of a set, with one more user. `None`: there is no room.
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

    /// Removes a user of the row of a set.
    pub(super) fn give(&mut self, set: &Row) {
        let Some(kept) = self.sets.get_mut(set) else { return };
        kept.users -= 1;
        if kept.users == 0 {
            self.numbers.give(kept.row);
            self.sets.remove(set);
        }
    }

    /// Returns an unshared row for the prefix with the number `owner`. `None`: there is no room.
    pub(super) fn take_alone(&mut self, set: &Row, owner: u32) -> Option<u32> {
        let row = self.numbers.take()?;
        self.bits.write(row, set, owner);
        self.alone += 1;
        Some(row)
    }

    /// Releases an unshared row.
    pub(super) fn give_alone(&mut self, row: u32) {
        self.numbers.give(row);
        self.alone -= 1;
    }

    /// Returns the rows in use, and their limit.
    pub(super) fn occupancy(&self) -> (usize, usize) {
        (self.sets.len() + self.alone, self.numbers.limit() as usize)
    }

    /// Returns the octets of the rows that were ever used.
    pub(super) fn octets(&self) -> usize {
        let beside = if self.alone > 0 { size_of::<u32>() } else { 0 };
        self.numbers.used() as usize * (self.bits.width * 8 + beside + 1)
    }

    /// Returns the octets of the writer's notes.
    pub(super) fn side_octets(&self) -> usize {
        self.sets.capacity() * 8 / 7 * (size_of::<(Row, Kept)>() + 1) + self.numbers.octets()
    }
}
