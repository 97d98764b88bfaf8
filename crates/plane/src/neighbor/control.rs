//! The control side of neighbours, without threads and ports: events of workers go in; frames to send, changes of the
//! root and news for operators come out. A live gateway runs it on a thread ([`crate::engine`]); tests step it by hand
//! ([`crate::engine::harness`]).

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use ipnet::IpNet;
use weir_base::clock::Time;
use weir_base::random::SecureRandom;
use weir_packet::wire::MacAddress;

use crate::compile::{Change, Compiler, Learned, Map, Places, Prepared, StagedAcls, TableFull, tag_octets};
use crate::model::{self, InterfaceKind};
use crate::neighbor::learned::{Contest, Learned as LearnedBindings, Limit, Probe};
use crate::neighbor::{Action, Event, Link, NeighborChange, Table};
use crate::root::{Interface, Root};

/// Something that happened and that people want to know, once.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum News {
    /// The link of an interface is down: what was routed there is not any more.
    LinkDown {
        /// Its name.
        interface: String,
    },
    /// It is back.
    LinkUp {
        /// Its name.
        interface: String,
    },
    /// The device of an interface refuses packets that the MTU of the interface permits: such packets are lost.
    /// Reported when the MTU of the device changes.
    DeviceMtu {
        /// Its name.
        interface: String,
        /// The interface's, in octets.
        mtu: u32,
        /// The device's, in octets.
        device: usize,
    },
    /// The punt device of an interface was deleted: packets for the host are dropped.
    PuntMissing {
        /// The name of the interface.
        interface: String,
        /// The name of the device.
        device: String,
        /// The gateway had created it, and creates it again.
        own: bool,
    },
    /// The punt device of an interface is set down: packets for the host are dropped.
    PuntDown {
        /// The name of the interface.
        interface: String,
        /// The name of the device.
        device: String,
    },
    /// Packets can pass the punt device of an interface again.
    PuntUp {
        /// The name of the interface.
        interface: String,
        /// The name of the device.
        device: String,
    },
    /// The punt device of an interface was renamed, and stays in use.
    PuntRenamed {
        /// The name of the interface.
        interface: String,
        /// The former name of the device.
        before: String,
        /// Its name.
        device: String,
    },
    /// The punt device of an interface cannot be created again. Reported for the first attempt only.
    PuntRefused {
        /// The name of the interface.
        interface: String,
        /// The name of the device.
        device: String,
        /// The reason.
        error: String,
    },
    /// Another station has an address of ours already: it is not used (RFC 4862, 5.4.5).
    DuplicateAddress {
        /// The name of the interface.
        interface: String,
        /// The address.
        address: Ipv6Addr,
    },
    /// Another station uses an address of the gateway: the gateway defended the address (RFC 5227, 2.4). Reported every
    /// ten seconds at most.
    AddressConflict {
        /// The name of the interface.
        interface: String,
        /// The address.
        address: IpAddr,
        /// The other's hardware address.
        mac: MacAddress,
    },
    /// The neighbour table is full: neighbours displace each other. Reported every minute at most.
    NeighborTableFull {
        /// How many it takes.
        limit: usize,
    },
    /// The stage of a SAV policy has ended, and the configured action applies again: the policy is gone or no longer
    /// has the parts that the stage needs.
    StageEnded {
        /// The name of the policy.
        policy: String,
    },
    /// A soft lifetime of an SA is over: it needs a successor.
    SaSoft {
        /// The name of its pair.
        sa: String,
        /// It sends.
        outbound: bool,
        /// Its SPI.
        spi: u32,
        /// The limit that was reached: `time`, `packets` or `octets`.
        limit: &'static str,
    },
    /// A hard lifetime of an SA is over: it sends and accepts nothing more.
    SaExpired {
        /// The name of its pair.
        sa: String,
        /// It sends.
        outbound: bool,
        /// Its SPI.
        spi: u32,
        /// The limit that was reached: `time`, `packets` or `octets`.
        limit: &'static str,
    },
    /// A station did not get a lease, as one behind another interface has it and is still there. Reported every minute at most for
    /// each interface.
    LeaseKept {
        /// The address or prefix.
        net: IpNet,
        /// The name of the interface of the exchange.
        interface: String,
        /// The client of the exchange.
        mac: MacAddress,
        /// The name of the interface of the station that has it.
        holder: String,
        /// Its hardware address.
        holder_mac: MacAddress,
    },
    /// A binding of an interface was not learned or ended for want of room. Reported every minute at most for each interface and bound.
    NotLearned {
        /// Its name.
        interface: String,
        /// The bound.
        bound: &'static str,
    },
    /// A forwarding table has no room for routes to neighbours: packets for them are lost. Reported every minute at
    /// most.
    NoRoomForNeighbors {
        /// How many found none at once.
        count: usize,
    },
}

