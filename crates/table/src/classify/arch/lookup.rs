//! The body of a lookup.

use std::hint::{assert_unchecked, select_unpredictable};
use std::sync::atomic::{AtomicU32, Ordering};

use weir_base::prefetch;

use super::super::address::{Address, LANES, WORDS};
use super::super::block::{
    ANY, BITS, CUT, CUT_HEADER, Entry, Exact, GROUP, HEADER, KINDS, LEAF, LONG, LONG_HEADER, Node, leaf_keys, start,
};
use super::super::dense::Dense;
use super::super::error::NO_RULE;
use super::super::family;
use super::super::fields::Fields;
use super::super::hashed;
use super::super::leaf;
#[cfg(target_arch = "x86_64")]
use super::avx512::Avx512;
#[cfg(target_arch = "x86_64")]
use super::isa::has_avx512;
use super::isa::{Isa, Order};
use super::lists::{self, Lists, Nodes, PASS, Raw, VECTOR, Words};
use super::portable::Portable;
use super::view::View;
use crate::lpm::arena::UNIT;

/// Finds the first matching rule of each packet and writes its identity. With `places`, considers only rules before
/// these places, and replaces a place by that of a found rule.
///
/// # Safety
/// Every block that is reachable from the view during the call stays unchanged until its end, except for slots,
/// wildcard lists and first places, which may be stored to atomically.
#[inline]
pub(crate) unsafe fn lookup<K: Address>(
    view: &View,
    packets: &[Fields<K>],
    places: Option<&mut [u64]>,
    found: &mut [u32],
) {
    type Args<'p, K> = (&'p View, &'p [Fields<K>], Option<&'p mut [u64]>, &'p mut [u32]);
    fn ipv4((view, packets, places, found): Args<'_, u32>) {
        // SAFETY: the promise of the caller of `lookup`.
        unsafe { best_body(view, packets, places, found) }
    }
    fn ipv6((view, packets, places, found): Args<'_, u128>) {
        // SAFETY: the promise of the caller of `lookup`.
        unsafe { best_body(view, packets, places, found) }
    }
    // SAFETY: the functions differ from this one in the family only.
    unsafe { family::call::<K, Args<'_, K>, _, _, _, _, _>((view, packets, places, found), ipv4, ipv6) }
}

/// # Safety
/// As for [`lookup`].
unsafe fn best_body<K: Address>(view: &View, packets: &[Fields<K>], places: Option<&mut [u64]>, found: &mut [u32]) {
    #[cfg(target_arch = "x86_64")]
    if has_avx512() {
        // SAFETY: the CPU has the features; the rest is the caller's promise.
        return unsafe { with_avx512(view, packets, places, found) };
    }
    // SAFETY: the caller's promise.
    unsafe { body::<K, Portable>(view, packets, places, found) }
}

/// # Safety
/// As for [`lookup`], and the CPU has the features.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "popcnt,bmi1,bmi2,lzcnt,avx2,avx512f,avx512vl,avx512bw")]
unsafe fn with_avx512<K: Address>(view: &View, packets: &[Fields<K>], places: Option<&mut [u64]>, found: &mut [u32]) {
    // SAFETY: the caller's promise.
    unsafe { body::<K, Avx512>(view, packets, places, found) }
}

/// A body, for packets, places and answers.
#[cfg(test)]
pub(crate) type Body<K> = unsafe fn(&View, &[Fields<K>], Option<&mut [u64]>, &mut [u32]);

/// Returns all bodies that this CPU can run.
#[cfg(test)]
pub(crate) fn bodies<K: Address>() -> Vec<Body<K>> {
    let mut bodies: Vec<Body<K>> = vec![body::<K, Portable>];
    #[cfg(target_arch = "x86_64")]
    if has_avx512() {
        bodies.push(with_avx512::<K>);
    }
    bodies
}

/// # Safety
/// As for [`lookup`], and the CPU has the features of `I`.
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
        unsafe {
            match view.far {
                true => vector::<K, I, true>(view, packets, &mut best, found),
                false => vector::<K, I, false>(view, packets, &mut best, found),
            }
        }
        if let Some(places) = places {
            places.copy_from_slice(&best[..places.len()]);
        }
    }
}

