//! Interval search: finds the interval of a value, one cache line of numbers per step.
//!
//! The boundary keys of all intervals lie in order in lines of 64 octets. The level above holds the last key of each
//! line, and so on, until a level is one line. A step compares a value with one line: the number of smaller keys
//! selects the next line. 20,000 intervals of ports take three steps, of IPv4 addresses four.
//!
//! All values of a vector take a step before any takes the next, so that their loads overlap.

use std::hint::select_unpredictable;
use std::marker::PhantomData;
use std::slice;

/// A cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u64; 8]);

/// Octets of a line.
const LINE: usize = size_of::<Line>();

/// Compares a line of numbers at once: counts the numbers below a value.
pub trait Below {
    /// Counts among 32 numbers.
    ///
    /// # Safety
    /// The CPU has the features of the implementation, and a line of numbers begins there.
    unsafe fn of_32(line: *const u16, value: u16) -> usize;

    /// Counts among 16 numbers.
    ///
    /// # Safety
    /// As for [`Below::of_32`].
    unsafe fn of_16(line: *const u32, value: u32) -> usize;

    /// Counts among 8 numbers.
    ///
    /// # Safety
    /// As for [`Below::of_32`].
    unsafe fn of_8(line: *const u64, value: u64) -> usize;
}

/// A number whose lines are compared at once.
pub trait Number: Copy + Ord + Default + Send + Sync {
    /// The highest value.
    const MAX: Self;
    /// Numbers per line.
    const OF_LINE: usize = LINE / size_of::<Self>();

    /// Returns the number of numbers of a line below a value.
    ///
    /// # Safety
    /// A line of numbers begins there, and the CPU has the features of `B`.
    unsafe fn below<B: Below>(line: *const Self, value: Self) -> usize;
}

macro_rules! number {
    ($number:ty, $below:ident) => {
        impl Number for $number {
            const MAX: Self = Self::MAX;

            #[inline(always)]
            unsafe fn below<B: Below>(line: *const Self, value: Self) -> usize {
                // SAFETY: the caller's promise.
                unsafe { B::$below(line, value) }
            }
        }
    };
}

number!(u16, of_32);
number!(u32, of_16);
number!(u64, of_8);

/// Intervals of values, by their boundary keys.
pub struct Ends<T> {
    steps: Steps,
    runs: Runs,
    of: PhantomData<T>,
}

/// A value whose interval can be searched.
pub trait Sought: Copy + Ord + Default + Send + Sync {
    /// Creates intervals that each begin behind the previous, by their ends, in order. The last ends at the highest
    /// value.
    fn ends(ends: &[Self]) -> Ends<Self>;

    /// Finds the number of the interval of each value.
    ///
    /// # Safety
    /// The CPU has the features of `B`.
    unsafe fn find<B: Below>(ends: &Ends<Self>, values: &[Self], intervals: &mut [u32]);
}

impl<T> Ends<T> {
    pub(super) fn octets(&self) -> usize {
        let Steps { lines, levels } = &self.steps;
        let Runs { upper, starts, lower } = &self.runs;
        size_of_val(&**lines)
            + size_of_val(&**levels)
            + size_of_val(&**upper)
            + size_of_val(&**starts)
            + size_of_val(&**lower)
    }
}

impl<T: Number> Sought for T {
    fn ends(ends: &[T]) -> Ends<T> {
        Ends { steps: Steps::new(ends), runs: Runs::default(), of: PhantomData }
    }

    #[inline(always)]
    unsafe fn find<B: Below>(ends: &Ends<T>, values: &[T], intervals: &mut [u32]) {
        // SAFETY: the caller's promise, and the keys have this type.
        unsafe { ends.steps.find::<T, B>(values, intervals) }
    }
}

/// Searches the upper halves, then the lower halves with the same upper half.
impl Sought for u128 {
    fn ends(ends: &[u128]) -> Ends<u128> {
        let runs = Runs::new(ends);
        Ends { steps: Steps::new(&runs.upper), runs, of: PhantomData }
    }

