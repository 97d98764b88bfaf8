//! Prefixes of links (RFC 6620, 3.2.1): from the configuration, and from routers behind trusted interfaces, whose advertisements are
//! read as a host reads them (RFC 4861, 6.3.4).

use std::collections::{BTreeMap, HashMap};
use std::net::Ipv6Addr;
use std::sync::Arc;

use ipnet::{IpNet, Ipv6Net};
use weir_base::clock::Time;
use weir_base::random::SecureRandom;
use weir_packet::wire::nd;

use crate::compile::Map;
use crate::graph::events::MOST_PREFIXES;
use crate::model;

/// Solicitations of routers, the nanoseconds between them, and those before the first one at most (RFC 4861, 10:
/// MAX_RTR_SOLICITATIONS, RTR_SOLICITATION_INTERVAL, MAX_RTR_SOLICITATION_DELAY).
const SOLICITATIONS: u8 = 3;
const INTERVAL: u64 = 4_000_000_000;
const MOST_DELAY: u64 = 1_000_000_000;

/// The result of an advertised prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Advertised {
    /// The prefixes of the link are the same.
    Same,
    /// Other addresses are of the link now.
    Changed,
    /// There is no room for the prefix.
    Full,
}

/// A trusted interface.
#[derive(Debug, Default)]
struct Trusted {
    /// Prefixes that routers advertise, with their ends. Once there was one, the prefixes of the link are known; until then, they are
    /// not.
    learned: Option<BTreeMap<Ipv6Net, Time>>,
    /// The next solicitation of routers, and how many there are left.
    solicitation: Option<(Time, u8)>,
    /// Routers were solicited, or are to be.
    is_asked: bool,
}

/// The prefixes of all links.
#[derive(Default)]
pub(super) struct Prefixes {
    /// Prefixes of the configuration, by list.
    declared: HashMap<u16, Arc<[Ipv6Net]>>,
    /// Prefixes of the gateway's addresses, with the number of the interface.
    own: Vec<(u32, Ipv6Net)>,
    /// By number of the interface.
    trusted: BTreeMap<u32, Trusted>,
}

impl Prefixes {
    /// Goes by another model. What was learned stays at interfaces that are still trusted.
    pub(super) fn adopt(&mut self, model: &model::Gateway, map: &Map) {
        let limited = (0..).zip(&model.bindings).filter(|(_, list)| !list.prefixes.is_empty());
        self.declared = limited.map(|(place, list)| (place, Arc::clone(&list.prefixes))).collect();
        let interfaces = || model.interfaces.iter().zip(map.interfaces.iter().copied());
        let own = interfaces().flat_map(|(own, number)| own.addresses.iter().map(move |address| (number, address.net)));
        self.own = own.filter_map(|(number, net)| v6(net).map(|net| (number, net.trunc()))).collect();
        let mut before = std::mem::take(&mut self.trusted);
        let trusted = interfaces().filter(|(own, _)| own.access.slaac_trusted);
        self.trusted = trusted.map(|(_, number)| (number, before.remove(&number).unwrap_or_default())).collect();
    }

    /// Has routers solicited at interfaces that `wanted` names from now on (RFC 4861, 6.3.7), and at no others.
    pub(super) fn solicit(&mut self, wanted: impl Fn(u32) -> bool, now: Time, random: &mut SecureRandom) {
        for (&number, own) in &mut self.trusted {
            match wanted(number) {
                true if !own.is_asked => {
                    own.is_asked = true;
                    own.solicitation = Some((after(now, random.below(MOST_DELAY + 1)), SOLICITATIONS));
                }
                true => {}
                // Once the link is up again, there may be other routers.
                false => (own.is_asked, own.solicitation) = (false, None),
            }
        }
    }

