//! The kernel device of a port.

use ipnet::IpNet;
use weir_port::Holder;
use weir_port::links::{Device, Layer, Merging};

use super::Finding;

/// The device that a port needs.
pub(super) struct Wanted<'a> {
    /// Name of the interface.
    pub interface: &'a str,
    /// The kernel's name of the device.
    pub device: &'a str,
    /// Kind of the port.
    pub kind: Kind,
    /// MTU of the interface, in octets.
    pub mtu: u32,
    /// Receive queues.
    pub queues: u16,
}

/// Kind of a port.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    /// `af-packet`.
    AfPacket {
        /// The port takes super-packets.
        offload: bool,
        /// The kernel may have addresses.
        shared: bool,
    },
    /// `tap` or `tun`.
    Tuntap {
        /// `tap`.
        tap: bool,
    },
}

/// The device as it is.
pub(super) struct Facts {
    /// `None`: it does not exist.
    pub device: Option<Device>,
    /// Merging of packets that it receives; `None`: not known.
    pub merging: Option<Merging>,
    /// The gateway that uses it.
    pub holder: Option<Holder>,
}

/// Returns the findings about a device.
pub(super) fn judge(wanted: &Wanted<'_>, facts: &Facts) -> Vec<Finding> {
    let subject = format!("interface {}", wanted.interface);
    let problem = |what: String| Finding::problem(subject.clone(), what);
    let name = wanted.device;
    let mut findings = Vec::new();
    if let Some(holder) = &facts.holder {
        let what = format!("a gateway uses {name} already ({holder}), and a second one would not start");
        findings.push(Finding::advice(subject.clone(), what));
    }
    let Some(device) = &facts.device else {
        if matches!(wanted.kind, Kind::AfPacket { .. }) {
            let what = format!("there is no network device {name} in this network namespace");
            findings.push(problem(what).mended_by("ip -brief link"));
        }
        return concluded(findings, &subject, wanted, None);
    };
    match wanted.kind {
        Kind::AfPacket { offload, shared } => {
            if device.layer != Layer::Ethernet {
                findings.push(problem(format!("{name} carries no Ethernet frames ({})", device.layer)));
            }
            let addresses: Vec<&IpNet> = device.addresses.iter().filter(|own| is_of_host(own)).collect();
            if !shared && !addresses.is_empty() {
                let list = addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
                let what = format!("the kernel has addresses on {name} ({list}) and would receive the same packets");
                findings.push(problem(what).mended_by(format!("ip address flush dev {name} scope global")));
            }
            if let (Some(index), false) = (device.master, shared) {
                let what = format!(
                    "{name} is a port of a bridge or bond of the kernel (device {index}), which takes the same packets"
                );
                findings.push(problem(what).mended_by(format!("ip link set dev {name} nomaster")));
            }
            if device.mtu < wanted.mtu {
                let what = format!("the MTU of {name} is {}, less than the interface's {}", device.mtu, wanted.mtu);
                findings.push(problem(what).mended_by(format!("ip link set dev {name} mtu {}", wanted.mtu)));
            }
            if let Some(Merging { gro, lro }) = facts.merging.filter(|own| !offload && (own.gro || own.lro)) {
                let by: Vec<&str> = [(gro, "gro"), (lro, "lro")].iter().filter(|own| own.0).map(|own| own.1).collect();
                let what = format!(
                    "{name} merges received packets ({}); a port without `offload` loses merged packets",
                    by.join(", ")
                );
                let off = by.iter().map(|by| format!(" {by} off")).collect::<String>();
                findings.push(problem(what).mended_by(format!("ethtool -K {name}{off}")));
            }
            if !device.up {
                findings.push(problem(format!("{name} is down")).mended_by(format!("ip link set dev {name} up")));
            } else if !device.running {
                findings.push(problem(format!("{name} has no carrier: its cable or its peer is down")));
            }
        }
        Kind::Tuntap { tap } => {
            let mode = if tap { "tap" } else { "tun" };
            match device.tuntap {
                Some(found) if found.tap == tap => {
                    if wanted.queues > 1 && !found.multi_queue {
                        let what = format!("{name} has one queue, and the port needs {}", wanted.queues);
                        findings.push(problem(what).mended_by(format!("ip tuntap delete dev {name} mode {mode}")));
                    }
                }
                _ => findings.push(problem(format!("a device {name} exists and is no {mode}"))),
            }
        }
    }
    concluded(findings, &subject, wanted, Some(device))
}

/// Adds that all is well, where it is.
fn concluded(mut findings: Vec<Finding>, subject: &str, wanted: &Wanted<'_>, device: Option<&Device>) -> Vec<Finding> {
    if findings.is_empty() {
        findings.push(Finding::fine(
            subject,
            match device {
                Some(device) => format!("{} is ready, MTU {}", wanted.device, device.mtu),
                None => format!("{} will be created", wanted.device),
            },
        ));
    }
    findings
}

