//! The choice of an outside address and port: at random among the free ones (RFC 6056, 3.3.1), so that nobody guesses it.
//!
//! An inside address always gets the same outside address of a rule (RFC 4787, REQ-2: paired). Protocols without ports take the
//! next free address if the peer has a translation with that one. A port is free if no session has the tuple that replies
//! would have: one port serves many destinations. With mappings that do not depend on destinations, an inside endpoint keeps
//! its outside endpoint, which no other one has.
//!
//! Candidates are looked up in batches, so that the memory of several is fetched at once. A first pass reads the tags of the
//! table alone: a port whose tuple has no tag there is free. If it finds none, a second pass looks for sessions whose time
//! is over. Of a small range, the second pass looks at all ports, and the first one at a few.

use std::ops::RangeInclusive;

use weir_base::clock::Time;
use weir_base::random::SecureRandom;
use weir_packet::parse::Seed;

use super::target::{has_words, mapped};
use crate::graph::session::bounds::Bounds;
use crate::graph::session::of_family::OfFamily;
use crate::graph::session::tuple::Tuple;
use crate::model::NatVerb;
use crate::root::family::Family;
use crate::root::nat::{Rule, Target};

/// Ports that are drawn where a rule names none.
pub(crate) const PORTS: RangeInclusive<u16> = 1024..=u16::MAX;
/// Identifiers of ICMP likewise.
const IDENTIFIERS: RangeInclusive<u16> = 0..=u16::MAX;
/// Candidates that are looked at. Where 98 of 100 are taken, all of them are 3 times in 100,000.
const TRIES: u32 = 512;
/// Candidates of the first batch, and of further ones. Until half of the ports are taken, the first batch has a free one 15
/// times in 16.
const FIRST: usize = 4;
const MORE: usize = 32;
/// Candidates of the second pass through a range with more ports than [`TRIES`]: a packet is refused within ten microseconds.
const AGAIN: u32 = 64;
/// Candidates that are looked at for a packet, at most.
const MOST: u32 = FIRST as u32 + TRIES.next_multiple_of(MORE as u32) + AGAIN;
const _: () = assert!(MOST <= 580);

/// Whether a rule may give this port or identifier to packets of a tuple. A mapping has the port that its first rule gave: it
/// serves rules that want another parity, too.
pub(super) fn offers<K: Family>(rule: &Rule, target: &Target, tuple: &Tuple<K>, port: u16) -> bool {
    let has_parity = rule.mapping.is_some() || !keeps_parity(rule, tuple) || port & 1 == tuple.words[0] & 1;
    ports(target, tuple).contains(&port) && has_parity
}

/// Whether the port that a rule gives to packets of a tuple has the parity of theirs.
fn keeps_parity<K: Family>(rule: &Rule, tuple: &Tuple<K>) -> bool {
    rule.parity && tuple.query == 0
}

/// The ports or identifiers of a target.
fn ports<K: Family>(target: &Target, tuple: &Tuple<K>) -> RangeInclusive<u16> {
    target.ports.clone().unwrap_or(if tuple.query != 0 { IDENTIFIERS } else { PORTS })
}

/// The tuple that a rule gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Draw<K> {
    /// This one, as packets leave.
    Found(Tuple<K>),
    /// There is no free one, of this outside address if the rule gives one.
    Exhausted(Option<K>),
}

