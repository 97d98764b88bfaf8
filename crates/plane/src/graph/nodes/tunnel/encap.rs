//! `tunnel-encap`: packets that leave by the interface of a tunnel become packets between its outer addresses, which go to the
//! lookup. They have the link-layer header of the interface already, if it has some.

use weir_packet::checksum;
use weir_packet::offload::{Checksum, Offload};
use weir_packet::packet::{Packet, Shown, State};
use weir_packet::parse::{self, ParseFlags, Parsed};
use weir_packet::tunnel::{self, Carrier, Inner, Marks};
use weir_packet::vector::{Indices, Vector};
use weir_packet::wire::{ipv4, ipv6};

use super::super::stage::Stage;
use super::super::{Context, lookup};
use super::path::Fit;
use super::stop::Stop;
use super::{path, pieces};
use crate::graph::flags::{ENCAPSULATED, ORIGINATED, TUNNELLED};
use crate::graph::flow::Unlearned;
use crate::graph::nesting;
use crate::graph::record::Fate;
use crate::graph::session::Carried;
use crate::model::{OuterDf, OuterDscp, OuterTtl};
use crate::reason::Reason;
use crate::root::tunnel::Tunnel;
use crate::root::{Interface, NONE, Root};

/// The first source port: IANA gives those from here on to nobody (RFC 6335, 6).
const FIRST_PORT: u16 = 49_152;

/// The TTL of an outer header around a frame that has none.
const TTL: u8 = 64;

/// The distance at which the room in front of frames is prefetched.
const AHEAD: usize = 4;

/// The tunnel of a run of packets with one adjacency, looked up once, and what went into it since.
struct Run<'r> {
    adjacency: u32,
    tunnel: Option<&'r Tunnel>,
    /// Octets of the longest inner packet that needs no look at the path.
    most: usize,
    /// The interface that packets came in by, and whether their outer packets keep it.
    ingress: (u32, bool),
    packets: u64,
    octets: u64,
}

impl<'r> Run<'r> {
    const NONE: Run<'static> =
        Run { adjacency: NONE, tunnel: None, most: 0, ingress: (NONE, false), packets: 0, octets: 0 };

