//! An operation is under way that does not end before the test says so: neighbours, links and what is shown do not wait for it.

use std::net::IpAddr;
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use weir_base::clock::Time;
use weir_base::random::Entropy;
use weir_packet::buffer::Cache;
use weir_packet::vector::{Indices, Vector};
use weir_packet::wire::MacAddress;
use weir_packet::wire::arp::{Fields, Operation as Asks};
use weir_port::links::Change;
use weir_port::{Capabilities, Link, Port, PortCounters, Receiver, Transmitter};

use super::*;
use crate::engine::workers::tests::Socket;
use crate::engine::{Clear, Engine, Options};
use crate::kit::link::{ALL, arp, request, v4};
use crate::kit::*;
use crate::stats::Snapshot;

/// Whatever takes longer is taken for something that never happens.
const PATIENT: Duration = Duration::from_secs(120);

/// A gateway whose ports are the test's.
struct Rig {
    engine: Engine,
    /// Sockets whose datagrams enter by the port with the same number.
    inputs: Vec<UnixDatagram>,
    /// Frames that leave, with the number of the port.
    sent: mpsc::Receiver<(u32, Vec<u8>)>,
    links: Vec<Arc<AtomicBool>>,
}

/// A port whose link the test has in its hand.
struct Line {
    up: Arc<AtomicBool>,
    /// The carriers that its device was given.
    carriers: Arc<Mutex<Vec<bool>>>,
    counters: Arc<PortCounters>,
}

impl Port for Line {
    fn kind(&self) -> &'static str {
        "line"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    fn link(&self) -> Link {
        if self.up.load(Ordering::Relaxed) { Link::Up } else { Link::Down }
    }

    fn device(&self) -> Option<&str> {
        Some("line")
    }

    fn set_carrier(&mut self, carrier: bool) {
        self.carriers.lock().unwrap().push(carrier);
    }

    fn counters(&self) -> Arc<PortCounters> {
        Arc::clone(&self.counters)
    }

    fn receivers(&mut self) -> Vec<Box<dyn Receiver>> {
        Vec::new()
    }

    fn transmitters(&mut self, _: usize) -> Vec<Box<dyn Transmitter>> {
        Vec::new()
    }
}

/// Gives what it is to send to the test.
struct Output(u32, mpsc::Sender<(u32, Vec<u8>)>);

impl Transmitter for Output {
    fn transmit(&mut self, vector: &mut Vector, frame: &Indices, _: &mut Indices, _: &mut Cache, _: Time) -> usize {
        for &place in frame.places() {
            // A test that saw enough does not listen any more.
            let _ = self.1.send((self.0, vector[place].data().to_vec()));
        }
        frame.len()
    }
}

impl Rig {
    fn start(build: Build) -> Rig {
        let names: Vec<String> = build.0.interfaces.iter().map(|interface| interface.name.clone()).collect();
        let options =
            Options { clock: Clock::monotonic(), random: Entropy::from_seed(1), invent_neighbors: false, pin: false };
        let engine = Engine::start(build.0, options).unwrap_or_else(|error| panic!("{error}"));
        let (sender, sent) = mpsc::channel();
        let (mut inputs, mut links) = (Vec::new(), Vec::new());
        for number in 0..names.len() as u32 {
            let (near, socket) = Socket::pair();
            inputs.push(near);
            engine.workers[0].command(Command::Transmit(number, Box::new(Output(number, sender.clone()))));
            engine.workers[0].command(Command::Receive(number, Box::new(socket)));
            let up = Arc::new(AtomicBool::new(true));
            links.push(Arc::clone(&up));
            let port = Box::new(Line { up, carriers: Arc::default(), counters: Arc::default() });
            engine.control.ports()[number as usize].as_mut().unwrap().port = port;
        }
        engine.workers.settle();
        Rig { engine, inputs, sent, links }
    }

    fn put(&self, port: usize, frame: &[u8]) {
        self.inputs[port].send(frame).unwrap();
    }

    /// A datagram from the left to an address comes in.
    fn ping(&self, to: &str) {
        self.put(0, &frame(&format!("udp from 10.1.0.9 port 1000 to {to} port 53 length 100"), own_mac(0)));
    }

    /// The next frame that leaves and that `wanted` makes something of.
    #[track_caller]
    fn next<T>(&self, what: &str, wanted: impl Fn(u32, &[u8]) -> Option<T>) -> T {
        let since = Instant::now();
        loop {
            let left = PATIENT.saturating_sub(since.elapsed());
            let (port, frame) = self.sent.recv_timeout(left).unwrap_or_else(|_| panic!("waited in vain: {what}"));
            if let Some(found) = wanted(port, &frame) {
                return found;
            }
        }
    }

