//! Packets with settled decisions: those of sessions and translations that hold for any of their packets. Where all packets of a
//! vector have one, which is usual where zones have sessions, none has to be looked at again.

use weir_packet::packet::Packet;
use weir_packet::vector::{Indices, Vector};

use super::super::{Context, wire};
use super::egress::Egress;
use super::ends::leave;
use super::tally::{Rules, Sum, Tally};
use super::translations::{self, Translations};
use crate::graph::flow::Decision;
use crate::graph::session::{NO_NAT, Taken};
use crate::root::Root;
use crate::root::family::Family;

/// Packets in a row with the same rules of access lists and of NAT.
pub(super) struct Run<'r> {
    root: &'r Root,
    worker: usize,
    rules: Rules,
    /// The rule of NAT, [`NO_NAT`] without one.
    translation: u32,
    sum: Sum,
}

impl<'r> Run<'r> {
    pub(super) fn new(context: &Context<'r>) -> Run<'r> {
        let (root, worker) = (context.root, context.worker);
        Run { root, worker, rules: Rules::NONE, translation: NO_NAT, sum: Sum::default() }
    }

    /// Counts a packet, which ends the run if its rules are others.
    #[inline(always)]
    pub(super) fn add<K: Family>(
        &mut self,
        tally: &mut Tally<'r, K>,
        taken: &Taken,
        packet: &Packet,
        counts: (u64, u64),
    ) {
        let rules = Rules::new(taken.acl, packet);
        if !rules.is(&self.rules) || taken.rule != self.translation {
            self.end(tally);
            (self.rules, self.translation) = (rules, taken.rule);
        }
        self.sum.add_all(counts);
    }

    /// Adds the packets to the counters of their rules.
    #[inline(never)]
    pub(super) fn end<K: Family>(&mut self, tally: &mut Tally<'r, K>) {
        let sum = std::mem::take(&mut self.sum);
        tally.add(self.rules, sum);
        if self.translation != NO_NAT && sum.packets > 0 {
            self.root.nat.count(self.worker, self.translation, (sum.packets, sum.octets));
        }
    }
}

/// Splits packets into those with settled decisions and others.
pub(super) fn split(hits: &Indices, translations: &Translations) -> (Indices, Indices) {
    let (mut settled, mut others) = (Indices::new(), Indices::new());
    for &place in hits.places() {
        let is_settled = translations.is_settled(place);
        settled.push_if(place, is_settled);
        others.push_if(place, !is_settled);
    }
    (settled, others)
}

/// Lets packets take settled decisions, and rewrites them. Gives the packets that have to be translated by their tuples.
#[inline(never)]
pub(super) fn take<K: Family>(
    context: &mut Context<'_>,
    vector: &mut Vector,
    frame: &Indices,
    translations: &Translations,
) -> Indices {
    let mut egress = Egress::new(context.root.adjacencies.view());
    let (mut tally, mut run, now) = (Tally::<K>::new(context), Run::new(context), context.now);
    let sessions = K::of_mut(context.sessions);
    let (mut out, mut unusual, mut rest) = (Indices::new(), Indices::new(), Indices::new());
    for &place in frame.places() {
        let packet = &mut vector[place];
        let (member, translates) = translations.settled_by(place);
        let rewrite = |packet: &mut Packet, decision: &Decision| egress.rewrite::<K>(packet, decision);
        let Some(taken) = sessions.take(packet, member, translates, now, rewrite) else {
            rest.push(place);
            continue;
        };
        packet.set_forwarding(taken.adjacency);
        if !taken.leaves {
            stay(packet, &taken, (&mut tally, &mut run), translations, place);
            unusual.push(place);
            continue;
        }
        run.add(&mut tally, &taken, packet, (1, (packet.len() - packet.l3_offset()) as u64));
        if !translates {
            // It has passed for its session.
            packet.set_flow(0);
        }
        out.push(place);
    }
    run.end(&mut tally);
    tally.end(context, out.len() + unusual.len());
    leave::<K>(context, &out, &unusual, &Indices::new());
    rest
}

/// Counts a packet that took a settled decision, and is to be rewritten by another node.
#[cold]
#[inline(never)]
pub(super) fn stay<'r, K: Family>(
    packet: &mut Packet,
    taken: &Taken,
    (tally, run): (&mut Tally<'r, K>, &mut Run<'r>),
    translations: &Translations,
    place: u8,
) {
    let counts = wire::counts(packet);
    run.add(tally, taken, packet, counts);
    tally.more += counts.0 - 1;
    translations.of(place).into_iter().for_each(|member| translations::note(packet, member));
}
