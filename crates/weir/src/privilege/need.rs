//! Which capabilities a gateway's ports need, and which of them the process does not have.

use std::io;

use rustix::thread::{CapabilitySet, capabilities};
use weir_plane::model::{Gateway, Interface, InterfaceKind};
use weir_port::spec::PortSpec;

use crate::doctor::Finding;

/// A capability that an interface needs and the process does not have.
#[derive(Debug, thiserror::Error)]
#[error(
    "{place}interface {interface}: {what} needs {capability}, which this process does not have

Start the gateway by its systemd unit or as root, or give the program what it needs:
  sudo setcap cap_net_raw,cap_net_admin+ep {program}"
)]
pub struct Missing {
    /// Where the interface is declared, with a colon and a space; or empty.
    place: String,
    interface: String,
    what: &'static str,
    capability: &'static str,
    program: String,
}

impl Missing {
    /// The same as a finding about the host.
    pub(crate) fn finding(&self) -> Finding {
        let what = format!("{} needs {}, which this process does not have", self.what, self.capability);
        let command = format!("sudo setcap cap_net_raw,cap_net_admin+ep {}", self.program);
        Finding::problem(format!("interface {}", self.interface), what).mended_by(command)
    }
}

/// The first thing that a gateway needs and this process does not have.
///
/// # Errors
/// When the system does not say what the process has.
pub fn missing(gateway: &Gateway) -> io::Result<Option<Missing>> {
    let has = capabilities(None)?.effective;
    let first = gateway.interfaces.iter().find_map(|interface| {
        let (what, capability, _) = needs(interface).into_iter().find(|need| !has.contains(need.2))?;
        let place = gateway.origins.place(interface.origin).map_or_else(String::new, |place| format!("{place}: "));
        let program = std::env::current_exe().map_or_else(|_| "weir".to_owned(), |path| path.display().to_string());
        Some(Missing { place, interface: interface.name.clone(), what, capability, program })
    });
    Ok(first)
}

type Need = (&'static str, &'static str, CapabilitySet);

/// Returns the needs of each part of an interface.
fn needs(interface: &Interface) -> Vec<Need> {
    let admin = |what| (what, "CAP_NET_ADMIN", CapabilitySet::NET_ADMIN);
    let mut needs = Vec::new();
    match &interface.kind {
        InterfaceKind::Port { port: PortSpec::AfPacket(_), .. } => {
            needs.push(("an af-packet port", "CAP_NET_RAW", CapabilitySet::NET_RAW));
        }
        InterfaceKind::Port { port: PortSpec::Tap(_), .. } => needs.push(admin("a tap port")),
        InterfaceKind::Port { port: PortSpec::Tun(_), .. } => needs.push(admin("a tun port")),
        InterfaceKind::Port { .. }
        | InterfaceKind::Vlan { .. }
        | InterfaceKind::Ipsec
        | InterfaceKind::Tunnel(_)
        | InterfaceKind::Bridge(_) => {}
    }
    if interface.punt.is_some() {
        needs.push(admin("a punt device"));
    }
    needs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    #[test]
    fn only_the_kernels_devices_need_anything() {
        let text = "version = 1
            [[interface]]
            name = 'a'
            port = 'null'
            [[interface]]
            name = 'b'
            port = { af-packet = 'eth0' }
            punt = 'host'
            [[interface]]
            name = 'c'
            port = { tap = 'tap0' }
            [[interface]]
            name = 'd'
            port = { tun = 'tun0' }
            [[interface]]
            name = 'e'
            parent = 'b'
            vlan = 7
            punt = 'host7'";
        let gateway = config::parse_str("test.toml", text).gateway.expect("no errors");
        let names = |interface: &Interface| needs(interface).iter().map(|need| need.1).collect::<Vec<_>>();
        let all: Vec<_> = gateway.interfaces.iter().map(names).collect();
        let (raw, admin) = ("CAP_NET_RAW", "CAP_NET_ADMIN");
        // A VLAN stands behind its parent.
        assert_eq!(all, [vec![], vec![raw, admin], vec![admin], vec![admin], vec![admin]]);
    }
}