/// # Safety
/// As for [`body`], and there are at most [`VECTOR`] packets, with as many answers.
#[inline(always)]
unsafe fn vector<K: Address, I: Isa, const FAR: bool>(
    view: &View,
    packets: &[Fields<K>],
    best: &mut [u64; VECTOR],
    found: &mut [u32],
) {
    found.fill(NO_RULE);
    let mut lists = Lists::new();
    let mut candidates = Candidates::new();
    let mut raw = Raw::empty();
    let mut reference = view.root;
    // SAFETY: the references are those of the view, and the packet numbers are below their count, by induction:
    // everything in `raw` is a slot or wildcard list with the number of its packet. The lowest bits of a reference are
    // the kind of its block.
    unsafe {
        // The wildcard lists of the first node, of its wildcard list, and so on, concern all packets and need no lists.
        while reference & KINDS == BITS {
            let (node, head) = node(view, reference);
            let head = Spine::new(head);
            let outer = head.masks[K::WORDS - 1] != 0;
            for (place, packet) in packets.iter().enumerate() {
                let slot = slot::<K, I>(&K::words(packet), &head.masks, &head.bits, outer);
                let child = (*node.add(HEADER).cast::<AtomicU32>().add(slot)).load(Ordering::Acquire);
                raw.set(place, select_unpredictable(head.first < best[place], child, 0), place as u32);
            }
            I::sort(&raw, packets.len(), &mut lists);
            drain::<K, I, FAR>(view, packets, found, best, &mut lists, &mut candidates, &mut raw);
            reference = head.rest;
        }
        match reference & KINDS {
            _ if reference == 0 => {}
            LEAF..BITS if leaf::rules_of::<K>(start(view.base, reference)) <= FEW => {
                compare_all::<K, I>(view, packets, found, best, reference);
            }
            kind @ LEAF..BITS => match K::LEAVES[(kind - LEAF) as usize] {
                8 => ask_all::<K, I, 8>(view, packets, reference, &mut candidates),
                16 => ask_all::<K, I, 16>(view, packets, reference, &mut candidates),
                _ => ask_all::<K, I, 32>(view, packets, reference, &mut candidates),
            },
            _ => {
                for place in 0..packets.len() {
                    raw.set(place, reference, place as u32);
                }
                I::sort(&raw, packets.len(), &mut lists);
            }
        }
        drain::<K, I, FAR>(view, packets, found, best, &mut lists, &mut candidates, &mut raw);
        while candidates.count > 0 {
            settle::<K, I, FAR>(view, packets, found, best, &mut candidates);
        }
    }
}

/// The parts of a node that all packets need.
struct Spine {
    masks: [u64; WORDS],
    bits: [u32; WORDS],
    first: u64,
    rest: u32,
}

impl Spine {
    #[inline(always)]
    fn new(head: &Node) -> Spine {
        // Loaded before the slots: a rule that lowers it is linked in later.
        let first = head.first.load(Ordering::Acquire);
        let (masks, bits) = (head.masks, head.masks.map(u64::count_ones));
        Spine { masks, bits, first, rest: head.rest.load(Ordering::Acquire) }
    }
}

/// Follows all references in the lists, to the end.
///
/// # Safety
/// As for [`vector`]; the lists hold references of the view and these packets.
#[inline(always)]
unsafe fn drain<K: Address, I: Isa, const FAR: bool>(
    view: &View,
    packets: &[Fields<K>],
    found: &mut [u32],
    best: &mut [u64; VECTOR],
    lists: &mut Lists,
    candidates: &mut Candidates,
    raw: &mut Raw,
) {
    // SAFETY: the caller's promise, and as in `vector`.
    unsafe {
        loop {
            ask::<K, I, 8, FAR>(view, packets, lists, candidates);
            ask::<K, I, 16, FAR>(view, packets, lists, candidates);
            ask::<K, I, 32, FAR>(view, packets, lists, candidates);
            settle::<K, I, FAR>(view, packets, found, best, candidates);
            let (count, list) = lists.take_long();
            for item in 0..count {
                let (reference, packet) = (list.reference(item), list.packet(item));
                search_long::<K, I>(view, reference, &packets[packet], &mut best[packet], &mut found[packet]);
            }
            let (count, list) = lists.take_dense();
            if count > 0 {
                search_dense(view, packets, found, best, list, count);
            }
            let passed = pass::<K, I, FAR>(view, packets, best, lists, raw);
            if passed == 0 {
                break;
            }
            I::sort(raw, passed, lists);
        }
    }
}

/// Packets with leaves of rules whose keys they match.
struct Candidates {
    count: usize,
    packets: Words<{ CANDIDATES + 1 }>,
    /// Records of the rules of the leaf, in units of the arena.
    records: Words<{ CANDIDATES + 1 }>,
    /// One bit for each matching rule.
    hits: Words<{ CANDIDATES + 1 }>,
}

