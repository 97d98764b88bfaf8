//! Random traffic: a pool of flows that is used again and again, in both directions, and packets of all other kinds.

use std::net::IpAddr;

use weir_base::random::Random;
use weir_packet::buffer::{Cache, Pool, PoolSize};
use weir_packet::checksum;
use weir_packet::offload::{Checksum, Gso, Offload};
use weir_packet::packet::Packet;
use weir_packet::parse;
use weir_packet::wire::MacAddress;
use weir_packet::wire::arp::{Fields as Arp, Operation};
use weir_packet::wire::ethernet::ethertype;
use weir_packet::wire::nd::Fields as Nd;
use weir_packet::wire::nd::solicited_node;

use crate::gateway::{Links, PORTS, REMOTE, between, host, pick, remote, station};
use crate::kit::link::{ALL, framed, header};
use crate::kit::{HOST, frame, l3, mend, with_extensions, with_options};
use crate::nat::reply;
use crate::pair::segments;
use crate::spd::reflected;

/// A packet to inject.
#[derive(Debug, Clone)]
pub struct Input {
    /// The model's index of the port, or of the interface if the packet comes out of a tunnel or from the host.
    pub port: usize,
    pub from: From,
    pub frame: Vec<u8>,
    pub offload: Offload,
    /// Its flow may have a learned decision.
    pub eligible: bool,
}

/// The origin of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// The link of a port.
    Link,
    /// A tunnel, so many tunnels deep.
    Tunnel(u8),
    /// The punt device of an interface.
    Host,
}

/// An address, with the interface that leads to it.
#[derive(Debug, Clone, Copy)]
struct End {
    address: IpAddr,
    link: usize,
    mac: MacAddress,
    port: u16,
}

/// Two ends that exchange packets.
#[derive(Debug, Clone)]
struct Flow {
    protocol: u8,
    /// The identifier of echo requests.
    identifier: u16,
    ends: [End; 2],
    dscp: u8,
    length: u64,
}

const TCP: u8 = 6;
const UDP: u8 = 17;

impl Flow {
    fn random(random: &mut Random, links: &Links) -> Flow {
        let v6 = random.chance(0.5);
        let icmp = if v6 { 58 } else { 1 };
        let protocol = match random.below(20) {
            0..=7 => UDP,
            8..=13 => TCP,
            14 | 15 => icmp,
            16 => 50,
            _ => pick(random, &[47, 132, 33, 136, 103, 99, 59 - icmp]),
        };
        let mut end = |near: bool| {
            let number = if random.chance(0.05) { 7 } else { between(random, 2, if near { 6 } else { 12 }) as u8 };
            let network = random.below(REMOTE as u64) as usize;
            let (link, address, station) = if near {
                let link = random.below(links.count as u64) as usize;
                (link, host(link, v6, number), station(link, number))
            } else {
                let link = links.home(network);
                (link, remote(network, v6, number), station(link, 2))
            };
            // A few have the hardware address of another host.
            let mac = if random.chance(0.05) { HOST } else { station };
            End { address, link, mac, port: pick(random, &PORTS) }
        };
        let mut ends = [end(true), end(false)];
        let both_far = [end(false), end(false)];
        match random.below(4) {
            0 => ends = both_far,
            1 => ends.reverse(),
            _ => {}
        }
        if random.chance(0.04) {
            // A forged source.
            ends[0].link = random.below(links.count as u64) as usize;
        }
        if links.crossed && random.chance(0.7) {
            ends.iter_mut().for_each(|end| end.link = random.below(links.count as u64) as usize);
        }
        let (identifier, dscp) = (random.below(4) as u16, if random.chance(0.2) { random.below(3) as u8 } else { 0 });
        let length = pick(random, &[0, 4, 20, 100, 500, 1200, 1400]);
        Flow { protocol, identifier, ends, dscp, length }
    }

    fn v6(&self) -> bool {
        self.ends[0].address.is_ipv6()
    }

    fn name(&self) -> String {
        match (self.protocol, self.v6()) {
            (1, false) => "icmp".to_owned(),
            (58, true) => "icmp6".to_owned(),
            (number, _) => number.to_string(),
        }
    }

