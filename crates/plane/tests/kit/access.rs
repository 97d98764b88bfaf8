//! The lists of interfaces, in a line or two.

use std::sync::Arc;

use ipnet::IpNet;
use weir_packet::wire::MacAddress;
use weir_plane::model::{
    AllowedSources, Allowlist, AllowlistIndex, Binding, Bindings, BindingsIndex, Ethertypes, Origin, PerFamily, Place,
};

use super::Build;

impl Build {
    fn declared(&mut self, text: &str) -> Origin {
        self.0.origins.add(Place { file: "kit".into(), line: 1, text: text.into() })
    }

    /// An allowlist of prefixes.
    pub fn allowlist(mut self, name: &str, prefixes: &[&str]) -> Build {
        let prefix = |text: &&str| {
            let net: IpNet = text.parse().unwrap();
            assert_eq!(net, net.trunc());
            (net, self.declared(text))
        };
        let prefixes: Arc<[(IpNet, Origin)]> = prefixes.iter().map(prefix).collect();
        self.add_allowlist(name, AllowedSources::Prefixes(prefixes))
    }

    /// An allowlist of whatever a VRF has routes for.
    pub fn allowlist_of(mut self, name: &str, vrf: &str) -> Build {
        let vrf = self.vrf(vrf);
        self.add_allowlist(name, AllowedSources::Vrf(vrf))
    }

    fn add_allowlist(mut self, name: &str, sources: AllowedSources) -> Build {
        let origin = self.declared(name);
        self.0.allowlists.push(Allowlist { name: name.to_owned(), sources, origin });
        self
    }

    /// The sources of both families that come in by an interface have to be in each of these lists.
    pub fn allow(self, interface: &str, lists: &[&str]) -> Build {
        self.allow_by_family(interface, lists, lists)
    }

    /// The same with lists for each family.
    pub fn allow_by_family(mut self, interface: &str, v4: &[&str], v6: &[&str]) -> Build {
        let index = |name: &&str| {
            let index = self.0.allowlists.iter().position(|list| list.name == *name);
            AllowlistIndex(index.unwrap_or_else(|| panic!("no allowlist {name}")) as u16)
        };
        let [v4, v6] = [v4, v6].map(|names| names.iter().map(index).collect());
        let interface = self.interface(interface).0 as usize;
        self.0.interfaces[interface].access.allow = PerFamily { v4, v6 };
        self
    }

    /// The ethertypes that an interface lets in and out; `None`: all.
    pub fn ethertypes(mut self, interface: &str, incoming: Option<&[u16]>, outgoing: Option<&[u16]>) -> Build {
        let mut declared = |direction: &str, types: Option<&[u16]>| {
            let of = |types: &[u16]| Ethertypes { types: types.to_vec(), origin: self.declared(direction) };
            types.map(of)
        };
        let (incoming, outgoing) = (declared("in", incoming), declared("out", outgoing));
        let interface = self.interface(interface).0 as usize;
        let access = &mut self.0.interfaces[interface].access;
        (access.ethertypes_in, access.ethertypes_out) = (incoming, outgoing);
        self
    }

    /// Bindings, each `permit MAC[/LENGTH] from PREFIX` or `deny …`, with `any` for either.
    pub fn bindings(mut self, name: &str, rules: &[&str]) -> Build {
        let rule = |text: &&str| {
            let words: Vec<&str> = text.split(' ').collect();
            let &[action, mac, "from", from] = &words[..] else { panic!("{text}") };
            let (mac, length) = match mac.split_once('/') {
                _ if mac == "any" => ("00:00:00:00:00:00", 0),
                Some((mac, length)) => (mac, length.parse().unwrap()),
                None => (mac, 48),
            };
            Binding {
                permit: action == "permit",
                mac: mac.parse::<MacAddress>().unwrap().0,
                mac_length: length,
                from: (from != "any").then(|| from.parse().unwrap()),
                origin: self.declared(text),
            }
        };
        let rules = rules.iter().map(rule).collect();
        let origin = self.declared(name);
        self.0.bindings.push(Bindings { name: name.to_owned(), rules, learn: None, prefixes: [].into(), origin });
        self
    }

    /// Applies bindings to packets that enter by an interface.
    pub fn bind(mut self, interface: &str, name: &str) -> Build {
        let index = self.0.bindings.iter().position(|list| list.name == name).unwrap();
        let interface = self.interface(interface).0 as usize;
        self.0.interfaces[interface].access.bindings = Some(BindingsIndex(index as u16));
        self
    }
}
