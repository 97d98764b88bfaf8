//! Constants of both formats.

/// The link type of Ethernet, the only one that weir writes (registry of the pcap formats).
pub(super) const ETHERNET: u16 = 1;
/// The link types of Linux cooked captures, version 1 and 2.
pub(super) const COOKED: u16 = 113;
pub(super) const COOKED_2: u16 = 276;

/// The longest packet of a file, in octets, as in libpcap: a record that claims more is malformed.
pub const MAX_RECORD: usize = 262_144;
