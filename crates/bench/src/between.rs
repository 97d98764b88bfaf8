//! Forwarding between kernel ports: weir, and the kernel's own forwarding, between the same namespaces in the same run.
//!
//! ```text
//! sender ── s0 ──── g0 ─ gateway ─ g1 ──── k0 ── sink        by way of the gateway: weir, or the kernel
//!        ── s1 ────────────────────────── k1 ──              straight: what sending and receiving cost by themselves
//! ```
//!
//! **Senders** (`Sender`). Frames come from memory, as fast as a packet socket takes them or as XDP makes them, and are
//! addressed to a station that is not there, so that the sink's kernel throws them away as soon as they arrive. Or sockets of
//! TCP and UDP send to others in the sink, which share the CPUs with what is between. The three ways take turns, a window
//! each, and the figures are medians over the windows.
//!
//! **What is counted.** *Packets per second*: frames that reached the sink's device, or what its socket received. *Ticks per packet*: time that any CPU was
//! busy with anything, by `/proc/stat`, divided by those frames. It holds the sender's work and the sink's, which the
//! straight way has as well: what a gateway adds is the difference, one more link included. weir polls while there is
//! traffic, so its CPU counts as busy even while it waits for the next packet; what its own nodes took is stated beside.
//!
//! The kernel forwards on the CPU on which a frame was sent, before the sender goes on; weir's worker has a CPU of its own.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use weir_base::{affinity, tsc};
use weir_packet::wire::MacAddress;
use weir_plane::model::{Buffers, Gateway, RouteTarget};
use weir_plane::stats::Snapshot;
use weir_port::live_frames::Taking;
use weir_port::spec::{AfPacketSpec, PortSpec, SizeSpec, TapSpec};

use super::namespace::{Namespace, ip};
use super::senders::{self, Gauge, Listener, SEGMENT, Sender};
use crate::error::system;
use crate::model;
use crate::report::figure::Figure;
use crate::report::table::Table;
use crate::report::{Page, Report, spread};
use crate::{Error, machine};

/// How long a window is: /proc/stat counts in hundredths of a second.
const WINDOW: Duration = Duration::from_millis(500);

/// The time before a window begins, so that everything runs.
const WARM_UP: Duration = Duration::from_millis(150);

/// The unit of /proc/stat, per second: the same on every architecture that has a time-stamp counter.
const USER_HZ: f64 = 100.0;

/// weir's hardware address on the sender's side, the kernel's, those of the other ends of the gateway's links, of its device
/// on the sink's side, and of the station which is not there.
const WEIR: [u8; 6] = [2, 0, 0, 0, 0xb0, 1];
const KERNEL: [u8; 6] = [2, 0, 0, 0, 0xb0, 2];
const SENDER: [u8; 6] = [2, 0, 0, 0, 0xb0, 3];
const SINK: [u8; 6] = [2, 0, 0, 0, 0xb0, 4];
const OUTSIDE: [u8; 6] = [2, 0, 0, 0, 0xb0, 5];
const NOBODY: [u8; 6] = [2, 0, 0, 0, 0xb0, 9];

/// The kinds of ports that can be measured so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PortKind {
    /// Packet sockets on veth devices
    AfPacket,
    /// Tap devices
    Tap,
}

impl PortKind {
    fn name(self) -> &'static str {
        match self {
            PortKind::AfPacket => "af-packet",
            PortKind::Tap => "tap",
        }
    }
}

/// A way from the sender to the sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Straight,
    Kernel,
    Weir,
}

/// The measurement of `weir bench forward --port`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Between {
    /// Ticks of the time-stamp counter per second.
    pub tick_frequency: f64,
    /// The CPU, as it names itself.
    pub cpu: String,
    /// The kind of weir's ports.
    pub port: String,
    /// Windows of each way and load.
    pub windows: usize,
    /// Seconds of a window.
    pub window: f64,
    /// CPUs that were busy with something else before: should be next to nothing.
    pub otherwise_busy: f64,
    /// Each load.
    pub loads: Vec<Load>,
    /// Loads that could not be had on this machine, and why.
    pub left_out: Vec<String>,
}

