//! The kernel as a second receiver: it gets each packet of an `af-packet` port, too. Where the gateway's addresses are those of
//! punt devices, the kernel takes packets to them from any device, past all policies of the gateway.

use std::fs;
use std::path::Path;

use weir_plane::model::{Gateway, InterfaceKind};
use weir_port::spec::PortSpec;

/// The kernel's settings.
pub(crate) const SETTINGS: &str = "/proc/sys/net";

/// An interface whose packets the kernel takes beside the gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Beside {
    /// Name of the interface.
    pub(crate) interface: String,
    /// The fact.
    pub(crate) what: String,
    /// The command that stops it.
    pub(crate) command: String,
}

/// Returns a line for each interface of [`found`].
pub(crate) fn warnings(gateway: &Gateway, settings: &Path) -> Vec<String> {
    let line = |Beside { interface, what, command }| format!("interface {interface}: {what}: run `{command}`");
    found(gateway, settings).into_iter().map(line).collect()
}

/// Returns each interface whose packets the kernel takes beside the gateway.
pub(crate) fn found(gateway: &Gateway, settings: &Path) -> Vec<Beside> {
    // Without punt devices, the gateway's addresses are none of the kernel's.
    if gateway.interfaces.iter().all(|interface| interface.punt.is_none()) {
        return Vec::new();
    }
    let number = |path: &str| fs::read_to_string(settings.join(path)).ok()?.trim().parse::<u32>().ok();
    let line = |interface: &weir_plane::model::Interface| {
        let InterfaceKind::Port { port: PortSpec::AfPacket(spec), .. } = &interface.kind else { return None };
        if spec.shared {
            return None;
        }
        let device = &spec.interface;
        let filter = |name: &str| number(&format!("ipv4/conf/{name}/rp_filter"));
        // No such file: there is no such device, which the port says. The greater of both counts; with 2, any way back will do.
        let is_strict = filter(device).is_none_or(|own| own.max(filter("all").unwrap_or(0)) == 1);
        // No such file: the kernel has no IPv6.
        let is_off = number(&format!("ipv6/conf/{device}/disable_ipv6")).is_none_or(|value| value == 1);
        let wanted = [
            (!is_strict).then(|| format!("net.ipv4.conf.{device}.rp_filter=1")),
            (!is_off).then(|| format!("net.ipv6.conf.{device}.disable_ipv6=1")),
        ];
        let wanted: Vec<String> = wanted.into_iter().flatten().collect();
        (!wanted.is_empty()).then(|| Beside {
            interface: interface.name.clone(),
            what: format!("the kernel takes packets to the gateway's addresses from {device}, too, past all policies"),
            command: format!("sysctl -w {}", wanted.join(" ")),
        })
    };
    gateway.interfaces.iter().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    #[test]
    fn each_setting_has_its_command_until_it_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let text = |punt: &str, shared: bool| {
            format!(
                "version = 1\n[[interface]]\nname = \"wan\"\naddress = \"198.51.100.1/24\"\n{punt}\n\
                 port = {{ af-packet = {{ interface = \"eth0\", shared = {shared} }} }}\n"
            )
        };
        let lines = |punt: &str, shared: bool| {
            let gateway = config::parse_str("weir.toml", &text(punt, shared)).gateway.unwrap();
            warnings(&gateway, folder.path())
        };
        const PUNT: &str = "punt = \"host\"";
        write("ipv4/conf/all/rp_filter", "0\n");
        write("ipv4/conf/eth0/rp_filter", "2\n");
        write("ipv6/conf/eth0/disable_ipv6", "0\n");
        assert_eq!(
            lines(PUNT, false),
            [
                "interface wan: the kernel takes packets to the gateway's addresses from eth0, too, past all policies: run \
              `sysctl -w net.ipv4.conf.eth0.rp_filter=1 net.ipv6.conf.eth0.disable_ipv6=1`"
            ]
        );
        assert!(lines("", false).is_empty() && lines(PUNT, true).is_empty());
        write("ipv4/conf/eth0/rp_filter", "1\n");
        let [line] = &lines(PUNT, false)[..] else { panic!() };
        assert!(line.ends_with("`sysctl -w net.ipv6.conf.eth0.disable_ipv6=1`"));
        write("ipv6/conf/eth0/disable_ipv6", "1\n");
        assert!(lines(PUNT, false).is_empty());
        write("ipv4/conf/all/rp_filter", "2\n");
        assert_eq!(lines(PUNT, false).len(), 1, "the greater one counts");
    }
}
