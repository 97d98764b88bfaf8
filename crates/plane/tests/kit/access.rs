//! What interfaces ask of packets, in a line or two.

use std::sync::Arc;

use ipnet::IpNet;
use weir_plane::model::{AllowedSources, Allowlist, AllowlistIndex, Origin, PerFamily, Place};

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
        let interface = self.interface(interface).0 as usize;
        let access = &mut self.0.interfaces[interface].access;
        access.ethertypes_in = incoming.map(<[u16]>::to_vec);
        access.ethertypes_out = outgoing.map(<[u16]>::to_vec);
        self
    }
}