    fn has_ports(&self) -> bool {
        matches!(self.protocol, TCP | UDP | 132 | 33 | 136)
    }

    fn is_echo(&self) -> bool {
        matches!((self.protocol, self.v6()), (1, false) | (58, true))
    }

    /// Returns a packet of the flow as text: `back` against its direction; `more` are options.
    fn text(&self, back: bool, more: &str) -> String {
        let [from, to] = self.ordered(back);
        let ports = |end: &End| if self.has_ports() { format!(" port {}", end.port) } else { String::new() };
        let kind = match (self.is_echo(), back) {
            (true, false) => format!(" type echo-request id {}", self.identifier),
            (true, true) => format!(" type echo-reply id {}", self.identifier),
            _ => String::new(),
        };
        let spi = if self.protocol == 50 { format!(" spi {}", self.identifier) } else { String::new() };
        let (name, ports_from, ports_to) = (self.name(), ports(from), ports(to));
        format!("{name} from {}{ports_from} to {}{ports_to}{kind}{spi}{more}", from.address, to.address)
    }

    fn ordered(&self, back: bool) -> [&End; 2] {
        let [first, second] = &self.ends;
        if back { [second, first] } else { [first, second] }
    }

    /// Returns the least octets of a packet.
    fn headers(&self) -> u64 {
        let transport = match self.protocol {
            TCP => 20,
            UDP | 50 | 136 => 8,
            132 | 33 => 12,
            1 | 58 => 8,
            _ => 0,
        };
        transport + if self.v6() { 40 } else { 20 }
    }
}

/// The flags of TCP packets that carry data.
const DATA: [&str; 8] = ["ack", "ack", "ack", "ack", "psh,ack", "ack,ece", "ack,cwr", "psh,ack,urg"];
/// The flags of packets that begin or end connections.
const CONTROL: [&str; 6] = ["syn", "syn,ack", "syn,ece,cwr", "fin,ack", "rst", "rst,ack"];
const STRANGE_FLAGS: [&str; 6] = ["none", "psh", "syn,fin", "fin", "rst,ack", "urg"];

/// Makes traffic for the gateways of a pair.
pub struct Traffic {
    links: Links,
    flows: Vec<Flow>,
    /// Fragments whose datagram is not complete.
    later: Vec<Input>,
    number: u32,
    /// Checksums that are left to the gateway begin with the right sum. A merge makes a wrong one right, where a packet by itself
    /// leaves as wrong as it came.
    pub sums_are_right: bool,
    /// Buffers for super-packets that are cut.
    cache: Cache,
}

impl Traffic {
    pub fn new(random: &mut Random, links: Links) -> Traffic {
        let count = if links.crossed { 20 } else { pick(random, &[20, 50, 50, 80]) };
        let flows = (0..count).map(|_| Flow::random(random, &links)).collect();
        let cache = Pool::new(PoolSize { small: 8, large: 8 }).expect("there is memory").cache();
        Traffic { links, flows, later: Vec::new(), number: 0, sums_are_right: false, cache }
    }

    /// Returns the addresses of the flows.
    pub fn addresses(&self) -> Vec<IpAddr> {
        self.flows.iter().flat_map(|flow| &flow.ends).map(|end| end.address).collect()
    }

