//! Traffic by source, in bounded memory.
//!
//! The unit of counting is a **block**: the packets of one interface whose sources are in the same /24 (/48 for IPv6),
//! in the same interval between boundaries, and have the same verdict. So all packets of a block have one reason.
//!
//! There are at most [`MOST`] blocks. If another source comes then, the half with the fewest packets is evicted: their
//! counts are kept as sums by interface, without their sources. A source with many packets stays in the table during a
//! flood of forged sources. Its counts are lower bounds from then on, as it may have been evicted when it had few
//! packets.

use std::collections::HashMap;
use std::net::IpAddr;

use weir_plane::family::Family as _;
use weir_plane::harness::Validated;
use weir_plane::reason::Reason;
use weir_plane::record::Said;
use weir_plane::sav::Class;
use weir_table::sav::Verdict;

use super::address::Address;

/// Blocks that there may be.
pub(super) const MOST: usize = 65_536;

/// The unit of counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Block {
    /// Number of the interface.
    pub(super) interface: u32,
    /// The first address.
    pub(super) start: IpAddr,
    /// The policy's place in the model.
    pub(super) policy: u16,
    /// The verdict.
    pub(super) kind: Kind,
    /// Why its packets are dropped, if they are.
    pub(super) refused: Option<Reason>,
}

/// The verdict, without the parts that differ from packet to packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// The mechanism said so.
    Mechanism(Verdict),
    /// The class of the source did.
    Special(Class),
    /// Its hardware address did.
    Link,
    /// The packet was exempt.
    Exempt,
}

impl Kind {
    fn of(said: Said) -> Kind {
        match said {
            Said::Mechanism(verdict) => Kind::Mechanism(verdict),
            Said::Special(class, _) => Kind::Special(class),
            Said::Link(_) => Kind::Link,
            Said::Exempt(_) => Kind::Exempt,
        }
    }
}

/// Packets and octets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Sum {
    pub(super) packets: u64,
    pub(super) octets: u64,
}

impl Sum {
    pub(super) fn add(&mut self, other: Sum) {
        self.packets += other.packets;
        self.octets += other.octets;
    }
}

/// The counts of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) sum: Sum,
    /// The first source.
    pub(super) example: IpAddr,
    /// The verdict on that packet.
    pub(super) said: Said,
    /// Its turn among all blocks that ever were: breaks ties, so that equal captures give equal results.
    turn: u64,
}

/// The boundaries that lie within blocks, by number of the interface: boundaries at the beginning of a block are left
/// out.
#[derive(Debug, Default)]
struct Cuts<K>(HashMap<u32, Box<[K]>>);

impl<K: Address> Cuts<K> {
    /// The first address of the block of a source.
    fn start(&mut self, interface: u32, source: K, boundaries: impl FnOnce() -> Vec<K>) -> K {
        let block = source.truncate(K::BLOCK);
        let cuts = self.0.entry(interface).or_insert_with(|| {
            let within = boundaries().into_iter().filter(|boundary| boundary.truncate(K::BLOCK) != *boundary);
            within.collect()
        });
        let before = cuts.partition_point(|cut| *cut <= source).checked_sub(1).map(|at| cuts[at]);
        before.map_or(block, |cut| cut.max(block))
    }
}

/// Where an interface's answers may change, for each family.
pub(super) trait Boundaries {
    /// For IPv4.
    fn v4(&self, interface: u32) -> Vec<u32>;
    /// For IPv6.
    fn v6(&self, interface: u32) -> Vec<u128>;
}

/// All blocks.
#[derive(Debug)]
pub(super) struct Blocks {
    v4: Cuts<u32>,
    v6: Cuts<u128>,
    blocks: HashMap<Block, Counted>,
    most: usize,
    turns: u64,
    /// Blocks that made room, and what they had counted, by number of the interface.
    made_room: u64,
    forgotten: HashMap<u32, Sum>,
}

impl Blocks {
    /// With room for so many, 2 at least.
    pub(super) fn new(most: usize) -> Blocks {
        Blocks {
            v4: Cuts::default(),
            v6: Cuts::default(),
            blocks: HashMap::new(),
            most: most.max(2),
            turns: 0,
            made_room: 0,
            forgotten: HashMap::new(),
        }
    }

    /// Counts a packet.
    pub(super) fn count(&mut self, packet: &Validated, boundaries: &impl Boundaries) {
        let Validated { interface, source, octets, policy, said, refused, .. } = *packet;
        let start = match source {
            IpAddr::V4(source) => self.v4.start(interface, source.into(), || boundaries.v4(interface)).address(),
            IpAddr::V6(source) => self.v6.start(interface, source.into(), || boundaries.v6(interface)).address(),
        };
        let block = Block { interface, start, policy, kind: Kind::of(said), refused };
        let one = Sum { packets: 1, octets: u64::from(octets) };
        if let Some(counted) = self.blocks.get_mut(&block) {
            counted.sum.add(one);
            return;
        }
        if self.blocks.len() >= self.most {
            self.make_room();
        }
        self.blocks.insert(block, Counted { sum: one, example: source, said, turn: self.turns });
        self.turns += 1;
    }

