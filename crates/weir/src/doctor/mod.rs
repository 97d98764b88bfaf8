//! `weir doctor`: what on this host is in the way of a gateway, each with the command that mends it.
//!
//! Facts are read first and judged afterwards, by functions without access to the system: each judgement has a test.

mod device;
mod finding;
mod host;
mod keys;
mod state;
mod text;

pub use finding::{Finding, Level};

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use weir_plane::model::{Gateway, InterfaceKind};
use weir_port::links::Device;
use weir_port::spec::PortSpec;

use crate::bystander;
use crate::config::Service;
use crate::looped;
use crate::privilege::{self, Account};
use crate::render::Report;
use device::{Facts, Wanted};
use host::Host;

/// The findings about this host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnosis {
    /// The findings, of the host first, then of each interface.
    pub findings: Vec<Finding>,
}

impl Diagnosis {
    /// The number of findings of a level.
    #[must_use]
    pub fn count(&self, level: Level) -> usize {
        self.findings.iter().filter(|finding| finding.level == level).count()
    }
}

impl Report for Diagnosis {
    const SCHEMA: &'static str = "weir.doctor/1";

    fn text(&self) -> String {
        text::of(&self.findings)
    }
}

/// Examines the host; for a gateway, with its key files, if there is one.
#[must_use]
pub fn examine(gateway: Option<(&Gateway, &Service, &[PathBuf])>) -> Diagnosis {
    let mut findings = host::judge(&Host::read(Path::new("/")), gateway.map(|(gateway, ..)| gateway));
    if let Some((gateway, service, files)) = gateway {
        findings.extend(privileges(gateway));
        findings.extend(account(service));
        let owner = state::Owner::of(Account::of(service).ok().flatten().as_ref());
        findings.extend(sequence_numbers(gateway, owner));
        findings.extend(keys::judge(files, owner));
        findings.extend(forwarding(gateway, Path::new(bystander::SETTINGS)));
        findings.extend(devices(gateway));
        let loops = looped::found(gateway, looped::named).into_iter();
        findings.extend(loops.map(|own| Finding::problem(format!("bridge {}", own.bridge), own.what)));
    }
    Diagnosis { findings }
}

/// Capabilities that the process lacks.
fn privileges(gateway: &Gateway) -> Vec<Finding> {
    match privilege::missing(gateway) {
        Ok(None) => vec![],
        Ok(Some(missing)) => vec![missing.finding()],
        Err(error) => {
            vec![Finding::problem("privileges", format!("the capabilities of this process are unknown: {error}"))]
        }
    }
}

/// The user that a gateway started by root becomes.
fn account(service: &Service) -> Vec<Finding> {
    let finding = match Account::of(service) {
        Ok(Some(_)) => return vec![],
        Ok(None) => Finding::advice(
            "user",
            "there is no user `weir`: a gateway started by root stays root, without capabilities",
        )
        .mended_by(r#"systemd-sysusers --inline 'u weir - "weir packet gateway" /var/lib/weir'"#),
        Err(error) => Finding::problem("user", error.to_string()),
    };
    vec![finding]
}

/// The directory in which the gateway reserves the sequence numbers of its SAs, if some SA sends.
fn sequence_numbers(gateway: &Gateway, owner: state::Owner) -> Option<Finding> {
    let keys: Vec<_> = gateway.sas.iter().filter_map(|sa| Some(sa.outbound.as_ref()?.stream())).collect();
    let folder = gateway.ipsec.state.as_deref().filter(|_| !keys.is_empty())?;
    Some(state::judge(folder, owner, &keys))
}

/// The kernel as a second forwarder and receiver.
fn forwarding(gateway: &Gateway, settings: &Path) -> Vec<Finding> {
    let beside = |interface: &weir_plane::model::Interface| match &interface.kind {
        InterfaceKind::Port { port: PortSpec::AfPacket(spec), .. } => !spec.shared,
        _ => false,
    };
    let mut findings = Vec::new();
    if gateway.interfaces.iter().filter(|interface| beside(interface)).count() > 1 {
        for (family, file, key) in [
            ("IPv4", "ipv4/ip_forward", "net.ipv4.ip_forward"),
            ("IPv6", "ipv6/conf/all/forwarding", "net.ipv6.conf.all.forwarding"),
        ] {
            let is_on = std::fs::read_to_string(settings.join(file)).is_ok_and(|text| text.trim() == "1");
            if is_on {
                let what = format!("the kernel forwards {family} too: packets between af-packet ports may leave twice");
                findings.push(Finding::problem("forwarding", what).mended_by(format!("sysctl -w {key}=0")));
            }
        }
    }
    findings.extend(
        bystander::found(gateway, settings)
            .into_iter()
            .map(|own| Finding::problem(format!("interface {}", own.interface), own.what).mended_by(own.command)),
    );
    findings
}

/// The devices of ports.
fn devices(gateway: &Gateway) -> Vec<Finding> {
    let mut findings = Vec::new();
    for interface in &gateway.interfaces {
        let InterfaceKind::Port { port, queues, .. } = &interface.kind else { continue };
        let (name, kind) = match port {
            PortSpec::AfPacket(spec) => {
                let kind = device::Kind::AfPacket { offload: spec.offload, shared: spec.shared };
                (&spec.interface, kind)
            }
            PortSpec::Tap(spec) => (&spec.name, device::Kind::Tuntap { tap: true }),
            PortSpec::Tun(spec) => (&spec.name, device::Kind::Tuntap { tap: false }),
            _ => continue,
        };
        let wanted = Wanted { interface: &interface.name, device: name, kind, mtu: interface.mtu, queues: *queues };
        match Device::named(name) {
            Ok(found) => {
                let merging = found.as_ref().and_then(Device::merging);
                let holder = weir_port::holder(name);
                findings.extend(device::judge(&wanted, &Facts { device: found, merging, holder }));
            }
            Err(error) => findings.push(Finding::problem(format!("interface {}", interface.name), error.to_string())),
        }
    }
    findings
}
