//! Our own addresses and the prefixes they connect.

use std::collections::HashMap;
use std::net::IpAddr;

use weir_plane::model::VrfIndex;

use super::super::diagnostic::{Code, Diagnostic};
use super::super::source::Span;
use super::Resolver;
use super::known::Link;

/// Whether an address means something on its own link only, so that every link may have it.
pub(super) fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

impl Resolver<'_> {
    /// The longest connected prefix of an interface that holds an address.
    pub(super) fn link(&self, interface: usize, address: IpAddr) -> Option<Link> {
        let holding = self.declared(interface).addresses.iter().filter(|own| own.value.contains(&address));
        let longest = holding.max_by_key(|own| own.value.prefix_len())?;
        Some(Link { interface, span: longest.span, prefix: longest.value.trunc() })
    }

    /// Resolves the addresses of all interfaces; refuses duplicates and overlapping prefixes.
    pub(super) fn addresses(&mut self) {
        let declared = self.declared;
        let mut links: Vec<(VrfIndex, Link, IpAddr)> = Vec::new();
        let mut local: HashMap<(usize, IpAddr), Span> = HashMap::new();
        for (at, interface) in declared.interfaces.iter().enumerate() {
            let (Some(vrf), Some(_)) = (self.vrf_of[at], self.index_of[at]) else { continue };
            for address in &interface.addresses {
                let own = address.value.addr();
                if is_link_local(own) {
                    if let Some(first) = local.insert((at, own), address.span) {
                        let message = format!("`{}` has the address {own} twice", interface.name.value);
                        let found = Diagnostic::error(Code::DuplicateAddress, address.span, message);
                        self.report(found.related(first, "first here"));
                    }
                    continue;
                }
                links.push((vrf, Link { interface: at, span: address.span, prefix: address.value.trunc() }, own));
            }
        }
        for &(vrf, link, own) in &links {
            if let Some(first) = self.connected.own.get(&(vrf, own)) {
                let message = format!("the address {own} stands twice in one VRF");
                let found = Diagnostic::error(Code::DuplicateAddress, link.span, message);
                let found = found
                    .related(first.span, format!("first here, on `{}`", self.declared(first.interface).name.value));
                self.report(found);
                continue;
            }
            self.connected.own.insert((vrf, own), link);
            self.connected.lengths[usize::from(own.is_ipv6())].insert(link.prefix.prefix_len());
            self.connected.prefixes.entry((vrf, link.prefix)).or_insert(link);
        }
        self.overlaps(links);
    }

    /// Two prefixes overlap if and only if one holds the other: sorted, the holder stands before what it holds.
    fn overlaps(&mut self, mut links: Vec<(VrfIndex, Link, IpAddr)>) {
        links.sort_by_key(|&(vrf, link, _)| (vrf, link.prefix, link.span));
        let mut holders: Vec<(VrfIndex, Link, IpAddr)> = Vec::new();
        for (vrf, link, own) in links {
            while holders
                .last()
                .is_some_and(|(other, holder, _)| *other != vrf || !holder.prefix.contains(&link.prefix))
            {
                holders.pop();
            }
            let other = holders.iter().rev().find(|(_, holder, _)| holder.interface != link.interface);
            // An address that stands twice has been reported as such.
            if let Some(&(_, holder, other)) = other
                && other != own
            {
                let (first, second) = if holder.span < link.span { (holder, link) } else { (link, holder) };
                let name = &self.declared(first.interface).name.value;
                let message = format!("{} overlaps {}, which is connected to `{name}`", second.prefix, first.prefix);
                let found = Diagnostic::error(Code::OverlappingPrefixes, second.span, message);
                self.report(found.related(first.span, format!("the address of `{name}`")));
            }
            holders.push((vrf, link, own));
        }
    }
}