    #[inline(always)]
    unsafe fn find<B: Below>(ends: &Ends<u128>, values: &[u128], intervals: &mut [u32]) {
        for (values, intervals) in values.chunks(TOGETHER).zip(intervals.chunks_mut(TOGETHER)) {
            let (mut upper, mut lower) = ([0; TOGETHER], [0; TOGETHER]);
            let (upper, lower) = (&mut upper[..values.len()], &mut lower[..values.len()]);
            upper.iter_mut().zip(values).for_each(|(upper, value)| *upper = (*value >> 64) as u64);
            lower.iter_mut().zip(values).for_each(|(lower, value)| *lower = *value as u64);
            // SAFETY: the caller's promise, and the keys have this type.
            unsafe { ends.steps.find::<u64, B>(upper, intervals) };
            ends.runs.find(upper, lower, intervals);
        }
    }
}

/// Boundary keys of up to 64 bits.
struct Steps {
    lines: Vec<Line>,
    /// First line of each level, from the top.
    levels: Vec<u32>,
}

impl Steps {
    fn new<T: Number>(ends: &[T]) -> Steps {
        let mut levels = vec![padded(ends)];
        while let Some(level) = levels.last().filter(|level| level.len() > T::OF_LINE) {
            let above = Vec::from_iter(level.chunks(T::OF_LINE).map(|line| line[T::OF_LINE - 1]));
            levels.push(padded(&above));
        }
        let count: usize = levels.iter().map(|level| level.len() / T::OF_LINE).sum();
        let mut steps = Steps { lines: vec![Line([0; 8]); count], levels: Vec::with_capacity(levels.len()) };
        // SAFETY: lines have this length, aligned for any number; any octets are numbers.
        let numbers = unsafe { slice::from_raw_parts_mut(steps.lines.as_mut_ptr().cast::<T>(), count * T::OF_LINE) };
        let mut first = 0;
        for level in levels.iter().rev() {
            numbers[first * T::OF_LINE..][..level.len()].copy_from_slice(level);
            steps.levels.push(first as u32);
            first += level.len() / T::OF_LINE;
        }
        steps
    }

    /// # Safety
    /// The keys have this type, and the CPU has the features of `B`.
    #[inline(always)]
    unsafe fn find<T: Number, B: Below>(&self, values: &[T], intervals: &mut [u32]) {
        debug_assert_eq!(values.len(), intervals.len());
        intervals.fill(0);
        for level in &self.levels {
            for (interval, value) in intervals.iter_mut().zip(values) {
                let line = *level + *interval;
                debug_assert!((line as usize) < self.lines.len());
                // SAFETY: the line belongs to this level. Above, the number of a line is that of its last key. The last
                // key of a level is the highest value, so the count ends before it.
                let below = unsafe { T::below::<B>(self.lines.as_ptr().add(line as usize).cast(), *value) };
                *interval = *interval * T::OF_LINE as u32 + below as u32;
            }
        }
    }
}

/// Pads numbers to whole lines: no value is above the added ones.
fn padded<T: Number>(numbers: &[T]) -> Vec<T> {
    let mut numbers = numbers.to_vec();
    numbers.resize(numbers.len().next_multiple_of(T::OF_LINE).max(T::OF_LINE), T::MAX);
    numbers
}

/// Values per batch.
const TOGETHER: usize = 64;

/// Boundary keys of 128 bits.
#[derive(Default)]
struct Runs {
    /// Distinct upper halves.
    upper: Vec<u64>,
    /// Start of the keys of each upper half among all keys, and the end of the last.
    starts: Vec<u32>,
    /// Lower halves of all keys.
    lower: Vec<u64>,
}

impl Runs {
    fn new(ends: &[u128]) -> Runs {
        let mut runs = Runs { lower: Vec::from_iter(ends.iter().map(|end| *end as u64)), ..Runs::default() };
        for (number, end) in (0..).zip(ends) {
            let upper = (*end >> 64) as u64;
            if runs.upper.last() != Some(&upper) {
                runs.upper.push(upper);
                runs.starts.push(number);
            }
        }
        runs.starts.push(ends.len() as u32);
        runs
    }

