//! Flags of packets that the graph sets, beside those of the parser.

use weir_packet::parse::ParseFlags;

/// weir made the packet: its TTL is not decremented, and no error is sent about it.
pub(crate) const ORIGINATED: ParseFlags = ParseFlags::from_bits(1 << 15);

/// The packet came in fragments: that is no sign that its way back takes more than the least that every way takes.
pub(crate) const PIECEMEAL: ParseFlags = ParseFlags::from_bits(1 << 14);

/// The packet's source has been validated before it was set aside.
pub(crate) const VALIDATED: ParseFlags = ParseFlags::from_bits(1 << 13);

/// The packet's source is not valid, and the packet goes where the policy of its interface sends it, whatever its
/// destination. Nobody is told anything about it: its source is forged.
pub(crate) const REDIRECTED: ParseFlags = ParseFlags::from_bits(1 << 12);

/// The packet has passed all that is asked of packets on their way in, before it was set aside.
pub(crate) const ADMITTED: ParseFlags = ParseFlags::from_bits(1 << 11);

/// The bindings of its interface have been asked about the packet before it was set aside.
pub(crate) const BOUND: ParseFlags = ParseFlags::from_bits(1 << 9);

/// The source of a packet that was rejected is told by a reset of its connection.
pub(crate) const RESET: ParseFlags = ParseFlags::from_bits(1 << 10);