    /// Takes in a prefix that a router behind an interface advertises.
    pub(super) fn advertised(&mut self, interface: u32, prefix: &nd::Prefix, now: Time) -> Advertised {
        let Some(own) = self.trusted.get_mut(&interface) else { return Advertised::Same };
        // It is an answer, whatever it says.
        own.solicitation = None;
        let Ok(net) = Ipv6Net::new(prefix.prefix, prefix.length).map(|net| net.trunc()) else {
            return Advertised::Same;
        };
        let address = net.addr();
        if !prefix.on_link || address.is_unicast_link_local() || address.is_multicast() {
            return Advertised::Same;
        }
        if prefix.valid_lifetime == 0 {
            let ended = own.learned.as_mut().is_some_and(|learned| learned.remove(&net).is_some());
            return if ended { Advertised::Changed } else { Advertised::Same };
        }
        let end = match prefix.valid_lifetime {
            u32::MAX => Time(u64::MAX),
            seconds => after(now, u64::from(seconds) * 1_000_000_000),
        };
        let learned = own.learned.get_or_insert_default();
        if learned.len() >= MOST_PREFIXES && !learned.contains_key(&net) {
            return Advertised::Full;
        }
        if learned.insert(net, end).is_none() { Advertised::Changed } else { Advertised::Same }
    }

    /// Ends the prefixes whose time is over; gives the interfaces at which they were learned.
    pub(super) fn end_due(&mut self, now: Time) -> Vec<u32> {
        let mut ended = Vec::new();
        for (&number, own) in &mut self.trusted {
            let Some(learned) = &mut own.learned else { continue };
            let before = learned.len();
            learned.retain(|_, end| *end > now);
            if learned.len() < before {
                ended.push(number);
            }
        }
        ended
    }

    /// The interfaces at which routers are to be solicited now.
    pub(super) fn solicit_due(&mut self, now: Time) -> Vec<u32> {
        let mut due = Vec::new();
        for (&number, own) in &mut self.trusted {
            if let Some((_, left)) = own.solicitation.filter(|(time, _)| *time <= now) {
                due.push(number);
                own.solicitation = (left > 1).then(|| (after(now, INTERVAL), left - 1));
            }
        }
        due
    }

    /// When something is due next.
    pub(super) fn next(&self) -> Option<Time> {
        let ends = self.trusted.values().filter_map(|own| own.learned.as_ref()?.values().min().copied());
        let solicitations = self.trusted.values().filter_map(|own| own.solicitation.map(|(time, _)| time));
        ends.filter(|end| end.0 != u64::MAX).chain(solicitations).min()
    }

    /// An address may be of a link, by what is known of it: by the list at `place`, and by interfaces that `is_of_link` names.
    pub(super) fn contain(&self, place: u16, address: Ipv6Addr, is_of_link: impl Fn(u32) -> bool) -> bool {
        let declared = self.declared.get(&place);
        let of_link = || self.trusted.iter().filter(|(number, _)| is_of_link(**number));
        let learned = || of_link().filter_map(|(_, own)| own.learned.as_ref());
        if declared.is_none() && learned().next().is_none() {
            return true;
        }
        // Without a list of prefixes, those of the gateway's own addresses are beside those of other routers.
        let own = self.own.iter().filter(|(number, _)| declared.is_none() && is_of_link(*number)).map(|(_, net)| net);
        let declared = declared.into_iter().flat_map(|all| all.iter());
        declared.chain(learned().flat_map(BTreeMap::keys)).chain(own).any(|prefix| prefix.contains(&address))
    }

    /// The prefixes that were learned, by interface, with their ends.
    pub(super) fn learned(&self) -> impl Iterator<Item = (u32, Ipv6Net, Time)> + '_ {
        let all = self.trusted.iter().filter_map(|(&number, own)| Some((number, own.learned.as_ref()?)));
        all.flat_map(|(number, learned)| learned.iter().map(move |(&net, &end)| (number, net, end)))
    }
}

fn v6(net: IpNet) -> Option<Ipv6Net> {
    match net {
        IpNet::V6(net) => Some(net),
        IpNet::V4(_) => None,
    }
}

fn after(time: Time, nanoseconds: u64) -> Time {
    Time(time.0.saturating_add(nanoseconds))
}
