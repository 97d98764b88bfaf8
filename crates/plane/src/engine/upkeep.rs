//! The upkeep of SAs: keepalives for NATs on the way (RFC 3948, 4), dummy packets (RFC 4303,
//! 2.6), and the ends of lifetimes (RFC 4301, 4.4.2.1).
//!
//! A state machine on injected time. The engine steps it some 20 times a second with the SAs in force; it says which packets
//! workers are to make and what to report, and closes SAs whose hard lifetime is over. Workers count for it and do nothing else.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use weir_base::clock::Time;

use crate::graph::made::Made;
use crate::model::Lifetime;
use crate::neighbor::control::News;
use crate::root::ipsec::{Ipsec, Sa, SaCounters};
use crate::stats::{SaLife, SaPhase};

/// A packet in units of credit.
const PACKET: u64 = 1_000_000_000;

/// The upkeep of all SAs.
#[derive(Debug, Default)]
pub(crate) struct Upkeep {
    /// By the number of the pair.
    pairs: HashMap<u32, Pair>,
    /// Lives of SAs that are gone, for as long as the gateway runs: an SA that comes back has no second life.
    gone: Lives,
    /// NAT mappings on the way to peers.
    mappings: HashMap<Mapping, Quiet>,
}

/// The work that is due.
#[derive(Debug, Default)]
pub(crate) struct Due {
    /// Packets to make, with the numbers of their pairs.
    pub(crate) packets: Vec<(u32, Made)>,
    /// For people.
    pub(crate) news: Vec<News>,
}

/// A pair of SAs.
#[derive(Debug, Default)]
struct Pair {
    outbound: Option<Life>,
    inbound: Option<Life>,
    dummies: Dummies,
}

/// The dummy packets of an outbound SA.
#[derive(Debug, Default)]
struct Dummies {
    /// The time of the last step; `None`: there was none.
    then: Option<Time>,
    /// Packets that it had sent then.
    packets: u64,
    /// Billionths of packets that are to be sent.
    credit: u64,
}

/// The life of an SA.
#[derive(Debug)]
struct Life {
    /// The digest of its key, with the SPI.
    identity: [u8; 16],
    begun: Time,
    /// The counters of its pair; `None`: the pair is gone.
    counters: Option<Arc<[SaCounters]>>,
    /// The last reading of these counters, and the sum of the last readings of those before them.
    seen: Used,
    before: Used,
    phase: SaPhase,
}

/// Lives without a pair, by direction (`true` is outbound) and identity.
type Lives = HashMap<(bool, [u8; 16]), Life>;

/// The use of an SA.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Used {
    packets: u64,
    octets: u64,
}

/// A mapping of a NAT: the ends of ESP in UDP, as the gateway sees them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Mapping {
    vrf: u16,
    local: (IpAddr, u16),
    remote: (IpAddr, u16),
}

/// The time without packets through a mapping.
#[derive(Debug)]
struct Quiet {
    since: Time,
    /// Packets that its pairs have sent.
    packets: u64,
}

impl Upkeep {
    /// Looks at the SAs in force. Returns what is due now.
    pub(crate) fn step(&mut self, now: Time, ipsec: &Ipsec) -> Due {
        let mut due = Due::default();
        let sas = || (0..).zip(ipsec.sas.iter()).filter_map(|(number, sa)| Some((number, sa.as_deref()?)));
        self.release(ipsec);
        for (number, sa) in sas() {
            let pair = self.pairs.entry(number).or_default();
            pair.step(now, sa, &mut self.gone, &mut due.news);
            let dummies = pair.dummies(now, sa);
            due.packets.extend((0..dummies).map(|_| (number, Made::Dummy)));
        }
        for ((is_outbound, _), life) in &mut self.gone {
            life.close(*is_outbound);
        }
        self.keep_alive(now, sas(), &mut due.packets);
        due
    }

