//! ICMP errors about the MTU of an SA's path (RFC 4301, 8.2; RFC 1191; RFC 8201).
//!
//! Anybody can send such an error. It counts only if it quotes a packet of ESP that the gateway has sent lately: with the
//! addresses and the ports of an SA, its SPI, and one of its last sequence numbers. So it has to have been on the path, or guess 44 bits.

use weir_packet::checksum;
use weir_packet::packet::Packet;
use weir_packet::parse::{self, ParseFlags, Parsed};
use weir_packet::wire::{icmpv4, icmpv6, ipv4, ipv6, protocol, udp};

use super::super::Context;
use crate::graph::record::Fate;
use crate::graph::session;
use crate::root::Root;
use crate::root::family::Family;
use crate::root::ipsec::Outbound;

/// The number of last sequence numbers that an error may quote. At a million packets a second, it may be a second old.
const RECENT: u64 = 1 << 20;

/// The least MTU that is believed for IPv4: all hosts take so many octets (RFC 791, 3.1).
const LEAST_V4: u32 = 576;

/// MTUs of links, for errors of routers without an MTU (RFC 1191, 7).
const PLATEAUS: [u32; 8] = [32_000, 17_914, 8_166, 4_352, 2_002, 1_492, 1_006, LEAST_V4];

/// An error that counts.
struct Report<'a> {
    outbound: &'a Outbound,
    mtu: u16,
}

/// Returns whether the packet reports the MTU of an SA's path: policies about packets in clear do not apply to it.
#[inline]
pub(in super::super) fn is_report(root: &Root, packet: &Packet) -> bool {
    may_be_report(root, packet) && find(root, packet).is_some()
}

/// Takes in an error about the MTU of an SA's path; false for any other packet.
#[inline]
pub(in super::super) fn take_report(context: &mut Context<'_>, packet: &Packet) -> bool {
    may_be_report(context.root, packet) && take(context, packet)
}

#[inline]
fn may_be_report(root: &Root, packet: &Packet) -> bool {
    root.ipsec.is_active() && matches!(packet.protocol(), protocol::ICMP | protocol::ICMPV6)
}

#[cold]
fn take(context: &mut Context<'_>, packet: &Packet) -> bool {
    let root: &Root = context.root;
    let Some(report) = find(root, packet) else { return false };
    if report.outbound.path.lower(report.mtu, context.now) {
        root.ipsec.paths.learn();
    }
    context.counters.local.add(1);
    context.record(packet, Fate::Local);
    true
}

#[cold]
fn find<'a>(root: &'a Root, packet: &Packet) -> Option<Report<'a>> {
    match packet.flags().contains(ParseFlags::IP4) {
        true => find_in::<u32>(root, packet),
        false => find_in::<u128>(root, packet),
    }
}

fn find_in<'a, K: Family>(root: &'a Root, packet: &Packet) -> Option<Report<'a>> {
    let frame = packet.data();
    let parsed = packet.parsed();
    let quoted = parse::quoted(&parsed, frame)?;
    let reported = reported_mtu::<K>(parsed.transport(frame))?;
    let header = frame.get(usize::from(quoted.l3)..)?;
    let length = usize::from(quoted.l4.checked_sub(quoted.l3)?);
    let is_whole = !quoted.flags.contains(ParseFlags::LATER_FRAGMENT) && session::is_intact(packet);
    if !is_whole || K::IS_V4 && checksum::of(header.get(..length)?) != 0 {
        return None;
    }
    let (source, destination) = K::endpoints(header)?;
    if K::endpoints(packet.l3())?.1 != source {
        return None;
    }
    let (spi, low, ports) = esp(&quoted, frame)?;
    let vrf = root.interfaces.get(packet.interface() as usize)?.vrf;
    let sa = root.ipsec.outbound(vrf, (source.address(), destination.address()), spi)?;
    let outbound = sa.outbound.as_ref().filter(|_| ports == sa.udp)?;
    let total = total_length::<K>(header)?;
    let mtu = believed(reported, total, K::IS_V4)?;
    is_recent(outbound, low).then_some(Report { outbound, mtu })
}

/// Returns the MTU of an ICMP message, 0 if it has none; `None` if it is no error about an MTU.
fn reported_mtu<K: Family>(message: &[u8]) -> Option<u32> {
    let &[kind, code, _, _, a, b, c, d] = message.first_chunk::<8>()?;
    match (K::IS_V4, kind, code) {
        (true, icmpv4::kind::UNREACHABLE, icmpv4::unreachable::FRAGMENTATION_NEEDED) => {
            Some(u16::from_be_bytes([c, d]).into())
        }
        // The receiver ignores the code (RFC 4443, 3.2).
        (false, icmpv6::kind::PACKET_TOO_BIG, _) => Some(u32::from_be_bytes([a, b, c, d])),
        _ => None,
    }
}

/// Source and destination port of ESP in UDP.
type Ports = Option<(u16, u16)>;

/// SPI, lower half of the sequence number, and ports of a quoted packet of ESP, as far as all of these are there.
fn esp(quoted: &Parsed, frame: &[u8]) -> Option<(u32, u32, Ports)> {
    let transport = frame.get(usize::from(quoted.l4)..)?;
    let (esp, ports) = match quoted.protocol {
        protocol::ESP => (transport, None),
        protocol::UDP => {
            let (header, esp) = transport.split_first_chunk::<{ udp::LENGTH }>()?;
            let port = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
            (esp, Some((port(0), port(2))))
        }
        _ => return None,
    };
    let &[a, b, c, d, e, f, g, h] = esp.first_chunk::<8>()?;
    Some((u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]), ports))
}

/// The length that a quoted header says its packet has.
fn total_length<K: Family>(header: &[u8]) -> Option<u32> {
    let at = if K::IS_V4 { ipv4::TOTAL_LENGTH } else { ipv6::PAYLOAD_LENGTH };
    let length = u16::from_be_bytes(*header.get(at..)?.first_chunk::<2>()?);
    Some(if K::IS_V4 { length.into() } else { u32::from(length) + ipv6::LENGTH as u32 })
}

/// The MTU to take over; `None`: the packet that is quoted was not too long for it.
fn believed(told: u32, total: u32, v4: bool) -> Option<u16> {
    let (told, least) = match (v4, told) {
        (true, 0) => (PLATEAUS.into_iter().find(|&mtu| mtu < total)?, LEAST_V4),
        (true, told) => (told, LEAST_V4),
        (false, told) => (told, ipv6::MIN_MTU as u32),
    };
    (told < total).then(|| u16::try_from(told.max(least)).unwrap_or(u16::MAX))
}

/// One of the last numbers of an SA has this lower half.
fn is_recent(outbound: &Outbound, low: u32) -> bool {
    let last = outbound.sequence.next().wrapping_sub(1);
    let behind = (last as u32).wrapping_sub(low);
    u64::from(behind) < RECENT.min(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_mtu_is_believed_within_bounds_and_below_the_length_of_the_packet() {
        assert_eq!(believed(1400, 1500, true), Some(1400));
        assert_eq!(believed(1500, 1500, true), None);
        assert_eq!(believed(68, 1500, true), Some(576));
        assert_eq!(believed(0, 1500, true), Some(1492));
        assert_eq!(believed(0, 1492, true), Some(1006));
        assert_eq!(believed(0, 576, true), None);
        assert_eq!(believed(1400, 1500, false), Some(1400));
        assert_eq!(believed(68, 1500, false), Some(1280));
        assert_eq!(believed(70_000, 1500, false), None);
    }
}
