//! Packets of SAs that no packet led to: keepalives (RFC 3948, 2.3). The control side says when; a worker makes and sends them.

use weir_packet::esp::Marks;
use weir_packet::packet::Packet;
use weir_packet::parse::{ParseFlags, Parsed};
use weir_packet::wire::protocol;

use super::super::Context;
use super::super::stage::Stage;
use super::encrypt::complete_udp;
use crate::graph::flags::{ENCAPSULATED, ORIGINATED};
use crate::graph::made::Made;
use crate::root::NONE;
use crate::root::ipsec::Sa;

/// The payload of a keepalive.
const KEEPALIVE: u8 = 0xff;

/// Makes a packet of a pair of SAs, which goes on at the lookup of its outer destination. `None`: the pair is gone, has no
/// such packets, or there is no room.
#[cold]
pub(crate) fn originate(context: &mut Context<'_>, number: u32, made: Made) -> Option<Packet> {
    let sa = context.root.ipsec.sa(number)?;
    let packet = match made {
        Made::Keepalive => keepalive(context, sa)?,
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
