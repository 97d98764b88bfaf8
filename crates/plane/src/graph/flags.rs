//! Flags of packets that the graph keeps, beside those of the parser.

use weir_packet::packet::State;

/// weir made the packet: its TTL is not decremented, and no error is sent about it.
pub(crate) const ORIGINATED: State = State::from_bits(1 << 0);

/// The packet came in fragments: that does not show that its way back takes more than the least MTU.
pub(crate) const PIECEMEAL: State = State::from_bits(1 << 1);

/// The packet stays on its link and is for the host, once the policies have let it pass.
pub(crate) const FOR_HOST: State = State::from_bits(1 << 3);

/// The source of a rejected packet gets a TCP reset.
pub(crate) const RESET: State = State::from_bits(1 << 2);

/// The packet counts for its session already: it was held.
pub(crate) const COUNTED: State = State::from_bits(1 << 4);

/// An address or a port of the packet was translated.
pub(crate) const TRANSLATED: State = State::from_bits(1 << 6);

/// The packet is one of the replies of its translation.
pub(crate) const NAT_REPLY: State = State::from_bits(1 << 7);

/// The packet is an ICMP error about a packet of its translation.
pub(crate) const NAT_ERROR: State = State::from_bits(1 << 8);

/// The packet belonged to no translation when it came in.
pub(crate) const NAT_NONE: State = State::from_bits(1 << 9);

/// The packet counts for its translation already: it was held.
pub(crate) const NAT_HELD: State = State::from_bits(1 << 10);

/// The outer packet of ESP or of a tunnel, made from a packet that the gateway forwards or made: its TTL is not decremented, it may be
/// fragmented, and no error is sent about it.
pub(crate) const ENCAPSULATED: State = State::from_bits(1 << 11);

/// The packet was decrypted: until the lookup, its forwarding field holds the number of its SA.
pub(crate) const DECRYPTED: State = State::from_bits(1 << 12);

/// The source of the packet has another prefix than it came in with (NPTv6).
pub(crate) const NPT_SOURCE: State = State::from_bits(1 << 13);

/// The destination of the packet has another prefix than it came in with (NPTv6).
pub(crate) const NPT_DESTINATION: State = State::from_bits(1 << 14);

/// The outer packet of a tunnel, which has matched no SPD yet. Such a packet is [`ENCAPSULATED`], too.
pub(crate) const TUNNELLED: State = State::from_bits(1 << 15);

/// The fragment came from the worker that knows its first fragment.
pub(crate) const HANDED: State = State::from_bits(1 << 5);