impl News {
    /// Returns the name of the interface that the event is about, if it is about one.
    #[must_use]
    pub fn interface(&self) -> Option<&str> {
        match self {
            News::LinkDown { interface }
            | News::LinkUp { interface }
            | News::DeviceMtu { interface, .. }
            | News::PuntMissing { interface, .. }
            | News::PuntDown { interface, .. }
            | News::PuntUp { interface, .. }
            | News::PuntRenamed { interface, .. }
            | News::PuntRefused { interface, .. }
            | News::DuplicateAddress { interface, .. }
            | News::AddressConflict { interface, .. }
            | News::LeaseKept { interface, .. }
            | News::NotLearned { interface, .. } => Some(interface),
            News::NeighborTableFull { .. }
            | News::StageEnded { .. }
            | News::SaSoft { .. }
            | News::SaExpired { .. }
            | News::NoRoomForNeighbors { .. } => None,
        }
    }

    /// Returns the kind and name of the object that the event is about, if it is about one that is no interface.
    #[must_use]
    pub fn object(&self) -> Option<String> {
        match self {
            News::StageEnded { policy } => Some(format!("sav {policy}")),
            News::SaSoft { sa, .. } | News::SaExpired { sa, .. } => Some(format!("sa {sa}")),
            _ => None,
        }
    }
}

impl fmt::Display for News {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            News::LinkDown { interface } => write!(f, "interface {interface}: link down"),
            News::LinkUp { interface } => write!(f, "interface {interface}: link up"),
            News::DeviceMtu { interface, mtu, device } => {
                write!(
                    f,
                    "interface {interface}: its device carries packets of up to {device} octets now, its MTU is {mtu}: longer ones are lost"
                )
            }
            News::PuntMissing { interface, device, own } => {
                let then = if *own { "it is created again soon" } else { "create it, or reload" };
                write!(
                    f,
                    "interface {interface}: punt device {device} is missing, packets for the host are dropped: {then}"
                )
            }
            News::PuntDown { interface, device } => {
                write!(f, "interface {interface}: punt device {device} is down, packets for the host are dropped")
            }
            News::PuntUp { interface, device } => write!(f, "interface {interface}: punt device {device} is up"),
            News::PuntRenamed { interface, before, device } => {
                write!(f, "interface {interface}: punt device {before} was renamed to {device}, and stays in use")
            }
            News::PuntRefused { interface, device, error } => {
                write!(
                    f,
                    "interface {interface}: punt device {device} cannot be created, further attempts follow: {error}"
                )
            }
            News::StageEnded { policy } => {
                write!(
                    f,
                    "sav policy {policy}: its stage has ended, as the new configuration does not have what it needs"
                )
            }
            News::DuplicateAddress { interface, address } => {
                write!(f, "interface {interface}: another station has {address}: not used")
            }
            News::AddressConflict { interface, address, mac } => {
                write!(f, "interface {interface}: {mac} uses our address {address}")
            }
            News::NeighborTableFull { limit } => {
                write!(f, "the neighbour table is full at {limit} entries: neighbours that never answered are evicted")
            }
            News::SaSoft { sa, outbound, spi, limit } => {
                let direction = if *outbound { "outbound" } else { "inbound" };
                write!(f, "sa {sa}: the soft lifetime of its {direction} SA {spi:#x} is over ({limit}): rekey it")
            }
            News::SaExpired { sa, outbound, spi, limit } => {
                let (direction, what) = if *outbound { ("outbound", "sends") } else { ("inbound", "accepts") };
                write!(
                    f,
                    "sa {sa}: the hard lifetime of its {direction} SA {spi:#x} is over ({limit}): it {what} nothing more"
                )
            }
            News::LeaseKept { net, interface, mac, holder, holder_mac } => {
                let is_host = net.prefix_len() == net.max_prefix_len();
                let what = if is_host { net.addr().to_string() } else { net.to_string() };
                write!(
                    f,
                    "interface {interface}: {mac} does not get the lease of {what}: {holder_mac} at {holder} has it"
                )
            }
            News::NotLearned { interface, bound } => {
                write!(
                    f,
                    "interface {interface}: a binding was not learned, or ended for a new one: {bound} is reached"
                )
            }
            News::NoRoomForNeighbors { count } => {
                let s = if *count == 1 { "" } else { "s" };
                write!(f, "no room in a forwarding table for routes to {count} neighbour{s}")
            }
        }
    }
}

