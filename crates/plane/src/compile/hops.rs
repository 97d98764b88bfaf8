//! The next hops of routes: adjacencies and multipath sets, by number.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use weir_packet::wire::MacAddress;
use weir_packet::wire::ethernet::ethertype;

use super::numbers::{Key, Numbers, Paths};
use super::sources::Target;
use super::stations::{Fixed, LearnedSet};
use crate::compile::rib::{By, Entry, Rib, Source};
use crate::model::{Origin, Tag};
use crate::root::ecmp;
use crate::root::{Adjacencies, Adjacency, Forwarding, Interface, Kind, MAX_L2};

pub(super) use super::sources::Hop;

/// The targets of routes.
#[derive(Clone, Default)]
pub(super) struct Routing {
    pub(super) adjacencies: Adjacencies,
    /// Buckets of multipath sets, [`ecmp::BUCKETS`] each.
    pub(super) buckets: Vec<u32>,
    /// By number of the set: the paths among which its buckets are shared, those whose links are up.
    pub(super) live: Vec<Paths>,
    /// By number of the interface: its VLAN tags.
    pub(super) tags: Vec<Tags>,
}

/// The tags of an interface: outer and inner.
pub(super) type Tags = Option<(Tag, Option<u16>)>;

impl Routing {
    /// The buckets of a multipath set.
    pub(super) fn set(&self, set: u32) -> &[u32] {
        let start = set as usize * ecmp::BUCKETS;
        self.buckets.get(start..start + ecmp::BUCKETS).unwrap_or_default()
    }

    /// Shares the buckets of a set among paths. Flows keep the path that they had under `before` where possible.
    fn set_live(&mut self, set: u32, live: Paths, before: Option<&[u32]>) {
        let shared = ecmp::share(&live, before);
        let (number, start) = (set as usize, set as usize * ecmp::BUCKETS);
        if self.buckets.len() < start + ecmp::BUCKETS {
            self.buckets.resize(start + ecmp::BUCKETS, Adjacency::NO_ROUTE);
        }
        self.buckets[start..start + ecmp::BUCKETS].copy_from_slice(&shared);
        if self.live.len() <= number {
            self.live.resize(number + 1, Paths::new());
        }
        self.live[number] = live;
    }

    /// A route with this value can lead to an adjacency.
    fn leads_to(&self, forwarding: u32, adjacency: u32) -> bool {
        match Forwarding(forwarding).set() {
            Some(set) => self.set(set).contains(&adjacency),
            None => forwarding == adjacency,
        }
    }
}

/// The sources of neighbours' adjacencies.
#[derive(Clone, Copy)]
pub(super) struct Stations<'a> {
    pub(super) interfaces: &'a [Interface],
    pub(super) fixed: &'a Fixed,
    pub(super) learned: &'a LearnedSet,
}

impl Stations<'_> {
    /// The adjacency of a next hop, or of any neighbour on a link.
    pub(super) fn adjacency(self, number: u32, address: Option<IpAddr>, tags: Tags) -> Adjacency {
        let interface = &self.interfaces[number as usize];
        let fixed = || address.and_then(|address| self.fixed.get(number, address)).map(|mac| (mac, Kind::Rewrite));
        let learned = || {
            let learned = self.learned.get(number, address?)?;
            Some((learned.mac, if learned.stale { Kind::RewriteStale } else { Kind::Rewrite }))
        };
        let peer = || interface.peer.map(|mac| (MacAddress(mac), Kind::Rewrite));
        let known = fixed().or_else(learned).or_else(peer);
        let (mac, kind) = known.unwrap_or((MacAddress::ZERO, Kind::Neighbor));
        let (kind, (l2, l2_len)) = match interface.is_linkless {
            // There is one station at the other end, and it has no hardware address.
            true => (Kind::Rewrite, ([0; MAX_L2], 0)),
            false => (kind, link_layer(mac, interface.mac, tags)),
        };
        Adjacency { kind, l2_len, l2, port: interface.port, interface: number, mtu: interface.mtu, next_hop: address }
    }

    /// Returns the owner of an address as a destination of its own, under the route that covers it. A neighbour counts
    /// only if that route leads onto its link: it overrules no more specific route elsewhere, and no discarding route.
    /// Of several links the configuration's come first, in its order, then the links where the address was learned, by
    /// number.
    pub(super) fn host(
        self,
        rib: &Rib,
        vrf: u16,
        address: IpAddr,
        numbers: &Numbers,
        routing: &Routing,
    ) -> Option<(u32, Origin)> {
        let (_, covering) = rib.covering_more(address)?;
        if rib.get(address.into()).is_some_and(|entry| entry.source != Source::Neighbor) {
            return None;
        }
        let fixed = self.fixed.at(address).iter().copied();
        let learned = self.learned.at(address).map(|number| (number, Origin::default()));
        fixed.chain(learned).find(|(number, _)| {
            let interface = self.interfaces.get(*number as usize);
            let on_link = numbers.adjacencies.known(&Key::NextHop(*number, None));
            interface.is_some_and(|interface| interface.present && interface.vrf == vrf)
                && on_link.is_some_and(|on_link| routing.leads_to(covering.forwarding, on_link))
        })
    }
}

