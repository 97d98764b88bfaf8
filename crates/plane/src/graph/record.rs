//! The record of what nodes decided about single packets: of all in replays, `explain` and tests; of traced packets in a
//! live gateway.

use std::net::IpAddr;

use weir_packet::packet::Packet;
use weir_packet::parse::ParseFlags;
use weir_packet::wire::MacAddress;
use weir_table::sav::Verdict;

use crate::changed::Changed;
pub use crate::graph::flow::Unlearned;
pub use crate::graph::fragments::Upper;
use crate::model::{NatIndex, SpdIndex, SpecialAction, SteerIndex};
use crate::reason::Reason;
use crate::root::acl::Found;
use crate::root::sav::Class;

/// The verdict of validation on a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Said {
    /// The mechanism decided.
    Mechanism(Verdict),
    /// The source is of a special class, for which the policy has this.
    Special(Class, SpecialAction),
    /// The mechanism would have let it pass, but its frame came from another station than it should have.
    Link(Strange),
    /// The source was not validated: the rule at this place of the policy's exemptions matched.
    Exempt(u32),
}

/// The difference between the hardware address of a packet and the expected one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Strange {
    /// The address.
    pub from: MacAddress,
    /// The neighbour that should have sent it, and its hardware address, if known.
    pub known: Option<(IpAddr, MacAddress)>,
}

/// The treatment of a fragment by access lists that match transport headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fragmented {
    /// It is not the first of its datagram, and rules see what the first says: this protocol, and of its header this.
    Given(u8, Upper),
    /// It waits for the first of its datagram.
    Waits,
    /// It would have to wait, and there is no room, or nothing may wait where it goes.
    NoRoom,
    /// It is dropped: it and others of its datagram do not go together.
    Refused,
}

/// Why a packet takes no learned decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Miss {
    /// Nothing was learned about its flow.
    New,
    /// It differs in a field on which the decision depends.
    Differs,
    /// Something has changed since its flow was decided.
    Changed(Changed),
}

impl Miss {
    /// How many there are.
    pub const COUNT: usize = 2 + Changed::COUNT;

    /// Its place among all.
    #[inline(always)]
    pub(crate) const fn place(self) -> usize {
        match self {
            Miss::New => 0,
            Miss::Differs => 1,
            Miss::Changed(changed) => 2 + changed as usize,
        }
    }
}

/// The fast path for the flow of a packet that was checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Learning {
    /// Packets like it take no learned decision.
    Excluded,
    /// The decision about its flow was learned.
    Learned,
    /// There was no room for the decision, or its session has changed.
    Refused,
    /// None was learned.
    Not(Unlearned),
}

/// A packet's part in a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It opens the session.
    Opens,
    /// It goes in the direction of the packet that opened the session.
    Original,
    /// It goes in the other direction.
    Reply,
    /// It is an ICMP error about a packet of the session.
    Error,
}

impl Role {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Role::Opens => "opens",
            Role::Original => "original",
            Role::Reply => "reply",
            Role::Error => "error",
        }
    }
}

/// The effect of a rule that translates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NatEffect {
    /// The packet has these endpoints now.
    To {
        /// It was leaving, not coming in.
        output: bool,
        /// It goes in the other direction than the first packet of its translation.
        reply: bool,
        /// Its source, and the port.
        source: (IpAddr, Option<u16>),
        /// Its destination, and the port.
        destination: (IpAddr, Option<u16>),
        /// Its identifier, if it is an ICMP request or a reply to one.
        identifier: Option<u16>,
    },
    /// It keeps its endpoints.
    Kept,
    /// It is dropped.
    Dropped {
        /// The number of the VRF that it came in by.
        vrf: u16,
    },
}

/// The lengths of a packet that an SA may protect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Lengths {
    /// Octets from its IP header on.
    pub octets: u32,
    /// Octets of these in front of the transport header.
    pub headers: u32,
    /// It is of IPv4.
    pub v4: bool,
}

impl Lengths {
    /// The lengths of a packet.
    pub(crate) fn of(packet: &Packet) -> Lengths {
        let parsed = packet.parsed();
        let headers = u32::from(parsed.l4).saturating_sub(u32::from(parsed.l3));
        Lengths { octets: parsed.l3_length, headers, v4: parsed.flags.contains(ParseFlags::IP4) }
    }
}

