//! Loops of bridges that the kernel's devices make: both ends of a veth pair are ports of one bridge. Frames that are flooded
//! circle without end.

use weir_plane::model::{Bridge, Gateway, InterfaceIndex, InterfaceKind, Tag};
use weir_port::links::Device;
use weir_port::spec::PortSpec;

/// A bridge whose frames circle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Looped {
    /// Name of the bridge.
    pub(crate) bridge: String,
    /// The fact, and what to do.
    pub(crate) what: String,
}

/// Returns a line for each loop of [`found`] among the devices of this host.
pub(crate) fn warnings(gateway: &Gateway) -> Vec<String> {
    found(gateway, named).into_iter().map(|Looped { bridge, what }| format!("bridge {bridge}: {what}")).collect()
}

/// Returns the device of this name, if there is one and the kernel answers.
pub(crate) fn named(name: &str) -> Option<Device> {
    Device::named(name).ok().flatten()
}

/// Returns the loops of each bridge. `device` returns devices by name.
pub(crate) fn found(gateway: &Gateway, device: impl Fn(&str) -> Option<Device>) -> Vec<Looped> {
    gateway.bridges.iter().flat_map(|bridge| of_bridge(gateway, bridge, &device)).collect()
}

/// A port of a bridge on a veth device.
struct End {
    interface: InterfaceIndex,
    group: Option<u16>,
    /// The tags of its frames.
    tags: (Option<Tag>, Option<u16>),
    device: Device,
    peer: u32,
}

fn of_bridge(gateway: &Gateway, bridge: &Bridge, device: &impl Fn(&str) -> Option<Device>) -> Vec<Looped> {
    let mut ends: Vec<End> = Vec::new();
    let mut found = Vec::new();
    let kind = |index: InterfaceIndex| gateway.interfaces.get(index.0 as usize).map(|own| &own.kind);
    for port in &bridge.ports {
        let (carrier, tags) = match kind(port.interface) {
            Some(InterfaceKind::Vlan { parent, outer, inner }) => (*parent, (Some(*outer), *inner)),
            _ => (port.interface, (None, None)),
        };
        let Some(InterfaceKind::Port { port: PortSpec::AfPacket(spec), .. }) = kind(carrier) else { continue };
        let Some(device) = device(&spec.interface) else { continue };
        let Some(peer) = device.peer else { continue };
        let end = End { interface: port.interface, group: port.group, tags, device, peer };
        // Frames that leave by one end come in by the other one, with their tags.
        let other = ends
            .iter()
            .find(|other| (other.peer, end.peer) == (end.device.index, other.device.index) && other.tags == end.tags);
        if let Some(other) = other {
            let name = |end: &End| &gateway.interfaces[end.interface.0 as usize].name;
            let effect = match end.group.is_some() && other.group == end.group {
                true => "stations move",
                false => "frames circle",
            };
            let what = format!(
                "{effect}: {} and {}, the devices of `{}` and `{}`, are the two ends of one veth pair: take one out",
                other.device.name,
                end.device.name,
                name(other),
                name(&end)
            );
            found.push(Looped { bridge: bridge.name.clone(), what });
        }
        ends.push(end);
    }
    found
}

#[cfg(test)]
mod tests {
    use weir_port::links::Layer;

    use super::*;
    use crate::config;

    /// Devices `eth0` to `eth3`: the first two are a pair, the others lead to other namespaces.
    fn device(name: &str) -> Option<Device> {
        let number: u32 = name.strip_prefix("eth")?.parse().ok()?;
        Some(Device {
            name: name.to_owned(),
            index: 10 + number,
            mac: None,
            mtu: 1500,
            up: true,
            running: true,
            layer: Layer::Ethernet,
            kind: Some("veth".to_owned()),
            tuntap: None,
            peer: [Some(11), Some(10), None, None][number as usize],
            master: None,
            addresses: Vec::new(),
        })
    }

    fn loops(ports: &str, interfaces: &[(&str, &str)]) -> Vec<String> {
        let mut text = format!("version = 1\n[bridge.lan]\ninterfaces = [{ports}]\n");
        for (name, keys) in interfaces {
            text += &format!("[[interface]]\nname = \"{name}\"\n{keys}\n");
        }
        let loaded = config::parse_str("weir.toml", &text);
        let errors = loaded.text(false);
        let gateway = loaded.gateway.unwrap_or_else(|| panic!("{errors}"));
        found(&gateway, device).into_iter().map(|own| format!("{}: {}", own.bridge, own.what)).collect()
    }

    #[test]
    fn two_ends_of_a_pair_are_a_loop() {
        let port = |name: &str| format!("port = {{ af-packet = {{ interface = \"{name}\" }} }}");
        let [eth0, eth1, eth2] = ["eth0", "eth1", "eth2"].map(port);
        let all = [("a", &*eth0), ("b", &*eth1), ("c", &*eth2)];
        let found = loops("\"a\", \"b\", \"c\"", &all);
        assert_eq!(
            found,
            [
                "lan: frames circle: eth0 and eth1, the devices of `a` and `b`, are the two ends of one veth pair: take one out"
            ]
        );
        assert!(loops("\"a\", \"c\"", &all).is_empty());
        let group = |name: &str, group: u16| format!("{{ name = \"{name}\", split-horizon = {group} }}");
        let one = loops(&format!("{}, {}", group("a", 1), group("b", 1)), &all);
        assert!(one[0].starts_with("lan: stations move: eth0 and eth1"), "{one:?}");
        assert_eq!(loops(&format!("{}, {}", group("a", 1), group("b", 2)), &all).len(), 1);
        // Frames keep their tags on the way.
        let vlan = |parent: &str, id: u16| format!("parent = \"{parent}\"\nvlan = {id}");
        let with = |id: u16| {
            let (first, second) = (vlan("a", 7), vlan("b", id));
            loops("\"x\", \"y\"", &[all[0], all[1], ("x", &first), ("y", &second)]).len()
        };
        assert_eq!((with(7), with(8)), (1, 0));
    }
}
