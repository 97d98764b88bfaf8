//! `icmp-error`: drops packets and reports the reason to their sources by ICMP, within a rate, and never about an ICMP
//! error (RFC 792, RFC 1812 4.3.2, RFC 4443 2.4). Where a TCP reset is due, it sends one within the same rate.

use std::net::{IpAddr, Ipv6Addr};

use weir_packet::checksum;
use weir_packet::icmp::{self, ErrorV4, ErrorV6, MAX_ERROR_V4, MAX_ERROR_V6};
use weir_packet::packet::Packet;
use weir_packet::parse::{self, ParseFlags, Parsed};
use weir_packet::reassembly::Piece;
use weir_packet::reset::{MAX_RESET, Reset};
use weir_packet::segment::Segmenter;
use weir_packet::vector::{Indices, Vector};
use weir_packet::wire::{icmpv4, icmpv6, ipv4, protocol};

use super::piece::next_piece;
use super::stage::Stage;
use super::{Context, discard, lookup, nat};
use crate::graph::flags::{ENCAPSULATED, ORIGINATED, RESET};
use crate::reason::Reason;
use crate::root::{Forwarding, Interface, Kind, Root};

pub(super) fn run(context: &mut Context<'_>, vector: &mut Vector, frame: &Indices) {
    for &place in frame.places() {
        let packet = &mut vector[place];
        let reason = Reason::of(packet.reason()).unwrap_or(Reason::NoRoute);
        discard(context, packet, reason);
        nat::undo(context, packet);
        let Some(mut error) = answer(context, packet, reason) else { continue };
        error.inherit(packet);
        if let Some(own) = reporter(context.root, packet) {
            error.set_interface(own);
        }
        context.counters.created.add(1);
        std::mem::swap(packet, &mut error);
        error.recycle(context.cache);
        context.next.push(lookup::node(packet), place);
    }
}

/// The error that is due about a packet, if one is and may be sent.
fn answer(context: &mut Context<'_>, packet: &mut Packet, reason: Reason) -> Option<Packet> {
    // The forger of the source of a redirected packet learns nothing.
    if packet.state().intersects(ORIGINATED | ENCAPSULATED) || Stage::of(packet) == Stage::Redirect {
        return None;
    }
    // What is quoted is what would have left: of a super-packet, its first segment.
    if packet.is_to_be_segmented() {
        quote_first(context, packet)?;
    }
    checksum::complete(packet);
    let packet = &*packet;
    if packet.state().contains(RESET) {
        reset(context, packet)
    } else if packet.flags().contains(ParseFlags::IP4) {
        let error = error_v4(packet, reason)?;
        icmp::may_answer_v4(&packet.parsed(), packet.data()).ok()?;
        if is_directed_broadcast(context, packet) {
            return None;
        }
        let to = ipv4::Header::new(packet.l3()).ok()?.source();
        let source = source(context, packet, IpAddr::V4(to), Interface::ipv4)?;
        build(context, ParseFlags::IP4, MAX_ERROR_V4, |out| icmp::error_v4(out, error, source, packet.l3()))
    } else {
        let malformed = parse::ipv6(packet.data(), packet.l3_offset()).err();
        let error = match malformed {
            Some(malformed) => ErrorV6::of_malformed(malformed)?,
            None => error_v6(packet, reason)?,
        };
        if malformed.is_some() {
            icmp::may_answer_malformed_v6(packet.data(), packet.l3_offset() as u16, packet.flags(), error).ok()?;
        } else {
            icmp::may_answer_v6(&packet.parsed(), packet.data(), error).ok()?;
        }
        let to = Ipv6Addr::from(*packet.l3().get(8..)?.first_chunk::<16>()?);
        let address = if to.is_unicast_link_local() { Interface::ipv6_on_link } else { Interface::ipv6 };
        let source = source(context, packet, IpAddr::V6(to), address)?;
        let root = context.root;
        build(context, ParseFlags::IP6, MAX_ERROR_V6, |out| {
            icmp::error_v6(out, error, addressed(root, packet).unwrap_or(source), packet.l3())
        })
    }
}

/// Makes the error for the host about the MTU of a packet that it sent by a punt device. The gateway's addresses are the host's own, from
/// which it takes nothing that comes in: the error comes from the destination of the packet.
#[cold]
pub(super) fn for_host(context: &mut Context<'_>, packet: &Packet) -> Option<Packet> {
    if packet.flags().contains(ParseFlags::IP4) {
        let error = error_v4(packet, Reason::MtuExceeded)?;
        icmp::may_answer_v4(&packet.parsed(), packet.data()).ok()?;
        let from = ipv4::Header::new(packet.l3()).ok()?.destination();
        return build(context, ParseFlags::IP4, MAX_ERROR_V4, |out| icmp::error_v4(out, error, from, packet.l3()));
    }
    let error = error_v6(packet, Reason::MtuExceeded)?;
    icmp::may_answer_v6(&packet.parsed(), packet.data(), error).ok()?;
    let from = Ipv6Addr::from(*packet.l3().get(24..)?.first_chunk::<16>()?);
    build(context, ParseFlags::IP6, MAX_ERROR_V6, |out| icmp::error_v6(out, error, from, packet.l3()))
}

