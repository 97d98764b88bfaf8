//! A buddy allocator for the arena: blocks of powers of two, split and merged.
//!
//! Merging matters more than a tight fit: a table that held one shape of routes must be able to take another. Blocks
//! are naturally aligned, so a node of up to 64 octets never crosses a cache line.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::arena::{Arena, Block, UNIT};

/// The arena is divided into blocks of `UNIT << TOP` octets.
const TOP: u8 = 12;

/// Ends a list of free blocks.
const NONE: u32 = u32::MAX;

/// In `state`: no free block begins here.
const TAKEN: u8 = u8::MAX;

/// The size of a block as a power of two of units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Order(u8);

impl Order {
    /// Returns the smallest order for `octets` octets.
    pub(crate) fn for_octets(octets: usize) -> Order {
        Order(octets.div_ceil(UNIT).next_power_of_two().trailing_zeros() as u8)
    }

    pub(crate) fn octets(self) -> usize {
        UNIT << self.0
    }
}

/// The free lists are linked through the free blocks (first word: next, second: previous).
pub(crate) struct Buddy {
    arena: Arc<Arena>,
    heads: [u32; TOP as usize + 1],
    /// For each unit below the frontier: the order of the free block that begins there, or [`TAKEN`].
    state: Vec<u8>,
    capacity: usize,
    used: usize,
}

impl Buddy {
    pub(crate) fn new(arena: Arc<Arena>, octets: usize) -> Buddy {
        let top = 1 << TOP;
        let capacity = octets / UNIT / top * top;
        Buddy { arena, heads: [NONE; TOP as usize + 1], state: Vec::new(), capacity, used: 0 }
    }

    pub(crate) fn used(&self) -> usize {
        self.used * UNIT
    }

    /// Returns the number of units up to which blocks were ever allocated.
    pub(crate) fn frontier(&self) -> usize {
        self.state.len()
    }

    /// Allocates a block; `None` without room, or for an order above the largest.
    pub(crate) fn allocate(&mut self, order: Order) -> Option<Block> {
        if order.0 > TOP {
            return None;
        }
        let found = (order.0..=TOP).find(|&o| self.heads[usize::from(o)] != NONE);
        let (unit, mut size) = match found {
            Some(size) => {
                let unit = self.heads[usize::from(size)];
                self.unlink(unit, size);
                (unit, size)
            }
            None => {
                let unit = self.state.len();
                if unit >= self.capacity {
                    return None;
                }
                self.state.resize(unit + (1 << TOP), TAKEN);
                (unit as u32, TOP)
            }
        };
        while size > order.0 {
            size -= 1;
            self.link(unit + (1 << size), size);
        }
        self.used += 1 << order.0;
        Some(Block(unit))
    }

    /// Frees a block that `allocate` returned for this order.
    pub(crate) fn free(&mut self, block: Block, order: Order) {
        self.used -= 1 << order.0;
        let (mut unit, mut size) = (block.0, order.0);
        debug_assert_eq!(self.state[unit as usize], TAKEN, "a block is freed once");
        while size < TOP {
            let buddy = unit ^ (1 << size);
            if self.state[buddy as usize] != size {
                break;
            }
            self.unlink(buddy, size);
            unit &= !(1 << size);
            size += 1;
        }
        self.link(unit, size);
    }

    fn link(&mut self, unit: u32, size: u8) {
        let next = std::mem::replace(&mut self.heads[usize::from(size)], unit);
        self.arena.word(Block(unit).word(0)).store(next, Ordering::Relaxed);
        self.arena.word(Block(unit).word(4)).store(NONE, Ordering::Relaxed);
        if next != NONE {
            self.arena.word(Block(next).word(4)).store(unit, Ordering::Relaxed);
        }
        self.state[unit as usize] = size;
    }

    fn unlink(&mut self, unit: u32, size: u8) {
        let next = self.arena.word(Block(unit).word(0)).load(Ordering::Relaxed);
        let previous = self.arena.word(Block(unit).word(4)).load(Ordering::Relaxed);
        if previous == NONE {
            self.heads[usize::from(size)] = next;
        } else {
            self.arena.word(Block(previous).word(0)).store(next, Ordering::Relaxed);
        }
        if next != NONE {
            self.arena.word(Block(next).word(4)).store(previous, Ordering::Relaxed);
        }
        self.state[unit as usize] = TAKEN;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_base::random::Random;

    #[test]
    fn blocks_are_disjoint_aligned_and_merge_again() {
        let octets = 1 << 20;
        let mut buddy = Buddy::new(Arc::new(Arena::new(octets).unwrap()), octets);
        let mut random = Random::from_seed(1);
        let mut owner = vec![false; octets / UNIT];
        let mut taken = Vec::new();
        for _ in 0..20_000 {
            if random.chance(0.55) {
                let bound = 1 << random.below(16);
                let order = Order::for_octets(1 + random.below(bound) as usize);
                let Some(block) = buddy.allocate(order) else { continue };
                let units = block.0 as usize..block.0 as usize + order.octets() / UNIT;
                assert!(units.start.is_multiple_of(units.len()));
                assert!(owner[units.clone()].iter().all(|&taken| !taken));
                owner[units].fill(true);
                taken.push((block, order));
            } else if !taken.is_empty() {
                let (block, order) = taken.swap_remove(random.below(taken.len() as u64) as usize);
                owner[block.0 as usize..][..order.octets() / UNIT].fill(false);
                buddy.free(block, order);
            }
            assert_eq!(buddy.used(), owner.iter().filter(|&&taken| taken).count() * UNIT);
        }
        for (block, order) in taken.drain(..) {
            buddy.free(block, order);
        }
        assert_eq!(buddy.used(), 0);
        let top = Order(TOP);
        for _ in 0..octets / top.octets() {
            assert!(buddy.allocate(top).is_some());
        }
        assert!(buddy.allocate(Order(0)).is_none());
    }
}