    #[inline(never)]
    fn of(context: &Context<'r>, adjacency: u32) -> Run<'r> {
        let root = context.root;
        let tunnel = root.adjacencies.get(adjacency as usize).and_then(|own| root.tunnels.of(own.interface));
        let most = tunnel.map_or(0, |tunnel| {
            let learned = tunnel.path.get(context.now).map_or(usize::MAX, |learned| learned.mtu.into());
            learned.min(root.ipsec.least_mtu as usize).saturating_sub(tunnel.outer.length())
        });
        Run { adjacency, tunnel, most, ..Run::NONE }
    }

    /// The outer packets of packets that came in by this interface are taken for packets of it.
    #[inline(always)]
    fn keeps(&mut self, root: &Root, tunnel: &Tunnel, interface: u32) -> bool {
        if self.ingress.0 != interface {
            // The packet around a frame of a bridge came in by no port of the bridge.
            let is_there = |own: &Interface| own.vrf == tunnel.vrf && !own.bridge.is_port();
            let keeps = tunnel.home == NONE || root.interfaces.get(interface as usize).is_some_and(is_there);
            self.ingress = (interface, keeps);
        }
        self.ingress.1
    }

    /// Counts what went into the tunnel.
    fn count(&self, context: &Context<'_>) {
        let Some(tunnel) = self.tunnel.filter(|_| self.packets > 0) else { return };
        tunnel.counters[context.worker].outbound.add(self.packets, self.octets);
        if let Some(interface) = context.root.interfaces.get(tunnel.interface as usize) {
            interface.counters[context.worker].tx.add(self.packets, self.octets);
        }
    }
}

pub(in super::super) fn run(context: &mut Context<'_>, vector: &mut Vector, frame: &Indices) {
    let mut run = Run::NONE;
    let places = frame.places();
    for (index, &place) in places.iter().enumerate() {
        if let Some(&ahead) = places.get(index + AHEAD) {
            vector[ahead].prefetch_at(-1);
        }
        context.notes.forget(place, Unlearned::New);
        let packet = &mut vector[place];
        // Pieces of a packet before this one go round again: this one must not overtake them.
        if context.requeue.has_added(Stage::Output as u8, packet) {
            pieces::queue(context, packet, place);
            continue;
        }
        if packet.forwarding() != run.adjacency {
            run.count(context);
            run = Run::of(context, packet.forwarding());
        }
        match encapsulate(context, packet, &mut run) {
            Ok(()) => context.next.push(lookup::node(packet), place),
            Err(Stop::Reason(reason)) => context.next.refuse(packet, place, reason),
            Err(Stop::Aloud(reason)) => context.next.refuse_aloud(packet, place, reason),
            Err(Stop::Segment) => pieces::segment(context, packet, place),
        }
    }
    run.count(context);
}

#[inline(always)]
fn encapsulate(context: &mut Context<'_>, packet: &mut Packet, run: &mut Run<'_>) -> Result<(), Stop> {
    let tunnel = run.tunnel.ok_or(Reason::NoPort)?;
    if packet.is_to_be_segmented() {
        return Err(Stop::Segment);
    }
    if let Some(wanted) = tunnel.wanted.mss_clamp {
        path::clamp(context, packet, tunnel, wanted);
    }
    let octets = packet.len();
    let fit = if octets <= run.most { Fit::Whole } else { path::check(context, packet, tunnel)? };
    if !nesting::put_on(packet) {
        return Err(Reason::TunnelLoop.into());
    }
    if context.recorder.is_on() {
        context.record(packet, Fate::Tunnelled { interface: tunnel.interface, inbound: false });
    }
    if packet.offload().checksum == Checksum::Partial {
        // It is behind other headers from here on: no port could complete it.
        checksum::complete(packet);
    }
    let (inner, marks) = marks(context, packet, tunnel, matches!(fit, Fit::Whole));
    build(packet, tunnel, inner, &marks)?;
    run.packets += 1;
    run.octets += octets as u64;
    // What goes on is another packet than the one that its session and its translation are about.
    Carried::clear(packet);
    packet.set_translation(0);
    packet.set_shown(Shown::EMPTY);
    let originated = if packet.state().contains(ORIGINATED) { ORIGINATED } else { State::EMPTY };
    packet.set_state(ENCAPSULATED | TUNNELLED | originated);
    packet.set_mtu(match fit {
        Fit::Whole => 0,
        Fit::Cut(mtu) => mtu,
    });
    packet.set_resume(Stage::Lookup as u8);
    if !run.keeps(context.root, tunnel, packet.interface()) {
        packet.set_interface(tunnel.home);
    }
    Ok(())
}

/// The fields of the outer header. `fits`: the packet fits the path, so that it need not be fragmented.
#[inline(always)]
fn marks(context: &mut Context<'_>, packet: &Packet, tunnel: &Tunnel, fits: bool) -> (Inner, Marks) {
    let wanted = &tunnel.wanted;
    let flags = packet.flags();
    let is_ip = flags.intersects(ParseFlags::IP4 | ParseFlags::IP6);
    let (class, ttl, df, kind) = if flags.contains(ParseFlags::IP4)
        && let Some(header) = packet.l3_header::<{ ipv4::LENGTH }>()
    {
        let dont_fragment = header[ipv4::FRAGMENT] & (ipv4::DONT_FRAGMENT >> 8) as u8 != 0;
        (header[ipv4::TOS], header[ipv4::TTL], dont_fragment, Inner::V4)
    } else if flags.contains(ParseFlags::IP6)
        && let Ok(header) = ipv6::Header::new(packet.l3())
    {
        (header.traffic_class(), header.hop_limit(), true, Inner::V6)
    } else {
        (0, TTL, false, Inner::Ethernet)
    };
    let dscp = match wanted.dscp {
        OuterDscp::Copy => class & !3,
        OuterDscp::Fixed(dscp) => dscp << 2,
    };
    let dont_fragment = fits
        && match wanted.df {
            OuterDf::Copy => df,
            OuterDf::Set => true,
            OuterDf::Clear => false,
        };
    let ttl = match wanted.ttl {
        OuterTtl::Copy => ttl.max(1),
        OuterTtl::Fixed(ttl) => ttl,
    };
    // Packets that are not fragmented need no identification (RFC 6864, 4.1).
    let identification = if dont_fragment || !tunnel.outer.is_v4() { 0 } else { context.random.next() as u16 };
    let hash = if is_ip { parse::flow_hash(&packet.parsed(), packet.data(), context.seed) } else { tunnel.interface };
    let marks = Marks {
        traffic_class: dscp | if wanted.ecn { class & 3 } else { 0 },
        ttl,
        dont_fragment,
        identification,
        flow_label: hash & 0xf_ffff,
        source_port: FIRST_PORT | (hash >> 16) as u16,
    };
    (if wanted.carrier.is_ethernet() { Inner::Ethernet } else { kind }, marks)
}

/// Puts the outer headers in front of a packet, and notes what it is now, as the parser would.
#[inline(always)]
fn build(packet: &mut Packet, tunnel: &Tunnel, inner: Inner, marks: &Marks) -> Result<(), Reason> {
    let (octets, length, ip) = (packet.len(), tunnel.outer.length(), tunnel.outer.ip_length());
    packet.push(length).map_err(|_| Reason::NoHeadroom)?;
    tunnel.outer.write(packet.data_mut(), octets, inner, marks).ok_or(Reason::MtuExceeded)?;
    let (wanted, is_udp) = (&tunnel.wanted, tunnel.wanted.carrier.port().is_some());
    if wanted.carrier == Carrier::Gre && wanted.checksum {
        tunnel::complete_gre(packet.data_mut().get_mut(ip..).unwrap_or_default());
    }
    if is_udp && !tunnel.outer.is_v4() && !wanted.zero_checksum {
        tunnel::complete_udp(packet.data_mut());
    }
    let family = if tunnel.outer.is_v4() { ParseFlags::IP4 } else { ParseFlags::IP6 };
    let flags = family | (ParseFlags::L4 | ParseFlags::L4_HEADER).when(is_udp);
    let protocol = tunnel.outer.protocol(inner);
    packet.set_parsed(&Parsed { l3: 0, l4: ip as u16, protocol, flags, l3_length: packet.len() as u32 });
    packet.set_offload(Offload::default());
    Ok(())
}
