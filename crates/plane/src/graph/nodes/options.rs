//! How a check of the input refuses a packet, and the check of the options of IPv4.

use weir_packet::wire::ipv4;

use crate::reason::Reason;

/// A packet is refused for a reason, and how.
pub(super) enum Refusal {
    Silent(Reason),
    /// The source gets an ICMP error, if permitted.
    Aloud(Reason),
    /// It is sent where what is not valid goes.
    Redirect,
}

impl From<Reason> for Refusal {
    fn from(reason: Reason) -> Self {
        Refusal::Silent(reason)
    }
}

/// Checks the options of IPv4 (RFC 1812, 5.2.4.1 and 4.2.2.1). Malformed options are rejected with an ICMP error.
/// Source routes are dropped silently, as RFC 7126, 4.3 and 4.4 recommend.
#[cold]
pub(super) fn check_options(packet: &[u8]) -> Result<(), Refusal> {
    let length = ipv4::Header::new(packet).map_or(0, |header| header.header_length());
    for option in ipv4::options(packet.get(..length).unwrap_or_default()) {
        match option {
            Err(_) => return Err(Refusal::Aloud(Reason::BadOptions)),
            Ok(option)
                if matches!(option.kind(), ipv4::option::LOOSE_SOURCE_ROUTE | ipv4::option::STRICT_SOURCE_ROUTE) =>
            {
                return Err(Reason::SourceRoute.into());
            }
            Ok(_) => {}
        }
    }
    Ok(())
}
