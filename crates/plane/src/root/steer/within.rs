//! The condition on the packet inside of a packet.

use weir_packet::inner::{Carrier, Inner};
use weir_packet::packet::Packet;
use weir_packet::parse::ParseFlags;
use weir_table::classify::{Fields, Fragment, Rule};

use crate::root::family::Family;

/// The fields of the packet inside, any of which may match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Within {
    /// The headers in front of the packet.
    pub carrier: Carrier,
    /// Of packets of IPv4.
    pub v4: Box<[Rule<u32>]>,
    /// Of packets of IPv6.
    pub v6: Box<[Rule<u128>]>,
}

impl Within {
    /// The packet has a packet inside with these fields.
    #[inline(never)]
    pub(super) fn holds(&self, packet: &Packet) -> bool {
        let Some(inner) = self.carrier.inner_of(packet) else { return false };
        if inner.parsed.flags.contains(ParseFlags::IP4) { any(&self.v4, &inner) } else { any(&self.v6, &inner) }
    }
}

fn any<K: Family>(rules: &[Rule<K>], inner: &Inner<'_>) -> bool {
    fields(inner).is_some_and(|fields| rules.iter().any(|rule| rule.matches(&fields)))
}

/// The fields of a packet inside.
fn fields<K: Family>(Inner { octets, parsed }: &Inner<'_>) -> Option<Fields<K>> {
    let (source, destination) = K::endpoints(octets)?;
    let [first, second] = *octets.first_chunk()?;
    // IPv6 has the version in front, and a flow label behind.
    let dscp = if K::IS_V4 { second >> 2 } else { (first << 4 | second >> 4) >> 2 };
    let mut own = Fields::new(source, destination, parsed.protocol).with_dscp(dscp);
    if let Some((from, to)) = parsed.ports(octets) {
        own = own.with_ports(from, to);
        if let Some(flags) = parsed.tcp_flags(octets) {
            own = own.with_flags(flags.0.into());
        }
    } else if let Some((kind, code)) = parsed.icmp(octets) {
        own = own.with_icmp(kind, code);
    }
    Some(if parsed.flags.contains(ParseFlags::LATER_FRAGMENT) {
        own.with_fragment(Fragment::Later)
    } else if parsed.flags.contains(ParseFlags::FRAGMENT) {
        own.with_fragment(Fragment::First)
    } else {
        own
    })
}