/// The effect of an SPD on a packet in clear.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SpdEffect {
    /// It passes in clear.
    Bypassed,
    /// It is protected by the SA of the policy.
    Protected,
    /// It is dropped.
    Discarded,
    /// It is dropped, as it matches no policy.
    NoMatch,
    /// It is dropped, as the policy wants it protected, and it came in clear.
    Unprotected,
    /// It was decrypted, and the policy protects by the SA that it came by.
    Admitted,
    /// It is dropped, as it was decrypted, and the policy that it matches, if any, does not protect by the SA that it came by.
    Selector,
}

/// The way of a frame of a bridge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BridgedTo {
    /// Out by the interface of this number, which leads to its station.
    Port(u32),
    /// Out by so many ports.
    All(u16),
    /// To the gateway's own station.
    Own,
}

/// Something that happened to the packet with a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It became part of a super-packet, or the super-packet that others became part of.
    Merged {
        /// Number of the interface that it came in by, or leaves by.
        interface: u32,
        /// It was leaving, not coming in.
        output: bool,
    },
    /// A bridge found its ports.
    Bridged {
        /// The place of the bridge in the model.
        bridge: u16,
        /// Its way.
        to: BridgedTo,
    },
    /// Its interface lets no frame of its ethertype pass.
    Unlisted {
        /// Number of the interface.
        interface: u32,
        /// It was leaving, not coming in.
        output: bool,
    },
    /// A steer rule matched it.
    Steered {
        /// The list.
        list: SteerIndex,
        /// The place of the rule there.
        place: u32,
    },
    /// A learned decision about its flow was looked for.
    Flow {
        /// Number of the interface that it came in by.
        interface: u32,
        /// Why it takes none; `None`: it would take one, if its fates were not recorded.
        miss: Option<Miss>,
    },
    /// The decision about its flow was to be learned.
    Learning {
        /// Number of the interface that it came in by.
        interface: u32,
        /// The result.
        learning: Learning,
    },
    /// Its source was validated.
    Validated {
        /// Number of the interface that it came in by.
        interface: u32,
        /// Its source.
        source: IpAddr,
        /// Octets of its frame without padding.
        octets: u32,
        /// The policy's place in the model.
        policy: u16,
        /// The verdict.
        said: Said,
    },
    /// Access lists of an interface had to do with it as a fragment.
    Fragment {
        /// Number of the interface.
        interface: u32,
        /// It was leaving, not coming in.
        output: bool,
        /// It is of IPv4.
        v4: bool,
        /// The treatment.
        fragmented: Fragmented,
    },
    /// Access lists of an interface decided about it.
    Filtered {
        /// Number of the interface.
        interface: u32,
        /// It was leaving, not coming in.
        output: bool,
        /// The result of the lookup.
        found: Found,
        /// How the packet belongs to a session that the rule opened, if it does.
        session: Option<Role>,
    },
    /// The bindings of its interface applied.
    Bound {
        /// Number of the interface that it came in by.
        interface: u32,
        /// The hardware address.
        mac: MacAddress,
        /// The address that it uses, or is said to have.
        source: IpAddr,
        /// The number of the rule that decided.
        number: u32,
        /// It permits.
        permit: bool,
    },
    /// The allowlists of its interface applied.
    Allowed {
        /// Number of the interface that it came in by.
        interface: u32,
        /// Its source.
        source: IpAddr,
        /// The place in the model of the list that does not contain it; `None`: they all do.
        refused_by: Option<u16>,
    },
    /// Classifier tables of an interface decided about it.
    Classified {
        /// Number of the interface.
        interface: u32,
        /// It was leaving, not coming in.
        output: bool,
        /// The number of the table that decided.
        table: u32,
        /// The number of the session in it; `None`: it matched none, here or before.
        session: Option<u32>,
        /// It passes, as far as rates let it.
        permit: bool,
    },
    /// A rule that translates matched it, or gave the translation that it belongs to.
    Nat {
        /// The rule's list.
        list: NatIndex,
        /// Its place there.
        place: u32,
        /// The effect on the packet's endpoints.
        effect: NatEffect,
    },
    /// It was matched against an SPD.
    Spd {
        /// The SPD.
        spd: SpdIndex,
        /// The place of the policy in the SPD; `None`: it matched none.
        place: Option<u32>,
        /// It was leaving, not coming in.
        output: bool,
        /// The effect of the policy.
        effect: SpdEffect,
        /// The lengths of the packet.
        lengths: Lengths,
    },
    /// An SA encrypted or decrypted it, or tried to.
    Secured {
        /// The number of the pair of SAs.
        sa: u32,
        /// It came in.
        inbound: bool,
    },
    /// It was put into a tunnel, or taken out, or was to be.
    Tunnelled {
        /// The number of the tunnel's interface.
        interface: u32,
        /// It was taken out.
        inbound: bool,
    },
    /// A route was looked up for it: in this VRF, for this destination.
    LookedUp {
        /// VRF number.
        vrf: u16,
        /// Destination.
        destination: IpAddr,
        /// The adjacency it was given.
        adjacency: u32,
        /// Octets of the packet from its IP header on.
        octets: u32,
    },
    /// A steer rule or a session of a classifier table gave it its next hop, whatever its route.
    Directed {
        /// Destination.
        destination: IpAddr,
        /// The adjacency it was given.
        adjacency: u32,
        /// By a steer rule.
        steered: bool,
        /// Octets of the packet from its IP header on.
        octets: u32,
    },
    /// It was given to the host.
    Punted {
        /// Number of the interface whose punt device took it.
        interface: u32,
    },
    /// It, or a packet made from it, left by this interface.
    Transmitted {
        /// Interface number.
        interface: u32,
        /// weir made the packet: an ICMP message or an answer.
        created: bool,
    },
    /// It was delivered to the gateway itself.
    Local,
    /// It was dropped.
    Dropped {
        /// Why.
        reason: Reason,
        /// weir had made the packet.
        created: bool,
    },
}

