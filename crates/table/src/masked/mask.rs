//! Masks over the first octets of a header, and the keys that they make.

/// Octets of a granule.
pub const GRANULE: usize = 16;
/// Granules of a mask, at most.
pub const MOST_GRANULES: usize = 8;
/// Octets of a mask, at most.
pub const MOST_OCTETS: usize = GRANULE * MOST_GRANULES;
/// Words of a key, at most.
pub const MOST_WORDS: usize = MOST_OCTETS / 8;

/// A key: its words, as many as [`Mask::words`] says, and zeros behind them.
pub type Key = [u64; MOST_WORDS];

/// The octets of a header that count.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Mask {
    /// Granules in front of the key.
    skip: usize,
    /// Words of the key: two for each granule.
    words: usize,
    /// Octets that a packet has to have.
    needed: usize,
    /// The mask of the key.
    mask: Key,
}

/// A mask, or the value of an entry, that is not usable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MaskError {
    /// No bit is set.
    #[error("the mask is zero: every packet would have the same key")]
    Zero,
    /// It is longer than [`MOST_OCTETS`].
    #[error("the mask has {0} octets, {MOST_OCTETS} at most are possible")]
    TooLong(usize),
    /// A value has bits that the mask does not cover.
    #[error("octet {at} of the value is {value:#04x}, where the mask is {mask:#04x}")]
    Uncovered {
        /// Which octet.
        at: usize,
        /// Its value.
        value: u8,
        /// The mask there.
        mask: u8,
    },
    /// A value has octets behind the last one of the mask.
    #[error("the value has {value} octets, and the mask covers {mask}")]
    ValueTooLong {
        /// Octets of the value.
        value: usize,
        /// Octets up to the last one that counts.
        mask: usize,
    },
}

impl Mask {
    /// Creates a mask of these octets, the first of which belongs to the first octet of the header.
    ///
    /// # Errors
    /// If no bit is set, or there are too many octets.
    pub fn new(octets: &[u8]) -> Result<Mask, MaskError> {
        if octets.len() > MOST_OCTETS {
            return Err(MaskError::TooLong(octets.len()));
        }
        let first = octets.iter().position(|&octet| octet != 0).ok_or(MaskError::Zero)?;
        let needed = octets.iter().rposition(|&octet| octet != 0).map_or(0, |last| last + 1);
        let skip = first / GRANULE;
        let words = 2 * (needed.div_ceil(GRANULE) - skip);
        Ok(Mask { skip, words, needed, mask: words_of(&octets[skip * GRANULE..needed]) })
    }

    /// Granules that are skipped.
    pub fn skip(&self) -> usize {
        self.skip
    }

    /// Granules of the key.
    pub fn granules(&self) -> usize {
        self.words / 2
    }

    /// Words of the key.
    #[inline(always)]
    pub fn words(&self) -> usize {
        self.words
    }

    /// Octets that a packet has to have from the start of the mask on: shorter ones match no entry.
    #[inline(always)]
    pub fn needed(&self) -> usize {
        self.needed
    }

    /// Returns the octets of the mask up to the last one that counts.
    pub fn octets(&self) -> Vec<u8> {
        self.unmask(&self.mask)
    }

    /// Returns the octets of a key, with zeros where it has none.
    pub fn unmask(&self, key: &Key) -> Vec<u8> {
        let key = key.iter().flat_map(|word| word.to_be_bytes());
        let octets = std::iter::repeat_n(0, self.skip * GRANULE).chain(key);
        octets.take(self.needed).collect()
    }

    /// Reads the value of an entry. Octets behind its last one are zero.
    ///
    /// # Errors
    /// If it has bits that the mask does not cover.
    pub fn value(&self, octets: &[u8]) -> Result<Key, MaskError> {
        let mask = self.octets();
        for (at, (&value, &mask)) in octets.iter().zip(&mask).enumerate() {
            if value & !mask != 0 {
                return Err(MaskError::Uncovered { at, value, mask });
            }
        }
        if octets.len() > mask.len() {
            return Err(MaskError::ValueTooLong { value: octets.len(), mask: mask.len() });
        }
        Ok(words_of(octets.get(self.skip * GRANULE..).unwrap_or_default()))
    }

