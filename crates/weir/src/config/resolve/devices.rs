//! The kernel's devices that ports and punts use, and the addresses the kernel gets by them.

use std::collections::HashMap;
use std::net::IpAddr;

use weir_port::spec::{PortSpec, TapSpec};

use super::super::declare::{HostAddress, Interface, Kind, Uses};
use super::super::diagnostic::{Code, Diagnostic};
use super::super::source::Span;
use super::Resolver;
use super::addresses::is_link_local;

impl<'a> Resolver<'a> {
    /// Refuses devices that are used twice, and addresses that the kernel would have twice or share with the gateway.
    pub(super) fn devices(&mut self) {
        let declared = self.declared;
        let mut first: HashMap<&str, Span> = HashMap::new();
        let mut host: HashMap<IpAddr, Span> = HashMap::new();
        for interface in &declared.interfaces {
            if let Some(Kind::Port { uses, .. }) = &interface.kind {
                self.device(uses, &mut first);
                self.far_end(interface, &uses.host);
                self.host(uses.host.iter().map(|address| (address.net.addr(), address.span)), &mut host);
            }
            if let Some(punt) = &interface.punt {
                self.device(&punt.uses, &mut first);
                let own = interface.addresses.iter().map(|address| (address.value.addr(), address.span));
                let given = punt.uses.host.iter().map(|address| (address.net.addr(), address.span));
                if punt.uses.states_addresses { self.host(given, &mut host) } else { self.host(own, &mut host) }
            }
        }
    }

    fn device(&mut self, uses: &'a Uses, first: &mut HashMap<&'a str, Span>) {
        let Some(device) = &uses.device else { return };
        if let Some(&first) = first.get(device.name.as_str()) {
            let message = format!("the device `{}` is used twice", device.name);
            let found = Diagnostic::error(Code::DeviceConflict, device.span, message);
            self.report(found.related(first, "first here"));
        } else {
            first.insert(&device.name, device.span);
        }
    }

    /// The kernel is a neighbour on a tap or tun: it cannot have the interface's own address.
    fn far_end(&mut self, interface: &Interface, host: &[HostAddress]) {
        for HostAddress { net, span } in host {
            let own = interface.addresses.iter().find(|own| own.value.addr() == net.addr());
            if let Some(own) = own {
                let message = format!("both ends of `{}` would have the address {}", interface.name.value, net.addr());
                let found = Diagnostic::error(Code::DuplicateAddress, *span, message);
                self.report(found.related(own.span, "the gateway's end").help("here stands the kernel's address"));
            }
        }
    }

    fn host(&mut self, addresses: impl Iterator<Item = (IpAddr, Span)>, first: &mut HashMap<IpAddr, Span>) {
        for (address, span) in addresses {
            if is_link_local(address) {
                continue;
            }
            if let Some(&first) = first.get(&address) {
                let message = format!("the kernel would have the address {address} twice");
                let found = Diagnostic::error(Code::DuplicateAddress, span, message);
                self.report(found.related(first, "first here"));
            } else {
                first.insert(address, span);
            }
        }
    }

    /// The device an interface punts to, as the model has it: with the interface's addresses where it states none.
    pub(super) fn punt(&self, interface: &Interface) -> Option<TapSpec> {
        let punt = interface.punt.as_ref()?;
        let mut spec = punt.spec.clone();
        if !punt.uses.states_addresses {
            spec.addresses = interface.addresses.iter().map(|address| address.value).collect();
        }
        Some(spec)
    }

    /// Refuses what makes no sense on an interface without a link layer: a hardware address.
    pub(super) fn without_link_layer(&mut self, interface: &Interface) {
        if let (Some(Kind::Port { port: Some(PortSpec::Tun(_)), .. }), Some(mac)) = (&interface.kind, &interface.mac) {
            let message = format!("`{}` is a tun device, which has no link layer", interface.name.value);
            let found = Diagnostic::error(Code::ConflictingKeys, mac.span, message);
            self.report(found.help("leave `mac` out, or make it a `tap`"));
        }
    }
}