    /// The hardware address and the port to which a datagram to an address is sent.
    #[track_caller]
    fn sent_to(&self, to: &str) -> (u32, MacAddress) {
        let to: IpAddr = ip(to);
        self.next("a datagram", |port, frame| {
            (destination(frame)? == to).then(|| (port, MacAddress(frame[..6].try_into().unwrap())))
        })
    }

    /// The ports by which datagrams to some addresses leave, in whatever order.
    #[track_caller]
    fn ports_to(&self, to: &[String]) -> HashSet<u32> {
        to.iter().for_each(|to| self.ping(to));
        let mut left: HashSet<IpAddr> = to.iter().map(|to| ip(to)).collect();
        let mut ports = HashSet::new();
        while !left.is_empty() {
            let (port, to) = self.next("a datagram", |port, frame| Some((port, destination(frame)?)));
            if left.remove(&to) {
                ports.insert(port);
            }
        }
        ports
    }

    /// Waits for a solicitation for a neighbour.
    #[track_caller]
    fn asked_for(&self, neighbor: &str) {
        let target = v4(neighbor).octets();
        self.next("a question", |_, frame| {
            (frame[12..14] == [8, 6] && frame[21] == 1 && frame[38..42] == target).then_some(())
        });
    }

    /// A neighbour says its hardware address to the gateway.
    fn answer(&self, port: usize, neighbor: &str, mac: MacAddress) {
        let gateway = format!("10.{}.0.1", port + 1);
        let fields = Fields {
            operation: Asks::Reply,
            sender_mac: mac,
            sender: v4(neighbor),
            target_mac: own_mac(port),
            target: v4(&gateway),
        };
        self.put(port, &arp(own_mac(port), &[], fields));
    }

    /// Delivers a link message about all devices, as the kernel does.
    fn link(&self, port: usize, up: bool) {
        self.links[port].store(up, Ordering::Relaxed);
        let mut work = Work::default();
        assert!(self.engine.control.refresh(&[Change::Everything]));
        self.engine.control.look_at_links(&mut work);
        self.engine.control.state().report(work.news);
        self.engine.control.wake();
    }

    #[track_caller]
    fn wait(&self, what: &str, mut until: impl FnMut(&Engine) -> bool) {
        let since = Instant::now();
        while !until(&self.engine) {
            assert!(since.elapsed() < PATIENT, "waited in vain: {what}");
            thread::sleep(Duration::from_micros(200));
        }
    }

    fn routes(&self) -> Vec<String> {
        self.engine.routes().into_iter().map(|row| row.prefix).collect()
    }

    fn pending(&self) -> bool {
        self.engine.root.with(|root| root.resolved(1, ip("10.2.0.7")).is_some())
    }

    #[track_caller]
    fn stop(self) -> Snapshot {
        let snapshot = self.engine.stop();
        let conservation = snapshot.conservation;
        assert_eq!((conservation.imbalance(), conservation.held), (0, 0), "{conservation:?}");
        snapshot
    }
}

/// The destination of a datagram.
fn destination(frame: &[u8]) -> Option<IpAddr> {
    let is_it = frame[12..14] == [8, 0] && frame[23] == 17;
    is_it.then(|| IpAddr::from([frame[30], frame[31], frame[32], frame[33]]))
}

fn drops(snapshot: &Snapshot, reason: &str) -> u64 {
    snapshot.drops.iter().find(|drop| drop.reason == reason).unwrap().packets
}

fn three() -> Build {
    Build::new()
        .port("lan", &["10.1.0.1/24"])
        .port("wan", &["10.2.0.1/24"])
        .port("alt", &["10.3.0.1/24"])
        .neighbor("alt", "10.3.0.8", mac(0x38))
        .via("10.9.0.0/16", &["wan 10.2.0.8"])
        .via("10.8.0.0/16", &["wan 10.2.0.8", "alt 10.3.0.8"])
}

