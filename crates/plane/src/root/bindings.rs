//! Bindings of hardware addresses to those of IP, as workers read them.
//!
//! The rules of a list are a classifier for each family, in which the hardware address stands where rules on packets have
//! the destination and its port: 32 bits and 16. So a prefix of a hardware address is a range, and all rules together cost
//! one lookup by the vector.

use std::sync::Arc;

use weir_table::classify::{Address, Fields, Table};

use crate::root::acl::Pages;
use crate::root::sav::Family;

/// The interface has no bindings.
pub const NONE: u16 = u16::MAX;

/// What interfaces ask of hardware addresses.
#[derive(Clone, Default)]
pub struct Bindings {
    /// Lists that interfaces name, by number.
    pub lists: Arc<[Bound]>,
    /// What is counted of each rule.
    pub pages: Pages,
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
}

/// An address family, as bindings see it.
pub trait Bind: Family + Address + From<u32> {
    /// The rules of the family.
    fn table(bound: &Bound) -> &Table<Self>;
}

impl Bind for u32 {
    #[inline(always)]
    fn table(bound: &Bound) -> &Table<u32> {
        &bound.v4
    }
}

impl Bind for u128 {
    #[inline(always)]
    fn table(bound: &Bound) -> &Table<u128> {
        &bound.v6
    }
}

/// What rules ask about.
#[inline(always)]
pub(crate) fn fields<K: Bind>(mac: [u8; 6], source: K) -> Fields<K> {
    let [a, b, c, d, e, f] = mac;
    let (upper, lower) = (u32::from_be_bytes([a, b, c, d]), u16::from_be_bytes([e, f]));
    Fields::new(source, K::from(upper), 0).with_ports(0, lower)
}

/// What a lookup finds: the number of a rule, and whether it permits. What is no rule does not.
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
