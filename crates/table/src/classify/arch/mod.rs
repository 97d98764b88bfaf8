//! The lookup bodies, and which of them this CPU runs.
//!
//! A vector of packets goes down together. What is still to be looked at is kept in lists, one for each kind of block, of
//! references and the packets that they are for. A pass takes some of the nodes off their list and finds where each leads:
//! to the slot that the packet picks, and to the node's rest. Then these are sorted into the lists by their kinds, without
//! branches, since which kind it is no predictor can know. Leaves are searched between passes, so that nodes whose first
//! rule comes after what has been found already need not be followed.

#[cfg(target_arch = "x86_64")]
mod avx512;
mod lists;
mod portable;

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

use weir_base::prefetch;

use self::lists::{IDENTITY, Lists, PASS, Raw, VECTOR};
use super::NO_RULE;
use super::address::{Address, LANES};
use super::block::{
    ANY, CUT, CUT_HEADER, ENDS, Entry, Exact, GROUP, HASH, HEADER, LEAF, LONG, LONG_HEADER, Node, start,
};
use super::fields::Fields;

/// What a lookup reads.
pub(crate) struct View {
    pub(crate) base: *const u8,
    pub(crate) root: u32,
    pub(crate) seeds: [u64; 4],
    /// Whether blocks are to be fetched ahead.
    pub(crate) far: bool,
}

/// What a CPU may have special instructions for.
trait Isa {
    /// Lanes of a packet, as often as a group has rules.
    type Lanes: Copy;

    /// # Safety
    /// The CPU has what the implementation is named for.
    unsafe fn lanes<K: Address>(packet: &Fields<K>) -> Self::Lanes;

    /// A bit for each 64 bits of a group: whether the lanes of the packet match there.
    ///
    /// # Safety
    /// The CPU has what the implementation is named for; a group begins at `group`, and nobody writes there.
    unsafe fn matching<K: Address>(packet: Self::Lanes, group: *const u8) -> u8;

    /// Adds references that lead somewhere to the lists of their kinds.
    ///
    /// # Safety
    /// The CPU has what the implementation is named for; the first `count` of `raw` are written, and a group more may be
    /// read; the lists have room.
    unsafe fn sort(raw: &Raw, count: usize, lists: &mut Lists);
}

/// For each packet, the identity of the first rule that matches.
///
/// # Safety
/// Every block that is reachable from the view at some time during the call stays as it is until the end of it, except
/// for slots, rests and first places, which may be stored to atomically.
#[inline]
pub(crate) unsafe fn lookup<K: Address>(view: &View, packets: &[Fields<K>], found: &mut [u32]) {
    #[cfg(target_arch = "x86_64")]
    if has_avx512() {
        // SAFETY: the CPU has the features; the rest is the caller's promise.
        return unsafe { with_avx512(view, packets, found) };
    }
    // SAFETY: the caller's promise.
    unsafe { body::<K, portable::Portable>(view, packets, found) }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("popcnt")
}

/// # Safety
/// As for [`lookup`], and the CPU has the features.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "popcnt,bmi1,bmi2,lzcnt,avx2,avx512f,avx512vl,avx512bw")]
unsafe fn with_avx512<K: Address>(view: &View, packets: &[Fields<K>], found: &mut [u32]) {
    // SAFETY: the caller's promise.
    unsafe { body::<K, avx512::Avx512>(view, packets, found) }
}

/// A body, on packets and answers.
#[cfg(test)]
pub(crate) type Body<K> = unsafe fn(&View, &[Fields<K>], &mut [u32]);

/// Every body that this CPU can run.
#[cfg(test)]
pub(crate) fn bodies<K: Address>() -> Vec<Body<K>> {
    let mut bodies: Vec<Body<K>> = vec![body::<K, portable::Portable>];
    #[cfg(target_arch = "x86_64")]
    if has_avx512() {
        bodies.push(with_avx512::<K>);
    }
    bodies
}

/// # Safety
/// As for [`lookup`], and the CPU has what `I` is named for.
#[inline(always)]
unsafe fn body<K: Address, I: Isa>(view: &View, packets: &[Fields<K>], found: &mut [u32]) {
    for (packets, found) in packets.chunks(VECTOR).zip(found.chunks_mut(VECTOR)) {
        // SAFETY: the caller's promise.
        unsafe { vector::<K, I>(view, packets, found) };
    }
}