/// Makes a super-packet its first segment; `None` if there is no buffer for that.
#[cold]
fn quote_first(context: &mut Context<'_>, packet: &mut Packet) -> Option<()> {
    let mut first = next_piece(context.cache, packet, &mut Segmenter::new(packet).ok()?).ok()?;
    first.set_state(packet.state());
    first.set_mtu(packet.mtu());
    first.set_reason(packet.reason());
    first.set_resume(packet.resume());
    std::mem::swap(packet, &mut first);
    first.recycle(context.cache);
    Some(())
}

/// Returns the unicast address of ours that an IPv6 packet is for: errors about the packet come from it (RFC 4443, 2.2(a)).
fn addressed(root: &Root, packet: &Packet) -> Option<Ipv6Addr> {
    let ingress = root.interfaces.get(packet.interface() as usize)?;
    let own = Ipv6Addr::from(*packet.l3().get(24..)?.first_chunk::<16>()?);
    let has = |interface: &Interface| interface.present && interface.has(IpAddr::V6(own));
    let mut others = root.interfaces.iter().filter(|other| other.vrf == ingress.vrf && !own.is_unicast_link_local());
    (has(ingress) || others.any(has)).then_some(own)
}

/// Builds the reset of a connection, in the name of the packet's destination.
fn reset(context: &mut Context<'_>, packet: &Packet) -> Option<Packet> {
    let reset = Reset::about(&packet.parsed(), packet.data())?;
    let v4 = packet.flags().contains(ParseFlags::IP4);
    if v4 && is_directed_broadcast(context, packet) {
        return None;
    }
    source(context, packet, reset.destination(), |_| Some(()))?;
    build(context, if v4 { ParseFlags::IP4 } else { ParseFlags::IP6 }, MAX_RESET, |out| reset.write(out))
}

/// Returns whether a packet went to the broadcast address of one of the gateway's links, about which no errors are sent
/// (RFC 1812, 4.3.2.7). The packet was refused before the lookup, which would have found this.
fn is_directed_broadcast(context: &Context<'_>, packet: &Packet) -> bool {
    let root = context.root;
    let vrf = root.interfaces.get(packet.interface() as usize).map_or(0, |interface| interface.vrf);
    let Some(tables) = root.vrfs.get(usize::from(vrf)) else { return false };
    let Ok(header) = ipv4::Header::new(packet.l3()) else { return false };
    let value = tables.v4.lookup(context.guard, u32::from(header.destination()));
    let adjacency = root.adjacencies.get(Forwarding(value).resolve(|| 0, &root.buckets) as usize);
    adjacency.is_some_and(|adjacency| adjacency.kind == Kind::Broadcast)
}

/// Builds an error. The limit is checked last, so that only errors that are sent count against it.
fn build(
    context: &mut Context<'_>,
    family: ParseFlags,
    room: usize,
    write: impl FnOnce(&mut [u8]) -> Option<usize>,
) -> Option<Packet> {
    if !context.limits.error.admit(context.now) {
        return None;
    }
    let mut error = Packet::new(context.cache, room)?;
    let Some(length) = write(error.data_mut()) else {
        error.recycle(context.cache);
        return None;
    };
    error.truncate(length);
    let parsed = match family {
        ParseFlags::IP4 => parse::ipv4(error.data(), 0),
        _ => parse::ipv6(error.data(), 0),
    };
    let parsed = parsed.unwrap_or(Parsed { flags: family, ..Parsed::default() });
    error.set_parsed(&parsed);
    error.add_state(ORIGINATED);
    Some(error)
}

