//! The workers' threads: start, commands, end.

use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use weir_base::affinity;
use weir_base::clock::Clock;
use weir_base::random::Entropy;
use weir_base::reclaim::{Domain, Published};
use weir_base::ring::{Consumer, ring};
use weir_base::tsc;
use weir_base::wake::{self, Cause, Sleeper, Waker};
use weir_packet::buffer::Pool;
use weir_packet::packet::Packet;

use super::EngineError;
use super::pace::Pace;
use crate::engine::samples::{LogRing, WatchRing};
use crate::graph::counters::WorkerCounters;
use crate::graph::events;
use crate::graph::events::Event;
use crate::graph::peer::Peer;
use crate::graph::sample::{self, Sample};
use crate::graph::session::{Ended, LOG_RING, Page, WATCH_RING};
use crate::graph::trace::Tracer;
use crate::graph::worker::{Command, Round, Shared, Worker};
use crate::model;
use crate::root::Root;

/// Packets that a ring between two workers holds.
const RING: usize = 4096;

/// The workers. Dropping it stops them.
pub(super) struct Workers(Vec<WorkerHandle>);

/// The parts that all workers share with the engine.
pub(super) struct Parts<'a> {
    pub(super) domain: &'a Domain,
    pub(super) root: &'a Arc<Published<Root>>,
    pub(super) tracer: &'a Arc<Tracer>,
    pub(super) pool: &'a Pool,
    pub(super) clock: &'a Clock,
    pub(super) busy: &'a Arc<AtomicUsize>,
    /// The waker of the control thread, which reads the event rings.
    pub(super) keeper: &'a Waker,
    /// The waker of the thread that reads the sample rings.
    pub(super) sampler: &'a Waker,
    /// Somebody watches sessions.
    pub(super) is_watched: &'a Arc<AtomicBool>,
}

/// The rings from the workers.
pub(super) struct Rings {
    /// Their neighbour events.
    pub(super) events: Vec<Consumer<Event>>,
    /// Samples of packets.
    pub(super) samples: Vec<Consumer<Sample>>,
    /// Events of translations, and how many were lost.
    pub(super) log: Vec<LogRing>,
    /// Sessions that began and ended, and how many of these events were lost.
    pub(super) sessions: Vec<WatchRing>,
}

impl Rings {
    /// Makes the rings of a worker.
    fn connect(&mut self, worker: &mut Worker, parts: &Parts<'_>) {
        let (events, consumer) = ring(events::RING);
        worker.events.connect(events, Some(parts.keeper.clone()));
        self.events.push(consumer);
        let (log, consumer) = ring(LOG_RING);
        let lost = Arc::<AtomicU64>::default();
        worker.sessions.log.connect(log, Some(parts.sampler.clone()), Arc::clone(&lost));
        self.log.push((consumer, lost));
        let (sessions, consumer) = ring(WATCH_RING);
        let lost = Arc::<AtomicU64>::default();
        let shared = (Arc::clone(parts.is_watched), Arc::clone(&lost));
        worker.sessions.watch.connect(sessions, Some(parts.sampler.clone()), shared);
        self.sessions.push((consumer, lost));
        let (samples, consumer) = ring(sample::RING);
        worker.samples.connect(samples, Some(parts.sampler.clone()));
        self.samples.push(consumer);
    }
}