    /// Returns the packets of a vector.
    /// `sent` are frames that left, by port: some get replies.
    pub fn vector(&mut self, random: &mut Random, sent: &[(u32, Vec<u8>)]) -> Vec<Input> {
        let most = pick(random, &[2, 16, 64, 128, 256, 256]);
        let count = between(random, 1, most) as usize;
        if random.chance(0.1) {
            let which = random.below(self.flows.len() as u64) as usize;
            self.flows[which] = Flow::random(random, &self.links);
        }
        let mut inputs = Vec::new();
        // Many vectors have packets of flows only.
        let strange = pick(random, &[0.0, 0.02, 0.1, 0.4]);
        let bursts = pick(random, &[0.0, 0.0, 0.02, 0.1]);
        let replies = if sent.is_empty() { 0.0 } else { pick(random, &[0.0, 0.2, 0.5]) };
        while inputs.len() < count {
            if random.chance(replies) {
                let (port, frame) = secured(random, sent);
                let to = self.links.mac(*port as usize % self.links.count);
                let reply = reflected(frame, to.0).or_else(|| reply(random, frame));
                let reply = reply.filter(|_| (*port as usize) < self.links.count);
                let from = From::Link;
                inputs.extend(reply.map(|frame| Input {
                    port: *port as usize,
                    from,
                    frame,
                    offload: Offload::default(),
                    eligible: false,
                }));
            }
            if random.chance(bursts) {
                // A super-packet, or segments that may be merged.
                let burst = self.super_packet(random).filter(|(whole, _)| whole.from == From::Link);
                match burst {
                    Some((whole, _)) if random.chance(0.3) => inputs.push(whole),
                    Some((_, segments)) => inputs.extend(segments),
                    None => {}
                }
            } else if random.chance(strange) {
                self.strange(random, &mut inputs);
            } else {
                let flow = self.flow(random);
                inputs.push(flow);
            }
        }
        let finds = self.links.learned && (!self.links.crossed || random.chance(0.3));
        inputs.truncate(count.max(3) - if finds { 3 } else { 0 });
        if finds {
            // Neighbours that are looked for are found soon.
            (0..3).for_each(|_| inputs.push(self.link_layer(random)));
        }
        // The harness takes packets out of tunnels before all others.
        inputs.sort_by_key(|input| !matches!(input.from, From::Tunnel(_)));
        inputs
    }

    /// Returns a packet of the pool, or one like it.
    fn flow(&mut self, random: &mut Random) -> Input {
        let flow = self.any(random);
        let back = random.chance(0.4);
        let mut more = String::new();
        let mut eligible = true;
        if flow.protocol == TCP {
            eligible = random.chance(0.93);
            let flags = if eligible { pick(random, &DATA) } else { pick(random, &CONTROL) };
            more.push_str(&format!(" flags {flags}"));
        }
        if flow.dscp > 0 {
            more.push_str(&format!(" dscp {}", flow.dscp));
        }
        let length = flow.headers() + flow.length + if flow.length > 50 { random.below(40) } else { 0 };
        more.push_str(&format!(" length {length}"));
        let mut input = self.input(&flow, back, &more);
        self.mark(&mut input.frame, flow.is_echo());
        input.eligible = eligible;
        input
    }

    fn any(&self, random: &mut Random) -> Flow {
        // Some flows have many packets.
        let bound = if random.chance(0.5) { 8 } else { self.flows.len() as u64 };
        self.flows[random.below(bound) as usize].clone()
    }

    fn input(&self, flow: &Flow, back: bool, more: &str) -> Input {
        let from = flow.ordered(back)[0];
        let (port, tags) = self.links.port(from.link);
        let text = flow.text(back, &format!("{more}{tags} mac-from {}", from.mac));
        let frame = frame(&text, self.links.mac(from.link));
        Input { port, from: From::Link, frame, offload: Offload::default(), eligible: false }
    }

    /// Makes frames of a flow differ: in the identification of IPv4, and in the last octets of the payload.
    fn mark(&mut self, frame: &mut [u8], echo: bool) {
        self.number += 1;
        let (at, number) = (l3(frame), self.number);
        if frame[at] >> 4 == 4 {
            frame[at + 4..at + 6].copy_from_slice(&(number as u16).to_be_bytes());
            mend(frame);
        }
        let end = frame.len();
        if !echo && end >= at + 80 {
            frame[end - 4..].copy_from_slice(&number.to_be_bytes());
        }
    }

    /// Adds a packet, or several, that the table of flows does not decide about, or only by mistake.
    fn strange(&mut self, random: &mut Random, inputs: &mut Vec<Input>) {
        match random.below(10) {
            0..=5 => {
                let input = self.variant(random);
                inputs.push(input);
            }
            6 => self.fragments(random, inputs),
            7 => {
                let input = self.about(random);
                inputs.push(input);
            }
            8 => {
                let input = self.for_gateway(random);
                inputs.push(input);
            }
            _ => {
                let input = self.link_layer(random);
                inputs.push(input);
            }
        }
    }

