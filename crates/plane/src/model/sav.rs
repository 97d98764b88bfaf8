//! Source address validation, as it is wanted (draft-li-savnet-dataplane-performance-00, 2; RFC 3704).

use std::sync::Arc;

use ipnet::IpNet;
pub use weir_table::sav::{Match, Mode, Order};

use super::acl::AclRule;
use super::index::{InterfaceIndex, VrfIndex};
use super::origin::Origin;
use super::rate::RateLimit;
use super::route::NextHop;
use super::sample::Sampling;

/// Index of a policy in [`Gateway::sav`](super::Gateway::sav).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SavIndex(pub u16);

/// A value for each address family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PerFamily<T> {
    /// IPv4.
    pub v4: T,
    /// IPv6.
    pub v6: T,
}

/// How the sources of packets are validated that come in by the interfaces that name this policy.
#[derive(Debug, Clone, PartialEq)]
pub struct SavPolicy {
    /// Its name, unique.
    pub name: String,
    /// The mechanism that decides.
    pub mechanism: Mechanism,
    /// The action for invalid packets.
    pub action: SavAction,
    /// How many of them pass where the action is, or comes to be, [`SavAction::RateLimit`]; there is one if it is.
    pub rate_limit: Option<RateLimit>,
    /// Where they go where the action is, or comes to be, [`SavAction::Redirect`]; there is one for each family whose sources
    /// some interface has validated by this policy if it is.
    pub redirect: PerFamily<Option<NextHop>>,
    /// Samples of them, beside any action.
    pub sample: Option<Sampling>,
    /// Packets that are not validated: the first rule decides that matches, and one that does not permit, or none, means that
    /// the packet is validated.
    pub exempt: Arc<[AclRule]>,
    /// The check of source hardware addresses.
    pub link_check: LinkCheck,
    /// The alarm for many invalid packets.
    pub alarm: Option<Alarm>,
    /// The actions for special sources.
    pub special: SpecialSources,
    /// Where it was declared.
    pub origin: Origin,
}

impl SavPolicy {
    /// A policy that discards what is not valid, and has nothing else.
    pub fn new(name: String, mechanism: Mechanism, origin: Origin) -> SavPolicy {
        SavPolicy {
            name,
            mechanism,
            action: SavAction::Discard,
            rate_limit: None,
            redirect: PerFamily::default(),
            sample: None,
            exempt: Arc::new([]),
            link_check: LinkCheck::Off,
            alarm: None,
            special: SpecialSources::default(),
            origin,
        }
    }
}

/// A method that decides whether a packet may enter by an interface.
#[derive(Debug, Clone, PartialEq)]
pub enum Mechanism {
    /// An ordered list: the first entry decides that covers the source and has the interface (2.1 of the draft).
    Acl(SavRules),
    /// The route back to the source (2.2 and 2.3 of the draft; RFC 3704).
    Urpf(Urpf),
    /// An independent table of prefixes and interfaces (2.4 of the draft), with the four kinds of lists of
    /// draft-ietf-savnet-general-sav-capabilities ([`Scope`]).
    Table {
        /// Its rules.
        rules: SavRules,
        /// How nested prefixes of lists of [`Scope::Prefix`] are taken.
        matching: Match,
        /// How it is laid out: verdicts are the same.
        layout: SavLayout,
    },
}

impl Mechanism {
    /// As the configuration names it.
    pub const fn name(&self) -> &'static str {
        match self {
            Mechanism::Acl(_) => "acl",
            Mechanism::Urpf(Urpf { mode: UrpfMode::Strict, .. }) => "urpf-strict",
            Mechanism::Urpf(Urpf { mode: UrpfMode::Loose, .. }) => "urpf-loose",
            Mechanism::Urpf(Urpf { mode: UrpfMode::Feasible, .. }) => "urpf-feasible",
            Mechanism::Table { .. } => "table",
        }
    }

    /// Its rules, if it has any.
    pub const fn rules(&self) -> Option<&SavRules> {
        match self {
            Mechanism::Acl(rules) | Mechanism::Table { rules, .. } => Some(rules),
            Mechanism::Urpf(_) => None,
        }
    }
}

/// Rules of an `acl` or a `table`.
#[derive(Debug, Clone, PartialEq)]
pub struct SavRules {
    /// In the order of the configuration. Interfaces that rules list in the same words share one list.
    pub list: Arc<[SavRule]>,
    /// Sources that no rule covers are valid: the rules are not complete yet (2.4 of the draft).
    pub incremental: bool,
    /// Packets are counted for each prefix.
    pub hits: bool,
}

/// A rule: a source prefix, and the interfaces by which it may come in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavRule {
    /// The prefix; host bits are clear.
    pub prefix: IpNet,
    /// The interfaces; not empty.
    pub interfaces: Arc<[InterfaceIndex]>,
    /// It permits, or stands in an allowlist; else it denies, or stands in a blocklist.
    pub permit: bool,
    /// Whose list of a table it stands in; [`Scope::Prefix`] in an `acl`.
    pub scope: Scope,
    /// Where it was declared.
    pub origin: Origin,
}

impl SavRule {
    /// Returns the kind of list that the rule belongs to in a table.
    pub const fn mode(&self) -> Mode {
        self.scope.mode(self.permit)
    }
}