/// The work that follows from an event.
#[derive(Default)]
pub(crate) struct Work {
    /// Frames to send, each with the number of its interface.
    pub(crate) frames: Vec<(u32, Box<[u8]>)>,
    /// For the next root.
    pub(crate) changes: Vec<Change>,
    /// For people; names for numbers are looked up already.
    pub(crate) news: Vec<News>,
    /// For people who watch neighbours.
    pub(crate) neighbors: Vec<NeighborChange>,
}

/// The table of neighbours, and who the interfaces are.
pub(crate) struct Keeper {
    pub(crate) table: Table,
    /// Bindings that are learned.
    pub(crate) learned: LearnedBindings,
    /// By number.
    names: Vec<String>,
    actions: Vec<Action>,
    /// Somebody watches neighbours.
    pub(crate) is_watched: bool,
    /// The time of the last report that a forwarding table has no room.
    no_room: Option<Time>,
    /// The times of the last reports on bindings, by interface and bound; `None`: on a lease that another station kept.
    told: HashMap<(u32, Option<Limit>), Option<Time>>,
    /// It finds no neighbours, and tests and announces no addresses.
    is_idle: bool,
}

/// Nanoseconds between two such notices.
const NOTICE: u64 = 60_000_000_000;

impl Keeper {
    /// Knows of no link yet.
    pub(crate) fn new(model: &model::Gateway, random: SecureRandom) -> Keeper {
        let table = Table::new(model.neighbor_discovery, model.limits.neighbors, random);
        Keeper {
            table,
            learned: LearnedBindings::default(),
            names: Vec::new(),
            actions: Vec::new(),
            is_watched: false,
            no_room: None,
            told: HashMap::new(),
            is_idle: false,
        }
    }

    /// A keeper that finds no neighbours, and tests and announces no addresses: for a gateway whose caller does, or nobody.
    pub(crate) fn idle(model: &model::Gateway, random: SecureRandom) -> Keeper {
        Keeper { is_idle: true, ..Keeper::new(model, random) }
    }

    /// Goes by another model: its links are `links`, as [`links`] has them.
    pub(crate) fn adopt(&mut self, model: &model::Gateway, map: &Map, links: Vec<Link>, now: Time, work: &mut Work) {
        for (interface, &number) in model.interfaces.iter().zip(&map.interfaces) {
            if self.names.len() <= number as usize {
                self.names.resize(number as usize + 1, String::new());
            }
            self.names[number as usize].clone_from(&interface.name);
        }
        let own = |link: &Link| {
            let number = link.interface;
            let mut addresses: Vec<IpAddr> = link.addresses.iter().map(|own| own.addr()).collect();
            // The anycast address of the routers of a subnet (RFC 4291, 2.6.1).
            let subnets = link.addresses.iter().filter(|own| own.addr().is_ipv6() && own.prefix_len() < 127);
            addresses.extend(subnets.map(IpNet::network));
            addresses.into_iter().map(move |address| (number, address))
        };
        self.learned.adopt(model, map, links.iter().flat_map(own));
        if self.is_idle {
            return;
        }
        let up = links.iter().filter(|link| link.up).map(|link| link.interface).collect();
        self.learned.solicit(&up, now, &mut self.table.random);
        self.table.set(model.neighbor_discovery);
        self.table.set_links(links, now, &mut self.actions);
        self.translate(work);
    }

    /// Addresses of ours, with the number of their interface, that must not be used once these links are in force.
    pub(crate) fn unusable(&self, links: &[Link]) -> HashSet<(u32, Ipv6Addr)> {
        if self.is_idle { HashSet::new() } else { self.table.unusable(links) }
    }

