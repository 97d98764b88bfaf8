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
use weir_packet::wire::{ipv4, ipv6, protocol, udp};

use super::super::Context;
use super::super::stage::Stage;
use super::behind_nat;
use super::datagrams;
use super::jobs::{self, BATCH, Work};
use super::seen::{self, AllSeen, Seen, UNSEEN};
use super::warm::Sas;
use crate::graph::flags::DECRYPTED;
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
    let is_cut = |&place: &u8| vector[place].is_to_be_segmented();
    let waits = |&place: &u8| context.requeue.has_added(Stage::Decrypt as u8, &vector[place]);
    if !context.requeue.is_empty() && frame.places().iter().any(waits)
        || vector.has_segments() && frame.places().iter().any(is_cut)
    {
        at_once = datagrams::cut_all(context, vector, frame);
        frame = &at_once;
    }
    let mut seen = [UNSEEN; VECTOR];
    // Packets that are no ESP, and those with an SPI that no SA has, are dropped before anything else is looked at.
    let known = seen::see_all(context, vector, frame.places(), &mut seen);
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

fn run_batch(
    context: &mut Context<'_>,
    vector: &mut Vector,
    (places, seen): (&[u8], &AllSeen),
    sas: &Sas<'_>,
    from: usize,
) {
    let end = places.len().min(from + BATCH);
    let mut batch: [Option<Found<'_>>; BATCH] = [None; BATCH];
    let mut count = 0;
    let mut last = None;
    for (&place, seen) in places[from..end].iter().zip(&seen[from..end]) {
        let packet = &mut vector[place];
        match find(context.root, packet, seen, &mut last) {
            Ok((Run { number, sa, inbound }, sequence)) => {
                batch[count] = Some(Found { place, number, sa, inbound, sequence, at: seen.at as usize });
                count += 1;
            }
            Err((reason, None)) => context.next.refuse(packet, place, reason),
            Err((reason, Some((number, sa)))) => refuse(context, packet, (number, sa), place, reason),
        }
    }
    sas.inbound_parts(context, vector, places, from + BATCH);
    let results = open(vector, &batch[..count]);
    conclude_all(context, vector, &batch[..count], &results);
}

/// The SA of the packets that were looked at last.
#[derive(Clone, Copy)]
struct Run<'a> {
    number: u32,
    sa: &'a Sa,
    inbound: &'a Inbound,
}

/// The reason to drop a packet, and the pair that counts it, if one does.
type Refusal<'a> = (Reason, Option<(u32, &'a Sa)>);

/// Finds the SA of a packet by the number that is known, and the packet's sequence number, which has to be new. Packets of one SA
/// that follow each other form a run, whose SA is looked at once.
#[inline(always)]
fn find<'a>(
    root: &'a Root,
    packet: &Packet,
    seen: &Seen,
    last: &mut Option<Run<'a>>,
) -> Result<(Run<'a>, u64), Refusal<'a>> {
    let run = match *last {
        Some(run) if run.number == seen.number && seen.is_for(packet, run.sa) => run,
        _ => *last.insert(search(root, packet, seen).ok_or((Reason::EspNoSa, None))?),
    };
    if !is_encapsulated_so(packet, run.sa) {
        return Err((Reason::EspNoSa, None));
    }
    let (window, counting) = (&run.inbound.window, Some((run.number, run.sa)));
    let sequence = match run.sa.esn {
        true => window.extended(seen.low).ok_or((Reason::EspReplay, counting))?,
        false => u64::from(seen.low),
    };
    match window.is_new(sequence) {
        true => Ok((run, sequence)),
        false if window.is_closed() => Err((Reason::EspExpired, counting)),
        false => Err((Reason::EspReplay, counting)),
    }
}

/// Finds the SA of a packet. The number that is known may be that of another SA with the SPI, with another address or in another
/// routing domain.
#[inline]
fn search<'a>(root: &'a Root, packet: &Packet, seen: &Seen) -> Option<Run<'a>> {
    let known = root.ipsec.sa(seen.number).filter(|sa| seen.is_for(packet, sa)).map(|sa| (seen.number, sa));
    let other = || {
        let (vrf, destination) = seen.addressed(packet)?;
        root.ipsec.inbound(vrf, destination, seen.spi)
    };
    let (number, sa) = known.or_else(other)?;
    Some(Run { number, sa, inbound: sa.inbound.as_ref()? })
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