/// Whose list of a table a rule stands in. Together with whether it permits that is one of the four modes of
/// draft-ietf-savnet-general-sav-capabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Scope {
    /// Its prefix's, router-wide: an allowlist (mode 3) or blocklist (mode 4) of interfaces.
    #[default]
    Prefix,
    /// Its interfaces': an allowlist (mode 1) or blocklist (mode 2) of prefixes.
    Interface,
}

impl Scope {
    /// Its allowlists' mode, or that of its blocklists.
    pub const fn mode(self, permit: bool) -> Mode {
        match (self, permit) {
            (Scope::Interface, true) => Mode::InterfaceAllow,
            (Scope::Interface, false) => Mode::InterfaceBlock,
            (Scope::Prefix, true) => Mode::PrefixAllow,
            (Scope::Prefix, false) => Mode::PrefixBlock,
        }
    }

    /// Whose lists are of a mode.
    pub const fn of(mode: Mode) -> Scope {
        match mode {
            Mode::InterfaceAllow | Mode::InterfaceBlock => Scope::Interface,
            Mode::PrefixAllow | Mode::PrefixBlock => Scope::Prefix,
        }
    }
}

/// How a table is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SavLayout {
    /// One table for all interfaces.
    Merged,
    /// A local table for each line card and a global one (Figures 6 and 7 of the draft), looked up in this order.
    Cards(Order),
}

/// Unicast reverse path forwarding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Urpf {
    /// The requirement on the route back.
    pub mode: UrpfMode,
    /// The default route counts as one.
    pub default_route: bool,
    /// The VRF in which routes are looked up; `None`: that of the interface.
    pub vrf: Option<VrfIndex>,
}

/// The requirement on the route back to the source. A route that discards fails in any mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UrpfMode {
    /// Over the interface that the packet came in by: over one of them, if there are several paths.
    Strict,
    /// Any.
    Loose,
    /// As strict, but routes that are not the best for their prefix count, too (RFC 3704, 2.3).
    Feasible,
}

/// The action for invalid packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SavAction {
    /// They go on, and are counted.
    Permit,
    /// They are dropped.
    Discard,
    /// As many pass as [`SavPolicy::rate_limit`] lets, the others are dropped.
    RateLimit,
    /// They go where [`SavPolicy::redirect`] says, whatever their destination.
    Redirect,
}

impl SavAction {
    /// All of them, the mildest first.
    pub const ALL: [SavAction; 4] = [SavAction::Permit, SavAction::RateLimit, SavAction::Redirect, SavAction::Discard];

    /// As the configuration names it.
    pub const fn name(self) -> &'static str {
        match self {
            SavAction::Permit => "permit",
            SavAction::Discard => "discard",
            SavAction::RateLimit => "rate-limit",
            SavAction::Redirect => "redirect",
        }
    }
}

/// The check of source hardware addresses: a packet passes if its source hardware address is that of the neighbour to
/// which the route back leads on the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum LinkCheck {
    /// Nothing.
    #[default]
    Off,
    /// They have to be, if the neighbour's is known.
    Known,
    /// The addresses have to match: a packet of an unknown neighbour is invalid.
    Strict,
}

/// The threshold of invalid packets of an interface above which an alarm is raised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Alarm {
    /// Packets in a second, on average over the window; 1 or more.
    pub packets: u64,
    /// Seconds, 1 ..= 3600.
    pub window: u32,
}

/// The action for a class of special sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SpecialAction {
    /// It is valid.
    Permit,
    /// It is not valid.
    Deny,
    /// The mechanism decides, as for any other.
    Check,
}

/// The actions for special sources. A class that is denied here is denied in spite of any rule or route. A class that
/// is permitted or checked is not dropped as a martian on interfaces with this policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpecialSources {
    /// From 0.0.0.0 to 255.255.255.255, and from :: to a multicast address of the link: who has no address yet.
    pub unconfigured: SpecialAction,
    /// From 0.0.0.0/8 or :: in any other case.
    pub unspecified: SpecialAction,
    /// 127.0.0.0/8, ::1.
    pub loopback: SpecialAction,
    /// 169.254.0.0/16, fe80::/10.
    pub link_local: SpecialAction,
    /// 224.0.0.0/4, ff00::/8.
    pub multicast: SpecialAction,
    /// 255.255.255.255, and the first and last address of an IPv4 prefix that the interface connects (RFC 1812, 4.2.2.11).
    pub broadcast: SpecialAction,
}

impl Default for SpecialSources {
    fn default() -> Self {
        SpecialSources {
            unconfigured: SpecialAction::Permit,
            unspecified: SpecialAction::Deny,
            loopback: SpecialAction::Deny,
            link_local: SpecialAction::Permit,
            multicast: SpecialAction::Deny,
            broadcast: SpecialAction::Deny,
        }
    }
}

/// A line card: interfaces that share a local table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineCard {
    /// Its name, unique.
    pub name: String,
    /// The interfaces of the line card. Interfaces without a line card share one.
    pub interfaces: Vec<InterfaceIndex>,
    /// Where it was declared.
    pub origin: Origin,
}
