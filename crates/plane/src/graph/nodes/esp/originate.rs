//! Packets of SAs that no packet led to: keepalives (RFC 3948, 2.3) and dummy packets (RFC 4303, 2.6). The control side says when; a worker makes and sends them.

use weir_crypto::Job;
use weir_packet::esp::{self, Marks};
use weir_packet::packet::Packet;
use weir_packet::parse::{ParseFlags, Parsed};
use weir_packet::wire::protocol;

use super::super::Context;
use super::super::stage::Stage;
use super::build::{self, Draw};
use super::encrypt::complete_udp;
use super::path;
use crate::graph::flags::{ENCAPSULATED, ORIGINATED};
use crate::graph::made::Made;
use crate::model::OuterDscp;
use crate::root::NONE;
use crate::root::ipsec::{Outbound, Sa};

/// Octets of the payload of dummy packets, if packets are not padded.
const SHORTEST: usize = 40;
const LONGEST: usize = 1200;

/// The payload of a keepalive.
const KEEPALIVE: u8 = 0xff;

/// Makes a packet of a pair of SAs, which goes on at the lookup of its outer destination. `None`: the pair is gone, has no
/// such packets, or there is no room.
#[cold]
pub(crate) fn originate(context: &mut Context<'_>, number: u32, made: Made) -> Option<Packet> {
    let sa = context.root.ipsec.sa(number)?;
    let packet = match made {
        Made::Keepalive => keepalive(context, sa)?,
        Made::Dummy => dummy(context, sa)?,
    };
    context.counters.created.add(1);
    Some(packet)
}

fn keepalive(context: &mut Context<'_>, sa: &Sa) -> Option<Packet> {
    sa.encapsulation?;
    if sa.home == NONE {
        return None;
    }
    let headers = sa.outer.length();
    let mut packet = Packet::new(context.cache, headers + 1)?;
    let identification = context.random.next() as u16;
    let marks = Marks { traffic_class: 0, dont_fragment: false, identification, flow_label: 0 };
    if sa.outer.write(packet.data_mut(), 1, &marks).is_none() {
        packet.recycle(context.cache);
        return None;
    }
    packet.data_mut()[headers] = KEEPALIVE;
    describe(&mut packet, sa);
    if sa.outer.needs_checksum() {
        complete_udp(&mut packet);
    }
    sa.counters[context.worker].keepalives.add(1);
    Some(packet)
}

/// Makes a dummy packet: as long as padded packets are, or of a random length.
fn dummy(context: &mut Context<'_>, sa: &Sa) -> Option<Packet> {
    let outbound = sa.outbound.as_ref().filter(|_| sa.home != NONE)?;
    let payload = match path::padded(context, sa, outbound) {
        0 => SHORTEST + context.random.next() as usize % (LONGEST - SHORTEST),
        length => length,
    };
    let (at, esp) = (sa.outer.length(), sa.layout.sealed(payload));
    let mut packet = Packet::new(context.cache, at + esp)?;
    let taken = outbound.sequence.take(1, sa.last());
    if taken.count == 0 || seal(context, &mut packet, (sa, outbound), (at, payload, taken.first)).is_none() {
        packet.recycle(context.cache);
        return None;
    }
    describe(&mut packet, sa);
    if sa.outer.needs_checksum() {
        complete_udp(&mut packet);
    }
    sa.counters[context.worker].dummies_sent.add(1);
    Some(packet)
}

/// Writes and seals a dummy packet with so many octets of payload, whose SPI stands at `at`.
fn seal(
    context: &mut Context<'_>,
    packet: &mut Packet,
    (sa, outbound): (&Sa, &Outbound),
    (at, payload, number): (usize, usize, u64),
) -> Option<()> {
    let dscp = if let OuterDscp::Fixed(dscp) = sa.dscp { dscp } else { 0 };
    let identification = number as u16;
    let marks = Marks { traffic_class: dscp << 2, dont_fragment: false, identification, flow_label: 0 };
    sa.outer.write(packet.data_mut(), sa.layout.sealed(payload), &marks)?;
    let text = at + sa.layout.front();
    let trailer = text + payload..packet.len() - sa.layout.icv();
    // The payload is nothing: nobody reads it (RFC 4303, 2.6).
    packet.data_mut().get_mut(text..trailer.start)?.fill(0);
    esp::write_trailer(packet.data_mut().get_mut(trailer)?, protocol::NO_NEXT_HEADER);
    build::write_header(packet, sa, outbound, at, Draw { number, flow: 0, padded: 0, random: context.random });
    let high = sa.esn.then_some((number >> 32) as u32);
    let mut jobs = [Job::esp(&outbound.key, packet.data_mut().get_mut(at..)?, high)];
    weir_crypto::seal(&mut jobs);
    jobs[0].result().ok()
}

/// Notes what the outer packet is, as the parser would, and where it goes.
fn describe(packet: &mut Packet, sa: &Sa) {
    let family = if sa.outer.is_v4() { ParseFlags::IP4 } else { ParseFlags::IP6 };
    let udp = sa.encapsulation.is_some();
    let flags = family | if udp { ParseFlags::L4 | ParseFlags::L4_HEADER } else { ParseFlags::empty() };
    let protocol = if udp { protocol::UDP } else { protocol::ESP };
    let l4 = sa.outer.ip_length() as u16;
    packet.set_parsed(&Parsed { l3: 0, l4, protocol, flags, l3_length: packet.len() as u32 });
    packet.add_state(ORIGINATED);
    packet.add_state(ENCAPSULATED);
    packet.set_resume(Stage::Lookup as u8);
    packet.set_interface(sa.home);
}