impl Fate {
    /// It is the last one of its packet, or an answer to it.
    pub(crate) const fn is_end(&self) -> bool {
        matches!(self, Fate::Punted { .. } | Fate::Transmitted { .. } | Fate::Local | Fate::Dropped { .. })
    }

    /// A drop for this reason is what the fate led to.
    pub(crate) const fn explains(&self, reason: Reason) -> bool {
        match self {
            Fate::Filtered { .. } => matches!(
                reason,
                Reason::AclDeny
                    | Reason::AclReject
                    | Reason::AclRateLimit
                    | Reason::SessionLimit
                    | Reason::SessionPickup
            ),
            Fate::Nat { effect: NatEffect::Dropped { .. }, .. } => matches!(
                reason,
                Reason::NatExhausted
                    | Reason::NatLimit
                    | Reason::NatListLimit
                    | Reason::NatVrfLimit
                    | Reason::NatUntranslated
                    | Reason::NatWorker
                    | Reason::SessionLimit
                    | Reason::SessionPickup
            ),
            Fate::Spd { effect, .. } => match effect {
                SpdEffect::Bypassed | SpdEffect::Admitted => false,
                SpdEffect::Selector => matches!(reason, Reason::EspSelector),
                SpdEffect::Protected => matches!(
                    reason,
                    Reason::EspNoOutbound
                        | Reason::EspTransport
                        | Reason::EspExpired
                        | Reason::EspExhausted
                        | Reason::EspUnreserved
                ),
                SpdEffect::Discarded => matches!(reason, Reason::SpdDiscard),
                SpdEffect::NoMatch => matches!(reason, Reason::SpdNoMatch),
                SpdEffect::Unprotected => matches!(reason, Reason::SpdUnprotected),
            },
            Fate::Secured { .. } => matches!(
                reason,
                Reason::EspReplay
                    | Reason::EspExpired
                    | Reason::EspAuth
                    | Reason::EspMalformed
                    | Reason::EspDummy
                    | Reason::EspEcn
                    | Reason::EspSelector
            ),
            Fate::Tunnelled { .. } => matches!(
                reason,
                Reason::TunnelMalformed
                    | Reason::TunnelChecksum
                    | Reason::TunnelEcn
                    | Reason::TunnelLoop
                    | Reason::NestingLimit
            ),
            Fate::Steered { .. } => {
                matches!(reason, Reason::SteerDrop | Reason::SteerRedirect | Reason::SteerAdvance)
            }
            Fate::Bound { .. } => matches!(reason, Reason::MacIp),
            Fate::Allowed { .. } => matches!(reason, Reason::NotAllowed),
            Fate::Classified { .. } => matches!(reason, Reason::ClassifyDeny | Reason::ClassifyRateLimit),
            Fate::Unlisted { .. } => matches!(reason, Reason::AclEthertype),
            Fate::Validated { .. } => matches!(
                reason,
                Reason::SavAcl
                    | Reason::SavUrpfStrict
                    | Reason::SavUrpfLoose
                    | Reason::SavUrpfFeasible
                    | Reason::SavTable
                    | Reason::SavSpecial
                    | Reason::SavLink
                    | Reason::SavRateLimit
                    | Reason::SavRedirect
            ),
            _ => false,
        }
    }
}

