//! Merging of TCP segments and UDP datagrams into super-packets: what [`Segmenter`](crate::segment::Segmenter) undoes octet for octet.
//!
//! The rules are those of the kernel's GRO. Packets of one flow join if their headers are equal but for what the split writes again:
//! sequence numbers and IPv4 identifications count on, lengths and checksums follow from the contents. All are equally long, the last
//! one may be shorter. FIN, PSH and a shorter packet end a run, and so does a packet of the flow that cannot join: nothing overtakes
//! within a flow. A checksum that nobody has verified is verified before the packet joins.
//!
//! From the second packet of a run on, the next one is usually known by its headers alone: one comparison under a mask.
//!
//! Octets are copied into one large buffer. A run without one stays as it is.

mod next;

use next::{Layout, Next};

use crate::buffer::{Cache, SMALL_FRAME};
use crate::checksum::{self, Sum};
use crate::offload::{Checksum, Gso, Offload};
use crate::packet::{NoRoom, Packet};
use crate::parse::ParseFlags;
use crate::vector::{Indices, Vector};
use crate::wire::{ethernet, ipv4, ipv6, protocol, tcp, udp};

/// Runs that are open at once. A flow whose place is taken ends the run there.
const RUNS: usize = 64;
/// Datagrams of a super-packet at most, as the kernel bounds them.
const MOST_DATAGRAMS: u32 = 64;

/// The super-packets that are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wanted {
    /// TCP over IPv4.
    pub tcp4: bool,
    /// TCP over IPv6.
    pub tcp6: bool,
    /// UDP.
    pub udp: bool,
    /// Octets of the longest frame.
    pub largest: usize,
    /// A packet that is shorter than those before it joins none.
    pub equal: bool,
}

/// The kind of a packet, as its sender or the gateway knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It leaves as it is.
    Single,
    /// The split gives it back octet for octet.
    Exact,
    /// A datagram of ESP that the gateway made: its receiver looks at no checksum of UDP, and at no identification of a packet that
    /// must not be fragmented. Its SPI is that of the run.
    Esp,
}

/// The sums of a merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Merged {
    /// Super-packets that were made.
    pub wholes: u64,
    /// Packets that went into them.
    pub packets: u64,
}

/// The fields of a packet that may join others.
#[derive(Clone, Copy, Default)]
struct Piece {
    /// Where the payload starts in the frame.
    headers: u16,
    payload: u16,
    l3: u16,
    l4: u16,
    is_v4: bool,
    is_tcp: bool,
    /// The TCP flags, or none.
    flags: u8,
    /// Of ESP, the SPI.
    sequence: u32,
    identification: u16,
    is_esp: bool,
}

/// The part of a packet in the runs.
enum Role {
    /// It belongs to no flow of TCP or UDP.
    None,
    /// It is of this flow, and joins nothing.
    Ends(usize),
    /// Its flow is not known: it ends all runs.
    EndsAll,
    /// It may join a run of this flow, or begin one.
    May(usize, Piece),
}

/// A run of packets.
struct Run {
    /// The place of the first packet.
    head: u8,
    first: Piece,
    /// The packets that were joined so far; empty while the first packet is alone.
    whole: Packet,
    count: u32,
    /// The sequence number and the identification that the next packet has.
    sequence: u32,
    identification: u16,
    /// Its headers, from the second packet on.
    next: Next,
}

/// Merges packets, with memory of its own.
pub struct Merger {
    runs: Box<[Run; RUNS]>,
    /// The places of `runs` that are in use.
    open: u64,
}

impl Default for Merger {
    fn default() -> Self {
        Merger::new()
    }
}

impl Merger {
    /// Takes the memory that it will need.
    pub fn new() -> Merger {
        let run = |_| Run {
            head: 0,
            first: Piece::default(),
            whole: Packet::EMPTY,
            count: 0,
            sequence: 0,
            identification: 0,
            next: Next::NONE,
        };
        Merger { runs: Box::new(std::array::from_fn(run)), open: 0 }
    }

