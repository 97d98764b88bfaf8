//! Packet traces: `weir trace add NODE N` follows the next N packets that enter a node through the rest of the graph.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_base::clock::Time;
use weir_table::classify::Rule;

use crate::graph::record::Fate;
use crate::node::Node;

/// Most traces kept. When they are used up, further packets pass untraced until the traces are cleared.
pub const MAX_TRACES: usize = 1024;

/// Most steps of one trace.
const MAX_STEPS: usize = 64;

/// Most decisions of one step.
const MAX_DECISIONS: usize = 8;

/// A packet's way.
#[derive(Debug, Clone)]
pub struct Trace {
    /// The worker that began it.
    pub worker: usize,
    /// When the packet was received.
    pub time: Time,
    /// Node by node.
    pub steps: Vec<Step>,
}

/// A packet at a node.
#[derive(Debug, Clone)]
pub struct Step {
    /// The node.
    pub node: Node,
    /// Number of the interface (of the port, before `ethernet-input`) that it came in on.
    pub interface: u32,
    /// The packet, on one line.
    pub packet: String,
    /// The fate of the packet as far as it was known.
    pub note: String,
    /// The decisions of the node about it.
    pub decisions: Vec<Decided>,
}

/// A decision about a packet, in the numbers of a version of the root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decided {
    /// The version's model.
    pub model: u64,
    /// The version.
    pub version: u64,
    /// The decision.
    pub fate: Fate,
}

/// Traces of all workers, and what is to be traced next.
#[derive(Debug, Default)]
pub struct Tracer {
    /// Node number in the upper half, packets still wanted in the lower.
    wanted: AtomicU64,
    kept: Mutex<Kept>,
}

/// The packets that are meant: those that one of these rules matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    /// For packets of IPv4.
    pub v4: Vec<Rule<u32>>,
    /// For packets of IPv6.
    pub v6: Vec<Rule<u128>>,
}

#[derive(Debug, Default)]
struct Kept {
    /// The packets that are wanted; `None`: any.
    filter: Option<Arc<Filter>>,
    traces: Vec<Trace>,
    /// The number of forgotten traces, modulo [`NUMBERS`]: a packet still under way carries the number of such a trace,
    /// and must not write into a later one.
    forgotten: usize,
}

/// Numbers of traces that packets can carry: 0 stands for none.
const NUMBERS: usize = u16::MAX as usize;

impl Kept {
    /// The number of the trace at an index.
    fn number(&self, index: usize) -> u16 {
        // Below `NUMBERS`, plus one: fits 16 bits.
        ((self.forgotten + index) % NUMBERS + 1) as u16
    }

    fn get_mut(&mut self, number: u16) -> Option<&mut Trace> {
        let number = usize::from(number).checked_sub(1)?;
        self.traces.get_mut((number + NUMBERS - self.forgotten) % NUMBERS)
    }
}

impl Tracer {
    /// Requests the next `count` packets that enter `node` and that `filter` matches; replaces an earlier request.
    pub fn request(&self, node: Node, count: u32, filter: Option<Filter>) {
        self.lock().filter = filter.map(Arc::new);
        self.wanted.store((node as u64) << 32 | u64::from(count), Ordering::Relaxed);
    }

    /// Returns the node at which packets are to be traced. One load: workers call it once per vector.
    #[inline]
    pub fn wanted(&self) -> Option<Node> {
        let wanted = self.wanted.load(Ordering::Relaxed);
        if wanted as u32 == 0 { None } else { Node::ALL.get((wanted >> 32) as usize).copied() }
    }

    /// Returns which packets are wanted; `None`: any.
    pub fn filter(&self) -> Option<Arc<Filter>> {
        self.lock().filter.clone()
    }

