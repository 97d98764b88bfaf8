//! The table of tunnels: which one a packet with these outer addresses, carrier and identifier belongs to.
//!
//! Open addressing, at most half full, with a secret seed: nobody can aim packets at one cell. A cell holds a part of the hash and
//! a number, so a packet of no tunnel touches none.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

use weir_packet::tunnel::{Carrier, Id};

use crate::root::NONE;

/// The key by which the tunnel of a packet is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    /// The number of the routing domain of the outer addresses.
    pub vrf: u16,
    /// The gateway's outer address.
    pub local: IpAddr,
    /// The outer address of the other end.
    pub remote: IpAddr,
    /// The carrier.
    pub carrier: Carrier,
    /// The UDP port that packets go to; 0 without UDP.
    pub port: u16,
    /// The identifier.
    pub id: Id,
}

/// Numbers of tunnels by their keys.
#[derive(Debug)]
pub struct TunnelTable {
    seed: [u64; 4],
    mask: u32,
    cells: Box<[Cell]>,
}

#[derive(Debug, Clone, Copy)]
struct Cell {
    /// The upper half of the hash.
    tag: u32,
    /// [`NONE`]: the cell is empty.
    number: u32,
}

impl Default for TunnelTable {
    fn default() -> Self {
        TunnelTable::new(&[])
    }
}

impl TunnelTable {
    /// Makes the table of these tunnels, whose keys differ.
    #[must_use]
    pub fn new(entries: &[(Key, u32)]) -> TunnelTable {
        let random = RandomState::new();
        let seed = [1, 2, 3, 4].map(|word: u64| random.hash_one(word) | 1);
        let cells = (entries.len() * 2).next_power_of_two().max(2);
        let empty = Cell { tag: 0, number: NONE };
        let mut table = TunnelTable { seed, mask: cells as u32 - 1, cells: vec![empty; cells].into() };
        for (key, number) in entries {
            let (mut at, tag) = table.home(key);
            // At least half of the cells are empty.
            while table.cells[at as usize].number != NONE {
                at = (at + 1) & table.mask;
            }
            table.cells[at as usize] = Cell { tag, number: *number };
        }
        table
    }

    /// Finds the number of a tunnel. `is` confirms the key of a number.
    #[inline]
    pub fn find(&self, key: &Key, is: impl Fn(u32) -> bool) -> Option<u32> {
        let (mut at, tag) = self.home(key);
        loop {
            let cell = *self.cells.get(at as usize)?;
            if cell.number == NONE {
                return None;
            }
            if cell.tag == tag && is(cell.number) {
                return Some(cell.number);
            }
            at = (at + 1) & self.mask;
        }
    }

    /// The first cell that may have the number of a key, and the key's tag.
    #[inline(always)]
    fn home(&self, key: &Key) -> (u32, u32) {
        let [a, b, c, d] = self.seed;
        let rest = u64::from(key.vrf) << 48 | u64::from(key.port) << 32 | u64::from(key.carrier as u8);
        let hash =
            mix(word(key.local) ^ a, b) ^ mix(word(key.remote) ^ c, d) ^ mix(key.id.0 ^ rest.rotate_left(17), b ^ d);
        (hash as u32 & self.mask, (hash >> 32) as u32)
    }
}

#[inline(always)]
fn word(address: IpAddr) -> u64 {
    match address {
        IpAddr::V4(address) => u64::from(address.to_bits()),
        IpAddr::V6(address) => {
            let bits = address.to_bits();
            (bits >> 64) as u64 ^ (bits as u64).rotate_left(29)
        }
    }
}

#[inline(always)]
fn mix(word: u64, seed: u64) -> u64 {
    let product = u128::from(word) * u128::from(seed | 1);
    (product >> 64) as u64 ^ product as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tunnel_is_found_and_no_other() {
        let address = |n: u32| match n % 2 {
            0 => IpAddr::from([192, 0, 2, (n % 200) as u8]),
            _ => IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, (n % 9) as u16]),
        };
        let key = |n: u32| Key {
            vrf: (n % 3) as u16,
            local: address(n % 7),
            remote: address(n % 11),
            carrier: Carrier::ALL[(n % 5) as usize],
            port: if n % 5 < 3 { 4789 } else { 0 },
            id: if n.is_multiple_of(13) { Id::key(Some(0)) } else { Id(u64::from(n / 3)) },
        };
        let mut entries: Vec<(Key, u32)> = Vec::new();
        for number in 0..2000 {
            if !entries.iter().any(|entry| entry.0 == key(number)) {
                entries.push((key(number), number));
            }
        }
        let table = TunnelTable::new(&entries);
        for number in 0..6000 {
            let own = key(number);
            let naive = entries.iter().find(|entry| entry.0 == own).map(|entry| entry.1);
            let is = |found: u32| entries.contains(&(own, found));
            assert_eq!(table.find(&own, is), naive, "{own:?}");
        }
        assert_eq!(TunnelTable::default().find(&key(0), |_| true), None);
    }
}
