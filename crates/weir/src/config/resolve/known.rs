//! The declared objects by name, as far as they are known.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use ipnet::IpNet;
use weir_plane::model::{SamplerIndex, SavIndex, VrfIndex};

use super::super::source::Span;
use super::sav::shared::Shared;
use crate::rules::acl::Vocabulary;

/// The lists and groups that are resolved so far.
#[derive(Default)]
pub(super) struct Access<'a> {
    pub(super) lists: Named<'a>,
    pub(super) allowlists: Named<'a>,
    pub(super) bindings: Named<'a>,
    pub(super) classify: Named<'a>,
    pub(super) nat: Named<'a>,
    pub(super) spd: Named<'a>,
    pub(super) steer: Named<'a>,
    /// The names of SAs that rules name.
    pub(super) sas_used: BTreeSet<String>,
    /// The names that rules may use.
    pub(super) vocabulary: Vocabulary,
    /// Groups by name, and whether something names them.
    pub(super) groups: Named<'a>,
    /// Where the rules of each list stand.
    pub(super) places: Vec<Vec<Span>>,
    /// Where the rules of each list of NAT rules stand.
    pub(super) nat_places: Vec<Vec<Span>>,
    /// Where the rules of each SPD stand.
    pub(super) spd_places: Vec<Vec<Span>>,
    /// The SPDs of which some rules have errors, or name SAs that have some.
    pub(super) spd_lost: Vec<bool>,
    /// Where the rules of each list of steer rules stand.
    pub(super) steer_places: Vec<Vec<Span>>,
}

/// Objects of a kind by their names. What is declared first under a name counts; its index is that of the declaration.
#[derive(Default)]
pub(super) struct Named<'a> {
    pub(super) by_name: HashMap<&'a str, u16>,
    /// Something names it.
    pub(super) used: Vec<bool>,
}

/// Connected prefixes by VRF.
#[derive(Default)]
pub(super) struct Connected {
    pub(super) prefixes: HashMap<(VrfIndex, IpNet), Link>,
    /// The lengths that occur, for IPv4 and IPv6.
    pub(super) lengths: [BTreeSet<u8>; 2],
    pub(super) own: HashMap<(VrfIndex, IpAddr), Link>,
}

/// An interface and the address that makes the connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Link {
    /// Index of the declared interface.
    pub(super) interface: usize,
    /// The address there.
    pub(super) span: Span,
    /// The connected prefix.
    pub(super) prefix: IpNet,
}

impl Connected {
    /// The longest connected prefix that holds an address.
    pub(super) fn holding(&self, vrf: VrfIndex, address: IpAddr) -> Option<Link> {
        self.lengths[usize::from(address.is_ipv6())].iter().rev().find_map(|&length| {
            let prefix = IpNet::new(address, length).ok()?.trunc();
            self.prefixes.get(&(vrf, prefix)).copied()
        })
    }

    /// The connection by exactly this prefix.
    pub(super) fn exactly(&self, vrf: VrfIndex, prefix: IpNet) -> Option<Link> {
        self.prefixes.get(&(vrf, prefix)).copied()
    }

    /// The interface that has this address.
    pub(super) fn own(&self, vrf: VrfIndex, address: IpAddr) -> Option<Link> {
        self.own.get(&(vrf, address)).copied()
    }
}

/// Samplers by name, and what is known of them so far.
#[derive(Default)]
pub(super) struct Samplers<'a> {
    pub(super) by_name: HashMap<&'a str, SamplerIndex>,
    /// Something names it.
    pub(super) used: Vec<bool>,
}

/// Policies by name, and what is known of them so far.
#[derive(Default)]
pub(super) struct Policies<'a> {
    /// Declared policies by name, as indices of `declared.sav`; of equal names, the first.
    pub(super) by_name: HashMap<&'a str, usize>,
    /// The index in the model of each declared policy, unless it validates nothing.
    pub(super) index_of: Vec<Option<SavIndex>>,
    /// Some interface names it.
    pub(super) used: Vec<bool>,
    /// Lines of files that several policies read.
    pub(super) shared: Shared,
}
