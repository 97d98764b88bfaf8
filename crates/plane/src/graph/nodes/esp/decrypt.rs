//! `esp-decrypt`: packets of ESP for the gateway become the packets inside (RFC 4303, 3.4).
//!
//! A batch is opened at once. The window is looked at before and moved behind: of two packets of a batch with one
//! number the first counts, and a forged packet moves nothing.

use weir_crypto::Failure;
use weir_packet::delivery;
use weir_packet::esp::{self, Trailer, ecn};
use weir_packet::offload::Offload;
use weir_packet::packet::{Packet, Shown};
use weir_packet::parse::{ParseFlags, Parsed};
use weir_packet::vector::{Indices, VECTOR, Vector};
use weir_packet::wire::{ipv4, protocol, udp};

use super::super::Context;
use super::datagrams;
use super::jobs::{self, BATCH, Work};
use super::seen::{self, Seen, UNSEEN, addressed};
use super::warm::Sas;
use crate::graph::flags::DECRYPTED;
use crate::graph::flow::Unlearned;
use crate::graph::nesting;
use crate::graph::record::Fate;
use crate::model::SaMode;
use crate::node::Node;
use crate::reason::Reason;
use crate::root::ipsec::{Inbound, Sa};
use crate::root::{NONE, Root};

/// A packet whose SA is known.
#[derive(Clone, Copy)]
struct Found<'a> {
    place: u8,
    number: u32,
    sa: &'a Sa,
    inbound: &'a Inbound,
    sequence: u64,
    /// The offset of the SPI.
    at: usize,
}

pub(in super::super) fn run(context: &mut Context<'_>, vector: &mut Vector, frame: &Indices) {
    let at_once;
    let mut frame = frame;
    if context.requeue.has_added() || frame.places().iter().any(|&place| vector[place].is_to_be_segmented()) {
        at_once = datagrams::cut_all(context, vector, frame);
        frame = &at_once;
    }
    let mut seen = [UNSEEN; VECTOR];
    seen::see_all(context.root, vector, frame.places(), &mut seen);
    let known = drop_unknown(context, vector, frame.places(), &mut seen);
    let places = known.places();
    let mut numbers = [NONE; VECTOR];
    numbers.iter_mut().zip(&seen[..places.len()]).for_each(|(number, seen)| *number = seen.number);
    let sas = Sas::new(context, &numbers[..places.len()]);
    let low = |index: usize| Some(seen[index].low);
    sas.inbound(context, 0, BATCH);
    sas.inbound_parts(context, vector, places, 0);
    for from in (0..places.len()).step_by(BATCH) {
        sas.windows(context, from, BATCH, low);
        sas.inbound(context, from + BATCH, BATCH);
        run_batch(context, vector, (places, &seen), &sas, from);
    }
}

/// Drops packets that are no ESP, and those with an SPI that no SA has, before anything else is looked at. Returns the others, and
/// moves what was seen of them together.
fn drop_unknown(context: &mut Context<'_>, vector: &mut Vector, places: &[u8], all: &mut [Seen; VECTOR]) -> Indices {
    let mut known = Indices::new();
    for (index, &place) in places.iter().enumerate() {
        context.notes.forget(place, Unlearned::Spd);
        match all[index].reason {
            Some(reason) => context.next.refuse(&mut vector[place], place, reason),
            None => {
                if known.len() != index {
                    all[known.len()] = all[index];
                }
                known.push(place);
            }
        }
    }
    known
}

