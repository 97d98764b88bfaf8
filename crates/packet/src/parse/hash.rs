//! Flow hashes: which of several equal paths, and which worker, a packet goes to.
//!
//! A flow is two endpoints, each an address with a port, and a protocol. The words that make it up are combined by
//! *folded multiplication*: two 64-bit words, each covered with a secret key, are multiplied to 128 bits, and the upper
//! half is folded onto the lower one. Every bit of the product's middle depends on every bit of both words, so one
//! multiplication (three to four cycles) mixes as much as rounds of shifts do. A last fold spreads what it has over all
//! bits of the result.
//!
//! The hash is keyed so that flows cannot be aimed at one path or worker without the keys. It is no cryptographic hash:
//! use it to spread load, not to authenticate.
//!
//! The inputs:
//! - for protocols with ports, the ports; for ICMP echo requests and replies, the identifier on both sides; for ESP,
//!   the SPI (RFC 4303), in place of the two ports;
//! - for ICMP errors, where a worker is chosen: the packet that they quote;
//! - for every fragment, the first included, the addresses alone: all fragments of a packet hash alike. (Behind the
//!   extension headers of a first IPv6 fragment may be another protocol than the one that later fragments name.)
//! - never the IPv6 flow label. Hosts change it within a flow (to move away from a bad path), which would reorder the
//!   flow and move it to another worker. RFC 6438 recommends it for tunnels only; there the inner flow decides the hash.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::parsed::{ParseFlags, Parsed};
use crate::wire::{array, be16, icmpv4, icmpv6, ipv4, ipv6, protocol};

/// The secret keys of a hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seed([u64; 4]);

impl Seed {
    /// The keys that grow from 128 random bits. Equal bits give equal hashes, which is what a replay wants.
    pub const fn new(random: [u64; 2]) -> Seed {
        // The fractional digits of pi: they keep the four keys apart, even for the seed zero.
        let [a, b] = random;
        Seed([
            a ^ 0x243f_6a88_85a3_08d3,
            b ^ 0x1319_8a2e_0370_7344,
            a.rotate_left(32) ^ 0xa409_3822_299f_31d0,
            // Odd, so that the last multiplication loses nothing.
            b.rotate_left(32) ^ 0x082e_fa98_ec4e_6c89 | 1,
        ])
    }
}

/// A hash of the flow with its direction, for equal-cost paths. 0 if `frame` is not the one that was parsed.
#[inline]
pub fn flow_hash(parsed: &Parsed, frame: &[u8], seed: &Seed) -> u32 {
    hash(parsed, frame, seed, |first, second| (first, second), |first, second| (first, second))
}

/// A hash of the flow that is the same for both directions, for workers. An ICMP error has the hash of the packet that it
/// quotes. 0 if `frame` is not the one that was parsed.
#[inline]
pub fn symmetric_hash(parsed: &Parsed, frame: &[u8], seed: &Seed) -> u32 {
    if matches!(parsed.protocol, protocol::ICMP | protocol::ICMPV6)
        && let Some(quoted) = quoted(parsed, frame)
    {
        return hash(&quoted, frame, seed, ordered, ordered);
    }
    hash(parsed, frame, seed, ordered, ordered)
}

