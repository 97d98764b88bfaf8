//! A learned decision.

use weir_packet::packet::Packet;
use weir_packet::wire::{ethernet, tcp};
use weir_table::classify::Consulted;

use crate::graph::record::Miss;
use crate::root::acl::Found;

/// A policy that does not check the flow.
pub(crate) const UNASKED: u32 = u32::MAX;

/// The fields outside of a flow's key on which a decision may depend: the source's hardware address, the TCP flags and the DSCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Varying(u64);

/// A set of these fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Mask(u8);

impl Mask {
    /// No field.
    pub(crate) const NONE: Mask = Mask(0);
    /// The source's hardware address.
    pub(crate) const MAC: Mask = Mask(1);
    /// The TCP flags.
    const FLAGS: Mask = Mask(2);
    /// The DSCP.
    const DSCP: Mask = Mask(4);

    /// The fields that vary, as far as rules match on them.
    pub(crate) fn of_rules(consulted: Consulted) -> Mask {
        let of = |field, mask: Mask| if consulted.contains(field) { mask.0 } else { 0 };
        Mask(of(Consulted::FLAGS, Mask::FLAGS) | of(Consulted::DSCP, Mask::DSCP))
    }

    /// The fields of both sets.
    pub(crate) fn and(self, other: Mask) -> Mask {
        Mask(self.0 | other.0)
    }
}

impl Varying {
    /// All fields are zero.
    pub(crate) const NONE: Varying = Varying(0);

    /// The fields of a packet with this codepoint. A packet without a link-layer header has the hardware address zero.
    #[inline(always)]
    pub(crate) fn of_packet(packet: &Packet, is_tcp: bool, dscp: u8) -> Varying {
        let sender = packet.data().get(6..14).and_then(|octets| octets.first_chunk::<8>());
        let sender = sender.filter(|_| packet.l3_offset() >= ethernet::LENGTH);
        let mac = sender.map_or(0, |octets| u64::from_be_bytes(*octets) & !0xffff);
        let own = packet.l4_header::<{ tcp::LENGTH }>().map_or(0, |header| header[tcp::FLAGS]);
        let flags = if is_tcp { own } else { 0 };
        Varying(mac | u64::from(flags) << 8 | u64::from(dscp))
    }

    /// These fields alone; zeros for the others.
    #[inline]
    pub(super) fn masked(self, Mask(mask): Mask) -> Varying {
        let of = |field: Mask, bits: u64| if mask & field.0 == 0 { 0 } else { bits };
        Varying(self.0 & (of(Mask::MAC, !0xffff) | of(Mask::FLAGS, 0xff00) | of(Mask::DSCP, 0xff)))
    }
}

/// The decision about the packets of a flow that come in by one interface.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Decision {
    /// The number of changes at which it was made, or found to hold on.
    epoch: u32,
    /// The interface that packets come in by, and in the highest bit whether there is more than the first five words.
    ingress: u32,
    /// The adjacency that they leave by.
    pub(crate) adjacency: u32,
    /// The rule of the ingress lists, [`UNASKED`] without lists; and so on.
    pub(crate) acl_in: u32,
    /// The rule of the egress lists.
    pub(crate) acl_out: u32,
    /// The verdict of the bindings.
    pub(crate) bound: u32,
    /// The row of the validator's table, where hits are counted.
    pub(crate) row: u32,
    /// The fields of the packet that was decided about, of those in `mask`.
    varying: [u8; 8],
    /// The fields on which the decision depends.
    mask: Mask,
    /// A policy of an SPD matched, of one of the next two.
    secured: bool,
    /// The policy of the SPD of the interface that packets come in by, [`UNMATCHED`] without one.
    pub(crate) spd_in: u16,
    /// The policy of the SPD of the interface that packets leave by.
    pub(crate) spd_out: u16,
    zones: Zones,
}

/// The part of sessions of zones in a decision, as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Zones(u8);

impl Zones {
    /// The packets leave by another zone with sessions than they come in by, or leave translated.
    const CROSSES: u8 = 1;
    /// A session of that zone permits them; else no session does.
    const PERMITTED: u8 = 2;
    /// The packets are translated, and come in by a zone with sessions.
    const BESIDE: u8 = 4;
    /// A session of that zone permits them; else no session does.
    const LET_IN: u8 = 8;
    /// There is a session of the egress zone, which need not permit them.
    const LEAVES_IN_SESSION: u8 = 16;
    /// There is a session of the ingress zone, which need not permit them.
    const COMES_IN_SESSION: u8 = 32;

    const NONE: Zones = Zones(0);

    #[inline(always)]
    fn has(self, bit: u8) -> bool {
        self.0 & bit != 0
    }
}

/// A rule limits packets, or offers them to a sampler. Decisions have other rules without what is special about them.
#[inline(always)]
fn has_handle(found: u32) -> bool {
    found != UNASKED && Found::of(found).is_special()
}

/// There is more than the first words.
const MORE: u32 = 1 << 31;

/// The part of the ingress zone in a decision about translated packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Beside {
    /// The ingress has lists.
    pub(crate) is_asked: bool,
    /// The packets belong to a session of the zone. Without one, a rule may open it.
    pub(crate) in_session: bool,
    /// The rule by which a session of the zone permits them; `None`: lists have decided.
    pub(crate) permitted_by: Option<u32>,
}

/// The part of the egress zone in a decision about packets that come in by another zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Crossing {
    /// The adjacency that the packets leave by.
    pub(crate) adjacency: u32,
    /// The packets belong to a session of the zone. Without one, a rule may open it.
    pub(crate) in_session: bool,
    /// The rule by which a session of the zone permits them; `None`: lists have decided.
    pub(crate) permitted_by: Option<u32>,
}