    /// Evicts the half with the fewest packets, of equal ones the oldest.
    fn make_room(&mut self) {
        let weight = |counted: &Counted| (counted.sum.packets, counted.turn);
        let mut weights: Vec<(u64, u64)> = self.blocks.values().map(weight).collect();
        let half = weights.len() / 2;
        let (_, &mut least, _) = weights.select_nth_unstable(half);
        let (forgotten, made_room) = (&mut self.forgotten, &mut self.made_room);
        self.blocks.retain(|block, counted| {
            let stays = weight(counted) >= least;
            if !stays {
                *made_room += 1;
                forgotten.entry(block.interface).or_default().add(counted.sum);
            }
            stays
        });
    }

    /// Returns the table by interface, source and order of arrival.
    pub(super) fn into_order(self) -> Counts {
        let mut blocks: Vec<(Block, Counted)> = self.blocks.into_iter().collect();
        blocks.sort_unstable_by_key(|(block, counted)| (block.interface, block.start, counted.turn));
        let mut forgotten: Vec<(u32, Sum)> = self.forgotten.into_iter().collect();
        forgotten.sort_unstable_by_key(|(interface, _)| *interface);
        Counts { blocks, made_room: self.made_room, forgotten }
    }
}

/// The counts of all blocks.
#[derive(Debug)]
pub(super) struct Counts {
    /// By interface, source and turn.
    pub(super) blocks: Vec<(Block, Counted)>,
    /// Blocks that made room.
    pub(super) made_room: u64,
    /// The counts of evicted blocks, by number of the interface.
    pub(super) forgotten: Vec<(u32, Sum)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    struct At(Vec<u32>);

    impl Boundaries for At {
        fn v4(&self, _: u32) -> Vec<u32> {
            self.0.clone()
        }

        fn v6(&self, _: u32) -> Vec<u128> {
            vec![0]
        }
    }

    fn packet(source: &str) -> Validated {
        Validated {
            ordinal: 0,
            interface: 3,
            source: source.parse().unwrap(),
            octets: 100,
            policy: 0,
            said: Said::Mechanism(Verdict::Invalid),
            refused: None,
        }
    }

    fn counted(blocks: Blocks) -> Vec<(String, u64)> {
        let counts = blocks.into_order();
        counts.blocks.iter().map(|(block, counted)| (block.start.to_string(), counted.sum.packets)).collect()
    }

    #[test]
    fn blocks_end_where_answers_change() {
        let mut blocks = Blocks::new(MOST);
        // 10.0.0.64/26 has another rule than what is around it; 10.0.0.0/8 begins a block and cuts none.
        let cut = 0x0a00_0040;
        let at = At(vec![0, 0x0a00_0000, cut, cut + 64, 0x0b00_0000]);
        for source in ["10.0.0.1", "10.0.0.63", "10.0.0.64", "10.0.0.127", "10.0.0.128", "10.0.1.1", "2001:db8:1:2::3"]
        {
            blocks.count(&packet(source), &at);
        }
        let expected = [("10.0.0.0", 2), ("10.0.0.64", 2), ("10.0.0.128", 1), ("10.0.1.0", 1), ("2001:db8:1::", 1)];
        assert_eq!(counted(blocks), expected.map(|(start, packets)| (start.to_owned(), packets)));
    }

    #[test]
    fn who_sends_much_stays_in_a_full_table_and_the_sum_is_kept() {
        let mut blocks = Blocks::new(8);
        let at = At(vec![0]);
        for turn in 0..200u32 {
            blocks.count(&packet("192.0.2.1"), &at);
            blocks.count(&packet(&format!("10.{}.{}.1", turn / 256, turn % 256)), &at);
        }
        assert!(blocks.blocks.len() <= 8);
        let counts = blocks.into_order();
        let (block, heavy) = counts.blocks.last().unwrap();
        assert_eq!((block.start.to_string(), heavy.sum.packets), ("192.0.2.0".to_owned(), 200));
        let kept: u64 = counts.blocks.iter().map(|(_, counted)| counted.sum.packets).sum();
        let [(3, forgotten)] = counts.forgotten[..] else { panic!("{:?}", counts.forgotten) };
        assert_eq!(kept + forgotten.packets, 400);
        assert_eq!(forgotten.octets, 100 * forgotten.packets);
        assert_eq!(counts.made_room, forgotten.packets, "each of them had one packet");
    }
}