/// The packet that an ICMP error quotes (RFC 792; RFC 4443, 2.1), as far as a hash or a session reads it: most of it is cut off. Its
/// headers are behind those of the error, in the same frame. `None` for
/// any other packet.
#[cold]
pub fn quoted(parsed: &Parsed, frame: &[u8]) -> Option<Parsed> {
    use icmpv4::kind::{PARAMETER_PROBLEM, REDIRECT, SOURCE_QUENCH, TIME_EXCEEDED, UNREACHABLE};
    let v4 = parsed.flags.contains(ParseFlags::IP4);
    let is_own = parsed.protocol == if v4 { protocol::ICMP } else { protocol::ICMPV6 };
    if !is_own || !parsed.flags.contains(ParseFlags::L4_HEADER) || parsed.flags.intersects(ParseFlags::FRAGMENT) {
        return None;
    }
    let message = parsed.transport(frame);
    let kind = *message.first()?;
    let is_error = match v4 {
        true => matches!(kind, UNREACHABLE | SOURCE_QUENCH | REDIRECT | TIME_EXCEEDED | PARAMETER_PROBLEM),
        // RFC 4443, 2.1: errors have a zero in the upper bit of their type.
        false => kind < 128,
    };
    let inner = message.get(icmpv4::LENGTH..).filter(|_| is_error)?;
    let l3 = parsed.l4.checked_add(icmpv4::LENGTH as u16)?;
    let (headers, protocol, is_fragment, is_later) = if v4 {
        let header = inner.first_chunk::<{ ipv4::LENGTH }>().filter(|header| header[0] >> 4 == 4)?;
        let fragment = be16(header, ipv4::FRAGMENT) & !ipv4::DONT_FRAGMENT;
        let is_later = fragment & ipv4::OFFSET_MASK != 0;
        (usize::from(header[0] & 0xf) * 4, header[ipv4::PROTOCOL], fragment != 0, is_later)
    } else {
        inner.first_chunk::<{ ipv6::LENGTH }>().filter(|header| header[0] >> 4 == 6)?;
        let walk = ipv6::walk(inner).ok()?;
        let is_fragment = walk.fragment.is_some_and(|fragment| !fragment.is_atomic());
        let is_later = walk.fragment.is_some_and(|fragment| fragment.offset > 0);
        (walk.l4.unwrap_or(inner.len()), walk.protocol, is_fragment, is_later)
    };
    let rest = inner.len().checked_sub(headers)?;
    let flags = if v4 { ParseFlags::IP4 } else { ParseFlags::IP6 }
        | ParseFlags::FRAGMENT.when(is_fragment)
        | ParseFlags::LATER_FRAGMENT.when(is_later)
        | ParseFlags::L4.when(rest >= 4)
        | ParseFlags::L4_HEADER.when(rest >= icmpv4::LENGTH);
    let l4 = l3.checked_add(u16::try_from(headers).ok()?)?;
    Some(Parsed { l3, l4, protocol, flags, l3_length: inner.len() as u32 })
}

/// Returns [`symmetric_hash`] for packets of `protocol` between two endpoints, to find ports whose flow has a given
/// worker. Without ports both are 0.
#[inline]
pub fn symmetric_hash_v4(seed: &Seed, protocol: u8, a: (Ipv4Addr, u16), b: (Ipv4Addr, u16)) -> u32 {
    let (first, second) = ordered(endpoint_v4(a.0.to_bits(), a.1), endpoint_v4(b.0.to_bits(), b.1));
    mix_v4(seed, protocol, first, second)
}

/// As [`symmetric_hash_v4`], for IPv6.
#[inline]
pub fn symmetric_hash_v6(seed: &Seed, protocol: u8, a: (Ipv6Addr, u16), b: (Ipv6Addr, u16)) -> u32 {
    let (first, second) = ordered((a.0.to_bits(), a.1), (b.0.to_bits(), b.1));
    mix_v6(seed, protocol, first, second)
}

/// A hash of the SPI of ESP, for the worker that owns its SA.
#[inline]
pub const fn spi_hash(spi: u32, seed: &Seed) -> u32 {
    finish(seed, fold(spi as u64 ^ seed.0[0], seed.0[1]))
}

/// The smaller one first.
#[inline(always)]
fn ordered<T: Ord>(a: T, b: T) -> (T, T) {
    if a <= b { (a, b) } else { (b, a) }
}

/// An address and a port: 48 bits for IPv4 in one word.
#[inline(always)]
fn endpoint_v4(address: u32, port: u16) -> u64 {
    u64::from(address) << 16 | u64::from(port)
}

/// An address and a port of IPv6.
type EndpointV6 = (u128, u16);