/// Moves windows and sends on what was inside of packets. Packets of one SA that follow each other are counted at once.
fn conclude_all(
    context: &mut Context<'_>,
    vector: &mut Vector,
    batch: &[Option<Found<'_>>],
    results: &[Result<(), Failure>; BATCH],
) {
    let mut inside = [0; BATCH];
    let mut entered = 0;
    let mut batch = batch.iter().flatten().zip(results).peekable();
    while let Some(&(&Found { number, sa, .. }, _)) = batch.peek() {
        let (mut packets, mut octets, mut lost) = (0, 0, 0);
        while let Some((found, result)) = batch.next_if(|(found, _)| found.number == number) {
            let packet = &mut vector[found.place];
            match conclude(packet, found, *result, &mut lost) {
                Ok(length) => {
                    (packets, octets) = (packets + 1, octets + length as u64);
                    enter(context, packet, found);
                    if let Some(place) = inside.get_mut(entered) {
                        *place = found.place;
                        entered += 1;
                    }
                }
                Err(reason) => refuse(context, packet, (number, sa), found.place, reason),
            }
        }
        let counters = &sa.counters[context.worker];
        counters.inbound.add(packets, octets);
        // None without an interface of its own: that of the packets of ESP has counted these.
        if let Some(interface) = context.root.interfaces.get(sa.interface as usize) {
            interface.counters[context.worker].rx.add(packets, octets);
        }
        if lost > 0 {
            counters.lost.add(lost);
        }
    }
    context.next.extend_places(Node::IpInput, &inside[..entered]);
}

/// Moves the window, and takes out what was inside of a packet; returns its octets. Adds the numbers that the window has left
/// behind to `lost`.
#[inline(always)]
fn conclude(
    packet: &mut Packet,
    found: &Found<'_>,
    result: Result<(), Failure>,
    lost: &mut u64,
) -> Result<usize, Reason> {
    match result {
        Ok(()) => {
            *lost += found.inbound.window.accept(found.sequence).ok_or(Reason::EspReplay)?;
            take_out(packet, found)
        }
        Err(Failure::Forged | Failure::NotDone) => Err(Reason::EspAuth),
        Err(_) => Err(Reason::EspMalformed),
    }
}

/// Drops a packet of an SA, which counts it.
#[cold]
fn refuse(context: &mut Context<'_>, packet: &mut Packet, (number, sa): (u32, &Sa), place: u8, reason: Reason) {
    let counters = &sa.counters[context.worker];
    let counter = match reason {
        Reason::EspExpired => &counters.expired,
        Reason::EspReplay => &counters.replayed,
        Reason::EspAuth => &counters.auth_failed,
        Reason::EspDummy => &counters.dummies,
        _ => &counters.malformed,
    };
    counter.add(1);
    if context.recorder.is_on() {
        context.record(packet, Fate::Secured { sa: number, inbound: true });
    }
    context.next.refuse(packet, place, reason);
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
    Ok(octets(packet.data()))
}

/// The octets of a packet from its IP header on, by that header: without what the sender has padded it with (RFC 4303, 2.7).
#[inline(always)]
fn octets(packet: &[u8]) -> usize {
    let word = |at: usize| packet.get(at..at + 2).map_or(0, |word| usize::from(u16::from_be_bytes([word[0], word[1]])));
    let length = match packet.first().map_or(0, |first| first >> 4) {
        4 => word(2),
        _ => ipv6::LENGTH + word(4),
    };
    length.min(packet.len())
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
    if in_udp {
        behind_nat::recompute(&mut bytes[left..], headers, trailer.next_header);
    }
    packet.pull(l3 + left).map_err(|_| Reason::EspMalformed)?;
    Ok(length)
}

/// Notes what a decrypted packet is, which goes to `ip-input`.
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
}