    /// Returns the key of a header that begins with these octets; `None` if it is too short.
    #[inline]
    pub fn key(&self, octets: &[u8]) -> Option<Key> {
        let mut key = [0; MOST_WORDS];
        match self.words {
            2 => self.read::<2>(octets).map(|own| key[..2].copy_from_slice(&own)),
            4 => self.read::<4>(octets).map(|own| key[..4].copy_from_slice(&own)),
            6 => self.read::<6>(octets).map(|own| key[..6].copy_from_slice(&own)),
            8 => self.read::<8>(octets).map(|own| key[..8].copy_from_slice(&own)),
            10 => self.read::<10>(octets).map(|own| key[..10].copy_from_slice(&own)),
            12 => self.read::<12>(octets).map(|own| key[..12].copy_from_slice(&own)),
            14 => self.read::<14>(octets).map(|own| key[..14].copy_from_slice(&own)),
            _ => self.read::<16>(octets).map(|own| key = own),
        }?;
        Some(key)
    }

    /// Reads a key of `W` words, which is what the mask has; `None` if the octets are too few.
    #[inline(always)]
    pub(super) fn read<const W: usize>(&self, octets: &[u8]) -> Option<[u64; W]> {
        if octets.len() < self.needed {
            return None;
        }
        let mut key = [0; W];
        let from = self.skip * GRANULE;
        if let Some(whole) = octets.get(from..from + 8 * W) {
            for ((key, octets), mask) in key.iter_mut().zip(whole.as_chunks::<8>().0).zip(&self.mask) {
                *key = u64::from_be_bytes(*octets) & mask;
            }
            return Some(key);
        }
        // The packet ends in the last granule.
        let all = words_of(octets.get(from..).unwrap_or_default());
        for ((key, word), mask) in key.iter_mut().zip(all).zip(&self.mask) {
            *key = word & mask;
        }
        Some(key)
    }
}

/// Words of octets, with zeros behind them.
fn words_of(octets: &[u8]) -> Key {
    let mut words = [0; MOST_WORDS];
    for (word, octets) in words.iter_mut().zip(octets.chunks(8)) {
        let mut whole = [0; 8];
        whole[..octets.len()].copy_from_slice(octets);
        *word = u64::from_be_bytes(whole);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn granules_in_front_and_behind_are_left_out() {
        let mut octets = [0; 40];
        (octets[17], octets[33]) = (0xf0, 0xff);
        let mask = Mask::new(&octets).unwrap();
        assert_eq!((mask.skip(), mask.granules(), mask.words(), mask.needed()), (1, 2, 4, 34));
        assert_eq!(mask.octets(), octets[..34]);
        let packet: Vec<u8> = (0..40).map(|octet| octet as u8 | 0x80).collect();
        let key = mask.key(&packet).unwrap();
        assert_eq!(mask.unmask(&key), {
            let mut wanted = vec![0; 34];
            (wanted[17], wanted[33]) = (0x90, 0xa1);
            wanted
        });
        assert_eq!(mask.key(&packet[..34]), Some(key));
        assert_eq!(mask.key(&packet[..33]), None);
    }

    #[test]
    fn masks_and_values_that_mean_nothing_are_refused() {
        assert_eq!(Mask::new(&[0; 128]), Err(MaskError::Zero));
        assert_eq!(Mask::new(&[]), Err(MaskError::Zero));
        assert_eq!(Mask::new(&[1; 129]), Err(MaskError::TooLong(129)));
        let mask = Mask::new(&[0xff, 0xf0]).unwrap();
        assert_eq!(mask.value(&[1, 0x1f]), Err(MaskError::Uncovered { at: 1, value: 0x1f, mask: 0xf0 }));
        assert_eq!(mask.value(&[1, 0x10, 0]), Err(MaskError::ValueTooLong { value: 3, mask: 2 }));
        assert_eq!(mask.value(&[1]).unwrap(), mask.key(&[1, 0]).unwrap());
    }
}