    /// Merges the packets of a frame by their kinds, which depend on place and packet, and adds the places of what is left to `out`, in the frame's order.
    /// A super-packet has the place of its first packet. The others stay in the vector. Only packets of which `are_alike` says that
    /// the graph knows the same join.
    pub fn merge(
        &mut self,
        vector: &mut Vector,
        frame: &Indices,
        out: &mut Indices,
        (cache, wanted): (&mut Cache, Wanted),
        kind_of: impl Fn(u8, &Packet) -> Kind,
        are_alike: impl Fn(&Packet, &Packet) -> bool,
    ) -> Merged {
        let mut merged = Merged::default();
        // The run that had a packet last.
        let mut last = 0;
        for &place in frame.places() {
            let kind = kind_of(place, &vector[place]);
            if kind != Kind::Single
                && self.open & 1 << last != 0
                && self.runs[last].is_next(vector, place, kind)
                && are_alike(&vector[self.runs[last].head], &vector[place])
                && self.runs[last].add(vector, place, wanted)
            {
                continue;
            }
            let (slot, piece) = match role(&vector[place], kind == Kind::Esp) {
                Role::None => {
                    out.push(place);
                    continue;
                }
                Role::EndsAll => {
                    self.end_all(vector, cache, &mut merged);
                    out.push(place);
                    continue;
                }
                Role::Ends(slot) => {
                    self.end(slot, vector, cache, &mut merged);
                    out.push(place);
                    continue;
                }
                Role::May(slot, piece) => (slot, piece),
            };
            let may = kind != Kind::Single && wanted.includes(&piece);
            last = slot;
            let is_next = may && self.open & 1 << slot != 0 && are_alike(&vector[self.runs[slot].head], &vector[place]);
            if is_next && self.runs[slot].join(vector, place, &piece, (cache, wanted)) {
                if piece.ends(&self.runs[slot].first) {
                    self.end(slot, vector, cache, &mut merged);
                }
                continue;
            }
            self.end(slot, vector, cache, &mut merged);
            out.push(place);
            if may && !piece.ends(&piece) {
                self.runs[slot].begin(place, &piece);
                self.open |= 1 << slot;
            }
        }
        self.end_all(vector, cache, &mut merged);
        merged
    }

    fn end_all(&mut self, vector: &mut Vector, cache: &mut Cache, merged: &mut Merged) {
        while self.open != 0 {
            self.end(self.open.trailing_zeros() as usize, vector, cache, merged);
        }
    }

    /// Ends the run at a place, if there is one.
    fn end(&mut self, slot: usize, vector: &mut Vector, cache: &mut Cache, merged: &mut Merged) {
        if self.open & 1 << slot == 0 {
            return;
        }
        self.open &= !(1 << slot);
        let run = &mut self.runs[slot];
        if run.whole.is_empty() {
            return;
        }
        merged.wholes += 1;
        merged.packets += u64::from(run.count);
        let head = &mut vector[run.head];
        run.finish(head);
        std::mem::swap(head, &mut run.whole);
        run.whole.recycle(cache);
        run.whole = Packet::EMPTY;
        vector.note_segments();
    }
}

impl Wanted {
    #[inline]
    fn includes(&self, piece: &Piece) -> bool {
        match (piece.is_tcp, piece.is_v4) {
            (false, _) => self.udp,
            (true, true) => self.tcp4,
            (true, false) => self.tcp6,
        }
    }
}

impl Piece {
    /// Nothing joins behind this packet of a run that begins with `first`.
    fn ends(&self, first: &Piece) -> bool {
        self.payload < first.payload || tcp::Flags(self.flags).0 & (tcp::Flags::FIN.0 | tcp::Flags::PSH.0) != 0
    }
}

impl Run {
    fn begin(&mut self, place: u8, piece: &Piece) {
        (self.head, self.first, self.count) = (place, *piece, 1);
        self.next.clear();
        self.expect(piece);
    }

