//! The MTUs and addresses that the host gives punt devices and that their interfaces take over: beside those of the
//! file, until the host takes them away.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use weir_plane::model::{Address, Gateway, Interface, InterfaceKind};
use weir_port::HostSide;

use crate::config::live::fit_tunnels;
use crate::config::value::edge;
use crate::render::interfaces::FromHost;

/// Addresses of an interface that the host gives, at most.
const MOST: usize = 64;
/// The least MTU of an interface, and of one with addresses of IPv6 (RFC 8200, 5).
const LEAST: u32 = 68;
const LEAST_V6: u32 = 1280;

/// The MTU and the addresses that the host gives the punt device of an interface.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Given {
    mtu: Option<u32>,
    addresses: Vec<IpNet>,
}

/// The MTUs and addresses that hosts give punt devices, and the ones of them that interfaces have.
#[derive(Debug, Clone, Default)]
pub(crate) struct Host {
    /// By interface. Some of it may not be taken.
    given: BTreeMap<String, Given>,
    taken: BTreeMap<String, Given>,
    /// The devices whose addresses interfaces have.
    devices: BTreeSet<String>,
    /// The MTUs of the file, of interfaces that have others.
    mtus: BTreeMap<String, u32>,
}

impl Host {
    /// Returns whether the host has given punt devices something else since. `sides` are those of the devices now.
    pub(crate) fn is_behind(&self, model: &Gateway, sides: Vec<(String, Option<HostSide>)>) -> bool {
        self.look(model, sides) != self.given
    }

    /// Returns whether the host gives nothing that interfaces could have.
    pub(crate) fn is_empty(&self) -> bool {
        self.given.is_empty()
    }

    /// Puts into the model in force what the host gives now, in place of what it gave before. Returns it, and what is not taken.
    pub(crate) fn next(&self, gateway: &mut Gateway, sides: Vec<(String, Option<HostSide>)>) -> (Host, Vec<String>) {
        let mut next = Host { given: self.look(gateway, sides), ..Host::default() };
        self.take_out(gateway);
        let refused = next.put_into(gateway);
        (next, refused)
    }

    /// Takes note of what the host gives, of which nothing more is taken.
    pub(crate) fn note(&mut self, next: Host) {
        self.given = next.given;
    }

    /// Returns the interfaces that have something else next, with what they have.
    pub(crate) fn differences(&self, next: &Host) -> Vec<(String, FromHost)> {
        let names: BTreeSet<&String> = self.taken.keys().chain(next.taken.keys()).collect();
        let differing = names.into_iter().filter(|name| self.taken.get(*name) != next.taken.get(*name));
        differing.map(|name| (name.clone(), next.taken.get(name).map(shown).unwrap_or_default())).collect()
    }

    /// Returns what the host gives now, by the model in force. A device that is missing keeps what it had.
    fn look(&self, model: &Gateway, sides: Vec<(String, Option<HostSide>)>) -> BTreeMap<String, Given> {
        let given = |(name, side): (String, Option<HostSide>)| {
            let interface = model.interfaces.iter().find(|own| own.name == name)?;
            let (follow, punt) = (interface.follow, interface.punt.as_ref()?);
            let Some(side) = side else { return self.given.get(&name).map(|given| (name.clone(), given.clone())) };
            let of_file = self.mtus.get(&name).copied().unwrap_or(interface.mtu);
            let mtu = Some(side.mtu).filter(|&mtu| follow.mtu && mtu < of_file);
            let is_new = |net: &&IpNet| !punt.addresses.contains(net) && !is_automatic(net.addr());
            let mut addresses: Vec<IpNet> = side.addresses.iter().filter(is_new).copied().collect();
            if !follow.addresses {
                addresses.clear();
            }
            addresses.sort_unstable();
            let given = Given { mtu, addresses };
            (given != Given::default()).then_some((name, given))
        };
        sides.into_iter().filter_map(given).collect()
    }

    /// Takes what interfaces have of it out of a model.
    fn take_out(&self, gateway: &mut Gateway) {
        for interface in &mut gateway.interfaces {
            if let Some(mtu) = self.mtus.get(&interface.name) {
                interface.mtu = *mtu;
            }
            if let Some(taken) = self.taken.get(&interface.name) {
                interface.addresses.retain(|address| !taken.addresses.contains(&address.net));
            }
        }
    }

