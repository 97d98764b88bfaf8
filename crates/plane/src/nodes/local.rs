//! `local`: what is for the gateway itself. Echo requests are answered; nothing else is served here.

use weir_packet::icmp::{self, NotAnswered};
use weir_packet::packet::Packet;
use weir_packet::parse::ParseFlags;
use weir_packet::vector::{Frame, Vector};
use weir_packet::wire::{icmpv4, icmpv6, protocol};

use super::{Context, ORIGINATED, lookup};
use crate::node::Node;
use crate::reason::Reason;
use crate::record::Fate;

pub(super) fn run(context: &mut Context<'_>, vector: &mut Vector, frame: &Frame) {
    for &place in frame.places() {
        let packet = &mut vector[place];
        match serve(context, packet) {
            Ok(()) => {
                // The request ends here and the reply begins, in the same buffer.
                context.counters.local.add(1);
                context.counters.created.add(1);
                context.record(packet, Fate::Local);
                let flags = packet.flags() | ORIGINATED;
                packet.set_flags(flags);
                context.next.push(lookup::node(packet), place);
            }
            Err(Reason::LocalUnhandled) => context.next.push(Node::Punt, place),
            Err(reason) => context.next.refuse(packet, place, reason),
        }
    }
}

/// Turns an echo request into its reply.
fn serve(context: &mut Context<'_>, packet: &mut Packet) -> Result<(), Reason> {
    let flags = packet.flags();
    if flags.contains(ORIGINATED) {
        return Err(Reason::LocalUnhandled); // an answer to ourselves
    }
    if flags.contains(ParseFlags::FRAGMENT) {
        return Err(Reason::LocalFragment);
    }
    let kind = packet.parsed().icmp(packet.data()).map(|(kind, _)| kind);
    let v4 = flags.contains(ParseFlags::IP4);
    let request = match packet.protocol() {
        protocol::ICMP => v4 && kind == Some(icmpv4::kind::ECHO_REQUEST),
        protocol::ICMPV6 => !v4 && kind == Some(icmpv6::kind::ECHO_REQUEST),
        _ => false,
    };
    if !request {
        return Err(Reason::LocalUnhandled);
    }
    if !context.limits.echo.admit(context.now) {
        return Err(Reason::EchoLimited);
    }
    let reply = if v4 { icmp::echo_reply_v4(packet.l3_mut()) } else { icmp::echo_reply_v6(packet.l3_mut()) };
    reply.map_err(|refused| match refused {
        NotAnswered::BadChecksum => Reason::LocalBadChecksum,
        _ => Reason::LocalUnhandled,
    })
}