#[inline(always)]
fn hash(
    parsed: &Parsed,
    frame: &[u8],
    seed: &Seed,
    order_v4: impl Fn(u64, u64) -> (u64, u64),
    order_v6: impl Fn(EndpointV6, EndpointV6) -> (EndpointV6, EndpointV6),
) -> u32 {
    let packet = frame.get(usize::from(parsed.l3)..).unwrap_or(&[]);
    let (source_port, destination_port) = ports(parsed, frame);
    let protocol = if parsed.flags.contains(ParseFlags::FRAGMENT) { 0 } else { parsed.protocol };
    if parsed.flags.contains(ParseFlags::IP4) {
        let Some(header) = packet.first_chunk::<{ ipv4::LENGTH }>() else { return 0 };
        let source = endpoint_v4(u32::from_be_bytes(array(header, ipv4::SOURCE)), source_port);
        let destination = endpoint_v4(u32::from_be_bytes(array(header, ipv4::DESTINATION)), destination_port);
        let (first, second) = order_v4(source, destination);
        mix_v4(seed, protocol, first, second)
    } else {
        let Some(header) = packet.first_chunk::<{ ipv6::LENGTH }>() else { return 0 };
        let source = (u128::from_be_bytes(array(header, ipv6::SOURCE)), source_port);
        let destination = (u128::from_be_bytes(array(header, ipv6::DESTINATION)), destination_port);
        let (first, second) = order_v6(source, destination);
        mix_v6(seed, protocol, first, second)
    }
}

/// Returns the fields that distinguish flows between the same addresses, as a pair of ports; zeros if there are none.
#[inline(always)]
fn ports(parsed: &Parsed, frame: &[u8]) -> (u16, u16) {
    if parsed.flags.intersects(ParseFlags::FRAGMENT) {
        return (0, 0);
    }
    if parsed.flags.contains(ParseFlags::L4) && protocol::has_ports(parsed.protocol) {
        let Some(bytes) = frame.get(usize::from(parsed.l4)..).and_then(<[u8]>::first_chunk::<4>) else {
            return (0, 0);
        };
        return (be16(bytes, 0), be16(bytes, 2));
    }
    portless(parsed, frame)
}

fn portless(parsed: &Parsed, frame: &[u8]) -> (u16, u16) {
    let payload = parsed.transport(frame);
    let echo = match parsed.protocol {
        protocol::ESP => {
            return payload.first_chunk::<4>().map_or((0, 0), |spi| (be16(spi, 0), be16(spi, 2)));
        }
        protocol::ICMP => [icmpv4::kind::ECHO_REQUEST, icmpv4::kind::ECHO_REPLY],
        protocol::ICMPV6 => [icmpv6::kind::ECHO_REQUEST, icmpv6::kind::ECHO_REPLY],
        _ => return (0, 0),
    };
    match icmpv4::Header::new(payload) {
        Ok(header) if parsed.flags.contains(ParseFlags::L4_HEADER) && echo.contains(&header.kind()) => {
            (header.identifier(), header.identifier())
        }
        _ => (0, 0),
    }
}

/// The upper half of a product folded onto the lower one.
#[inline(always)]
const fn fold(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    product as u64 ^ (product >> 64) as u64
}

#[inline(always)]
const fn finish(seed: &Seed, state: u64) -> u32 {
    let mixed = fold(state ^ seed.0[2], seed.0[3]);
    (mixed ^ mixed >> 32) as u32
}

#[inline(always)]
const fn mix_v4(seed: &Seed, protocol: u8, first: u64, second: u64) -> u32 {
    // An endpoint has 48 bits: the protocol fits above.
    let second = second | (protocol as u64) << 48;
    finish(seed, fold(first ^ seed.0[0], second ^ seed.0[1]))
}