/// Multipath sets, at most, before sources other than the model get no further ones: 64 MiB of buckets.
const MOST_SETS: usize = 16_384;
/// Adjacencies, likewise: 16 MiB.
const MOST_ADJACENCIES: usize = 1 << 18;

/// The route that a target gives: the number of an adjacency or set, and its source.
type Route = Option<(u32, Source)>;

/// The routes that targets of sources gave in one pass, by target and family. A full table has few targets: each is looked up
/// once, not for each prefix.
#[derive(Default)]
pub(super) struct Resolved(HashMap<(usize, bool), (Arc<Target>, Route)>);

impl Resolved {
    /// Targets that are kept, at most.
    const MOST: usize = 1 << 16;

    /// Returns the route that a target gave before, or that `resolve` gives. Each target is held, so its address is its name.
    fn of(
        &mut self,
        target: &Arc<Target>,
        is_v4: bool,
        resolve: impl FnOnce() -> Option<(u32, Source)>,
    ) -> Option<(u32, Source)> {
        let key = (Arc::as_ptr(target).addr(), is_v4);
        if let Some((_, known)) = self.0.get(&key) {
            return *known;
        }
        let route = resolve();
        if self.0.len() >= Resolved::MOST {
            self.0.clear();
        }
        self.0.insert(key, (Arc::clone(target), route));
        route
    }
}

/// Gives next hops their numbers.
pub(super) struct Hops<'a> {
    pub(super) stations: Stations<'a>,
    pub(super) numbers: &'a mut Numbers,
    pub(super) routing: &'a mut Routing,
}