    /// The packet has the headers of the next one, and is as long as those before.
    #[inline]
    fn is_next(&self, vector: &Vector, place: u8, kind: Kind) -> bool {
        let (head, next) = (&vector[self.head], &vector[place]);
        self.next.is(next.data())
            && (next.l3_offset(), next.l4_offset()) == (self.first.l3.into(), self.first.l4.into())
            && (next.flags(), next.protocol()) == (head.flags(), head.protocol())
            && (kind == Kind::Esp) == self.first.is_esp
            && next.offload().gso == Gso::None
    }

    /// Adds a packet whose headers are those of the next one; false, with nothing changed, if its checksums or its length do not let it.
    #[inline]
    fn add(&mut self, vector: &Vector, place: u8, wanted: Wanted) -> bool {
        let (next, first) = (&vector[place], self.first);
        if !self.fits(self.whole.len(), first.payload, wanted) {
            return false;
        }
        let added = match first.is_esp {
            true => is_sound(next, &first) && append(&mut self.whole, next, &first).is_ok(),
            // The checksum of IPv4 was compared with the rest.
            false => self.add_sound(next),
        };
        if !added {
            return false;
        }
        self.count += 1;
        self.next.count_on(first.payload.into());
        if first.is_tcp {
            self.sequence = self.sequence.wrapping_add(first.payload.into());
        }
        self.identification = self.identification.wrapping_add(u16::from(!first.is_esp));
        true
    }

    /// Appends the payload of a packet whose headers are those of the next one, if its checksum is right and in the form that the split
    /// writes.
    #[inline]
    fn add_sound(&mut self, next: &Packet) -> bool {
        let (first, offload) = (self.first, next.offload());
        let (sum, checksum) = self.next.transport(next.data());
        let is_usual = match first.is_tcp {
            true => offload.checksum == Checksum::Partial || checksum != 0xffff,
            false => checksum != 0,
        };
        if !is_usual || !is_placed(&offload, &first) {
            return false;
        }
        let payload = next.data().get(first.headers.into()..).unwrap_or_default();
        let end = self.whole.len();
        if self.whole.set_len(end + payload.len()).is_err() {
            return false;
        }
        let room = &mut self.whole.data_mut()[end..];
        if offload.checksum != Checksum::Unknown {
            room.copy_from_slice(payload);
            return true;
        }
        // Transport headers have an even length, so the payload's sum follows.
        let is_right = sum.word(Sum::new().copied(payload, room).folded()).is_valid();
        if !is_right {
            self.whole.truncate(end);
        }
        is_right
    }

    fn expect(&mut self, piece: &Piece) {
        let step = if piece.is_tcp { piece.payload.into() } else { 0 };
        self.sequence = piece.sequence.wrapping_add(step);
        self.identification = piece.identification.wrapping_add(u16::from(!piece.is_esp));
    }

    /// Adds a packet; false, with nothing changed, if it does not follow or there is no room.
    fn join(&mut self, vector: &Vector, place: u8, piece: &Piece, (cache, wanted): (&mut Cache, Wanted)) -> bool {
        let next = &vector[place];
        let head = &vector[self.head];
        let reference = if self.whole.is_empty() { head } else { &self.whole };
        if !self.follows(reference, next, piece, wanted) || !is_sound(next, piece) {
            return false;
        }
        let is_alone = self.whole.is_empty();
        if is_alone && (!is_right(head, &self.first) || start(&mut self.whole, head, cache).is_none()) {
            return false;
        }
        if append(&mut self.whole, next, piece).is_err() {
            if is_alone {
                self.whole.recycle(cache);
                self.whole = Packet::EMPTY;
            }
            return false;
        }
        if let Some(flags) = self.whole.data_mut().get_mut(usize::from(piece.l4) + tcp::FLAGS).filter(|_| piece.is_tcp)
        {
            *flags |= piece.flags;
        }
        self.count += 1;
        self.expect(piece);
        let (l3, l4, end) = (piece.l3.into(), piece.l4.into(), piece.headers.into());
        let (is_v4, is_tcp, is_esp) = (piece.is_v4, piece.is_tcp, piece.is_esp);
        self.next.follow(next.data(), Layout { l3, l4, end, is_v4, is_tcp, is_esp });
        true
    }