    /// Returns a packet of a flow of the pool that differs in a field.
    fn variant(&mut self, random: &mut Random) -> Input {
        let mut flow = self.any(random);
        let back = random.chance(0.4);
        let mut input = match random.below(12) {
            0 => self.input(&flow, back, &format!(" ttl {}", random.below(3))),
            1 => self.input(&flow, back, &format!(" dscp {}", random.below(64))),
            2 => {
                let length = pick(random, &[1280, 1281, 1400, 1401, 1500, 1501, 3000]);
                let df = if !flow.v6() && random.chance(0.5) { " df" } else { "" };
                self.input(&flow, back, &format!(" length {length}{df}"))
            }
            3 => {
                let end = usize::from(back);
                flow.ends[end].mac = pick(random, &[HOST, station(0, 2), station(1, 9)]);
                self.input(&flow, back, "")
            }
            4 => {
                let end = usize::from(back);
                flow.ends[end].link = random.below(self.links.count as u64) as usize;
                self.input(&flow, back, "")
            }
            5 if flow.protocol == TCP => {
                let flags = format!(" flags {}", pick(random, &STRANGE_FLAGS));
                self.input(&flow, back, &flags)
            }
            6 => {
                let (from, to) = (&mut flow.ends[0].port, random.below(65_536) as u16);
                *from = if random.chance(0.5) { to } else { from.wrapping_add(1) };
                flow.identifier = random.below(10) as u16;
                self.input(&flow, back, "")
            }
            _ => self.input(&flow, back, &format!(" length {}", flow.headers() + 24)),
        };
        if random.chance(0.7) {
            self.mark(&mut input.frame, flow.is_echo());
        }
        let at = l3(&input.frame);
        let any = random.below(self.links.count as u64) as usize;
        match random.below(20) {
            0 => {
                let from = From::Tunnel(between(random, 1, 3) as u8);
                (input.frame, input.port, input.from) = (input.frame.split_off(at), any, from);
            }
            1 => (input.port, input.from) = (any, From::Host),
            2..=13 if input.frame.len() < 1400 => self.spoil(random, &mut input),
            _ => {}
        }
        input
    }