#[inline(always)]
const fn mix_v6(seed: &Seed, protocol: u8, first: EndpointV6, second: EndpointV6) -> u32 {
    // Networks with networks, hosts with hosts, so that addresses of both endpoints meet in each product.
    let networks = fold((first.0 >> 64) as u64 ^ seed.0[0], (second.0 >> 64) as u64 ^ seed.0[1]);
    let hosts = fold(first.0 as u64 ^ seed.0[1], second.0 as u64 ^ seed.0[0]);
    let rest = (first.1 as u64) << 32 | (second.1 as u64) << 16 | protocol as u64;
    finish(seed, fold(networks ^ rest ^ seed.0[2], hosts ^ seed.0[3]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::parse;
    use crate::text::arbitrary::texts;
    use crate::text::{Macs, PacketText};
    use crate::wire::MacAddress;

    const SEED: Seed = Seed::new([0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210]);

    fn frame(text: &str) -> (Parsed, Vec<u8>) {
        let macs = Macs { from: MacAddress([2, 0, 0, 0, 0, 1]), to: MacAddress([2, 0, 0, 0, 0, 2]) };
        let frame = text.parse::<PacketText>().unwrap().frame(macs);
        let l3 = usize::from(parse::ethernet(&frame).unwrap().l3);
        let parsed = if frame[l3] >> 4 == 4 { parse::ipv4(&frame, l3) } else { parse::ipv6(&frame, l3) };
        (parsed.unwrap(), frame)
    }

    fn flow(text: &str) -> u32 {
        let (parsed, frame) = frame(text);
        flow_hash(&parsed, &frame, &SEED)
    }

    fn symmetric(text: &str) -> u32 {
        let (parsed, frame) = frame(text);
        symmetric_hash(&parsed, &frame, &SEED)
    }

    #[test]
    fn what_takes_part() {
        let base = "udp from 10.0.0.1 port 1 to 10.0.0.2 port 2";
        for same in [" ttl 9", " length 100", " dscp 3", " vlan 7", " df"] {
            assert_eq!(flow(&format!("{base}{same}")), flow(base));
            assert_eq!(symmetric(&format!("{base}{same}")), symmetric(base));
        }
        for other in [
            "udp from 10.0.0.1 port 2 to 10.0.0.2 port 2",
            "udp from 10.0.0.1 port 1 to 10.0.0.2 port 1",
            "udp from 10.0.0.3 port 1 to 10.0.0.2 port 2",
            "udp from 10.0.0.1 port 1 to 10.0.0.3 port 2",
            "tcp from 10.0.0.1 port 1 to 10.0.0.2 port 2",
            "udp from 10.0.0.1 port 2 to 10.0.0.2 port 1",
        ] {
            assert_ne!(flow(other), flow(base), "{other}");
            assert_ne!(symmetric(other), symmetric(base), "{other}");
        }
        let reply = "udp from 10.0.0.2 port 2 to 10.0.0.1 port 1";
        assert_ne!(flow(reply), flow(base));
        assert_eq!(symmetric(reply), symmetric(base));
        let esp = |spi: u32| flow(&format!("esp from 10.0.0.1 to 10.0.0.2 spi 0x{spi:x}"));
        assert_ne!(esp(0x100), esp(0x101));
    }

    #[test]
    fn fragments_stay_together() {
        for hash in [flow, symmetric] {
            let first = hash("udp from 10.0.0.1 port 1 to 10.0.0.2 port 2 fragment 0+");
            assert_eq!(first, hash("udp from 10.0.0.1 to 10.0.0.2 fragment 8+"));
            assert_eq!(first, hash("udp from 10.0.0.1 to 10.0.0.2 fragment 1480"));
            assert_ne!(first, hash("udp from 10.0.0.1 port 1 to 10.0.0.2 port 2"));
            assert_ne!(first, hash("udp from 10.0.0.1 to 10.0.0.3 fragment 8+"));
        }
    }

    #[test]
    fn fragments_stay_together_whatever_their_headers() {
        // Destination options behind the fragment header of the first: it knows the protocol, the later one does not.
        let options = [protocol::ICMPV6, 0, 1, 4, 0, 0, 0, 0];
        let (_, mut first) = frame("254 from 2001:db8::1 to 2001:db8::2 fragment 0+ length 64");
        first[14 + 48..14 + 56].copy_from_slice(&options);
        let (_, mut later_frame) = frame("254 from 2001:db8::1 to 2001:db8::2 fragment 16");
        for frame in [&mut first, &mut later_frame] {
            frame[14 + 40] = protocol::DESTINATION_OPTIONS;
        }
        let (first_parsed, later) = (parse::ipv6(&first, 14).unwrap(), parse::ipv6(&later_frame, 14).unwrap());
        assert_eq!((first_parsed.protocol, later.protocol), (protocol::ICMPV6, protocol::DESTINATION_OPTIONS));
        for hash in [flow_hash, symmetric_hash] {
            assert_eq!(hash(&first_parsed, &first, &SEED), hash(&later, &later_frame, &SEED));
        }
    }

    /// The frame of an error about a packet, quoting so many octets of it.
    fn error(of: &str, from: &str, to: &str, octets: usize) -> u32 {
        let (offending, frame) = frame(of);
        let packet = &frame[usize::from(offending.l3)..];
        let quoted = &packet[..octets.min(packet.len())];
        let v4 = offending.flags.contains(ParseFlags::IP4);
        let length = 8 + quoted.len();
        let mut error = vec![0; 14];
        if v4 {
            let address = |text: &str| text.parse::<Ipv4Addr>().unwrap().octets();
            error.extend([0x45, 0, 0, 20 + length as u8, 0, 0, 0, 0, 64, protocol::ICMP, 0, 0]);
            error.extend([address(from), address(to)].concat());
            let checksum = crate::checksum::of(&error[14..]).to_be_bytes();
            error[24..26].copy_from_slice(&checksum);
            error.extend([icmpv4::kind::TIME_EXCEEDED, 0, 0, 0, 0, 0, 0, 0]);
        } else {
            let address = |text: &str| text.parse::<Ipv6Addr>().unwrap().octets();
            error.extend([0x60, 0, 0, 0, 0, length as u8, protocol::ICMPV6, 64]);
            error.extend([address(from), address(to)].concat());
            error.extend([icmpv6::kind::TIME_EXCEEDED, 0, 0, 0, 0, 0, 0, 0]);
        }
        error.extend(quoted);
        let parsed = if v4 { parse::ipv4(&error, 14) } else { parse::ipv6(&error, 14) };
        symmetric_hash(&parsed.unwrap(), &error, &SEED)
    }

    #[test]
    fn errors_belong_to_the_flow_that_they_quote() {
        for (packet, reply, router, headers) in [
            (
                "tcp from 10.0.0.1 port 1000 to 192.0.2.2 port 80",
                "tcp from 192.0.2.2 port 80 to 10.0.0.1 port 1000",
                ("203.0.113.9", "10.0.0.1"),
                20,
            ),
            (
                "udp from 2001:db8::1 port 1000 to 2001:db8:2::2 port 53",
                "udp from 2001:db8:2::2 port 53 to 2001:db8::1 port 1000",
                ("2001:db8:9::9", "2001:db8::1"),
                40,
            ),
            (
                "icmp from 10.0.0.1 to 192.0.2.2 type echo-request",
                "icmp from 192.0.2.2 to 10.0.0.1 type echo-reply",
                ("203.0.113.9", "10.0.0.1"),
                20,
            ),
            (
                "esp from 10.0.0.1 to 192.0.2.2 spi 0x1234",
                "esp from 10.0.0.1 to 192.0.2.2 spi 0x1234",
                ("203.0.113.9", "10.0.0.1"),
                20,
            ),
            (
                "udp from 10.0.0.1 to 192.0.2.2 fragment 1480",
                "udp from 10.0.0.1 to 192.0.2.2 fragment 8+",
                ("203.0.113.9", "10.0.0.1"),
                20,
            ),
        ] {
            let owner = symmetric(packet);
            assert_eq!(symmetric(reply), owner, "{reply}");
            for octets in [headers + 8, headers + 20, 128] {
                assert_eq!(error(packet, router.0, router.1, octets), owner, "{packet}, {octets} octets");
            }
        }
        // Where too little is quoted, the error is a flow of its own, and nothing is read beyond its end.
        for octets in 0..20 {
            let packet = "tcp from 10.0.0.1 port 1000 to 192.0.2.2 port 80";
            assert_eq!(
                error(packet, "203.0.113.9", "10.0.0.1", octets),
                symmetric("icmp from 203.0.113.9 to 10.0.0.1 type time-exceeded"),
                "{octets} octets"
            );
        }
    }

    #[test]
    fn echo_requests_and_replies_meet() {
        for (protocol, from, to) in [("icmp", "10.0.0.1", "10.0.0.2"), ("icmp6", "2001:db8::1", "2001:db8::2")] {
            let hash = |text: String, identifier: u16| {
                let (parsed, mut frame) = frame(&text);
                let at = usize::from(parsed.l4) + 4;
                frame[at..at + 2].copy_from_slice(&identifier.to_be_bytes());
                symmetric_hash(&parsed, &frame, &SEED)
            };
            let request = format!("{protocol} from {from} to {to} type echo-request");
            let reply = format!("{protocol} from {to} to {from} type echo-reply");
            assert_eq!(hash(request.clone(), 7), hash(reply, 7));
            assert_ne!(hash(request.clone(), 7), hash(request, 8));
            let error = format!("{protocol} from {from} to {to} type unreachable");
            assert_eq!(hash(error.clone(), 7), hash(error, 8), "only echoes have an identifier");
        }
    }

    #[test]
    fn a_frame_that_was_not_parsed_has_a_hash_too() {
        let (parsed, frame) = frame("udp from 10.0.0.1 port 1 to 10.0.0.2 port 2");
        for length in 0..frame.len() {
            flow_hash(&parsed, &frame[..length], &SEED);
            symmetric_hash(&parsed, &frame[..length], &SEED);
        }
        assert_eq!(flow_hash(&parsed, &[], &SEED), 0);
    }

    /// The statistic of a chi-squared test for an even spread over `buckets`, less its mean, in standard deviations.
    fn unevenness(hashes: impl Iterator<Item = u32>, buckets: usize) -> f64 {
        let mut counts = vec![0u32; buckets];
        let mut total = 0u32;
        for hash in hashes {
            counts[((u64::from(hash) * buckets as u64) >> 32) as usize] += 1;
            total += 1;
        }
        let expected = f64::from(total) / buckets as f64;
        let chi: f64 = counts.iter().map(|count| (f64::from(*count) - expected).powi(2) / expected).sum();
        let freedom = buckets as f64 - 1.0;
        (chi - freedom) / (2.0 * freedom).sqrt()
    }

    #[test]
    fn regular_flows_spread_evenly() {
        let v4 = |bits: u32| Ipv4Addr::from_bits(bits);
        let v6 = |low: u128| Ipv6Addr::from_bits(0x2001_0db8 << 96 | low);
        let server = v4(0xc000_0209);
        type Flows = Box<dyn Fn(&Seed, u32) -> u32>;
        let sets: [(&str, Flows); 6] = [
            ("hosts", Box::new(move |s, i| symmetric_hash_v4(s, 6, (v4(0x0a00_0000 + i), 1024), (server, 443)))),
            ("ports", Box::new(move |s, i| symmetric_hash_v4(s, 6, (v4(0x0a00_0001), i as u16), (server, 443)))),
            ("networks", Box::new(move |s, i| symmetric_hash_v4(s, 6, (v4(i << 12), 1024), (server, 443)))),
            ("pairs", Box::new(move |s, i| symmetric_hash_v4(s, 17, (v4(i), 53), (v4(!i), 53)))),
            (
                "hosts of IPv6",
                Box::new(move |s, i| symmetric_hash_v6(s, 6, (v6(i.into()), 1), (v6(u128::MAX >> 64), 2))),
            ),
            (
                "networks of IPv6",
                Box::new(move |s, i| symmetric_hash_v6(s, 6, (v6(u128::from(i) << 64), 1), (v6(1), 2))),
            ),
        ];
        for random in [[0, 0], [1, 2], [u64::MAX, 0x5555_5555_5555_5555]] {
            let seed = Seed::new(random);
            for (name, hash) in &sets {
                for buckets in [2, 3, 7, 16, 256, 1000] {
                    let upper = unevenness((0..65_536).map(|i| hash(&seed, i)), buckets);
                    let lower = unevenness((0..65_536).map(|i| hash(&seed, i).reverse_bits()), buckets);
                    assert!(upper < 6.0 && lower < 6.0, "{name} over {buckets}: {upper:.1} {lower:.1}");
                }
            }
        }
    }

    #[test]
    fn every_bit_reaches_every_bit() {
        // How often each bit of the hash changes with each bit of the flow, over many flows: half of the time.
        let flows = 4000u64;
        let random = |n: u64| fold(n ^ 0x9e37_79b9_7f4a_7c15, 0xd1b5_4a32_d192_ed03);
        for bit in 0..104 {
            let mut changed = [0u32; 32];
            for n in 0..flows {
                let hash = |flip: u128| {
                    let bits = (u128::from(random(2 * n)) << 64 | u128::from(random(2 * n + 1))) ^ flip;
                    mix_v4(
                        &SEED,
                        bits as u8,
                        (bits >> 8) as u64 & 0xffff_ffff_ffff,
                        (bits >> 56) as u64 & 0xffff_ffff_ffff,
                    )
                };
                let difference = hash(0) ^ hash(1 << bit);
                changed.iter_mut().enumerate().for_each(|(i, count)| *count += difference >> i & 1);
            }
            for (i, count) in changed.iter().enumerate() {
                let share = f64::from(*count) / flows as f64;
                assert!((0.42..0.58).contains(&share), "bit {bit} changes bit {i} in {share} of the cases");
            }
        }
    }

    proptest! {
        #[test]
        fn both_directions_are_one(text in texts(), random in any::<[u64; 2]>()) {
            let seed = Seed::new(random);
            let (parsed, frame) = frame(&text);
            let (there, l3) = (symmetric_hash(&parsed, &frame, &seed), usize::from(parsed.l3));
            let mut back = frame.clone();
            let (at, length) = if parsed.flags.contains(ParseFlags::IP4) { (12, 4) } else { (8, 16) };
            back[l3 + at..l3 + at + 2 * length].rotate_left(length);
            if parsed.ports(&frame).is_some() {
                let l4 = usize::from(parsed.l4);
                back[l4..l4 + 4].rotate_left(2);
            }
            if parsed.protocol != protocol::ESP {
                prop_assert_eq!(symmetric_hash(&parsed, &back, &seed), there);
            }
            // Without a frame at hand it is the same.
            let whole = !parsed.flags.contains(ParseFlags::FRAGMENT);
            if let Some((source, destination)) = parsed.ports(&frame).filter(|_| whole) {
                let packet = parsed.packet(&frame);
                let computed = if parsed.flags.contains(ParseFlags::IP4) {
                    let header = ipv4::Header::new(packet).unwrap();
                    let (from, to) = ((header.source(), source), (header.destination(), destination));
                    symmetric_hash_v4(&seed, parsed.protocol, from, to)
                } else {
                    let header = ipv6::Header::new(packet).unwrap();
                    let (from, to) = ((header.source(), source), (header.destination(), destination));
                    symmetric_hash_v6(&seed, parsed.protocol, from, to)
                };
                prop_assert_eq!(computed, there);
            }
        }
    }
}