/// # Safety
/// As for [`body`], and there are at most [`VECTOR`] packets, with as many answers.
#[inline(always)]
unsafe fn vector<K: Address, I: Isa>(view: &View, packets: &[Fields<K>], found: &mut [u32]) {
    let mut best = [u64::MAX; VECTOR];
    found.fill(NO_RULE);
    let mut lists = Lists::new();
    let mut raw = Raw::empty();
    for place in 0..packets.len() {
        raw.set(place, view.root, IDENTITY[place]);
    }
    // SAFETY: the references are of the view, the packets' numbers below their count, by induction: whatever goes into
    // `raw` is a slot or a rest with the number that led there. A block is of the kind that its reference tells.
    unsafe {
        I::sort(&raw, packets.len(), &mut lists);
        loop {
            for size in 0..3 {
                let (count, list) = lists.take_leaves(size);
                for item in 0..count {
                    let (reference, packet) = (list.reference(item), list.packet(item));
                    std::hint::assert_unchecked(packet < packets.len() && packets.len() == found.len());
                    let lanes = I::lanes(&packets[packet]);
                    let leaf = start(view.base, reference);
                    let groups = match size {
                        0 => K::GROUPS[0],
                        1 => K::GROUPS[1],
                        _ => K::GROUPS[2],
                    };
                    let hits = hits::<K, I>(lanes, leaf, groups);
                    let entries = leaf.add(groups * GROUP).cast::<Entry>();
                    settle(view, &packets[packet], entries, groups, hits, &mut best[packet], &mut found[packet]);
                }
            }
            let (count, list) = lists.take_long();
            for item in 0..count {
                let (reference, packet) = (list.reference(item), list.packet(item));
                search_long::<K, I>(view, reference, &packets[packet], &mut best[packet], &mut found[packet]);
            }
            let passed = lists.nodes(HASH).0.min(PASS);
            if passed > 0 {
                let (count, list) = lists.nodes(HASH);
                for item in 0..passed {
                    let (reference, packet) =
                        (list.reference(count - passed + item), list.packet(count - passed + item));
                    std::hint::assert_unchecked(packet < packets.len());
                    let node = start(view.base, reference);
                    let head = &*node.cast::<Node>();
                    let words = K::words(&packets[packet]);
                    let slot = slot(hash::<K>(&words, &head.masks, &view.seeds), head.shift, head.slots);
                    let slots = node.add(HEADER).cast::<AtomicU32>();
                    let (child, rest) = follow(view, head, &*slots.add(slot), best[packet]);
                    raw.set(item, child, packet as u32);
                    raw.set(passed + item, rest, packet as u32);
                }
                lists.drop_nodes(HASH, passed);
                I::sort(&raw, 2 * passed, &mut lists);
                continue;
            }
            let (count, list) = lists.nodes(CUT);
            let passed = count.min(PASS);
            if passed == 0 {
                break;
            }
            for item in 0..passed {
                let (reference, packet) = (list.reference(count - passed + item), list.packet(count - passed + item));
                std::hint::assert_unchecked(packet < packets.len());
                let node = start(view.base, reference);
                let head = &*node.cast::<Node>();
                let lane = (head.masks[0] as usize).min(LANES - 1);
                let value = lane_of(&packets[packet], lane);
                let ends = &*node.add(HEADER).cast::<[AtomicU16; ENDS]>();
                let slot: usize = ends.iter().map(|end| usize::from(end.load(Ordering::Relaxed) < value)).sum();
                let slots = node.add(CUT_HEADER).cast::<AtomicU32>();
                let (child, rest) = follow(view, head, &*slots.add(slot), best[packet]);
                raw.set(item, child, packet as u32);
                raw.set(passed + item, rest, packet as u32);
            }
            lists.drop_nodes(CUT, passed);
            I::sort(&raw, 2 * passed, &mut lists);
        }
    }
}

/// Where a node leads: nowhere, if all of its rules come after the best one so far.
#[inline(always)]
fn follow(view: &View, head: &Node, slot: &AtomicU32, best: u64) -> (u32, u32) {
    // Before the slots: a rule that lowers this is linked in later.
    let live = head.first.load(Ordering::Acquire) < best;
    let (child, rest) = (slot.load(Ordering::Acquire), head.rest.load(Ordering::Acquire));
    let (child, rest) = if live { (child, rest) } else { (0, 0) };
    if view.far {
        let line = |reference: u32| view.base.wrapping_add((reference & !7) as usize * 16);
        prefetch::read(line(child));
        prefetch::read(line(child).wrapping_add(64));
        prefetch::read(line(child).wrapping_add(128));
    }
    (child, rest)
}

/// A lane of those that are compared by range.
#[inline(always)]
fn lane_of<K: Address>(packet: &Fields<K>, lane: usize) -> u16 {
    let words = K::words(packet);
    (words[(lane / 4).min(K::WORDS - 2)] >> (16 * (lane % 4))) as u16
}

