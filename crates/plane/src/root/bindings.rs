//! Bindings of hardware addresses to those of IP, as workers read them.
//!
//! The rules of a list are a classifier for each family, in which the hardware address stands where rules on packets have
//! the destination and its port: 32 bits and 16. So a prefix of a hardware address is a range, and all rules together cost
//! one lookup by the vector.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ipnet::Ipv6Net;
use weir_base::clock::Time;
use weir_base::reclaim::Published;
use weir_packet::wire::MacAddress;
use weir_table::classify::{Fields, Table};
use weir_table::lpm::Folding;

use crate::root::acl::Pages;
use crate::root::family::{Both, Family};

/// The interface has no bindings.
pub const NONE: u16 = u16::MAX;

/// Stands for a learned binding where the number of a rule stands.
pub(crate) const LEARNED: u32 = u32::MAX;

/// The bindings of all interfaces.
#[derive(Clone, Default)]
pub struct Bindings {
    /// Lists that interfaces name, by number.
    pub lists: Arc<[Bound]>,
    /// The counters of rules.
    pub pages: Pages,
    /// Bindings that were learned, of all lists; they outlive versions of the root.
    pub learned: Option<Arc<Published<LearnedTable>>>,
}

/// A station with an address at an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// The number of the interface.
    pub interface: u32,
    /// The station.
    pub mac: MacAddress,
    /// Its address.
    pub address: IpAddr,
}

impl Hash for Key {
    /// Hashes whole words: octet by octet, a packet would pay several times as much.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let [a, b, c, d, e, f] = self.mac.0;
        let station = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
        state.write_u128(u128::from(station) << 64 | u128::from(self.interface));
        match self.address {
            IpAddr::V4(address) => state.write_u32(address.to_bits()),
            IpAddr::V6(address) => state.write_u128(address.to_bits()),
        }
    }
}

/// The time of the last packet by a learned binding, which workers write and the control side reads.
#[derive(Debug, Default)]
pub struct LastUse(AtomicU64);

impl LastUse {
    /// Begins with a use now.
    pub(crate) fn new(now: Time) -> LastUse {
        LastUse(AtomicU64::new(now.0))
    }

    /// Notes a use. Packets of one vector share their time, so that most of them write nothing.
    #[inline]
    pub(crate) fn note(&self, now: Time) {
        if self.0.load(Ordering::Relaxed) < now.0 {
            self.0.store(now.0, Ordering::Relaxed);
        }
    }

    /// The time of the last use.
    pub(crate) fn time(&self) -> Time {
        Time(self.0.load(Ordering::Relaxed))
    }
}

/// The right of a station to an address.
#[derive(Debug, Clone)]
pub struct Permit {
    /// The time at which it ends.
    pub end: Time,
    /// The time of the last packet, if somebody wants to know it.
    pub last_use: Option<Arc<LastUse>>,
}

/// Bindings that were learned.
#[derive(Debug, Default)]
pub struct LearnedTable {
    /// Addresses of stations.
    pub permits: HashMap<Key, Permit, Folding>,
    /// Prefixes that were delegated to stations, each with the time at which that ends.
    pub prefixes: HashMap<(u32, MacAddress), Vec<(Ipv6Net, Time)>>,
}

impl LearnedTable {
    /// Returns whether a binding is there and has not ended, and notes its use.
    #[inline]
    pub(crate) fn admits(&self, key: &Key, now: Time) -> bool {
        if let Some(permit) = self.permits.get(key).filter(|permit| permit.end > now) {
            if let Some(last_use) = &permit.last_use {
                last_use.note(now);
            }
            return true;
        }
        let IpAddr::V6(address) = key.address else { return false };
        let prefixes = self.prefixes.get(&(key.interface, key.mac));
        prefixes.is_some_and(|all| all.iter().any(|(prefix, end)| prefix.contains(&address) && *end > now))
    }
}

/// A list of rules. Each packet matches one: the last matches all, and denies.
#[derive(Clone, Debug)]
pub struct Bound {
    /// Its place in the model.
    pub place: u16,
    /// For IPv4.
    pub v4: Arc<Table<u32>>,
    /// For IPv6.
    pub v6: Arc<Table<u128>>,
    /// The number of packets that no rule matches.
    pub end: u32,
    /// Learned bindings let packets pass that no rule matches.
    pub learns: bool,
    /// Messages of DHCP are looked at.
    pub snoops: bool,
    /// Claims of addresses of IPv6 are reported.
    pub watches: bool,
    /// The list learns them by first use.
    pub is_first_come: bool,
}

impl Both for Bound {
    type Part<K: Family> = Arc<Table<K>>;

    #[inline(always)]
    fn v4(&self) -> &Arc<Table<u32>> {
        &self.v4
    }

    #[inline(always)]
    fn v6(&self) -> &Arc<Table<u128>> {
        &self.v6
    }
}

/// Returns the fields that rules match.
#[inline(always)]
pub(crate) fn fields<K: Family>(mac: [u8; 6], source: K) -> Fields<K> {
    let [a, b, c, d, e, f] = mac;
    let (upper, lower) = (u32::from_be_bytes([a, b, c, d]), u16::from_be_bytes([e, f]));
    Fields::new(source, K::from(upper), 0).with_ports(0, lower)
}

/// The result of a lookup: the number of a rule, and whether it permits. A number without a rule denies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Verdict(pub(crate) u32);

impl Verdict {
    pub(crate) fn new(number: u32, permit: bool) -> Verdict {
        Verdict(number << 1 | u32::from(!permit))
    }

    #[inline(always)]
    pub(crate) fn permits(self) -> bool {
        self.0 & 1 == 0
    }

    #[inline(always)]
    pub(crate) fn number(self) -> u32 {
        self.0 >> 1
    }
}
