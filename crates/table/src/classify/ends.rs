//! Which interval a value lies in: a search in lines of memory, one vector of numbers each.
//!
//! The ends of all intervals lie in order in lines of 64 octets. Above them is a level with the last number of each line, above
//! that one with the last of each of its lines, and so on, until a level is one line. A step down a level is one comparison: how
//! many numbers of a line are below the value tells which line comes next. 20,000 intervals of ports are three steps, of IPv4
//! addresses four.
//!
//! All values of a vector take a step before any takes the next, so that what they wait for overlaps.

use std::hint::select_unpredictable;
use std::marker::PhantomData;
use std::slice;

/// A line of memory.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u64; 8]);

/// Octets of a line.
const LINE: usize = size_of::<Line>();

/// What compares a line of numbers at once: how many of them are below a value.
pub trait Below {
    /// Of 32 numbers.
    ///
    /// # Safety
    /// The CPU has what the implementation is named for, and a line of numbers begins there.
    unsafe fn of_32(line: *const u16, value: u16) -> usize;

    /// Of 16 numbers.
    ///
    /// # Safety
    /// The same.
    unsafe fn of_16(line: *const u32, value: u32) -> usize;

    /// Of 8 numbers.
    ///
    /// # Safety
    /// The same.
    unsafe fn of_8(line: *const u64, value: u64) -> usize;
}

/// A number of which a line is compared at once.
pub trait Number: Copy + Ord + Default + Send + Sync {
    /// The highest.
    const MAX: Self;
    /// How many there are in a line.
    const OF_LINE: usize = LINE / size_of::<Self>();

    /// How many numbers of a line are below a value.
    ///
    /// # Safety
    /// A line of numbers begins there, and the CPU has what `B` is named for.
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

/// Intervals of values, by their ends.
pub struct Ends<T> {
    steps: Steps,
    runs: Runs,
    of: PhantomData<T>,
}

/// A value whose interval can be searched.
pub trait Sought: Copy + Ord + Default + Send + Sync {
    /// Intervals of which each begins after the one before, by their ends. They are in order, and the last ends at the highest
    /// value.
    fn ends(ends: &[Self]) -> Ends<Self>;

    /// The number of the interval that each value lies in.
    ///
    /// # Safety
    /// The CPU has what `B` is named for.
    unsafe fn find<B: Below>(ends: &Ends<Self>, values: &[Self], intervals: &mut [u32]);
}

impl<T> Ends<T> {
    /// Octets of memory.
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
        // SAFETY: the caller's promise, and it was made of such numbers.
        unsafe { ends.steps.find::<T, B>(values, intervals) }
    }
}

/// By their upper halves, then among those that have the same one.
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
            // SAFETY: the caller's promise, and it was made of such numbers.
            unsafe { ends.steps.find::<u64, B>(upper, intervals) };
            ends.runs.find(upper, lower, intervals);
        }
    }
}

/// Ends of intervals of numbers of up to 64 bits.
struct Steps {
    lines: Vec<Line>,
    /// The first line of each level, from above.
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
        // SAFETY: lines are that long, aligned for any number, and any octets are numbers.
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
    /// It was made of numbers of this type, and the CPU has what `B` is named for.
    #[inline(always)]
    unsafe fn find<T: Number, B: Below>(&self, values: &[T], intervals: &mut [u32]) {
        debug_assert_eq!(values.len(), intervals.len());
        intervals.fill(0);
        for level in &self.levels {
            for (interval, value) in intervals.iter_mut().zip(values) {
                let line = *level + *interval;
                debug_assert!((line as usize) < self.lines.len());
                // SAFETY: the line is of this level. Above, the number of a line is that of its last number, and as the last
                // number of a level is the highest of all, what is counted ends before it.
                let below = unsafe { T::below::<B>(self.lines.as_ptr().add(line as usize).cast(), *value) };
                *interval = *interval * T::OF_LINE as u32 + below as u32;
            }
        }
    }
}

/// Numbers up to the end of a line: no value is above those that are added.
fn padded<T: Number>(numbers: &[T]) -> Vec<T> {
    let mut numbers = numbers.to_vec();
    numbers.resize(numbers.len().next_multiple_of(T::OF_LINE).max(T::OF_LINE), T::MAX);
    numbers
}

/// Values that go on together.
const TOGETHER: usize = 64;

/// Ends of 128 bits.
#[derive(Default)]
struct Runs {
    /// Upper halves, each once.
    upper: Vec<u64>,
    /// Where the ends that have each begin among all ends, and where the last of them end.
    starts: Vec<u32>,
    /// Lower halves of all ends.
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

    /// From the numbers of upper halves, the first that are no lower than those of the values, to those of ends.
    #[inline(always)]
    fn find(&self, upper: &[u64], lower: &[u64], intervals: &mut [u32]) {
        let mut lengths = [0; TOGETHER];
        for ((interval, length), upper) in intervals.iter_mut().zip(&mut lengths).zip(upper) {
            let run = *interval as usize;
            *interval = self.starts[run];
            // Without an end of this upper half, the next one of another is the end of the interval.
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

    /// A search with each body, against one end after the other.
    fn finds<T: Sought + std::fmt::Debug>(mut ends: Vec<T>, beside: &[T], most: T) {
        ends.push(most);
        ends.sort_unstable();
        ends.dedup();
        let values = Vec::from_iter(ends.iter().chain(beside).copied());
        let right = Vec::from_iter(values.iter().map(|value| ends.partition_point(|end| end < value) as u32));
        let (ends, mut found) = (T::ends(&ends), vec![7; values.len()]);
        // SAFETY: any CPU will do.
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
            // Of one upper half, of few, of many, and of as many as there are.
            for upper in [1, 3, 200, u64::MAX] {
                let map = |word: &u64| u128::from(word % upper) << 64 | u128::from(word.rotate_left(32));
                let map = |words: &[u64]| Vec::from_iter(words.iter().map(map));
                finds(map(&some), &map(&others), u128::MAX);
            }
        }
    }
}
