//! A buddy allocator over the arena: blocks of powers of two, split and merged again.
//!
//! Merging matters more than a tight fit: a table that was filled with one shape of routes must be able to take another
//! shape afterwards. Natural alignment comes for free, so a node of up to 64 octets never straddles two cache lines.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::arena::{Arena, Block, UNIT};

/// The arena is taken in blocks of `UNIT << TOP` octets.
const TOP: u8 = 12;

/// Ends a list of free blocks.
const NONE: u32 = u32::MAX;

/// In `state`: no free block begins here.
const TAKEN: u8 = u8::MAX;

/// The size of a block as a power of two of units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Order(u8);

impl Order {
    /// The smallest order that holds so many octets.
    pub(crate) fn for_octets(octets: usize) -> Order {
        Order(octets.div_ceil(UNIT).next_power_of_two().trailing_zeros() as u8)
    }

    pub(crate) fn octets(self) -> usize {
        UNIT << self.0
    }
}

/// The free lists are threaded through the free blocks themselves (first word: next, second: previous).
pub(crate) struct Buddy {
    arena: Arc<Arena>,
    heads: [u32; TOP as usize + 1],
    /// Per unit below the frontier: the order of the free block that begins there, or [`TAKEN`].
    state: Vec<u8>,
    /// Units that can ever be handed out.
    capacity: usize,
    used: usize,
}

impl Buddy {
    pub(crate) fn new(arena: Arc<Arena>, octets: usize) -> Buddy {
        let top = 1 << TOP;
        let capacity = octets / UNIT / top * top;
        Buddy { arena, heads: [NONE; TOP as usize + 1], state: Vec::new(), capacity, used: 0 }
    }

    /// Octets in blocks that are taken.
    pub(crate) fn used(&self) -> usize {
        self.used * UNIT
    }

    /// Units up to which blocks have ever been handed out.
    pub(crate) fn frontier(&self) -> usize {
        self.state.len()
    }

    /// A block; none if there is no room, or the arena is not taken in blocks as large.
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

    /// Takes back a block that `allocate` gave for this order.
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
