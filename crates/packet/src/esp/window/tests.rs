use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

/// The window as RFC 4303 describes it: a set of all numbers that were accepted.
struct Naive {
    size: u64,
    top: u64,
    /// The last number that is not known to be lost; `None` before the first one.
    gap: Option<u64>,
    accepted: HashSet<u64>,
}

impl Naive {
    fn is_new(&self, number: u64) -> bool {
        if number == 0 {
            return false;
        }
        if self.size == 0 {
            return true;
        }
        number > self.top || self.top - number < self.size && !self.accepted.contains(&number)
    }

    fn accept(&mut self, number: u64) -> Option<u64> {
        if !self.is_new(number) {
            return None;
        }
        let bottom = |top: u64| top.saturating_sub(self.size) + 1;
        let (before, after) = (bottom(self.top), bottom(self.top.max(number)));
        self.accepted.insert(number);
        let mut lost = 0;
        // Of a long gap, the numbers before it count alone.
        let is_jump = self.size > 0 && number > self.top + 65_536;
        // What came before the first number is not known.
        let gap = *self.gap.get_or_insert(number - 1);
        if self.size > 0 {
            let after = if is_jump { after.min(self.top + 1) } else { after };
            // Numbers before 1 are none.
            let behind = (before.max(1).max(gap + 1)..after).take(1 << 20);
            lost = behind.filter(|number| !self.accepted.contains(number)).count() as u64;
        }
        if is_jump {
            self.gap = Some(number - 1);
        }
        self.top = self.top.max(number);
        Some(lost)
    }
}

fn sizes() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0), Just(32), Just(64), Just(128), Just(1024), Just(131_072)]
}

proptest! {
    #[test]
    fn a_window_decides_as_the_set_of_all_numbers(
        size in sizes(),
        steps in prop::collection::vec(prop_oneof![
            5 => -40i64..=3, 5 => 1i64..=2, 3 => -1100i64..=1100, 1 => -140_000i64..=140_000,
        ], 1..200),
    ) {
        let window = Window::new(size).unwrap();
        let mut naive = Naive { size: size.into(), top: 0, gap: None, accepted: HashSet::new() };
        for step in steps {
            let number = window.top().saturating_add_signed(step);
            prop_assert_eq!(window.is_new(number), naive.is_new(number), "{}", number);
            prop_assert_eq!(window.accept(number), naive.accept(number), "{}", number);
            prop_assert_eq!(window.top(), naive.top);
        }
    }

    #[test]
    fn the_upper_half_is_that_of_the_number_nearest_to_the_window(
        size in sizes(), high in 0u64..4, low: u32, step in -40_000i64..40_000,
    ) {
        let window = Window::new(size).unwrap();
        let top = (high << 32 | u64::from(low)).max(1);
        window.accept(top);
        // Whatever lies in the window, or not too far before it, is found.
        let number = top.saturating_add_signed(step);
        if number > 0 && (step >= 0 || -step < i64::from(size) || size == 0) {
            prop_assert_eq!(window.extended(number as u32), Some(number));
        }
    }
}

#[test]
fn sizes_are_powers_of_two_within_bounds() {
    for (size, is) in [(0, true), (1, false), (16, false), (32, true), (33, false), (131_072, true), (262_144, false)] {
        assert_eq!(Window::new(size).is_some(), is, "{size}");
    }
}

#[test]
fn a_window_goes_on_behind_another() {
    let window = Window::after(64, 1000).unwrap();
    assert!((0..=1000).all(|number| !window.is_new(number)));
    assert_eq!((window.accept(1003), window.accept(1001), window.accept(1000)), (Some(0), Some(0), None));
    assert_eq!(window.accept(1067), Some(1), "1002 is lost, and nothing before 1001");
}

/// The gateway may have been killed, and have received them before.
#[test]
fn numbers_before_the_first_are_not_lost() {
    for begin in [0, 900, 999] {
        let window = Window::new(64).unwrap();
        window.begin(begin);
        assert!((1000..1100).all(|number| window.accept(number) == Some(0)), "{begin}");
        assert_eq!((window.accept(1164), window.accept(1165), window.accept(1166)), (Some(1), Some(1), Some(1)));
    }
}

#[test]
fn a_jump_counts_what_it_leaves_behind() {
    let window = Window::new(64).unwrap();
    assert_eq!(window.accept(1), Some(0));
    assert_eq!(window.accept(64), Some(0), "numbers 2 to 63 may still come");
    assert_eq!(window.accept(66), Some(1), "2 is lost");
    assert_eq!(window.accept(2), None);
    assert_eq!(window.accept(3), Some(0));
    assert_eq!(window.accept(1066), Some(997), "3 to 1002 but for 3, 64 and 66");
    assert_eq!((window.accept(1066), window.accept(0)), (None, None));
}

#[test]
fn a_block_that_the_sender_left_out_is_not_lost() {
    for size in [32, 64, 1024, 131_072] {
        let window = Window::new(size).unwrap();
        let of = |number| window.accept(number).unwrap();
        assert_eq!((1..=10).chain(12..=20).map(of).sum::<u64>(), 0);
        // The sender was killed, and begins with its next block.
        let after = 1_048_577..1_048_577 + 3 * 131_072;
        let lost: u64 = after.filter(|number| number % 1000 != 0).map(of).sum();
        let left = (1_048_577..=window.top() - u64::from(size)).filter(|number| number % 1000 == 0).count() as u64;
        assert_eq!(lost, left + 1, "of the block before 11 alone: {size}");
    }
}

#[test]
fn a_closed_window_accepts_nothing() {
    for size in [0, 64] {
        let window = Window::new(size).unwrap();
        window.accept(7);
        window.set_closed(true);
        assert_eq!((window.accept(8), window.is_new(9), window.top()), (None, false, 7));
        window.set_closed(false);
        assert_eq!(window.accept(8), Some(0));
    }
}

#[test]
fn numbers_before_the_first_and_behind_the_last_are_refused() {
    let window = Window::new(64).unwrap();
    assert_eq!(window.extended(u32::MAX), None, "it would lie before 0");
    assert_eq!(window.extended(7), Some(7));
    window.accept(5);
    assert_eq!(window.extended(u32::MAX - 3), None);
    let end = Window::new(64).unwrap();
    end.accept(u64::MAX);
    assert_eq!(end.extended(3), None, "it would lie behind 2^64");
    assert_eq!(end.accept(u64::MAX), None);
}
