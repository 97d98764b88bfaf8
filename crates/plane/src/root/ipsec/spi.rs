//! The table of inbound SPIs: which pair of SAs a packet of ESP belongs to.
//!
//! Open addressing, at most half full, with a secret seed: nobody can aim SPIs at one cell. A cell holds an SPI and a number,
//! so an unknown SPI touches no SA.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

use weir_base::prefetch;

use crate::root::NONE;

/// Numbers of pairs of SAs by inbound SPI, destination and routing domain.
#[derive(Debug)]
pub struct SpiTable {
    seed: [u64; 2],
    mask: u32,
    cells: Box<[Cell]>,
}

#[derive(Debug, Clone, Copy)]
struct Cell {
    spi: u32,
    /// [`NONE`]: the cell is empty.
    number: u32,
}

impl Default for SpiTable {
    fn default() -> Self {
        SpiTable::new(&[])
    }
}

/// An inbound SA: routing domain, destination, SPI, and the number of its pair.
pub type Entry = (u16, IpAddr, u32, u32);

impl SpiTable {
    /// Makes the table of these SAs, which differ in routing domain, destination or SPI.
    #[must_use]
    pub fn new(entries: &[Entry]) -> SpiTable {
        let random = RandomState::new();
        let seed = [random.hash_one(1), random.hash_one(2) | 1];
        let cells = (entries.len() * 2).next_power_of_two().max(2);
        let empty = Cell { spi: 0, number: NONE };
        let mut table = SpiTable { seed, mask: cells as u32 - 1, cells: vec![empty; cells].into() };
        for &(vrf, destination, spi, number) in entries {
            let mut at = table.home(vrf, destination, spi);
            // At least half of the cells are empty.
            while table.cells[at as usize].number != NONE {
                at = (at + 1) & table.mask;
            }
            table.cells[at as usize] = Cell { spi, number };
        }
        table
    }

    /// Finds the number of an SA. `is` confirms routing domain and destination of a number with the SPI.
    #[inline]
    pub fn find(&self, vrf: u16, destination: IpAddr, spi: u32, is: impl Fn(u32) -> bool) -> Option<u32> {
        self.find_from(self.home(vrf, destination, spi), spi, is)
    }

    /// As [`SpiTable::find`], by the place where the search begins.
    #[inline]
    pub fn find_from(&self, home: u32, spi: u32, is: impl Fn(u32) -> bool) -> Option<u32> {
        let mut at = home;
        loop {
            let cell = *self.cells.get(at as usize)?;
            if cell.number == NONE {
                return None;
            }
            if cell.spi == spi && is(cell.number) {
                return Some(cell.number);
            }
            at = (at + 1) & self.mask;
        }
    }

    /// Prefetches the cell where a search begins.
    #[inline(always)]
    pub fn prefetch(&self, home: u32) {
        prefetch::read(self.cells.as_ptr().wrapping_add(home as usize));
    }

    /// The place where the search for an SA begins.
    #[inline(always)]
    #[must_use]
    pub fn home(&self, vrf: u16, destination: IpAddr, spi: u32) -> u32 {
        self.home_of(vrf, SpiTable::word(destination), spi)
    }

    /// The word of a destination from which its place follows: an address of IPv4 is its own.
    #[inline(always)]
    #[must_use]
    pub fn word(destination: IpAddr) -> u64 {
        match destination {
            IpAddr::V4(address) => u64::from(address.to_bits()),
            IpAddr::V6(address) => {
                let bits = address.to_bits();
                (bits >> 64) as u64 ^ (bits as u64).rotate_left(29)
            }
        }
    }

    /// The same as [`SpiTable::home`], by the word of the destination.
    #[inline(always)]
    #[must_use]
    pub fn home_of(&self, vrf: u16, address: u64, spi: u32) -> u32 {
        let word = address ^ u64::from(spi) << 32 ^ u64::from(vrf) << 16 ^ self.seed[0];
        let product = u128::from(word) * u128::from(self.seed[1]);
        ((product >> 64) as u64 ^ product as u64) as u32 & self.mask
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sa_is_found_and_no_other() {
        let mut entries: Vec<Entry> = Vec::new();
        for number in 0..2000u32 {
            let destination = match number % 3 {
                0 => IpAddr::from([192, 0, 2, (number % 200) as u8]),
                1 => IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, (number % 7) as u16]),
                _ => IpAddr::from([198, 51, 100, 1]),
            };
            entries.push(((number % 2) as u16, destination, 256 + number / 8, number));
        }
        entries.sort_by_key(|&(vrf, destination, spi, _)| (vrf, destination, spi));
        entries.dedup_by_key(|&mut (vrf, destination, spi, _)| (vrf, destination, spi));
        let table = SpiTable::new(&entries);
        let entry = |number: u32| entries.iter().find(|entry| entry.3 == number).unwrap();
        for spi in 250..520 {
            for vrf in 0..3 {
                for destination in entries.iter().map(|entry| entry.1).step_by(37).chain([[10, 0, 0, 1].into()]) {
                    let naive = entries.iter().find(|own| (own.0, own.1, own.2) == (vrf, destination, spi));
                    let is = |number| (entry(number).0, entry(number).1) == (vrf, destination);
                    assert_eq!(table.find(vrf, destination, spi, is), naive.map(|own| own.3));
                }
            }
        }
        assert_eq!(SpiTable::default().find(0, [10, 0, 0, 1].into(), 256, |_| true), None);
    }
}
