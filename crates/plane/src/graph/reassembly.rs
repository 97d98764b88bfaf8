//! Datagrams for the gateway itself that come in fragments: what a worker has of them ([`weir_packet::reassembly`]).
//!
//! Each is put together in a large buffer. A worker's share of them is bounded: at most half of the large buffers are used
//! for this, all workers and both families together, and neither family takes from the other. A datagram is under way for
//! 30 seconds in IPv4 (RFC 791 leaves the time open; that is what hosts use) and for 60 in IPv6 (RFC 8200, 4.5). When
//! there is no room for another, the oldest goes. A whole datagram that fits a small buffer goes on in one, so that a vector of
//! them takes no more large buffers than one.

use weir_base::clock::Time;
use weir_packet::buffer::{Cache, MAX_FRAME, SMALL_FRAME};
use weir_packet::packet::Packet;
use weir_packet::parse::{self, ParseFlags, Parsed};
use weir_packet::reassembly::{Datagram, Key, Piece, Progress, ROOM, Table};

use crate::reason::Reason;

/// Nanoseconds that IPv4 fragments wait for the rest of their datagram.
const LIFETIME_V4: u64 = 30_000_000_000;
/// Nanoseconds that IPv6 fragments wait for the rest of their datagram.
const LIFETIME_V6: u64 = 60_000_000_000;

/// The reassemblies of a worker.
pub(crate) struct Reassembly {
    v4: Table<UnderWay>,
    v6: Table<UnderWay>,
    giving_up: bool,
}

/// A datagram of which fragments have come.
struct UnderWay {
    datagram: Datagram,
    /// Its octets; empty once the datagram is spoilt.
    packet: Packet,
    identification: u32,
}

/// The result for a fragment.
pub(crate) enum Taken {
    /// It is part of a datagram that waits for more, or was already.
    Kept,
    /// It was the last: here is the datagram.
    Whole(Whole),
    /// It spoilt its datagram, of which this is the first fragment, if that has come.
    Spoilt(Packet),
}

/// A whole datagram.
pub(crate) struct Whole {
    /// It.
    pub(crate) packet: Packet,
    /// How its fragments were marked.
    pub(crate) identification: u32,
    /// Octets of the longest of its fragments.
    pub(crate) longest: u16,
}

/// Where a new datagram was begun.
pub(crate) struct Begun {
    /// The first fragment of the datagram that had to go for it, if one had to.
    pub(crate) evicted: Option<Packet>,
}

impl Reassembly {
    /// Room for one worker's share of so many large buffers. Equal random bits give equal hashes.
    pub(crate) fn new(large: usize, workers: usize, random: [u64; 4]) -> Reassembly {
        let each = Reassembly::share(large, workers) / 2;
        let [a, b, c, d] = random;
        Reassembly {
            v4: Table::new(each, LIFETIME_V4, [a, b]),
            v6: Table::new(each, LIFETIME_V6, [c, d]),
            giving_up: false,
        }
    }

    /// Datagrams that one worker can have under way, of so many large buffers: an even number.
    pub(crate) fn share(large: usize, workers: usize) -> usize {
        // One for each family where there is any at all: a worker without could not put anything together.
        let each = large / 4 / workers.max(1);
        2 * if large >= 2 { each.max(1) } else { 0 }
    }

    /// Octets of memory beside the buffers, for so many datagrams.
    pub(crate) const fn bytes(datagrams: usize) -> usize {
        datagrams * (size_of::<UnderWay>() + size_of::<Key>() + 32)
    }

    fn table(&mut self, v4: bool) -> &mut Table<UnderWay> {
        if v4 { &mut self.v4 } else { &mut self.v6 }
    }

    /// Whether fragments of this datagram have come before.
    pub(crate) fn knows(&mut self, piece: &Piece) -> bool {
        self.table(piece.is_v4()).find(&piece.key).is_some()
    }

    /// Begins a datagram that is not known; `fragment` is what came of it first.
    ///
    /// # Errors
    /// When no buffer is left for it, or there is no room for any.
    pub(crate) fn begin(
        &mut self,
        piece: &Piece,
        fragment: &Packet,
        cache: &mut Cache,
        now: Time,
    ) -> Result<Begun, Reason> {
        let table = self.table(piece.is_v4());
        if table.capacity() == 0 {
            return Err(Reason::ReassemblyFull);
        }
        let mut packet = Packet::new(cache, MAX_FRAME).ok_or(Reason::NoBuffer)?;
        if packet.set_len(ROOM).is_err() {
            packet.recycle(cache);
            return Err(Reason::NoBuffer);
        }
        packet.inherit(fragment);
        let family = if piece.is_v4() { ParseFlags::IP4 } else { ParseFlags::IP6 };
        packet.set_parsed(&Parsed { flags: family, ..Parsed::default() });
        let begun = UnderWay { datagram: Datagram::new(), packet, identification: piece.key.identification };
        let evicted = table.insert(piece.key, begun, now);
        Ok(Begun { evicted: evicted.and_then(|evicted| evicted.value.give_up(Reason::ReassemblyFull)) })
    }

