//! Workers that sleep: the causes that wake them, the delay, and the cost of idling. The ports are the tests' own:
//! sockets to receive from, and transmit queues that record their frames.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::os::unix::net::UnixDatagram;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use weir_base::clock::{ManualClock, Time};
use weir_base::random::Entropy;
use weir_packet::buffer::{Cache, PoolSize};
use weir_packet::vector::{Indices, Vector};
use weir_port::spec::{GeneratorSpec, PortSpec, StreamSource, StreamSpec};
use weir_port::{Burst, Readiness, Receiver, Transmitter};

use super::*;
use crate::compile::{Compiler, PortPlace, Settings};
use crate::engine::collect;
use crate::kit::*;
use crate::reason::Reason;
use crate::stats::Conservation;

/// Whatever takes longer is taken for something that never happens.
const PATIENT: Duration = Duration::from_secs(120);

/// How often a time is measured until it is short. Machines that have much else to do make it long now and then, and what is
/// wrong here makes it long each time.
const TRIES: usize = 20;

/// Workers without an engine. Port 0 is `lan`, port 1 is `wan` with the default route.
struct Rig {
    workers: Workers,
    domain: Domain,
    sent: mpsc::Receiver<Sent>,
    // Keeps the tables.
    _compiler: Compiler,
}

/// The frames of a transmit queue.
#[derive(Debug)]
struct Sent {
    at: Instant,
    now: Time,
    packets: usize,
}

struct Probe {
    sent: mpsc::Sender<Sent>,
    waiting: usize,
    now: Time,
}

impl Transmitter for Probe {
    fn transmit(&mut self, _: &mut Vector, frame: &Indices, _: &mut Indices, _: &mut Cache, now: Time) -> usize {
        self.waiting += frame.len();
        self.now = now;
        frame.len()
    }

    /// Nothing leaves before.
    fn kick(&mut self) {
        assert!(self.waiting > 0, "kicked for nothing");
        // A test that saw enough does not listen any more.
        let _ = self.sent.send(Sent { at: Instant::now(), now: self.now, packets: std::mem::take(&mut self.waiting) });
    }
}

fn rig(workers: u16, clock: Clock) -> Rig {
    let mut build = two_ports();
    build.0.workers.count = workers;
    let model = build.0;
    let domain = Domain::new();
    let settings = Settings { workers: usize::from(workers), invent_neighbors: true, secret: [1, 2, 3, 4] };
    let mut compiler = Compiler::new(&domain, settings, model.limits);
    let ports = [0, 1].map(|number| (number, PortPlace { number, mac: None, peer: None, down: false }));
    let places = crate::compile::Places { ports: HashMap::from(ports), ..Default::default() };
    let (root, _) = compiler.compile(&model, &places).unwrap();
    let root = Arc::new(Published::new(root, &domain));
    let pool = Pool::new(PoolSize { small: 4096, large: 0 }).unwrap();
    let (tracer, busy) = (Arc::default(), Arc::new(AtomicUsize::new(usize::from(workers))));
    let ((_, keeper), (_, sampler)) = (wake::pair().unwrap(), wake::pair().unwrap());
    let parts = Parts {
        domain: &domain,
        root: &root,
        tracer: &tracer,
        pool: &pool,
        clock: &clock,
        busy: &busy,
        keeper: &keeper,
        sampler: &sampler,
        is_watched: &Arc::default(),
    };
    let (started, _) =
        Workers::start(&model, false, &Entropy::from_seed(1), &parts).unwrap_or_else(|error| panic!("{error}"));
    let (sender, sent) = mpsc::channel();
    for worker in started.iter() {
        let probe = Probe { sent: sender.clone(), waiting: 0, now: Time(0) };
        worker.command(Command::Transmit(1, Box::new(probe)));
    }
    started.settle();
    Rig { workers: started, domain, sent, _compiler: compiler }
}

