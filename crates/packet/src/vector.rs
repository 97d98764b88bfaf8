//! Vectors of packets, and lists of places in them.

use crate::buffer::Cache;
use crate::packet::Packet;

/// Most packets of a vector.
pub const VECTOR: usize = 256;

/// Up to [`VECTOR`] packets that move through the graph together. A packet keeps its place; nodes hand each other lists
/// of places ([`Indices`]). A place of eight bits cannot be out of range, which spares every bounds check.
pub struct Vector {
    packets: Box<[Packet; VECTOR]>,
    len: usize,
    /// A packet that was pushed is still to be segmented.
    segments: bool,
}

impl Vector {
    /// An empty vector.
    pub fn new() -> Self {
        let packets: Box<[Packet]> = (0..VECTOR).map(|_| Packet::EMPTY).collect();
        let packets = packets.try_into().unwrap_or_else(|_| unreachable!("exactly VECTOR packets were collected"));
        Vector { packets, len: 0, segments: false }
    }

    /// Places in use, from 0 on.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// No place is in use.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Places left.
    #[inline(always)]
    pub fn room(&self) -> usize {
        VECTOR - self.len
    }

    /// Puts a packet at the next place and returns that place; gives the packet back when there is none.
    #[inline(always)]
    pub fn push(&mut self, packet: Packet) -> Result<u8, Packet> {
        if self.len == VECTOR {
            return Err(packet);
        }
        self.segments |= packet.is_to_be_segmented();
        self.packets[self.len] = packet;
        self.len += 1;
        Ok((self.len - 1) as u8)
    }

    /// Notes that a packet of the vector became a super-packet.
    #[inline(always)]
    pub(crate) fn note_segments(&mut self) {
        self.segments = true;
    }

    /// Returns whether a super-packet was pushed, or made, since the vector was last cleared, without a look at each packet.
    #[inline(always)]
    pub fn has_segments(&self) -> bool {
        self.segments
    }

    /// Makes a frame of `len` octets at the next place, as [`Packet::new`] does, without moving it there. `None` when there
    /// is no place, no buffer, or no buffer of that length.
    #[inline(always)]
    pub fn add(&mut self, cache: &mut Cache, len: usize) -> Option<&mut Packet> {
        let slot = self.packets.get_mut(self.len)?;
        slot.fill(cache, len)?;
        self.len += 1;
        Some(slot)
    }

    /// The packets, by place.
    #[inline(always)]
    pub fn packets(&mut self) -> &mut [Packet; VECTOR] {
        &mut self.packets
    }

    /// The packets in use.
    #[inline(always)]
    pub fn filled(&mut self) -> &mut [Packet] {
        &mut self.packets[..self.len]
    }

    /// Frees all places. The packets must have been taken or recycled before: what is left is dropped the slow way.
    #[inline]
    pub fn clear(&mut self) {
        self.len = 0;
        self.segments = false;
    }
}

impl Default for Vector {
    fn default() -> Self {
        Self::new()
    }
}

impl std::ops::Index<u8> for Vector {
    type Output = Packet;
    #[inline(always)]
    fn index(&self, place: u8) -> &Packet {
        &self.packets[usize::from(place)]
    }
}

impl std::ops::IndexMut<u8> for Vector {
    #[inline(always)]
    fn index_mut(&mut self, place: u8) -> &mut Packet {
        &mut self.packets[usize::from(place)]
    }
}

/// A list of up to [`VECTOR`] distinct places of a vector, in the order in which nodes added them.
#[derive(Clone)]
pub struct Indices {
    places: [u8; VECTOR],
    len: usize,
}

impl Indices {
    /// No places.
    pub const fn new() -> Self {
        Indices { places: [0; VECTOR], len: 0 }
    }

    /// How many places.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// None.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The places.
    #[inline(always)]
    pub fn places(&self) -> &[u8] {
        &self.places[..self.len.min(VECTOR)]
    }

    /// Adds a place when `when` holds, without a branch.
    #[inline(always)]
    pub fn push_if(&mut self, place: u8, when: bool) {
        self.places[self.len & (VECTOR - 1)] = place;
        self.len += usize::from(when);
    }

    /// Adds a place.
    #[inline(always)]
    pub fn push(&mut self, place: u8) {
        self.push_if(place, true);
    }