/// The result of a load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Load {
    /// `64B`, `imix` or `TCP`, whose packets are 1,448 octets of the stream.
    pub frames: String,
    /// `packet socket`, `XDP frames` or `sockets`.
    pub sender: String,
    /// From the sender to the sink, with nothing between.
    pub straight: Cost,
    /// By the kernel's forwarding.
    pub kernel: Cost,
    /// By weir.
    pub weir: Cost,
    /// weir's packets per second to the kernel's, by window.
    pub rate_ratio: Figure,
    /// Ratio of two costs, by window: the ticks per packet that weir adds to the direct path, and the ticks that the
    /// kernel adds.
    pub added_ratio: Figure,
    /// Ticks per packet in each of weir's nodes. Taps call the system in them; the rings of packet sockets are emptied between
    /// vectors, which no node counts.
    pub nodes: Vec<NodeTicks>,
}

/// The cost of a way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Cost {
    /// Packets per second that arrived.
    pub rate: Figure,
    /// Sent packets that did not arrive.
    pub lost: Figure,
    /// Busy ticks of all CPUs per packet that arrived.
    pub ticks: Figure,
}

/// The ticks of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeTicks {
    /// Its name.
    pub name: String,
    /// Ticks per packet that arrived.
    pub ticks: Figure,
}

/// Measures each way and load in some windows.
///
/// # Errors
/// Without root, without a second CPU, and when the system refuses a namespace, a device or a port.
pub fn measure(kind: PortKind, quick: bool) -> Result<Between, Error> {
    let windows = if quick { 2 } else { 15 };
    if !rustix::process::geteuid().is_root() {
        return Err(Error::NotRoot);
    }
    let allowed = affinity::allowed().map_err(system("the CPUs that may be used"))?;
    let &[first, .., last] = &allowed[..] else { return Err(Error::Cpus(allowed.len())) };
    let site = Site::new(kind, first, last)?;
    let otherwise_busy = {
        let (busy, start) = (busy_seconds()?, Instant::now());
        std::thread::sleep(WINDOW);
        (busy_seconds()? - busy) / start.elapsed().as_secs_f64()
    };
    let (mut loads, mut left_out) = (Vec::new(), Vec::new());
    let plain = [SizeSpec::Fixed(60), SizeSpec::Imix].map(Sender::PacketSocket);
    // Into and out of taps frames are sent in the gateway's own namespace.
    let more = [Sender::Xdp, Sender::Udp, Sender::Tcp];
    let more = if kind == PortKind::AfPacket { &more[..] } else { &[] };
    for &sender in plain.iter().chain(more) {
        match site.load(sender, windows) {
            Ok(load) => loads.push(load),
            // The kernel may be too old, or not let us.
            Err(Error::LiveFrames(error)) => left_out.push(format!("{}: {error}", sender.names().1)),
            Err(error) => return Err(error),
        }
    }
    Ok(Between {
        tick_frequency: tsc::frequency(),
        cpu: machine::cpu_name(),
        port: kind.name().to_owned(),
        windows,
        window: WINDOW.as_secs_f64(),
        otherwise_busy,
        loads,
        left_out,
    })
}

impl Report for Between {
    const SCHEMA: &'static str = "weir.bench.forward-port/1";

    fn page(&self) -> Page {
        fn ways(load: &Load) -> [(&str, &Load, &Cost); 3] {
            [("straight", load, &load.straight), ("kernel", load, &load.kernel), ("weir", load, &load.weir)]
        }
        let thousands = |rate: Figure| Figure { median: rate.median / 1e3, p10: rate.p10 / 1e3, p90: rate.p90 / 1e3 };
        let table = Table::of(self.loads.iter().flat_map(ways))
            .words("Frames", |(_, load, _)| load.frames.as_str())
            .words("Sender", |(_, load, _)| load.sender.as_str())
            .words("Way", |(way, ..)| way)
            .figure("kpps", 0, |(.., cost)| thousands(cost.rate))
            .number("Lost", 0, |(.., cost)| format!("{:.1}%", cost.lost.median * 100.0))
            .figure("Ticks", 0, |(.., cost)| cost.ticks);
        let gigabits = SEGMENT as f64 * 8e-3;
        let (windows, window) = (self.windows, self.window);
        Page::default()
            .line(format!(
                "{}, {:.2} GHz time-stamp counter; one worker, {} ports, between namespaces",
                self.cpu,
                self.tick_frequency / 1e9,
                self.port
            ))
            .line(format!(
                "median, 10th and 90th percentile of {windows} windows of {window} s; ticks per packet are those of all CPUs, \
                 sender and sink included"
            ))
            .line(format!("a packet of TCP is {SEGMENT} octets of its stream: 1000 kpps are {gigabits:.1} Gbit/s"))
            .line(format!("before, {:.1} % of a CPU was busy with something else\n", self.otherwise_busy * 100.0))
            .table(table)
            .each(&self.loads, |page, load| page.line(load.text()))
            .each(&self.left_out, |page, reason| page.line(format!("\nleft out: {reason}")))
    }
}