    /// Takes in what a worker saw.
    pub(crate) fn handle(&mut self, event: &Event, now: Time, work: &mut Work) {
        let mut probes = Vec::new();
        if self.learned.handle(event, now, &mut probes) {
            self.probe(probes, work);
            return self.tell(now, work);
        }
        self.table.handle(event, now, &mut self.actions);
        self.translate(work);
    }

    /// Takes note of a neighbour that somebody else has resolved.
    pub(crate) fn hint(&mut self, interface: u32, found: (IpAddr, MacAddress), now: Time, work: &mut Work) {
        if !self.is_idle {
            self.table.hint(interface, found, now, &mut self.actions);
            self.translate(work);
        }
    }

    /// Does what is due.
    pub(crate) fn step(&mut self, now: Time, work: &mut Work) {
        let mut probes = Vec::new();
        self.learned.step(now, &mut probes);
        self.probe(probes, work);
        for interface in self.learned.solicitations(now) {
            work.frames.extend(self.table.router_solicitation(interface).map(|frame| (interface, frame)));
        }
        self.tell(now, work);
        self.table.step(now, &mut self.actions);
        self.translate(work);
    }

    /// When something is due next.
    pub(crate) fn next(&self) -> Option<Time> {
        [self.table.next(), self.learned.next()].into_iter().flatten().min()
    }

    /// Sends probes of stations that have learned bindings.
    fn probe(&self, probes: Vec<Probe>, work: &mut Work) {
        let frame = |Probe { interface, target, station }| {
            let mut frame = self.table.probe(interface, target)?;
            if let (Some(station), Some(destination)) = (station, frame.first_chunk_mut()) {
                *destination = station.0;
            }
            Some((interface, frame))
        };
        work.frames.extend(probes.into_iter().filter_map(frame));
    }

    /// Says which bindings were not learned, and why: every minute at most for each interface and reason.
    fn tell(&mut self, now: Time, work: &mut Work) {
        let mut may = |interface: u32, limit: Option<Limit>| {
            let last = self.told.entry((interface, limit)).or_insert(None);
            let may = last.is_none_or(|last| now.since(last) >= NOTICE);
            if may {
                *last = Some(now);
            }
            may
        };
        let contests: Vec<Contest> = self.learned.take_contests();
        let contests: Vec<Contest> = contests.into_iter().filter(|own| may(own.to.interface, None)).collect();
        let reached = self.learned.take_reached();
        let reached: Vec<_> = reached.into_iter().filter(|&(interface, limit)| may(interface, Some(limit))).collect();
        work.news.extend(contests.into_iter().map(|Contest { net, from, to }| News::LeaseKept {
            net,
            interface: self.name(to.interface),
            mac: to.mac,
            holder: self.name(from.interface),
            holder_mac: from.mac,
        }));
        work.news.extend(
            reached
                .into_iter()
                .map(|(interface, limit)| News::NotLearned { interface: self.name(interface), bound: limit.words() }),
        );
    }

    /// Forgets what was learned.
    pub(crate) fn clear(&mut self, work: &mut Work) {
        self.table.clear(&mut self.actions);
        self.translate(work);
    }

    /// Takes its leave of the links.
    pub(crate) fn farewell(&mut self, work: &mut Work) {
        self.table.farewell(&mut self.actions);
        self.translate(work);
    }

    /// Takes leave of links that will not be among `links`: while they are still there.
    pub(crate) fn leave(&mut self, links: &[Link], work: &mut Work) {
        self.table.leave(links, &mut self.actions);
        self.translate(work);
    }

    /// The name of an interface.
    pub(crate) fn name(&self, number: u32) -> String {
        self.names.get(number as usize).cloned().unwrap_or_default()
    }

    /// Notes a change of a neighbour for watchers.
    fn note(&self, work: &mut Work, (interface, address): (u32, IpAddr), found: Option<(MacAddress, bool)>) {
        if self.is_watched {
            let (mac, stale) = (found.map(|found| found.0), found.is_some_and(|found| found.1));
            work.neighbors.push(NeighborChange { interface: self.name(interface), address, mac, stale });
        }
    }