impl Candidates {
    #[inline(always)]
    const fn new() -> Candidates {
        Candidates { count: 0, packets: Words::uninit(), records: Words::uninit(), hits: Words::uninit() }
    }

    /// Writes an item at `count`, and counts it only if some rule is hit, without an unpredictable branch.
    ///
    /// # Safety
    /// The list has room.
    #[inline(always)]
    unsafe fn set(&mut self, count: &mut usize, packet: u32, records: u32, hits: u32) {
        debug_assert!(*count <= CANDIDATES);
        // SAFETY: the caller's promise.
        unsafe {
            self.packets.as_mut_ptr().cast::<u32>().add(*count).write(packet);
            self.records.as_mut_ptr().cast::<u32>().add(*count).write(records);
            self.hits.as_mut_ptr().cast::<u32>().add(*count).write(hits);
        }
        *count += usize::from(hits != 0);
    }

    /// # Safety
    /// The list has this item.
    #[inline(always)]
    unsafe fn item(&self, item: usize) -> (u32, u32, u32) {
        // SAFETY: the caller's promise.
        unsafe {
            let [packet, records, hits] =
                [&self.packets, &self.records, &self.hits].map(|words| words.as_ptr().cast::<u32>().add(item).read());
            (packet, records, hits)
        }
    }
}

/// Compares packets with the keys of the leaves of one size.
///
/// # Safety
/// As for [`drain`]; there is room for as many candidates.
#[inline(always)]
unsafe fn ask<K: Address, I: Isa, const N: usize, const FAR: bool>(
    view: &View,
    packets: &[Fields<K>],
    lists: &mut Lists,
    candidates: &mut Candidates,
) {
    let Some(size) = K::LEAVES.iter().position(|room| *room == N) else { return };
    let (count, list) = lists.take_leaves(size);
    let mut next = candidates.count;
    for item in 0..count {
        // SAFETY: the caller's promise.
        unsafe {
            let (reference, packet) = (list.reference(item), list.packet(item));
            debug_assert!(packet < packets.len());
            if FAR {
                fetch(view, list.reference((item + AHEAD).min(count - 1)), 8 * N);
            }
            let block = reference - LEAF - size as u32;
            let hits = keys::<K, I, N>(view.base.add(block as usize * UNIT), &*packets.as_ptr().add(packet));
            candidates.set(&mut next, packet as u32, block + records_at::<K, N>(), hits);
        }
    }
    candidates.count = next;
}

/// Returns the offset of the records of a leaf for `N` rules, in units.
const fn records_at<K: Address, const N: usize>() -> u32 {
    let octets = leaf_keys::<K>(N) + 8 * N;
    assert!(octets.is_multiple_of(UNIT));
    (octets / UNIT) as u32
}

/// Returns one bit for each rule of a leaf whose key a packet matches.
///
/// # Safety
/// A leaf for `N` rules begins there, and the CPU has the features of `I`.
#[inline(always)]
unsafe fn keys<K: Address, I: Isa, const N: usize>(leaf: *const u8, packet: &Fields<K>) -> u32 {
    // SAFETY: the caller's promise.
    unsafe {
        let masks = leaf.cast::<u64>();
        let (mut bits, mut before) = (0, 0);
        for (word, value) in K::words(packet).iter().enumerate().take(leaf::words::<K>()) {
            let mask = masks.add(word).read();
            bits |= I::extract(*value, mask) << (before & 63);
            before += mask.count_ones();
        }
        I::keys::<N>(leaf.add(leaf_keys::<K>(N)), bits as u16, I::lane(packet, leaf::lane_of::<K>(leaf)))
    }
}

/// Compares all packets with the keys of a leaf.
///
/// # Safety
/// As for [`vector`]; the reference is to a leaf for `N` rules.
#[inline(always)]
unsafe fn ask_all<K: Address, I: Isa, const N: usize>(
    view: &View,
    packets: &[Fields<K>],
    reference: u32,
    candidates: &mut Candidates,
) {
    let block = reference & !KINDS;
    let mut next = candidates.count;
    // SAFETY: the caller's promise.
    unsafe {
        let leaf = view.base.add(block as usize * UNIT);
        for (place, packet) in packets.iter().enumerate() {
            let hits = keys::<K, I, N>(leaf, packet);
            candidates.set(&mut next, place as u32, block + records_at::<K, N>(), hits);
        }
    }
    candidates.count = next;
}

