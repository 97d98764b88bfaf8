//! A datagram that is being put together.

use std::ops::Range;

use crate::buffer::{FRAME, LARGE};
use crate::checksum;
use crate::wire::{ipv4, ipv6};

use super::piece::{DATA, Piece};

/// Octets of the room that a datagram is put together in.
pub const ROOM: usize = DATA + UNITS * UNIT;

const _: () = assert!(FRAME + ROOM <= LARGE, "a room fits a large buffer");

/// Octets of a unit, in which fragments are placed.
const UNIT: usize = 8;
/// Units of the longest datagram.
const UNITS: usize = 65_536 / UNIT;
const WORDS: usize = UNITS / 64;

/// The result of adding a fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// There is more to come.
    Added,
    /// The fragment had come before, exactly like this.
    Repeated,
    /// Everything is there: [`Datagram::finish`].
    Complete,
    /// It contradicts what came before (see [`crate::reassembly`] about overlaps), or makes a datagram that cannot be.
    /// Nothing is to become of the datagram.
    Spoilt,
}

/// The first fragment.
#[derive(Debug, Clone, Copy)]
struct First {
    headers: u16,
    named_at: u16,
    length: u16,
}

/// Which octets of a datagram have come. The octets themselves are in a room that the caller keeps with it, and lends to
/// every call: the same one each time, of [`ROOM`] octets.
#[derive(Debug, Clone)]
pub struct Datagram {
    /// Units that have come.
    present: [u64; WORDS],
    /// Units with which a fragment starts.
    starts: [u64; WORDS],
    /// How many have come.
    units: usize,
    /// Where the data ends, once the last fragment has come.
    end: Option<usize>,
    /// The furthest end of any fragment's data.
    reach: usize,
    first: Option<First>,
    /// Which congestion notifications have come: bit `n` for the codepoint `n`.
    ecn: u8,
    longest: u16,
}

impl Default for Datagram {
    fn default() -> Self {
        Datagram::new()
    }
}

impl Datagram {
    /// Nothing has come yet.
    pub const fn new() -> Datagram {
        Datagram {
            present: [0; WORDS],
            starts: [0; WORDS],
            units: 0,
            end: None,
            reach: 0,
            first: None,
            ecn: 0,
            longest: 0,
        }
    }

    /// Adds a fragment: `packet` starts with the IP header, and `piece` is what it says of itself. All that are added must
    /// have the same key.
    ///
    /// A room that is too short, or a packet that is not the one that `piece` was made of, spoil the datagram.
    pub fn add(&mut self, room: &mut [u8], piece: &Piece, packet: &[u8]) -> Progress {
        let (offset, length, end) = (usize::from(piece.offset), usize::from(piece.length), piece.end());
        let headers = usize::from(piece.headers);
        let parts = packet.get(headers..headers + length).zip(packet.get(..headers));
        let place = room.get_mut(DATA + offset..DATA + end);
        let (Some((data, header)), Some(place)) = (parts, place) else { return Progress::Spoilt };
        let units = offset / UNIT..end.div_ceil(UNIT);
        match count(&self.present, units.clone()) {
            0 => {}
            _ if self.has_fragment(units, piece) && place == data => return Progress::Repeated,
            _ => return Progress::Spoilt,
        }
        // One end, and no data behind it. Fragments before the last end on a whole unit, so no octets of one unit are
        // in two fragments.
        let contradicted = match self.end {
            Some(known) => !piece.more || end > known,
            None => !piece.more && self.reach > end,
        };
        if contradicted {
            return Progress::Spoilt;
        }
        place.copy_from_slice(data);
        set(&mut self.present, units.clone());
        set(&mut self.starts, units.start..units.start + 1);
        self.units += units.len();
        self.reach = self.reach.max(end);
        self.ecn |= 1 << (piece.ecn & 3);
        self.longest = self.longest.max(piece.headers.saturating_add(piece.length));
        if !piece.more {
            self.end = Some(end);
        }
        if offset == 0 {
            let Some(place) = DATA.checked_sub(headers).and_then(|start| room.get_mut(start..DATA)) else {
                return Progress::Spoilt;
            };
            place.copy_from_slice(header);
            self.first = Some(First { headers: piece.headers, named_at: piece.named_at, length: piece.length });
        }
        match (self.end, self.first) {
            (Some(end), Some(first)) if self.units == end.div_ceil(UNIT) => self.decide(end, &first),
            _ => Progress::Added,
        }
    }

    /// Whether exactly this fragment has come, its data aside: it starts one, and no other starts within or right where
    /// it should not.
    fn has_fragment(&self, units: Range<usize>, piece: &Piece) -> bool {
        let starts = |unit: usize| count(&self.starts, unit..unit + 1) == 1;
        // Behind it another one starts, or nothing has come: the fragment that is there does not go on.
        let ends = units.end == UNITS || starts(units.end) || count(&self.present, units.end..units.end + 1) == 0;
        let last = self.end == Some(piece.end());
        count(&self.present, units.clone()) == units.len()
            && count(&self.starts, units.clone()) == 1
            && starts(units.start)
            && ends
            && last != piece.more
    }

