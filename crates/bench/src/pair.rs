//! A gateway between two networks that send to each other: the start of measurements of policies.

use std::net::IpAddr;

use ipnet::IpNet;
use weir_plane::model::{Gateway, Interface, RouteTarget};

use crate::model;

/// The networks of a family, each behind a neighbour on a link.
pub(crate) struct Pair {
    pub(crate) v4: bool,
    pub(crate) networks: [IpNet; 2],
    pub(crate) links: [(IpNet, IpAddr); 2],
}

impl Pair {
    pub(crate) fn of(v4: bool) -> Pair {
        let net = |text: &str| text.parse::<IpNet>().expect("a constant prefix");
        let address = |text: &str| text.parse::<IpAddr>().expect("a constant address");
        let (networks, links) = match v4 {
            true => (
                [net("10.16.0.0/12"), net("20.16.0.0/12")],
                [(net("192.0.2.1/24"), address("192.0.2.2")), (net("198.51.100.1/24"), address("198.51.100.2"))],
            ),
            false => (
                [net("2001:db8:10::/48"), net("2001:db8:20::/48")],
                [
                    (net("2001:db8:1::1/64"), address("2001:db8:1::2")),
                    (net("2001:db8:2::1/64"), address("2001:db8:2::2")),
                ],
            ),
        };
        Pair { v4, networks, links }
    }

    /// Two interfaces that each send packets of UDP to the other's network, in so many flows together.
    pub(crate) fn plain(&self, flows: u32) -> Gateway {
        let interface = |number: usize| -> Interface {
            let [from, to] = [number, 1 - number].map(|own| model::range(self.networks[own], 0xffff));
            let port = model::udp(from, to, if self.v4 { 60 } else { 78 }, flows / 2, 1 + number as u64);
            model::interface(["a", "b"][number], port, self.links[number].0)
        };
        let hops = |number: usize| RouteTarget::Via([model::hop(number as u32, self.links[number].1)].into());
        Gateway {
            interfaces: vec![interface(0), interface(1)],
            routes: (0..2).map(|number| model::route(self.networks[number], hops(number))).collect(),
            neighbors: (0..2)
                .map(|number| model::neighbor(number as u32, self.links[number].1, [2, 0, 0, 0, 1, number as u8]))
                .collect(),
            ..model::empty()
        }
    }
}