    /// There is room for a packet with so many octets of payload behind a frame of so many.
    #[inline]
    fn fits(&self, octets: usize, payload: u16, wanted: Wanted) -> bool {
        let octets = octets + usize::from(payload);
        let l3 = octets - usize::from(self.first.l3);
        octets <= wanted.largest
            && l3 <= if self.first.is_v4 { 65_535 } else { 65_535 + ipv6::LENGTH }
            && (self.first.is_tcp || self.count < MOST_DATAGRAMS)
    }

    /// The packet is the next one of the run.
    fn follows(&self, reference: &Packet, next: &Packet, piece: &Piece, wanted: Wanted) -> bool {
        let first = &self.first;
        self.fits(reference.len(), piece.payload, wanted)
            && (piece.is_v4, piece.is_tcp, piece.is_esp, piece.l3, piece.l4, piece.headers)
                == (first.is_v4, first.is_tcp, first.is_esp, first.l3, first.l4, first.headers)
            && (piece.payload == first.payload || piece.payload < first.payload && !wanted.equal)
            && (!piece.is_v4 || piece.identification == self.identification)
            && piece.sequence == self.sequence
            && (!piece.is_tcp || piece.flags & tcp::Flags::CWR.0 == 0)
            && are_alike(reference.data(), next.data(), first)
    }

    /// Completes the headers of the super-packet, and takes over from its first packet what the graph knows of it.
    fn finish(&mut self, head: &Packet) {
        let (first, whole) = (self.first, &mut self.whole);
        whole.take_over(head);
        let (l3, l4) = (usize::from(first.l3), usize::from(first.l4));
        let behind = whole.len() - l4;
        let length = whole.len() - l3;
        let headers = &mut whole.data_mut()[l3..usize::from(first.headers)];
        let (own, gso) = if first.is_tcp { (protocol::TCP, tcp_kind(first.is_v4)) } else { (protocol::UDP, Gso::Udp) };
        let pseudo = if first.is_v4 {
            // `follows` bounds the lengths.
            headers[ipv4::TOTAL_LENGTH..][..2].copy_from_slice(&(length as u16).to_be_bytes());
            headers[ipv4::CHECKSUM..][..2].fill(0);
            let checksum = checksum::of(&headers[..ipv4::LENGTH]);
            headers[ipv4::CHECKSUM..][..2].copy_from_slice(&checksum.to_be_bytes());
            pseudo(&headers[ipv4::SOURCE..ipv4::LENGTH], own, behind)
        } else {
            let payload = (length - ipv6::LENGTH) as u16;
            headers[ipv6::PAYLOAD_LENGTH..][..2].copy_from_slice(&payload.to_be_bytes());
            pseudo(&headers[ipv6::SOURCE..ipv6::LENGTH], own, behind)
        };
        let transport = &mut headers[l4 - l3..];
        let at = if first.is_tcp { tcp::CHECKSUM } else { udp::CHECKSUM };
        if !first.is_tcp {
            transport[4..6].copy_from_slice(&(behind as u16).to_be_bytes());
        }
        transport[at..at + 2].copy_from_slice(&pseudo.folded().to_be_bytes());
        let (start, offset) = (first.l4, at as u16);
        whole.set_offload(Offload { checksum: Checksum::Partial, gso, segment: first.payload, start, offset });
    }
}

fn tcp_kind(v4: bool) -> Gso {
    if v4 { Gso::Tcp4 } else { Gso::Tcp6 }
}

/// Takes a large buffer with the octets of the first packet.
fn start(whole: &mut Packet, head: &Packet, cache: &mut Cache) -> Option<()> {
    *whole = Packet::new(cache, SMALL_FRAME + 1)?;
    // The first packet is shorter than the longest frame, which there is room for.
    whole.set_len(head.len()).ok()?;
    whole.data_mut().copy_from_slice(head.data());
    Some(())
}

