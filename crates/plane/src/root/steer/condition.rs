//! The conditions of a rule that a classifier has no field for.

use weir_packet::identify::Identifier;
use weir_packet::packet::Packet;
use weir_packet::parse;

/// Conditions beside those of the classifier. All of them have to hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Condition {
    /// The lowest and the highest VLAN identifier of a tag of the frame.
    pub vlan: Option<(u16, u16)>,
    /// The lowest and the highest identifier of a kind.
    pub id: Option<(Identifier, u32, u32)>,
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
    }
}

/// The VLAN identifiers of the tags that a frame has in front of its IP header.
fn tags(packet: &Packet) -> impl Iterator<Item = u16> {
    // Packets out of a tunnel of IP have no link-layer header.
    let header = packet.data().get(..packet.l3_offset()).filter(|header| !header.is_empty());
    let l2 = header.and_then(|_| parse::ethernet(packet.data()).ok());
    let tags = l2.map_or([None, None], |l2| [l2.tags.outer, l2.tags.inner]);
    tags.into_iter().flatten().map(|tag| tag.vid())
}
