//! Packets of keys that are not in the table yet: how many there were, as far as that is known.

use weir_base::prefetch;

/// Slots, at most.
const MOST: usize = 1 << 20;
/// Slots, at least.
const LEAST: usize = 1 << 10;
/// The bits of a slot that count. The others are a part of the key's hash.
const COUNT: u32 = 0xff;

/// Counts packets by the hash of their key, whose 64 bits depend on a secret, in slots of four octets. A key that comes to the slot of another takes it once in four times, at
/// random: if every packet took it, keys that come in turns would never be counted twice. So a count may be too small; it is too
/// large for one key in 2^24 at most.
#[derive(Debug, Default)]
pub struct Seen {
    slots: Vec<u32>,
    /// The state of a generator (PCG's multiplier): its upper bits are even enough for this, and cost an instruction.
    coin: u32,
}

/// The slot of a key, and what stands in it for that key.
#[derive(Debug, Clone, Copy, Default)]
pub struct Slot {
    at: u32,
    tag: u32,
}

impl Seen {
    /// Creates counts without slots: they count nothing.
    pub const fn new() -> Seen {
        Seen { slots: Vec::new(), coin: 0 }
    }

    /// Makes slots for so many keys that come in turns, 1,048,576 at most; none for 0. What was counted is kept if there
    /// are as many slots as before.
    pub fn set_most(&mut self, keys: usize) {
        let wanted = if keys == 0 { 0 } else { keys.next_power_of_two().clamp(LEAST, MOST) };
        if wanted != self.slots.len() {
            // A slot that is written has its memory before a packet comes.
            self.slots = vec![COUNT; wanted];
        }
    }

    /// Returns the octets of memory.
    pub fn octets(&self) -> usize {
        self.slots.capacity() * size_of::<u32>()
    }

    /// Finds the slot of a key by its hash, and fetches it.
    #[inline]
    pub fn slot(&self, hash: u64) -> Slot {
        let at = hash as usize & self.slots.len().wrapping_sub(1);
        if let Some(slot) = self.slots.get(at) {
            prefetch::read(std::ptr::from_ref(slot));
        }
        // Tags are not 0, which stands in slots that nobody has used.
        Slot { at: at as u32, tag: ((hash >> 40) as u32).max(1) << 8 }
    }

    /// Counts a packet of the key of a slot. Returns how many there were, this one included, up to 255; 0 without slots.
    #[inline]
    pub fn count(&mut self, Slot { at, tag }: Slot) -> u8 {
        let Some(slot) = self.slots.get_mut(at as usize) else { return 0 };
        if *slot & !COUNT == tag {
            let now = ((*slot & COUNT) + 1).min(COUNT);
            *slot = tag | now;
            return now as u8;
        }
        self.coin = self.coin.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
        if *slot == COUNT || self.coin >> 30 == 0 {
            *slot = tag | 1;
        }
        1
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Key, Secret};
    use super::*;

    /// Digits of pi: the hash of keys under a secret of few bits has few bits.
    const SECRET: Secret =
        Secret::new([0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344, 0xa409_3822_299f_31d0, 0x082e_fa98_ec4e_6c89]);

    fn count(seen: &mut Seen, key: [u64; 2]) -> u8 {
        let slot = seen.slot(key.hash(&SECRET));
        seen.count(slot)
    }

    #[test]
    fn packets_are_counted_by_key() {
        let mut seen = Seen::new();
        assert_eq!((count(&mut seen, [1, 1]), seen.octets()), (0, 0), "without slots");
        seen.set_most(1000);
        assert_eq!(seen.octets(), 4096);
        for turn in 1..=300u32 {
            assert_eq!(u32::from(count(&mut seen, [1, 1])), turn.min(255));
        }
        assert_eq!(count(&mut seen, [1, 2]), 1);
        seen.set_most(600);
        assert_eq!(count(&mut seen, [1, 2]), 2, "there are as many slots as before");
        seen.set_most(5000);
        assert_eq!(count(&mut seen, [1, 2]), 1, "there are more");
        seen.set_most(0);
        assert_eq!((count(&mut seen, [1, 2]), seen.octets()), (0, 0));
    }

    #[test]
    fn a_flood_of_keys_is_never_counted_twice_and_a_busy_key_is() {
        let mut seen = Seen::new();
        seen.set_most(1 << 12);
        let mut most = 0;
        for number in 0..100_000u64 {
            assert_eq!(count(&mut seen, [number, 7]), 1, "key {number}");
            if number % 100 == 0 {
                most = most.max(count(&mut seen, [u64::MAX, 0]));
            }
        }
        assert!(most >= 10, "{most}");
    }

    #[test]
    fn as_many_keys_as_slots_are_known_again_in_turns() {
        let mut seen = Seen::new();
        seen.set_most(1 << 12);
        let mut known = vec![false; 1 << 12];
        for _ in 0..12 {
            for (number, known) in known.iter_mut().enumerate().filter(|(_, known)| !**known) {
                *known = count(&mut seen, [number as u64, 7]) >= 2;
            }
        }
        let share = known.iter().filter(|&&known| known).count();
        assert!(share > (1 << 12) * 95 / 100, "{share}");
    }
}
