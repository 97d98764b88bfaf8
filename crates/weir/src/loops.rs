//! Loops of bridges that the host's devices show: both ends of one pair of virtual devices as ports of a bridge.

use std::fs;
use std::path::Path;

use weir_plane::model::{Bridge, Gateway, InterfaceKind};
use weir_port::spec::PortSpec;

/// The kernel's devices.
pub(crate) const DEVICES: &str = "/sys/class/net";

/// Two ports of a bridge between which frames circle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Loop {
    /// Names of the interfaces.
    pub(crate) ports: [String; 2],
    /// The fact.
    pub(crate) what: String,
}

/// Finds the loops of all bridges. Ports of one split-horizon group send each other nothing.
pub(crate) fn found(gateway: &Gateway, devices: &Path) -> Vec<Loop> {
    gateway.bridges.iter().flat_map(|bridge| of_bridge(gateway, bridge, devices)).collect()
}

fn of_bridge(gateway: &Gateway, bridge: &Bridge, devices: &Path) -> Vec<Loop> {
    let number = |device: &str, file: &str| -> Option<u32> {
        fs::read_to_string(devices.join(device).join(file)).ok()?.trim().parse().ok()
    };
    let ends: Vec<_> = bridge
        .ports
        .iter()
        .filter_map(|port| {
            let interface = gateway.interfaces.get(port.interface.0 as usize)?;
            let InterfaceKind::Port { port: PortSpec::AfPacket(spec), .. } = &interface.kind else { return None };
            let device = &spec.interface;
            // The number of the other end is its own namespace's: each has to name the other.
            Some((&interface.name, port.group, device, number(device, "ifindex")?, number(device, "iflink")?))
        })
        .collect();
    let mut loops = Vec::new();
    for (at, (one, group, device, index, link)) in ends.iter().enumerate() {
        for (other, other_group, other_device, other_index, other_link) in &ends[at + 1..] {
            let is_pair = index != link && (index, link) == (other_link, other_index);
            if is_pair && (group.is_none() || group != other_group) {
                let what = format!(
                    "{device} and {other_device} are the ends of one pair, and `{one}` and `{other}` ports of the bridge \
                     `{}`: frames circle; take one out",
                    bridge.name
                );
                loops.push(Loop { ports: [(*one).clone(), (*other).clone()], what });
            }
        }
    }
    loops
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_a_pair_are_a_loop() {
        let folder = tempfile::tempdir().unwrap();
        let device = |name: &str, index: u32, link: u32| {
            let own = folder.path().join(name);
            fs::create_dir_all(&own).unwrap();
            fs::write(own.join("ifindex"), format!("{index}\n")).unwrap();
            fs::write(own.join("iflink"), format!("{link}\n")).unwrap();
        };
        let found = |ports: &str| {
            let interface = |name: &str| {
                format!("[[interface]]\nname = \"{name}\"\nport = {{ af-packet = {{ interface = \"v{name}\" }} }}\n")
            };
            let names: String = ["a", "b", "c"].map(interface).concat();
            let text = format!("version = 1\n{names}[bridge.lan]\ninterfaces = {ports}\n");
            let loaded = crate::config::parse_str("test.toml", &text);
            let findings = loaded.text(false);
            let gateway = loaded.gateway.unwrap_or_else(|| panic!("{findings}"));
            found(&gateway, folder.path()).into_iter().map(|own| own.ports.concat()).collect::<Vec<_>>()
        };
        device("va", 4, 5);
        device("vb", 5, 4);
        // The other end of this one has the number of `va` in a namespace of its own.
        device("vc", 9, 4);
        assert_eq!(found("[\"a\", \"b\", \"c\"]"), ["ab"]);
        assert!(found("[\"a\", \"c\"]").is_empty());
        let horizon = "[{ name = \"a\", split-horizon = 1 }, { name = \"b\", split-horizon = 1 }]";
        assert!(found(horizon).is_empty());
        // A device that is not there, and one that is no pair.
        device("vb", 5, 5);
        assert!(found("[\"a\", \"b\"]").is_empty());
        fs::remove_dir_all(folder.path().join("va")).unwrap();
        assert!(found("[\"a\", \"b\"]").is_empty());
    }
}
