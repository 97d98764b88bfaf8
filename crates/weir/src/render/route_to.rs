//! `show routes ADDRESS`: the route that an address takes, and its candidates.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use weir_plane::stats::RouteTo;

use super::Report;
use super::routes::{COLUMNS, lines};
use super::table::{Align, Table};

/// The routes of an address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoutesTo {
    /// The address.
    pub address: IpAddr,
    /// The drop reason of addresses that no packet is routed to, whatever route covers them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unrouted: Option<String>,
    /// Its route in each VRF, in the order of the configuration.
    pub vrfs: Vec<RouteTo>,
}

/// The filter of the routes of an address.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Filter {
    /// Only this VRF's.
    #[serde(default)]
    pub vrf: Option<String>,
}

impl Report for RoutesTo {
    const SCHEMA: &'static str = "weir.show.routes.address/1";

    /// For each VRF the route in force, then its candidates; a VRF without a route has a line that says so.
    fn text(&self) -> String {
        let [kind, path, mac, weight, share, declared] = COLUMNS;
        let left = |name| (name, Align::Left);
        let mut table =
            Table::new(&[left("VRF"), left("Prefix"), left("State"), kind, path, mac, weight, share, declared]);
        for RouteTo { vrf, route, candidates } in &self.vrfs {
            if route.is_none() {
                let none = String::new;
                table.row([vrf.clone(), none(), "no route".into(), none(), none(), none(), none(), none(), none()]);
            }
            let in_force = route.iter().map(|route| ("in force", route));
            for (state, route) in in_force.chain(candidates.iter().map(|route| ("candidate", route))) {
                for [kind, path, mac, weight, share, declared] in lines(route) {
                    let (vrf, prefix) = (vrf.clone(), route.prefix.clone());
                    table.row([vrf, prefix, state.into(), kind, path, mac, weight, share, declared]);
                }
            }
        }
        match &self.unrouted {
            Some(reason) => format!("no packet is routed to {}: {reason}\n{}", self.address, table.text()),
            None => table.text(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{json, read, sample};
    use super::*;

    #[test]
    fn the_route_in_force_stands_before_its_candidates() {
        let routes = sample::routes_to(None);
        assert_eq!(
            routes.text(),
            "\
VRF      Prefix     State      Kind       Path                   MAC                Weight   Share  Declared
default  0.0.0.0/0  in force   via        198.51.100.254 on wan  02:00:00:00:00:fe       3  75.0 %  edge.toml:20
default  0.0.0.0/0  in force   via        192.0.2.254 on lan     -                       1  25.0 %  edge.toml:20
default  0.0.0.0/0  candidate  blackhole  -                      -                       -       -  kernel bgp, metric 20
blue     -          no route   -          -                      -                       -       -  -
"
        );
        assert_eq!(read::<RoutesTo>(&json(&routes)).unwrap(), routes);
        assert!(!json(&routes).contains("unrouted"));
    }

    #[test]
    fn addresses_that_no_packet_is_routed_to_say_so() {
        let address = "224.0.0.5".parse().unwrap();
        let routes = RoutesTo { address, unrouted: Some("multicast".into()), ..sample::routes_to(Some("blue")) };
        assert_eq!(
            routes.text(),
            "\
no packet is routed to 224.0.0.5: multicast
VRF   Prefix  State     Kind  Path  MAC  Weight  Share  Declared
blue  -       no route  -     -     -         -      -  -
"
        );
        assert_eq!(read::<RoutesTo>(&json(&routes)).unwrap(), routes);
    }
}
