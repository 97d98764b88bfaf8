//! Segmentation of TCP segments and UDP datagrams that the kernel or a card has left uncut: what the sender's stack would have
//! sent without that offload.
//!
//! Each piece has the headers of the whole packet. TCP: sequence numbers count on, FIN and PSH stand in the last piece, CWR in the
//! first one (RFC 3168, 6.1.2). IPv4: identifications count on. Checksums are complete.

use crate::checksum::{self, Sum};
use crate::offload::{Checksum, Gso, Offload};
use crate::packet::Packet;
use crate::parse::ParseFlags;
use crate::tunnel::{self, Carrier, Inner};
use crate::wire::{ethernet, ipv4, ipv6, protocol, tcp, udp};

/// A packet that has not the headers that its offload state names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mismatch;

/// Returns how many packets a packet stands for on the wire, and the octets of their frames.
#[inline(always)]
pub fn on_wire(packet: &Packet) -> (u32, u32) {
    match packet.is_to_be_segmented() {
        false => (1, packet.len() as u32),
        true => segments_on_wire(packet),
    }
}

/// Returns how many packets a packet stands for on the wire, and their octets from the IP header on.
#[inline(always)]
pub fn of_ip(packet: &Packet) -> (u32, u32) {
    let (packets, octets) = on_wire(packet);
    (packets, octets.saturating_sub(packets * packet.l3_offset() as u32))
}

#[cold]
fn segments_on_wire(packet: &Packet) -> (u32, u32) {
    let Some((headers, segment)) = layout(packet) else { return (1, packet.len() as u32) };
    let segments = (packet.len() - headers).div_ceil(segment).max(1);
    (segments as u32, (packet.len() + (segments - 1) * headers) as u32)
}

/// The octets in front of the payload of a super-packet, in its frame, and those of the payload of a segment. The headers inside of
/// a tunnel count, too: a checksum that is still to be completed is that of the innermost header.
fn layout(packet: &Packet) -> Option<(usize, usize)> {
    let offload = packet.offload();
    let l4 = match offload.checksum {
        Checksum::Partial => usize::from(offload.start),
        _ => packet.l4_offset(),
    };
    let transport = match offload.gso {
        Gso::Tcp4 | Gso::Tcp6 => usize::from(packet.data().get(l4 + tcp::DATA_OFFSET)? >> 4) * 4,
        Gso::Udp => udp::LENGTH,
        Gso::None => return None,
    };
    let fits = l4 > 0 && offload.segment > 0 && l4 + transport <= packet.len();
    fits.then_some((l4 + transport, offload.segment.into()))
}