/// Appends the payload of a packet, if its checksum is right: it is verified by the walk that copies it.
#[inline]
fn append(whole: &mut Packet, next: &Packet, piece: &Piece) -> Result<(), NoRoom> {
    let payload = next.data().get(piece.headers.into()..).unwrap_or_default();
    let end = whole.len();
    whole.set_len(end + payload.len())?;
    let room = &mut whole.data_mut()[end..];
    if piece.is_esp || next.offload().checksum != Checksum::Unknown {
        room.copy_from_slice(payload);
        return Ok(());
    }
    let sum = Sum::new().copied(payload, room);
    let header = next.data().get(piece.l4.into()..piece.headers.into()).unwrap_or_default();
    let octets = header.len() + payload.len();
    // Transport headers have an even length, so the payload's sum follows.
    if pseudo_of(next, piece, octets).bytes(header).word(sum.folded()).is_valid() {
        return Ok(());
    }
    whole.truncate(end);
    Err(NoRoom)
}

/// The sum of the pseudo-header of a packet.
#[inline]
fn pseudo_of(packet: &Packet, piece: &Piece, octets: usize) -> Sum {
    let addresses = if piece.is_v4 { ipv4::SOURCE..ipv4::LENGTH } else { ipv6::SOURCE..ipv6::LENGTH };
    let own = if piece.is_tcp { protocol::TCP } else { protocol::UDP };
    pseudo(packet.l3().get(addresses).unwrap_or_default(), own, octets)
}

/// The sum of the pseudo-header, from the addresses as they stand in the header.
fn pseudo(addresses: &[u8], protocol: u8, octets: usize) -> Sum {
    Sum::new().bytes(addresses).word(protocol.into()).long(octets as u32)
}

/// Reads a packet.
#[inline]
fn role(packet: &Packet, is_esp: bool) -> Role {
    let flags = packet.flags();
    if !flags.intersects(ParseFlags::IP4 | ParseFlags::IP6) {
        return Role::None;
    }
    if flags.contains(ParseFlags::FRAGMENT) {
        return Role::EndsAll;
    }
    if !matches!(packet.protocol(), protocol::TCP | protocol::UDP) {
        return Role::None;
    }
    let is_v4 = flags.contains(ParseFlags::IP4);
    let Some(slot) = slot(packet, is_v4) else { return Role::EndsAll };
    match piece(packet, is_v4, is_esp) {
        Some(piece) => Role::May(slot, piece),
        None => Role::Ends(slot),
    }
}

