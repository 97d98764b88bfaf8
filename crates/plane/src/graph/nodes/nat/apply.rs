//! The endpoints that packets of a translation get.

use std::net::IpAddr;

use weir_packet::packet::Packet;
use weir_packet::parse::ParseFlags;
use weir_packet::translate::{translate, translate_error};

use super::super::Context;
use crate::graph::flags::TRANSLATED;
use crate::graph::fragments::{First, Upper};
use crate::graph::session::{Membership, Session, Tuple, Way, translated};
use crate::root::family::Family;

/// The tuple of packets whose destination alone was translated. The identifier of a query is that of the inside.
fn between<K: Family>(session: &Session<K>, way: Way) -> Tuple<K> {
    let (tuple, reply) = (session.tuple, session.reply());
    let (from, to) = match way {
        Way::Original => (tuple, reply.reversed()),
        Way::Reply => (reply, tuple.reversed()),
    };
    let words = if from.query == 0 { [from.words[0], to.words[1]] } else { tuple.words };
    Tuple { destination: to.destination, words, ..from }
}

/// The addresses of packets whose destination alone was translated.
pub(super) fn halfway<K: Family>(session: &Session<K>, way: Way) -> (K, K) {
    let tuple = between(session, way);
    (tuple.source, tuple.destination)
}

/// The addresses of packets in a direction, as they leave.
pub(in crate::graph::nodes) fn addresses<K: Family>(session: &Session<K>, way: Way) -> [K; 2] {
    let (_, after) = session.ends(way);
    [after.source, after.destination]
}

/// Packets in a direction have got all that the translation gives them when they have got their destination.
pub(in crate::graph::nodes) fn keeps_source<K: Family>(session: &Session<K>, way: Way) -> bool {
    let (whole, (_, after)) = (between(session, way), session.ends(way));
    // The zone may be another one.
    whole == Tuple { zone: whole.zone, ..after }
}

/// Gives a packet both endpoints at once.
pub(in crate::graph::nodes) fn whole<K: Family>(packet: &mut Packet, session: &Session<K>, member: Membership) {
    if output(packet, session, member) {
        packet.add_state(TRANSLATED);
    }
}

/// Gives a packet its destination; false if it has it already.
pub(super) fn input<K: Family>(packet: &mut Packet, session: &Session<K>, member: Membership) -> bool {
    let (before, after) = session.ends(member.way);
    if member.is_error {
        return before != after && error(packet, session, member, false);
    }
    let to = between(session, member.way);
    if to == before {
        return false;
    }
    give(packet, &to);
    true
}

/// Gives a packet its source, and its destination if it has not got that; false if nothing changes.
pub(super) fn output<K: Family>(packet: &mut Packet, session: &Session<K>, member: Membership) -> bool {
    let (before, after) = session.ends(member.way);
    if before == after {
        return false;
    }
    if member.is_error {
        return error(packet, session, member, true);
    }
    give(packet, &after);
    true
}

/// Gives a packet the endpoints of a tuple. A later fragment has no ports: lists behind this match the ports that its first
/// fragment has now.
fn give<K: Family>(packet: &mut Packet, tuple: &Tuple<K>) {
    translate(packet, &tuple.endpoints());
    if packet.flags().contains(ParseFlags::LATER_FRAGMENT)
        && let Some(first) = First::of_shown(packet.shown())
    {
        let [source, destination] = tuple.words;
        let given = match first.upper {
            Upper::Ports(.., flags) => First { upper: Upper::Ports(source, destination, flags), ..first },
            _ if tuple.query != 0 => First { identifier: source, ..first },
            _ => first,
        };
        packet.set_shown(given.shown());
    }
}

/// Translates an ICMP error and the packet that it quotes, which goes in the other direction. The error of a host inside that
/// is not the one of the translation gets the translation's outside address, too (RFC 5508, 4.2).
#[cold]
fn error<K: Family>(packet: &mut Packet, session: &Session<K>, member: Membership, output: bool) -> bool {
    let Some((own, _)) = K::endpoints(packet.l3()) else { return false };
    let (before, after) = session.ends(member.way);
    let source = if output && before.source != after.source { after.source } else { own };
    translate_error(packet, source.address(), after.destination.address(), &after.reversed().endpoints());
    true
}

/// Gives a translated packet the endpoints back that it came in with, for an error about it.
#[cold]
pub(super) fn undo(context: &Context<'_>, packet: &mut Packet) {
    fn of_family<K: Family>(context: &Context<'_>, packet: &mut Packet, member: Membership) {
        if let Some(session) = K::of(&*context.sessions).get(member.number) {
            give(packet, &session.ends(member.way).0);
        }
    }
    let Some(member) = translated(packet).filter(|member| !member.is_error) else { return };
    if !packet.state().contains(TRANSLATED) {
        return;
    }
    if packet.flags().contains(ParseFlags::IP4) {
        of_family::<u32>(context, packet, member);
    } else {
        of_family::<u128>(context, packet, member);
    }
}

/// An address and its port, if the packet has ports.
pub(super) type End = (IpAddr, Option<u16>);

/// The endpoints of a packet.
pub(super) fn endpoints_of(packet: &Packet) -> (End, End) {
    let v4 = packet.flags().contains(ParseFlags::IP4);
    let addresses = if v4 {
        u32::endpoints(packet.l3()).map(|(from, to)| (from.address(), to.address()))
    } else {
        u128::endpoints(packet.l3()).map(|(from, to)| (from.address(), to.address()))
    };
    let (source, destination) = addresses.unwrap_or((IpAddr::V4([0; 4].into()), IpAddr::V4([0; 4].into())));
    let ports = packet.parsed().ports(packet.data());
    ((source, ports.map(|(from, _)| from)), (destination, ports.map(|(_, to)| to)))
}
