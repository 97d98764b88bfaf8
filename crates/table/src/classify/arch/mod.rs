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

use std::hint::{assert_unchecked, select_unpredictable};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering};

use self::lists::{Lists, PASS, Raw, VECTOR};
use super::NO_RULE;
use super::address::{Address, LANES, WORDS};
use super::block::{
    ANY, BITS, CUT, CUT_HEADER, ENDS, Entry, Exact, GROUP, HEADER, KINDS, LEAF, LONG, LONG_HEADER, Node, start,
};
use super::dense::Dense;
use super::fields::Fields;

/// What a lookup reads.
pub(crate) struct View {
    pub(crate) base: *const u8,
    pub(crate) root: u32,
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

    /// The bits of a word that a mask has, side by side.
    ///
    /// # Safety
    /// The CPU has what the implementation is named for.
    unsafe fn extract(word: u64, mask: u64) -> u64;

    /// How many ends of intervals are below a value.
    ///
    /// # Safety
    /// The CPU has what the implementation is named for; the ends are readable, and nobody writes there.
    unsafe fn below(ends: *const [u16; ENDS], value: u16) -> usize;

    /// Adds references that lead somewhere to the lists of their kinds.
    ///
    /// # Safety
    /// The CPU has what the implementation is named for; the first `count` of `raw` are written, and a group more may be
    /// read; the lists have room.
    unsafe fn sort(raw: &Raw, count: usize, lists: &mut Lists);
}

