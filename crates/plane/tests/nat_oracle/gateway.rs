//! The gateway under test: two inside interfaces, two outside ones, with workers on the calling thread.

use std::sync::{Arc, Mutex};

use weir_base::clock::Time;
use weir_packet::buffer::Cache;
use weir_packet::vector::{Indices, Vector};
use weir_plane::harness::{Harness, Options, Outcome};
use weir_plane::model::{FlowTable, Gateway as Model, IcmpLimits, NatIndex, NatList, Origin};
use weir_port::Transmitter;

use crate::kit::{Build, HOST, mac, own_mac};
use crate::packet::ip;
use crate::rules::{List, Lists, Rule, at};

pub const LAN: usize = 0;
pub const DMZ: usize = 1;
pub const WAN: usize = 2;
pub const WAN2: usize = 3;

/// Outside addresses of `wan` beside its first one.
pub const OWN: [u32; 6] = [
    at(198, 51, 100, 50),
    at(198, 51, 100, 51),
    at(198, 51, 100, 80),
    at(198, 51, 100, 81),
    at(198, 51, 100, 82),
    at(198, 51, 100, 83),
];

/// The first address of each interface.
pub const INTERFACE_ADDRESSES: [u32; 4] =
    [at(172, 16, 0, 1), at(172, 16, 1, 1), at(198, 51, 100, 1), at(203, 0, 113, 1)];

/// Names of interfaces, and all their addresses.
pub const INTERFACES: [(&str, &[u32]); 4] = [
    ("lan", &[INTERFACE_ADDRESSES[LAN]]),
    ("dmz", &[INTERFACE_ADDRESSES[DMZ]]),
    ("wan", &[INTERFACE_ADDRESSES[WAN], OWN[0], OWN[1], OWN[2], OWN[3], OWN[4], OWN[5]]),
    ("wan2", &[INTERFACE_ADDRESSES[WAN2]]),
];

/// A route: the VRF that has it, prefix, length, interface.
type Routed = (usize, u32, u8, usize);

/// Routes of one VRF, the longest prefixes first.
const ROUTES: [Routed; 4] =
    [(0, at(192, 0, 2, 0), 24, WAN2), (0, at(10, 0, 0, 0), 16, LAN), (0, at(10, 1, 0, 0), 16, DMZ), (0, 0, 0, WAN)];

/// Routes where tenants have VRFs of their own, and equal addresses. Those of outside interfaces are in VRF 0.
const TENANT_ROUTES: [Routed; 11] = [
    (0, at(192, 0, 2, 0), 24, WAN2),
    (0, at(10, 0, 0, 0), 16, LAN),
    (0, at(10, 1, 0, 0), 16, DMZ),
    (0, 0, 0, WAN),
    (1, at(192, 0, 2, 0), 24, WAN2),
    (1, at(10, 0, 0, 0), 16, LAN),
    (1, 0, 0, WAN),
    (2, at(192, 0, 2, 0), 24, WAN2),
    (2, at(10, 0, 0, 0), 16, DMZ),
    (2, at(10, 1, 0, 0), 16, DMZ),
    (2, 0, 0, WAN),
];
const VRFS: [&str; 3] = ["default", "red", "blue"];
/// The greatest packets of each interface.
pub const MTUS: [u32; 4] = [1500, 1400, 1492, 1300];

/// The limits on the translations of each VRF, and of each list.
#[derive(Debug, Clone, Copy, Default)]
pub struct Limits {
    pub vrf: Option<u32>,
    pub list: Option<u32>,
}

/// The parts of a gateway that stay for a whole seed.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    pub v6: bool,
    /// Inside interfaces have VRFs of their own.
    pub tenants: bool,
    pub limits: Limits,
    /// Rules come by live edits, too: they have ids of their own.
    pub edited: bool,
}

impl Layout {
    fn routes(self) -> &'static [Routed] {
        if self.tenants { &TENANT_ROUTES } else { &ROUTES }
    }

    /// The VRF of an interface.
    pub fn vrf(self, interface: usize) -> usize {
        match interface {
            LAN | DMZ if self.tenants => 1 + interface,
            _ => 0,
        }
    }

    /// Returns the interface by which packets leave; `None`: they are for the gateway.
    pub fn route(self, vrf: usize, destination: u32) -> Option<usize> {
        let is_own = |(index, (_, own)): (usize, &(&str, &[u32]))| self.vrf(index) == vrf && own.contains(&destination);
        if INTERFACES.iter().enumerate().any(is_own) {
            return None;
        }
        let within =
            |prefix: u32, length: u8| (destination ^ prefix).checked_shr(32 - u32::from(length)).unwrap_or(0) == 0;
        let route = self.routes().iter().find(|(of, prefix, length, _)| *of == vrf && within(*prefix, *length));
        route.map(|(.., interface)| *interface)
    }
}