/// Takes all segments behind the first ones off a super-packet; `segments` stay. A single one that stays, or was alone from the
/// start, is a packet as any other, with a checksum that is to be completed: the kernel refuses a super-packet of one segment.
///
/// # Errors
/// If its headers are not what its offload state says. Nothing has changed then.
pub fn keep(packet: &mut Packet, segments: usize) -> Result<(), Mismatch> {
    let segmenter = Segmenter::new(packet)?;
    if segmenter.outer.is_some() {
        return Err(Mismatch);
    }
    let count = segmenter.count();
    if segments >= count && count > 1 {
        return Ok(());
    }
    let (l4, is_v4, is_tcp) = (segmenter.l4, segmenter.is_v4, segmenter.is_tcp);
    let payload = (segments * segmenter.segment).min(segmenter.payload.len());
    let (headers, pseudo) = (segmenter.headers.len(), segmenter.pseudo);
    packet.truncate(packet.l3_offset() + headers + payload);
    let offload = packet.offload();
    let l3 = packet.l3_mut();
    let (length, behind) = (l3.len(), l3.len() - l4);
    if is_v4 {
        // The whole packet fitted its length, which has 16 bits.
        l3[ipv4::TOTAL_LENGTH..][..2].copy_from_slice(&(length as u16).to_be_bytes());
        l3[ipv4::CHECKSUM..][..2].fill(0);
        let checksum = checksum::of(&l3[..l4]);
        l3[ipv4::CHECKSUM..][..2].copy_from_slice(&checksum.to_be_bytes());
    } else {
        l3[ipv6::PAYLOAD_LENGTH..][..2].copy_from_slice(&((length - ipv6::LENGTH) as u16).to_be_bytes());
    }
    let transport = &mut l3[l4..headers];
    let at = if is_tcp { tcp::CHECKSUM } else { udp::CHECKSUM };
    match is_tcp {
        // They stand in the last segment.
        true if segments < count => transport[tcp::FLAGS] &= !(tcp::Flags::FIN.0 | tcp::Flags::PSH.0),
        true => {}
        false => transport[4..6].copy_from_slice(&(behind as u16).to_be_bytes()),
    }
    let sum = pseudo.long(behind as u32).folded();
    transport[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    let start = (packet.l3_offset() + l4) as u16;
    let (gso, segment) = if segments.min(count) == 1 { (Gso::None, 0) } else { (offload.gso, offload.segment) };
    packet.set_offload(Offload { checksum: Checksum::Partial, gso, segment, start, offset: at as u16 });
    Ok(())
}

/// Returns whether a super-packet is a packet of a tunnel, and its segments are those of the packet inside: no device cuts it.
#[inline]
pub fn is_nested(packet: &Packet) -> bool {
    let offload = packet.offload();
    let is_outer = usize::from(offload.start) == packet.l4_offset();
    packet.is_to_be_segmented() && offload.checksum == Checksum::Partial && !is_outer
}

/// The length of the longest segment of a super-packet from its IP header on, in octets; of another packet its own.
#[inline]
pub fn longest(packet: &Packet) -> usize {
    let length = packet.len() - packet.l3_offset();
    match layout(packet) {
        Some((headers, segment)) => length.min(headers.saturating_sub(packet.l3_offset()) + segment),
        None => length,
    }
}

/// The headers of a tunnel around the packet that is cut.
#[derive(Debug, Clone, Copy)]
struct Outer {
    is_v4: bool,
    /// Where the header behind that of IP starts.
    l4: usize,
    is_udp: bool,
}

/// Cuts one packet.
#[derive(Debug, Clone)]
pub struct Segmenter<'a> {
    /// From the IP header to the end of the transport header.
    headers: &'a [u8],
    /// The headers in front of those of a packet in a tunnel.
    outer: Option<Outer>,
    /// Where the IP header of what is cut starts in `headers`.
    l3: usize,
    /// Where the transport header starts in `headers`.
    l4: usize,
    is_v4: bool,
    is_tcp: bool,
    payload: &'a [u8],
    /// Octets of payload of each piece but the last.
    segment: usize,
    /// Octets of payload that are cut off so far.
    done: usize,
    /// Pieces so far.
    count: u16,
    /// The sum of the pseudo-header without the length.
    pseudo: Sum,
    /// The sums of what is the same in all pieces.
    fixed: Fixed,
}