/// For each packet, the identity of the first rule that matches. If `places` are given, among rules before these places;
/// where there is one, its place is given back.
///
/// # Safety
/// Every block that is reachable from the view at some time during the call stays as it is until the end of it, except
/// for slots, rests and first places, which may be stored to atomically.
#[inline]
pub(crate) unsafe fn lookup<K: Address>(
    view: &View,
    packets: &[Fields<K>],
    places: Option<&mut [u64]>,
    found: &mut [u32],
) {
    #[cfg(target_arch = "x86_64")]
    if has_avx512() {
        // SAFETY: the CPU has the features; the rest is the caller's promise.
        return unsafe { with_avx512(view, packets, places, found) };
    }
    // SAFETY: the caller's promise.
    unsafe { body::<K, portable::Portable>(view, packets, places, found) }
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
unsafe fn with_avx512<K: Address>(view: &View, packets: &[Fields<K>], places: Option<&mut [u64]>, found: &mut [u32]) {
    // SAFETY: the caller's promise.
    unsafe { body::<K, avx512::Avx512>(view, packets, places, found) }
}

/// A body, on packets, places and answers.
#[cfg(test)]
pub(crate) type Body<K> = unsafe fn(&View, &[Fields<K>], Option<&mut [u64]>, &mut [u32]);

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
unsafe fn body<K: Address, I: Isa>(view: &View, packets: &[Fields<K>], places: Option<&mut [u64]>, found: &mut [u32]) {
    let mut places = places.map(|places| places.chunks_mut(VECTOR));
    for (packets, found) in packets.chunks(VECTOR).zip(found.chunks_mut(VECTOR)) {
        let mut best = [u64::MAX; VECTOR];
        let places = places.as_mut().and_then(Iterator::next);
        if let Some(places) = &places {
            best[..places.len()].copy_from_slice(places);
        }
        // SAFETY: the caller's promise.
        unsafe { vector::<K, I>(view, packets, &mut best, found) };
        if let Some(places) = places {
            places.copy_from_slice(&best[..places.len()]);
        }
    }
}

/// # Safety
/// As for [`body`], and there are at most [`VECTOR`] packets, with as many answers.
#[inline(always)]
unsafe fn vector<K: Address, I: Isa>(view: &View, packets: &[Fields<K>], best: &mut [u64; VECTOR], found: &mut [u32]) {
    found.fill(NO_RULE);
    let mut lists = Lists::new();
    let mut raw = Raw::empty();
    let mut reference = view.root;
    // SAFETY: the references are of the view, the packets' numbers below their count, by induction: whatever goes into
    // `raw` is a slot or a rest with the number that led there. A block is of the kind that its reference tells.
    unsafe {
        // The rests of the first node, of that one, and so on, concern all packets: no lists are needed for them.
        while reference & KINDS == BITS {
            let (node, head) = node(view, reference);
            let head = Spine::new(head);
            for (place, packet) in packets.iter().enumerate() {
                let slot = slot::<K, I>(&K::words(packet), &head.masks, &head.bits);
                let child = (*node.add(HEADER).cast::<AtomicU32>().add(slot)).load(Ordering::Acquire);
                raw.set(place, select_unpredictable(head.first < best[place], child, 0), place as u32);
            }
            I::sort(&raw, packets.len(), &mut lists);
            drain::<K, I>(view, packets, found, best, &mut lists, &mut raw);
            reference = head.rest;
        }
        for place in 0..packets.len() {
            raw.set(place, reference, place as u32);
        }
        I::sort(&raw, packets.len(), &mut lists);
        drain::<K, I>(view, packets, found, best, &mut lists, &mut raw);
    }
}

/// What is needed of a node for all packets.
struct Spine {
    masks: [u64; WORDS],
    bits: [u32; WORDS],
    first: u64,
    rest: u32,
}

impl Spine {
    #[inline(always)]
    fn new(head: &Node) -> Spine {
        // Before the slots: a rule that lowers this is linked in later.
        let first = head.first.load(Ordering::Acquire);
        let (masks, bits) = (head.masks, head.masks.map(u64::count_ones));
        Spine { masks, bits, first, rest: head.rest.load(Ordering::Acquire) }
    }
}

/// Follows all that the lists have, to the end.
///
/// # Safety
/// As for [`vector`]; what is in the lists is of the view and these packets.
#[inline(always)]
unsafe fn drain<K: Address, I: Isa>(
    view: &View,
    packets: &[Fields<K>],
    found: &mut [u32],
    best: &mut [u64; VECTOR],
    lists: &mut Lists,
    raw: &mut Raw,
) {
    // SAFETY: the caller's promise, and as in `vector`.
    unsafe {
        loop {
            leaves::<K, I, 0>(view, packets, found, best, lists);
            leaves::<K, I, 1>(view, packets, found, best, lists);
            leaves::<K, I, 2>(view, packets, found, best, lists);
            let (count, list) = lists.take_long();
            for item in 0..count {
                let (reference, packet) = (list.reference(item), list.packet(item));
                search_long::<K, I>(view, reference, &packets[packet], &mut best[packet], &mut found[packet]);
            }
            let (count, list) = lists.take_dense();
            if count > 0 {
                search_dense(view, packets, found, best, list, count);
            }
            let passed = pass::<K>(view, packets, best, lists, raw, BITS, |node, head, packet| {
                let slot = slot::<K, I>(&K::words(packet), &head.masks, &head.masks.map(u64::count_ones));
                node.add(HEADER).cast::<AtomicU32>().add(slot)
            });
            if passed > 0 {
                I::sort(raw, passed, lists);
                continue;
            }
            let passed = pass::<K>(view, packets, best, lists, raw, CUT, |node, head, packet| {
                let lane = (head.masks[0] as usize).min(LANES - 1);
                let slot = I::below(node.add(HEADER).cast(), lane_of(packet, lane));
                node.add(CUT_HEADER).cast::<AtomicU32>().add(slot)
            });
            if passed == 0 {
                break;
            }
            I::sort(raw, passed, lists);
        }
    }
}

/// Searches the leaves of a size.
///
/// # Safety
/// As for [`drain`].
#[inline(always)]
unsafe fn leaves<K: Address, I: Isa, const SIZE: usize>(
    view: &View,
    packets: &[Fields<K>],
    found: &mut [u32],
    best: &mut [u64; VECTOR],
    lists: &mut Lists,
) {
    let groups = K::GROUPS[SIZE];
    let (count, list) = lists.take_leaves(SIZE);
    for item in 0..count {
        // SAFETY: the caller's promise.
        unsafe {
            let (reference, packet) = (list.reference(item), list.packet(item));
            assert_unchecked(packet < packets.len() && packets.len() == found.len() && packet < VECTOR);
            let leaf = start(view.base, reference);
            let hits = hits::<K, I>(I::lanes(&packets[packet]), leaf, groups);
            let entries = leaf.add(groups * GROUP).cast::<Entry>();
            settle(view, &packets[packet], entries, groups, hits, &mut best[packet], &mut found[packet]);
        }
    }
}

/// Takes nodes of a kind off the end of their list, and notes where they lead. `pick` tells which slot it is.
/// How many references there are then.
///
/// # Safety
/// As for [`drain`].
#[inline(always)]
unsafe fn pass<K: Address>(
    view: &View,
    packets: &[Fields<K>],
    best: &[u64; VECTOR],
    lists: &mut Lists,
    raw: &mut Raw,
    kind: u32,
    pick: impl Fn(*const u8, &Node, &Fields<K>) -> *const AtomicU32,
) -> usize {
    let (count, list) = lists.nodes(kind);
    let passed = count.min(PASS);
    for item in 0..passed {
        // SAFETY: the caller's promise.
        unsafe {
            let waiting = count - passed + item;
            let (reference, packet) = (list.reference(waiting), list.packet(waiting));
            assert_unchecked(packet < packets.len() && packet < VECTOR);
            let (node, head) = node(view, reference);
            let (child, rest) = follow(head, &*pick(node, head, &packets[packet]), best[packet]);
            // What comes last is taken first: so what waits is rests, one for each node on the way.
            raw.set(item, rest, packet as u32);
            raw.set(passed + item, child, packet as u32);
        }
    }
    lists.drop_nodes(kind, passed);
    2 * passed
}

/// # Safety
/// The reference is to a node of the view.
#[inline(always)]
unsafe fn node(view: &View, reference: u32) -> (*const u8, &Node) {
    // SAFETY: the caller's promise.
    unsafe {
        let node = start(view.base, reference);
        (node, &*node.cast::<Node>())
    }
}

/// Where a node leads: nowhere, if all of its rules come after the best one so far.
#[inline(always)]
fn follow(head: &Node, slot: &AtomicU32, best: u64) -> (u32, u32) {
    // Before the slots: a rule that lowers this is linked in later.
    let live = head.first.load(Ordering::Acquire) < best;
    let (child, rest) = (slot.load(Ordering::Acquire), head.rest.load(Ordering::Acquire));
    let (child, rest) = (select_unpredictable(live, child, 0), select_unpredictable(live, rest, 0));
    (child, rest)
}

/// A lane of those that are compared by range.
#[inline(always)]
fn lane_of<K: Address>(packet: &Fields<K>, lane: usize) -> u16 {
    let words = K::words(packet);
    (words[(lane / 4).min(K::WORDS - 2)] >> (16 * (lane % 4))) as u16
}

/// The slot that a packet picks by the bits of masks, of which there are so many in each word.
///
/// # Safety
/// The CPU has what `I` is named for.
#[inline(always)]
unsafe fn slot<K: Address, I: Isa>(words: &[u64; WORDS], masks: &[u64; WORDS], bits: &[u32; WORDS]) -> usize {
    let (mut slot, mut before) = (0, 0);
    for ((word, mask), bits) in words.iter().zip(masks).zip(bits).take(K::WORDS) {
        // SAFETY: the caller's promise.
        slot |= unsafe { I::extract(*word, *mask) } << (before & 63);
        before += bits;
    }
    slot as usize
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
        // No predictor knows whether a leaf has a rule that matches.
        *best = select_unpredictable(better, entry.place, *best);
        *found = select_unpredictable(better, entry.identity, *found);
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
// Out of line, it would be compiled without the CPU's features, and call a function for each instruction that has them.
#[inline(always)]
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

/// Searches dense leaves: the packets for the same one together.
///
/// # Safety
/// As for [`drain`], and the list has so many dense leaves.
#[inline(never)]
unsafe fn search_dense<K: Address>(
    view: &View,
    packets: &[Fields<K>],
    found: &mut [u32],
    best: &mut [u64; VECTOR],
    list: &Raw,
    count: usize,
) {
    let mut first = 0;
    while first < count {
        let (mut some, mut numbers) = ([Fields::default(); DENSE_VECTOR], [NO_RULE; DENSE_VECTOR]);
        let mut taken = 0;
        // SAFETY: the caller's promise; a dense leaf begins with the pointer to its rules, which are there for as long as
        // the leaf is reachable, and then until all readers have passed.
        unsafe {
            let reference = list.reference(first);
            while taken < DENSE_VECTOR && first + taken < count && list.reference(first + taken) == reference {
                some[taken] = packets[list.packet(first + taken)];
                taken += 1;
            }
            let dense = &*start(view.base, reference).cast::<*const Dense<K>>().read();
            dense.small().lookup_each(&some[..taken], &mut numbers[..taken]);
            for (item, number) in numbers[..taken].iter().enumerate().filter(|(_, number)| **number != NO_RULE) {
                let packet = list.packet(first + item);
                let (place, identity) = dense.entries()[*number as usize];
                if place < best[packet] {
                    (best[packet], found[packet]) = (place, identity);
                }
            }
        }
        first += taken;
    }
}

/// Packets that are looked up in a dense leaf together.
const DENSE_VECTOR: usize = 64;

const _: () = assert!(LEAF == 1 && BITS == 4 && CUT == 5 && LONG == 6);

/// Uninitialised memory for numbers.
type Words<const N: usize> = MaybeUninit<[u32; N]>;