impl Load {
    /// Prints the comparison with the kernel, and the nodes.
    fn text(&self) -> String {
        // Sockets share their CPUs with the gateway: its work cannot be separated from what they do less.
        let added = match self.sender == "sockets" {
            true => String::new(),
            false => format!(", for {} times the ticks added", spread(&self.added_ratio, 2)),
        };
        let nodes: Vec<String> =
            self.nodes.iter().map(|node| format!("{} {:.1}", node.name, node.ticks.median)).collect();
        format!(
            "\n{}, {}: weir forwards {} times what the kernel does{added}\nticks in weir's nodes: {}",
            self.frames,
            self.sender,
            spread(&self.rate_ratio, 2),
            nodes.join(", ")
        )
    }

    fn new(sender: Sender, samples: &[Vec<Sample>; 3]) -> Load {
        let (frames, sender) = sender.names();
        let [straight, kernel, weir] = samples;
        // Windows that follow one another are compared: what disturbed one most likely disturbed the other.
        let rounds = || straight.iter().zip(kernel).zip(weir);
        let rates = rounds().map(|((_, kernel), weir)| weir.rate() / kernel.rate());
        let added = rounds().map(|((straight, kernel), weir)| {
            (weir.ticks() - straight.ticks()) / (kernel.ticks() - straight.ticks()).max(1.0)
        });
        let names: Vec<&'static str> =
            weir.iter().flat_map(|sample| &sample.nodes).map(|node| node.0).fold(Vec::new(), |mut names, name| {
                if !names.contains(&name) {
                    names.push(name);
                }
                names
            });
        let node = |&name: &&'static str| NodeTicks {
            name: name.to_owned(),
            ticks: Figure::of(weir.iter().map(|sample| {
                let node = sample.nodes.iter().find(|node| node.0 == name);
                node.map_or(0.0, |node| node.1 as f64) / sample.arrived as f64
            })),
        };
        Load {
            frames: frames.to_owned(),
            sender: sender.to_owned(),
            straight: Cost::new(straight),
            kernel: Cost::new(kernel),
            weir: Cost::new(weir),
            rate_ratio: Figure::of(rates),
            added_ratio: Figure::of(added),
            nodes: names.iter().map(node).filter(|node| node.ticks.median >= 0.05).collect(),
        }
    }
}

impl Cost {
    fn new(samples: &[Sample]) -> Cost {
        Cost {
            rate: Figure::of(samples.iter().map(Sample::rate)),
            lost: Figure::of(samples.iter().map(Sample::lost)),
            ticks: Figure::of(samples.iter().map(Sample::ticks)),
        }
    }
}

/// The result of a window.
struct Sample {
    seconds: f64,
    sent: u64,
    arrived: u64,
    /// CPU seconds of all CPUs.
    busy: f64,
    /// Ticks of weir's nodes.
    nodes: Vec<(&'static str, u64)>,
}

/// The counters at one moment.
struct Moment {
    time: Instant,
    sent: u64,
    arrived: u64,
    busy: f64,
    nodes: Vec<(&'static str, u64)>,
}

impl Sample {
    fn between(before: &Moment, after: &Moment) -> Sample {
        // A node that has not run yet is not counted yet.
        let known = |name| before.nodes.iter().find(|node| node.0 == name).map_or(0, |node| node.1);
        Sample {
            seconds: (after.time - before.time).as_secs_f64(),
            sent: after.sent - before.sent,
            arrived: after.arrived - before.arrived,
            busy: after.busy - before.busy,
            nodes: after.nodes.iter().map(|&(name, ticks)| (name, ticks - known(name))).collect(),
        }
    }

    fn rate(&self) -> f64 {
        self.arrived as f64 / self.seconds
    }

    /// Packets sent just before a window may arrive in it.
    fn lost(&self) -> f64 {
        (1.0 - self.arrived as f64 / self.sent.max(1) as f64).max(0.0)
    }

