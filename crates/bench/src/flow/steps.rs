//! Times: of steps in which the flow table grows and ages, and until a change works. Beside them stands the time of the steps of an
//! idle loop, which is what other work of the machine adds.

use std::hint::black_box;

use serde::{Deserialize, Serialize};
use weir_base::random::Random;
use weir_base::tsc;
use weir_plane::bench::Bench;
use weir_table::flow::{Lines, Secret, Table, VECTOR};

use super::plan::{Plan, Version};
use crate::Error;
use crate::report::figure::Target;

/// Turns of a step of the idle loop: some microseconds.
const IDLE: u32 = 10_000;
/// Flows of a gateway whose policies change.
const FLOWS: u32 = 10_000;

/// A learned decision is as long.
type Value = [u32; 12];

/// Times of the steps of some work, in microseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Steps {
    /// The work.
    pub work: String,
    /// Steps that were timed.
    pub steps: u64,
    /// Half of the steps took no longer.
    pub median: f64,
    /// 99.9 % of the steps took no longer.
    pub late: f64,
    /// The longest step.
    pub most: f64,
    /// The target for `late`.
    pub target: Option<Target>,
}

impl Steps {
    fn of(work: &str, mut ticks: Vec<f64>, most: Option<f64>) -> Steps {
        ticks.sort_by(f64::total_cmp);
        let at = |share: usize| {
            let last = ticks.len().saturating_sub(1);
            ticks.get((ticks.len() * share / 1000).min(last)).map_or(f64::NAN, |ticks| ticks * 1e6 / tsc::frequency())
        };
        let late = at(999);
        Steps {
            work: work.to_owned(),
            steps: ticks.len() as u64,
            median: at(500),
            late,
            most: at(1000),
            target: most.map(|most| Target::at_most(most, late)),
        }
    }
}

fn timed<T>(mut step: impl FnMut() -> T) -> f64 {
    let start = tsc::ticks();
    black_box(step());
    (tsc::ticks() - start) as f64
}

/// Measures a table that grows to so many flows of IPv4, and so many changes of policies.
pub(super) fn measure(flows: usize, changes: usize) -> Result<Vec<Steps>, Error> {
    let mut random = Random::from_seed(1);
    let secret = Secret::new(std::array::from_fn(|_| random.next()));
    let mut table: Table<[u64; 2], Value, Lines> = Table::new(usize::MAX, secret);
    let mut growth = Vec::new();
    for _ in 0..flows.div_ceil(VECTOR) {
        while !{
            let mut is_ready = false;
            growth.push(timed(|| is_ready = table.prepare(VECTOR)));
            is_ready
        } {}
        for _ in 0..VECTOR {
            let _ = table.insert([random.next(), random.next()], [1; 12]);
        }
    }
    let groups = table.groups();
    let ages = (0..groups).map(|group| timed(|| table.retain_in(group, |_, value| black_box(value[0]) != 0))).collect();
    let idle = || {
        (0..IDLE).for_each(|turn| {
            black_box(turn);
        });
    };
    let idle = (0..growth.len()).map(|_| timed(idle)).collect();
    Ok(vec![
        Steps::of(&format!("growth to {flows} flows"), growth, Some(50.0)),
        Steps::of(&format!("ageing of {flows} flows"), ages, Some(50.0)),
        Steps::of("idle loop", idle, None),
        Steps::of("until a change works", effects(changes)?, Some(100.0)),
    ])
}

/// Ticks from the publication of a change until the end of the first vector that is decided by it. A worker looks for changes
/// between vectors, so that the vector that was under way counts, too.
fn effects(changes: usize) -> Result<Vec<f64>, Error> {
    let plan = Plan::of(true);
    let mut model = plan.gateway(FLOWS);
    plan.apply(&mut model, &Version { fast: true, ..Version::policies("policies, fast path") });
    let mut bench = Bench::new(&model, 1)?;
    let root = bench.compile(&model)?;
    bench.window(2 * FLOWS as usize / VECTOR);
    let mut effects = Vec::with_capacity(changes);
    for _ in 0..changes {
        let under_way = timed(|| bench.window(1));
        let before = bench.fast_path();
        bench.change_all(&root);
        let next = timed(|| bench.window(1));
        let after = bench.fast_path();
        if after.hits != before.hits {
            return Err(Error::Unchanged((after.hits - before.hits) as usize));
        }
        effects.push(under_way + next);
        // Most flows are decided again, so that the vector under way is one of hits.
        bench.window(2 * FLOWS as usize / VECTOR);
    }
    Ok(effects)
}
