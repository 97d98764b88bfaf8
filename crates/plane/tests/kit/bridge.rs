//! A bridge of ports, `br`.

use weir_packet::wire::MacAddress;
use weir_plane::model::{Bridge, BridgeIndex, BridgePort, BridgeStation, InterfaceKind, Origin};

use super::{Build, own_mac};

impl Build {
    /// A bridge of interfaces that were added, each perhaps with ` group N` behind its name.
    pub fn bridge(mut self, ports: &[&str]) -> Build {
        let number = self.0.bridges.len();
        let name = if number == 0 { "br".to_owned() } else { format!("br{number}") };
        let mut bridge = Bridge::new(name, Origin::default());
        for port in ports {
            let (name, group) = match port.split_once(" group ") {
                Some((name, group)) => (name, Some(group.parse().unwrap())),
                None => (*port, None),
            };
            bridge.ports.push(BridgePort { interface: self.interface(name), group, origin: Origin::default() });
        }
        self.0.bridges.push(bridge);
        self
    }

    /// Changes the bridge that was added last.
    pub fn with_bridge(mut self, change: impl FnOnce(&mut Bridge)) -> Build {
        change(self.0.bridges.last_mut().unwrap());
        self
    }

    /// A station that is configured on the bridge that was added last.
    pub fn station(mut self, mac: MacAddress, interface: &str) -> Build {
        let interface = self.interface(interface);
        let station = BridgeStation { mac, interface, origin: Origin::default() };
        self.0.bridges.last_mut().unwrap().stations.push(station);
        self
    }

    /// The gateway's own station on the bridge that was added last.
    pub fn own_station(self, name: &str, addresses: &[&str]) -> Build {
        let kind = InterfaceKind::Bridge(BridgeIndex(self.0.bridges.len() as u16 - 1));
        let mac = own_mac(self.0.interfaces.len());
        self.add_interface(name, kind, Some(mac), addresses)
    }
}
