//! The routes of a model before compilation: the winner among several routes for one prefix, and the origin of each.
//! Forwarding tables are compiled from it, and `explain` finds the line of a route in it.

use std::collections::HashMap;
use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use weir_table::lpm::Folding;

use crate::model::Origin;

/// The source of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// One of our own addresses, or a route of type `local`.
    Local,
    /// The network or broadcast address of a connected prefix.
    Broadcast,
    /// The prefix of one of our addresses.
    Connected,
    /// A `[[route]]` with paths.
    Static,
    /// A `[[route]]` that discards.
    Blackhole,
    /// A `[[route]]` that refuses.
    Unreachable,
    /// A `[[route]]` that forbids.
    Prohibit,
    /// A `[[neighbor]]`.
    Neighbor,
}

impl Source {
    /// As `show routes` names it.
    pub const fn name(self) -> &'static str {
        match self {
            Source::Local => "local",
            Source::Broadcast => "broadcast",
            Source::Connected => "connected",
            Source::Static => "via",
            Source::Blackhole => "blackhole",
            Source::Unreachable => "unreachable",
            Source::Prohibit => "prohibit",
            Source::Neighbor => "neighbor",
        }
    }
}

/// The party that a route comes from. Of several routes for one prefix, that of the first party here counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum By {
    /// The model: routes of the file, and routes that follow from addresses and neighbours.
    Model,
    /// A forwarding plane manager, by its connection.
    Fpm,
    /// The kernel's tables.
    Kernel,
}

impl By {
    /// The parties beside the model, the strongest first.
    pub const OTHERS: [By; 2] = [By::Fpm, By::Kernel];

    /// As `show routes` names it.
    pub const fn name(self) -> &'static str {
        match self {
            By::Model => "file",
            By::Fpm => "fpm",
            By::Kernel => "kernel",
        }
    }
}

/// A route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Its target as the tables hold it.
    pub forwarding: u32,
    /// Its source.
    pub source: Source,
    /// The component that declared it.
    pub by: By,
    /// Where it was declared.
    pub origin: Origin,
}

/// Routes by prefix.
pub(super) type ByPrefix<N> = HashMap<N, Entry, Folding>;

/// The routes of a VRF, one for each prefix.
#[derive(Debug, Clone, Default)]
pub struct Rib {
    /// IPv4.
    pub v4: ByPrefix<Ipv4Net>,
    /// IPv6.
    pub v6: ByPrefix<Ipv6Net>,
    /// Static routes that are not the best of their prefix, in the order of their metrics.
    alternates: HashMap<IpNet, Vec<Entry>>,
}

impl Rib {
    /// Makes an empty list with room for as many routes as another version of it has.
    pub(super) fn with_room_of(other: Option<&Rib>) -> Rib {
        let mut rib = Rib::default();
        if let Some(other) = other {
            rib.v4.reserve(other.v4.len());
            rib.v6.reserve(other.v6.len());
        }
        rib
    }

    /// Adds a route unless the prefix has one already: callers add the strongest sources first. A static route that is not
    /// the first is an alternate from then on.
    pub fn add(&mut self, prefix: IpNet, entry: Entry) {
        let first = match prefix {
            IpNet::V4(prefix) => *self.v4.entry(prefix).or_insert(entry),
            IpNet::V6(prefix) => *self.v6.entry(prefix).or_insert(entry),
        };
        if first != entry && entry.source == Source::Static {
            self.alternates.entry(prefix).or_default().push(entry);
        }
    }

    /// The static routes of a prefix that are not its best.
    pub fn alternates(&self, prefix: IpNet) -> &[Entry] {
        self.alternates.get(&prefix).map_or(&[], Vec::as_slice)
    }

    /// The route for exactly this prefix.
    pub fn get(&self, prefix: IpNet) -> Option<Entry> {
        match prefix {
            IpNet::V4(prefix) => self.v4.get(&prefix).copied(),
            IpNet::V6(prefix) => self.v6.get(&prefix).copied(),
        }
    }

    /// The longest prefix that covers an address, with its route. Probes each length: for people, not for packets.
    pub fn covering(&self, address: IpAddr) -> Option<(IpNet, Entry)> {
        let longest = if address.is_ipv4() { 32 } else { 128 };
        (0..=longest).rev().find_map(|len| {
            let prefix = IpNet::new(address, len).ok()?.trunc();
            Some((prefix, self.get(prefix)?))
        })
    }

    /// The longest prefix that covers an address, with its route, whatever its neighbour is.
    pub fn covering_more(&self, address: IpAddr) -> Option<(IpNet, Entry)> {
        let longest = if address.is_ipv4() { 32 } else { 128 };
        (0..=longest).rev().find_map(|len| {
            let prefix = IpNet::new(address, len).ok()?.trunc();
            let entry = self.get(prefix)?;
            (len < longest || entry.source != Source::Neighbor).then_some((prefix, entry))
        })
    }

    /// Replaces the static routes of a prefix that are not its best.
    pub(super) fn set_alternates(&mut self, prefix: IpNet, alternates: Vec<Entry>) {
        match alternates.is_empty() {
            // Most tables have none: nothing is looked up then.
            true if self.alternates.is_empty() => {}
            true => drop(self.alternates.remove(&prefix)),
            false => drop(self.alternates.insert(prefix, alternates)),
        }
    }

    /// Puts a route in the place of another, or takes it out; gives what was there.
    pub fn replace(&mut self, prefix: IpNet, entry: Option<Entry>) -> Option<Entry> {
        match (prefix, entry) {
            (IpNet::V4(prefix), Some(entry)) => self.v4.insert(prefix, entry),
            (IpNet::V6(prefix), Some(entry)) => self.v6.insert(prefix, entry),
            (IpNet::V4(prefix), None) => self.v4.remove(&prefix),
            (IpNet::V6(prefix), None) => self.v6.remove(&prefix),
        }
    }

    /// How many routes there are.
    pub fn len(&self) -> usize {
        self.v4.len() + self.v6.len()
    }

    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