/// The kernel answers for every address but link-local ones of IPv6.
fn is_of_host(address: &IpNet) -> bool {
    !matches!(address, IpNet::V6(own) if own.addr().is_unicast_link_local())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Level;
    use weir_port::links::Tuntap;

    const WANTED: Wanted<'_> = Wanted {
        interface: "lan",
        device: "eth1",
        kind: Kind::AfPacket { offload: false, shared: false },
        mtu: 1500,
        queues: 1,
    };

    fn device() -> Device {
        Device {
            name: "eth1".into(),
            index: 3,
            mac: Some([2, 0, 0, 0, 0, 1]),
            mtu: 1500,
            up: true,
            running: true,
            layer: Layer::Ethernet,
            kind: None,
            tuntap: None,
            peer: None,
            master: None,
            addresses: vec!["fe80::1/64".parse().unwrap()],
        }
    }

    fn facts(device: Device) -> Facts {
        Facts { device: Some(device), merging: Some(Merging { gro: false, lro: false }), holder: None }
    }

    fn commands(wanted: &Wanted<'_>, facts: &Facts) -> Vec<String> {
        let findings = judge(wanted, facts);
        assert!(findings.iter().all(|finding| finding.level == Level::Problem), "{findings:?}");
        findings.into_iter().map(|finding| finding.command.unwrap_or(finding.what)).collect()
    }

    #[test]
    fn a_port_of_a_bridge_of_the_kernel_is_a_problem() {
        let enslaved = || facts(Device { master: Some(7), ..device() });
        assert_eq!(commands(&WANTED, &enslaved()), ["ip link set dev eth1 nomaster"]);
        let shared = Wanted { kind: Kind::AfPacket { offload: false, shared: true }, ..WANTED };
        assert!(judge(&shared, &enslaved()).iter().all(|finding| finding.level != Level::Problem));
    }

    #[test]
    fn a_good_device_is_fine() {
        let [finding] = &judge(&WANTED, &facts(device()))[..] else { panic!() };
        assert_eq!((finding.level, &*finding.what), (Level::Fine, "eth1 is ready, MTU 1500"));
    }

    #[test]
    fn each_fault_has_its_command() {
        let missing = Facts { device: None, merging: None, holder: None };
        assert_eq!(commands(&WANTED, &missing), ["ip -brief link"]);
        let bad = Device {
            mtu: 1400,
            up: false,
            running: false,
            addresses: vec!["192.0.2.1/24".parse().unwrap(), "fe80::1/64".parse().unwrap()],
            ..device()
        };
        let bad = Facts { merging: Some(Merging { gro: true, lro: true }), ..facts(bad) };
        assert_eq!(
            commands(&WANTED, &bad),
            [
                "ip address flush dev eth1 scope global",
                "ip link set dev eth1 mtu 1500",
                "ethtool -K eth1 gro off lro off",
                "ip link set dev eth1 up"
            ]
        );
        let offload = Wanted { kind: Kind::AfPacket { offload: true, shared: true }, ..WANTED };
        assert_eq!(commands(&offload, &bad).len(), 2, "addresses and merging are wanted");
        let unplugged = Device { running: false, ..device() };
        assert_eq!(commands(&WANTED, &facts(unplugged)), ["eth1 has no carrier: its cable or its peer is down"]);
        let held = Facts { holder: Some(Holder { process: 7, program: "weir".into() }), ..facts(device()) };
        let [finding] = &judge(&WANTED, &held)[..] else { panic!() };
        assert_eq!(finding.level, Level::Advice);
        assert!(finding.what.starts_with("a gateway uses eth1 already (process 7, weir)"));
        let tunnel = Device { layer: Layer::None, ..device() };
        assert_eq!(commands(&WANTED, &facts(tunnel)), ["eth1 carries no Ethernet frames (no link layer)"]);
    }

    #[test]
    fn a_tap_may_be_missing_and_must_be_one() {
        let tap = Wanted { kind: Kind::Tuntap { tap: true }, queues: 2, ..WANTED };
        let missing = Facts { device: None, merging: None, holder: None };
        assert_eq!(judge(&tap, &missing)[0].what, "eth1 will be created");
        assert_eq!(commands(&tap, &facts(device())), ["a device eth1 exists and is no tap"]);
        let with = |multi_queue| {
            facts(Device { tuntap: Some(Tuntap { tap: true, multi_queue, ..Tuntap::default() }), ..device() })
        };
        assert_eq!(commands(&tap, &with(false)), ["ip tuntap delete dev eth1 mode tap"]);
        assert_eq!(judge(&tap, &with(true))[0].level, Level::Fine);
    }
}