    /// Adds all places of another list. Both together have no place twice, so they fit.
    #[inline]
    pub fn extend(&mut self, other: &Indices) {
        self.append(other.places());
    }

    /// Adds places, of which the list has none yet.
    #[inline]
    pub fn append(&mut self, places: &[u8]) {
        let start = self.len.min(VECTOR);
        let count = places.len().min(VECTOR - start);
        self.places[start..start + count].copy_from_slice(&places[..count]);
        self.len = start + count;
    }

    /// Puts the places into ascending order: the order in which the packets arrived.
    #[inline]
    pub fn sort(&mut self) {
        let places = self.places();
        // All of them, without a branch for each: in the usual case there is nothing to do.
        let pairs = places.iter().zip(places.get(1..).unwrap_or_default());
        if !pairs.fold(true, |sorted, (one, next)| sorted & (one < next)) {
            self.arrange();
        }
    }

    #[cold]
    #[inline(never)]
    fn arrange(&mut self) {
        let mut marks = [0u64; VECTOR / 64];
        for &place in self.places() {
            marks[usize::from(place / 64)] |= 1 << (place % 64);
        }
        self.clear();
        for (word, mut mark) in (0u8..).zip(marks) {
            while mark != 0 {
                self.push(word * 64 + mark.trailing_zeros() as u8);
                mark &= mark - 1;
            }
        }
    }

    /// Forgets all places.
    #[inline(always)]
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Makes the list 0, 1, … `len` − 1. At most [`VECTOR`].
    #[inline]
    pub fn fill(&mut self, len: usize) {
        self.len = len.min(VECTOR);
        for (index, place) in self.places[..self.len].iter_mut().enumerate() {
            *place = index as u8;
        }
    }
}

impl Default for Indices {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::{Pool, PoolSize};
    use crate::offload::{Gso, Offload};

    #[test]
    fn a_vector_takes_so_many_packets_and_no_more() {
        let pool = Pool::new(PoolSize { small: VECTOR + 1, large: 0 }).unwrap();
        let mut cache = pool.cache();
        let mut vector = Vector::new();
        for place in 0..VECTOR {
            let packet = Packet::new(&mut cache, 60).unwrap();
            assert_eq!(vector.push(packet).unwrap(), place as u8);
        }
        let one_more = Packet::new(&mut cache, 60).unwrap();
        assert!(vector.push(one_more).is_err());
        vector.filled().iter_mut().for_each(|packet| packet.recycle(&mut cache));
        vector.clear();
        assert!(vector.is_empty() && vector.room() == VECTOR);
    }

    #[test]
    fn a_vector_knows_whether_there_is_something_to_be_segmented_in_it() {
        let pool = Pool::new(PoolSize { small: 3, large: 0 }).unwrap();
        let (mut cache, mut vector) = (pool.cache(), Vector::new());
        for (gso, expected) in [(Gso::None, false), (Gso::Tcp6, true), (Gso::None, true)] {
            let mut packet = Packet::new(&mut cache, 60).unwrap();
            packet.set_offload(Offload { gso, ..Offload::default() });
            assert!(vector.push(packet).is_ok());
            assert_eq!(vector.has_segments(), expected);
        }
        vector.filled().iter_mut().for_each(|packet| packet.recycle(&mut cache));
        vector.clear();
        assert!(!vector.has_segments());
    }

    #[test]
    fn a_frame_lists_places_in_order() {
        let mut frame = Indices::new();
        for place in 0..=255 {
            frame.push_if(place, place % 2 == 0);
        }
        assert_eq!((frame.len(), frame.places()[1]), (128, 2));
        frame.fill(VECTOR);
        assert_eq!((frame.len(), frame.places()[255]), (256, 255));
        frame.clear();
        (0..=255).rev().for_each(|place| frame.push(place));
        frame.sort();
        assert!(frame.places().iter().copied().eq(0..=255));
        frame.clear();
        [200, 3, 64, 63].into_iter().for_each(|place| frame.push(place));
        frame.sort();
        assert_eq!(frame.places(), [3, 63, 64, 200]);
        frame.append(&[9, 1]);
        assert_eq!((frame.len(), frame.places()[4..].to_vec()), (6, vec![9, 1]));
        frame.clear();
        assert!(frame.places().is_empty());
    }
}