impl Hops<'_> {
    pub(super) fn terminal(&mut self, kind: Kind) -> u32 {
        self.set(Key::Terminal(kind), Adjacency::terminal(kind))
    }

    pub(super) fn next_hop(&mut self, number: u32, address: Option<IpAddr>) -> u32 {
        let tags = self.routing.tags.get(number as usize).copied().flatten();
        let adjacency = self.stations.adjacency(number, address, tags);
        self.set(Key::NextHop(number, address), adjacency)
    }

    fn set(&mut self, key: Key, adjacency: Adjacency) -> u32 {
        let (number, _) = self.numbers.adjacencies.number(&key);
        self.routing.adjacencies.set(number, adjacency);
        number
    }

    /// Returns the route that a target of a source gives, without those after it. `None`: all its paths are down, or the tables of next hops are full.
    pub(super) fn entry(
        &mut self,
        (prefix, by, target): (IpNet, By, &Arc<Target>),
        previous: impl FnOnce() -> Option<Entry>,
        resolved: &mut Resolved,
    ) -> Option<Entry> {
        let is_own = match &**target {
            // The next hop of a host route on the link is its own.
            Target::Via(hops, _) => {
                prefix.prefix_len() == prefix.max_prefix_len() && hops.iter().any(|hop| hop.address.is_none())
            }
            Target::Blackhole | Target::Unreachable | Target::Prohibit => false,
        };
        let (forwarding, source) = match is_own {
            true => self.resolve(prefix, target, previous()),
            false => resolved.of(target, prefix.addr().is_ipv4(), || self.resolve(prefix, target, previous())),
        }?;
        Some(Entry { forwarding, source, by, origin: Origin::default() })
    }

    fn resolve(&mut self, prefix: IpNet, target: &Target, previous: Option<Entry>) -> Option<(u32, Source)> {
        match target {
            Target::Via(..) if self.is_full() => None,
            Target::Via(hops, _) => Some((self.via(prefix, hops, previous)?, Source::Static)),
            Target::Blackhole => Some((self.terminal(Kind::Blackhole), Source::Blackhole)),
            Target::Unreachable => Some((self.terminal(Kind::Unreachable), Source::Unreachable)),
            Target::Prohibit => Some((self.terminal(Kind::Prohibit), Source::Prohibit)),
        }
    }

    /// Sources may offer next hops without end. The model is bounded by its file.
    fn is_full(&self) -> bool {
        self.numbers.sets.len() >= MOST_SETS || self.numbers.adjacencies.len() >= MOST_ADJACENCIES
    }

    /// Returns the target of a route over these paths; `None` if all of them are down. Flows keep the path that they
    /// had under `previous` where possible.
    ///
    /// A set is that of all paths, and its buckets are shared among the live ones. So routes keep their set when a link goes
    /// down and comes back, however many they are.
    pub(super) fn via(&mut self, prefix: IpNet, paths: &[Hop], previous: Option<Entry>) -> Option<u32> {
        // With who they are: interface and address outlive the numbers of adjacencies.
        let mut named: Vec<(NextHopName, (u32, u32), bool)> = Vec::new();
        for path in paths {
            let number = path.interface;
            let Some(interface) = self.stations.interfaces.get(number as usize).filter(|interface| interface.present)
            else {
                continue;
            };
            let is_up = !interface.down;
            // No packet of IPv6 leaves by a gateway of IPv4.
            if prefix.addr().is_ipv6() && path.address.is_some_and(|address| address.is_ipv4()) {
                continue;
            }
            // The one host of a host route on the link is its own next hop.
            let host = Some(prefix.addr()).filter(|_| prefix.prefix_len() == prefix.max_prefix_len());
            let name = (number, path.address.or(host));
            let adjacency = self.next_hop(name.0, name.1);
            // The same path named twice has the sum of its weights.
            match named.iter_mut().find(|(_, (other, _), _)| *other == adjacency) {
                Some((_, (_, weight), _)) => *weight += u32::from(path.weight),
                None => named.push((name, (adjacency, u32::from(path.weight)), is_up)),
            }
        }
        if !named.iter().any(|&(.., is_up)| is_up) {
            return None;
        }
        if let [(_, (adjacency, _), _)] = named[..] {
            return Some(Forwarding::adjacency(adjacency).0);
        }
        named.sort_unstable();
        let live: Paths = named.iter().filter(|(.., is_up)| *is_up).map(|&(_, path, _)| path).collect();
        let all: Paths = named.into_iter().map(|(_, path, _)| path).collect();
        let (set, new) = self.numbers.sets.number(&all);
        if new || self.routing.live.get(set as usize) != Some(&live) {
            let before: Option<Vec<u32>> = match (new, previous.map(|entry| entry.forwarding)) {
                (false, _) => Some(self.routing.set(set).to_vec()),
                (true, None) => None,
                (true, Some(forwarding)) => Some(match Forwarding(forwarding).set() {
                    Some(set) => self.routing.set(set).to_vec(),
                    None => vec![forwarding; ecmp::BUCKETS],
                }),
            };
            self.routing.set_live(set, live, before.as_deref());
        }
        Some(Forwarding::multipath(set).0)
    }
}

/// The interface of a next hop, and its address.
type NextHopName = (u32, Option<IpAddr>);

/// The link-layer header towards a neighbour, with the ethertype of IPv4, and its length.
fn link_layer(to: MacAddress, from: [u8; 6], tags: Tags) -> ([u8; MAX_L2], u8) {
    let mut header = Vec::with_capacity(MAX_L2);
    header.extend(to.0);
    header.extend(from);
    header.extend(tag_octets(tags));
    header.extend(ethertype::IPV4.to_be_bytes());
    let mut l2 = [0; MAX_L2];
    l2[..header.len()].copy_from_slice(&header);
    (l2, header.len() as u8)
}

/// Returns the octets of the tags between the addresses and the EtherType of a frame.
pub(crate) fn tag_octets(tags: Option<(Tag, Option<u16>)>) -> Vec<u8> {
    let mut octets = Vec::new();
    if let Some((outer, inner)) = tags {
        octets.extend(outer.tpid.to_be_bytes());
        octets.extend(outer.vid.to_be_bytes());
        if let Some(inner) = inner {
            octets.extend(ethertype::VLAN.to_be_bytes());
            octets.extend(inner.to_be_bytes());
        }
    }
    octets
}
