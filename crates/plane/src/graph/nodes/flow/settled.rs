//! Packets with settled decisions: those of sessions and translations that hold for any of their packets. Where all packets of a
//! vector have one, which is usual where zones have sessions, none has to be looked at again.

use weir_packet::packet::Packet;
use weir_packet::vector::{Indices, Vector};

use super::super::{Context, plain, wire};
use super::ends::leave;
use super::tally::{Rules, Sum, Tally};
use super::translations::{self, Translations};
use crate::graph::flow::Decision;
use crate::graph::session::{Carried, Membership, Taken, ZoneOf};
use crate::root::View;
use crate::root::family::Family;

/// Lets packets take settled decisions, and rewrites them. Gives the packets that have to be translated by their tuples.
#[inline(never)]
pub(super) fn take<K: Family>(
    context: &mut Context<'_>,
    vector: &mut Vector,
    frame: &Indices,
    translations: &Translations,
) -> Indices {
    let adjacencies = context.root.adjacencies.view();
    let mut tally = Tally::<K>::new(context);
    let (mut rules, mut sum) = (Rules::NONE, Sum::default());
    let mut translated = translations::Run::new();
    let (mut out, mut unusual, mut rest) = (Indices::new(), Indices::new(), Indices::new());
    for &place in frame.places() {
        let (packet, member) = (&mut vector[place], translations.of(place));
        let counts = wire::counts(packet);
        let Some(taken) = take_one::<K>(context, adjacencies, packet, (member, counts)) else {
            rest.push(place);
            continue;
        };
        packet.set_forwarding(taken.adjacency);
        let own = Rules::new(taken.acl, packet);
        if !own.is(&rules) {
            tally.add(rules, std::mem::take(&mut sum));
            rules = own;
        }
        sum.add_all(counts);
        tally.more += counts.0 - 1;
        taken.rule.into_iter().for_each(|rule| translated.add(context, rule, counts));
        if taken.leaves {
            out.push(place);
        } else {
            member.into_iter().for_each(|member| translations::note(packet, member));
            unusual.push(place);
        }
    }
    tally.add(rules, sum);
    tally.end(context, out.len() + unusual.len());
    translated.end(context);
    leave::<K>(context, &out, &unusual, &Indices::new());
    rest
}

/// Lets a packet take the settled decision of its translation, or else of its session. A packet that is rewritten has passed for
/// its session, whose note it loses.
#[inline(always)]
pub(super) fn take_one<K: Family>(
    context: &mut Context<'_>,
    adjacencies: View<'_>,
    packet: &mut Packet,
    (translation, counts): (Option<Membership>, (u64, u64)),
) -> Option<Taken> {
    let at = (context.now, counts);
    let rewrite = |packet: &mut Packet, decision: &Decision| {
        adjacencies.get(decision.adjacency).is_some_and(|own| plain::rewrite::<K>(packet, own))
    };
    let sessions = K::of_mut(context.sessions);
    if let Some(member) = translation {
        return sessions.take(packet, member, at, rewrite);
    }
    let Carried::Session(member) = Carried::of(packet, ZoneOf::Ingress) else { return None };
    let taken = sessions.take_whole(packet, member, at, rewrite)?;
    if taken.leaves {
        packet.set_flow(0);
    }
    Some(taken)
}