/// How a record names a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Subject {
    /// The number of the input packet.
    ordinal: u32,
    /// The trace that follows it; 0 for none.
    trace: u16,
    /// [`Packet::id`].
    id: usize,
}

impl Subject {
    pub(crate) fn of(packet: &Packet) -> Subject {
        Subject { ordinal: packet.ordinal(), trace: packet.trace(), id: packet.id() }
    }
}

/// The decisions of nodes about packets, in order. Replays, `explain` and tests read the fates of all packets, by the
/// number of the input packet; traces read those of the vector under way. Without a reader, nothing is recorded.
#[derive(Debug, Default)]
pub struct Recorder {
    /// The fates of all packets are kept until they are taken.
    all: bool,
    on: bool,
    entries: Vec<(Subject, Fate)>,
    /// Where the entries of the vector under way begin.
    start: usize,
    /// Entries before this one are in their traces.
    traced: usize,
}

impl Recorder {
    /// A recorder of all packets.
    pub fn of_all() -> Recorder {
        Recorder { all: true, on: true, ..Recorder::default() }
    }

    /// Fates are recorded now: nodes look at each packet.
    #[inline(always)]
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// The fates of all packets are recorded, not those of traced ones alone.
    #[inline(always)]
    pub fn is_of_all(&self) -> bool {
        self.all
    }

    /// Begins a vector. `tracing`: some of its packets are traced, or may be.
    #[inline]
    pub(crate) fn begin(&mut self, tracing: bool) {
        self.on = self.all | tracing;
        self.start = self.entries.len();
        self.traced = self.start;
    }

    /// Ends a vector.
    #[cold]
    pub(crate) fn end(&mut self) {
        if !self.all {
            self.entries.clear();
        }
    }

    /// Adds a fate.
    #[cold]
    pub(crate) fn add(&mut self, subject: Subject, fate: Fate) {
        self.entries.push((subject, fate));
    }

    /// Gives the fates of traced packets since the last call, each with the number of its trace.
    pub(crate) fn each_traced(&mut self, mut give: impl FnMut(u16, Fate)) {
        for (subject, fate) in self.entries.iter().skip(self.traced).filter(|(subject, _)| subject.trace != 0) {
            give(subject.trace, *fate);
        }
        self.traced = self.entries.len();
    }

    /// The latest fate of a packet in this vector that explains its drop.
    pub(crate) fn cause(&self, packet: &Packet, reason: Reason) -> Option<Fate> {
        let mut latest = self.entries.iter().skip(self.start).rev();
        latest.find(|(subject, fate)| subject.id == packet.id() && fate.explains(reason)).map(|(_, fate)| *fate)
    }

    /// Takes the fates, each with the number of its packet.
    pub fn take(&mut self) -> impl Iterator<Item = (u32, Fate)> + use<> {
        (self.start, self.traced) = (0, 0);
        std::mem::take(&mut self.entries).into_iter().map(|(subject, fate)| (subject.ordinal, fate))
    }

    /// Adds a fate of an input packet that no node saw.
    pub(crate) fn add_unseen(&mut self, ordinal: u32, fate: Fate) {
        self.entries.push((Subject { ordinal, trace: 0, id: 0 }, fate));
    }
}
