//! A topology that runs: a gateway for each node, on one thread. What one sends by an interface enters its neighbour; what it
//! sends to its hosts is delivered.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use weir_base::clock::Time;
use weir_packet::buffer::Cache;
use weir_packet::vector::{Indices, Vector};
use weir_plane::harness::{Harness, Options, Verdict};
use weir_plane::model::{Gateway, Route};
use weir_port::Transmitter;

use super::flow::Packet;
use super::gateway::{self, Entries, HOSTS};
use super::knowledge;
use super::mechanism::Way;
use super::routing::{self, Rib, Unsettled};
use super::world::World;
use crate::Error;

/// The end of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The hosts of this gateway have it.
    Delivered(usize),
    /// The gateway under test found its source not valid.
    Refused,
    /// Anything else: no route, or too many hops.
    Lost,
}

/// The end of a packet, and the interface by which it entered the gateway under test, if it did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Passage {
    pub(super) end: End,
    pub(super) entered: Option<u32>,
}

/// Frames that ports were given: the interface, the packet's number, the frame.
type Sent = Arc<Mutex<Vec<(u32, u32, Vec<u8>)>>>;

struct Wire {
    interface: u32,
    sent: Sent,
}

impl Transmitter for Wire {
    fn transmit(&mut self, vector: &mut Vector, frame: &Indices, _: &mut Indices, _: &mut Cache, _: Time) -> usize {
        let mut sent = self.sent.lock().expect("one thread has it at a time");
        sent.extend(frame.places().iter().map(|&place| {
            let packet = &vector[place];
            (self.interface, packet.ordinal(), packet.data().to_vec())
        }));
        frame.len()
    }
}

struct Station {
    harness: Harness,
    /// Its model without routes.
    bare: Gateway,
    routes: Vec<Route>,
    names: Vec<Arc<str>>,
    sent: Sent,
}

/// A topology that runs.
pub(super) struct Network {
    pub(super) world: World,
    way: Way,
    stations: Vec<Station>,
    entries: Entries,
    now: u64,
}

/// Frames in a vector.
const VECTOR: usize = 256;

impl Network {
    /// All gateways of a topology, with the routes and the tables that it gives.
    pub(super) fn new(world: World, way: Way, seed: u64) -> Result<Network, Error> {
        let ribs = routing::routes(&world)?;
        let mut stations = Vec::new();
        for (node, rib) in ribs.iter().enumerate() {
            let bare = gateway::model(&world, node, way);
            let routes = gateway::routes(&world, node, rib);
            let model = Gateway { routes: routes.clone(), ..bare.clone() };
            let mut harness = Harness::new(model, Options { seed, invent_neighbors: false })?;
            let sent = Sent::default();
            for interface in 0..bare.interfaces.len() as u32 {
                harness.connect(interface, Box::new(Wire { interface, sent: Arc::clone(&sent) }));
            }
            let names = bare.interfaces.iter().map(|interface| interface.name.as_str().into()).collect();
            stations.push(Station { harness, bare, routes, names, sent });
        }
        let mut network = Network { world, way, stations, entries: Entries::new(), now: 0 };
        network.fill(&ribs)?;
        Ok(network)
    }

    /// The routes that the topology has after a change to it, not in force yet.
    pub(super) fn compute(&mut self, world: World) -> Result<Vec<Rib>, Unsettled> {
        self.world = world;
        routing::routes(&self.world)
    }

    /// Puts the routes of one gateway into force.
    pub(super) fn reload(&mut self, node: usize, rib: &Rib) -> Result<(), Error> {
        let station = &mut self.stations[node];
        let routes = gateway::routes(&self.world, node, rib);
        if routes != station.routes {
            station.harness.reload(Gateway { routes: routes.clone(), ..station.bare.clone() })?;
            station.routes = routes;
        }
        Ok(())
    }

    /// Has the controller fill the tables of the gateway under test. Returns how many entries changed.
    pub(super) fn fill(&mut self, ribs: &[Rib]) -> Result<usize, Error> {
        let entries = knowledge::entries(self.way, &self.world, ribs);
        let Station { harness, names, .. } = &mut self.stations[self.world.dut];
        let changes = gateway::fill(harness, names, &self.entries, &entries)?;
        self.entries = entries;
        Ok(changes)
    }

    /// Sets the carrier of a link at both ends, without other messages.
    pub(super) fn set_link(&mut self, link: usize, up: bool) -> Result<(), Error> {
        for node in self.world.links[link].ends {
            let interface = gateway::interface(&self.world, node, link);
            self.stations[node].harness.set_link(interface, up)?;
        }
        Ok(())
    }

    /// The name of an interface of the gateway under test.
    pub(super) fn name(&self, interface: u32) -> &'static str {
        gateway::name(&self.world, self.world.dut, interface)
    }

    /// Packets that the gateway under test has found not valid so far, as it counts them itself.
    #[cfg(test)]
    pub(super) fn invalid(&self) -> u64 {
        let stats = self.stations[self.world.dut].harness.sav();
        stats.iter().flat_map(|interface| &interface.invalid).map(|(_, traffic)| traffic.packets).sum()
    }

    /// Has hosts send packets, and sees them through to their ends.
    pub(super) fn send(&mut self, packets: &[Packet]) -> Result<Vec<Passage>, Error> {
        let nothing = Passage { end: End::Lost, entered: None };
        let mut passages = vec![nothing; packets.len()];
        let mut waiting: Vec<VecDeque<(u32, u32, Vec<u8>)>> = vec![VecDeque::new(); self.stations.len()];
        for (number, packet) in (0..).zip(packets) {
            waiting[packet.from].push_back((HOSTS, number, packet.frame(gateway::mac(packet.from, HOSTS))));
        }
        while let Some(node) = waiting.iter().position(|queue| !queue.is_empty()) {
            let count = waiting[node].len().min(VECTOR);
            let vector: Vec<_> = waiting[node].drain(..count).collect();
            for (interface, number, _) in vector.iter().filter(|_| node == self.world.dut) {
                passages[*number as usize].entered.get_or_insert(*interface);
            }
            self.run(node, &vector, &mut passages)?;
            let sent = std::mem::take(&mut *self.stations[node].sent.lock().expect("one thread has it at a time"));
            for (interface, number, frame) in sent {
                match interface.checked_sub(1) {
                    None => passages[number as usize].end = End::Delivered(node),
                    Some(place) => {
                        let (link, there) =
                            self.world.links_of(node).nth(place as usize).expect("a port that the gateway has");
                        let other = there.other(node);
                        waiting[other].push_back((gateway::interface(&self.world, other, link), number, frame));
                    }
                }
            }
        }
        Ok(passages)
    }

    /// One vector through one gateway.
    fn run(&mut self, node: usize, vector: &[(u32, u32, Vec<u8>)], passages: &mut [Passage]) -> Result<(), Error> {
        self.now += 1_000_000;
        let harness = &mut self.stations[node].harness;
        harness.set_time(Time(self.now));
        let refuses = node == self.world.dut;
        for (interface, number, frame) in vector {
            if !harness.inject(*interface, frame, Time(self.now), *number) {
                return Err(Error::NoBuffer(self.world.names[node]));
            }
        }
        for outcome in harness.run_to_ends() {
            passages[outcome.ordinal as usize].end = match outcome.verdict {
                Verdict::Drop(reason) if refuses && reason.name().starts_with("sav-") => End::Refused,
                _ => End::Lost,
            };
        }
        match harness.conservation().imbalance() {
            0 => Ok(()),
            _ => Err(Error::Imbalance(self.world.names[node])),
        }
    }
}