    /// Puts it into a model of the file. Returns what is not taken, and why.
    pub(crate) fn put_into(&mut self, gateway: &mut Gateway) -> Vec<String> {
        let mut refused = Vec::new();
        (self.taken, self.mtus, self.devices) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        for (name, given) in &self.given {
            let Some(at) = gateway.interfaces.iter().position(|own| own.name == *name) else { continue };
            let follow = gateway.interfaces[at].follow;
            let device = gateway.interfaces[at].punt.as_ref().map_or_else(String::new, |punt| punt.name.clone());
            let mut taken = Given::default();
            for &net in given.addresses.iter().filter(|_| follow.addresses) {
                match refusal(gateway, at, net) {
                    None if taken.addresses.len() == MOST => {
                        refused.push(format!("interface {name}: {net} of {device}: {MOST} are the most"));
                    }
                    None => {
                        let source = gateway.origins.put_source(format!("host {device}").into(), "".into());
                        let origin = gateway.origins.put_line(source, 1, 0);
                        gateway.interfaces[at].addresses.push(Address { net, origin });
                        taken.addresses.push(net);
                        self.devices.insert(device.clone());
                    }
                    Some(why) => refused.push(format!("interface {name}: {net} of {device}: {why}")),
                }
            }
            let interface = &mut gateway.interfaces[at];
            if let Some(mtu) = given.mtu.filter(|&mtu| follow.mtu && mtu < interface.mtu) {
                let least =
                    if interface.addresses.iter().any(|own| own.net.addr().is_ipv6()) { LEAST_V6 } else { LEAST };
                if mtu < least {
                    refused.push(format!("interface {name}: the MTU {mtu} of {device}: {least} is the least"));
                } else {
                    self.mtus.insert(name.clone(), std::mem::replace(&mut interface.mtu, mtu));
                    taken.mtu = Some(mtu);
                }
            }
            self.taken.insert(name.clone(), taken);
        }
        self.taken.retain(|_, taken| *taken != Given::default());
        self.lower_vlans(gateway);
        if !self.mtus.is_empty() {
            fit_tunnels(gateway);
        }
        refused
    }

    /// A VLAN has no larger packets than the interface that it is on.
    fn lower_vlans(&mut self, gateway: &mut Gateway) {
        for at in 0..gateway.interfaces.len() {
            let InterfaceKind::Vlan { parent, .. } = gateway.interfaces[at].kind else { continue };
            let most = gateway.interfaces[parent.0 as usize].mtu;
            let interface = &mut gateway.interfaces[at];
            if interface.mtu > most {
                let mtu = std::mem::replace(&mut interface.mtu, most);
                self.mtus.entry(interface.name.clone()).or_insert(mtu);
            }
        }
    }

    /// Returns the places of addresses from the host, as routes name them, with the names of the source.
    pub(crate) fn places(&self) -> BTreeMap<String, String> {
        self.devices.iter().map(|device| (format!("host {device}:1"), format!("host {device}"))).collect()
    }

    /// Returns the properties that interfaces have from the host, by name.
    pub(crate) fn shown(&self) -> BTreeMap<String, FromHost> {
        self.taken.iter().map(|(name, taken)| (name.clone(), shown(taken))).collect()
    }
}