    /// Maps the numbers of upper halves, the first that are no lower than those of the values, to numbers of keys.
    #[inline(always)]
    fn find(&self, upper: &[u64], lower: &[u64], intervals: &mut [u32]) {
        let mut lengths = [0; TOGETHER];
        for ((interval, length), upper) in intervals.iter_mut().zip(&mut lengths).zip(upper) {
            let run = *interval as usize;
            *interval = self.starts[run];
            // Without a key of this upper half, the next key is the end of the interval.
            *length = select_unpredictable(self.upper[run] == *upper, self.starts[run + 1] - *interval, 0);
        }
        let most = lengths.iter().fold(0, |all, length| all | *length);
        if most == 0 {
            return;
        }
        let (mut step, mut passed) = (1 << most.ilog2(), [0; TOGETHER]);
        while step > 0 {
            for (((interval, passed), length), value) in intervals.iter().zip(&mut passed).zip(lengths).zip(lower) {
                let next = *passed + step;
                let last = select_unpredictable(next <= length, *interval + next - 1, *interval);
                let below = (next <= length) & (self.lower[last as usize] < *value);
                *passed = select_unpredictable(below, next, *passed);
            }
            step /= 2;
        }
        intervals.iter_mut().zip(passed).for_each(|(interval, passed)| *interval += passed);
    }
}

#[cfg(test)]
mod tests {
    use weir_base::random::Random;

    use super::super::arch::Portable;
    use super::*;

    /// Compares the search of each body with a linear one.
    fn finds<T: Sought + std::fmt::Debug>(mut ends: Vec<T>, beside: &[T], most: T) {
        ends.push(most);
        ends.sort_unstable();
        ends.dedup();
        let values = Vec::from_iter(ends.iter().chain(beside).copied());
        let right = Vec::from_iter(values.iter().map(|value| ends.partition_point(|end| end < value) as u32));
        let (ends, mut found) = (T::ends(&ends), vec![7; values.len()]);
        // SAFETY: the portable body runs on any CPU.
        unsafe { T::find::<Portable>(&ends, &values, &mut found) };
        assert_eq!(found, right);
        #[cfg(target_arch = "x86_64")]
        if super::super::arch::has_avx512() {
            found.fill(7);
            // SAFETY: the CPU has the features.
            unsafe { with_avx512(&ends, &values, &mut found) };
            assert_eq!(found, right);
        }
    }

    /// # Safety
    /// The CPU has the features.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "popcnt,bmi1,bmi2,lzcnt,avx2,avx512f,avx512vl,avx512bw,avx512dq")]
    unsafe fn with_avx512<T: Sought>(ends: &Ends<T>, values: &[T], found: &mut [u32]) {
        // SAFETY: the caller's promise.
        unsafe { T::find::<super::super::arch::Avx512>(ends, values, found) };
    }

    #[test]
    fn values_are_found_in_intervals_of_any_number() {
        let mut random = Random::from_seed(1);
        for count in [0, 1, 7, 8, 9, 31, 32, 33, 500, 1024, 5000] {
            let mut words = || Vec::from_iter((0..count).map(|_| random.next()));
            let (some, others) = (words(), words());
            let map = |words: &[u64]| Vec::from_iter(words.iter().map(|word| *word as u16));
            finds(map(&some), &map(&others), u16::MAX);
            let map = |words: &[u64]| Vec::from_iter(words.iter().map(|word| *word as u32));
            finds(map(&some), &map(&others), u32::MAX);
            finds(some.clone(), &others, u64::MAX);
            // Keys with one, few, many, and all upper halves.
            for upper in [1, 3, 200, u64::MAX] {
                let map = |word: &u64| u128::from(word % upper) << 64 | u128::from(word.rotate_left(32));
                let map = |words: &[u64]| Vec::from_iter(words.iter().map(map));
                finds(map(&some), &map(&others), u128::MAX);
            }
        }
    }
}
