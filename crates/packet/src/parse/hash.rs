//! Flow hashes: which of several equal paths, and which worker, a packet goes to.
//!
//! A flow is two endpoints, each an address with a port, and a protocol. The words that make it up are combined by
//! *folded multiplication*: two 64-bit words, each covered with a secret key, are multiplied to 128 bits, and the upper
//! half is folded onto the lower one. Every bit of the product's middle depends on every bit of both words, so one
//! multiplication (three to four cycles) mixes as much as rounds of shifts do. A last fold spreads what it has over all
//! bits of the result.
//!
//! The hash is keyed so that nobody can aim flows at one path or worker without knowing the keys. It is no
//! cryptographic hash: use it to spread load, not to authenticate.
//!
//! What takes part:
//! - for protocols with ports, the ports; for ICMP echo requests and replies, the identifier on both sides; for ESP,
//!   the SPI (RFC 4303), in place of the two ports;
//! - for every fragment, the first included, neither: all fragments of a packet hash alike;
//! - never the IPv6 flow label. Hosts change it within a flow (to move away from a bad path), which would reorder the
//!   flow and take it away from its worker. RFC 6438 wants it for tunnels only; there the inner flow decides our hash.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::{ParseFlags, Parsed};
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

/// A hash of the flow that is the same for both directions, for workers. 0 if `frame` is not the one that was parsed.
#[inline]
pub fn symmetric_hash(parsed: &Parsed, frame: &[u8], seed: &Seed) -> u32 {
    hash(parsed, frame, seed, ordered, ordered)
}

/// What [`symmetric_hash`] returns for packets of `protocol` between two endpoints: how to find ports whose flow has a
/// given worker. Without ports both are 0.
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
    if parsed.flags.contains(ParseFlags::IP4) {
        let Some(header) = packet.first_chunk::<{ ipv4::LENGTH }>() else { return 0 };
        let source = endpoint_v4(u32::from_be_bytes(array(header, ipv4::SOURCE)), source_port);
        let destination = endpoint_v4(u32::from_be_bytes(array(header, ipv4::DESTINATION)), destination_port);
        let (first, second) = order_v4(source, destination);
        mix_v4(seed, parsed.protocol, first, second)
    } else {
        let Some(header) = packet.first_chunk::<{ ipv6::LENGTH }>() else { return 0 };
        let source = (u128::from_be_bytes(array(header, ipv6::SOURCE)), source_port);
        let destination = (u128::from_be_bytes(array(header, ipv6::DESTINATION)), destination_port);
        let (first, second) = order_v6(source, destination);
        mix_v6(seed, parsed.protocol, first, second)
    }
}

/// What tells flows between the same addresses apart, as a pair of ports; zeros if nothing does.
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