/// The kernel gives a device such an address by itself.
fn is_automatic(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

/// Why an interface cannot have an address.
fn refusal(gateway: &Gateway, at: usize, net: IpNet) -> Option<String> {
    let (own, address) = (&gateway.interfaces[at], net.addr());
    let is_edge = address.is_ipv4() && edge(net, address).is_some();
    if is_edge || address.is_unspecified() || address.is_loopback() || address.is_multicast() {
        return Some("it is no address of a host".to_owned());
    }
    if address.is_ipv6() && own.mtu < LEAST_V6 {
        return Some(format!("the MTU of the interface is below {LEAST_V6}"));
    }
    let has = |other: &&Interface| {
        let is_same = other.name == own.name;
        other.vrf == own.vrf
            && other.addresses.iter().any(|own| own.net.addr() == address || !is_same && own.net.trunc() == net.trunc())
    };
    gateway.interfaces.iter().find(has).map(|other| format!("interface {} has it, or its prefix", other.name))
}

fn shown(taken: &Given) -> FromHost {
    FromHost { mtu: taken.mtu, addresses: taken.addresses.iter().map(IpNet::to_string).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "version = 1\n[[interface]]\nname = \"wan\"\nport = \"null\"\naddress = \"192.0.2.1/24\"\n\
        punt = { name = \"wan-host\", follow = [\"mtu\", \"addresses\"] }\n\
        [[interface]]\nname = \"tagged\"\nparent = \"wan\"\nvlan = 7\naddress = \"198.51.100.1/24\"\n";

    fn gateway() -> Gateway {
        crate::config::parse_str("test.toml", FILE).gateway.expect("a valid configuration")
    }

    fn side(mtu: u32, addresses: &[&str]) -> Vec<(String, Option<HostSide>)> {
        let addresses = addresses.iter().map(|net| net.parse().expect("an address")).collect();
        vec![("wan".to_owned(), Some(HostSide { mtu, addresses }))]
    }

    fn addresses(gateway: &Gateway) -> Vec<String> {
        gateway.interfaces[0].addresses.iter().map(|own| own.net.to_string()).collect()
    }

    #[test]
    fn an_interface_has_what_the_host_gives_until_it_is_taken_away() {
        let (file, mut host) = (gateway(), Host::default());
        let own = ["192.0.2.1/24", "fe80::1/64"];
        assert!(host.look(&file, side(1500, &own)).is_empty(), "the file's, and what the kernel adds");
        host.given = host.look(&file, side(1400, &[&own[..], &["203.0.113.7/24", "2001:db8::7/64"]].concat()));
        let mut gateway = file.clone();
        assert!(host.put_into(&mut gateway).is_empty());
        assert_eq!(addresses(&gateway), ["192.0.2.1/24", "203.0.113.7/24", "2001:db8::7/64"]);
        assert_eq!(gateway.interfaces.iter().map(|own| own.mtu).collect::<Vec<_>>(), [1400, 1400], "the VLAN, too");
        let place = gateway.origins.place(gateway.interfaces[0].addresses[1].origin).map(|place| place.to_string());
        let name = place.and_then(|place| host.places().remove(&place));
        assert_eq!(name.as_deref(), Some("host wan-host"));
        let shown = host.shown().remove("wan").expect("something");
        assert_eq!(shown.words(), "MTU 1400, 203.0.113.7/24, 2001:db8::7/64");
        // The same again is no news; a device that is missing neither; and all of it goes.
        let sides = side(1400, &["192.0.2.1/24", "2001:db8::7/64", "203.0.113.7/24"]);
        assert_eq!(host.look(&gateway, sides), host.given);
        assert_eq!(host.look(&gateway, vec![("wan".to_owned(), None)]), host.given);
        assert!(host.look(&gateway, side(1500, &own)).is_empty());
        host.take_out(&mut gateway);
        assert_eq!((addresses(&gateway), gateway.interfaces[1].mtu), (addresses(&file), 1500));
    }

    #[test]
    fn what_does_not_go_with_the_file_is_not_taken() {
        let (file, mut host) = (gateway(), Host::default());
        host.given =
            host.look(&file, side(1000, &["203.0.113.0/24", "198.51.100.9/24", "192.0.2.1/25", "2001:db8::7/64"]));
        let mut gateway = file.clone();
        let refused = host.put_into(&mut gateway);
        assert_eq!(refused.len(), 4, "{refused:?}");
        assert!(refused.iter().any(|line| line.ends_with("203.0.113.0/24 of wan-host: it is no address of a host")));
        assert!(
            refused
                .iter()
                .any(|line| line.ends_with("198.51.100.9/24 of wan-host: interface tagged has it, or its prefix"))
        );
        assert!(
            refused.iter().any(|line| line.ends_with("the MTU 1000 of wan-host: 1280 is the least")),
            "{refused:?}"
        );
        assert_eq!(addresses(&gateway), ["192.0.2.1/24", "2001:db8::7/64"]);
        // A larger MTU than that of the file is not taken either, and the file may stop to follow.
        assert!(host.look(&file, side(9000, &["192.0.2.1/24"])).is_empty());
        let mut other = file.clone();
        other.interfaces[0].follow = Default::default();
        assert!(host.put_into(&mut other).is_empty());
        assert_eq!(addresses(&other), ["192.0.2.1/24"]);
    }
}