fn run_batch(
    context: &mut Context<'_>,
    vector: &mut Vector,
    (places, seen): (&[u8], &[Seen; VECTOR]),
    sas: &Sas<'_>,
    from: usize,
) {
    let end = places.len().min(from + BATCH);
    let mut batch: [Option<Found<'_>>; BATCH] = [None; BATCH];
    let mut count = 0;
    for (index, &place) in places[from..end].iter().enumerate() {
        let packet = &mut vector[place];
        match find(context.root, packet, place, &seen[from + index], &mut batch[count]) {
            Ok(found) => {
                let counters = &found.sa.counters[context.worker];
                if !found.inbound.window.is_new(found.sequence) {
                    let (reason, counter) = match found.inbound.window.is_closed() {
                        true => (Reason::EspExpired, &counters.expired),
                        false => (Reason::EspReplay, &counters.replayed),
                    };
                    counter.add(1);
                    if context.recorder.is_on() {
                        context.record(packet, Fate::Secured { sa: found.number, inbound: true });
                    }
                    context.next.refuse(packet, place, reason);
                    continue;
                }
                count += 1;
            }
            Err((reason, sa)) => {
                if let Some(sa) = sa {
                    let counters = &sa.counters[context.worker];
                    let counter = if reason == Reason::EspReplay { &counters.replayed } else { &counters.malformed };
                    counter.add(1);
                }
                context.next.refuse(packet, place, reason);
            }
        }
    }
    sas.inbound_parts(context, vector, places, from + BATCH);
    let results = open(vector, &batch[..count]);
    for (found, result) in batch[..count].iter().flatten().zip(results) {
        conclude(context, &mut vector[found.place], found, result);
    }
}

/// Finds the SA of a packet by the number that is known, and the sequence number that the packet carries, and notes them at
/// `found`. An SA beside the reason counts it.
#[inline(always)]
fn find<'a, 'f>(
    root: &'a Root,
    packet: &Packet,
    place: u8,
    seen: &Seen,
    found: &'f mut Option<Found<'a>>,
) -> Result<&'f Found<'a>, (Reason, Option<&'a Sa>)> {
    let (spi, low, at, number) = (seen.spi, seen.low, seen.at as usize, seen.number);
    let (vrf, destination) = addressed(root, packet).ok_or((Reason::EspNoSa, None))?;
    let of = |number: u32| Some((number, root.ipsec.sa(number)?));
    let is = |(_, sa): &(u32, &Sa)| (sa.vrf, sa.local) == (vrf, destination);
    // Another SA may have the SPI, with another address or in another routing domain.
    let known = of(number).filter(is);
    let other = || root.ipsec.inbound(vrf, destination, spi);
    let (number, sa) = known.or_else(other).ok_or((Reason::EspNoSa, None))?;
    let inbound = sa.inbound.as_ref().filter(|_| is_encapsulated_so(packet, sa)).ok_or((Reason::EspNoSa, None))?;
    let sequence = match sa.esn {
        true => inbound.window.extended(low).ok_or((Reason::EspReplay, Some(sa)))?,
        false => u64::from(low),
    };
    Ok(found.insert(Found { place, number, sa, inbound, sequence, at }))
}

/// A packet came as its SA says: plain, or in UDP between the ports of the SA.
#[inline(always)]
fn is_encapsulated_so(packet: &Packet, sa: &Sa) -> bool {
    match (packet.protocol() == protocol::UDP, sa.ports()) {
        (false, None) => true,
        (true, Some(ports)) => packet.l4_header::<{ udp::LENGTH }>().is_some_and(|header| {
            let port = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
            (port(0), port(2)) == ports
        }),
        _ => false,
    }
}

fn open(vector: &mut Vector, batch: &[Option<Found<'_>>]) -> [Result<(), Failure>; BATCH] {
    let mut results = [Err(Failure::NotDone); BATCH];
    let Some(Some(first)) = batch.first() else { return results };
    let mut jobs = jobs::none(&first.inbound.key);
    let count = jobs::fill(&mut jobs, vector, batch, |one| Work {
        place: one.place,
        key: &one.inbound.key,
        at: one.at,
        high: one.sa.esn.then_some((one.sequence >> 32) as u32),
    });
    weir_crypto::open(&mut jobs[..count]);
    results.iter_mut().zip(&jobs[..count]).for_each(|(result, job)| *result = job.result());
    results
}

/// Moves the window and sends on what was inside of a packet.
#[inline(always)]
fn conclude(context: &mut Context<'_>, packet: &mut Packet, found: &Found<'_>, result: Result<(), Failure>) {
    let counters = &found.sa.counters[context.worker];
    let (reason, counter) = match result {
        Ok(()) => match found.inbound.window.accept(found.sequence) {
            Some(lost) => {
                if lost > 0 {
                    counters.lost.add(lost);
                }
                match take_out(packet, found) {
                    Ok(octets) => {
                        counters.inbound.add(1, octets as u64);
                        return enter(context, packet, found);
                    }
                    Err(Reason::EspDummy) => (Reason::EspDummy, &counters.dummies),
                    Err(reason) => (reason, &counters.malformed),
                }
            }
            None => (Reason::EspReplay, &counters.replayed),
        },
        Err(Failure::Forged | Failure::NotDone) => (Reason::EspAuth, &counters.auth_failed),
        Err(_) => (Reason::EspMalformed, &counters.malformed),
    };
    counter.add(1);
    if context.recorder.is_on() {
        context.record(packet, Fate::Secured { sa: found.number, inbound: true });
    }
    context.next.refuse(packet, found.place, reason);
}

/// Cuts a packet to what was inside; returns its octets.
fn take_out(packet: &mut Packet, found: &Found<'_>) -> Result<usize, Reason> {
    let layout = found.sa.layout;
    // The engine has seen that there is room for all of these.
    let text = found.at + layout.front();
    let end = packet.len().checked_sub(layout.icv()).filter(|&end| end >= text).ok_or(Reason::EspMalformed)?;
    let trailer = esp::read_trailer(&packet.data()[text..end]).map_err(|_| Reason::EspMalformed)?;
    if trailer.next_header == protocol::NO_NEXT_HEADER {
        return Err(Reason::EspDummy);
    }
    match found.sa.mode {
        SaMode::Tunnel => {
            packet.truncate(text + trailer.payload);
            tunnel(packet, found.sa, text, trailer.next_header)
        }
        SaMode::Transport => transport(packet, (found.at, text), trailer),
    }
}

#[inline(always)]
fn tunnel(packet: &mut Packet, sa: &Sa, text: usize, next_header: u8) -> Result<usize, Reason> {
    let version = packet.data().get(text).map_or(0, |first| first >> 4);
    if !matches!((next_header, version), (protocol::IPIP, 4) | (protocol::IPV6, 6)) {
        return Err(Reason::EspMalformed);
    }
    let outer = traffic_class(packet.l3()) & 3;
    // No frame begins so far behind its buffer.
    packet.pull(text).map_err(|_| Reason::EspMalformed)?;
    let inner = traffic_class(packet.data()) & 3;
    if sa.ecn {
        let mark = ecn::decapsulate(inner, outer).ok_or(Reason::EspEcn)?;
        if mark != inner {
            ecn::write(packet.data_mut(), mark);
        }
    }
    Ok(packet.len())
}

/// The octet with DSCP and ECN of an IP header; 0 of anything else.
#[inline(always)]
fn traffic_class(header: &[u8]) -> u8 {
    match header {
        [first, second, ..] if first >> 4 == 4 => *second,
        [first, second, ..] => first << 4 | second >> 4,
        _ => 0,
    }
}

/// Takes ESP at `at`, whose text begins at `text`, out of a packet in transport mode.
fn transport(packet: &mut Packet, (at, text): (usize, usize), trailer: Trailer) -> Result<usize, Reason> {
    let l3 = packet.l3_offset();
    let in_udp = packet.protocol() == protocol::UDP;
    let v4 = packet.flags().contains(ParseFlags::IP4);
    let headers = at - l3 - if in_udp { udp::LENGTH } else { 0 };
    let named_at = if v4 {
        ipv4::PROTOCOL
    } else {
        // Extension headers in front of ESP are processed in their order, and ESP is one of what they lead to.
        delivery::payload(packet.l3()).map_err(|_| Reason::EspMalformed)?.named_at
    };
    packet.truncate(text + trailer.payload);
    let bytes = packet.l3_mut();
    let left = esp::remove(bytes, headers, text - l3).ok_or(Reason::EspMalformed)?;
    let length = bytes.len() - left;
    esp::rename(&mut bytes[left..], named_at, trailer.next_header, length).ok_or(Reason::EspMalformed)?;
    packet.pull(l3 + left).map_err(|_| Reason::EspMalformed)?;
    Ok(length)
}

/// Sends a decrypted packet to `ip-input`.
#[inline(always)]
fn enter(context: &mut Context<'_>, packet: &mut Packet, found: &Found<'_>) {
    let sa = found.sa;
    packet.set_parsed(&Parsed {
        l3: 0,
        l4: 0,
        protocol: 0,
        flags: ParseFlags::empty(),
        l3_length: packet.len() as u32,
    });
    // Nobody has looked at the checksum inside.
    packet.set_offload(Offload::default());
    packet.set_shown(Shown::EMPTY);
    nesting::take_off(packet);
    packet.set_state(DECRYPTED);
    packet.set_forwarding(found.number);
    if sa.interface != NONE {
        packet.set_interface(sa.interface);
    }
    if context.recorder.is_on() {
        context.record(packet, Fate::Secured { sa: found.number, inbound: true });
    }
    context.next.push(Node::IpInput, found.place);
}