impl Rig {
    fn receive(&self, worker: usize, receiver: impl Receiver + 'static) {
        self.workers[worker].command(Command::Receive(0, Box::new(receiver)));
    }

    #[track_caller]
    fn wait(&self, what: &str, mut until: impl FnMut(&Workers) -> bool) {
        let start = Instant::now();
        while !until(&self.workers) {
            assert!(start.elapsed() < PATIENT, "waited in vain: {what}");
            thread::sleep(Duration::from_micros(20));
        }
    }

    /// Waits until every worker sleeps, and has done so for long enough to have reached the system call.
    #[track_caller]
    fn quiet(&self) {
        self.wait("sleep", |workers| workers.iter().all(|worker| worker.sender.is_asleep()));
        thread::sleep(Duration::from_micros(300));
    }

    #[track_caller]
    fn sent(&self) -> Sent {
        self.sent.recv_timeout(PATIENT).expect("a packet leaves")
    }

    fn conservation(&self) -> Conservation {
        collect::conservation(self.workers.iter().map(|worker| &*worker.counters))
    }

    fn transmitted(&self) -> u64 {
        self.conservation().transmitted
    }

    fn sleeps(&self, worker: usize) -> u64 {
        self.workers[worker].counters.sleeps.value()
    }

    /// Ends all; every packet has come to an end.
    #[track_caller]
    fn stop(mut self) {
        self.workers.stop();
        let conservation = self.conservation();
        assert_eq!((conservation.imbalance(), conservation.held), (0, 0), "{conservation:?}");
    }
}

/// Frames from a socket.
pub(in crate::engine) struct Socket(UnixDatagram);

impl Socket {
    /// The end that frames are sent into, and the queue.
    pub(in crate::engine) fn pair() -> (UnixDatagram, Socket) {
        let (near, far) = UnixDatagram::pair().unwrap();
        far.set_nonblocking(true).unwrap();
        (near, Socket(far))
    }
}

impl Receiver for Socket {
    fn readiness(&self) -> Readiness<'_> {
        Readiness::When(self.0.as_fd())
    }

    fn receive(&mut self, vector: &mut Vector, cache: &mut Cache, now: Time) -> Burst {
        let mut octets = [0; 2048];
        while vector.room() > 0 {
            let Ok(length) = self.0.recv(&mut octets) else { return Burst::Idle };
            let mut packet = Packet::copy_of(cache, &octets[..length]).expect("buffers for all");
            packet.set_time(now);
            assert!(vector.push(packet).is_ok(), "there is room");
        }
        Burst::More
    }
}

/// A queue that records the thread that polls it.
struct Watched<R>(R, Arc<OnceLock<String>>);

impl<R: Receiver> Receiver for Watched<R> {
    fn readiness(&self) -> Readiness<'_> {
        self.0.readiness()
    }

    fn receive(&mut self, vector: &mut Vector, cache: &mut Cache, now: Time) -> Burst {
        self.1.get_or_init(|| {
            let thread = std::fs::read_link("/proc/thread-self").unwrap();
            format!("/proc/self/task/{}/schedstat", thread.file_name().unwrap().to_str().unwrap())
        });
        self.0.receive(vector, cache, now)
    }
}

