//! Packets that match no SPD.

use weir_packet::packet::Packet;

use super::super::{Context, esp};
use crate::graph::flags::{DECRYPTED, ENCAPSULATED, TUNNELLED};

/// The packet passes beside the SPD: it is the outer packet of ESP that leaves, a decrypted packet, which has matched a policy
/// already, a packet of ESP for the gateway, or an error about the MTU of an SA's path (RFC 4301, 5.1, 5.2 and 8.2).
#[inline(always)]
pub(super) fn is_beside<const OUTPUT: bool>(context: &Context<'_>, packet: &Packet) -> bool {
    match OUTPUT {
        // The outer packets of tunnels are as those of any host, until an SA protects them.
        true => packet.state().contains(ENCAPSULATED) && !packet.state().contains(TUNNELLED),
        false => {
            packet.state().contains(DECRYPTED)
                || esp::is_for_gateway(context.root, packet)
                || esp::is_report(context.root, packet)
        }
    }
}
