//! Random packets: of translations that there are, in both directions, about them, and others.

use std::collections::HashSet;

use weir_base::random::Random;

use crate::gateway::{INTERFACE_ADDRESSES, OWN, WAN, WAN2};
use crate::packet::{ACK, DCCP, FIN, GRE, ICMP, OSPF, Packet, Quote, RST, SCTP, SYN, TCP, Tuple, UDP, UDP_LITE};
use crate::rules::{SERVICES, at, pick};
use crate::state::State;
use crate::translator::{Translator, entry};

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
    /// Packets of a vector, at most.
    most: u64,
}

impl Traffic {
    pub fn random(random: &mut Random) -> Traffic {
        Traffic {
            ports: pick(random, &[8, 200, 60_000]),
            further: pick(random, &[0.3, 0.7, 0.9]),
            most: pick(random, &[1, 16, 256, 256, 256]),
        }
    }

    /// Returns the packets of a vector, each with the interface that it comes in by.
    pub fn vector(&self, random: &mut Random, translator: &Translator) -> Vec<(usize, Packet)> {
        let count = 1 + random.below(self.most);
        let (mut packets, mut used, mut begun) = (Vec::new(), HashSet::new(), HashSet::new());
        for tag in 0..count as u16 {
            let made = match translator.live.is_empty() || !random.chance(self.further) {
                false => {
                    let number = pick(random, &translator.live);
                    self.further(random, translator, number, tag, &mut used)
                }
                true => self.fresh(random, translator, tag, &mut used, &mut begun),
            };
            packets.extend(made);
        }
        packets
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
        if entry(source) == entry(destination) && source != destination && matches!(entry(source), WAN | WAN2) {
            return None;
        }
        let port = 1024 + random.below(self.ports) as u16;
        let (sport, dport) = match protocol {
            ICMP => (port, pick(random, if translator.v6 { &[8, 8, 8, 0] } else { &[8, 8, 13, 0] })),
            GRE | OSPF => (0, 0),
            _ => (port, pick(random, &SERVICES)),
        };
        let mut packet = Packet::new(Tuple { protocol, source, destination, sport, dport }, tag);
        if source == destination {
            return None;
        }
        if random.chance(0.03) {
            // An error about a packet of no translation, most often.
            return (protocol != ICMP).then(|| self.error(random, translator, packet.tuple, tag)).flatten();
        }
        let known = translator.find(&packet.tuple);
        if matches!(protocol, GRE | OSPF) {
            // Replies to a packet of the same vector are looked up before it has a translation.
            if begun.iter().any(|other: &Tuple| other.protocol == protocol) {
                return None;
            }
        }
        if !begun.insert(packet.tuple) || begun.contains(&packet.tuple.turned()) {
            return None;
        }
        if protocol == TCP {
            let flags: &[u8] = match known {
                Some(_) => &[ACK],
                None => &[SYN, SYN, SYN, SYN, SYN, ACK, ACK | FIN, SYN | ACK, RST, RST | ACK, SYN | FIN],
            };
            packet.flags = pick(random, flags);
            if known.is_some_and(|(number, _)| !used.insert(number)) {
                return None;
            }
        }
        if known.is_none() && random.chance(0.02) {
            packet.ttl = 1;
        }
        packet.data = random.below(12) as u8;
        self.spoil(random, &mut packet);
        Some((entry(source), packet))
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
            return self.error(random, translator, came, tag);
        }
        let mut packet = Packet::new(came, tag);
        packet.data = random.below(12) as u8;
        if came.protocol == TCP {
            if !used.insert(number) {
                return None;
            }
            packet.flags = self.flags(random, session.states.now, session.states.reopens, way)?;
        }
        if random.chance(0.01) {
            packet.ttl = 1;
        }
        self.spoil(random, &mut packet);
        Some((entry(came.source), packet))
    }

    /// An error about the packet whose replies come with a tuple.
    fn error(&self, random: &mut Random, translator: &Translator, came: Tuple, tag: u16) -> Option<(usize, Packet)> {
        let interface = entry(came.source);
        let source = if random.chance(0.5) { came.source } else { ROUTERS[interface] };
        let kind = if translator.v6 {
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
