//! The conditions of a rule that a classifier has no field for.

use std::sync::Arc;

use weir_packet::identify::Identifier;
use weir_packet::packet::Packet;
use weir_packet::parse;

use super::within::Within;
use crate::model::{ClassifyStart, SteerOctets};

/// Conditions beside those of the classifier. All of them have to hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Condition {
    /// The lowest and the highest VLAN identifier of a tag of the frame.
    pub vlan: Option<(u16, u16)>,
    /// The lowest and the highest identifier of a kind.
    pub id: Option<(Identifier, u32, u32)>,
    /// Octets from a header on.
    pub octets: Option<SteerOctets>,
    /// The stations of the frame.
    pub macs: Option<Stations>,
    /// The packet inside.
    pub inner: Option<Arc<Within>>,
}

/// The hardware addresses of a frame under masks, as numbers of 48 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stations {
    /// The mask, and the value under it, of the station that sends.
    pub from: (u64, u64),
    /// The same of the station that it is for.
    pub to: (u64, u64),
}

impl Condition {
    /// There is no condition.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Condition::default()
    }

    /// The kind and the only value of the identifier.
    #[must_use]
    pub fn exact(&self) -> Option<(Identifier, u32)> {
        self.id.and_then(|(kind, low, high)| (low == high).then_some((kind, low)))
    }

    /// The conditions hold for a parsed packet.
    #[must_use]
    #[inline]
    pub fn holds(&self, packet: &Packet) -> bool {
        self.vlan.is_none_or(|(low, high)| tags(packet).any(|vid| (low..=high).contains(&vid)))
            && self.id.is_none_or(|(kind, low, high)| kind.of(packet).is_some_and(|id| (low..=high).contains(&id)))
            && self.macs.is_none_or(|stations| stations.hold(packet))
            && self.octets.as_ref().is_none_or(|octets| has(packet, octets))
            && self.inner.as_ref().is_none_or(|inner| inner.holds(packet))
    }
}

impl Stations {
    /// Compares the stations of a frame. Packets out of a tunnel of IP have none.
    #[inline(never)]
    fn hold(self, packet: &Packet) -> bool {
        let header = packet.data().first_chunk::<12>().filter(|_| packet.l3_offset() > 0);
        header.is_some_and(|&[a, b, c, d, e, f, g, h, i, j, k, l]| {
            let to = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
            let from = u64::from_be_bytes([0, 0, g, h, i, j, k, l]);
            from & self.from.0 == self.from.1 && to & self.to.0 == self.to.1
        })
    }
}

/// A packet has these octets. A packet without the header, or that ends before the last octet, has them not.
#[inline(never)]
fn has(packet: &Packet, octets: &SteerOctets) -> bool {
    let start = match octets.start {
        // Packets out of a tunnel of IP have no link-layer header.
        ClassifyStart::Link if packet.l3_offset() > 0 => 0,
        ClassifyStart::Network => packet.l3_offset(),
        ClassifyStart::Transport if packet.l4_offset() > 0 => packet.l4_offset(),
        ClassifyStart::Link | ClassifyStart::Transport | ClassifyStart::Meta => return false,
    };
    let own = packet.data().get(start + usize::from(octets.at)..).and_then(|rest| rest.get(..octets.mask.len()));
    own.is_some_and(|own| {
        let compared = own.iter().zip(&*octets.mask).map(|(octet, mask)| octet & mask);
        compared.eq(octets.value.iter().copied())
    })
}

/// The VLAN identifiers of the tags that a frame has in front of its IP header.
fn tags(packet: &Packet) -> impl Iterator<Item = u16> {
    // Packets out of a tunnel of IP have no link-layer header.
    let header = packet.data().get(..packet.l3_offset()).filter(|header| !header.is_empty());
    let l2 = header.and_then(|_| parse::ethernet(packet.data()).ok());
    let tags = l2.map_or([None, None], |l2| [l2.tags.outer, l2.tags.inner]);
    tags.into_iter().flatten().map(|tag| tag.vid())
}