    /// Changes octets of a frame that are no payload, or its offload state.
    fn spoil(&mut self, random: &mut Random, input: &mut Input) {
        let frame = &mut input.frame;
        let at = l3(frame);
        let v4 = frame[at] >> 4 == 4;
        let l4 = at + if v4 { 20 } else { 40 };
        match random.below(18) {
            // Explicit congestion notification.
            0 | 1 if v4 => {
                frame[at + 1] |= between(random, 1, 3) as u8;
                repair(frame, at);
            }
            0 => frame[at + 1] |= pick(random, &[0x10, 0x20, 0x30]),
            1 => frame[at + 3] = random.below(256) as u8,
            2 => {
                let options: &[&[u8]] = &[&[1], &[0x94, 4, 0, 0], &[7, 7, 4, 0, 0, 0, 0], &[7, 0], &[131, 3, 4], &[0]];
                let options = pick(random, options);
                *frame = match v4 {
                    true => with_options(frame, options),
                    false => {
                        let next = frame[at + 6];
                        let (first, header): (u8, Vec<u8>) = match random.below(5) {
                            0 => (0, vec![next, 0, 1, 4, 0, 0, 0, 0]),
                            1 => (60, vec![next, 0, 1, 4, 0, 0, 0, 0]),
                            2 => (43, vec![next, 0, 4, 0, 0, 0, 0, 0]),
                            // An atomic fragment.
                            3 => (44, vec![next, 0, 0, 0, 0, 0, 0, 9]),
                            _ => (0, vec![next, 0, 5, 2, 0, 0, 1, 0]),
                        };
                        with_extensions(frame, first, &header)
                    }
                };
            }
            // A wrong header checksum, or hop limit 255.
            3 => frame[at + 10] ^= u8::from(v4),
            // Padding.
            4 => frame.extend([0x5a; 30]),
            // A transport header that is cut off by the length of the packet, or by the end of the frame.
            5 if v4 => {
                frame[at + 2..at + 4].copy_from_slice(&(20 + random.below(20) as u16).to_be_bytes());
                repair(frame, at);
            }
            5 => frame[at + 4..at + 6].copy_from_slice(&(random.below(20) as u16).to_be_bytes()),
            6 => {
                let most = frame.len() as u64;
                frame.truncate(between(random, 14, most) as usize);
            }
            // Not for the gateway.
            7 => frame[5] ^= 1,
            8 => frame[..6].copy_from_slice(&ALL.0),
            // Tags.
            9 => {
                let tag = pick(random, &[[0x81, 0, 0, 0], [0x81, 0, 0xe0, 0], [0x81, 0, 0, 9], [0x88, 0xa8, 0, 5]]);
                frame.splice(12..12, tag);
            }
            10 if at > 14 => frame[14] |= 0xa0,
            // The reserved flag, or "don't fragment".
            11 if v4 => {
                frame[at + 6] |= pick(random, &[0x80, 0x40]);
                repair(frame, at);
            }
            12 if v4 => {
                frame[at] = pick(random, &[0x44, 0x46, 0x65, 0x4f]);
                repair(frame, at);
            }
            // The length of a TCP header, or of a UDP datagram.
            13 if frame.len() > l4 + 13 => frame[l4 + 12] = random.below(256) as u8,
            14 if frame.len() > l4 + 6 => frame[l4 + 5] = random.below(256) as u8,
            15 => {
                let (place, bit) = (random.below(frame.len() as u64) as usize, random.below(8));
                frame[place] ^= 1 << bit;
                if random.chance(0.7) {
                    repair(frame, at);
                }
            }
            _ => self.offload(random, input, l4),
        }
    }

    /// Leaves work on a packet to the gateway, as a card or the kernel does.
    fn offload(&mut self, random: &mut Random, input: &mut Input, l4: usize) {
        let frame = &mut input.frame;
        let at = l3(frame);
        let v4 = frame[at] >> 4 == 4;
        let protocol = if v4 { frame[at + 9] } else { frame[at + 6] };
        let offset = match protocol {
            TCP if frame.len() >= l4 + 20 => 16,
            UDP if frame.len() >= l4 + 8 => 6,
            _ => return,
        };
        input.offload = Offload { checksum: Checksum::Partial, start: l4 as u16, offset, ..Offload::default() };
        let place = (l4, usize::from(offset), protocol);
        if protocol != TCP || random.chance(0.4) {
            input.offload = pick(random, &[Offload { checksum: Checksum::Valid, ..Offload::default() }, input.offload]);
            if self.sums_are_right && input.offload.checksum == Checksum::Partial {
                begin_sum(frame, at, place);
            }
            return;
        }
        let payload = between(random, 1000, 6000) as usize;
        frame.resize(l4 + 20, 0);
        frame.extend((0..payload).map(|octet| octet as u8));
        let length = frame.len() - at;
        if v4 {
            frame[at + 2..at + 4].copy_from_slice(&(length as u16).to_be_bytes());
            mend(frame);
        } else {
            frame[at + 4..at + 6].copy_from_slice(&(length as u16 - 40).to_be_bytes());
        }
        if self.sums_are_right {
            begin_sum(frame, at, place);
        }
        let gso = if v4 { Gso::Tcp4 } else { Gso::Tcp6 };
        input.offload = Offload { gso, segment: pick(random, &[500, 1200, 1440]), ..input.offload };
    }

