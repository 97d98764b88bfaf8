//! The MTUs, addresses and static neighbours that the host gives punt devices and that their interfaces take over: beside
//! those of the file, until the host takes them away.

mod neighbors;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use weir_packet::wire::MacAddress;
use weir_plane::model::{Address, Gateway, Interface, InterfaceIndex, InterfaceKind, Neighbor};
use weir_port::HostSide;

pub(super) use self::neighbors::Neighbors;

use crate::config::live::fit_tunnels;
use crate::config::value::edge;
use crate::render::interfaces::FromHost;

/// Addresses of an interface that the host gives, at most.
const MOST: usize = 64;
/// Static neighbours of an interface that the host gives, at most.
const MOST_NEIGHBORS: usize = 1024;
/// The least MTU of an interface, and of one with addresses of IPv6 (RFC 8200, 5).
const LEAST: u32 = 68;
const LEAST_V6: u32 = 1280;

/// The properties that the host gives the punt device of an interface.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Given {
    mtu: Option<u32>,
    addresses: Vec<IpNet>,
    neighbors: Vec<(IpAddr, MacAddress)>,
}

/// The host's side of the punt devices now.
pub(crate) struct Sides {
    /// By interface; `None`: the device is missing.
    pub(super) devices: Vec<(String, Option<HostSide>)>,
    /// Static neighbours by interface, in order.
    pub(super) neighbors: BTreeMap<String, Vec<(IpAddr, MacAddress)>>,
}

/// The MTUs, addresses and neighbours that hosts give punt devices, and the ones of them that interfaces have.
#[derive(Debug, Clone, Default)]
pub(crate) struct Host {
    /// By interface. Some of it may not be taken.
    given: BTreeMap<String, Given>,
    taken: BTreeMap<String, Given>,
    /// The devices whose addresses interfaces have.
    devices: BTreeSet<String>,
    /// The MTUs of the file, of interfaces that have others.
    mtus: BTreeMap<String, u32>,
    /// The properties that are not taken, and why.
    refused: BTreeSet<String>,
}

impl Host {
    /// Returns whether the host has given punt devices something else since. `sides` are those of the devices now.
    pub(crate) fn is_behind(&self, model: &Gateway, sides: Sides) -> bool {
        self.look(model, sides) != self.given
    }

    /// Returns whether the host gives nothing that interfaces could have.
    pub(crate) fn is_empty(&self) -> bool {
        self.given.is_empty()
    }

    /// Puts into the model in force what the host gives now, in place of what it gave before. Returns it, and what is not taken now
    /// but was before, or was not there.
    pub(crate) fn next(&self, gateway: &mut Gateway, sides: Sides) -> (Host, Vec<String>) {
        let mut next = Host { given: self.look(gateway, sides), ..Host::default() };
        self.take_out(gateway);
        next.refused = next.put_into(gateway).into_iter().collect();
        let news = next.refused.difference(&self.refused).cloned().collect();
        (next, news)
    }

    /// Takes note of what the host gives, of which nothing more is taken.
    pub(crate) fn note(&mut self, next: Host) {
        (self.given, self.refused) = (next.given, next.refused);
    }

    /// Returns the interfaces that have another MTU or other addresses next, with what they have. Neighbours have lines of their own.
    pub(crate) fn differences(&self, next: &Host) -> Vec<(String, FromHost)> {
        let names: BTreeSet<&String> = self.taken.keys().chain(next.taken.keys()).collect();
        let shown = |own: &Host, name: &String| {
            let shown = own.taken.get(name).map(shown).unwrap_or_default();
            FromHost { neighbors: 0, ..shown }
        };
        let differing = names.into_iter().filter(|name| shown(self, name) != shown(next, name));
        differing.map(|name| (name.clone(), shown(next, name))).collect()
    }

