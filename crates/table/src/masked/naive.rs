//! The specification: entries in a list, each compared octet by octet.

/// A table without structure.
#[derive(Clone, Debug, Default)]
pub struct Naive {
    mask: Vec<u8>,
    entries: Vec<(Vec<u8>, u32)>,
}

impl Naive {
    /// Creates an empty table with this mask.
    pub fn new(mask: &[u8]) -> Naive {
        let len = mask.iter().rposition(|&octet| octet != 0).map_or(0, |last| last + 1);
        Naive { mask: mask[..len].to_vec(), entries: Vec::new() }
    }

    fn masked(&self, octets: &[u8]) -> Option<Vec<u8>> {
        let octets = octets.get(..self.mask.len())?;
        Some(octets.iter().zip(&self.mask).map(|(octet, mask)| octet & mask).collect())
    }

    /// Adds an entry for headers that begin like this one, or changes its number. Nothing, if it is too short.
    pub fn insert(&mut self, octets: &[u8], number: u32) {
        let Some(key) = self.masked(octets) else { return };
        match self.entries.iter_mut().find(|(own, _)| *own == key) {
            Some(entry) => entry.1 = number,
            None => self.entries.push((key, number)),
        }
    }

    /// Removes the entry for such headers.
    pub fn remove(&mut self, octets: &[u8]) {
        if let Some(key) = self.masked(octets) {
            self.entries.retain(|(own, _)| *own != key);
        }
    }

    /// Returns the number of the entry for a header.
    pub fn look_up(&self, octets: &[u8]) -> Option<u32> {
        let key = self.masked(octets)?;
        self.entries.iter().find(|(own, _)| *own == key).map(|(_, number)| *number)
    }

    /// Entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}