    /// Takes the lives out of pairs that do not have their SAs any more: an SA keeps its life in a pair of another name, and when it
    /// comes back.
    fn release(&mut self, ipsec: &Ipsec) {
        self.pairs.retain(|&number, pair| {
            let sa = ipsec.sa(number);
            let outbound = sa.and_then(|sa| Some(sa.outbound.as_ref()?.identity()));
            let inbound = sa.and_then(|sa| Some(sa.inbound.as_ref()?.identity()));
            for (is_outbound, life, identity) in
                [(true, &mut pair.outbound, outbound), (false, &mut pair.inbound, inbound)]
            {
                let gone = life.take_if(|own| Some(own.identity) != identity);
                self.gone.extend(gone.map(|own| ((is_outbound, own.identity), own)));
            }
            sa.is_some()
        });
    }

    /// Finds the mappings through which nothing was sent for too long.
    fn keep_alive<'a>(&mut self, now: Time, sas: impl Iterator<Item = (u32, &'a Sa)>, packets: &mut Vec<(u32, Made)>) {
        // Of each mapping a pair, the shortest time of its pairs, and what they have sent.
        let mut seen: HashMap<Mapping, (u32, Duration, u64)> = HashMap::new();
        for (number, sa) in sas {
            let Some(own) = sa.encapsulation else { continue };
            let Some(time) = own.keepalive else { continue };
            let of = Mapping { vrf: sa.vrf, local: (sa.local, own.local_port), remote: (sa.remote, own.remote_port) };
            let sent = sum(sa, |own| own.outbound.packets.value());
            let entry = seen.entry(of).or_insert((number, time, 0));
            entry.1 = entry.1.min(time);
            entry.2 = entry.2.wrapping_add(sent);
        }
        self.mappings.retain(|of, _| seen.contains_key(of));
        for (of, (number, time, sent)) in seen {
            let quiet = self.mappings.entry(of).or_insert(Quiet { since: now, packets: sent });
            if quiet.packets != sent {
                *quiet = Quiet { since: now, packets: sent };
            } else if since(now, quiet.since) >= time {
                quiet.since = now;
                packets.push((number, Made::Keepalive));
            }
        }
    }

    /// The life of both SAs of a pair: the outbound one first.
    pub(crate) fn lives(&self, now: Time, number: u32) -> [Option<SaLife>; 2] {
        let Some(pair) = self.pairs.get(&number) else { return [None, None] };
        let of = |life: &Life| SaLife { age: since(now, life.begun), phase: life.phase };
        [pair.outbound.as_ref().map(of), pair.inbound.as_ref().map(of)]
    }
}

impl Pair {
    /// The dummy packets that are due: they make up the packets of the SA to its rate.
    fn dummies(&mut self, now: Time, sa: &Sa) -> u64 {
        let (rate, own) = (u64::from(sa.upkeep.dummies), &mut self.dummies);
        if rate == 0 || sa.outbound.is_none() {
            *own = Dummies::default();
            return 0;
        }
        let packets = sum(sa, |own| own.outbound.packets.value());
        let sent = packets.saturating_sub(own.packets);
        // After a long pause nothing is made up for: a second's packets at most.
        let span = own.then.map_or(Duration::ZERO, |then| since(now, then)).min(Duration::from_secs(1));
        let due = (own.credit + rate * span.as_nanos() as u64).saturating_sub(sent.saturating_mul(PACKET));
        *own = Dummies { then: Some(now), packets, credit: due % PACKET };
        due / PACKET
    }

    fn step(&mut self, now: Time, sa: &Sa, gone: &mut Lives, news: &mut Vec<News>) {
        let outbound = sa.outbound.as_ref().map(|own| own.identity());
        adopt(&mut self.outbound, outbound.and_then(|own| gone.remove(&(true, own))));
        advance(&mut self.outbound, (outbound, true), now, sa, |phase| news.extend(ended(sa, true, phase)));
        let inbound = sa.inbound.as_ref().map(|own| own.identity());
        adopt(&mut self.inbound, inbound.and_then(|own| gone.remove(&(false, own))));
        advance(&mut self.inbound, (inbound, false), now, sa, |phase| news.extend(ended(sa, false, phase)));
        let is_over = |life: &Option<Life>| life.as_ref().is_some_and(|life| matches!(life.phase, SaPhase::Expired(_)));
        if let Some(own) = &sa.outbound {
            own.sequence.set_expired(is_over(&self.outbound));
        }
        if let Some(own) = &sa.inbound {
            own.window.set_closed(is_over(&self.inbound));
        }
    }
}