/// A hash of the bits that masks leave. The seeds are secret, so that nobody can choose packets or rules that collide.
#[inline(always)]
pub(crate) fn hash<K: Address>(words: &[u64; 6], masks: &[u64; 6], seeds: &[u64; 4]) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let fold = |one: u64, other: u64| {
        let product = u128::from(one) * u128::from(other);
        product as u64 ^ (product >> 64) as u64
    };
    let word = |index: usize| words[index] & masks[index];
    if K::WORDS == 3 {
        return fold(word(0) ^ seeds[0], word(1) ^ word(2).wrapping_mul(ODD) ^ seeds[1]);
    }
    let source = fold(word(0) ^ seeds[0], word(1) ^ seeds[1]);
    let destination = fold(word(2) ^ seeds[2], word(3) ^ seeds[3]);
    fold(source ^ word(4), destination ^ word(5).wrapping_mul(ODD))
}

/// A slot of so many, by 32 bits of a hash from a bit on, which is at most 32.
#[inline(always)]
pub(crate) fn slot(hash: u64, shift: u32, slots: u32) -> usize {
    ((u64::from((hash >> (shift % 64)) as u32) * u64::from(slots)) >> 32) as usize
}

/// A bit for each rule of a leaf that matches; its number is that of the bit, divided by [`spacing`].
///
/// # Safety
/// As for [`Isa::matching`], for all groups, of which there are at most 32 of one rule, or 8 of four.
#[inline(always)]
unsafe fn hits<K: Address, I: Isa>(lanes: I::Lanes, leaf: *const u8, groups: usize) -> u64 {
    let mut all = 0u64;
    for group in 0..groups {
        // SAFETY: the caller's promise.
        let matching = unsafe { I::matching::<K>(lanes, leaf.add(group * GROUP)) };
        match K::RULES {
            1 => all |= u64::from(matching == u8::MAX) << group,
            _ => all |= u64::from(matching) << (8 * group),
        }
    }
    if K::RULES == 1 { all } else { all & (all >> 1) & 0x5555_5555_5555_5555 }
}

/// Bits of [`hits`] for each rule.
const fn spacing<K: Address>() -> u32 {
    if K::RULES == 1 { 1 } else { 2 }
}

/// Takes the first rule of a leaf that matches, if it comes before the best one so far.
///
/// # Safety
/// There are as many entries as `groups` have rules, and `hits` are of these.
#[inline(always)]
unsafe fn settle<K: Address>(
    view: &View,
    packet: &Fields<K>,
    entries: *const Entry,
    groups: usize,
    mut hits: u64,
    best: &mut u64,
    found: &mut u32,
) {
    loop {
        let hit = hits != 0;
        let rule = (hits.trailing_zeros() / spacing::<K>()) as usize;
        // SAFETY: there is such an entry.
        let entry = unsafe { &*entries.add(rule.min(groups * K::RULES - 1)) };
        // SAFETY: a reference of an entry is to the rest of its rule.
        if hit & (entry.exact != 0) && !unsafe { matches_exactly(view, entry.exact, packet) } {
            hits &= hits - 1;
            continue;
        }
        let better = hit & (entry.place < *best);
        *best = if better { entry.place } else { *best };
        *found = if better { entry.identity } else { *found };
        return;
    }
}

/// # Safety
/// The reference is to the rest of a rule.
#[cold]
unsafe fn matches_exactly<K: Address>(view: &View, reference: u32, packet: &Fields<K>) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        let exact = start(view.base, reference).cast::<Exact<K>>();
        let interfaces = exact.add(1).cast::<u32>();
        let exact = &*exact;
        let within = |span: &[K; 2], address: K| span[0] <= address && address <= span[1];
        within(&exact.source, packet.source)
            && within(&exact.destination, packet.destination)
            && (exact.dscp == ANY || exact.dscp == u32::from(packet.dscp))
            && (exact.interfaces == ANY
                || std::slice::from_raw_parts(interfaces, exact.interfaces as usize)
                    .binary_search(&packet.interface)
                    .is_ok())
    }
}

/// Searches a long leaf, whose rules are in order, up to the first that matches.
///
/// # Safety
/// The reference is to a long leaf.
unsafe fn search_long<K: Address, I: Isa>(
    view: &View,
    reference: u32,
    packet: &Fields<K>,
    best: &mut u64,
    found: &mut u32,
) {
    // SAFETY: a long leaf has as many groups as it says, and then their entries.
    unsafe {
        let leaf = start(view.base, reference);
        let groups = leaf.cast::<u32>().read() as usize;
        let leaf = leaf.add(LONG_HEADER);
        let entries = leaf.add(groups * GROUP).cast::<Entry>();
        let lanes = I::lanes(packet);
        for group in 0..groups {
            let before = *best;
            let hits = hits::<K, I>(lanes, leaf.add(group * GROUP), 1);
            settle(view, packet, entries.add(group * K::RULES), 1, hits, best, found);
            if *best != before {
                return;
            }
        }
    }
}

const _: () = assert!(LEAF == 1 && HASH == 4 && CUT == 5 && LONG == 6);

/// Uninitialised memory for numbers.
type Words<const N: usize> = MaybeUninit<[u32; N]>;