/// Compares all packets with the few rules of a leaf.
///
/// # Safety
/// As for [`vector`]; the reference is to a leaf.
#[inline(always)]
unsafe fn compare_all<K: Address, I: Isa>(
    view: &View,
    packets: &[Fields<K>],
    found: &mut [u32],
    best: &mut [u64; VECTOR],
    reference: u32,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let leaf = start(view.base, reference);
        let room = K::LEAVES[((reference & KINDS) - LEAF) as usize];
        let records = leaf.add(leaf_keys::<K>(room) + 8 * room).cast::<u32>();
        for rule in 0..leaf::rules_of::<K>(leaf) {
            let record = view.base.add(records.add(rule).read() as usize * UNIT);
            let Entry { place, identity, exact } = *record.add(K::RECORD.1).cast::<Entry>();
            let mut is_open = false;
            for ((packet, best), found) in packets.iter().zip(best.iter_mut()).zip(found.iter_mut()) {
                let mut matches = I::matches(packet, record);
                if exact != 0 {
                    matches = matches && matches_exactly(view, exact, packet);
                }
                let better = matches & (place < *best);
                *best = select_unpredictable(better, place, *best);
                *found = select_unpredictable(better, identity, *found);
                is_open |= place < *best;
            }
            // Rules are in order: no later one comes before what each packet has.
            if !is_open {
                return;
            }
        }
    }
}

/// Returns the record of the first of some rules.
///
/// # Safety
/// The records of a leaf begin there, and a rule is hit.
#[inline(always)]
unsafe fn first_of(view: &View, records: u32, hits: u32) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { view.base.add(records as usize * UNIT).cast::<u32>().add(hits.trailing_zeros() as usize).read() }
}

/// Prefetches the part of a block that does not depend on the packet: `octets` octets past the first line.
///
/// # Safety
/// The reference is to a block of the view.
#[inline(always)]
unsafe fn fetch(view: &View, reference: u32, octets: usize) {
    // SAFETY: the caller's promise. Missing parts are not fetched.
    let block = unsafe { start(view.base, reference) };
    for line in 0..=octets.div_ceil(64) {
        prefetch::read(block.wrapping_add(64 * line));
    }
}

/// Compares packets with the rules whose keys they match, in order, until one matches.
///
/// A round compares each packet with one rule of a leaf. Candidates with further rules go into the next round, so that
/// no branch depends on them.
///
/// # Safety
/// As for [`drain`]; the candidates are for these packets.
#[inline(always)]
unsafe fn settle<K: Address, I: Isa, const FAR: bool>(
    view: &View,
    packets: &[Fields<K>],
    found: &mut [u32],
    best: &mut [u64; VECTOR],
    candidates: &mut Candidates,
) {
    // Many remaining candidates are continued at once, few together with later ones: a round takes as long for one as
    // for several.
    loop {
        let (count, mut next) = (candidates.count, 0);
        let mut firsts = Words::<CANDIDATES>::uninit();
        let firsts: *mut u32 = firsts.as_mut_ptr().cast();
        for item in 0..if FAR { count } else { 0 } {
            // SAFETY: the caller's promise.
            unsafe {
                let (_, records, hits) = candidates.item(item);
                let record = first_of(view, records, hits);
                prefetch::read(view.base.add(record as usize * UNIT));
                firsts.add(item).write(record);
            }
        }
        for item in 0..count {
            // SAFETY: the caller's promise; at most as many candidates remain as were compared.
            unsafe {
                let (packet, records, hits) = candidates.item(item);
                let record = if FAR { firsts.add(item).read() } else { first_of(view, records, hits) };
                debug_assert!((packet as usize) < packets.len() && packets.len() == found.len());
                let fields = &*packets.as_ptr().add(packet as usize);
                let best = &mut *best.as_mut_ptr().add(packet as usize);
                let found = &mut *found.as_mut_ptr().add(packet as usize);
                let record = view.base.add(record as usize * UNIT);
                let Entry { place, identity, exact } = *record.add(K::RECORD.1).cast::<Entry>();
                let mut matches = I::matches(fields, record);
                if exact != 0 {
                    matches &= matches_exactly(view, exact, fields);
                }
                let earlier = place < *best;
                *best = select_unpredictable(matches & earlier, place, *best);
                *found = select_unpredictable(matches & earlier, identity, *found);
                // Rules are in order.
                let left = hits & hits.wrapping_sub(1) & I::mask(!matches & earlier);
                candidates.set(&mut next, packet, records, left);
            }
        }
        candidates.count = next;
        if candidates.count <= WAITING_CANDIDATES {
            break;
        }
    }
}

