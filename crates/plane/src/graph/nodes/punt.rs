//! `punt`: gives local packets that weir does not answer to the host, by the punt device of their interface. Without
//! one, the packet is dropped, and its source gets the ICMP error that a host would send (RFC 1122, 3.2.2.1; RFC 4443,
//! 3.1).

use weir_packet::packet::Packet;
use weir_packet::segment;
use weir_packet::vector::{Indices, VECTOR, Vector};
use weir_packet::wire::ethernet;

use super::{Context, wire};
use crate::graph::flags::{DECRYPTED, ORIGINATED};
use crate::graph::outlet::{Destination, Sender};
use crate::graph::record::{Fate, Subject};
use crate::reason::Reason;
use crate::root::{Interface, NONE};

pub(super) fn run(context: &mut Context<'_>, vector: &mut Vector, frame: &Indices) {
    let root = context.root;
    for &place in frame.places() {
        let packet = &mut vector[place];
        let interface = root.interfaces.get(packet.interface() as usize);
        // What we made ourselves has not come in by anything.
        let port = interface.map_or(NONE, |interface| interface.punt);
        if segment::is_nested(packet) {
            // The device would cut it at the wrong place.
            context.next.refuse(packet, place, Reason::OffloadMismatch);
        } else if packet.state().contains(ORIGINATED) {
            context.next.refuse(packet, place, Reason::LocalUnhandled);
        } else if port == NONE {
            context.next.refuse_aloud(packet, place, Reason::LocalUnhandled);
        } else if !packet.state().contains(DECRYPTED)
            && !context.limits.punt.admit_all(wire::packets(packet), context.now)
        {
            // What a peer with a key sends is no flood of the link.
            context.next.refuse(packet, place, Reason::PuntLimited);
        } else if strip(packet, interface).is_err() {
            context.next.refuse(packet, place, Reason::NoHeadroom);
        } else {
            match context.next.ports.get_mut(port as usize) {
                Some(port) => port.push(place),
                None => context.next.refuse(packet, place, Reason::NoPort),
            }
        }
    }
    send(context, vector);
}

/// Adds a copy of a packet for the host; there is none where the limit or the buffers do not let it be made.
pub(super) fn copy(context: &mut Context<'_>, copies: &mut Vector, packet: &Packet) {
    if !context.limits.punt.admit_all(wire::packets(packet), context.now) {
        return;
    }
    if copies.room() == 0 {
        send_copies(context, copies);
    }
    let Some(mut copy) = Packet::copy_of(context.cache, packet.data()) else { return };
    copy.inherit(packet);
    copy.set_parsed(&packet.parsed());
    copy.set_offload(packet.offload());
    context.counters.created.add(1);
    // There is room now.
    let _ = copies.push(copy);
}

/// Sends what [`copy`] made.
pub(super) fn send_copies(context: &mut Context<'_>, copies: &mut Vector) {
    if copies.is_empty() {
        return;
    }
    for place in 0..copies.len() {
        let place = place as u8; // below 256
        let packet = &mut copies[place];
        packet.add_state(ORIGINATED);
        let interface = context.root.interfaces.get(packet.interface() as usize);
        let port = interface.map_or(NONE, |interface| interface.punt);
        let ready = strip(packet, interface).is_ok();
        match context.next.ports.get_mut(port as usize).filter(|_| ready) {
            Some(port) => port.push(place),
            None => super::discard(context, packet, Reason::NoPort),
        }
    }
    send(context, copies);
    copies.filled().iter_mut().for_each(|copy| copy.recycle(context.cache));
    copies.clear();
}

/// Sends each port its own; what it sends counts as delivered.
fn send(context: &mut Context<'_>, vector: &mut Vector) {
    for port in 0..context.next.ports.len() {
        let frame = std::mem::take(&mut context.next.ports[port]);
        if !frame.is_empty() {
            deliver(context, vector, &frame, port);
        }
    }
}

fn deliver(context: &mut Context<'_>, vector: &mut Vector, frame: &Indices, port: usize) {
    // Looked at before the port may take packets out of their places.
    let mut seen = [(NONE, (0, 0), None, false); VECTOR];
    let recording = context.recorder.is_on();
    for (seen, &place) in seen.iter_mut().zip(frame.places()) {
        let packet = &vector[place];
        let created = packet.state().contains(ORIGINATED);
        *seen = (packet.interface(), wire::frames(packet), recording.then(|| Subject::of(packet)), created);
    }
    let Context { transmitters, cache, now, counters, .. } = context;
    let Some(Some(outlet)) = transmitters.get_mut(port) else {
        frame.places().iter().for_each(|&place| super::discard(context, &vector[place], Reason::NoPort));
        return;
    };
    let to = |_, packet: &Packet| Destination::Host(packet.interface());
    let done = outlet.transmit(vector, frame, Sender { cache, counters, now: *now }, to);
    let (taken, at_once, refused) = (done.taken, done.at_once, done.refused.clone());
    for (&(interface, (packets, length), subject, created), &place) in seen.iter().zip(&frame.places()[..taken]) {
        if refused.places().contains(&place) {
            super::discard(context, &vector[place], Reason::TransmitFailed);
            continue;
        }
        if at_once {
            context.counters.local.add(1);
            if let Some(interface) = context.root.interfaces.get(interface as usize) {
                interface.counters[context.worker].punt.add(packets, length);
            }
        }
        if let Some(subject) = subject.filter(|_| !created) {
            context.recorder.add(subject, Fate::Punted { interface });
        }
    }
    for &place in &frame.places()[taken..] {
        super::discard(context, &vector[place], Reason::TransmitFull);
    }
}

/// Takes tags out of the Ethernet header: the device has none. What has no header (it was put together here) gets one.
fn strip(packet: &mut Packet, interface: Option<&Interface>) -> Result<(), ()> {
    let l3 = packet.l3_offset();
    if l3 == ethernet::LENGTH {
        return Ok(());
    }
    let mut header = [0; ethernet::LENGTH];
    if l3 > ethernet::LENGTH {
        header[..ethernet::ETHERTYPE].copy_from_slice(&packet.data()[..ethernet::ETHERTYPE]);
        header[ethernet::ETHERTYPE..].copy_from_slice(&packet.data()[l3 - 2..l3]);
    } else {
        let mac = interface.map_or([0; 6], |interface| interface.mac);
        let v4 = packet.flags().contains(weir_packet::parse::ParseFlags::IP4);
        let ethertype = if v4 { ethernet::ethertype::IPV4 } else { ethernet::ethertype::IPV6 };
        header[..6].copy_from_slice(&mac);
        header[ethernet::ETHERTYPE..].copy_from_slice(&ethertype.to_be_bytes());
    }
    packet.replace_l2(ethernet::LENGTH).map_err(drop)?.copy_from_slice(&header);
    Ok(())
}