impl Life {
    /// Reads the counters of its pair, which go on where those before them ended.
    fn read(&mut self, counters: &Arc<[SaCounters]>, is_outbound: bool) {
        if !self.counters.as_ref().is_some_and(|own| Arc::ptr_eq(own, counters)) {
            // The other SA of the pair has a new key, or this SA has come back.
            self.close(is_outbound);
            self.counters = Some(Arc::clone(counters));
        }
        self.seen = Used::read(counters, is_outbound);
    }

    /// Reads its counters for the last time.
    fn close(&mut self, is_outbound: bool) {
        let Some(counters) = self.counters.take() else { return };
        self.before = self.before.and(Used::read(&counters, is_outbound));
        self.seen = Used::default();
    }
}

impl Used {
    /// Reads the counters of a pair, in a direction.
    fn read(counters: &[SaCounters], is_outbound: bool) -> Used {
        let of = |own: &SaCounters| match is_outbound {
            true => Used { packets: own.outbound.packets.value(), octets: own.outbound.bytes.value() },
            false => Used { packets: own.inbound.packets.value(), octets: own.inbound.bytes.value() },
        };
        counters.iter().map(of).fold(Used::default(), Used::and)
    }

    fn and(self, other: Used) -> Used {
        Used { packets: self.packets.saturating_add(other.packets), octets: self.octets.saturating_add(other.octets) }
    }
}

/// Gives a pair the life of its SA, if another pair had it or the SA was gone.
fn adopt(life: &mut Option<Life>, gone: Option<Life>) {
    if gone.is_some() {
        *life = gone;
    }
}

/// Looks at the life of an SA; reports a phase that begins now.
fn advance(
    life: &mut Option<Life>,
    (identity, is_outbound): (Option<[u8; 16]>, bool),
    now: Time,
    sa: &Sa,
    report: impl FnOnce(SaPhase),
) {
    let Some(identity) = identity else {
        *life = None;
        return;
    };
    let own = match life {
        Some(own) if own.identity == identity => own,
        _ => life.insert(Life {
            identity,
            begun: now,
            counters: None,
            seen: Used::default(),
            before: Used::default(),
            phase: SaPhase::Fresh,
        }),
    };
    own.read(&sa.counters, is_outbound);
    let all = own.before.and(own.seen);
    let age = since(now, own.begun);
    let limits = &sa.upkeep.lifetimes;
    let phase = match (reached(&limits.hard, age, all), reached(&limits.soft, age, all)) {
        (Some(limit), _) => SaPhase::Expired(limit),
        (None, Some(limit)) => SaPhase::Soft(limit),
        (None, None) => SaPhase::Fresh,
    };
    let is_new = std::mem::discriminant(&phase) != std::mem::discriminant(&own.phase);
    own.phase = phase;
    if is_new {
        report(phase);
    }
}

/// The limit of a lifetime that was reached, if one was: its unit.
fn reached(limit: &Lifetime, age: Duration, used: Used) -> Option<&'static str> {
    let is = |limit: Option<u64>, value: u64| limit.is_some_and(|limit| value >= limit);
    if limit.time.is_some_and(|time| age >= time) {
        Some("time")
    } else if is(limit.packets, used.packets) {
        Some("packets")
    } else if is(limit.octets, used.octets) {
        Some("octets")
    } else {
        None
    }
}

fn ended(sa: &Sa, outbound: bool, phase: SaPhase) -> Option<News> {
    let (sa, spi) = match outbound {
        true => (sa.name.to_string(), sa.outbound.as_ref()?.spi),
        false => (sa.name.to_string(), sa.inbound.as_ref()?.spi),
    };
    match phase {
        SaPhase::Soft(limit) => Some(News::SaSoft { sa, outbound, spi, limit }),
        SaPhase::Expired(limit) => Some(News::SaExpired { sa, outbound, spi, limit }),
        // Its limits were raised.
        SaPhase::Fresh => None,
    }
}

fn sum(sa: &Sa, of: impl Fn(&SaCounters) -> u64) -> u64 {
    sa.counters.iter().map(of).fold(0, u64::wrapping_add)
}

fn since(now: Time, then: Time) -> Duration {
    Duration::from_nanos(now.0.saturating_sub(then.0))
}