impl Workers {
    /// Starts the workers, each pinned to its CPU, with rings between all of them. Returns the rings from them, too.
    pub(super) fn start(
        model: &model::Gateway,
        pin: bool,
        entropy: &Entropy,
        parts: &Parts<'_>,
    ) -> Result<(Workers, Rings), EngineError> {
        let count = usize::from(model.workers.count.max(1));
        let cores = cores(model, count, pin)?;
        let mut workers = Workers(Vec::with_capacity(count));
        let mut told = Rings {
            events: Vec::with_capacity(count),
            samples: Vec::with_capacity(count),
            log: Vec::with_capacity(count),
            sessions: Vec::with_capacity(count),
        };
        let pairs: io::Result<Vec<(Sleeper, Waker)>> = (0..count).map(|_| wake::pair()).collect();
        let (sleepers, wakers): (Vec<_>, Vec<_>) =
            pairs.map_err(|source| EngineError::Thread { worker: 0, source })?.into_iter().unzip();
        let ways = rings(&wakers);
        // Measured before any worker needs it.
        tsc::frequency();
        let (senders, mailboxes): (Vec<_>, Vec<_>) = wakers.into_iter().map(CommandSender::new).unzip();
        for ((((number, core), (peers, sources)), mut sleeper), mailbox) in
            cores.into_iter().enumerate().zip(ways).zip(sleepers).zip(mailboxes)
        {
            let counters = Arc::<WorkerCounters>::default();
            let shared = Shared {
                root: Arc::clone(parts.root),
                tracer: Arc::clone(parts.tracer),
                counters: Arc::clone(&counters),
                clock: parts.clock.clone(),
                entropy: entropy.clone(),
            };
            let reader = parts.domain.reader()?;
            let mut worker = Worker::new(number, count, shared, reader, parts.pool.cache(), mailbox, peers, sources);
            told.connect(&mut worker, parts);
            let handled = Arc::<AtomicU64>::default();
            let (ready, started) = mpsc::channel();
            let (busy, done) = (Arc::clone(parts.busy), Arc::clone(&handled));
            let others = senders.clone();
            let thread = thread::Builder::new()
                .name(format!("weir_wk_{number}"))
                .spawn(move || {
                    let pinned = core.map_or(Ok(()), affinity::pin);
                    // Where it is refused, sleeps end some 50 µs later.
                    let _ = wake::be_punctual();
                    let failed = pinned.is_err();
                    let _ = ready.send(pinned);
                    if failed {
                        return;
                    }
                    let work = || work(&mut worker, &mut sleeper, &busy, &done);
                    // Nothing of a worker that panicked is used again but its receive queues, which it was not in.
                    if let Err(panic) = panic::catch_unwind(AssertUnwindSafe(work)) {
                        bequeath(&mut worker, number, &others);
                        panic::resume_unwind(panic);
                    }
                })
                .map_err(|source| EngineError::Thread { worker: number, source })?;
            let handle = WorkerHandle {
                sender: Arc::clone(&senders[number]),
                handled,
                counters,
                thread: Some(thread),
                failed: false,
                core,
            };
            handle.command(Command::Limit(model.icmp, model.neighbor_discovery));
            handle.command(Command::Pace(model.workers.max_latency));
            workers.0.push(handle);
            // A thread that ended without a word is one that panicked.
            let pinned = started.recv().unwrap_or_else(|_| Err(io::Error::other("the thread ended")));
            if let Err(source) = pinned {
                return Err(EngineError::Thread { worker: number, source });
            }
        }
        Ok((workers, told))
    }

    /// Waits until the workers have handled their commands.
    pub(super) fn settle(&self) {
        while !self.iter().all(|worker| worker.is_up_to_date() || worker.is_gone()) {
            thread::sleep(Duration::from_micros(50));
        }
    }

    /// Wakes sleeping workers to look at a new root, which may release packets that they hold.
    pub(super) fn wake(&self) {
        self.iter().for_each(|worker| worker.sender.wake());
    }

    /// Ends the workers: first all stop taking packets from ports, then, when no one hands anything over any more, all
    /// finish what they were handed. Further calls do nothing.
    pub(super) fn stop(&mut self) {
        self.iter().for_each(|worker| worker.command(Command::Drain));
        self.settle();
        self.iter().for_each(|worker| worker.command(Command::End));
        for worker in &mut self.0 {
            if let Some(thread) = worker.thread.take() {
                // A worker that panicked has said why on stderr; its counters are still there.
                worker.failed = thread.join().is_err();
            }
        }
    }
}

impl std::ops::Deref for Workers {
    type Target = [WorkerHandle];

