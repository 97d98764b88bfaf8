//! The packets of ESP that an SA makes of packets: how long they are, and where they go.

use super::{Harness, RouteTaken};
use crate::model::SaIndex;
use crate::root::ipsec::Sa;
use crate::root::{Adjacency, Forwarding, NONE};

/// A packet that an SA protects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Protection {
    /// The route of the packet of ESP.
    pub route: RouteTaken,
    /// The MTU of the link that the route leads to, in octets; `None` if it leads to none.
    pub mtu: Option<u32>,
    /// The octets that `tfc` pads the packet to, if it is shorter.
    pub padded: Option<u32>,
    /// The length of the packet of ESP from its IP header on, in octets.
    pub length: u32,
    /// The length of the longest packet that fits the link once it is encrypted, in octets.
    pub longest: Option<u32>,
}

impl Harness {
    /// Describes the packet of ESP that an SA makes of a packet with so many octets, of which the first `headers` stay in front
    /// in transport mode. `None` if there is no such SA, or it does not send.
    #[must_use]
    pub fn protection(&self, sa: SaIndex, octets: u32, headers: u32) -> Option<Protection> {
        let &number = self.map.sas.get(sa.0 as usize)?;
        let of = |sa: &Sa| (sa.vrf, sa.remote, u32::from(sa.tfc));
        let (vrf, remote, tfc) = self.control.root.with(|root| root.ipsec.sa(number).map(of))?;
        let padded = (octets < tfc).then_some(tfc);
        let octets = padded.unwrap_or(octets);
        let entry = self.control.look().0.ribs().get(usize::from(vrf)).and_then(|rib| rib.covering(remote));
        let adjacency = self.control.root.with(|root| {
            let number = entry.map(|(_, entry)| Forwarding(entry.forwarding).resolve(|| 0, &root.buckets));
            number.and_then(|number| Some((number, *root.adjacencies.get(number as usize)?)))
        });
        let is_link = |adjacency: &Adjacency| adjacency.interface != NONE && adjacency.mtu > 0;
        let mtu = adjacency.as_ref().filter(|(_, own)| is_link(own)).map(|(_, own)| own.mtu);
        self.control.root.with(|root| {
            let sa = root.ipsec.sa(number).filter(|sa| sa.outbound.is_some())?;
            let envelope = sa.envelope(headers as usize);
            Some(Protection {
                route: self.route(vrf, remote, adjacency.map_or(NONE, |(number, _)| number)),
                mtu,
                padded,
                length: envelope.length(octets as usize)?.try_into().ok()?,
                longest: mtu.and_then(|mtu| envelope.longest(mtu as usize)?.try_into().ok()),
            })
        })
    }
}
