//! A learned decision.

use weir_packet::packet::Packet;
use weir_packet::wire::tcp;
use weir_table::classify::Consulted;

use crate::graph::record::Miss;

/// A policy that does not check the flow.
pub(crate) const UNASKED: u32 = u32::MAX;

/// Fields outside of a flow's key on which a decision may depend: the source's hardware address, the TCP flags and the DSCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Varying(u64);

impl Varying {
    /// No field.
    pub(crate) const NONE: Varying = Varying(0);
    /// The source's hardware address.
    pub(crate) const MAC: Varying = Varying(!0 << 16);
    /// The TCP flags.
    const FLAGS: Varying = Varying(0xff << 8);
    /// The DSCP.
    const DSCP: Varying = Varying(0xff);

    /// The fields that vary, as far as rules match on them.
    pub(crate) fn of_rules(asks: Consulted) -> Varying {
        let of = |field, mask: Varying| if asks.contains(field) { mask.0 } else { 0 };
        Varying(of(Consulted::FLAGS, Varying::FLAGS) | of(Consulted::DSCP, Varying::DSCP))
    }

    /// The fields of a packet with this codepoint. Its frame has a link-layer header.
    #[inline(always)]
    pub(crate) fn of_packet(packet: &Packet, is_tcp: bool, dscp: u8) -> Varying {
        let header = packet.data().first_chunk::<14>().copied().unwrap_or_default();
        let [.., a, b, c, d, e, f, _, _] = header;
        let mac = u64::from_be_bytes([a, b, c, d, e, f, 0, 0]);
        let own = packet.l4_header::<{ tcp::LENGTH }>().map_or(0, |header| header[tcp::FLAGS]);
        let flags = if is_tcp { own } else { 0 };
        Varying(mac | u64::from(flags) << 8 | u64::from(dscp))
    }

    /// The fields of both masks.
    pub(crate) fn and(self, other: Varying) -> Varying {
        Varying(self.0 | other.0)
    }

    /// These fields alone.
    #[inline(always)]
    pub(super) fn masked(self, mask: Varying) -> Varying {
        Varying(self.0 & mask.0)
    }
}

/// The decision about the packets of a flow that come in by one interface.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Decision {
    /// The number of changes at which it was made.
    pub(super) epoch: u64,
    /// The fields of the packet that was decided about, of those in `mask`.
    pub(super) varying: Varying,
    /// The fields on which the decision depends.
    pub(super) mask: Varying,
    /// The interface that packets come in by.
    pub(super) interface: u32,
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
}

impl Decision {
    /// No policy has checked the packet.
    pub(super) const NONE: Decision = Decision {
        epoch: 0,
        varying: Varying::NONE,
        mask: Varying::NONE,
        interface: UNASKED,
        adjacency: UNASKED,
        acl_in: UNASKED,
        acl_out: UNASKED,
        bound: UNASKED,
        row: UNASKED,
    };

    /// Whether a packet may take the decision.
    #[inline(always)]
    pub(crate) fn check(&self, epoch: u64, packet: Varying, interface: u32) -> Result<(), Miss> {
        let same = packet.masked(self.mask) == self.varying && interface == self.interface;
        if same && epoch == self.epoch {
            return Ok(());
        }
        Err(if same { Miss::Changed } else { Miss::Differs })
    }
}