/// Removes nodes from the end of their list and collects the references that they lead to. Returns their number.
///
/// # Safety
/// As for [`drain`].
#[inline(always)]
unsafe fn pass<K: Address, I: Isa, const FAR: bool>(
    view: &View,
    packets: &[Fields<K>],
    best: &[u64; VECTOR],
    lists: &mut Lists,
    raw: &mut Raw,
) -> usize {
    let (count, list) = lists.nodes();
    let passed = count.min(PASS);
    let first = count - passed;
    // Each kind together, because no branch predictor knows the next kind; the results keep the order of the list.
    let (mut of_bits, mut of_cut) = (Order::uninit(), Order::uninit());
    // SAFETY: there are as many items; `part` returns how many it has written.
    unsafe {
        let (bits, cut) = I::part(list.pointers().0.add(first), passed, &mut of_bits, &mut of_cut);
        let (of_bits, of_cut) = (of_bits.as_ptr().cast(), of_cut.as_ptr().cast());
        let (of_bits, of_cut) = (std::slice::from_raw_parts(of_bits, bits), std::slice::from_raw_parts(of_cut, cut));
        step::<K, I, FAR>(view, packets, best, (list, first, count), raw, of_bits, |node, head, packet| {
            let outer = head.masks[K::WORDS - 1] != 0;
            let slot = slot::<K, I>(&K::words(packet), &head.masks, &head.masks.map(u64::count_ones), outer);
            node.add(HEADER).cast::<AtomicU32>().add(slot)
        });
        step::<K, I, FAR>(view, packets, best, (list, first, count), raw, of_cut, |node, head, packet| {
            let slot = if hashed::is_hashed::<K>(&head.masks) {
                hashed::slot_of(head, packet)
            } else {
                let lane = (head.masks[0] as usize).min(LANES - 1);
                I::below(node.add(HEADER).cast(), I::lane(packet, lane))
            };
            node.add(CUT_HEADER).cast::<AtomicU32>().add(slot)
        });
    }
    lists.drop_nodes(passed);
    2 * passed
}

/// Collects the references that some of the last nodes of a list lead to. `pick` returns the slot.
///
/// # Safety
/// As for [`drain`]; `pick` fits the kind of the nodes.
#[inline(always)]
unsafe fn step<K: Address, I: Isa, const FAR: bool>(
    view: &View,
    packets: &[Fields<K>],
    best: &[u64; VECTOR],
    (list, first, count): (&Nodes, usize, usize),
    raw: &mut Raw,
    items: &[u32],
    pick: impl Fn(*const u8, &Node, &Fields<K>) -> *const AtomicU32,
) {
    for (number, item) in items.iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe {
            let (item, waiting) = (*item as usize, first + *item as usize);
            let (reference, packet) = (list.reference(waiting), list.packet(waiting));
            assert_unchecked(packet < packets.len() && packet < VECTOR);
            if FAR {
                let ahead = list.reference(first + items[(number + AHEAD).min(items.len() - 1)] as usize);
                fetch(view, ahead, (ahead & (BITS ^ CUT)) as usize * CUT_HEADER);
            }
            let (node, head) = node(view, reference);
            let (child, rest) = follow(head, &*pick(node, head, &packets[packet]), best[packet]);
            // The last item is taken first, so only wildcard lists wait, one for each node on the path.
            raw.set(item, rest, packet as u32);
            raw.set(count - first + item, child, packet as u32);
        }
    }
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

/// Returns the references of a node: 0 if all of its rules come after the best one so far.
#[inline(always)]
fn follow(head: &Node, slot: &AtomicU32, best: u64) -> (u32, u32) {
    // Loaded before the slots: a rule that lowers it is linked in later.
    let live = head.first.load(Ordering::Acquire) < best;
    let (child, rest) = (slot.load(Ordering::Acquire), head.rest.load(Ordering::Acquire));
    let (child, rest) = (select_unpredictable(live, child, 0), select_unpredictable(live, rest, 0));
    (child, rest)
}