    /// Adds a fragment to a datagram that is known. `packet` starts with its IP header.
    ///
    /// # Errors
    /// If the datagram was spoilt before; or is complete, but no packet that a host could have sent.
    pub(crate) fn add(&mut self, piece: &Piece, packet: &[u8], cache: &mut Cache) -> Result<Taken, Reason> {
        let table = self.table(piece.is_v4());
        let under_way = table.find(&piece.key).filter(|under_way| !under_way.packet.is_empty());
        let under_way = under_way.ok_or(Reason::ReassemblyOverlap)?;
        match under_way.datagram.add(under_way.packet.data_mut(), piece, packet) {
            Progress::Added | Progress::Repeated => Ok(Taken::Kept),
            Progress::Spoilt => {
                // Remembered for the whole time-out: later fragments of it do not begin another (RFC 5722).
                let packet = under_way.packet.take();
                Ok(Taken::Spoilt(first_fragment(packet, &under_way.datagram, Reason::ReassemblyOverlap)))
            }
            Progress::Complete => {
                let under_way = table.remove(&piece.key).ok_or(Reason::ReassemblyOverlap)?;
                let longest = under_way.datagram.longest();
                let identification = under_way.identification;
                match under_way.finish() {
                    Ok(packet) => {
                        let packet = in_small_buffer(packet, cache);
                        Ok(Taken::Whole(Whole { packet, identification, longest }))
                    }
                    Err(packet) => Ok(Taken::Spoilt(packet)),
                }
            }
        }
    }

    /// Returns the first fragment of a datagram that timed out, with its reason. Returns an empty packet if the first
    /// fragment has not arrived: then no ICMP error is due (RFC 792; RFC 8200, 4.5).
    pub(crate) fn expire(&mut self, now: Time) -> Option<Packet> {
        loop {
            let expired = if self.giving_up {
                self.v4.pop().or_else(|| self.v6.pop())
            } else {
                self.v4.expire(now).or_else(|| self.v6.expire(now))
            };
            if let Some(packet) = expired?.value.give_up(Reason::ReassemblyTimeout) {
                return Some(packet);
            }
        }
    }

    /// Everything that is under way has waited long enough.
    pub(crate) fn give_up(&mut self) {
        self.giving_up = true;
    }

    /// When [`Reassembly::expire`] has something to do, if nothing comes before.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let deadline = [self.v4.deadline(), self.v6.deadline()].into_iter().flatten().min()?;
        Some(if self.giving_up { Time(0) } else { deadline })
    }
}

impl UnderWay {
    /// Returns the first fragment, or an empty packet. Returns `None` if the datagram was spoilt, and is gone already.
    fn give_up(self, reason: Reason) -> Option<Packet> {
        (!self.packet.is_empty()).then(|| first_fragment(self.packet, &self.datagram, reason))
    }

    /// The whole packet, parsed. Else, the first fragment with the reason to drop it.
    fn finish(self) -> Result<Packet, Packet> {
        let UnderWay { datagram, mut packet, .. } = self;
        let v4 = packet.flags().contains(ParseFlags::IP4);
        let whole = datagram.finish(packet.data_mut());
        if let Some(at) = &whole
            && packet.pull(at.start).is_ok()
        {
            packet.truncate(at.len());
            let parsed = if v4 { parse::ipv4(packet.data(), 0) } else { parse::ipv6(packet.data(), 0) };
            match parsed {
                Ok(parsed) => {
                    packet.set_parsed(&parsed);
                    return Ok(packet);
                }
                Err(malformed) => packet.set_reason(Reason::from(malformed).number()),
            }
        } else {
            packet.set_reason(Reason::ReassemblyOverlap.number());
        }
        packet.truncate(0);
        Err(packet)
    }
}

/// Moves a whole datagram to a small buffer, if it fits one and one is left.
fn in_small_buffer(mut packet: Packet, cache: &mut Cache) -> Packet {
    if packet.len() <= SMALL_FRAME
        && let Some(copy) = packet.duplicate(cache)
    {
        packet.recycle(cache);
        return copy;
    }
    packet
}

/// Leaves of a datagram's octets its first fragment, as it came; nothing if it has not come.
fn first_fragment(mut packet: Packet, datagram: &Datagram, reason: Reason) -> Packet {
    packet.set_reason(reason.number());
    match datagram.first_fragment() {
        Some(at) if packet.pull(at.start).is_ok() => {
            packet.truncate(at.len());
            let v4 = packet.flags().contains(ParseFlags::IP4);
            let parsed = if v4 { parse::ipv4(packet.data(), 0) } else { parse::ipv6(packet.data(), 0) };
            // It was parsed when it came.
            if let Ok(parsed) = parsed {
                packet.set_parsed(&parsed);
            }
        }
        _ => packet.truncate(0),
    }
    packet
}