impl<'a> Segmenter<'a> {
    /// Prepares to cut a packet whose parsed layout is known.
    ///
    /// # Errors
    /// If its headers are not what its offload state says.
    pub fn new(packet: &'a Packet) -> Result<Segmenter<'a>, Mismatch> {
        if is_nested(packet) {
            return Segmenter::nested(packet).ok_or(Mismatch);
        }
        let offload = packet.offload();
        let l3 = packet.l3();
        let l4 = packet.l4_offset().checked_sub(packet.l3_offset()).ok_or(Mismatch)?;
        let is_v4 = packet.flags().contains(ParseFlags::IP4);
        let is_tcp = packet.protocol() == protocol::TCP;
        let fits = match offload.gso {
            Gso::Tcp4 => is_tcp && is_v4,
            Gso::Tcp6 => is_tcp && !is_v4,
            Gso::Udp => packet.protocol() == protocol::UDP,
            Gso::None => false,
        };
        let transport = l3.get(l4..).ok_or(Mismatch)?;
        let length = match is_tcp {
            true => usize::from(transport.get(tcp::DATA_OFFSET).ok_or(Mismatch)? >> 4) * 4,
            false => udp::LENGTH,
        };
        let least = if is_tcp { tcp::LENGTH } else { udp::LENGTH };
        let network = if is_v4 { ipv4::LENGTH } else { ipv6::LENGTH };
        if !fits || offload.segment == 0 || length < least || l4 < network || transport.len() < length {
            return Err(Mismatch);
        }
        let (headers, payload) = l3.split_at(l4 + length);
        let pseudo = pseudo(headers, l4, is_tcp, &offload, transport.len()).ok_or(Mismatch)?;
        let (segment, fixed) = (usize::from(offload.segment), Fixed::of(headers, (0, l4), is_v4, is_tcp, pseudo));
        Ok(Segmenter {
            headers,
            outer: None,
            l3: 0,
            l4,
            is_v4,
            is_tcp,
            payload,
            segment,
            done: 0,
            count: 0,
            pseudo,
            fixed,
        })
    }

    /// Prepares to cut a packet of a tunnel (VXLAN, Geneve, GUE, GRE without a checksum and a sequence number, IP in IP) into those of the
    /// packet inside, whose transport header is where its checksum is to be completed.
    #[cold]
    fn nested(packet: &'a Packet) -> Option<Segmenter<'a>> {
        let (offload, whole) = (packet.offload(), packet.l3());
        let outer_l4 = packet.l4_offset().checked_sub(packet.l3_offset())?;
        let l4 = usize::from(offload.start).checked_sub(packet.l3_offset())?;
        let is_tcp = offload.gso != Gso::Udp;
        let own = if is_tcp { protocol::TCP } else { protocol::UDP };
        let l3 = inner(packet, outer_l4, l4)?;
        let header = whole.get(l3..)?;
        let word = |at: usize| Some(usize::from(u16::from_be_bytes([*header.get(at)?, *header.get(at + 1)?])));
        let is_v4 = header.first()? >> 4 == 4;
        let (length, named, octets) = match is_v4 {
            true => (ipv4::LENGTH, *header.get(ipv4::PROTOCOL)?, word(ipv4::TOTAL_LENGTH)?),
            false => (ipv6::LENGTH, *header.get(ipv6::NEXT_HEADER)?, word(ipv6::PAYLOAD_LENGTH)? + ipv6::LENGTH),
        };
        let fits = match offload.gso {
            Gso::Tcp4 => is_v4,
            Gso::Tcp6 => !is_v4,
            Gso::Udp => true,
            Gso::None => false,
        };
        let plain = !is_v4 || *header.first()? == 0x45;
        if !(fits && plain && named == own && octets == header.len() && l3 + length == l4) || offload.segment == 0 {
            return None;
        }
        let transport = match is_tcp {
            true => usize::from(whole.get(l4 + tcp::DATA_OFFSET)? >> 4) * 4,
            false => udp::LENGTH,
        };
        if transport < if is_tcp { tcp::LENGTH } else { udp::LENGTH } || whole.len() < l4 + transport {
            return None;
        }
        let (headers, payload) = whole.split_at(l4 + transport);
        let pseudo = pseudo(headers, l4, is_tcp, &offload, whole.len() - l4)?;
        let is_udp = packet.protocol() == protocol::UDP;
        let outer = Some(Outer { is_v4: packet.flags().contains(ParseFlags::IP4), l4: outer_l4, is_udp });
        let (segment, fixed) = (usize::from(offload.segment), Fixed::of(headers, (l3, l4), is_v4, is_tcp, pseudo));
        Some(Segmenter { headers, outer, l3, l4, is_v4, is_tcp, payload, segment, done: 0, count: 0, pseudo, fixed })
    }

    /// Returns how many pieces are still to come.
    #[must_use]
    pub fn count(&self) -> usize {
        let rest = self.payload.len() - self.done;
        if self.count == 0 { rest.div_ceil(self.segment).max(1) } else { rest.div_ceil(self.segment) }
    }

    /// Passes over all pieces but the last.
    pub fn skip_to_last(&mut self) {
        let skipped = self.count().saturating_sub(1);
        self.done += skipped * self.segment;
        // A packet of IP has fewer octets.
        self.count += skipped as u16;
    }

    /// Returns whether there are several pieces, and the last one is shorter than the others.
    #[must_use]
    pub fn ends_shorter(&self) -> bool {
        self.payload.len() > self.segment && !self.payload.len().is_multiple_of(self.segment)
    }

    /// Returns whether all pieces were cut off.
    #[inline]
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.done == self.payload.len() && self.count > 0
    }

    /// Returns the length of the next piece from its IP header on, in octets; `None` after the last.
    #[inline]
    #[must_use]
    pub fn next_length(&self) -> Option<usize> {
        // Without a division, which `count` has.
        (!self.is_done()).then(|| self.headers.len() + self.segment.min(self.payload.len() - self.done))
    }

    /// Writes the next piece to the start of `out`, and returns its length in octets; `None` after the last. Also `None`, and the
    /// piece is still to come, if `out` is shorter than [`next_length`](Self::next_length).
    pub fn next(&mut self, out: &mut [u8]) -> Option<usize> {
        let length = self.next_length()?;
        let out = out.get_mut(..length)?;
        let (headers, payload) = out.split_at_mut(self.headers.len());
        headers.copy_from_slice(self.headers);
        let octets = payload.len();
        let data = Sum::new().copied(&self.payload[self.done..], payload);
        let (network, transport) = headers.split_at_mut(self.l4);
        finish_network(&mut network[self.l3..], self.is_v4, length - self.l3, self.count, self.fixed.network);
        // Transport headers have an even length, so the payload's sum follows.
        let sum = self.fixed.transport.long((transport.len() + octets) as u32).word(data.folded());
        match self.is_tcp {
            true => self.finish_tcp(transport, octets, sum),
            false => finish_udp(transport, octets, sum),
        }
        if let Some(outer) = self.outer {
            outer.finish(out, self.count);
        }
        self.done += octets;
        self.count += 1;
        Some(length)
    }

    /// Writes the sequence number, the flags and the checksum, whose sum lacks the first two.
    #[inline]
    fn finish_tcp(&self, header: &mut [u8], payload: usize, sum: Sum) {
        let Some(header) = header.first_chunk_mut::<{ tcp::LENGTH }>() else { return };
        let [a, b, c, d] = [0, 1, 2, 3].map(|at| header[tcp::SEQUENCE + at]);
        let sequence = u32::from_be_bytes([a, b, c, d]).wrapping_add(self.done as u32);
        header[tcp::SEQUENCE..][..4].copy_from_slice(&sequence.to_be_bytes());
        let is_last = self.done + payload == self.payload.len();
        let mut left_out = 0;
        if !is_last {
            left_out |= tcp::Flags::FIN.0 | tcp::Flags::PSH.0;
        }
        if self.count > 0 {
            left_out |= tcp::Flags::CWR.0;
        }
        header[tcp::FLAGS] &= !left_out;
        let flags = u16::from_be_bytes([header[tcp::DATA_OFFSET], header[tcp::FLAGS]]);
        let checksum = sum.long(sequence).word(flags).checksum();
        header[tcp::CHECKSUM..][..2].copy_from_slice(&checksum.to_be_bytes());
    }
}

/// The sums of what all pieces of a packet have in common.
#[derive(Debug, Clone, Copy)]
struct Fixed {
    /// The header of IPv4 without length, identification and checksum.
    network: Sum,
    /// The pseudo-header without the length, and the transport header: of TCP without sequence number, flags and checksum, of UDP
    /// without length and checksum.
    transport: Sum,
}

impl Fixed {
    /// `pseudo` is the sum of the pseudo-header without the length.
    fn of(headers: &[u8], (l3, l4): (usize, usize), is_v4: bool, is_tcp: bool, pseudo: Sum) -> Fixed {
        let parts = |from: &[u8], sum: Sum, parts: &[(usize, usize)]| {
            parts.iter().fold(sum, |sum, &(start, end)| sum.bytes(from.get(start..end).unwrap_or_default()))
        };
        let (network, transport) = headers.split_at(l4);
        let network = &network[l3..];
        let network = match is_v4 {
            true => {
                let own = [(0, 2), (ipv4::FRAGMENT, ipv4::CHECKSUM), (ipv4::SOURCE, network.len())];
                parts(network, Sum::new(), &own)
            }
            false => Sum::new(),
        };
        let tcp = [(0, 4), (8, 12), (tcp::WINDOW, tcp::CHECKSUM), (tcp::URGENT, transport.len())];
        let transport = parts(transport, pseudo, if is_tcp { &tcp } else { &[(0, 4)] });
        Fixed { network, transport }
    }
}

/// Writes the length and the checksum, whose sum lacks the length.
#[inline]
fn finish_udp(header: &mut [u8], payload: usize, sum: Sum) {
    let Some(header) = header.first_chunk_mut::<{ udp::LENGTH }>() else { return };
    // The packet fits its own length, which has 16 bits.
    let length = (udp::LENGTH + payload) as u16;
    header[4..6].copy_from_slice(&length.to_be_bytes());
    let checksum = checksum::udp(sum.word(length).checksum());
    header[udp::CHECKSUM..][..2].copy_from_slice(&checksum.to_be_bytes());
}

/// Writes the length of a packet into its IP header, and of IPv4 the identification of a piece, and the checksum, whose sum lacks both.
#[inline]
fn finish_network(header: &mut [u8], is_v4: bool, length: usize, count: u16, fixed: Sum) {
    if !is_v4 {
        let payload = (length - ipv6::LENGTH) as u16;
        header[ipv6::PAYLOAD_LENGTH..][..2].copy_from_slice(&payload.to_be_bytes());
        return;
    }
    let Some(header) = header.first_chunk_mut::<{ ipv4::LENGTH }>() else { return };
    let length = length as u16;
    header[ipv4::TOTAL_LENGTH..][..2].copy_from_slice(&length.to_be_bytes());
    let first = u16::from_be_bytes([header[ipv4::IDENTIFICATION], header[ipv4::IDENTIFICATION + 1]]);
    let identification = first.wrapping_add(count);
    header[ipv4::IDENTIFICATION..][..2].copy_from_slice(&identification.to_be_bytes());
    let checksum = fixed.word(length).word(identification).checksum();
    header[ipv4::CHECKSUM..][..2].copy_from_slice(&checksum.to_be_bytes());
}

impl Outer {
    /// Completes the outer headers of a piece.
    #[cold]
    fn finish(self, piece: &mut [u8], count: u16) {
        let length = piece.len();
        let network = &mut piece[..self.l4];
        let fixed = Fixed::of(network, (0, self.l4), self.is_v4, false, Sum::new()).network;
        finish_network(network, self.is_v4, length, count, fixed);
        if !self.is_udp {
            return;
        }
        let (network, datagram) = piece.split_at_mut(self.l4);
        let octets = datagram.len();
        datagram[4..6].copy_from_slice(&(octets as u16).to_be_bytes());
        // A sender that leaves it out sends 0.
        if datagram[udp::CHECKSUM..][..2] == [0, 0] {
            return;
        }
        datagram[udp::CHECKSUM..][..2].fill(0);
        let addresses = if self.is_v4 { ipv4::SOURCE..ipv4::LENGTH } else { ipv6::SOURCE..ipv6::LENGTH };
        let pseudo = Sum::new().bytes(&network[addresses]).word(protocol::UDP.into()).long(octets as u32);
        let sum = checksum::udp(pseudo.bytes(datagram).checksum());
        datagram[udp::CHECKSUM..][..2].copy_from_slice(&sum.to_be_bytes());
    }
}

/// Where the packet inside of a packet of a tunnel starts, from the outer IP header on; `own` is where its transport header does.
///
/// The port of UDP does not say which kind of tunnel it is, as hosts have VXLAN at other ports than its own, too. One kind's headers
/// have to lead to an IP header that ends where the transport header starts.
fn inner(packet: &Packet, l4: usize, own: usize) -> Option<usize> {
    let is_there = |l3: &usize| {
        let first = packet.l3().get(*l3).map_or(0, |first| first >> 4);
        let length = if first == 4 { ipv4::LENGTH } else { ipv6::LENGTH };
        l3 + length == own
    };
    match packet.protocol() {
        protocol::UDP => Carrier::ALL
            .into_iter()
            .filter(|carrier| carrier.port().is_some())
            .find_map(|carrier| inner_of(packet, carrier, l4 + udp::LENGTH).filter(is_there)),
        number => inner_of(packet, Carrier::of_protocol(number)?, l4),
    }
}

/// The same, if the headers of a tunnel are of this kind and start at `at`.
fn inner_of(packet: &Packet, carrier: Carrier, at: usize) -> Option<usize> {
    let (number, bytes) = (packet.protocol(), packet.l3().get(at..)?);
    // Nobody could write a checksum or a sequence number of GRE for each segment.
    if carrier == Carrier::Gre && bytes.first()? & 0x90 != 0 {
        return None;
    }
    let opened = tunnel::read(carrier, number, bytes).ok()?;
    let link = match opened.inner {
        Inner::Ethernet => ethernet::LENGTH,
        Inner::V4 | Inner::V6 => 0,
    };
    Some(at + opened.header + link)
}

/// The sum of the pseudo-header without the length. A checksum that is still to be completed holds it already, whatever the routing
/// header of IPv6 says of the destination.
fn pseudo(headers: &[u8], l4: usize, is_tcp: bool, offload: &Offload, octets: usize) -> Option<Sum> {
    if offload.checksum == Checksum::Partial {
        let at = l4 + if is_tcp { tcp::CHECKSUM } else { udp::CHECKSUM };
        let sum = Sum::new().word(u16::from_be_bytes([*headers.get(at)?, *headers.get(at + 1)?]));
        // Subtraction in ones' complement.
        return Some(sum.word(!Sum::new().long(octets as u32).folded()));
    }
    let protocol = if is_tcp { protocol::TCP } else { protocol::UDP };
    if headers.first()? >> 4 == 4 {
        let header = ipv4::Header::new(headers).ok()?;
        return Some(checksum::pseudo_v4(header.source(), header.destination(), protocol, 0));
    }
    let header = ipv6::Header::new(headers).ok()?;
    Some(checksum::pseudo_v6(header.source(), header.destination(), protocol, 0))
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use proptest::prelude::*;

    use super::*;
    use crate::buffer::{Cache, Pool, PoolSize};
    use crate::parse;

    /// A packet with this transport header and payload, as the kernel gives it: the checksum is to be completed, or was verified.
    fn whole(
        cache: &mut Cache,
        v4: bool,
        transport: &[u8],
        payload: &[u8],
        gso: Gso,
        segment: u16,
        partial: bool,
    ) -> Packet {
        let (from, to) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        let (from6, to6): (Ipv6Addr, Ipv6Addr) = ("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap());
        let protocol = if gso == Gso::Udp { protocol::UDP } else { protocol::TCP };
        let behind = transport.len() + payload.len();
        let mut octets = match v4 {
            true => ipv4::Fields {
                tos: 0,
                total_length: (20 + behind) as u16,
                identification: 0xffff,
                dont_fragment: true,
                more_fragments: false,
                fragment_offset: 0,
                ttl: 64,
                protocol,
                source: from,
                destination: to,
            }
            .emit()
            .to_vec(),
            false => ipv6::Fields {
                traffic_class: 0,
                flow_label: 5,
                payload_length: behind as u16,
                next_header: protocol,
                hop_limit: 64,
                source: from6,
                destination: to6,
            }
            .emit()
            .to_vec(),
        };
        let l4 = octets.len();
        octets.extend_from_slice(transport);
        octets.extend_from_slice(payload);
        let sum = match v4 {
            true => checksum::pseudo_v4(from, to, protocol, behind as u16),
            false => checksum::pseudo_v6(from6, to6, protocol, behind as u32),
        };
        let offset = if protocol == protocol::TCP { tcp::CHECKSUM } else { udp::CHECKSUM };
        octets[l4 + offset..l4 + offset + 2].copy_from_slice(&sum.folded().to_be_bytes());
        let mut packet = Packet::copy_of(cache, &octets).unwrap();
        let parsed = if v4 { parse::ipv4(&octets, 0) } else { parse::ipv6(&octets, 0) };
        packet.set_parsed(&parsed.unwrap());
        let state = if partial { Checksum::Partial } else { Checksum::Valid };
        packet.set_offload(Offload { checksum: state, gso, segment, start: l4 as u16, offset: offset as u16 });
        packet
    }

    fn pieces(packet: &Packet) -> Vec<Vec<u8>> {
        let mut segmenter = Segmenter::new(packet).unwrap();
        let mut pieces = Vec::new();
        while let Some(length) = segmenter.next_length() {
            let left = segmenter.count();
            let mut piece = vec![0; length];
            assert_eq!(segmenter.next(&mut piece[..length - 1]), None, "too short");
            assert_eq!(segmenter.next(&mut piece), Some(length));
            assert_eq!(segmenter.count(), left - 1);
            pieces.push(piece);
        }
        pieces
    }

    /// The transport checksum of a packet is right.
    fn is_right(packet: &[u8], v4: bool, protocol: u8) -> bool {
        let l4 = if v4 { 20 } else { 40 };
        let behind = packet.len() - l4;
        let sum = match v4 {
            true => {
                let header = ipv4::Header::new(packet).unwrap();
                assert!(checksum::is_valid(&packet[..20]) && usize::from(header.total_length()) == packet.len());
                checksum::pseudo_v4(header.source(), header.destination(), protocol, behind as u16)
            }
            false => {
                let header = ipv6::Header::new(packet).unwrap();
                assert_eq!(usize::from(header.payload_length()), behind);
                checksum::pseudo_v6(header.source(), header.destination(), protocol, behind as u32)
            }
        };
        sum.bytes(&packet[l4..]).is_valid()
    }

    proptest! {
        #[test]
        fn pieces_of_tcp_are_what_the_sender_would_have_sent(
            (v4, partial) in any::<(bool, bool)>(),
            options in 0usize..=10,
            sequence: u32,
            segment in 1u16..1500,
            payload in proptest::collection::vec(any::<u8>(), 0..9000),
        ) {
            let mut cache = Pool::new(PoolSize { small: 8, large: 8 }).unwrap().cache();
            let mut header = vec![0; 20 + 4 * options];
            header[..4].copy_from_slice(&[1, 2, 3, 4]);
            header[tcp::SEQUENCE..][..4].copy_from_slice(&sequence.to_be_bytes());
            header[tcp::DATA_OFFSET] = ((5 + options) as u8) << 4;
            header[tcp::FLAGS] = !tcp::Flags::SYN.0 & !tcp::Flags::RST.0;
            let gso = if v4 { Gso::Tcp4 } else { Gso::Tcp6 };
            let packet = whole(&mut cache, v4, &header, &payload, gso, segment, partial);
            let pieces = pieces(&packet);
            prop_assert_eq!(pieces.len(), payload.len().div_ceil(segment.into()).max(1));
            let l4 = if v4 { 20 } else { 40 };
            let mut joined = Vec::new();
            for (index, piece) in pieces.iter().enumerate() {
                prop_assert!(is_right(piece, v4, protocol::TCP));
                let tcp = &piece[l4..];
                let own = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]);
                prop_assert_eq!(own, sequence.wrapping_add(joined.len() as u32));
                let (first, last) = (index == 0, index + 1 == pieces.len());
                let flags = tcp::Flags(tcp[tcp::FLAGS]);
                prop_assert_eq!(flags.contains(tcp::Flags::CWR), first);
                prop_assert_eq!(flags.contains(tcp::Flags::FIN), last);
                prop_assert_eq!(flags.contains(tcp::Flags::PSH), last);
                prop_assert!(flags.contains(tcp::Flags::ACK) && flags.contains(tcp::Flags::ECE));
                if v4 {
                    prop_assert_eq!(u16::from_be_bytes([piece[4], piece[5]]), 0xffffu16.wrapping_add(index as u16));
                }
                let octets = &piece[l4 + header.len()..];
                prop_assert!(octets.len() == usize::from(segment) || last && octets.len() <= segment.into());
                joined.extend_from_slice(octets);
            }
            prop_assert_eq!(joined, payload);
        }

        #[test]
        fn pieces_of_udp_are_datagrams(v4: bool, segment in 1u16..1500, payload in proptest::collection::vec(any::<u8>(), 1..9000)) {
            let mut cache = Pool::new(PoolSize { small: 8, large: 8 }).unwrap().cache();
            let header = [0, 53, 0, 54, 0, 0, 0, 0];
            let packet = whole(&mut cache, v4, &header, &payload, Gso::Udp, segment, true);
            let l4 = if v4 { 20 } else { 40 };
            let mut joined = Vec::new();
            for piece in pieces(&packet) {
                prop_assert!(is_right(&piece, v4, protocol::UDP));
                prop_assert_eq!(usize::from(u16::from_be_bytes([piece[l4 + 4], piece[l4 + 5]])), piece.len() - l4);
                joined.extend_from_slice(&piece[l4 + 8..]);
            }
            prop_assert_eq!(joined, payload);
        }
    }