fn error_v4(packet: &Packet, reason: Reason) -> Option<ErrorV4> {
    use icmpv4::{time_exceeded, unreachable};
    Some(match reason {
        Reason::TtlExpired => ErrorV4::TimeExceeded { code: time_exceeded::TRANSIT },
        Reason::MtuExceeded => ErrorV4::FragmentationNeeded { mtu: packet.mtu().into() },
        Reason::ReassemblyTimeout => ErrorV4::TimeExceeded { code: time_exceeded::REASSEMBLY },
        Reason::NoRoute => ErrorV4::Unreachable { code: unreachable::NETWORK },
        Reason::NoNeighbor | Reason::Unreachable => ErrorV4::Unreachable { code: unreachable::HOST },
        // RFC 1812, 5.2.7.1.
        Reason::AclReject | Reason::Prohibit => ErrorV4::Unreachable { code: unreachable::PROHIBITED },
        Reason::LocalUnhandled => match packet.protocol() {
            protocol::UDP | protocol::UDP_LITE => ErrorV4::Unreachable { code: unreachable::PORT },
            // Here it is a reset that refuses; and what ICMP says is never answered by an error.
            protocol::TCP | protocol::ICMP => return None,
            _ => ErrorV4::Unreachable { code: unreachable::PROTOCOL },
        },
        Reason::BadOptions => {
            let length = ipv4::Header::new(packet.l3()).ok()?.header_length();
            let bad = ipv4::options(packet.l3().get(..length)?).find_map(Result::err)?;
            ErrorV4::ParameterProblem { pointer: bad.pointer }
        }
        _ => return None,
    })
}

fn error_v6(packet: &Packet, reason: Reason) -> Option<ErrorV6> {
    use icmpv6::{time_exceeded, unreachable};
    Some(match reason {
        Reason::TtlExpired => ErrorV6::TimeExceeded { code: time_exceeded::TRANSIT },
        Reason::MtuExceeded => ErrorV6::PacketTooBig { mtu: packet.mtu().into() },
        Reason::ReassemblyTimeout => ErrorV6::TimeExceeded { code: time_exceeded::REASSEMBLY },
        Reason::BadFragment => {
            let bad = Piece::new(&packet.parsed(), packet.l3()).err()?;
            let (code, pointer) = bad.parameter_problem()?;
            ErrorV6::ParameterProblem { code, pointer }
        }
        Reason::NoRoute => ErrorV6::Unreachable { code: unreachable::NO_ROUTE },
        Reason::Unreachable => ErrorV6::Unreachable { code: unreachable::REJECT_ROUTE },
        Reason::NoNeighbor => ErrorV6::Unreachable { code: unreachable::ADDRESS },
        // RFC 4443, 3.1.
        Reason::AclReject | Reason::Prohibit => ErrorV6::Unreachable { code: unreachable::PROHIBITED },
        Reason::LocalUnhandled => ErrorV6::of_unserved(packet.l3())?,
        Reason::LinkLocal => ErrorV6::Unreachable { code: unreachable::BEYOND_SCOPE },
        _ => return None,
    })
}

/// Returns the number of the interface that reports about a packet: the one that it came in by, or the own station of the bridge
/// whose port that is. `None`: the bridge has none, and nobody reports.
fn reporter(root: &Root, packet: &Packet) -> Option<u32> {
    let ingress = root.interfaces.get(packet.interface() as usize)?;
    if !ingress.bridge.is_port() {
        return Some(packet.interface());
    }
    let is_station = |own: &Interface| own.present && own.bridge.station == ingress.bridge.bridge;
    root.interfaces.iter().position(is_station).map(|number| number as u32)
}

/// Returns the source of an error: the gateway's address on the egress interface of the error (RFC 1812, 4.3.2.4), else
/// on the packet's ingress interface, else any in the VRF. Returns `None` also if no route leads back. About a bridged packet, only
/// a route back by the own station of the bridge counts: no other network knows its source, and an error quotes the packet.
fn source<A>(
    context: &Context<'_>,
    packet: &Packet,
    to: IpAddr,
    address: impl Fn(&Interface) -> Option<A>,
) -> Option<A> {
    let root = context.root;
    let reporter = reporter(root, packet)?;
    let ingress = root.interfaces.get(reporter as usize)?;
    let tables = root.vrfs.get(usize::from(ingress.vrf))?;
    let value = match to {
        IpAddr::V4(to) => tables.v4.lookup(context.guard, u32::from(to)),
        // Back by the link that the packet came by.
        IpAddr::V6(to) if to.is_unicast_link_local() => Forwarding::adjacency(ingress.neighbor(to)).0,
        IpAddr::V6(to) => tables.v6.lookup(context.guard, u128::from(to)),
    };
    // Any path of a multipath set will do: which one the error takes is decided by its hash, which needs its source.
    let adjacency = root.adjacencies.get(Forwarding(value).resolve(|| 0, &root.buckets) as usize)?;
    if !matches!(adjacency.kind, Kind::Rewrite | Kind::RewriteStale | Kind::Neighbor) {
        return None;
    }
    if reporter != packet.interface() && adjacency.interface != reporter {
        return None;
    }
    let egress = root.interfaces.get(adjacency.interface as usize);
    let any = || {
        let mut rest = root.interfaces.iter().filter(|other| other.present && other.vrf == ingress.vrf);
        rest.find_map(&address)
    };
    egress.and_then(&address).or_else(|| address(ingress)).or_else(any)
}
