//! ARP for IPv4 over Ethernet (RFC 826).

use std::net::Ipv4Addr;

use super::ethernet::ethertype;
use super::{MacAddress, Truncated, array, be16, chunk};

/// Length of a packet in octets.
pub const LENGTH: usize = 28;

/// The operation of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// A request for the target's hardware address.
    Request,
    /// The sender has the sender's address.
    Reply,
}

/// A packet as a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fields {
    /// The operation.
    pub operation: Operation,
    /// Hardware address of the sender.
    pub sender_mac: MacAddress,
    /// Protocol address of the sender; 0.0.0.0 in a probe (RFC 5227).
    pub sender: Ipv4Addr,
    /// Hardware address of the target; zero in a request.
    pub target_mac: MacAddress,
    /// The requested protocol address.
    pub target: Ipv4Addr,
}

/// Why a packet is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Too few octets.
    #[error(transparent)]
    Truncated(#[from] Truncated),
    /// Address types or lengths other than those of Ethernet and IPv4.
    #[error("ARP for other addresses than those of Ethernet and IPv4")]
    Addresses,
    /// An operation other than request and reply.
    #[error("unknown ARP operation {0}")]
    Operation(u16),
}

impl Fields {
    /// Reads the packet at the start of `bytes`; padding may follow.
    pub fn parse(bytes: &[u8]) -> Result<Fields, Refused> {
        let bytes: &[u8; LENGTH] = chunk(bytes, "arp")?;
        if be16(bytes, 0) != 1 || be16(bytes, 2) != ethertype::IPV4 || bytes[4] != 6 || bytes[5] != 4 {
            return Err(Refused::Addresses);
        }
        Ok(Fields {
            operation: match be16(bytes, 6) {
                1 => Operation::Request,
                2 => Operation::Reply,
                other => return Err(Refused::Operation(other)),
            },
            sender_mac: MacAddress(array(bytes, 8)),
            sender: Ipv4Addr::from(array(bytes, 14)),
            target_mac: MacAddress(array(bytes, 18)),
            target: Ipv4Addr::from(array(bytes, 24)),
        })
    }

    /// The packet's bytes.
    pub fn emit(&self) -> [u8; LENGTH] {
        let mut out = [0, 1, 8, 0, 6, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        out[7] = match self.operation {
            Operation::Request => 1,
            Operation::Reply => 2,
        };
        out[8..14].copy_from_slice(&self.sender_mac.0);
        out[14..18].copy_from_slice(&self.sender.octets());
        out[18..24].copy_from_slice(&self.target_mac.0);
        out[24..28].copy_from_slice(&self.target.octets());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Fields {
        Fields {
            operation: Operation::Request,
            sender_mac: MacAddress([2, 0, 0, 0, 0, 1]),
            sender: Ipv4Addr::new(10, 0, 0, 1),
            target_mac: MacAddress::ZERO,
            target: Ipv4Addr::new(10, 0, 0, 2),
        }
    }

    #[test]
    fn a_value_survives_the_wire() {
        let reply = Fields { operation: Operation::Reply, ..request() };
        for fields in [request(), reply] {
            assert_eq!(Fields::parse(&fields.emit()), Ok(fields));
        }
    }

    #[test]
    fn what_is_not_ours_is_refused() {
        let bytes = request().emit();
        for length in 0..LENGTH {
            assert!(matches!(Fields::parse(&bytes[..length]), Err(Refused::Truncated(_))));
        }
        for at in 0..6 {
            let mut other = bytes;
            other[at] ^= 0x10;
            assert_eq!(Fields::parse(&other), Err(Refused::Addresses));
        }
        let mut other = bytes;
        other[7] = 9;
        assert_eq!(Fields::parse(&other), Err(Refused::Operation(9)));
    }
}