/// Returns the model of rules.
pub fn model(layout: Layout, lists: &Lists, table: FlowTable) -> Model {
    let v6 = layout.v6;
    let mut build = Build::new();
    let text = |address: u32, length: u8| format!("{}/{}", ip(v6, address), if v6 { length + 96 } else { length });
    for (index, (name, addresses)) in INTERFACES.iter().enumerate() {
        let texts = addresses.iter().enumerate();
        let texts: Vec<String> = texts.map(|(place, &own)| text(own, if place == 0 { 30 } else { 32 })).collect();
        build = build.port(name, &texts.iter().map(String::as_str).collect::<Vec<_>>());
        build = build.in_vrf(VRFS[layout.vrf(index)]).mtu(MTUS[index]);
    }
    for (index, (name, addresses)) in INTERFACES.iter().enumerate() {
        build = build.neighbor(name, &ip(v6, addresses[0] + 1).to_string(), mac(index as u8));
    }
    for &(vrf, prefix, length, interface) in layout.routes() {
        let (name, addresses) = INTERFACES[interface];
        let prefix = if length == 0 && v6 { "::/0".to_owned() } else { text(prefix, length) };
        build = build.via_in(VRFS[vrf], &prefix, &[&format!("{name} {}", ip(v6, addresses[0] + 1))]);
    }
    let mut model =
        build.buffers(4096, 16).icmp(IcmpLimits { error_rate: 0, error_burst: 0, echo_rate: 0, echo_burst: 0 }).0;
    model.vrfs.iter_mut().for_each(|vrf| vrf.nat_limit = layout.limits.vrf);
    for List { edge, rules, mapping, mss_clamp } in lists {
        model.interfaces[*edge].nat = Some(NatIndex(model.nat.len() as u16));
        model.nat.push(NatList {
            name: INTERFACES[*edge].0.into(),
            rules: rules.iter().map(|rule| rule.model(v6)).collect(),
            // By their text: a rule that moves keeps its id.
            ids: layout.edited.then(|| rules.iter().map(Rule::id).collect()),
            limit: layout.limits.list,
            limit_origin: Origin::default(),
            mss_clamp: *mss_clamp,
            mapping: *mapping,
            log: false,
            ipfix: None,
            origin: Origin::default(),
        });
    }
    model.flow_table = table;
    model
}

type Sent = Arc<Mutex<Vec<(usize, Vec<u8>)>>>;

/// Keeps the frames that leave.
struct Keeping {
    port: usize,
    sent: Sent,
}

impl Transmitter for Keeping {
    fn transmit(&mut self, vector: &mut Vector, frame: &Indices, _: &mut Indices, _: &mut Cache, _: Time) -> usize {
        let mut sent = self.sent.lock().expect("one thread");
        sent.extend(frame.places().iter().map(|&place| (self.port, vector[place].data().to_vec())));
        frame.len()
    }
}

/// The gateway.
pub struct Gateway {
    pub harness: Harness,
    sent: Sent,
}

impl Gateway {
    pub fn new(mut model: Model, seed: u64, workers: usize, records: bool) -> Gateway {
        model.buffers.small *= workers as u32;
        let options = Options { seed, invent_neighbors: false };
        let harness = Harness::with_workers(model, options, workers).expect("there is room");
        let mut gateway = Gateway { harness, sent: Sent::default() };
        gateway.harness.set_recording(records);
        gateway.connect();
        gateway
    }

    fn connect(&mut self) {
        for port in 0..INTERFACES.len() {
            let sent = Arc::clone(&self.sent);
            self.harness.connect_each(port as u32, || Box::new(Keeping { port, sent: Arc::clone(&sent) }));
        }
    }

    /// Puts other rules into force.
    pub fn reload(&mut self, model: Model) {
        self.harness.reload(model).expect("there is room");
        self.connect();
    }

    /// Lets time pass without packets, so that workers visit sessions that are over as they would when they wake.
    pub fn pass(&mut self, from: u64, to: u64) {
        const STEP: u64 = 100_000_000;
        const STEPS: u64 = 22;
        for step in (0..STEPS.min((to - from) / STEP).max(1)).rev() {
            self.harness.set_time(Time(to - step * STEP));
            for _ in 0..20 {
                if !self.harness.is_due() {
                    break;
                }
                self.harness.run();
            }
        }
    }

    /// Runs a vector of IP packets, each with the interface that it comes in by; returns the frames that left.
    pub fn run(&mut self, packets: &[(usize, Vec<u8>)], now: u64) -> (Vec<(usize, Vec<u8>)>, Vec<Outcome>) {
        self.harness.set_time(Time(now));
        for (number, (interface, packet)) in (0..).zip(packets) {
            let head = header(own_mac(*interface).0, HOST.0, packet);
            let frame = [&head[..], packet].concat();
            assert!(self.harness.inject(*interface as u32, &frame, Time(now), number), "a buffer");
        }
        let outcomes = self.harness.run();
        (std::mem::take(&mut *self.sent.lock().expect("one thread")), outcomes)
    }
}

/// The header that a packet leaves with by an interface.
pub fn out_header(interface: usize, packet: &[u8]) -> [u8; 14] {
    header(mac(interface as u8).0, own_mac(interface).0, packet)
}

fn header(to: [u8; 6], from: [u8; 6], packet: &[u8]) -> [u8; 14] {
    let mut header = [0; 14];
    header[..6].copy_from_slice(&to);
    header[6..12].copy_from_slice(&from);
    header[12..].copy_from_slice(if packet[0] >> 4 == 6 { &[0x86, 0xdd] } else { &[8, 0] });
    header
}
