//! VLAN tags (IEEE 802.1Q and 802.1ad).
//!
//! A tag is four octets between the source address and the type of what it carries: the tag's own type (TPID) stands
//! where a type is expected, two octets of tag control information follow, then the next type.

use std::fmt;
use std::str::FromStr;

use super::ethernet::ethertype;

/// Length of a tag in octets.
pub const LENGTH: usize = 4;

/// The number of a VLAN: 1 ..= 4094, or 0 in a tag that carries a priority only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(transparent)]
pub struct VlanId(u16);

impl VlanId {
    /// No VLAN: the tag carries a priority only.
    pub const PRIORITY: VlanId = VlanId(0);
    /// The largest number; 4095 is reserved.
    pub const MAX: VlanId = VlanId(4094);

    /// The VLAN of that number; `None` from 4095 on.
    #[inline]
    pub const fn new(number: u16) -> Option<VlanId> {
        if number <= Self::MAX.0 { Some(VlanId(number)) } else { None }
    }

    /// Its number, 0 ..= 4094.
    #[inline]
    pub const fn number(self) -> u16 {
        self.0
    }
}

impl fmt::Display for VlanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A text that is no VLAN number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected a VLAN number, 1 to 4094, or 0 for a priority tag")]
pub struct NotAVlanId;

impl FromStr for VlanId {
    type Err = NotAVlanId;

    fn from_str(text: &str) -> Result<VlanId, NotAVlanId> {
        text.parse().ok().and_then(VlanId::new).ok_or(NotAVlanId)
    }
}

/// Whether a type announces a tag.
#[inline]
pub const fn is_tag(ethertype: u16) -> bool {
    matches!(ethertype, ethertype::VLAN | ethertype::QINQ)
}

/// One tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tag {
    /// The tag's own type: 0x8100 or 0x88a8.
    pub tpid: u16,
    /// Tag control information: priority (3 bits), drop eligible (1), VLAN number (12).
    pub tci: u16,
}

impl Tag {
    /// The VLAN number as received, 0 ..= 4095.
    #[inline]
    pub const fn vid(self) -> u16 {
        self.tci & 0x0fff
    }

    /// The VLAN; `None` for the reserved number 4095.
    #[inline]
    pub const fn id(self) -> Option<VlanId> {
        VlanId::new(self.vid())
    }

    /// Priority code point, 0 ..= 7.
    #[inline]
    pub const fn priority(self) -> u8 {
        (self.tci >> 13) as u8
    }

    /// Whether the frame may be dropped first.
    #[inline]
    pub const fn drop_eligible(self) -> bool {
        self.tci & 0x1000 != 0
    }

    /// The bytes that go between the addresses and the type of what follows.
    #[inline]
    pub const fn emit(self) -> [u8; LENGTH] {
        let [a, b] = self.tpid.to_be_bytes();
        let [c, d] = self.tci.to_be_bytes();
        [a, b, c, d]
    }
}

/// The tags of a frame, outermost first; more than two are never looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Tags {
    /// The tag next to the addresses.
    pub outer: Option<Tag>,
    /// The tag behind it; present only with `outer`.
    pub inner: Option<Tag>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_a_range() {
        assert_eq!(VlanId::new(4094), Some(VlanId::MAX));
        assert_eq!(VlanId::new(4095), None);
        assert_eq!("0".parse(), Ok(VlanId::PRIORITY));
        assert_eq!("7".parse::<VlanId>().unwrap().to_string(), "7");
        for text in ["", "-1", "4095", "65536", "x"] {
            assert_eq!(text.parse::<VlanId>(), Err(NotAVlanId), "{text}");
        }
    }

    #[test]
    fn a_tag_has_three_fields() {
        let tag = Tag { tpid: ethertype::QINQ, tci: 0b1011_0000_0000_0111 };
        assert_eq!((tag.priority(), tag.drop_eligible(), tag.vid()), (5, true, 7));
        assert_eq!(tag.emit(), [0x88, 0xa8, 0xb0, 0x07]);
        assert_eq!(Tag { tpid: ethertype::VLAN, tci: 0x0fff }.id(), None);
    }
}