/// Chooses the source of a tuple, which has the destination that its packets leave with. They leave by an interface of `zone`.
pub(crate) fn draw<K: Family>(
    (sessions, bounds, now): (&OfFamily<K>, &Bounds, Time),
    (seed, random): (&Seed, &mut SecureRandom),
    rule: &Rule,
    (inside, zone): (&Tuple<K>, u16),
) -> Draw<K> {
    let tuple = &Tuple { zone, ..*inside };
    let is_free = |own: &Tuple<K>| sessions.is_free(&own.reversed(), bounds, now);
    let found = |own: Option<Tuple<K>>, address: Option<K>| own.map_or(Draw::Exhausted(address), Draw::Found);
    if rule.verb == NatVerb::Map {
        let own = mapped(rule, tuple.source).map(|source| Tuple { source, ..*tuple });
        return found(own.filter(is_free), own.map(|own| own.source));
    }
    let Some(target) = &rule.source else { return found(Some(*tuple).filter(is_free), None) };
    let spans = K::of(&target.spans);
    let size =
        |&(first, last): &(K, K)| -> u128 { (Into::<u128>::into(last) - Into::<u128>::into(first)).saturating_add(1) };
    let total = spans.iter().map(size).fold(0u128, u128::saturating_add);
    if total == 0 {
        return Draw::Exhausted(None);
    }
    // The same for all packets of an inside address, and not to be guessed.
    let paired = K::owner_hash(seed, u8::MAX, (tuple.source, 0), (tuple.source, 0));
    let start = (u128::from(paired).saturating_mul(total.min(1 << 32)) >> 32) % total;
    let address = |mut at: u128| {
        spans.iter().find_map(|span| {
            let own = size(span);
            if at < own {
                // An address of the span is one of the family.
                return K::of_number(Into::<u128>::into(span.0) + at);
            }
            at -= own;
            None
        })
    };
    if !has_words(tuple) {
        let mut candidates = (0..total.min(TRIES.into())).filter_map(|step| address((start + step) % total));
        return found(candidates.find_map(|source| Some(Tuple { source, ..*tuple }).filter(is_free)), address(start));
    }
    let Some(source) = address(start) else { return Draw::Exhausted(None) };
    let is_query = tuple.query != 0;
    let ports = ports(target, tuple);
    let of = |address: K, port: u16| {
        let words = if is_query { [port; 2] } else { [port, tuple.words[1]] };
        Tuple { source: address, words, ..*tuple }
    };
    if let Some(mapping) = &rule.mapping
        && let Some(own) = sessions.mapped(inside, mapping.number.get())
    {
        return found(Some(of(own.address, own.word)).filter(is_free), Some(own.address));
    }
    // The outside endpoint of a mapping is of one inside endpoint.
    let kept = of(source, tuple.words[0]);
    if rule.preserve && offers(rule, target, tuple, tuple.words[0]) && is_free(&kept) && !sessions.is_mapped(&kept) {
        return Draw::Found(kept);
    }
    let (mut first, last) = (u32::from(*ports.start()), u32::from(*ports.end()));
    let step = if keeps_parity(rule, tuple) { 2 } else { 1 };
    if step == 2 && (first ^ u32::from(tuple.words[0])) & 1 != 0 {
        first += 1;
    }
    let Some(count) = last.checked_sub(first).map(|more| more / step + 1) else {
        return Draw::Exhausted(Some(source));
    };
    let mut candidates = Candidates::new(random, count);
    // The last port of a range is a port.
    let mut next = || of(source, (first + step * candidates.next()) as u16);
    let (by_tags, again) = if count > TRIES { (TRIES, AGAIN) } else { (0, count) };
    let batches = |candidates: u32| 0..candidates.div_ceil(MORE as u32);
    let chosen = pick::<K, FIRST>(sessions, &mut next, |keys| sessions.absent(keys))
        .or_else(|| batches(by_tags).find_map(|_| pick::<K, MORE>(sessions, &mut next, |keys| sessions.absent(keys))))
        .or_else(|| {
            batches(again).find_map(|_| pick::<K, MORE>(sessions, &mut next, |keys| sessions.free(keys, bounds, now)))
        });
    found(chosen, Some(source))
}

/// The first of some candidates whose key is free, and that is no outside endpoint of a mapping.
#[inline]
fn pick<K: Family, const N: usize>(
    sessions: &OfFamily<K>,
    next: &mut impl FnMut() -> Tuple<K>,
    free: impl Fn(&[K::FlowKey; N]) -> u64,
) -> Option<Tuple<K>> {
    let candidates: [Tuple<K>; N] = std::array::from_fn(|_| next());
    let mut free = free(&candidates.map(|own| own.reversed().key()));
    while free != 0 {
        let own = candidates.get(free.trailing_zeros() as usize)?;
        if !sessions.is_mapped(own) {
            return Some(*own);
        }
        free &= free - 1;
    }
    None
}

/// Places in a range of ports: at random, or all one after the other from a random one on if there are few.
struct Candidates<'r> {
    random: &'r mut SecureRandom,
    count: u32,
    /// The place of the next one, in a small range.
    next: Option<u32>,
    /// Random bits that are left of the last word.
    spare: Option<u32>,
}

impl<'r> Candidates<'r> {
    fn new(random: &'r mut SecureRandom, count: u32) -> Candidates<'r> {
        let mut own = Candidates { random, count, next: None, spare: None };
        if count <= TRIES {
            own.next = Some(own.draw());
        }
        own
    }

    /// A random place.
    fn draw(&mut self) -> u32 {
        let bits = self.spare.take().unwrap_or_else(|| {
            let word = self.random.next();
            self.spare = Some((word >> 32) as u32);
            word as u32
        });
        ((u64::from(bits) * u64::from(self.count)) >> 32) as u32
    }

    fn next(&mut self) -> u32 {
        let Some(own) = self.next else { return self.draw() };
        self.next = Some(if own + 1 < self.count { own + 1 } else { 0 });
        own
    }
}