/// Returns the CPU time of a thread.
fn used(thread: &OnceLock<String>) -> Duration {
    let text = std::fs::read_to_string(thread.get().expect("it was polled")).unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

fn datagram(flow: u16) -> Vec<u8> {
    frame(&format!("udp from 10.0.0.2 port {} to 198.51.100.9 port 53", 1000 + flow), own_mac(0))
}

/// The receive queue of a generator.
fn generator(rate: Option<u64>, count: Option<u64>) -> Box<dyn Receiver> {
    let template = template(("10.0.0.2", "10.0.0.200"), ("198.51.100.1", "198.51.100.200"));
    let streams = vec![StreamSpec { source: StreamSource::Template(template), rate, count }];
    let pool = Pool::new(PoolSize { small: 1, large: 0 }).unwrap();
    let context = weir_port::Context { name: "lan".into(), mac: own_mac(0).0, max_frame: 1514, pool };
    let spec = PortSpec::Generator(GeneratorSpec { streams });
    weir_port::open(&spec, &Default::default(), 1, &context).unwrap().receivers().remove(0)
}

/// Needed, as the trait is not implemented for boxes.
struct Boxed(Box<dyn Receiver>);

impl Receiver for Boxed {
    fn readiness(&self) -> Readiness<'_> {
        self.0.readiness()
    }

    fn receive(&mut self, vector: &mut Vector, cache: &mut Cache, now: Time) -> Burst {
        self.0.receive(vector, cache, now)
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

#[test]
fn an_idle_worker_costs_next_to_nothing() {
    let rig = rig(1, Clock::monotonic());
    let thread = Arc::default();
    rig.receive(0, Watched(Boxed(generator(Some(10), None)), Arc::clone(&thread)));
    rig.sent();
    let (before, start) = (used(&thread), Instant::now());
    for _ in 0..20 {
        rig.sent();
    }
    let share = (used(&thread) - before).as_secs_f64() / start.elapsed().as_secs_f64();
    assert!(share < 0.02, "{:.2} % of a CPU for 10 packets a second", share * 100.0);
    // But for a worker that got no CPU for tenths of a second, and had several to send then.
    assert!(rig.sleeps(0) >= 5, "{} sleeps", rig.sleeps(0));
    println!("10 packets a second: {:.3} % of a CPU", share * 100.0);
    rig.stop();
}

#[test]
fn packets_that_fall_due_leave_in_time() {
    const EVERY: u64 = 5_000_000;
    // The lateness of a thread that only sleeps: on a busy machine, every thread is late.
    let sleeper = || {
        let _ = wake::be_punctual();
        let start = Instant::now();
        let due = (1..200).map(|number| start + number * Duration::from_nanos(EVERY));
        median(
            due.map(|due| {
                thread::sleep(due.saturating_duration_since(Instant::now()));
                due.elapsed()
            })
            .collect(),
        )
    };
    let in_time = || {
        let other = thread::spawn(sleeper);
        let rig = rig(1, Clock::monotonic());
        rig.receive(0, Boxed(generator(Some(1_000_000_000 / EVERY), Some(200))));
        let first = rig.sent();
        let mut late = Vec::new();
        let mut number = first.packets as u64;
        while number < 200 {
            let sent = rig.sent();
            late.push(Duration::from_nanos(sent.now.0.checked_sub(first.now.0 + number * EVERY).expect("not early")));
            number += sent.packets as u64;
        }
        assert!(rig.sleeps(0) >= late.len() as u64 / 2, "it slept {} times", rig.sleeps(0));
        let (late, other) = (median(late), other.join().unwrap());
        println!("a paced packet leaves {late:?} after it was due; a thread that sleeps is {other:?} late");
        rig.stop();
        late < Duration::from_millis(1) + 2 * other
    };
    assert!((0..TRIES).any(|_| in_time()), "late each time");
}

#[test]
fn a_readable_descriptor_wakes_a_worker_in_time() {
    let in_time = || {
        let rig = rig(1, Clock::monotonic());
        let (near, far) = Socket::pair();
        rig.receive(0, far);
        // Unless it lost its CPU between its last look and its sleep.
        let mut slept = true;
        let wakes = (0..300).map(|flow| {
            rig.quiet();
            slept &= rig.sleeps(0) >= u64::from(flow);
            let start = Instant::now();
            near.send(&datagram(flow)).unwrap();
            let sent = rig.sent();
            assert_eq!(sent.packets, 1);
            sent.at - start
        });
        let took = median(wakes.collect());
        println!("from a socket into a sleeping worker and out: {took:?}");
        rig.wait("the count", |_| rig.transmitted() == 300);
        rig.stop();
        slept && took < Duration::from_millis(1)
    };
    assert!((0..TRIES).any(|_| in_time()), "late each time");
}

#[test]
fn what_is_handed_over_wakes_its_owner() {
    assert!((0..TRIES).any(|_| hands_over_in_time()), "late each time");
}

fn hands_over_in_time() -> bool {
    let rig = rig(2, Clock::monotonic());
    let (near, far) = Socket::pair();
    rig.receive(0, far);
    let mut owned = [Vec::new(), Vec::new()];
    for flow in 0..400 {
        rig.quiet();
        let before = rig.workers[1].counters.transmitted.value();
        let start = Instant::now();
        near.send(&datagram(flow)).unwrap();
        let took = rig.sent().at - start;
        rig.wait("the count", |_| rig.transmitted() == u64::from(flow) + 1);
        owned[(rig.workers[1].counters.transmitted.value() - before) as usize].push(took);
    }
    assert!(owned.iter().all(|own| own.len() > 100), "both own flows");
    let [own, handed] = owned.map(median);
    println!("out by the worker that was woken: {own:?}, by another that it woke: {handed:?}");
    rig.stop();
    own < Duration::from_millis(1) && handed < Duration::from_millis(2)
}

#[test]
fn orders_wake_and_a_sleeper_is_away() {
    let rig = rig(2, Clock::monotonic());
    for round in 0..500u32 {
        if round % 2 == 0 {
            rig.quiet();
        }
        rig.workers[0].command(Command::Forget(7));
        rig.workers[1].command(Command::Forget(7));
        // It would wait for ever for one who sleeps on.
        rig.workers.settle();
    }
    rig.quiet();
    // Nothing is waited for before it is freed.
    let object = Arc::new(());
    rig.domain.retire(Arc::clone(&object));
    assert_eq!((rig.domain.collect(), Arc::strong_count(&object)), (0, 1));
    rig.stop();
}

/// Two workers whose packets mostly belong to the other, in bursts with pauses around the time after which they sleep.
#[test]
fn nothing_is_left_behind_by_workers_that_fall_asleep() {
    let rig = rig(2, Clock::monotonic());
    let sockets = [0, 1].map(|worker| {
        let (near, far) = Socket::pair();
        rig.receive(worker, far);
        near
    });
    let frames: Vec<_> = (0..64).map(datagram).collect();
    let mut sent = 0;
    for round in 0..20_000usize {
        let burst = 1 + round % 3;
        for number in 0..burst {
            sockets[round % 2].send(&frames[(round * 7 + number) % 64]).unwrap();
        }
        sent += burst as u64;
        let start = Instant::now();
        // All arrive without anything else happening. With one CPU, they do when this thread leaves it to the workers.
        while rig.transmitted() < sent {
            assert!(start.elapsed() < PATIENT, "left behind in round {round}: {:?}", rig.conservation());
            if start.elapsed() > Duration::from_micros(100) {
                thread::yield_now();
            }
            std::hint::spin_loop();
        }
        let pause = Duration::from_micros((round as u64 * 13) % 90);
        while start.elapsed() < pause {
            std::hint::spin_loop();
        }
    }
    assert!(rig.sleeps(0) > 100 && rig.sleeps(1) > 100, "{} {}", rig.sleeps(0), rig.sleeps(1));
    rig.stop();
}

#[test]
fn a_clock_that_is_moved_by_hand_is_not_slept_through() {
    let hand = ManualClock::new();
    let rig = rig(1, hand.clone().into());
    rig.receive(0, Boxed(generator(Some(1), Some(3))));
    for second in 1..3 {
        assert_eq!(rig.sent().packets, 1);
        assert!(rig.sent.recv_timeout(Duration::from_millis(20)).is_err());
        hand.set(Time(second * 1_000_000_000));
    }
    assert_eq!(rig.sent().packets, 1);
    rig.stop();
}

/// A descriptor that is always readable and never brings anything, as of a device that is gone.
struct Broken(UnixDatagram);

impl Receiver for Broken {
    fn readiness(&self) -> Readiness<'_> {
        Readiness::When(self.0.as_fd())
    }

    fn receive(&mut self, _: &mut Vector, _: &mut Cache, _: Time) -> Burst {
        Burst::Idle
    }
}

#[test]
fn a_descriptor_that_cries_wolf_does_not_keep_a_worker_up() {
    let rig = rig(1, Clock::monotonic());
    let (wolf, broken) = UnixDatagram::pair().unwrap();
    wolf.send(b"wolf").unwrap();
    let thread = Arc::default();
    rig.receive(0, Watched(Broken(broken), Arc::clone(&thread)));
    let (near, far) = Socket::pair();
    rig.receive(0, far);
    near.send(&datagram(0)).unwrap();
    rig.sent();
    let (before, start) = (used(&thread), Instant::now());
    thread::sleep(Duration::from_secs(1));
    let share = (used(&thread) - before).as_secs_f64() / start.elapsed().as_secs_f64();
    println!("a descriptor that is always ready: {:.2} % of a CPU", share * 100.0);
    assert!(share < 0.2, "{:.1} % of a CPU", share * 100.0);
    // The worker still receives from others.
    near.send(&datagram(1)).unwrap();
    rig.sent();
    rig.stop();
}

/// Fails on request.
struct Bomb(Arc<AtomicBool>);

impl Receiver for Bomb {
    fn receive(&mut self, _: &mut Vector, _: &mut Cache, _: Time) -> Burst {
        if self.0.load(Ordering::Relaxed) {
            // As a panic, without its message.
            std::panic::resume_unwind(Box::new("the bomb went off"));
        }
        Burst::Idle
    }
}

#[test]
fn a_worker_that_failed_holds_up_nobody() {
    let mut rig = rig(2, Clock::monotonic());
    let fuse = Arc::<AtomicBool>::default();
    rig.receive(1, Bomb(Arc::clone(&fuse)));
    rig.receive(0, Boxed(generator(None, None)));
    rig.wait("traffic by both", |workers| workers.iter().all(|worker| worker.counters.transmitted.value() > 1000));
    fuse.store(true, Ordering::Relaxed);
    rig.wait("the failure", |workers| workers[1].has_failed());
    // More than the ring holds: it is not just filling up.
    let before = rig.workers[0].counters.transmitted.value();
    rig.wait("traffic by the other", |workers| workers[0].counters.transmitted.value() > before + 20_000);
    // What the failed worker had been handed is dropped. Its flows belong to the other from then on.
    let lost = |workers: &Workers| {
        let drops = |reason: Reason| workers[0].counters.drops[reason as usize].value();
        (workers[0].counters.handed_out.value(), drops(Reason::WorkerGone), drops(Reason::HandoverFull))
    };
    let (before, received) = (lost(&rig.workers), rig.workers[0].counters.received.value());
    assert!(before.1 <= RING as u64, "{before:?}");
    rig.wait("more traffic", |workers| workers[0].counters.received.value() > received + 20_000);
    assert_eq!(lost(&rig.workers), before, "no flow is lost");
    rig.workers.stop();
    assert!(rig.workers[1].has_failed() && !rig.workers[0].has_failed());
    // Only what the failed worker had in hand is not accounted for: a vector at most.
    let conservation = rig.conservation();
    assert_eq!(conservation.imbalance(), 0, "{conservation:?}");
    assert!(conservation.held <= weir_packet::vector::VECTOR as u64, "{conservation:?}");
}

#[test]
fn receive_queues_of_a_worker_that_failed_go_to_another() {
    let mut rig = rig(2, Clock::monotonic());
    let (near, far) = Socket::pair();
    rig.receive(1, far);
    let fuse = Arc::<AtomicBool>::default();
    rig.receive(1, Bomb(Arc::clone(&fuse)));
    for flow in 0..64 {
        near.send(&datagram(flow)).unwrap();
    }
    rig.wait("traffic by both", |_| rig.transmitted() == 64);
    fuse.store(true, Ordering::Relaxed);
    rig.wait("the failure", |workers| workers[1].has_failed());
    // A queue that failed itself is closed: its next owner would fail, too.
    assert_eq!(Arc::strong_count(&fuse), 1);
    for flow in 0..64 {
        near.send(&datagram(flow)).unwrap();
    }
    rig.wait("traffic by the other", |_| rig.transmitted() == 128);
    rig.workers.stop();
    assert!(rig.workers[1].has_failed() && !rig.workers[0].has_failed());
    let conservation = rig.conservation();
    assert_eq!((conservation.imbalance(), conservation.dropped), (0, 0), "{conservation:?}");
}

#[test]
fn a_worker_under_load_pauses_no_longer_than_its_bound_and_not_without_one() {
    let rig = rig(1, Clock::monotonic());
    let pace = |micros| rig.workers[0].command(Command::Pace(Duration::from_micros(micros)));
    pace(0);
    rig.workers.settle();
    // The next packet is always near: the worker stays awake for it.
    rig.receive(0, Boxed(generator(Some(400_000), None)));
    rig.wait("load", |_| rig.transmitted() > 20_000);
    let sleeps = rig.sleeps(0);
    rig.wait("more load", |_| rig.transmitted() > 40_000);
    assert_eq!(rig.sleeps(0), sleeps, "no pause without a bound");
    pace(50);
    rig.wait("pauses", |_| rig.sleeps(0) > sleeps + 200);
    // Orders end a pause.
    for _ in 0..200 {
        rig.workers[0].command(Command::Forget(7));
        rig.workers.settle();
    }
    rig.stop();
}

/// A transmit queue with room for one packet, which it lets go when kicked 5 ms later.
struct Narrow {
    sent: mpsc::Sender<Sent>,
    since: Option<Instant>,
}

impl Transmitter for Narrow {
    fn transmit(&mut self, _: &mut Vector, frame: &Indices, _: &mut Indices, _: &mut Cache, _: Time) -> usize {
        if self.since.replace(Instant::now()).is_some() { 0 } else { frame.len().min(1) }
    }

    fn kick(&mut self) {
        let since = self.since.expect("kicked for nothing");
        if since.elapsed() > Duration::from_millis(5) {
            self.since = None;
            let _ = self.sent.send(Sent { at: Instant::now(), now: Time(0), packets: 1 });
        }
    }

    fn is_pending(&self) -> bool {
        self.since.is_some()
    }
}

#[test]
fn what_a_port_had_no_room_for_is_tried_again_by_a_worker_that_sleeps() {
    let rig = rig(1, Clock::monotonic());
    let (sender, sent) = mpsc::channel();
    rig.workers[0].command(Command::Transmit(1, Box::new(Narrow { sent: sender, since: None })));
    let (socket, receiver) = Socket::pair();
    rig.receive(0, receiver);
    for _ in 0..3 {
        rig.quiet();
        let (sleeps, start) = (rig.sleeps(0), Instant::now());
        socket.send(&datagram(1)).unwrap();
        // Nothing else comes that would wake it.
        assert_eq!(sent.recv_timeout(PATIENT).expect("it leaves").packets, 1);
        // Every millisecond, or later if it does not get a CPU.
        let (slept, took) = (rig.sleeps(0) - sleeps, start.elapsed());
        assert!(slept >= 1 && u128::from(slept) <= 4 * took.as_millis(), "it slept {slept} times in {took:?}");
    }
    assert_eq!(rig.transmitted(), 3);
    // Once nothing waits, nothing is tried.
    rig.wait("rest", |_| {
        let sleeps = rig.sleeps(0);
        thread::sleep(Duration::from_millis(20));
        rig.sleeps(0) == sleeps
    });
    rig.stop();
}