    /// Whether the datagram may be, now that all of it is there.
    fn decide(&self, end: usize, first: &First) -> Progress {
        let headers = usize::from(first.headers);
        // Other fragments may have had shorter headers than the first.
        let payload = match first.named_at {
            0 => headers + end,
            _ => headers - ipv6::FRAGMENT_LENGTH - ipv6::LENGTH + end,
        };
        // RFC 3168, 5.3: one fragment reports congestion and another cannot.
        let (not_capable, congested) = (self.ecn & 1 != 0, self.ecn & 1 << 3 != 0);
        if payload > usize::from(u16::MAX) || not_capable && congested { Progress::Spoilt } else { Progress::Complete }
    }

    /// Makes the packet of what has come, after [`Progress::Complete`], and returns where it lies in the room. It has the
    /// headers of the first fragment, without the fragment header, and notes congestion if any fragment did (RFC 3168,
    /// 5.3). `None` before everything has come.
    pub fn finish(&self, room: &mut [u8]) -> Option<Range<usize>> {
        let (end, first) = self.end.zip(self.first)?;
        let congested = self.ecn & 1 << 3 != 0;
        if self.units != end.div_ceil(UNIT) {
            return None;
        }
        let whole = room.get_mut(DATA - usize::from(first.headers)..DATA + end)?;
        let start = if first.named_at == 0 {
            finish_v4(whole, usize::from(first.headers), congested)?;
            DATA - usize::from(first.headers)
        } else {
            finish_v6(whole, &first, congested)?;
            DATA - usize::from(first.headers) + ipv6::FRAGMENT_LENGTH
        };
        Some(start..DATA + end)
    }

    /// Where the first fragment lies in the room, as it came (before [`Datagram::finish`]); `None` if it has not come.
    pub fn first_fragment(&self) -> Option<Range<usize>> {
        let first = self.first?;
        Some(DATA - usize::from(first.headers)..DATA + usize::from(first.length))
    }

    /// Octets of the longest fragment that has come, with its headers.
    pub fn longest(&self) -> u16 {
        self.longest
    }
}

/// Makes a whole datagram's header of that of its first fragment.
fn finish_v4(packet: &mut [u8], headers: usize, congested: bool) -> Option<()> {
    let total = u16::try_from(packet.len()).ok()?;
    let header = packet.get_mut(..headers).filter(|header| header.len() >= ipv4::LENGTH)?;
    header[ipv4::TOTAL_LENGTH..][..2].copy_from_slice(&total.to_be_bytes());
    header[ipv4::FRAGMENT..][..2].fill(0);
    header[ipv4::TOS] |= if congested { 3 } else { 0 };
    header[ipv4::CHECKSUM..][..2].fill(0);
    let checksum = checksum::of(header);
    header[ipv4::CHECKSUM..][..2].copy_from_slice(&checksum.to_be_bytes());
    Some(())
}

/// As [`finish_v4`]; the fragment header is taken out by moving what is in front of it.
fn finish_v6(packet: &mut [u8], first: &First, congested: bool) -> Option<()> {
    let fragment_at = usize::from(first.headers).checked_sub(ipv6::FRAGMENT_LENGTH)?;
    let payload = packet.len().checked_sub(ipv6::LENGTH + ipv6::FRAGMENT_LENGTH)?;
    let next = *packet.get(fragment_at)?;
    *packet.get_mut(usize::from(first.named_at))? = next;
    packet.copy_within(..fragment_at, ipv6::FRAGMENT_LENGTH);
    let header = packet.get_mut(ipv6::FRAGMENT_LENGTH..)?.first_chunk_mut::<{ ipv6::LENGTH }>()?;
    header[ipv6::PAYLOAD_LENGTH..][..2].copy_from_slice(&u16::try_from(payload).ok()?.to_be_bytes());
    // The lower two bits of the traffic class, which starts in the middle of the first octet.
    header[1] |= if congested { 3 << 4 } else { 0 };
    Some(())
}

/// Returns the words that hold a range of bits, each with a mask of the bits in the range.
fn masks(bits: Range<usize>) -> impl Iterator<Item = (usize, u64)> {
    (bits.start / 64..bits.end.div_ceil(64)).map(move |word| {
        let from = bits.start.saturating_sub(word * 64).min(63);
        let to = (bits.end - word * 64).min(64);
        (word, u64::MAX << from & u64::MAX >> (64 - to))
    })
}

fn count(map: &[u64; WORDS], bits: Range<usize>) -> usize {
    masks(bits).map(|(word, mask)| (map[word] & mask).count_ones() as usize).sum()
}

fn set(map: &mut [u64; WORDS], bits: Range<usize>) {
    masks(bits).for_each(|(word, mask)| map[word] |= mask);
}