    /// Takes one packet off what is wanted at `node` and opens a trace: its number, above 0.
    pub fn open(&self, node: Node, worker: usize, time: Time) -> Option<u16> {
        let mut kept = self.lock();
        self.wanted
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |wanted| {
                (wanted >> 32 == node as u64 && wanted as u32 > 0).then(|| wanted - 1)
            })
            .ok()?;
        if kept.traces.len() == MAX_TRACES {
            self.wanted.store(0, Ordering::Relaxed);
            return None;
        }
        kept.traces.push(Trace { worker, time, steps: Vec::new() });
        Some(kept.number(kept.traces.len() - 1))
    }

    /// Adds a step to a trace; to one that was cleared meanwhile, nothing.
    pub fn step(&self, trace: u16, step: Step) {
        let mut kept = self.lock();
        if let Some(trace) = kept.get_mut(trace)
            && trace.steps.len() < MAX_STEPS
        {
            trace.steps.push(step);
        }
    }

    /// Adds a decision to the last step of a trace; to one that was cleared meanwhile, nothing.
    pub fn decide(&self, trace: u16, decided: Decided) {
        let mut kept = self.lock();
        if let Some(trace) = kept.get_mut(trace)
            && let Some(step) = trace.steps.last_mut()
            && step.decisions.len() < MAX_DECISIONS
        {
            step.decisions.push(decided);
        }
    }

    /// All traces.
    pub fn traces(&self) -> Vec<Trace> {
        self.lock().traces.clone()
    }

    /// Forgets the traces and what was wanted.
    pub fn clear(&self) {
        let mut kept = self.lock();
        self.wanted.store(0, Ordering::Relaxed);
        kept.forgotten = (kept.forgotten + kept.traces.len()) % NUMBERS;
        kept.traces.clear();
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step() -> Step {
        Step { node: Node::Ip4Lookup, interface: 0, packet: String::new(), note: String::new(), decisions: Vec::new() }
    }

    #[test]
    fn so_many_packets_are_traced_as_were_asked_for() {
        let tracer = Tracer::default();
        assert_eq!(tracer.wanted(), None);
        tracer.request(Node::Ip4Lookup, 2, None);
        assert_eq!(tracer.wanted(), Some(Node::Ip4Lookup));
        assert_eq!(tracer.open(Node::Drop, 0, Time(0)), None);
        assert_eq!(tracer.open(Node::Ip4Lookup, 0, Time(0)), Some(1));
        assert_eq!(tracer.open(Node::Ip4Lookup, 0, Time(0)), Some(2));
        assert_eq!(tracer.open(Node::Ip4Lookup, 0, Time(0)), None);
        let step = step();
        (0..100).for_each(|_| tracer.step(2, step.clone()));
        tracer.step(9, step);
        assert_eq!(tracer.traces()[1].steps.len(), MAX_STEPS);
        tracer.clear();
        assert!(tracer.traces().is_empty() && tracer.wanted().is_none());
    }

    #[test]
    fn a_packet_of_a_forgotten_trace_writes_into_no_later_one() {
        let tracer = Tracer::default();
        let step = step();
        for _ in 0..100 {
            tracer.request(Node::Rx, u32::MAX, None);
            let numbers: Vec<u16> = std::iter::from_fn(|| tracer.open(Node::Rx, 0, Time(0))).collect();
            assert!(numbers.iter().all(|&number| number > 0));
            numbers.iter().for_each(|&number| tracer.step(number, step.clone()));
            assert!(tracer.traces().iter().all(|trace| trace.steps.len() == 1));
            tracer.clear();
            tracer.request(Node::Rx, 1000, None);
            while tracer.open(Node::Rx, 0, Time(0)).is_some() {}
            numbers.iter().for_each(|&number| tracer.step(number, step.clone()));
            assert!(tracer.traces().iter().all(|trace| trace.steps.is_empty()));
            tracer.clear();
        }
    }

    #[test]
    fn traces_are_bounded() {
        let tracer = Tracer::default();
        tracer.request(Node::Rx, u32::MAX, None);
        assert_eq!((0..2000).filter(|_| tracer.open(Node::Rx, 0, Time(0)).is_some()).count(), MAX_TRACES);
        assert_eq!(tracer.wanted(), None);
    }
}