/// Returns the slot that a packet selects by the bits of masks, with the number of bits in each word. `outer` is true
/// if the last word has any, which is rare.
///
/// # Safety
/// The CPU has the features of `I`.
#[inline(always)]
unsafe fn slot<K: Address, I: Isa>(
    words: &[u64; WORDS],
    masks: &[u64; WORDS],
    bits: &[u32; WORDS],
    outer: bool,
) -> usize {
    let (mut slot, mut before) = (0, 0);
    for word in 0..if outer { K::WORDS } else { K::WORDS - 1 } {
        // SAFETY: the caller's promise.
        slot |= unsafe { I::extract(words[word], masks[word]) } << (before & 63);
        before += bits[word];
    }
    slot as usize
}

/// Returns one bit for each matching rule of a leaf; the rule's number is that of the bit, divided by [`spacing`].
///
/// # Safety
/// As for [`Isa::matching`], for all groups: at most 32 of one rule, or 8 of four.
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

/// Returns the bits of [`hits`] for each rule.
const fn spacing<K: Address>() -> u32 {
    if K::RULES == 1 { 1 } else { 2 }
}

/// Selects the first matching rule of a group if it comes before the best one so far.
///
/// # Safety
/// The entries are those of the rules of `groups` groups, and `hits` belong to them.
#[inline(always)]
unsafe fn settle_group<K: Address>(
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
        // SAFETY: the entry exists.
        let entry = unsafe { &*entries.add(rule.min(groups * K::RULES - 1)) };
        // SAFETY: the reference of an entry is to the rest of its rule's fields.
        if hit & (entry.exact != 0) && !unsafe { matches_exactly(view, entry.exact, packet) } {
            hits &= hits - 1;
            continue;
        }
        let better = hit & (entry.place < *best);
        // Without a branch, which would be unpredictable.
        *best = select_unpredictable(better, entry.place, *best);
        *found = select_unpredictable(better, entry.identity, *found);
        return;
    }
}

/// # Safety
/// The reference is to the rest of a rule.
#[cold]
#[inline(never)]
unsafe fn matches_exactly<K: Address>(view: &View, reference: u32, packet: &Fields<K>) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        let exact = start(view.base, reference).cast::<Exact<K>>();
        let interfaces = exact.add(1).cast::<u32>();
        let exact = &*exact;
        let within = |span: &[K; 2], address: K| span[0] <= address && address <= span[1];
        within(&exact.source, packet.source)
            && within(&exact.destination, packet.destination)
            && packet.outer & exact.outer.0 == exact.outer.1
            && (exact.interfaces == ANY
                || std::slice::from_raw_parts(interfaces, exact.interfaces as usize)
                    .binary_search(&packet.interface)
                    .is_ok())
    }
}

/// Searches a long leaf, whose rules are in order, up to the first match.
///
/// # Safety
/// The reference is to a long leaf.
// Inlined: out of line it would be compiled without the CPU's features and call a function for each instruction.
#[inline(always)]
unsafe fn search_long<K: Address, I: Isa>(
    view: &View,
    reference: u32,
    packet: &Fields<K>,
    best: &mut u64,
    found: &mut u32,
) {
    // SAFETY: a long leaf has the stated groups, then their entries.
    unsafe {
        let leaf = start(view.base, reference);
        let groups = leaf.cast::<u32>().read() as usize;
        let leaf = leaf.add(LONG_HEADER);
        let entries = leaf.add(groups * GROUP).cast::<Entry>();
        let lanes = I::lanes(packet);
        for group in 0..groups {
            let before = *best;
            let hits = hits::<K, I>(lanes, leaf.add(group * GROUP), 1);
            settle_group(view, packet, entries.add(group * K::RULES), 1, hits, best, found);
            if *best != before {
                return;
            }
        }
    }
}

/// Searches bit-vector leaves: all packets of a leaf together.
///
/// # Safety
/// As for [`drain`], and the list has `count` bit-vector leaves.
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
        // SAFETY: the caller's promise; a bit-vector leaf begins with the pointer to its rules, which exist while the
        // leaf is reachable, and then until all readers have passed.
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

/// Largest number of rules that are compared with all packets without their keys.
const FEW: usize = 3;

/// Candidates that may wait for further ones.
const WAITING_CANDIDATES: usize = 64;

/// Capacity of candidates: the waiting ones, and one for each leaf.
const CANDIDATES: usize = WAITING_CANDIDATES + lists::LEAVES;

/// Number of prefetched blocks.
const AHEAD: usize = 12;

/// Packets per lookup in a bit-vector leaf.
const DENSE_VECTOR: usize = 64;

const _: () = assert!(LEAF == 1 && BITS == 4 && CUT == 5 && LONG == 6);
