//! Classifier tables: exact match of masked octets, with an action for each session.

use std::sync::Arc;

use super::acl::{AclLimit, IpFamily};
use super::index::VrfIndex;
use super::origin::Origin;
use super::route::NextHop;
use super::sample::Sampling;

/// Index of a table in [`Gateway::classify`](super::Gateway::classify).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClassifyIndex(pub u16);

/// The header that a mask begins at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClassifyStart {
    /// The link-layer header, as the frame came in.
    Link,
    /// The header of IP.
    Network,
    /// The transport header.
    Transport,
    /// The metadata of the packet: its mark in [`META_INTERFACE`] octets, and in [`META_NAME`] octets each, with zeros
    /// behind them, the name of the interface that it came in by and that of this interface's VRF.
    Meta,
}

/// Where values of [`ClassifyStart::Meta`] have the name of the interface.
pub const META_INTERFACE: usize = 4;
/// Where they have the name of the VRF.
pub const META_VRF: usize = META_INTERFACE + META_NAME;
/// Octets of a name there.
pub const META_NAME: usize = 31;

impl ClassifyStart {
    /// The names of the interface and of the VRF in the value of a session, where it has them.
    pub fn names(self, value: &[u8]) -> [Option<&str>; 2] {
        if self != ClassifyStart::Meta {
            return [None, None];
        }
        [META_INTERFACE, META_VRF].map(|at| {
            let octets = value.get(at..)?;
            let octets = octets.get(..META_NAME).unwrap_or(octets);
            let name = octets.split(|&octet| octet == 0).next().unwrap_or_default();
            std::str::from_utf8(name).ok().filter(|name| !name.is_empty())
        })
    }

    /// Whether the mark, the interface and the VRF count in a mask.
    pub fn counted(self, mask: &[u8]) -> [bool; 3] {
        let counts = |from: usize, to: usize| mask.iter().take(to).skip(from).any(|&octet| octet != 0);
        match self {
            ClassifyStart::Meta => {
                [counts(0, META_INTERFACE), counts(META_INTERFACE, META_VRF), counts(META_VRF, META_VRF + META_NAME)]
            }
            _ => [false; 3],
        }
    }
}

/// A classifier table.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassifyTable {
    /// Its name, unique.
    pub name: String,
    /// The header that the mask begins at.
    pub start: ClassifyStart,
    /// The family of the packets that may match; `None`: both.
    pub family: Option<IpFamily>,
    /// The octets that count: some bit is set, and the last octet is not zero.
    pub mask: Arc<[u8]>,
    /// The mask as it was written.
    pub text: Arc<str>,
    /// Sessions at most, 1 or more, and no fewer than there are.
    pub size: u32,
    /// The table for packets that match no session. There is no circle.
    pub next: Option<ClassifyIndex>,
    /// Without a next table: packets that match no session pass.
    pub permits_misses: bool,
    /// The sessions; no two have one value.
    pub sessions: Arc<[ClassifySession]>,
    /// The actions that sessions have.
    pub actions: Arc<[ClassifyAction]>,
    /// Where it was declared.
    pub origin: Origin,
}

/// A session of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassifySession {
    /// The octets to match: no bit is set where the mask has none, and no octet is behind those of the mask.
    pub value: Box<[u8]>,
    /// The index of its action.
    pub action: u32,
    /// A number that means something to whom made the session.
    pub opaque: u32,
    /// Where it was declared.
    pub origin: Origin,
}

/// The action of a session.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ClassifyAction {
    /// Packets pass; else they are dropped, and there is nothing more to it.
    pub permit: bool,
    /// The routing domain that the destination is looked up in; `None`: that of the interface.
    pub vrf: Option<VrfIndex>,
    /// The next hops that packets go to, whatever their destination, by flow hash and weight; empty: the route's.
    pub via: Arc<[NextHop]>,
    /// The mark that packets get.
    pub mark: Option<u32>,
    /// The rate that passes. Each session has a bucket of its own.
    pub limit: Option<AclLimit>,
    /// Packets are offered to a sampler.
    pub sample: Option<Sampling>,
}

impl ClassifyAction {
    /// Packets pass or are dropped.
    pub fn of(permit: bool) -> ClassifyAction {
        ClassifyAction { permit, vrf: None, via: [].into(), mark: None, limit: None, sample: None }
    }
}
