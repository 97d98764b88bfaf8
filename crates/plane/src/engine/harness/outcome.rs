//! Outcomes of packets, with the decisions about each.

use std::net::IpAddr;

use crate::compile::{AclDecision, BindingDecision, ClassifyDecision, Decision, Listed};
use crate::graph::record::{BridgedTo, Fragmented, Learning, Lengths, Miss, NatEffect, Role, SpdEffect};
use crate::model::{BridgeIndex, InterfaceIndex, NatIndex, Origin, SaIndex, SpdIndex, SteerIndex};
use crate::reason::Reason;

/// The verdict on an input packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It was sent on.
    Forward,
    /// It was dropped.
    Drop(Reason),
    /// It was delivered to the gateway itself.
    Local,
    /// It waits.
    Held,
}

impl Verdict {
    /// As `weir replay` names it.
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::Forward => "forward",
            Verdict::Drop(_) => "drop",
            Verdict::Local => "local",
            Verdict::Held => "held",
        }
    }
}

/// The outcome of an input packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Its number.
    pub ordinal: u32,
    /// The verdict.
    pub verdict: Verdict,
    /// Interfaces by which it left: one for each packet, in order; several when it was cut into fragments.
    pub out: Vec<u32>,
    /// Interfaces by which what weir made of it left: ICMP errors about it, replies to it.
    pub answers: Vec<u32>,
    /// The interface whose list of EtherTypes refused the frame, if one did.
    pub unlisted: Option<Unlisted>,
    /// Whether a learned decision about its flow was looked for, and if so, why it takes none.
    pub flow: Option<Option<Miss>>,
    /// Whether the decision about its flow was learned, if the interface learns flows.
    pub learning: Option<Learning>,
    /// The decision about its source, if it was validated.
    pub sav: Option<Decision>,
    /// The treatment of the packet as a fragment by access lists; the last one for each interface.
    pub fragments: Vec<Piece>,
    /// The decisions of access lists, in order.
    pub acl: Vec<Filtered>,
    /// The decision of the bindings of its interface; the last one if there were several.
    pub bindings: Option<BindingDecision>,
    /// The decisions of the allowlists of its interface, up to the one that refused the source; empty without a lookup.
    pub allow: Vec<Listed>,
    /// The decisions of classifier tables, in order.
    pub classify: Vec<ClassifyDecision>,
    /// The rules that translate which matched it, or gave its translation: list, place there and effect.
    pub nat: Vec<(NatIndex, u32, NatEffect)>,
    /// The policies of SPDs that it matched: SPD, place there if it matched one, whether it was leaving, and effect.
    pub spd: Vec<(SpdIndex, Option<u32>, bool, SpdEffect)>,
    /// The steer rules that matched it: list and place there.
    pub steer: Vec<(SteerIndex, u32)>,
    /// The pairs of SAs that encrypted or decrypted it, in order.
    pub sas: Vec<Secured>,
    /// The tunnels that it was put into or taken out of, in order.
    pub tunnels: Vec<Tunnelled>,
    /// It left as part of a super-packet.
    pub merged: bool,
    /// The bridges that it came to, and its ways there, in order.
    pub bridges: Vec<(BridgeIndex, BridgedTo)>,
    /// The route that was looked up for it first, if any was; of a decrypted packet, for what was inside.
    pub route: Option<RouteTaken>,
    /// The next hop that a steer rule or a session of a classifier table gave it first, in place of a route; likewise.
    pub directed: Option<Directed>,
    /// The octets of the packet to which `route` or `directed` belongs, from its IP header on.
    pub octets: Option<u32>,
    /// The lengths that it had when a policy protected it, if one did.
    pub protected: Option<Lengths>,
    /// The interface whose punt device took it to the host, if one did.
    pub punted: Option<u32>,
    /// It waits for the first fragment of its datagram. The run in which that comes, or in which time is up, has another
    /// outcome with its number.
    pub waits: bool,
}

impl Outcome {
    pub(super) fn end(&mut self, verdict: Verdict) {
        (self.verdict, self.waits) = (verdict, false);
    }