#[test]
fn neighbors_are_learned_during_an_operation() {
    let rig = Rig::start(three());
    let operation = rig.engine.control.operate(ChangeKind::Model);
    let compiler = operation.write();
    // A host on the link without a route: the held packet leaves, and so do later ones.
    rig.ping("10.2.0.7");
    rig.asked_for("10.2.0.7");
    rig.answer(1, "10.2.0.7", mac(0x27));
    assert_eq!(rig.sent_to("10.2.0.7"), (1, mac(0x27)));
    rig.ping("10.2.0.7");
    assert_eq!(rig.sent_to("10.2.0.7"), (1, mac(0x27)));
    assert!(rig.pending());
    // A next hop, which has an adjacency.
    rig.ping("10.9.0.1");
    rig.asked_for("10.2.0.8");
    rig.answer(1, "10.2.0.8", mac(0x28));
    assert_eq!(rig.sent_to("10.9.0.1"), (1, mac(0x28)));
    // Versions that follow keep what was learned in those before.
    rig.ping("10.2.0.7");
    assert_eq!(rig.sent_to("10.2.0.7"), (1, mac(0x27)));
    // The clear of what was learned is in force at once, too.
    rig.engine.clear(Clear::Neighbors);
    rig.ping("10.2.0.7");
    rig.asked_for("10.2.0.7");
    rig.answer(1, "10.2.0.7", mac(0x77));
    assert_eq!(rig.sent_to("10.2.0.7"), (1, mac(0x77)));
    let known: Vec<String> = rig.engine.neighbors().into_iter().map(|row| row.address.to_string()).collect();
    assert!(known.contains(&"10.2.0.7".to_owned()), "{known:?}");

    drop(compiler);
    drop(operation);
    assert!(rig.routes().contains(&"10.2.0.7/32".to_owned()), "the compiler knows by then");
    assert!(!rig.pending());
    rig.ping("10.2.0.7");
    assert_eq!(rig.sent_to("10.2.0.7"), (1, mac(0x77)));
    let snapshot = rig.stop();
    assert_eq!((drops(&snapshot, "no-neighbor"), drops(&snapshot, "neighbor-queue-full")), (0, 0));
}

#[test]
fn roots_of_an_operation_keep_what_was_learned_during_it() {
    let rig = Rig::start(three());
    let operation = rig.engine.control.operate(ChangeKind::Model);
    let mut compiler = operation.write();
    rig.ping("10.2.0.7");
    rig.asked_for("10.2.0.7");
    rig.answer(1, "10.2.0.7", mac(0x27));
    assert_eq!(rig.sent_to("10.2.0.7"), (1, mac(0x27)));
    let before = rig.engine.root.with(|root| root.generation);
    // Made by the compiler, which knows nothing of it.
    let (model, _) = rig.engine.control.in_force();
    let places = rig.engine.control.state().places.clone();
    let (root, _) = compiler.recompile(&model, &places).unwrap();
    rig.engine.control.put_into_force(root);
    assert!(rig.pending());
    assert!(rig.engine.root.with(|root| root.generation) > before);
    rig.ping("10.2.0.7");
    assert_eq!(rig.sent_to("10.2.0.7"), (1, mac(0x27)));
    drop(compiler);
    drop(operation);
    assert!(!rig.pending() && rig.routes().contains(&"10.2.0.7/32".to_owned()));
    assert_eq!(drops(&rig.stop(), "no-neighbor"), 0);
}

#[test]
fn what_is_learned_as_an_operation_ends_is_not_forgotten() {
    let rig = Rig::start(three());
    // Whichever of the two comes last applies it to the compiler.
    for round in 0..200_u32 {
        let address = format!("10.2.0.{}", 10 + round);
        let operation = rig.engine.control.operate(ChangeKind::Model);
        rig.ping(&address);
        rig.asked_for(&address);
        rig.answer(1, &address, mac(round as u8));
        for _ in 0..round * 20 {
            std::hint::spin_loop();
        }
        drop(operation);
        assert_eq!(rig.sent_to(&address), (1, mac(round as u8)));
        let route = format!("{address}/32");
        rig.wait("its route", |_| rig.routes().contains(&route));
        assert!(rig.engine.control.state().unknown.is_empty());
    }
    assert_eq!(drops(&rig.stop(), "no-neighbor"), 0);
}

