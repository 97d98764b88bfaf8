//! A topology: links with their relations, the prefixes of each node, and their announcements.

use ipnet::Ipv6Net;

use super::address::{self, Group};

/// The relation of the two ends of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tie {
    /// The first is a customer of the second, both are autonomous systems.
    Transit,
    /// They are lateral peers.
    Peer,
    /// Two routers of one domain, at this cost.
    Igp(u32),
    /// The first is a network without an autonomous system of its own, the second its router.
    Access,
}

/// The role of an end of a link for the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Side {
    Customer,
    Peer,
    Provider,
    /// A router of the same domain: sources are not validated there.
    Domain,
    /// A network without an autonomous system of its own.
    Hosts,
}

#[derive(Debug, Clone)]
pub(super) struct Link {
    pub(super) ends: [usize; 2],
    pub(super) tie: Tie,
    /// The local preference that each end gives to what it learns here, if not that of the tie.
    pub(super) preference: [Option<u32>; 2],
    pub(super) up: bool,
}

/// The announcement of an origin's prefixes to a neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Announce {
    /// Nothing.
    No,
    /// With the community NO_EXPORT (RFC 1997): the neighbour does not announce it.
    NoExport,
    /// With itself so many more times in the path.
    Prepended(usize),
}

/// Prefixes that a gateway has behind it.
#[derive(Debug, Clone)]
pub(super) struct Origin {
    pub(super) node: usize,
    pub(super) prefixes: Vec<Ipv6Net>,
    /// The announcements to some neighbours; others get the prefixes unchanged.
    pub(super) announce: Vec<(usize, Announce)>,
}

/// A local preference that a gateway gives to what it learns of some prefixes by a link.
#[derive(Debug, Clone)]
pub(super) struct Preference {
    pub(super) node: usize,
    pub(super) link: usize,
    pub(super) prefixes: Vec<Ipv6Net>,
    pub(super) value: u32,
}

#[derive(Debug, Clone)]
pub(super) struct World {
    pub(super) names: Vec<&'static str>,
    pub(super) links: Vec<Link>,
    pub(super) origins: Vec<Origin>,
    pub(super) preferences: Vec<Preference>,
    /// Sources that hosts behind a gateway rightly use, although it announces no route for them.
    pub(super) hidden: Vec<(usize, Vec<Ipv6Net>)>,
    /// The gateway that validates sources.
    pub(super) dut: usize,
    /// Prefixes of each group.
    pub(super) size: u16,
}

impl World {
    pub(super) fn new(names: &[&'static str], dut: usize, size: u16) -> World {
        World {
            names: names.to_vec(),
            links: Vec::new(),
            origins: Vec::new(),
            preferences: Vec::new(),
            hidden: Vec::new(),
            dut,
            size,
        }
    }

    pub(super) fn link(mut self, first: usize, tie: Tie, second: usize) -> World {
        self.links.push(Link { ends: [first, second], tie, preference: [None; 2], up: true });
        self
    }

    pub(super) fn origin(self, node: usize, group: Group) -> World {
        self.announcing(node, group, &[])
    }

    pub(super) fn announcing(mut self, node: usize, group: Group, announce: &[(usize, Announce)]) -> World {
        let prefixes = address::prefixes(group, self.size);
        self.origins.push(Origin { node, prefixes, announce: announce.to_vec() });
        self
    }

    /// Has a gateway prefer what it learns by a link to everything else of other links.
    pub(super) fn prefer(mut self, node: usize, link: usize) -> World {
        let end = self.links[link].end(node);
        self.links[link].preference[end] = Some(150);
        self
    }

    pub(super) fn hide(mut self, node: usize, group: Group) -> World {
        self.hidden.push((node, address::prefixes(group, self.size)));
        self
    }

    /// The links of a gateway that are there, up or not, with their numbers.
    pub(super) fn links_of(&self, node: usize) -> impl Iterator<Item = (usize, &Link)> {
        self.links.iter().enumerate().filter(move |(_, link)| link.ends.contains(&node))
    }

    /// It is one domain, not autonomous systems.
    pub(super) fn is_one_domain(&self) -> bool {
        self.links.iter().any(|link| matches!(link.tie, Tie::Igp(_) | Tie::Access))
    }

    /// A gateway and its customers, and theirs.
    pub(super) fn cone(&self, node: usize) -> Vec<usize> {
        let mut cone = vec![node];
        let mut next = 0;
        while let Some(&provider) = cone.get(next) {
            for (_, link) in self.links_of(provider) {
                if link.tie == Tie::Transit && link.ends[1] == provider && !cone.contains(&link.ends[0]) {
                    cone.push(link.ends[0]);
                }
            }
            next += 1;
        }
        cone
    }
}

impl Link {
    /// Which end a gateway is.
    pub(super) fn end(&self, node: usize) -> usize {
        usize::from(self.ends[0] != node)
    }

    /// The gateway at the other end.
    pub(super) fn other(&self, node: usize) -> usize {
        self.ends[1 - self.end(node)]
    }

    /// Returns the role of the other end for a gateway.
    pub(super) fn side(&self, node: usize) -> Side {
        match (self.tie, self.end(node)) {
            (Tie::Transit, 0) => Side::Provider,
            (Tie::Transit, _) => Side::Customer,
            (Tie::Peer, _) => Side::Peer,
            (Tie::Access, 1) => Side::Hosts,
            (Tie::Access | Tie::Igp(_), _) => Side::Domain,
        }
    }
}
