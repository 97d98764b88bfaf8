//! Random packets: of translations that there are, in both directions, about them, and others.

use std::collections::HashSet;

use weir_base::random::Random;

use crate::gateway::{DMZ, INTERFACE_ADDRESSES, LAN, OWN, WAN, WAN2};
use crate::mapping::Endpoint;
use crate::packet::{ACK, DCCP, FIN, GRE, ICMP, OSPF, Packet, Quote, RST, SCTP, SYN, TCP, Tuple, UDP, UDP_LITE};
use crate::rules::{SERVICES, at, pick};
use crate::state::State;
use crate::translator::Translator;

const INSIDE: [u32; 7] = [
    at(10, 0, 0, 5),
    at(10, 0, 0, 6),
    at(10, 0, 0, 7),
    at(10, 0, 0, 8),
    at(10, 0, 0, 9),
    at(10, 1, 0, 5),
    at(10, 1, 0, 6),
];
const FAR: [u32; 5] = [at(8, 8, 8, 8), at(8, 8, 4, 4), at(9, 9, 9, 9), at(192, 0, 2, 9), at(192, 0, 2, 10)];
const ROUTERS: [u32; 4] = [at(10, 0, 0, 77), at(10, 1, 0, 77), at(9, 9, 0, 77), at(192, 0, 2, 77)];
const PROTOCOLS: [u8; 14] = [UDP, UDP, UDP, UDP, TCP, TCP, TCP, TCP, ICMP, ICMP, SCTP, DCCP, UDP_LITE, GRE];

/// How a seed's packets are.
pub struct Traffic {
    /// Source ports: few give collisions.
    ports: u64,
    /// The share of packets that belong to translations.
    further: f64,
    /// The share of packets about endpoints that there are, to or from others.
    endpoints: f64,
    /// Packets of a vector, at most.
    pub most: u64,
    /// No packet's TTL is over: its translation would end another one for a moment.
    lives: bool,
}

/// A packet, the interface that it comes in by, and octets of the payload of its first fragment, if it has some.
pub type Sent = (usize, Packet, Option<usize>);

/// The interface by which packets of a source come in.
fn entry(random: &mut Random, translator: &Translator, source: u32) -> usize {
    let route = translator.layout.route(0, source).unwrap_or(WAN);
    // Tenants have equal addresses.
    if translator.layout.tenants && route == LAN { pick(random, &[LAN, DMZ]) } else { route }
}

/// Whether one of two packets may have the tuple of the other one's replies. The outside endpoint that a packet gets may be known
/// before: SCTP keeps ports, and some pools have one.
fn may_answer(tuple: &Tuple, other: &Tuple) -> bool {
    let same = |one: Endpoint, other: Endpoint| {
        one.address == other.address && (one.protocol == ICMP || one.port == other.port)
    };
    tuple.protocol == other.protocol
        && (same(Endpoint::source(tuple), Endpoint::destination(other))
            || same(Endpoint::destination(tuple), Endpoint::source(other)))
}

impl Traffic {
    /// Packets one by one, where their order matters, or many at once.
    pub fn random(random: &mut Random, singly: bool) -> Traffic {
        Traffic {
            ports: pick(random, &[8, 200, 60_000]),
            further: pick(random, &[0.3, 0.7, 0.9]),
            endpoints: pick(random, &[0.05, 0.3]),
            most: if singly { 1 } else { pick(random, &[1, 16, 200, 200, 256]) },
            lives: singly,
        }
    }

    /// Returns the packets of a vector, each with the interface that it comes in by.
    pub fn vector(&self, random: &mut Random, translator: &Translator) -> Vec<Sent> {
        let count = 1 + random.below(self.most);
        let (mut packets, mut used, mut begun) = (Vec::new(), HashSet::new(), HashSet::new());
        // A vector has 256 packets, each fragment being one.
        let mut room = 256 - count;
        for tag in 0..count as u16 {
            let made = match translator.live.is_empty() || !random.chance(self.further) {
                false => {
                    let number = pick(random, &translator.live);
                    if random.chance(self.endpoints) {
                        self.beside(random, translator, number, tag, &mut used, &mut begun)
                    } else {
                        self.further(random, translator, number, tag, &mut used)
                    }
                }
                true => self.fresh(random, translator, tag, &mut used, &mut begun),
            };
            packets.extend(made.map(|(interface, packet)| (interface, packet, None)));
            let last = packets.last_mut().filter(|(_, packet, _)| packet.tag == tag && packet.ttl > 1);
            if let Some((interface, packet, first)) = last
                && translator.find(*interface, &packet.tuple).is_some()
                && room >= 3
                && random.chance(0.1)
            {
                room -= 3;
                *first = self.fragment(packet);
            }
        }
        packets
    }

    /// Makes a packet of a translation long enough for fragments; returns the octets of the first one.
    fn fragment(&self, packet: &mut Packet) -> Option<usize> {
        let is_plain = packet.quote.is_none() && packet.flags & (SYN | FIN | RST) == 0;
        packet.data = if is_plain { 20 } else { packet.data };
        is_plain.then_some(match packet.tuple.protocol {
            TCP => 24,
            DCCP | SCTP => 16,
            _ => 8,
        })
    }