    #[test]
    fn a_super_packet_counts_as_its_pieces() {
        let mut cache = Pool::new(PoolSize { small: 8, large: 8 }).unwrap().cache();
        let mut tcp = [0; 32];
        (tcp[tcp::DATA_OFFSET], tcp[tcp::FLAGS]) = (0x80, tcp::Flags::ACK.0 | tcp::Flags::PSH.0);
        let udp = [0, 53, 0, 54, 0, 0, 0, 0];
        for (v4, partial, payload) in [(true, true, 5000), (false, false, 5001), (true, false, 100), (false, true, 0)] {
            for (header, gso) in [(&tcp[..], if v4 { Gso::Tcp4 } else { Gso::Tcp6 }), (&udp[..], Gso::Udp)] {
                let mut packet = whole(&mut cache, v4, header, &vec![7; payload], gso, 100, partial);
                let all = pieces(&packet);
                let octets: usize = all.iter().map(Vec::len).sum();
                assert_eq!(on_wire(&packet), (all.len() as u32, octets as u32));
                // Without some at its end, it stands for the others.
                let counts = [all.len() + 1, all.len(), all.len() / 2];
                for left in counts.into_iter().filter(|&left| left > 1 && all.len() > 1) {
                    keep(&mut packet, left).unwrap();
                    let mut expected = all[..left.min(all.len())].to_vec();
                    if left < all.len() && gso != Gso::Udp {
                        let last = expected.last_mut().unwrap();
                        let l4 = if v4 { 20 } else { 40 };
                        assert_eq!(last[l4 + tcp::FLAGS] & tcp::Flags::PSH.0, 0);
                    }
                    assert_eq!(pieces(&packet), expected);
                }
            }
        }
    }