    /// Returns a super-packet of a flow of the pool, and its segments.
    pub fn super_packet(&mut self, random: &mut Random) -> Option<(Input, Vec<Input>)> {
        let mut input = self.flow(random);
        let at = l3(&input.frame);
        let v4 = input.frame[at] >> 4 == 4;
        let (length, protocol) = if v4 { (20, input.frame[at + 9]) } else { (40, input.frame[at + 6]) };
        let l4 = at + length;
        let (headers, gso, offset) = match protocol {
            TCP if input.eligible => (20, if v4 { Gso::Tcp4 } else { Gso::Tcp6 }, 16),
            UDP => (8, Gso::Udp, 6),
            _ => return None,
        };
        let segment = pick(random, &[60, 500, 1200, 1440, 1452]);
        let payload = match random.chance(0.3) {
            true => between(random, 1, 40) as usize * usize::from(segment),
            false => between(random, 1, 40 * u64::from(segment)) as usize,
        };
        let frame = &mut input.frame;
        frame.resize(l4 + headers, 0);
        frame.extend((0..payload).map(|_| random.next() as u8));
        let behind = frame.len() - l4;
        if v4 {
            frame[at + 2..at + 4].copy_from_slice(&((length + behind) as u16).to_be_bytes());
            mend(frame);
        } else {
            frame[at + 4..at + 6].copy_from_slice(&(behind as u16).to_be_bytes());
        }
        if protocol == UDP {
            frame[l4 + 4..l4 + 6].copy_from_slice(&(behind as u16).to_be_bytes());
        }
        begin_sum(frame, at, (l4, offset, protocol));
        input.offload = Offload { checksum: Checksum::Partial, gso, segment, start: l4 as u16, offset: offset as u16 };
        let mut packet = Packet::copy_of(&mut self.cache, &input.frame)?;
        let parsed = if v4 { parse::ipv4(&input.frame, at) } else { parse::ipv6(&input.frame, at) };
        packet.set_parsed(&parsed.ok()?);
        packet.set_offload(input.offload);
        let pieces = segments(&packet);
        packet.recycle(&mut self.cache);
        let plain = |frame| Input { frame, offload: Offload::default(), ..input.clone() };
        let pieces = pieces.into_iter().map(plain).collect();
        Some((input, pieces))
    }

    /// Adds the fragments of a datagram in any order: some of them now, some later, some never.
    fn fragments(&mut self, random: &mut Random, inputs: &mut Vec<Input>) {
        if random.chance(0.6) {
            let count = random.below(4) as usize;
            let from = self.later.len().saturating_sub(count);
            inputs.extend(self.later.drain(from..));
        }
        let (flow, back) = (self.any(random), random.chance(0.3));
        self.number += 1;
        let number = self.number;
        let base = if flow.v6() { 48 } else { 20 };
        let first = pick(random, &[8, 24, 64, 512]);
        let pieces = [
            (true, format!(" fragment 0+ length {}", base + first)),
            (false, format!(" fragment {first}+ length {}", base + 16)),
            (false, format!(" fragment {} length {}", first + 16, base + 9)),
        ];
        let mut all: Vec<Input> = pieces
            .iter()
            .map(|(is_first, more)| {
                // A later fragment has no transport header.
                let like = match is_first {
                    true => flow.text(back, ""),
                    false => {
                        let [from, to] = flow.ordered(back);
                        format!("{} from {} to {}", flow.name(), from.address, to.address)
                    }
                };
                let from = flow.ordered(back)[0];
                let (port, tags) = self.links.port(from.link);
                let text = format!("{like}{more}{tags} mac-from {}", from.mac);
                let mut frame = frame(&text, self.links.mac(from.link));
                let at = l3(&frame);
                let field = if flow.v6() { at + 46 } else { at + 4 };
                frame[field..field + 2].copy_from_slice(&(number as u16).to_be_bytes());
                if !flow.v6() {
                    mend(&mut frame);
                }
                Input { port, from: From::Link, frame, offload: Offload::default(), eligible: false }
            })
            .collect();
        for place in (1..all.len()).rev() {
            all.swap(place, random.below(place as u64 + 1) as usize);
        }
        for input in all {
            match random.below(8) {
                0 => {}
                1..=3 => self.later.push(input),
                _ => inputs.push(input),
            }
        }
        let surplus = self.later.len().saturating_sub(40);
        self.later.drain(..surplus);
    }