    /// A packet of any kind, of a translation by chance alone.
    fn fresh(
        &self,
        random: &mut Random,
        translator: &Translator,
        tag: u16,
        used: &mut HashSet<usize>,
        begun: &mut HashSet<Tuple>,
    ) -> Option<(usize, Packet)> {
        let protocol = if random.chance(0.03) { OSPF } else { pick(random, &PROTOCOLS) };
        let own = if random.chance(0.4) { INTERFACE_ADDRESSES[WAN] } else { pick(random, &OWN) };
        let (source, destination) = match random.below(20) {
            0..=12 => (pick(random, &INSIDE), pick(random, &FAR)),
            13 | 14 => (pick(random, &INSIDE), own),
            15 => (pick(random, &INSIDE), pick(random, &INSIDE)),
            16..=18 => (pick(random, &FAR), own),
            _ => (pick(random, &FAR), pick(random, &INSIDE)),
        };
        let interface = entry(random, translator, source);
        let port = 1024 + random.below(self.ports) as u16;
        let (sport, dport) = match protocol {
            ICMP => (port, pick(random, if translator.layout.v6 { &[8, 8, 8, 0] } else { &[8, 8, 13, 0] })),
            GRE | OSPF => (0, 0),
            _ => (port, pick(random, &SERVICES)),
        };
        let tuple = Tuple { protocol, source, destination, sport, dport };
        if random.chance(0.03) {
            // An error about a packet of no translation, most often.
            let is_clear = protocol != ICMP && !begun.iter().any(|other| may_answer(&tuple, other));
            return (is_clear && begun.insert(tuple))
                .then(|| self.error(random, translator, interface, tuple, tag))
                .flatten();
        }
        self.first(random, translator, (interface, tuple), tag, used, begun)
    }

    /// A packet from or to an endpoint of a translation: towards another host, or from one.
    fn beside(
        &self,
        random: &mut Random,
        translator: &Translator,
        number: usize,
        tag: u16,
        used: &mut HashSet<usize>,
        begun: &mut HashSet<Tuple>,
    ) -> Option<(usize, Packet)> {
        let session = translator.session(number);
        if matches!(session.came.protocol, GRE | OSPF) {
            return None;
        }
        let (interface, tuple) = match random.below(5) {
            // The inside endpoint has more destinations.
            0..=2 => {
                let dport = if session.came.protocol == ICMP { session.came.dport } else { pick(random, &SERVICES) };
                (session.entries[0], Tuple { destination: pick(random, &FAR), dport, ..session.came })
            }
            // Another host sends to its outside endpoint, from outside or inside.
            way => {
                let source = pick(random, if way == 3 { &FAR[..] } else { &INSIDE[..] });
                let port = 1024 + random.below(self.ports) as u16;
                // A port beside that of a service: the inside host has not sent there.
                let sport = if way == 3 && random.chance(0.7) { pick(random, &SERVICES) + 1 } else { port };
                let reply = session.left.turned();
                let sport = if reply.protocol == ICMP { reply.sport } else { sport };
                (entry(random, translator, source), Tuple { source, sport, ..reply })
            }
        };
        self.first(random, translator, (interface, tuple), tag, used, begun)
    }

    /// A packet with a tuple, of a translation by chance alone.
    fn first(
        &self,
        random: &mut Random,
        translator: &Translator,
        (interface, tuple): (usize, Tuple),
        tag: u16,
        used: &mut HashSet<usize>,
        begun: &mut HashSet<Tuple>,
    ) -> Option<(usize, Packet)> {
        let mut packet = Packet::new(tuple, tag);
        let Tuple { protocol, source, destination, .. } = tuple;
        let layout = translator.layout;
        let out = layout.route(layout.vrf(interface), destination);
        if source == destination || out == Some(interface) && matches!(interface, WAN | WAN2) {
            return None;
        }
        let known = translator.find(interface, &tuple);
        if matches!(protocol, GRE | OSPF) {
            // Replies to a packet of the same vector are looked up before it has a translation.
            if begun.iter().any(|other: &Tuple| other.protocol == protocol) {
                return None;
            }
        }
        // Nor is a packet sent with the tuple of another one's replies, as mappings have it.
        let mut tuples = vec![tuple];
        if let Some((mapping, _)) = translator.mappings.at(&Endpoint::destination(&tuple)) {
            let Endpoint { address: destination, port: dport, .. } = mapping.inside;
            tuples.push(Tuple { destination, dport, ..tuple });
        }
        let (destination, dport) = translator.decide(interface, &tuple, None).to;
        if destination != tuple.destination {
            tuples.push(Tuple { destination, dport, ..tuple });
        }
        let own = Endpoint::source(&tuple);
        for outside in translator.mappings.of_inside(&own).map(|(mapping, _)| mapping.outside) {
            let with = |to: &Tuple| Tuple { source: outside.address, sport: outside.port, ..*to };
            tuples.extend(tuples.clone().iter().map(with));
        }
        if known.is_none() && begun.iter().any(|other| may_answer(&tuple, other)) {
            return None;
        }
        if tuples.iter().any(|tuple| begun.contains(&tuple.turned())) || !begun.insert(tuple) {
            return None;
        }
        begun.extend(tuples);
        if protocol == TCP {
            packet.flags = match known {
                Some((number, way)) => {
                    let states = &translator.session(number).states;
                    self.flags(random, states.now, states.reopens, way)?
                }
                None => pick(random, &[SYN, SYN, SYN, SYN, SYN, ACK, ACK | FIN, SYN | ACK, RST, RST | ACK, SYN | FIN]),
            };
            if known.is_some_and(|(number, _)| !used.insert(number)) {
                return None;
            }
        }
        if packet.flags & SYN != 0 && random.chance(0.7) {
            packet.mss = Some(pick(random, &[88, 536, 1260, 1340, 1460, 9000]));
        }
        if known.is_none() && !self.lives && random.chance(0.02) {
            packet.ttl = 1;
        }
        packet.data = random.below(12) as u8;
        self.spoil(random, &mut packet);
        Some((interface, packet))
    }