    fn translate(&mut self, work: &mut Work) {
        let mut actions = std::mem::take(&mut self.actions);
        for action in actions.drain(..) {
            match action {
                Action::Send { interface, frame } => work.frames.push((interface, frame)),
                Action::Resolved { interface, address, mac, stale } => {
                    self.note(work, (interface, address), Some((mac, stale)));
                    let learned = Some(Learned { mac, stale });
                    work.changes.push(Change::Neighbor { interface, address, learned });
                }
                Action::Gone { interface, address } => {
                    self.note(work, (interface, address), None);
                    work.changes.push(Change::Neighbor { interface, address, learned: None });
                }
                Action::Tentative { interface, address, duplicate: false } => {
                    work.changes.push(Change::Usable { interface, address });
                }
                Action::Tentative { interface, address, duplicate: true } => {
                    work.news.push(News::DuplicateAddress { interface: self.name(interface), address });
                }
                Action::Conflict { interface, address, mac } => {
                    work.news.push(News::AddressConflict { interface: self.name(interface), address, mac });
                }
                Action::Full { limit } => work.news.push(News::NeighborTableFull { limit }),
            }
        }
        self.actions = actions;
    }
}

/// Prepares a model by [`Compiler::prepare`], without the addresses that are not ours yet, which `unusable` finds out by
/// [`Keeper::unusable`]. `acls` are its access lists. Returns the model for the commit, and the links for [`Keeper::adopt`] once
/// it is in force.
pub(crate) fn prepare(
    compiler: &Compiler,
    acls: StagedAcls,
    unusable: impl FnOnce(&[Link]) -> HashSet<(u32, Ipv6Addr)>,
    model: &model::Gateway,
    places: &mut Places,
    announces: impl Fn(u32) -> bool,
) -> Result<(Prepared, Vec<Link>), TableFull> {
    let (map, interfaces) = compiler.outline(model, places);
    let links = links(model, &map, &interfaces, announces);
    places.unusable = unusable(&links);
    Ok((compiler.prepare_with(model, places, acls)?, links))
}

/// The root that follows from what was learned, if anything was.
pub(crate) fn change(compiler: &mut Compiler, keeper: &mut Keeper, now: Time, work: &mut Work) -> Option<Root> {
    if work.changes.is_empty() {
        return None;
    }
    let (root, refused) = compiler.change(work.changes.drain(..));
    if refused > 0 && keeper.no_room.is_none_or(|last| now.since(last) >= NOTICE) {
        keeper.no_room = Some(now);
        work.news.push(News::NoRoomForNeighbors { count: refused });
    }
    Some(root)
}

/// The links of a model, whose interfaces are `interfaces` by number. `announces` says of a port, by the model's index, that
/// there may be stations behind it that we do not know of.
fn links(model: &model::Gateway, map: &Map, interfaces: &[Interface], announces: impl Fn(u32) -> bool) -> Vec<Link> {
    let mut links: Vec<Link> = Vec::with_capacity(model.interfaces.len());
    for (index, interface) in (0..).zip(&model.interfaces) {
        let number = map.interfaces[index as usize];
        let compiled = &interfaces[number as usize];
        let (port, tags) = match interface.kind {
            InterfaceKind::Port { .. } => (index, None),
            InterfaceKind::Vlan { parent, outer, inner } => (parent.0, Some((outer, inner))),
            InterfaceKind::Ipsec | InterfaceKind::Tunnel(_) | InterfaceKind::Bridge(_) => (index, None),
        };
        let own = compiled.addresses.iter().chain(compiled.tentative.iter());
        links.push(Link {
            interface: number,
            mac: MacAddress(compiled.mac),
            tags: tag_octets(tags),
            mtu: compiled.mtu,
            addresses: own.map(|own| own.net).collect(),
            fixed: HashSet::new(),
            up: !compiled.down,
            announces: match interface.kind {
                InterfaceKind::Ipsec => false,
                InterfaceKind::Tunnel(tunnel) => tunnel.carrier.is_ethernet(),
                InterfaceKind::Bridge(_) => true,
                _ => announces(port) && compiled.peer.is_none(),
            },
            router: interface.router_advertisement,
        });
    }
    for neighbor in &model.neighbors {
        links[neighbor.interface.0 as usize].fixed.insert(neighbor.address);
    }
    links
}
