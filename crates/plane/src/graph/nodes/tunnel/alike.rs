//! Packets of a tunnel that are like one before them. The octets in front of the inner packet are compared, and nothing is looked up.

use weir_packet::esp::ecn;
use weir_packet::offload::{Checksum, Gso, Offload};
use weir_packet::packet::{Packet, Shown, State};
use weir_packet::parse::{ParseFlags, Parsed};
use weir_packet::tunnel::{Carrier, Id, Opened};
use weir_packet::wire::{gre, gue, ipv4, ipv6, udp, vxlan};

use super::super::stage::Stage;
use super::super::{Context, ethernet_input};
use crate::graph::nesting::{self, MOST_NESTING};
use crate::root::tunnel::Tunnel;

/// Octets behind an IP header that are compared: UDP with the longest header of a carrier.
const BEHIND: usize = udp::LENGTH + vxlan::LENGTH;

/// The octets by which packets of a tunnel are known.
pub(super) struct Front {
    interface: u32,
    protocol: u8,
    flags: ParseFlags,
    /// The outer addresses; those of IPv4 are in the first word.
    ends: [u64; 4],
    /// The octets behind the IP header, and the bits of them that all packets have.
    behind: (u128, u128),
    /// Octets between the IP header and the inner packet.
    header: usize,
}

impl Front {
    /// Returns the front of packets like this one, whose header of the tunnel begins at `at`. `None`: each of them needs a closer look.
    #[inline]
    pub(super) fn of(packet: &Packet, tunnel: &Tunnel, at: usize, opened: Opened) -> Option<Front> {
        let flags = packet.flags();
        let mask = mask(tunnel.wanted.carrier, opened)?;
        let ((ends, _), behind) = ends(packet, flags.contains(ParseFlags::IP4))?;
        let header = at + opened.header - packet.l4_offset();
        let (interface, protocol) = (packet.interface(), packet.protocol());
        Some(Front { interface, protocol, flags, ends, behind: (u128::from_ne_bytes(*behind) & mask, mask), header })
    }

    /// Returns the congestion mark of a packet and the octets behind its IP header, if the packet has this front.
    #[inline(always)]
    fn find<'p>(&self, packet: &'p Packet) -> Option<(u8, &'p [u8; BEHIND])> {
        let is_like = (packet.interface() == self.interface)
            & (packet.protocol() == self.protocol)
            & (packet.flags() == self.flags);
        if !is_like {
            return None;
        }
        let ((ends, mark), behind) = ends(packet, self.flags.contains(ParseFlags::IP4))?;
        let is_like = (ends == self.ends) & (u128::from_ne_bytes(*behind) & self.behind.1 == self.behind.0);
        is_like.then_some((mark, behind))
    }
}

/// The addresses and the congestion mark in an IP header.
type Ends = ([u64; 4], u8);

/// Reads an IP header without options or extension headers. Returns the octets behind it, too.
#[inline(always)]
fn ends(packet: &Packet, v4: bool) -> Option<(Ends, &[u8; BEHIND])> {
    let length = packet.l4_offset().wrapping_sub(packet.l3_offset());
    if v4 {
        let (ip, behind) = packet.headers::<{ ipv4::LENGTH }, BEHIND>()?;
        let ends = [word(ip, ipv4::SOURCE), 0, 0, 0];
        (length == ipv4::LENGTH).then_some(((ends, ip[ipv4::TOS] & 3), behind))
    } else {
        let (ip, behind) = packet.headers::<{ ipv6::LENGTH }, BEHIND>()?;
        let ends = [0, 8, 16, 24].map(|at| word(ip, ipv6::SOURCE + at));
        (length == ipv6::LENGTH).then_some(((ends, ip[1] >> 4 & 3), behind))
    }
}

#[inline(always)]
fn word(octets: &[u8], at: usize) -> u64 {
    octets.get(at..).and_then(|octets| octets.first_chunk()).map_or(0, |octets| u64::from_ne_bytes(*octets))
}