    fn ticks(&self) -> f64 {
        self.busy * tsc::frequency() / self.arrived.max(1) as f64
    }
}

/// The namespaces and their links.
struct Site {
    kind: PortKind,
    sender: Namespace,
    gateway: Namespace,
    sink: Namespace,
    sender_cpu: usize,
    weir_cpu: usize,
    config: Gateway,
}

impl Site {
    fn new(kind: PortKind, sender_cpu: usize, weir_cpu: usize) -> Result<Site, Error> {
        let made = system("making a namespace");
        let site = Site {
            kind,
            sender: Namespace::new("sender").map_err(&made)?,
            gateway: Namespace::new("gateway").map_err(&made)?,
            sink: Namespace::new("sink").map_err(&made)?,
            sender_cpu,
            weir_cpu,
            config: gateway(kind),
        };
        site.connect().map_err(system("connecting the namespaces"))?;
        Ok(site)
    }

    fn connect(&self) -> io::Result<()> {
        let [sender, gateway, sink] = [&self.sender, &self.gateway, &self.sink];
        // Nothing but the bench's packets on these links.
        for space in [sender, gateway, sink] {
            space.enter(|| std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1"))??;
        }
        let links =
            [((sender, "s0"), (gateway, "g0")), ((gateway, "g1"), (sink, "k0")), ((sender, "s1"), (sink, "k1"))];
        for ((a, device_a), (b, device_b)) in links {
            let address = |device: &str| match device {
                "s0" => format!("address {}", text(SENDER)),
                "g0" => format!("address {}", text(KERNEL)),
                "g1" => format!("address {}", text(OUTSIDE)),
                "k0" => format!("address {}", text(SINK)),
                _ => String::new(),
            };
            let (a_name, b_name) = (a.name(), b.name());
            let (a_address, b_address) = (address(device_a), address(device_b));
            ip(&format!(
                "link add {device_a} netns {a_name} {a_address} type veth peer name {device_b} netns {b_name} {b_address}"
            ))?;
            for (space, device) in [(a, device_a), (b, device_b)] {
                space.ip(&format!("link set {device} up"))?;
            }
        }
        // The kernel forwards without addresses of its own, which weir would not share a device with; but it believes in no
        // gateway before there is a table of local addresses.
        gateway.ip("link set lo up")?;
        gateway.ip("route add 10.2.0.0/16 via 10.255.0.2 dev g1 onlink")?;
        gateway.ip(&format!("neighbor add 10.255.0.2 lladdr {} dev g1 nud permanent", text(NOBODY)))?;
        // For sockets, which have addresses. Who the sender's gateway is depends on the way.
        for (space, device, host, far, near) in [
            (sender, "s0", "10.1.0.2", "10.255.0.0/24", "10.1.0.1"),
            (sink, "k0", "10.255.0.3", "10.1.0.0/24", "10.255.0.1"),
        ] {
            space.ip(&format!("address add {host}/24 dev {device}"))?;
            space.ip(&format!("route add {far} via {near} dev {device}"))?;
        }
        sink.ip(&format!("neighbor add 10.255.0.1 lladdr {} dev k0 nud permanent", text(OUTSIDE)))?;
        for (device, host, mac) in [("g0", "10.1.0.2", SENDER), ("g1", "10.255.0.3", SINK)] {
            gateway.ip(&format!("route add {host}/32 dev {device}"))?;
            gateway.ip(&format!("neighbor add {host} lladdr {} dev {device} nud permanent", text(mac)))?;
        }
        sender.ip("address add 10.3.0.2/24 dev s1")?;
        sink.ip("address add 10.3.0.3/24 dev k1")
    }

    /// Sends by each of the ways in turn.
    fn load(&self, sender: Sender, windows: usize) -> Result<Load, Error> {
        let mut samples: [Vec<Sample>; 3] = Default::default();
        for _ in 0..windows {
            for (way, samples) in [Way::Straight, Way::Kernel, Way::Weir].into_iter().zip(&mut samples) {
                samples.push(self.window(way, sender)?);
            }
        }
        Ok(Load::new(sender, &samples))
    }

    /// Sends for a window by one of the ways.
    fn window(&self, way: Way, sender: Sender) -> Result<Sample, Error> {
        let entered = system("entering a namespace");
        let engine = match way {
            Way::Weir => Some(
                self.gateway.enter(|| machine::start(self.config.clone(), &[self.weir_cpu])).map_err(&entered)??,
            ),
            _ => None,
        };
        // weir's packets are not the kernel's as well.
        let forward = if way == Way::Kernel { "1" } else { "0" };
        let switched = self.gateway.enter(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", forward));
        switched.and_then(|written| written).map_err(system("switching forwarding"))?;

        let (from, device, to) = match (way, self.kind) {
            (Way::Straight, _) => (&self.sender, "s1", NOBODY),
            (Way::Kernel, _) => (&self.sender, "s0", KERNEL),
            (Way::Weir, PortKind::AfPacket) => (&self.sender, "s0", WEIR),
            (Way::Weir, PortKind::Tap) => (&self.gateway, "in", WEIR),
        };
        let (at, arrives) = match (way, self.kind) {
            (Way::Straight, _) => (&self.sink, "k1"),
            (Way::Weir, PortKind::Tap) => (&self.gateway, "out"),
            _ => (&self.sink, "k0"),
        };
        // The devices at the ends of the first link: only one that runs a program takes frames of XDP.
        let (first, name) = if way == Way::Straight { (&self.sink, "k1") } else { (&self.gateway, "g0") };
        let taking = match sender {
            Sender::Xdp => Some(first.enter(|| Taking::by(name)).map_err(&entered)??),
            _ => None,
        };
        let mut arrived = DeviceCounter::open(at, arrives)?;
        let gauge = Gauge::default();
        let target = if way == Way::Straight { Ipv4Addr::new(10, 3, 0, 3) } else { Ipv4Addr::new(10, 255, 0, 3) };
        let listener = match sender.has_receiver() {
            true => Some(at.enter(|| Listener::bind(sender, target)).map_err(&entered)?.map_err(system("a socket"))?),
            false => None,
        };
        let port = listener.as_ref().map(Listener::port).transpose().map_err(system("a socket"))?;
        if sender.has_receiver() {
            let gateway = format!("neighbor replace 10.1.0.1 lladdr {} dev s0 nud permanent", text(to));
            self.sender.ip(&gateway).map_err(system("choosing the gateway"))?;
        }
        let sample = std::thread::scope(|scope| {
            let receiving = listener.map(|listener| scope.spawn(|| listener.receive(&gauge)));
            let sending = scope.spawn(|| match port {
                Some(port) => {
                    let to = SocketAddrV4::new(target, port);
                    let send = || senders::sockets(sender, to, &gauge).map_err(system("a socket"));
                    from.enter(send).map_err(system("entering a namespace"))?
                }
                None => {
                    let send = || senders::frames(device, to, sender, self.sender_cpu, &gauge);
                    from.enter(send).map_err(system("entering a namespace"))?
                }
            });
            std::thread::sleep(WARM_UP);
            let mut look = || -> Result<Moment, Error> {
                let octets = if sender == Sender::Tcp { SEGMENT } else { 1 };
                let received = gauge.arrived.load(Ordering::Relaxed) / octets;
                Ok(Moment {
                    time: Instant::now(),
                    sent: gauge.sent.load(Ordering::Relaxed) / octets,
                    arrived: if receiving.is_some() { received } else { arrived.read()? },
                    busy: busy_seconds()?,
                    nodes: engine.as_ref().map_or_else(Vec::new, |engine| ticks(&engine.snapshot())),
                })
            };
            let before = look();
            std::thread::sleep(WINDOW);
            let after = look();
            gauge.stop.store(true, Ordering::Relaxed);
            sending.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            if let Some(receiving) = receiving {
                let received = receiving.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                received.map_err(system("a socket"))?;
            }
            Ok::<Sample, Error>(Sample::between(&before?, &after?))
        })?;
        drop(taking);
        if sample.arrived == 0 {
            let name = match way {
                Way::Straight => "a link alone",
                Way::Kernel => "the kernel",
                Way::Weir => "weir",
            };
            return Err(Error::Nothing(name));
        }
        Ok(sample)
    }
}

/// The ticks of all nodes of all workers.
fn ticks(snapshot: &Snapshot) -> Vec<(&'static str, u64)> {
    snapshot.workers.iter().flat_map(|worker| &worker.nodes).map(|node| (node.name, node.ticks)).collect()
}

/// The gateway: one worker, two ports, one route, one neighbour.
fn gateway(kind: PortKind) -> Gateway {
    let port = |device: &str, name: &str| match kind {
        PortKind::AfPacket => PortSpec::AfPacket(AfPacketSpec {
            interface: device.to_owned(),
            promiscuous: true,
            offload: true,
            shared: false,
        }),
        PortKind::Tap => PortSpec::Tap(TapSpec {
            name: name.to_owned(),
            persistent: false,
            offload: true,
            mtu: None,
            addresses: Vec::new(),
            mac: None,
        }),
    };
    let net = |text: &str| text.parse().expect("a constant prefix");
    let address = |text: &str| text.parse().expect("a constant address");
    let mut inside = model::interface("in", port("g0", "in"), net("10.1.0.1/24"));
    inside.mac = Some(MacAddress(WEIR));
    let outside = model::interface("out", port("g1", "out"), net("10.255.0.1/24"));
    let target = RouteTarget::Via([model::hop(1, address("10.255.0.2"))].into());
    Gateway {
        interfaces: vec![inside, outside],
        routes: vec![model::route(net("10.2.0.0/16"), target)],
        neighbors: vec![
            model::neighbor(1, address("10.255.0.2"), NOBODY),
            model::neighbor(1, address("10.255.0.3"), SINK),
            model::neighbor(0, address("10.1.0.2"), SENDER),
        ],
        buffers: Buffers::default(),
        ..model::empty()
    }
}

fn text(mac: [u8; 6]) -> String {
    mac.map(|octet| format!("{octet:02x}")).join(":")
}

/// Seconds that CPUs have been busy, all together: user, nice, system, irq and softirq of /proc/stat (proc_stat(5)).
fn busy_seconds() -> Result<f64, Error> {
    let failed = system("/proc/stat");
    let text = std::fs::read_to_string("/proc/stat").map_err(&failed)?;
    let fields: Vec<u64> = text
        .lines()
        .next()
        .into_iter()
        .flat_map(|line| line.split_whitespace().skip(1))
        .map_while(|field| field.parse().ok())
        .collect();
    let &[user, nice, system, _idle, _iowait, irq, softirq, ..] = &fields[..] else {
        return Err(failed(io::Error::other("not what proc_stat(5) says")));
    };
    Ok((user + nice + system + irq + softirq) as f64 / USER_HZ)
}

/// Frames that a device has received, as its namespace's /proc/net/dev says.
struct DeviceCounter {
    file: File,
    device: &'static str,
}

impl DeviceCounter {
    fn open(space: &Namespace, device: &'static str) -> Result<DeviceCounter, Error> {
        // The file stays that of the namespace it was opened in.
        let file = space.enter(|| File::open("/proc/thread-self/net/dev")).and_then(|opened| opened);
        Ok(DeviceCounter { file: file.map_err(system("/proc/net/dev"))?, device })
    }

    fn read(&mut self) -> Result<u64, Error> {
        let failed = system("/proc/net/dev");
        let mut text = String::new();
        self.file.rewind().and_then(|()| self.file.read_to_string(&mut text)).map_err(&failed)?;
        let line = text.lines().find_map(|line| line.trim_start().strip_prefix(self.device)?.strip_prefix(':'));
        let packets = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
        packets.ok_or_else(|| failed(io::Error::other(format!("no device {}", self.device))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_of_neighbouring_windows() {
        let sample = |arrived, busy| Sample { seconds: 1.0, sent: 200, arrived, busy, nodes: vec![("rx", 1000)] };
        let straight = vec![sample(100, 1.0), sample(100, 1.0)];
        let kernel = vec![sample(50, 1.0), sample(25, 1.0)];
        let weir = vec![sample(100, 2.0), sample(50, 2.0)];
        let load = Load::new(Sender::Xdp, &[straight, kernel, weir]);
        assert_eq!((load.rate_ratio.p10, load.rate_ratio.p90), (2.0, 2.0));
        // 1/100 s straight; kernel 2/100 and 4/100, weir 2/100 and 4/100.
        assert!((load.added_ratio.median - 1.0).abs() < 1e-9, "{:?}", load.added_ratio);
        assert_eq!(load.kernel.lost.p90, 0.875);
        assert_eq!((load.nodes[0].name.as_str(), load.nodes[0].ticks.p10), ("rx", 10.0));
    }

    #[test]
    fn cpus_are_busy_while_this_runs() {
        let before = busy_seconds().unwrap();
        assert!(before > 0.0 && busy_seconds().unwrap() >= before);
    }
}
