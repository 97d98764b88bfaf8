//! A rule, and the rule of a gateway that it stands for.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;

use weir_packet::identify::Identifier;
use weir_plane::model::{
    self, NextHop, Origin, SteerFrame, SteerHeader, SteerInner, SteerMacs, SteerNode, SteerOctets, SteerWay,
};

use super::super::acl::{self, Vocabulary, Wrong};

/// Where packets go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Way {
    /// On.
    On,
    /// They are dropped.
    Drop,
    /// Out by an interface or to a next hop: one of them, or both.
    To(Option<Arc<str>>, Option<IpAddr>),
    /// To the worker of this number.
    Queue(u16),
    /// To a node.
    Node(SteerNode),
    /// Into the packet behind so many octets of the frame.
    Advance(u16, SteerHeader),
}

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// It says that it counts.
    pub count: bool,
    /// The mark that it gives.
    pub mark: Option<u32>,
    /// Where packets go.
    pub way: Way,
    /// Packets may pass by the checks of their interface.
    pub unchecked: bool,
    /// VLAN identifiers of the frame's tags.
    pub vlan: Option<RangeInclusive<u16>>,
    /// Identifiers of a kind.
    pub id: Option<(Identifier, RangeInclusive<u32>)>,
    /// Octets of the packet.
    pub octets: Option<SteerOctets>,
    /// Stations of the frame.
    pub macs: SteerMacs,
    /// The packet inside, as a rule of an access list.
    pub inner: Option<Box<acl::Rule>>,
    /// It matches frames that are not IP.
    pub frame: Option<SteerFrame>,
    /// The packets that it matches, as a rule of an access list.
    pub matches: acl::Rule,
    /// Remarks of people: up to [`LONGEST_COMMENT`](super::super::LONGEST_COMMENT) octets without control characters.
    pub comment: Option<Box<str>>,
}

impl Rule {
    /// As the gateway wants it. `hop` returns the next hop of a redirection; `None` if that was reported as missing.
    ///
    /// # Errors
    /// If the names of the rule do not stand for what it needs; empty where that has been reported already.
    pub(crate) fn model(
        &self,
        vocabulary: &Vocabulary,
        origin: Origin,
        hop: impl FnOnce(Option<&str>, Option<IpAddr>) -> Option<NextHop>,
    ) -> Result<model::SteerRule, Vec<Wrong>> {
        let matches = self.matches.model(vocabulary, origin)?;
        let inner = match &self.inner {
            None => None,
            Some(inner) => {
                let names_family = inner.family.is_some();
                Some(Arc::new(SteerInner { matches: inner.model(vocabulary, Origin::default())?, names_family }))
            }
        };
        let way = match &self.way {
            Way::On => SteerWay::On,
            Way::Drop => SteerWay::Drop,
            Way::To(interface, address) => SteerWay::To {
                hop: hop(interface.as_deref(), *address).ok_or_else(Vec::new)?,
                interface: interface.clone(),
            },
            Way::Queue(worker) => SteerWay::Queue(*worker),
            Way::Node(node) => SteerWay::Node(*node),
            Way::Advance(octets, header) => SteerWay::Advance(*octets, *header),
        };
        Ok(model::SteerRule {
            count: self.count,
            mark: self.mark,
            way,
            unchecked: self.unchecked,
            vlan: self.vlan.clone(),
            id: self.id.clone(),
            octets: self.octets.clone(),
            macs: self.macs,
            inner,
            frame: self.frame,
            matches,
            names_family: self.matches.family.is_some(),
            comment: self.comment.as_deref().map(Arc::from),
        })
    }

    /// A rule of a gateway, as one would write it.
    pub fn of(rule: &model::SteerRule) -> Rule {
        let way = match &rule.way {
            SteerWay::On => Way::On,
            SteerWay::Drop => Way::Drop,
            SteerWay::To { hop, interface } => Way::To(interface.clone(), hop.address),
            SteerWay::Queue(worker) => Way::Queue(*worker),
            SteerWay::Node(node) => Way::Node(*node),
            SteerWay::Advance(octets, header) => Way::Advance(*octets, *header),
        };
        // No steer rule names the interfaces that packets came in by.
        let of = |matches: &model::AclRule, names_family| {
            let own = acl::Rule::of(matches, |_| "".into());
            acl::Rule { family: matches.family.filter(|_| names_family), comment: None, ..own }
        };
        Rule {
            count: rule.count,
            mark: rule.mark,
            way,
            unchecked: rule.unchecked,
            vlan: rule.vlan.clone(),
            id: rule.id.clone(),
            octets: rule.octets.clone(),
            macs: rule.macs,
            inner: rule.inner.as_ref().map(|inner| Box::new(of(&inner.matches, inner.names_family))),
            frame: rule.frame,
            matches: of(&rule.matches, rule.names_family),
            comment: rule.comment.as_deref().map(Box::from),
        }
    }
}
