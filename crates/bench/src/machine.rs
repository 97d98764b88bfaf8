//! The machine that measures: its CPUs, and running gateways.

use std::time::{Duration, Instant};

use weir_base::affinity;
use weir_base::clock::Clock;
use weir_base::random::Entropy;
use weir_plane::engine::{Engine, Options};
use weir_plane::model::Gateway;

use crate::Error;

/// Seconds that a worker may forward nothing before something is wrong.
const PATIENCE: f64 = 10.0;

/// Returns the name that `/proc/cpuinfo` has for the CPU.
pub(crate) fn cpu_name() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name =
        text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':').map(|(_, name)| name.trim()));
    name.unwrap_or("unknown CPU").to_owned()
}

/// Returns the CPUs that may be used; none if the system does not say.
pub(crate) fn cpus() -> Vec<usize> {
    affinity::allowed().unwrap_or_default()
}

/// Stays on a CPU: the wanted one, or the last CPU that may be used.
pub(crate) fn pin(wanted: Option<usize>) -> Result<(), Error> {
    match wanted.or(cpus().last().copied()) {
        Some(cpu) => affinity::pin(cpu).map_err(|source| Error::Pin { cpu, source }),
        None => Ok(()),
    }
}

/// Stays on the first CPU, so that a worker has the last one.
pub(crate) fn pin_first(cpus: &[usize]) {
    if let Some(&first) = cpus.first() {
        // The CPU matters for speed alone.
        let _ = affinity::pin(first);
    }
}

/// Starts a gateway whose worker runs on the last of the CPUs.
pub(crate) fn start(mut model: Gateway, cpus: &[usize]) -> Result<Engine, Error> {
    model.workers.cores = cpus.last().map(|&cpu| cpu as u16).into_iter().collect();
    let random = Entropy::from_seed(1);
    Ok(Engine::start(model, Options { clock: Clock::monotonic(), random, invent_neighbors: false, pin: true })?)
}

/// Returns packets per second that the worker transmits while `run` runs.
pub(crate) fn throughput(engine: &Engine, run: impl FnOnce() -> Result<(), Error>) -> Result<f64, Error> {
    let (before, start) = (engine.snapshot().conservation, Instant::now());
    run()?;
    let (mut after, mut seconds) = (engine.snapshot().conservation, start.elapsed().as_secs_f64());
    while after.transmitted == before.transmitted {
        // With few CPUs, the worker has not had its turn yet.
        if seconds > PATIENCE {
            return Err(Error::Running(format!("forwarded nothing: {after:?}")));
        }
        std::thread::sleep(Duration::from_millis(1));
        (after, seconds) = (engine.snapshot().conservation, start.elapsed().as_secs_f64());
    }
    Ok((after.transmitted - before.transmitted) as f64 / seconds)
}

/// Computes, and touches no memory.
pub(crate) fn compute(duration: Duration) {
    let (start, mut value) = (Instant::now(), 1u64);
    while start.elapsed() < duration {
        for _ in 0..1 << 12 {
            value = std::hint::black_box(value.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (value >> 7));
        }
    }
}