    /// Returns an ICMP error about a packet of a flow, from a router or host on its way.
    fn about(&mut self, random: &mut Random) -> Input {
        let (flow, back) = (self.any(random), random.chance(0.5));
        let quoted = self.input(&flow, back, "");
        // The error enters where replies do.
        let (sender, receiver) = (flow.ordered(back)[1], flow.ordered(back)[0]);
        let router = match random.chance(0.5) {
            true => sender.address,
            false => host(sender.link, flow.v6(), between(random, 2, 5) as u8),
        };
        let kept = quoted.frame.len() - l3(&quoted.frame) - if random.chance(0.1) { 6 } else { 0 };
        let quote = &quoted.frame[l3(&quoted.frame)..][..kept];
        let (name, headers) = if flow.v6() { ("icmp6", 48) } else { ("icmp", 28) };
        let (port, tags) = self.links.port(sender.link);
        let kind = pick(random, &["destination-unreachable", "time-exceeded"]);
        let text = format!(
            "{name} from {router} to {} type {kind} code {} length {}{tags} mac-from {}",
            receiver.address,
            random.below(4),
            headers + quote.len(),
            sender.mac,
        );
        let mut frame = frame(&text, self.links.mac(sender.link));
        let start = frame.len() - quote.len();
        frame[start..].copy_from_slice(quote);
        let l4 = start - 8;
        frame[l4 + 2..l4 + 4].fill(0);
        let sum = match (router, receiver.address) {
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let length = (frame.len() - l4) as u32;
                checksum::pseudo_v6(from, to, 58, length).bytes(&frame[l4..]).checksum()
            }
            _ => checksum::of(&frame[l4..]),
        };
        frame[l4 + 2..l4 + 4].copy_from_slice(&sum.to_be_bytes());
        Input { port, from: From::Link, frame, offload: Offload::default(), eligible: false }
    }

    /// Returns a packet for the gateway, or for several stations.
    fn for_gateway(&mut self, random: &mut Random) -> Input {
        let (v6, link) = (random.chance(0.5), random.below(self.links.count as u64) as usize);
        let (port, tags) = self.links.port(link);
        let other = random.below(self.links.count as u64) as usize;
        let number = between(random, 2, 7) as u8;
        let (from, name) = (host(link, v6, number), if v6 { "icmp6" } else { "icmp" });
        let own = host(other, v6, pick(random, &[1, 1, 1, 99]));
        let group = if v6 { "ff02::1" } else { "224.0.0.5" };
        let wide = if v6 { "ff0e::9".to_owned() } else { host(other, v6, 255).to_string() };
        let ports = format!("port {} to", pick(random, &PORTS));
        let text = match random.below(9) {
            0..=2 => format!("{name} from {from} to {own} id 3"),
            3 => format!("udp from {from} {ports} {own} port 53"),
            4 => format!("tcp from {from} {ports} {own} port 80 flags {}", pick(random, &CONTROL)),
            5 => format!("udp from {from} {ports} {group} port 53 mac-to 01:00:5e:00:00:05"),
            6 => format!("udp from {from} {ports} {wide} port 53"),
            7 => format!("udp from {from} {ports} {wide} port 53 mac-to ff:ff:ff:ff:ff:ff"),
            _ => {
                let from = match (v6, random.below(4)) {
                    (true, 0) => "fe80::77",
                    (true, 1) => "::1",
                    (true, 2) => "::",
                    (true, _) => "ff02::5",
                    (false, 0) => "127.0.0.1",
                    (false, 1) => "169.254.3.3",
                    (false, 2) => "0.0.0.0",
                    (false, _) => "255.255.255.255",
                };
                let to = remote(random.below(REMOTE as u64) as usize, v6, 3);
                format!("udp from {from} {ports} {to} port 53")
            }
        };
        let mac = if text.contains("mac-to") { String::new() } else { format!(" mac-to {}", self.links.mac(link)) };
        let text = format!("{text}{mac}{tags} mac-from {}", station(link, number));
        let frame = frame(&text, self.links.mac(link));
        Input { port, from: From::Link, frame, offload: Offload::default(), eligible: false }
    }

    /// Returns a frame that is no IP packet, or one of neighbour discovery.
    fn link_layer(&mut self, random: &mut Random) -> Input {
        let link = random.below(self.links.count as u64) as usize;
        let (port, tags) = self.links.port(link);
        let tags: &[(u16, u16)] = match tags {
            " vlan 5" => &[(0x8100, 5)],
            " vlan 100 inner 7" => &[(0x88a8, 100), (0x8100, 7)],
            _ => &[],
        };
        let number = between(random, 2, 7) as u8;
        let (theirs, ours) = (host(link, random.chance(0.5), number), self.links.mac(link));
        let mac = if random.chance(0.1) { HOST } else { station(link, number) };
        let mut frame = match (theirs, host(link, theirs.is_ipv6(), 1), random.chance(0.7)) {
            _ if random.chance(0.15) => framed(ours, tags, pick(random, &[0x88cc, 0x0800, 0x86dd, 7]), &[0x45; 40]),
            (IpAddr::V4(sender), IpAddr::V4(target), reply) => {
                let operation = if reply { Operation::Reply } else { Operation::Request };
                let target_mac = if reply { ours } else { MacAddress::ZERO };
                let fields = Arp { operation, sender_mac: mac, sender, target_mac, target };
                framed(if reply { ours } else { ALL }, tags, ethertype::ARP, &fields.emit())
            }
            (IpAddr::V6(sender), IpAddr::V6(target), reply) => {
                let (fields, to, mac_to) = match reply {
                    true => {
                        let fields = Nd::NeighborAdvertisement {
                            target: sender,
                            target_mac: Some(mac),
                            router: false,
                            solicited: true,
                            overrides: true,
                        };
                        (fields, target, ours)
                    }
                    false => {
                        let group = solicited_node(target);
                        let fields = Nd::NeighborSolicitation { target, source_mac: Some(mac) };
                        (fields, group, MacAddress::of_ipv6_multicast(group))
                    }
                };
                let message = fields.emit(sender, to);
                let packet = [&header(sender, to, message.len())[..], &message].concat();
                framed(mac_to, tags, ethertype::IPV6, &packet)
            }
            _ => Vec::new(),
        };
        if frame.len() > 12 {
            frame[6..12].copy_from_slice(&mac.0);
        }
        Input { port, from: From::Link, frame, offload: Offload::default(), eligible: false }
    }
}