/// The place of a packet's flow among the runs.
#[inline]
fn slot(packet: &Packet, is_v4: bool) -> Option<usize> {
    let addresses = if is_v4 { ipv4::SOURCE..ipv4::LENGTH } else { ipv6::SOURCE..ipv6::LENGTH };
    let addresses = packet.l3().get(addresses)?;
    let ports = packet.l4_header::<4>()?;
    let mut mixed = u64::from(u32::from_ne_bytes(*ports)) << 8 | u64::from(packet.protocol());
    for word in addresses.as_chunks::<8>().0 {
        mixed = (mixed ^ u64::from_ne_bytes(*word)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }
    mixed = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Some((mixed >> 58) as usize)
}

/// The fields of a packet that may join others.
#[inline]
fn piece(packet: &Packet, is_v4: bool, is_esp: bool) -> Option<Piece> {
    let (l3, l4, is_tcp) = (packet.l3_offset(), packet.l4_offset(), packet.protocol() == protocol::TCP);
    let length = packet.len().checked_sub(l3)?;
    let mut piece = Piece { l3: l3 as u16, l4: l4 as u16, is_v4, is_tcp, is_esp, ..Piece::default() };
    if packet.offload().gso != Gso::None {
        return None;
    }
    if is_v4 {
        let header = packet.l3_header::<{ ipv4::LENGTH }>()?;
        let word = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        // The identification of what may be fragmented has a meaning, and would not be that of the split.
        if is_esp && word(ipv4::FRAGMENT) & ipv4::DONT_FRAGMENT == 0 {
            return None;
        }
        piece.identification = if is_esp { 0 } else { word(ipv4::IDENTIFICATION) };
        let plain = header[ipv4::VERSION_IHL] == 0x45
            && word(ipv4::FRAGMENT) & !ipv4::DONT_FRAGMENT == 0
            && usize::from(word(ipv4::TOTAL_LENGTH)) == length
            && header[ipv4::PROTOCOL] == packet.protocol()
            && word(ipv4::CHECKSUM) != 0xffff
            && l4 == l3 + ipv4::LENGTH;
        if !plain {
            return None;
        }
    } else {
        let header = packet.l3_header::<{ ipv6::LENGTH }>()?;
        let payload = u16::from_be_bytes([header[ipv6::PAYLOAD_LENGTH], header[ipv6::PAYLOAD_LENGTH + 1]]);
        let plain = usize::from(payload) + ipv6::LENGTH == length
            && header[ipv6::NEXT_HEADER] == packet.protocol()
            && l4 == l3 + ipv6::LENGTH;
        if !plain {
            return None;
        }
    }
    let transport = if is_tcp { segment(packet, &mut piece)? } else { datagram(packet, &mut piece)? };
    let headers = l4 + transport;
    let payload = packet.len().checked_sub(headers).filter(|&payload| payload > 0)?;
    (piece.headers, piece.payload) = (headers as u16, payload as u16);
    Some(piece)
}

/// Reads the TCP header; returns its length.
#[inline]
fn segment(packet: &Packet, piece: &mut Piece) -> Option<usize> {
    let header = packet.l4_header::<{ tcp::LENGTH }>()?;
    let flags = header[tcp::FLAGS];
    let joining = tcp::Flags::FIN.0 | tcp::Flags::PSH.0 | tcp::Flags::ACK.0 | tcp::Flags::ECE.0 | tcp::Flags::CWR.0;
    let length = usize::from(header[tcp::DATA_OFFSET] >> 4) * 4;
    let fits = flags & !joining == 0 && flags & tcp::Flags::ACK.0 != 0 && length >= tcp::LENGTH;
    // The other form of a checksum of 0, which the split does not write.
    let usual = header[tcp::CHECKSUM..][..2] != [0xff, 0xff] || packet.offload().checksum == Checksum::Partial;
    let &[a, b, c, d] = header[tcp::SEQUENCE..].first_chunk::<4>()?;
    (piece.sequence, piece.flags) = (u32::from_be_bytes([a, b, c, d]), flags);
    (fits && usual).then_some(length)
}

/// Reads the UDP header; returns its length. A datagram without a checksum would get one by the split.
#[inline]
fn datagram(packet: &Packet, piece: &mut Piece) -> Option<usize> {
    let &[_, _, _, _, a, b, c, d] = packet.l4_header::<{ udp::LENGTH }>()?;
    let whole = usize::from(u16::from_be_bytes([a, b])) == packet.len() - packet.l4_offset();
    if piece.is_esp {
        let spi = packet.data().get(packet.l4_offset() + udp::LENGTH..)?.first_chunk::<4>()?;
        piece.sequence = u32::from_be_bytes(*spi);
        return whole.then_some(udp::LENGTH);
    }
    (whole && [c, d] != [0, 0]).then_some(udp::LENGTH)
}

/// Two frames are equal up to their payloads, but for what the split writes again.
#[inline]
fn are_alike(one: &[u8], other: &[u8], piece: &Piece) -> bool {
    let (l3, l4, headers) = (usize::from(piece.l3), usize::from(piece.l4), usize::from(piece.headers));
    let (Some(one), Some(other)) = (one.get(..headers), other.get(..headers)) else { return false };
    let network = match piece.is_v4 {
        true => both(one, other, l3).is_some_and(|(one, other)| are_alike_v4(one, other)),
        false => both(one, other, l3).is_some_and(|(one, other)| are_alike_v6(one, other)),
    };
    let transport = || match piece.is_tcp {
        true => {
            both(one, other, l4).is_some_and(|(one, other)| are_alike_tcp(one, other))
                && (headers == l4 + tcp::LENGTH || one[l4 + tcp::LENGTH..] == other[l4 + tcp::LENGTH..])
        }
        false => both::<4>(one, other, l4).is_some_and(|(one, other)| one == other),
    };
    let link = || match l3 {
        0 => true,
        ethernet::LENGTH => both::<{ ethernet::LENGTH }>(one, other, 0).is_some_and(|(one, other)| one == other),
        _ => one[..l3] == other[..l3],
    };
    network && transport() && link()
}

/// The same `N` octets of two frames.
#[inline(always)]
fn both<'a, const N: usize>(one: &'a [u8], other: &'a [u8], at: usize) -> Option<(&'a [u8; N], &'a [u8; N])> {
    Some((one.get(at..)?.first_chunk()?, other.get(at..)?.first_chunk()?))
}

