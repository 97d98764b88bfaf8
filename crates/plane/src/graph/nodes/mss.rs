//! The maximum segment size of TCP connections inside of SAs and tunnels.

use weir_packet::mss;
use weir_packet::packet::Packet;
use weir_packet::parse::ParseFlags;
use weir_packet::wire::{ipv4, ipv6, protocol, tcp};

use crate::model::MssClamp;

/// The least maximum segment size that fitting makes, in octets: that of the least MTU of IPv4 (RFC 9293, 3.7.1), less options.
const LEAST: u16 = 88;

/// Lowers the maximum segment size of a SYN segment. `room` gives the longest packet that fits, from its IP header on. Any other
/// packet stays as it is.
pub(super) fn clamp(packet: &mut Packet, wanted: MssClamp, room: impl FnOnce(&Packet) -> usize) {
    if packet.protocol() != protocol::TCP || mss::of(&packet.parsed(), packet.data()).is_none() {
        return;
    }
    let most = match wanted {
        MssClamp::Value(most) => most,
        MssClamp::Mtu => {
            let ip = if packet.flags().contains(ParseFlags::IP4) { ipv4::LENGTH } else { ipv6::LENGTH };
            u16::try_from(room(packet).saturating_sub(ip + tcp::LENGTH)).unwrap_or(u16::MAX).max(LEAST)
        }
    };
    mss::clamp(packet, most);
}
