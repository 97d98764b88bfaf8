//! The checks of an interface that steer rules pass by, and the interfaces where a rule cannot stand.

use weir_plane::compile::translating_vrfs;
use weir_plane::model::{
    AclAction, AclDefault, AclList, Bridge, Gateway, Interface, InterfaceIndex, InterfaceKind, Route, SteerRule,
    SteerWay,
};

use super::Rule;

/// The check of hardware addresses, which ARP passes, too.
const BINDINGS: &str = "bindings";

/// The kind of an objection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Packets would pass by checks.
    Unchecked,
    /// Packets cannot go to the worker.
    Queue,
    /// No packet leaves by the interface.
    Leaves,
}

/// An objection to a rule at an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Objection {
    pub(crate) kind: Kind,
    /// It refuses the rule; else it warns of it.
    pub(crate) refuses: bool,
    /// The word of the rule in front of the name that it is about; `None`: it is about the rule.
    pub(crate) behind: Option<&'static str>,
    pub(crate) message: String,
    pub(crate) help: Option<&'static str>,
}

/// The VRFs whose packets are translated, by index: VRFs with NAT rules, and VRFs that routes link with them.
pub(crate) struct Translating(Vec<bool>);

impl Translating {
    /// Finds the VRFs of a gateway with so many of them.
    pub(crate) fn new(vrfs: usize, interfaces: &[Interface], routes: &[Route]) -> Translating {
        Translating(translating_vrfs(vrfs, interfaces, routes, |_| true))
    }
}

/// An interface whose packets rules match.
pub(crate) struct Site<'g> {
    interface: &'g Interface,
    interfaces: &'g [Interface],
    bridges: &'g [Bridge],
    checks: Vec<&'static str>,
    has_state: bool,
}

impl<'g> Site<'g> {
    /// Makes the site of an interface of a gateway. `opens` says whether the access lists of an interface open sessions.
    pub(crate) fn new(
        interface: &'g Interface,
        (interfaces, bridges): (&'g [Interface], &'g [Bridge]),
        translating: &Translating,
        opens: impl Fn(&Interface) -> bool,
    ) -> Site<'g> {
        let is_translated = translating.0.get(usize::from(interface.vrf.0)) == Some(&true);
        let zone = |own: &Interface| own.zone.clone().ok_or(own.vrf);
        let has_state = is_translated || interfaces.iter().any(|own| zone(own) == zone(interface) && opens(own));
        Site { interface, interfaces, bridges, checks: checks(interface, is_translated), has_state }
    }

    /// Returns the objections to a rule, of a gateway with so many workers.
    pub(crate) fn objections(&self, rule: &SteerRule, workers: u16) -> Vec<Objection> {
        [self.skips(rule), self.queue(rule, workers), self.leaves(rule)].into_iter().flatten().collect()
    }

    /// Refuses a rule whose packets would pass by checks of the interface, unless the rule says so.
    fn skips(&self, rule: &SteerRule) -> Option<Objection> {
        if !rule.way.skips_checks() {
            return None;
        }
        // Frames that are not IP pass none of the others. Ethertypes come first.
        let passes = |check: &&&str| rule.frame.is_none() || **check == BINDINGS;
        let checks: Vec<&str> = self.checks.iter().filter(passes).copied().collect();
        if checks.is_empty() {
            return None;
        }
        let would = if rule.unchecked { "" } else { "would " };
        let (name, checks) = (&self.interface.name, checks.join(", "));
        Some(Objection {
            kind: Kind::Unchecked,
            refuses: !rule.unchecked,
            behind: None,
            message: format!("packets of this rule {would}pass by checks of the interface `{name}`: {checks}"),
            help: (!rule.unchecked).then_some("write `unchecked` behind the actions if that is meant"),
        })
    }

    /// Refuses a rule that moves packets to a worker that is not there, or away from their sessions and translations.
    fn queue(&self, rule: &SteerRule, workers: u16) -> Option<Objection> {
        let SteerWay::Queue(worker) = rule.way else { return None };
        let (message, help) = if worker >= workers {
            let message =
                format!("there is no worker {worker}: the gateway has workers 0 to {}", workers.saturating_sub(1));
            (message, Some("name one of these, or raise `count` of `[workers]`"))
        } else if self.has_state {
            let name = &self.interface.name;
            let message = format!(
                "sessions or translations apply to packets of the interface `{name}`: both directions have one worker"
            );
            (message, Some("leave the choice of the worker to weir, which knows both directions"))
        } else {
            return None;
        };
        Some(Objection { kind: Kind::Queue, refuses: true, behind: Some("queue"), message, help })
    }

    /// Refuses a redirection to an interface that no packets leave by.
    fn leaves(&self, rule: &SteerRule) -> Option<Objection> {
        let SteerWay::To { hop, .. } = rule.way else { return None };
        let interface = self.interfaces.get(hop.interface.0 as usize)?;
        let name = &interface.name;
        let bridge = self.bridges.iter().find(|own| own.has_port(hop.interface));
        let message = match &interface.kind {
            _ if let Some(bridge) = bridge => {
                format!("no packet leaves by `{name}` alone: it is a port of the bridge `{}`", bridge.name)
            }
            InterfaceKind::Ipsec => format!("no packet leaves by `{name}`: decrypted packets come in there"),
            InterfaceKind::Tunnel(tunnel) if rule.frame.is_some() && !tunnel.carrier.is_ethernet() => {
                format!("no frame leaves by `{name}`: the tunnel carries packets of IP")
            }
            _ => return None,
        };
        Some(Objection { kind: Kind::Leaves, refuses: true, behind: Some("interface"), message, help: None })
    }
}