/// The bits in which two headers differ, of four octets.
#[inline(always)]
fn differing<const N: usize>(one: &[u8; N], other: &[u8; N], at: usize) -> u32 {
    let word = |header: &[u8; N]| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    word(one) ^ word(other)
}

/// Without length, identification and checksum.
#[inline(always)]
fn are_alike_v4(one: &[u8; ipv4::LENGTH], other: &[u8; ipv4::LENGTH]) -> bool {
    let of = |at| differing(one, other, at);
    of(0) >> 16 | of(ipv4::FRAGMENT) | of(ipv4::SOURCE) | of(ipv4::DESTINATION) == 0
}

/// Without length.
#[inline(always)]
fn are_alike_v6(one: &[u8; ipv6::LENGTH], other: &[u8; ipv6::LENGTH]) -> bool {
    let of = |at| differing(one, other, at);
    of(0) | of(ipv6::PAYLOAD_LENGTH) << 16 == 0 && one[ipv6::SOURCE..] == other[ipv6::SOURCE..]
}

/// Without sequence number and checksum. The run's flags have those of the packets before: only the others are compared.
#[inline(always)]
fn are_alike_tcp(one: &[u8; tcp::LENGTH], other: &[u8; tcp::LENGTH]) -> bool {
    let joining = u32::from(tcp::Flags::FIN.0 | tcp::Flags::PSH.0 | tcp::Flags::CWR.0);
    let of = |at| differing(one, other, at);
    of(0) | of(tcp::ACKNOWLEDGMENT) | of(tcp::DATA_OFFSET) & !(joining << 16) | of(tcp::CHECKSUM) << 16 == 0
}

const _: () = assert!(tcp::FLAGS == tcp::DATA_OFFSET + 1 && tcp::URGENT == tcp::CHECKSUM + 2);
const _: () = assert!(ipv4::CHECKSUM == ipv4::FRAGMENT + 4 && ipv6::NEXT_HEADER == ipv6::PAYLOAD_LENGTH + 2);

/// The checksums of a packet are right, or nobody but the split will write them.
#[inline]
fn is_right(packet: &Packet, piece: &Piece) -> bool {
    let is_unknown = !piece.is_esp && packet.offload().checksum == Checksum::Unknown;
    let transport = packet.data().get(usize::from(piece.l4)..).unwrap_or_default();
    is_sound(packet, piece) && (!is_unknown || pseudo_of(packet, piece, transport.len()).bytes(transport).is_valid())
}

/// The same but for a checksum of the transport header that nobody has verified.
#[inline]
fn is_sound(packet: &Packet, piece: &Piece) -> bool {
    let l3 = packet.l3();
    if piece.is_v4 && l3.first_chunk::<{ ipv4::LENGTH }>().is_none_or(|header| !checksum::is_valid_ipv4(header)) {
        return false;
    }
    if piece.is_esp {
        return true;
    }
    is_placed(&packet.offload(), piece)
}

/// A checksum that is still to be completed is that of the transport header.
#[inline]
fn is_placed(offload: &Offload, piece: &Piece) -> bool {
    let at = if piece.is_tcp { tcp::CHECKSUM } else { udp::CHECKSUM };
    match offload.checksum {
        Checksum::Valid | Checksum::Unknown => true,
        Checksum::Partial => (usize::from(offload.start), usize::from(offload.offset)) == (piece.l4.into(), at),
    }
}