    /// A packet of a translation, or an error about one.
    fn further(
        &self,
        random: &mut Random,
        translator: &Translator,
        number: usize,
        tag: u16,
        used: &mut HashSet<usize>,
    ) -> Option<(usize, Packet)> {
        let session = translator.session(number);
        let way = random.below(2) as usize;
        let (came, _) = session.way(way);
        // Errors come from the side of the quoted packet's receiver, by a router or itself.
        if random.chance(0.1) {
            return self.error(random, translator, session.entries[way], came, tag);
        }
        let mut packet = Packet::new(came, tag);
        packet.data = random.below(12) as u8;
        if came.protocol == TCP {
            if !used.insert(number) {
                return None;
            }
            packet.flags = self.flags(random, session.states.now, session.states.reopens, way)?;
            packet.mss = (packet.flags & SYN != 0).then(|| pick(random, &[536, 1340, 1460]));
        }
        if !self.lives && random.chance(0.01) {
            packet.ttl = 1;
        }
        self.spoil(random, &mut packet);
        Some((session.entries[way], packet))
    }

    /// An error about the packet whose replies come with a tuple.
    fn error(
        &self,
        random: &mut Random,
        translator: &Translator,
        interface: usize,
        came: Tuple,
        tag: u16,
    ) -> Option<(usize, Packet)> {
        let source = if random.chance(0.5) { came.source } else { ROUTERS[interface] };
        let kind = if translator.layout.v6 {
            pick(random, &[(1, 0, 0), (1, 4, 0), (2, 0, 1400), (3, 0, 0), (4, 0, 6)])
        } else {
            pick(random, &[(3, 1, 0), (3, 3, 0), (3, 4, 1400), (11, 0, 0), (12, 0, 0x0500_0000)])
        };
        let mut quoted = Packet::new(came.turned(), 0x7777);
        (quoted.flags, quoted.data) = (ACK, 12);
        let kept = pick(random, &[8, 20, 64]);
        let tuple = Tuple { protocol: ICMP, source, destination: came.destination, sport: 0, dport: u16::from(kind.0) };
        let mut packet = Packet::new(tuple, tag);
        packet.quote = Some(Box::new(Quote { kind, packet: quoted, kept }));
        Some((interface, packet))
    }

    /// A wrong checksum leaves as wrong as it came.
    fn spoil(&self, random: &mut Random, packet: &mut Packet) {
        if packet.tuple.protocol == UDP && !random.chance(0.9) {
            packet.unsummed = true;
        } else if packet.checksum_at().is_some() && random.chance(0.03) {
            packet.fault = 1 + random.below(0xfffe) as u16;
        }
    }

    /// Flags whose effect docs/sessions.md says.
    fn flags(&self, random: &mut Random, state: State, reopens: Option<usize>, way: usize) -> Option<u8> {
        let closing = matches!(state, State::FinWait | State::TimeWait | State::Close);
        Some(match state {
            _ if closing && reopens == Some(1 - way) && random.chance(0.5) => SYN | ACK,
            _ if closing && random.chance(0.2) => SYN,
            State::SynSent if way == 1 => pick(random, &[SYN | ACK, SYN | ACK, SYN | ACK, SYN, RST | ACK]),
            State::SynSent => pick(random, &[SYN, SYN, SYN, RST]),
            State::Established if random.chance(0.05) => SYN,
            State::SynReceived => pick(random, &[ACK, ACK, ACK, ACK, RST | ACK, SYN]),
            State::Unreplied if way == 1 => pick(random, &[ACK, ACK, ACK, RST | ACK, SYN]),
            State::Unreplied => pick(random, &[ACK, ACK, ACK, RST | ACK]),
            _ => pick(random, &[ACK, ACK, ACK, ACK, ACK, ACK | FIN, RST]),
        })
    }
}