#[test]
fn links_go_down_during_an_operation() {
    let rig = Rig::start(three());
    rig.put(0, &arp(ALL, &[], request("10.1.0.9", "10.1.0.1")));
    rig.wait("the host on the left", |engine| engine.neighbors().iter().any(|row| row.address == ip("10.1.0.9")));
    for host in ["10.2.0.7", "10.9.0.1"] {
        rig.ping(host);
        let hop = if host == "10.9.0.1" { "10.2.0.8" } else { host };
        rig.asked_for(hop);
        rig.answer(1, hop, mac(0x28));
        rig.sent_to(host);
    }
    let to: Vec<String> = (0..64).map(|host| format!("10.8.0.{host}")).collect();
    let by = || rig.ports_to(&to);
    assert_eq!(by(), HashSet::from([1, 2]));

    let operation = rig.engine.control.operate(ChangeKind::Model);
    let compiler = operation.write();
    rig.link(1, false);
    let text: Vec<String> = rig.engine.news().iter().map(ToString::to_string).collect();
    assert_eq!(text, ["interface wan: link down"]);
    assert!(!rig.engine.snapshot().interfaces[1].up);
    // Sources receive an ICMP error, as they do without a route.
    for host in ["10.2.0.7", "10.2.0.99", "10.9.0.1"] {
        let before = drops(&rig.engine.snapshot(), "no-route");
        rig.ping(host);
        rig.next("a message", |port, frame| (port == 0 && frame[23] == 1 && frame[34] == 3).then_some(()));
        assert_eq!(drops(&rig.engine.snapshot(), "no-route"), before + 1, "{host}");
    }
    assert_eq!(by(), HashSet::from([2]), "the other path is left");
    // It comes back before anything was compiled.
    rig.link(1, true);
    rig.ping("10.2.0.7");
    assert_eq!(rig.sent_to("10.2.0.7"), (1, mac(0x28)));
    assert_eq!(by(), HashSet::from([1, 2]));
    rig.link(1, false);
    drop(compiler);
    drop(operation);
    rig.wait("the routes to go", |_| !rig.routes().contains(&"10.2.0.0/24".to_owned()));
    assert_eq!(by(), HashSet::from([2]));
    rig.link(1, true);
    rig.wait("the routes to come back", |_| rig.routes().contains(&"10.2.0.0/24".to_owned()));
    rig.stop();
}

#[test]
fn nobody_who_looks_waits_for_an_operation() {
    let rig = Rig::start(three());
    // What is shown of tables, before.
    let tables = rig.engine.snapshot().tables.len();
    let (done, ended) = mpsc::channel();
    thread::scope(|scope| {
        let operation = rig.engine.control.operate(ChangeKind::Model);
        let compiler = operation.write();
        let engine = &rig.engine;
        scope.spawn(move || {
            let looks: [(&str, &dyn Fn()); 14] = [
                ("snapshot", &|| assert_eq!(engine.snapshot().tables.len(), tables)),
                ("neighbors", &|| drop(engine.neighbors())),
                ("news", &|| drop(engine.news())),
                ("faults", &|| assert!(engine.faults().is_empty())),
                ("alarms", &|| drop(engine.alarms())),
                ("samplers", &|| drop(engine.samplers())),
                ("ethertypes", &|| drop(engine.ethertypes())),
                ("sources", &|| drop(engine.invalid_sources())),
                ("traces", &|| drop(engine.traces())),
                ("model", &|| drop(engine.model())),
                ("generation", &|| assert_eq!(engine.generation(), 1)),
                ("stuck", &|| drop(engine.stuck())),
                ("runtime", &|| engine.clear(Clear::Runtime)),
                ("errors", &|| engine.clear(Clear::Errors)),
            ];
            for (what, look) in looks {
                look();
                done.send(what).unwrap();
            }
        });
        for _ in 0..14 {
            if ended.recv_timeout(PATIENT).is_err() {
                drop(compiler);
                drop(operation);
                panic!("something waits");
            }
        }
    });
    rig.stop();
}

/// The host changes its routes when a device loses its carrier: not before the gateway has the model that says so.
#[test]
fn a_reload_shows_carriers_once_its_model_is_in_force() {
    let build = || Build::new().port("left", &["10.1.0.1/24"]);
    let rig = Rig::start(build());
    rig.link(0, false);
    let mut model = build().0;
    model.interfaces[0].punt = Some(weir_port::spec::TapSpec {
        name: "host".into(),
        persistent: false,
        offload: true,
        mtu: None,
        addresses: Vec::new(),
        mac: None,
    });
    let carriers = Arc::<Mutex<Vec<bool>>>::default();
    let (_, mac, kind) = crate::engine::ports::punts(&model, &rig.engine.control.state().places).remove(0);
    let port: Box<dyn Port> = Box::new(Line {
        up: Arc::new(AtomicBool::new(true)),
        carriers: Arc::clone(&carriers),
        counters: Arc::default(),
    });
    let reported = crate::engine::punts::Reported::new(&*port);
    let interface = "left".to_owned();
    rig.engine.control.ports().push(Some(OpenPort { interface, port, kind, mac, punt: true, reported, narrow: None }));
    let before_force = |_| assert!(carriers.lock().unwrap().is_empty());
    rig.engine.reload_after(model, crate::engine::LostEdit::Refuse, before_force).unwrap();
    assert_eq!(*carriers.lock().unwrap(), [false]);
}