/// Writes the sum of the pseudo-header where the checksum of a transport header is to be, as a checksum that is left to others begins.
fn begin_sum(frame: &mut [u8], at: usize, (l4, offset, protocol): (usize, usize, u8)) {
    let addresses = if frame[at] >> 4 == 4 { at + 12..at + 20 } else { at + 8..at + 40 };
    let length = (frame.len() - l4) as u32;
    let sum = checksum::Sum::new().bytes(&frame[addresses]).word(protocol.into()).long(length);
    frame[l4 + offset..l4 + offset + 2].copy_from_slice(&sum.folded().to_be_bytes());
}

/// Makes the checksum of an IPv4 header right, where there is such a header.
fn repair(frame: &mut [u8], at: usize) {
    let length = frame.get(at).map_or(0, |first| usize::from(first & 15) * 4);
    if frame.len() >= at + length.max(20) && frame[at] >> 4 == 4 && l3(frame) == at {
        mend(frame);
    }
}

/// Returns a frame that was sent: one of ESP rather than another.
fn secured<'a>(random: &mut Random, sent: &'a [(u32, Vec<u8>)]) -> &'a (u32, Vec<u8>) {
    let tries: [_; 4] = std::array::from_fn(|_| &sent[random.below(sent.len() as u64) as usize]);
    let is_secured = |frame: &[u8]| {
        let at = l3(frame);
        let protocol = at + if frame[at] >> 4 == 4 { 9 } else { 6 };
        frame.get(protocol) == Some(&50)
    };
    tries.into_iter().find(|(_, frame)| is_secured(frame)).unwrap_or(tries[0])
}