    fn deref(&self) -> &[WorkerHandle] {
        &self.0
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The sending end of a worker's commands, for any thread.
pub(super) struct CommandSender {
    commands: mpsc::Sender<Command>,
    /// Orders sent so far.
    sent: AtomicU64,
    waker: Waker,
}

impl CommandSender {
    /// Creates a pair: the sender with the waker of a worker, and the receiver of that worker.
    pub(super) fn new(waker: Waker) -> (Arc<CommandSender>, mpsc::Receiver<Command>) {
        let (commands, mailbox) = mpsc::channel();
        (Arc::new(CommandSender { commands, sent: AtomicU64::new(0), waker }), mailbox)
    }

    pub(super) fn command(&self, command: Command) {
        // A worker that panicked reads nothing any more.
        let _ = self.try_command(command);
    }

    /// Gives the command back when the worker reads nothing any more.
    fn try_command(&self, command: Command) -> Result<(), Command> {
        self.sent.fetch_add(1, Ordering::Relaxed);
        self.commands.send(command).map_err(|refused| refused.0)?;
        self.waker.wake();
        Ok(())
    }

    /// Has it look around.
    pub(super) fn wake(&self) {
        self.waker.wake();
    }

    /// It sleeps, or is about to.
    pub(super) fn is_asleep(&self) -> bool {
        self.waker.is_asleep()
    }
}

pub(super) struct WorkerHandle {
    pub(super) sender: Arc<CommandSender>,
    /// Orders that the worker has read, and done a round since.
    handled: Arc<AtomicU64>,
    pub(super) counters: Arc<WorkerCounters>,
    thread: Option<JoinHandle<()>>,
    /// It panicked, as was seen when it was ended.
    failed: bool,
    pub(super) core: Option<usize>,
}

impl WorkerHandle {
    pub(super) fn command(&self, command: Command) {
        self.sender.command(command);
    }

    /// A page of its sessions; `None` if it is gone.
    pub(super) fn flows(&self, from: u64) -> Option<Page> {
        let (to, page) = mpsc::channel();
        self.command(Command::Flows(from, to));
        page.recv().ok()
    }

    /// Ends sessions of it; gives how many there were.
    pub(super) fn end_flows(&self, ended: Vec<Ended>) -> usize {
        if ended.is_empty() {
            return 0;
        }
        let (to, count) = mpsc::channel();
        self.command(Command::EndFlows(ended, to));
        count.recv().unwrap_or(0)
    }

    /// Matches its translations by the rules in force.
    pub(super) fn recheck(&self) {
        let mut from = Some(0);
        while let Some(at) = from {
            let (to, next) = mpsc::channel();
            self.command(Command::Recheck(at, to));
            // A worker that is gone gives no answer.
            from = next.recv().ok().flatten();
        }
    }

    /// Returns whether all its commands are handled.
    pub(super) fn is_up_to_date(&self) -> bool {
        self.handled.load(Ordering::Acquire) == self.sender.sent.load(Ordering::Relaxed)
    }

    /// Returns whether it ended without a command to end.
    pub(super) fn has_failed(&self) -> bool {
        self.failed || self.thread.as_ref().is_some_and(JoinHandle::is_finished)
    }

    pub(super) fn is_gone(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

/// Gives the receive queues of a worker that failed to the next one that goes on. Where none does, they are closed.
fn bequeath(worker: &mut Worker, number: usize, senders: &[Arc<CommandSender>]) {
    for (port, receiver) in worker.abandon() {
        let mut command = Command::Receive(port, receiver);
        for step in 1..senders.len() {
            match senders[(number + step) % senders.len()].try_command(command) {
                Ok(()) => break,
                Err(refused) => command = refused,
            }
        }
    }
}

/// How long a worker polls on after its last packet, in seconds, before it sleeps: about what it costs itself and the
/// sender to fall asleep and be woken. So waiting never costs more than twice what it would if the next packet's time
/// were known. "How workers wait" in docs/engine.md has the figures.
const PATIENCE: f64 = 30e-6;

/// Rounds after which it is believed that readiness without packets is no coincidence.
const VAIN: u32 = 16;

/// How long descriptors that are ready without bringing packets are not listened to.
const DEAF: Duration = Duration::from_millis(1);

/// A worker's thread: rounds at its [pace](Pace) while there are packets, sleep when there are none.
fn work(worker: &mut Worker, sleeper: &mut Sleeper, busy: &AtomicUsize, handled: &AtomicU64) {
    let mut counted = true;
    let mut told = 0;
    let mut idle = Idle { patience: (PATIENCE * tsc::frequency()) as u64, quiet: None, vain: 0 };
    let mut bound = Duration::ZERO;
    let mut pace = Pace::new(bound, tsc::frequency());
    loop {
        let began = tsc::ticks();
        let round = worker.round();
        if worker.max_latency != bound {
            bound = worker.max_latency;
            pace = Pace::new(bound, tsc::frequency());
        }
        // A worker whose queues have all ended no longer counts as busy.
        let counts = matches!(round, Round::Busy | Round::Idle | Round::Blocked);
        if counts != counted {
            if counts {
                busy.fetch_add(1, Ordering::AcqRel)
            } else {
                busy.fetch_sub(1, Ordering::AcqRel)
            };
            counted = counts;
        }
        if worker.handled != told {
            told = worker.handled;
            handled.store(told, Ordering::Release);
        }
        match round {
            Round::Busy => {
                sleeper.stay_up();
                let now = tsc::ticks();
                idle.end(now);
                let (packets, more) = worker.taken();
                if packets > 0
                    && let Some(ticks) = pace.pause(began, packets, more, now)
                    && pause(worker, sleeper, Duration::from_secs_f64(ticks as f64 / tsc::frequency()))
                {
                    pace.paused();
                }
            }
            Round::Blocked => {
                sleeper.stay_up();
                // The other may want this very CPU.
                thread::yield_now();
            }
            Round::Ended => {
                worker.close_all();
                return;
            }
            Round::Idle | Round::Done => idle.wait(worker, sleeper, &mut pace),
        }
    }
}

/// The time of a worker without packets.
struct Idle {
    /// Ticks for which it polls on.
    patience: u64,
    /// Since when there is nothing to do, in ticks; none once it has been quiet for long enough.
    quiet: Option<u64>,
    /// Sleeps in a row that readiness ended and that brought no packets.
    vain: u32,
}

impl Idle {
    /// Packets have come.
    fn end(&mut self, now: u64) {
        (self.quiet, self.vain) = (Some(now), 0);
    }

    /// Polls on for a while; then sleeps until there is work.
    fn wait(&mut self, worker: &mut Worker, sleeper: &mut Sleeper, pace: &mut Pace) {
        if let Some(since) = self.quiet {
            if tsc::ticks().wrapping_sub(since) < self.patience {
                std::hint::spin_loop();
                return;
            }
            worker.flush();
            self.quiet = None;
            pace.rest();
        }
        let Some(mut wait) = worker.wait() else {
            sleeper.stay_up();
            thread::yield_now();
            return;
        };
        let left = wait.until.map(|until| worker.clock().until(until));
        if left.is_some_and(|left| left.as_secs_f64() < PATIENCE) {
            sleeper.stay_up();
            std::hint::spin_loop();
            return;
        }
        if !sleeper.is_announced() {
            // One more round; after it the waker wakes the thread for new work.
            sleeper.announce();
            return;
        }
        let deaf = self.vain >= VAIN && !wait.descriptors.is_empty();
        if deaf {
            wait.descriptors.clear();
        }
        let left = if deaf { Some(left.map_or(DEAF, |left| left.min(DEAF))) } else { left };
        worker.count_sleep();
        if sleeper.sleep(&wait.descriptors, left) == Cause::Ready {
            self.vain += 1;
        }
    }
}

/// Sleeps for some time, whatever ports have; wakers and what is due end it. Returns whether it took all that time.
fn pause(worker: &mut Worker, sleeper: &mut Sleeper, time: Duration) -> bool {
    sleeper.announce();
    // From here on wakers call: the last look at what they brought.
    if worker.is_called() {
        sleeper.stay_up();
        return false;
    }
    let due = worker.deadline().map(|deadline| worker.clock().until(deadline));
    worker.count_sleep();
    let whole = due.is_none_or(|due| due > time);
    sleeper.sleep(&[], Some(due.map_or(time, |due| due.min(time)))) == Cause::Time && whole
}

/// The CPU of each worker.
fn cores(model: &model::Gateway, count: usize, pin: bool) -> Result<Vec<Option<usize>>, EngineError> {
    if !pin {
        return Ok(vec![None; count]);
    }
    if !model.workers.cores.is_empty() {
        return Ok(model.workers.cores.iter().map(|&core| Some(usize::from(core))).collect());
    }
    let allowed = affinity::allowed().map_err(|source| EngineError::Thread { worker: 0, source })?;
    // From the last one down: the first is where everything else on the machine tends to run.
    Ok((0..count).map(|worker| allowed.iter().rev().nth(worker % allowed.len().max(1)).copied()).collect())
}

pub(super) type Ways = (Vec<Option<Peer>>, Vec<Consumer<Packet>>);

/// A way from every worker to every other.
pub(super) fn rings(wakers: &[Waker]) -> Vec<Ways> {
    let count = wakers.len();
    let mut ends: Vec<Ways> = (0..count).map(|_| (Vec::new(), Vec::new())).collect();
    for from in 0..count {
        for to in 0..count {
            if from == to {
                ends[from].0.push(None);
            } else {
                let (producer, consumer) = ring(RING);
                ends[from].0.push(Some(Peer::new(producer, wakers[to].clone())));
                ends[to].1.push(consumer);
            }
        }
    }
    ends
}

#[cfg(test)]
pub(super) mod tests;
