//! Equal-cost multipath: a table of buckets, each naming one of the paths.
//!
//! The flow hash selects a bucket. Buckets are shared out exactly by weight; when the set of paths changes, a surviving
//! path keeps every bucket that its new share leaves it, and only the rest change hands. So a flow moves only if its
//! path went away, or if its bucket is part of what a new path must get. Of its buckets, a path keeps those first that it
//! has when the paths share afresh: after a path went and came back, all flows are where they were.

/// Buckets of a set of paths: a power of two, so that a hash selects by its low bits.
pub const BUCKETS: usize = 1024;

/// Most paths of a route.
pub const MAX_PATHS: usize = 64;

/// Shares out [`BUCKETS`] buckets among paths (any value that identifies one) by weight, keeping what it can of
/// `previous`.
///
/// `paths` has 1 ..= [`MAX_PATHS`] distinct entries with weights above 0, in an order that depends on who they are alone.
/// Every path gets its proportional share rounded up or down, and one bucket at least.
pub fn share<P: Copy + PartialEq>(paths: &[(P, u32)], previous: Option<&[P]>) -> Vec<P> {
    let quota = quotas(&paths.iter().map(|&(_, weight)| weight).collect::<Vec<_>>());
    let mut fresh = vec![None; BUCKETS];
    fill(&mut fresh, &mut quota.clone());
    let buckets = match previous {
        None => fresh,
        Some(previous) => keep(paths, quota, &fresh, previous),
    };
    buckets.into_iter().flatten().map(|index| paths[index].0).collect()
}

/// Shares out what the paths of a former sharing do not keep. All are given by their index among `paths`.
fn keep<P: Copy + PartialEq>(
    paths: &[(P, u32)],
    mut quota: Vec<usize>,
    fresh: &[Option<usize>],
    previous: &[P],
) -> Vec<Option<usize>> {
    let before: Vec<_> = previous.iter().map(|&path| paths.iter().position(|&(other, _)| other == path)).collect();
    let mut buckets: Vec<Option<usize>> = vec![None; BUCKETS];
    let mut take = |from: &[Option<usize>], may: &dyn Fn(usize) -> bool| {
        for (number, bucket) in buckets.iter_mut().enumerate().filter(|(_, bucket)| bucket.is_none()) {
            if let Some(index) = from[number].filter(|&index| quota[index] > 0 && may(number)) {
                quota[index] -= 1;
                *bucket = Some(index);
            }
        }
    };
    take(&before, &|number| before[number] == fresh[number]);
    take(&before, &|_| true);
    take(fresh, &|_| true);
    fill(&mut buckets, &mut quota);
    buckets
}

/// Gives free buckets to those in turn that still have a claim, so that neighbouring buckets differ.
fn fill(buckets: &mut [Option<usize>], quota: &mut [usize]) {
    let mut next = 0;
    for bucket in buckets.iter_mut().filter(|bucket| bucket.is_none()) {
        while quota[next] == 0 {
            next = (next + 1) % quota.len();
        }
        quota[next] -= 1;
        *bucket = Some(next);
        next = (next + 1) % quota.len();
    }
}

/// Proportional shares of [`BUCKETS`] by the method of largest remainders, at least one each; ties go to the earlier.
fn quotas(weights: &[u32]) -> Vec<usize> {
    let total: u64 = weights.iter().map(|&weight| u64::from(weight)).sum();
    let exact = |weight: u32| u64::from(weight) * BUCKETS as u64;
    let mut quota: Vec<usize> = weights.iter().map(|&weight| (exact(weight) / total) as usize).collect();
    let mut by_remainder: Vec<usize> = (0..weights.len()).collect();
    by_remainder.sort_by_key(|&index| std::cmp::Reverse(exact(weights[index]) % total));
    let missing = BUCKETS - quota.iter().sum::<usize>();
    for &index in &by_remainder[..missing] {
        quota[index] += 1;
    }
    // A path that is named is used, however little it weighs.
    for index in 0..quota.len() {
        if quota[index] == 0
            && let Some(largest) = quota.iter_mut().max()
        {
            *largest -= 1;
            quota[index] = 1;
        }
    }
    quota
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn count(buckets: &[u32], path: u32) -> usize {
        buckets.iter().filter(|&&bucket| bucket == path).count()
    }

    #[test]
    fn weights_decide_the_shares() {
        let buckets = share(&[(1, 1), (2, 3)], None);
        assert_eq!((count(&buckets, 1), count(&buckets, 2)), (256, 768));
        assert_eq!(share(&[(9, 5)], None), vec![9; BUCKETS]);
    }

    #[test]
    fn the_lightest_path_is_used_too() {
        let mut paths = vec![(0, 1)];
        paths.extend((1..MAX_PATHS as u32).map(|path| (path, 255)));
        let buckets = share(&paths, None);
        assert!((0..MAX_PATHS as u32).all(|path| count(&buckets, path) >= 1));
        assert_eq!(buckets.len(), BUCKETS);
    }

    #[test]
    fn only_the_flows_of_a_lost_path_move() {
        let before = share(&[(1, 1), (2, 1), (3, 1)], None);
        let after = share(&[(1, 1), (3, 1)], Some(&before));
        assert!(before.iter().zip(&after).all(|(&old, &new)| old == new || old == 2));
        let back = share(&[(1, 1), (2, 1), (3, 1)], Some(&after));
        let moved = after.iter().zip(&back).filter(|(old, new)| old != new).count();
        assert_eq!(moved, count(&back, 2), "only what the new path gets moves");
        assert_eq!(back, before);
    }

    proptest! {
        #[test]
        fn paths_that_come_back_find_their_flows(
            weights in proptest::collection::vec(1u32..20, 2..12),
            gone in proptest::collection::vec(any::<bool>(), 12),
        ) {
            let all: Vec<(u32, u32)> = (0..).zip(weights).collect();
            let rest: Vec<_> = all.iter().copied().filter(|&(path, _)| !gone[path as usize]).collect();
            prop_assume!(!rest.is_empty());
            let before = share(&all, None);
            let meanwhile = share(&rest, Some(&before));
            prop_assert_eq!(share(&all, Some(&meanwhile)), before);
        }

        #[test]
        fn shares_are_fair_and_changes_minimal(
            old in proptest::collection::vec(1u32..20, 1..12),
            new in proptest::collection::vec(0u32..20, 12),
        ) {
            let old: Vec<(u32, u32)> = (0..).zip(old).collect();
            let new: Vec<(u32, u32)> = (0..).zip(new).filter(|&(_, weight)| weight > 0).collect();
            prop_assume!(!new.is_empty());
            let before = share(&old, None);
            let after = share(&new, Some(&before));
            prop_assert_eq!(after.len(), BUCKETS);
            let total: u32 = new.iter().map(|&(_, weight)| weight).sum();
            for &(path, weight) in &new {
                let exact = f64::from(weight) * BUCKETS as f64 / f64::from(total);
                let got = count(&after, path);
                prop_assert!((got as f64 - exact).abs() < 1.0);
                // A path that must shrink or stay lost only its excess; one that grew lost nothing.
                let kept = before.iter().zip(&after).filter(|&(&a, &b)| a == path && b == path).count();
                prop_assert_eq!(kept, count(&before, path).min(got));
            }
        }
    }
}