    /// Returns the static neighbours that interfaces have of the host, with the names of the interfaces.
    pub(crate) fn neighbors<'a>(&'a self) -> BTreeSet<(&'a str, IpAddr, MacAddress)> {
        let of = |(name, taken): (&'a String, &'a Given)| {
            taken.neighbors.iter().map(move |&(address, mac)| (name.as_str(), address, mac))
        };
        self.taken.iter().flat_map(of).collect()
    }

    /// Returns what the host gives now, by the model in force. A device that is missing keeps what it had.
    fn look(&self, model: &Gateway, mut sides: Sides) -> BTreeMap<String, Given> {
        let neighbors = &mut sides.neighbors;
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
            let neighbors = neighbors.remove(&name).filter(|_| follow.neighbors).unwrap_or_default();
            let given = Given { mtu, addresses, neighbors };
            (given != Given::default()).then_some((name, given))
        };
        sides.devices.into_iter().filter_map(given).collect()
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
        let Gateway { interfaces, neighbors, .. } = gateway;
        neighbors.retain(|own| {
            let taken = self.taken.get(&interfaces[own.interface.0 as usize].name);
            !taken.is_some_and(|taken| taken.neighbors.contains(&(own.address, own.mac)))
        });
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
            if follow.neighbors {
                taken.neighbors = put_neighbors(gateway, at, &device, &given.neighbors, &mut refused);
                if !taken.neighbors.is_empty() {
                    self.devices.insert(device.clone());
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

/// Puts static neighbours of a device into a model; returns the ones that it has now. The file comes first.
fn put_neighbors(
    gateway: &mut Gateway,
    at: usize,
    device: &str,
    given: &[(IpAddr, MacAddress)],
    refused: &mut Vec<String>,
) -> Vec<(IpAddr, MacAddress)> {
    let interface = InterfaceIndex(at as u32);
    let of_file = gateway.neighbors.iter().filter(|own| own.interface == interface);
    let of_file: BTreeMap<IpAddr, MacAddress> = of_file.map(|own| (own.address, own.mac)).collect();
    let own: Vec<IpAddr> = gateway.interfaces[at].addresses.iter().map(|own| own.net.addr()).collect();
    let most = (gateway.limits.neighbors as usize).saturating_sub(gateway.neighbors.len()).min(MOST_NEIGHBORS);
    let name = gateway.interfaces[at].name.clone();
    let mut refuse = |address: IpAddr, why: &str| {
        refused.push(format!("interface {name}: the neighbour {address} of {device} is not taken: {why}"));
    };
    let (mut taken, mut surplus) = (Vec::new(), 0);
    for &(address, mac) in given {
        match of_file.get(&address) {
            Some(known) if *known == mac => {}
            Some(_) => refuse(address, "the file has another hardware address"),
            None if own.contains(&address) => refuse(address, "it is an address of the interface"),
            None if !mac.is_unicast() => refuse(address, &format!("{mac} is not the address of one station")),
            None if taken.len() == most => surplus += 1,
            None => taken.push((address, mac)),
        }
    }
    if surplus > 0 {
        refused.push(format!("interface {name}: {surplus} neighbours of {device} are not taken: {most} are the most"));
    }
    if !taken.is_empty() {
        let source = gateway.origins.put_source(format!("host {device}").into(), "".into());
        let origin = gateway.origins.put_line(source, 1, 0);
        let neighbor = |&(address, mac): &(IpAddr, MacAddress)| Neighbor { interface, address, mac, origin };
        gateway.neighbors.extend(taken.iter().map(neighbor));
    }
    taken
}

fn shown(taken: &Given) -> FromHost {
    let addresses = taken.addresses.iter().map(IpNet::to_string).collect();
    FromHost { mtu: taken.mtu, addresses, neighbors: taken.neighbors.len() as u64 }
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

    fn side(mtu: u32, addresses: &[&str]) -> Sides {
        let addresses = addresses.iter().map(|net| net.parse().expect("an address")).collect();
        let devices = vec![("wan".to_owned(), Some(HostSide { index: 7, mtu, addresses }))];
        Sides { devices, neighbors: BTreeMap::new() }
    }

    fn neighbors(list: &[(&str, u8)]) -> Sides {
        let own =
            |&(address, last): &(&str, u8)| (address.parse().expect("an address"), MacAddress([2, 0, 0, 0, 0, last]));
        let neighbors = BTreeMap::from([("wan".to_owned(), list.iter().map(own).collect())]);
        Sides { neighbors, ..side(1500, &["192.0.2.1/24"]) }
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
        assert_eq!(host.look(&gateway, Sides { devices: vec![("wan".to_owned(), None)], ..side(0, &[]) }), host.given);
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

    #[test]
    fn an_interface_has_the_static_neighbours_of_the_host() {
        let text = FILE.replace("\"addresses\"]", "\"addresses\", \"neighbors\"]")
            + "[[neighbor]]\ninterface = \"wan\"\naddress = \"192.0.2.9\"\nmac = \"02:00:00:00:00:09\"\n";
        let file = crate::config::parse_str("test.toml", &text).gateway.expect("a valid configuration");
        let of = |gateway: &Gateway| -> Vec<_> {
            gateway.neighbors.iter().map(|own| (own.address.to_string(), own.mac.0[5])).collect()
        };
        let has = |list: &[(&str, u8)]| -> Vec<_> { list.iter().map(|own| (own.0.to_owned(), own.1)).collect() };
        let mut gateway = file.clone();
        // That of the file stays, and is no news where both are the same.
        let given = [("192.0.2.7", 7), ("192.0.2.9", 9), ("2001:db8::7", 7)];
        let (host, refused) = Host::default().next(&mut gateway, neighbors(&given));
        assert_eq!((of(&gateway), refused), (has(&[("192.0.2.9", 9), given[0], given[2]]), vec![]));
        assert!(!host.is_behind(&gateway, neighbors(&given)) && host.is_behind(&gateway, neighbors(&given[..1])));
        let origin = gateway.origins.place(gateway.neighbors[1].origin).map(|place| place.to_string());
        let name = origin.and_then(|place| host.places().remove(&place));
        assert_eq!(name.as_deref(), Some("host wan-host"));
        assert!(host.shown()["wan"] == FromHost { neighbors: 2, ..FromHost::default() });
        // One of them goes, one moves, and what is refused is said once.
        let given = [("192.0.2.1", 1), ("192.0.2.7", 8), ("192.0.2.8", 1), ("192.0.2.9", 8)];
        let (next, refused) = host.next(&mut gateway, neighbors(&given));
        assert_eq!(of(&gateway), has(&[("192.0.2.9", 9), ("192.0.2.7", 8), ("192.0.2.8", 1)]));
        assert!(
            refused[0].ends_with("the neighbour 192.0.2.1 of wan-host is not taken: it is an address of the interface")
        );
        assert!(
            refused[1].ends_with("192.0.2.9 of wan-host is not taken: the file has another hardware address"),
            "{refused:?}"
        );
        let (next, refused) = next.next(&mut gateway, neighbors(&given[..2]));
        assert_eq!((of(&gateway), refused), (has(&[("192.0.2.9", 9), ("192.0.2.7", 8)]), vec![]));
        // Gone, and there again: that is news.
        let (next, _) = next.next(&mut gateway, neighbors(&[]));
        assert_eq!((of(&gateway), next.is_empty()), (has(&[("192.0.2.9", 9)]), true));
        assert_eq!(next.next(&mut gateway, neighbors(&given)).1.len(), 2);
    }

    #[test]
    fn neighbours_of_the_host_are_bounded() {
        let text = FILE.replace("\"addresses\"]", "\"neighbors\"]");
        for (limits, most) in [("", MOST_NEIGHBORS), ("[limits]\nneighbors = 5\n", 5)] {
            let text = text.clone() + limits;
            let mut gateway = crate::config::parse_str("test.toml", &text).gateway.expect("a valid configuration");
            let address = |number: u32| IpAddr::from(std::net::Ipv4Addr::from(0x0a00_0000 + number));
            let all = (1..=most as u32 + 3).map(|number| (address(number), MacAddress([2, 0, 0, 0, 0, 1]))).collect();
            let sides = Sides { neighbors: BTreeMap::from([("wan".to_owned(), all)]), ..side(1500, &["192.0.2.1/24"]) };
            let (_, refused) = Host::default().next(&mut gateway, sides);
            assert_eq!((gateway.neighbors.len(), refused.len()), (most, 1));
            assert!(
                refused[0].ends_with(&format!("3 neighbours of wan-host are not taken: {most} are the most")),
                "{refused:?}"
            );
        }
    }
}
