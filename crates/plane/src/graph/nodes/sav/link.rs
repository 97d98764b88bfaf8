//! The link check: the hardware address of a frame has to be that of the neighbour to which packets for its source
//! would be sent on the interface.
//!
//! The neighbour is the source itself if it is on the link, else the next hop of the route back. Of several paths, each
//! on the interface will do.

use std::net::IpAddr;

use weir_base::reclaim::Guard;
use weir_packet::packet::Packet;
use weir_packet::vector::{Indices, VECTOR, Vector};
use weir_packet::wire::{MacAddress, ethernet};
use weir_table::lpm::AsKey;
use weir_table::sav::Verdict;

use super::super::Context;
use super::invalid::Marks;
use crate::graph::record::Strange;
use crate::model::LinkCheck;
use crate::root::family::Family;
use crate::root::sav::Validator;
use crate::root::{Forwarding, Kind, Root};

/// The result of comparing a packet's sender with the neighbour to which the route back leads.
enum Expected {
    /// The sender is that neighbour.
    Him,
    /// The neighbour is another one, whose adjacency has this number.
    Another(u32),
    /// The neighbour's hardware address is not known, or the route back does not lead over the interface.
    Unknown,
}

/// Compares the frame address of a packet with the sender that the route back to its source leads to.
fn expected(root: &Root, interface: u32, source: IpAddr, word: u32, mac: &[u8]) -> Expected {
    let one = [word];
    let paths = match Forwarding(word).set() {
        Some(set) => root.sav.paths.of(set),
        None => &one[..],
    };
    let mut expected = Expected::Unknown;
    let mut unknown = false;
    for &number in paths {
        let Some(adjacency) = root.adjacencies.get(number as usize).filter(|own| own.interface == interface) else {
            continue;
        };
        // Tables need not lead to a neighbour that was learned a moment ago.
        let learned = || root.resolved(interface, adjacency.next_hop.unwrap_or(source));
        let known = if adjacency.kind == Kind::Neighbor { learned() } else { None };
        let number = known.unwrap_or(number);
        let adjacency = root.adjacencies.get(number as usize).unwrap_or(adjacency);
        match adjacency.kind {
            Kind::Rewrite | Kind::RewriteStale if adjacency.l2[..6] == *mac => return Expected::Him,
            Kind::Rewrite | Kind::RewriteStale => expected = Expected::Another(number),
            _ => unknown = true,
        }
    }
    if unknown { Expected::Unknown } else { expected }
}

/// The word of a packet with a link-local source, which no table has.
fn of_link_local(root: &Root, interface: u32, source: IpAddr) -> Option<u32> {
    let IpAddr::V6(source) = source else { return None };
    let own = root.interfaces.get(interface as usize).filter(|_| source.is_unicast_link_local())?;
    Some(Forwarding::adjacency(own.neighbor(source)).0)
}

fn is_strange(link: LinkCheck, expected: Expected) -> Option<Option<u32>> {
    match (link, expected) {
        (LinkCheck::Off, _) | (_, Expected::Him) | (LinkCheck::Known, Expected::Unknown) => None,
        (_, Expected::Another(number)) => Some(Some(number)),
        (LinkCheck::Strict, Expected::Unknown) => Some(None),
    }
}

fn mac(packet: &Packet) -> &[u8] {
    packet.data().get(ethernet::SOURCE..ethernet::SOURCE + 6).unwrap_or_default()
}

/// Marks the packets of a list whose sender is not the expected one, among the packets that `validator` finds valid.
#[inline(never)]
pub(super) fn strangers<K: Family>(
    context: &Context<'_>,
    vector: &Vector,
    frame: &Indices,
    validator: &Validator<K>,
    verdicts: &[Verdict; VECTOR],
) -> Marks {
    let root = context.root;
    let places = frame.places();
    let mut strangers = Marks::default();
    let mut sources = [K::ZERO_OCTETS; VECTOR];
    for (source, &place) in sources.iter_mut().zip(places) {
        *source = *K::source(&vector[place]);
    }
    let mut words = [0; VECTOR];
    let mut start = 0;
    for run in places.chunk_by(|&one, &other| vector[one].interface() == vector[other].interface()) {
        let interface = vector[run[0]].interface();
        let first = start;
        start += run.len();
        let vrf = root.interfaces.get(interface as usize).map_or(0, |interface| interface.vrf);
        let Some(tables) = root.vrfs.get(usize::from(vrf)) else { continue };
        let (sources, words) = (&sources[first..start], &mut words[first..start]);
        K::of(tables).lookup_each(context.guard, |index| sources[index].as_key(), words);
        for (at, (&place, (&source, &word))) in run.iter().zip(sources.iter().zip(&*words)).enumerate() {
            let index = first + at;
            if !validator.passes(verdicts[index]) {
                continue;
            }
            let word = of_link_local(root, interface, source.into()).unwrap_or(word);
            let expected = expected(root, interface, source.into(), word, mac(&vector[place]));
            if is_strange(validator.link, expected).is_some() {
                strangers.set(index);
            }
        }
    }
    strangers
}

/// Returns the difference between the sender and the expected one, if there is one.
#[cold]
pub(super) fn stranger<K: Family>(
    root: &Root,
    guard: &Guard<'_>,
    packet: &Packet,
    source: K::Octets,
    link: LinkCheck,
) -> Option<Strange> {
    let interface = packet.interface();
    let word = of_link_local(root, interface, source.into()).or_else(|| {
        let vrf = root.interfaces.get(interface as usize)?.vrf;
        Some(K::of(root.vrfs.get(usize::from(vrf))?).lookup(guard, source.as_key()))
    })?;
    let neighbor = is_strange(link, expected(root, interface, source.into(), word, mac(packet)))?;
    let known = neighbor.and_then(|number| root.adjacencies.get(number as usize)).map(|adjacency| {
        let [a, b, c, d, e, f, ..] = adjacency.l2;
        (adjacency.next_hop.unwrap_or(source.into()), MacAddress([a, b, c, d, e, f]))
    });
    let from = mac(packet).first_chunk().copied().unwrap_or_default();
    Some(Strange { from: MacAddress(from), known })
}