/// A steer rule that a gateway with live edits cannot have.
pub(crate) struct Refused {
    pub(crate) list: String,
    /// The rule, and why.
    pub(crate) message: String,
}

/// Finds a steer rule that a gateway with live edits cannot have. `opens` says whether the access list of a name opens sessions.
pub(crate) fn refused(gateway: &Gateway, opens: impl Fn(&str) -> bool) -> Option<Refused> {
    let Gateway { vrfs, interfaces, routes, steer, workers, bridges, .. } = gateway;
    let translating = Translating::new(vrfs.len(), interfaces, routes);
    let by_lists = |own: &Interface| {
        let lists = [false, true].into_iter().flat_map(|output| gateway.lists_of(own, output));
        lists.into_iter().any(&opens)
    };
    let is_port = |number: u32| bridges.iter().any(|own| own.has_port(InterfaceIndex(number)));
    (0..).zip(interfaces).filter(|(number, _)| !is_port(*number)).find_map(|(_, interface)| {
        let list = steer.get(usize::from(interface.steer?.0))?;
        let site = Site::new(interface, (interfaces, bridges), &translating, by_lists);
        list.rules.iter().find_map(|rule| {
            let objection = site.objections(rule, workers.count).into_iter().find(|own| own.refuses)?;
            let help = objection.help.map(|help| format!("; {help}")).unwrap_or_default();
            Some(Refused {
                list: list.name.clone(),
                message: format!(
                    "the rule `{}` of the steer list `{}`: {}{help}",
                    Rule::of(rule),
                    list.name,
                    objection.message
                ),
            })
        })
    })
}

/// Some rule of an access list opens sessions, or its default does.
pub(crate) fn opens_sessions(list: &AclList) -> bool {
    list.default == AclDefault::Action(AclAction::Reflect)
        || list.rules.iter().any(|rule| rule.action == AclAction::Reflect)
}

/// The checks of packets that come in by an interface.
fn checks(interface: &Interface, is_translated: bool) -> Vec<&'static str> {
    let access = &interface.access;
    let all = [
        (interface.sav.v4.is_some() || interface.sav.v6.is_some(), "source address validation"),
        (access.bindings.is_some(), BINDINGS),
        (access.live_lists[0].as_ref().map_or(!access.acl_in.is_empty(), |lists| !lists.is_empty()), "access lists"),
        (!access.allow.v4.is_empty() || !access.allow.v6.is_empty(), "allowlists"),
        (access.classify_in.is_some(), "classifier tables"),
        (interface.spd.is_some(), "the SPD"),
        (is_translated, "translation"),
    ];
    all.into_iter().filter(|(is, _)| *is).map(|(_, name)| name).collect()
}