/// No policy of an SPD.
pub(crate) const UNMATCHED: u16 = u16::MAX;

const _: () = assert!(size_of::<Decision>() == 44);

impl Decision {
    /// No policy has checked the packet.
    pub(super) const NONE: Decision = Decision {
        epoch: 0,
        ingress: UNASKED,
        adjacency: UNASKED,
        acl_in: UNASKED,
        acl_out: UNASKED,
        bound: UNASKED,
        row: UNASKED,
        varying: [0; 8],
        mask: Mask::NONE,
        secured: false,
        spd_in: UNMATCHED,
        spd_out: UNMATCHED,
        zones: Zones::NONE,
    };

    /// The decision about a packet that came in by an interface, with these fields that vary, of which it depends on `mask`.
    #[must_use]
    pub(super) fn about(self, (epoch, adjacency): (u32, u32), interface: u32, packet: Varying, mask: Mask) -> Decision {
        let secured = self.spd_in & self.spd_out != UNMATCHED;
        let limited = has_handle(self.acl_in) || has_handle(self.acl_out);
        let more = mask != Mask::NONE || self.bound & self.row != UNASKED || secured || limited;
        let ingress = interface & !MORE | if more { MORE } else { 0 };
        let varying = packet.masked(mask).0.to_ne_bytes();
        Decision { epoch, adjacency, ingress, varying, mask, secured, ..self }
    }

    /// The interface that packets come in by.
    pub(crate) fn interface(&self) -> u32 {
        self.ingress & !MORE
    }

    /// The number of changes at which it was made, or found to hold on.
    pub(crate) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// It holds on: no change up to this number concerns it.
    pub(crate) fn hold_on(&mut self, epoch: u32) {
        self.epoch = epoch;
    }

    /// A policy of an SPD matched.
    #[inline(always)]
    pub(crate) fn is_secured(&self) -> bool {
        self.secured
    }

    /// The packets leave by another zone with sessions than they come in by. `in_session`: they belong to one of that zone;
    /// `permitted`: it permits them.
    pub(crate) fn cross(&mut self, in_session: bool, permitted: bool) {
        self.ingress |= MORE;
        let in_session = if in_session { Zones::LEAVES_IN_SESSION } else { 0 };
        self.zones.0 |= Zones::CROSSES | in_session | if permitted { Zones::PERMITTED } else { 0 };
    }

    /// The packets are translated, and come in by a zone with sessions. `in_session`: they belong to one of it; `permitted`: it
    /// permits them.
    pub(crate) fn come_beside(&mut self, in_session: bool, permitted: bool) {
        self.ingress |= MORE;
        let in_session = if in_session { Zones::COMES_IN_SESSION } else { 0 };
        self.zones.0 |= Zones::BESIDE | in_session | if permitted { Zones::LET_IN } else { 0 };
    }

    /// The part of the ingress zone, if the packets are translated, and it has sessions.
    #[inline]
    pub(crate) fn beside(&self) -> Option<Beside> {
        let permitted_by = Some(self.acl_in).filter(|_| self.zones.has(Zones::LET_IN));
        let (is_asked, in_session) = (self.acl_in != UNASKED, self.zones.has(Zones::COMES_IN_SESSION));
        self.zones.has(Zones::BESIDE).then_some(Beside { is_asked, in_session, permitted_by })
    }

    /// The part of the egress zone, if it is another one with sessions.
    #[inline(always)]
    pub(crate) fn crossing(&self) -> Option<Crossing> {
        let permitted_by = Some(self.acl_out).filter(|_| self.zones.has(Zones::PERMITTED));
        let in_session = self.zones.has(Zones::LEAVES_IN_SESSION);
        self.zones.has(Zones::CROSSES).then_some(Crossing { adjacency: self.adjacency, in_session, permitted_by })
    }

    /// A rule of the ingress lists, or of the egress lists, limits packets or offers them to a sampler: the lists' node lets
    /// it act on each packet.
    #[inline(always)]
    pub(crate) fn is_limited(&self) -> bool {
        self.has_more() && (has_handle(self.acl_in) || has_handle(self.acl_out))
    }

    /// The rule of the lists for a direction, if it limits packets or offers them to a sampler.
    #[inline]
    pub(crate) fn limited_by(&self, output: bool) -> Option<u32> {
        Some(if output { self.acl_out } else { self.acl_in }).filter(|&found| has_handle(found))
    }

    /// It counts for bindings, a validator's row or policies of SPDs, has a rule that limits or logs, names two zones, or depends
    /// on fields that vary.
    #[inline(always)]
    pub(crate) fn has_more(&self) -> bool {
        self.ingress & MORE != 0
    }

    /// Whether any packet of the flow that came in by an interface may take the decision, and it counts for the first words only:
    /// the usual case of [`Decision::check`].
    #[inline(always)]
    pub(crate) fn is_plain(&self, epoch: u32, interface: u32) -> bool {
        let pair = |epoch: u32, ingress: u32| u64::from(epoch) | u64::from(ingress) << 32;
        pair(self.epoch, self.ingress) == pair(epoch, interface)
    }

    /// Whether a packet that came in by an interface may take the decision, and no change has come since it was made; `packet`
    /// gives its fields that vary.
    #[inline(always)]
    pub(crate) fn check(&self, epoch: u32, interface: u32, packet: impl FnOnce() -> Varying) -> Result<bool, Miss> {
        let varies = self.has_more() && self.mask != Mask::NONE;
        if self.ingress & !MORE != interface || varies && self.differs(packet()) {
            return Err(Miss::Differs);
        }
        Ok(epoch == self.epoch)
    }

    #[inline(never)]
    fn differs(&self, packet: Varying) -> bool {
        packet.masked(self.mask).0.to_ne_bytes() != self.varying
    }
}