    /// Merges the outcome before the packet was held with the outcome after its release, `later`.
    #[must_use]
    pub fn and_then(mut self, later: Outcome) -> Outcome {
        self.out.extend(later.out);
        self.answers.extend(later.answers);
        self.acl.extend(later.acl);
        self.classify.extend(later.classify);
        self.nat.extend(later.nat);
        self.spd.extend(later.spd);
        self.steer.extend(later.steer);
        self.sas.extend(later.sas);
        self.tunnels.extend(later.tunnels);
        self.bridges.extend(later.bridges);
        let asked_again = |piece: &Piece| {
            later.fragments.iter().any(|other| (other.interface, other.output) == (piece.interface, piece.output))
        };
        self.fragments.retain(|piece| !asked_again(piece));
        self.fragments.extend(&later.fragments);
        Outcome {
            ordinal: self.ordinal,
            verdict: later.verdict,
            out: self.out,
            answers: self.answers,
            unlisted: later.unlisted.or(self.unlisted),
            flow: self.flow.or(later.flow),
            learning: later.learning.or(self.learning),
            fragments: self.fragments,
            sav: self.sav.or(later.sav),
            acl: self.acl,
            bindings: later.bindings.or(self.bindings),
            allow: if later.allow.is_empty() { self.allow } else { later.allow },
            classify: self.classify,
            nat: self.nat,
            spd: self.spd,
            steer: self.steer,
            sas: self.sas,
            tunnels: self.tunnels,
            merged: self.merged | later.merged,
            bridges: self.bridges,
            route: if self.directed.is_some() { None } else { self.route.clone().or(later.route) },
            directed: if self.route.is_some() { None } else { self.directed.or(later.directed) },
            octets: self.octets.or(later.octets),
            protected: self.protected.or(later.protected),
            punted: later.punted.or(self.punted),
            waits: later.waits,
        }
    }
}

impl Outcome {
    /// Returns the interface that the packet was led to, by its route or whatever that is, and the neighbour there.
    pub fn next_hop(&self) -> Option<(u32, IpAddr)> {
        let by_route = self.route.as_ref().map(|own| (own.interface, own.next_hop, own.destination));
        let (interface, next_hop, destination) =
            by_route.or(self.directed.map(|own| (own.interface, own.next_hop, own.destination)))?;
        Some((interface?, next_hop.unwrap_or(destination)))
    }
}

/// A pair of SAs, and what it did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Secured {
    /// The pair.
    pub sa: SaIndex,
    /// It decrypted, or refused to; else it encrypted.
    pub inbound: bool,
}

/// A tunnel that a packet was put into or taken out of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tunnelled {
    /// The interface of the tunnel.
    pub interface: InterfaceIndex,
    /// The packet was taken out, or was to be.
    pub inbound: bool,
}

/// An interface that does not let a frame pass for its ethertype.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unlisted {
    /// The interface's number.
    pub interface: u32,
    /// The frame was leaving, not coming in.
    pub output: bool,
    /// Where the ethertypes were declared that may pass.
    pub origin: Origin,
}

/// The decision of the access lists of an interface about a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filtered {
    /// The interface's number.
    pub interface: u32,
    /// The packet was leaving, not coming in.
    pub output: bool,
    /// The decision.
    pub decision: AclDecision,
    /// How the packet belongs to a session that the rule opened, if it does.
    pub session: Option<Role>,
}

/// The treatment of a fragment by the access lists of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// The interface's number.
    pub interface: u32,
    /// The fragment was leaving, not coming in.
    pub output: bool,
    /// The treatment.
    pub fragmented: Fragmented,
    /// The origin of the first rule that matches fields of first fragments only, and so holds or drops the packet.
    /// `None` if no rule does, if the packet does not contain its protocol, or if it is neither held nor dropped.
    pub asked_by: Option<Origin>,
}

/// A next hop that a packet was given whatever its route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Directed {
    /// The packet's destination.
    pub destination: IpAddr,
    /// The interface, unless the next hop is out of use.
    pub interface: Option<u32>,
    /// The next hop on that interface; `None`: the destination itself.
    pub next_hop: Option<IpAddr>,
    /// A steer rule gave it, not a session of a classifier table.
    pub steered: bool,
}

/// A route that a packet took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteTaken {
    /// The packet's destination.
    pub destination: IpAddr,
    /// VRF number.
    pub vrf: u16,
    /// The route's prefix; `None`: there is no route.
    pub prefix: Option<ipnet::IpNet>,
    /// Where the route was declared.
    pub origin: Origin,
    /// The target of the route, in words.
    pub to: String,
    /// The interface that it led to, if it led to one.
    pub interface: Option<u32>,
    /// The next hop on that interface; `None`: the destination itself.
    pub next_hop: Option<IpAddr>,
}