/// The bits behind the IP header that packets of one tunnel have in common: the destination port, the header of the carrier, and the
/// version of an inner packet of IP. `None`: the header has something that differs from packet to packet, or that is checked.
#[inline]
fn mask(carrier: Carrier, opened: Opened) -> Option<u128> {
    let is_constant = match carrier {
        Carrier::Vxlan | Carrier::Geneve => opened.header == vxlan::LENGTH,
        Carrier::Gue => opened.header <= gue::LENGTH,
        // A key, and no checksum or sequence number.
        Carrier::Gre => opened.header == gre::LENGTH + if opened.id == Id::NONE { 0 } else { 4 },
        Carrier::Ip => true,
    };
    let mut mask = [0; BEHIND];
    let at = if carrier.port().is_some() { udp::LENGTH } else { 0 };
    if at > 0 {
        mask[2..4].fill(0xff);
    }
    let inner = at + opened.header;
    mask.get_mut(at..inner)?.fill(0xff);
    if !carrier.is_ethernet() {
        *mask.get_mut(inner)? = 0xf0;
    }
    is_constant.then_some(u128::from_ne_bytes(mask))
}

/// The tunnel of the last packet that others may be like, and the packets like it that were taken out since.
pub(super) struct Run<'r> {
    of: Option<(Front, &'r Tunnel)>,
    /// The hardware address of usual frames; `None` where packets of IP are carried.
    mac: Option<u64>,
    is_udp: bool,
    packets: u64,
    octets: u64,
}

/// The outcome of [`Run::take`].
pub(super) enum Taken<'r> {
    /// Nothing has changed.
    Not,
    /// The frame in the packet of this tunnel needs a closer look.
    Unusual(&'r Tunnel),
    /// The packet in the frame goes to the policies of the tunnel's interface.
    Whole,
    /// The packet of IP goes to `ip-input`.
    Inner,
}

impl<'r> Run<'r> {
    pub(super) const NONE: Run<'static> = Run { of: None, mac: None, is_udp: false, packets: 0, octets: 0 };

    /// Follows packets of another tunnel.
    #[inline(never)]
    pub(super) fn follow(&mut self, context: &Context<'r>, tunnel: &'r Tunnel, front: Front) {
        self.count(context);
        let carrier = tunnel.wanted.carrier;
        let interface = context.root.interfaces.get(tunnel.interface as usize);
        let mac = carrier.is_ethernet().then(|| ethernet_input::usual_mac(interface));
        *self = Run { of: Some((front, tunnel)), mac, is_udp: carrier.port().is_some(), packets: 0, octets: 0 };
    }

    /// Counts what was taken out of the tunnel.
    pub(super) fn count(&self, context: &Context<'_>) {
        let Some((_, tunnel)) = self.of.as_ref().filter(|_| self.packets > 0) else { return };
        tunnel.counters[context.worker].inbound.add(self.packets, self.octets);
        if let Some(interface) = context.root.interfaces.get(tunnel.interface as usize) {
            interface.counters[context.worker].rx.add(self.packets, self.octets);
        }
    }

    /// Takes out the contents of a usual packet of the tunnel, and admits a usual packet in a frame.
    #[inline(always)]
    pub(super) fn take(&mut self, packet: &mut Packet) -> Taken<'r> {
        let Some((front, tunnel)) = &self.of else { return Taken::Not };
        let Some((mark, behind)) = front.find(packet) else { return Taken::Not };
        let offload = packet.offload();
        let length = usize::from(u16::from_be_bytes([behind[4], behind[5]]));
        let has_sum = self.is_udp & (behind[udp::CHECKSUM..udp::LENGTH] != [0, 0]);
        let is_usual = (mark == ecn::NOT_ECT)
            & (!self.is_udp | (packet.l4_offset() + length == packet.len()))
            & (offload.gso == Gso::None)
            & (offload.checksum == Checksum::Valid || offload.checksum == Checksum::Unknown && !has_sum)
            & (nesting::taken_off(packet) < MOST_NESTING);
        if !is_usual || packet.pull(packet.l4_offset() + front.header).is_err() {
            return Taken::Not;
        }
        let octets = packet.len() as u64;
        match self.mac {
            Some(mac) if !ethernet_input::admit_usual(packet, mac) => return Taken::Unusual(tunnel),
            Some(_) => packet.set_resume(Stage::Sav as u8),
            None => packet.set_parsed(&Parsed::default()),
        }
        self.packets += 1;
        self.octets += octets;
        packet.set_offload(Offload { checksum: Checksum::Unknown, ..Offload::default() });
        packet.set_shown(Shown::EMPTY);
        nesting::take_off(packet);
        packet.set_state(State::EMPTY);
        packet.set_interface(tunnel.interface);
        if self.mac.is_some() { Taken::Whole } else { Taken::Inner }
    }
}