    #[test]
    fn a_single_segment_that_stays_is_no_super_packet() {
        let mut cache = Pool::new(PoolSize { small: 8, large: 8 }).unwrap().cache();
        let mut tcp = [0; 20];
        (tcp[tcp::DATA_OFFSET], tcp[tcp::FLAGS]) = (0x50, tcp::Flags::ACK.0);
        let udp = [0, 53, 0, 54, 0, 0, 0, 0];
        for (v4, partial) in [(true, true), (true, false), (false, true), (false, false)] {
            for (header, gso) in [(&tcp[..], if v4 { Gso::Tcp4 } else { Gso::Tcp6 }), (&udp[..], Gso::Udp)] {
                let mut packet = whole(&mut cache, v4, header, &[7; 250], gso, 100, partial);
                let first = pieces(&packet).remove(0);
                keep(&mut packet, 1).unwrap();
                let left = packet.offload();
                assert_eq!((left.gso, left.segment, left.checksum), (Gso::None, 0, Checksum::Partial));
                assert_eq!(on_wire(&packet), (1, first.len() as u32));
                let mut completed = packet.data().to_vec();
                let (start, at) = (usize::from(left.start), usize::from(left.start + left.offset));
                let sum = Sum::new().bytes(&completed[start..]).checksum();
                completed[at..at + 2].copy_from_slice(&sum.to_be_bytes());
                assert_eq!(completed, first);
            }
        }
    }

    #[test]
    fn what_is_not_what_its_state_says_is_refused() {
        let mut cache = Pool::new(PoolSize { small: 8, large: 8 }).unwrap().cache();
        let mut header = [0; 20];
        header[tcp::DATA_OFFSET] = 0x50;
        for (v4, gso, segment) in [(true, Gso::Tcp6, 100), (false, Gso::Tcp4, 100), (true, Gso::Tcp4, 0)] {
            let packet = whole(&mut cache, v4, &header, &[0; 500], gso, segment, true);
            assert_eq!(Segmenter::new(&packet).err(), Some(Mismatch));
        }
        header[tcp::DATA_OFFSET] = 0x40;
        let packet = whole(&mut cache, true, &header, &[0; 500], Gso::Tcp4, 100, true);
        assert_eq!(Segmenter::new(&packet).err(), Some(Mismatch));
    }
}
