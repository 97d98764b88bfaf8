//! Records of captures without their octets.

use weir_base::clock::Time;

/// A record without its octets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) time: Time,
    pub(super) original: u32,
    pub(super) interface: u32,
    pub(super) link_type: u16,
}
