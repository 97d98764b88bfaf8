//! The policies that the models of a run are to have had, and the drop reasons that are to have occurred.

use weir_plane::model::{
    AclAction, AclDefault, AclRule, Addresses, Gateway, Interfaces, LinkCheck, Match, Mechanism, NatFiltering, NatList,
    NatMapping, NatRule, NatVerb, Order, Ports, RatePer, Rejection, RouteTarget, SavAction, SavLayout, Scope, SteerWay,
    Transport, UrpfMode,
};
use weir_plane::reason::Reason;

use crate::nat::links_vrfs;

/// Reasons that have to do with decisions about flows, or with packets like those of flows.
pub const REASONS: &[Reason] = &[
    Reason::NotOurMac,
    Reason::UnknownVlan,
    Reason::AclEthertype,
    Reason::BadChecksum,
    Reason::BadOptions,
    Reason::MartianSource,
    Reason::LinkLayerBroadcast,
    Reason::SavAcl,
    Reason::SavUrpfStrict,
    Reason::SavUrpfLoose,
    Reason::SavUrpfFeasible,
    Reason::SavTable,
    Reason::SavSpecial,
    Reason::SavLink,
    Reason::SavRateLimit,
    Reason::SavRedirect,
    Reason::AclDeny,
    Reason::AclReject,
    Reason::AclRateLimit,
    Reason::AclFragment,
    Reason::SessionLimit,
    Reason::SessionPickup,
    Reason::SteerDrop,
    Reason::SpdDiscard,
    Reason::SpdNoMatch,
    Reason::SpdUnprotected,
    Reason::EspNoSa,
    Reason::EspReplay,
    Reason::EspNoOutbound,
    Reason::ClassifyDeny,
    Reason::ClassifyRateLimit,
    Reason::MacIp,
    Reason::BridgeSamePort,
    Reason::BridgeSplitHorizon,
    Reason::BridgeMove,
    Reason::BridgeFloodOff,
    Reason::UnhandledEthertype,
    Reason::NotAllowed,
    Reason::NoRoute,
    Reason::Blackhole,
    Reason::Unreachable,
    Reason::Prohibit,
    Reason::NoNeighbor,
    Reason::TtlExpired,
    Reason::MtuExceeded,
    Reason::TransmitFull,
    Reason::NatExhausted,
    Reason::NatLimit,
    Reason::NatUntranslated,
];

/// Reasons of edited models beside these.
pub const EDITED_REASONS: &[Reason] = &[Reason::NatListLimit, Reason::NatVrfLimit];

macro_rules! features {
    ($model:ident, $found:ident: $($name:literal $is:expr;)*) => {
        /// The names of all policies.
        pub const FEATURES: &[&str] = &[$($name,)*];

        /// Returns the names of the policies that a model has.
        pub fn features($model: &Gateway) -> Vec<&'static str> {
            let mut $found = Vec::new();
            $(if $is { $found.push($name) })*
            $found
        }
    };
}

/// Policies that edited models alone have.
pub const EDITED: &[&str] = &["nat nptv6", "limit of a nat list", "nat-limit of a vrf"];

features! { model, found:
    "sav acl" validates(model, |own| matches!(own.mechanism, Mechanism::Acl(_)));
    "sav urpf strict" urpf(model, UrpfMode::Strict);
    "sav urpf loose" urpf(model, UrpfMode::Loose);
    "sav urpf feasible" urpf(model, UrpfMode::Feasible);
    "sav table" table(model, |_, layout| layout == SavLayout::Merged);
    "sav table any covering" table(model, |matching, _| matching == Match::AnyCovering);
    "sav cards serial" table(model, |_, layout| layout == SavLayout::Cards(Order::Serial));
    "sav cards parallel" table(model, |_, layout| layout == SavLayout::Cards(Order::Parallel));
    "sav blocklist" validates(model, |own| own.mechanism.rules().is_some_and(|rules| rules.list.iter().any(|rule| !rule.permit)));
    "sav interface list" validates(model, |own| {
        own.mechanism.rules().is_some_and(|rules| rules.list.iter().any(|rule| rule.scope == Scope::Interface))
    });
    "sav incremental" validates(model, |own| own.mechanism.rules().is_some_and(|rules| rules.incremental));
    "sav hits" validates(model, |own| own.mechanism.rules().is_some_and(|rules| rules.hits));
    "sav discard" validates(model, |own| own.action == SavAction::Discard);
    "sav permit" validates(model, |own| own.action == SavAction::Permit);
    "sav rate-limit" validates(model, |own| own.action == SavAction::RateLimit);
    "sav rate-limit per rule" validates(model, |own| {
        own.action == SavAction::RateLimit && own.rate_limit.is_some_and(|limit| limit.per == RatePer::Rule)
    });
    "sav redirect" validates(model, |own| own.action == SavAction::Redirect);
    "sav exempt" validates(model, |own| !own.exempt.is_empty());
    "sav sample" validates(model, |own| own.sample.is_some());
    "sav alarm" validates(model, |own| own.alarm.is_some());
    "sav link-check known" validates(model, |own| own.link_check == LinkCheck::Known);
    "sav link-check strict" validates(model, |own| own.link_check == LinkCheck::Strict);
    "sav special" validates(model, |own| own.special != Default::default());
    "acl in" model.interfaces.iter().any(|own| !own.access.acl_in.is_empty());
    "acl out" model.interfaces.iter().any(|own| !own.access.acl_out.is_empty());
    "acl sequence" model.interfaces.iter().any(|own| own.access.acl_in.len() > 1);
    "acl default next" filters(model, |list| list.default == AclDefault::Next);
    "acl default reflect" filters(model, |list| list.default == AclDefault::Action(AclAction::Reflect));
    "acl permit" rules(model, |rule| rule.action == AclAction::Permit);
    "acl deny" rules(model, |rule| rule.action == AclAction::Deny);
    "acl reject" rules(model, |rule| rule.action == AclAction::Reject(Rejection::Usual));
    "acl reject icmp" rules(model, |rule| rule.action == AclAction::Reject(Rejection::Icmp));
    "acl reflect" rules(model, |rule| rule.action == AclAction::Reflect);
    "acl address" rules(model, |rule| matches!(rule.from, Addresses::Net(_)));
    "acl range" rules(model, |rule| matches!(rule.from, Addresses::Range(..)));
    "acl group" rules(model, |rule| matches!(rule.from, Addresses::Group(_)));
    "acl protocol" rules(model, |rule| matches!(rule.transport, Transport::Protocol(_)));
    "acl port" rules(model, |rule| matches!(rule.transport, Transport::Ports { destination: Ports::Range(_), .. }));
    "acl port group" rules(model, |rule| matches!(rule.transport, Transport::Ports { destination: Ports::Group(_), .. }));
    "acl flags" rules(model, |rule| matches!(rule.transport, Transport::Ports { flags: Some(_), .. }));
    "acl icmp" rules(model, |rule| matches!(rule.transport, Transport::Icmp { .. }));
    "acl family" rules(model, |rule| rule.family.is_some());
    "acl dscp" rules(model, |rule| rule.dscp.is_some());
    "acl mark" rules(model, |rule| rule.mark.is_some());
    "acl received-on" rules(model, |rule| matches!(rule.received_on, Some(Interfaces::List(_))));
    "acl received-on group" rules(model, |rule| matches!(rule.received_on, Some(Interfaces::Group(_))));
    "acl later fragments" rules(model, |rule| rule.fragment == Some(true));
    "acl no later fragments" rules(model, |rule| rule.fragment == Some(false));
    "acl limit" rules(model, |rule| rule.limit.is_some());
    "acl limit of a session" rules(model, |rule| rule.limit.is_some() && rule.action == AclAction::Reflect);
    "acl log" rules(model, |rule| rule.log);
    "acl flow" rules(model, |rule| rule.flow == Some(true));
    "acl flow of a session" rules(model, |rule| rule.flow == Some(true) && rule.action == AclAction::Reflect);
    "acl no-flow" rules(model, |rule| rule.flow == Some(false));
    "learned at the second packet" model.flow_table.packets == 2;
    "learned at the fifth packet" model.flow_table.packets == 5;
    "spd" model.interfaces.iter().any(|own| own.spd.is_some());
    "spd cache" model.spds.iter().any(|own| own.cache.outbound || own.cache.inbound);
    "sa" model.sas.iter().any(|own| own.interface.is_none() && own.outbound.is_some());
    "sa interface" model.sas.iter().any(|own| own.interface.is_some());
    "sa inbound alone" model.sas.iter().any(|own| own.outbound.is_none());
    "spd shared" model.spds.iter().any(|own| own.rules.iter().any(|rule| rule.shared));
    "spd opaque" model.spds.iter().any(|own| own.rules.iter().any(weir_plane::model::SpdRule::is_opaque));
    "bridge" !model.bridges.is_empty();
    "bindings learned on a bridge" model.bindings.iter().any(|own| own.name == "learned");
    "steer queues" model.steer.iter().any(|own| own.rules.iter().any(|rule| matches!(rule.way, SteerWay::Queue(_))));
    "steer frames" model.steer.iter().any(|own| own.rules.iter().any(|rule| rule.frame.is_some()));
    "steer packets inside" model.steer.iter().any(|own| own.rules.iter().any(|rule| rule.inner.is_some()));
    "classify by interface" model.classify.iter().any(|own| own.start == weir_plane::model::ClassifyStart::Meta);
    "steer" model.interfaces.iter().any(|own| own.steer.is_some());
    "tunnel" model.interfaces.iter().any(|own| matches!(own.kind, weir_plane::model::InterfaceKind::Tunnel(_)));
    "classify in" model.interfaces.iter().any(|own| own.access.classify_in.is_some());
    "classify out" model.interfaces.iter().any(|own| own.access.classify_out.is_some());
    "classify next hop" model.classify.iter().any(|own| own.actions.iter().any(|action| !action.via.is_empty()));
    "allowlist" model.interfaces.iter().any(|own| !own.access.allow.v4.is_empty());
    "bindings" model.interfaces.iter().any(|own| own.access.bindings.is_some());
    "ethertypes in" model.interfaces.iter().any(|own| own.access.ethertypes_in.is_some());
    "ethertypes out" model.interfaces.iter().any(|own| own.access.ethertypes_out.is_some());
    "zone" model.interfaces.iter().any(|own| own.zone.is_some());
    "vrf" model.interfaces.iter().any(|own| own.vrf.0 > 0);
    "vrfs linked by routes" links_vrfs(model);
    "translation between vrfs" links_vrfs(model) && model.interfaces.iter().any(|own| own.nat.is_some());
    "nat source" translates(model, |_, rule| rule.verb == NatVerb::Source);
    "nat destination" translates(model, |_, rule| rule.verb == NatVerb::Destination);
    "nat both" translates(model, |_, rule| rule.verb == NatVerb::Both);
    "nat map" translates(model, |_, rule| rule.verb == NatVerb::Map && !is_npt(rule));
    "nat nptv6" translates(model, |_, rule| is_npt(rule));
    "nat keep" translates(model, |_, rule| rule.verb == NatVerb::Keep);
    "nat to interface" translates(model, |_, rule| rule.to_interface);
    "nat as interface" translates(model, |_, rule| rule.source.as_ref().is_some_and(|own| own.addresses.is_none()));
    "nat pool" translates(model, |_, rule| {
        rule.source.as_ref().is_some_and(|own| matches!(own.addresses, Some(Addresses::Group(_))))
    });
    "nat ports" translates(model, |_, rule| rule.source.as_ref().is_some_and(|own| own.ports.is_some()));
    "nat preserve" translates(model, |_, rule| rule.preserve);
    "nat parity" translates(model, |_, rule| rule.parity);
    "nat limit-per-address" translates(model, |_, rule| rule.limit_per_address.is_some());
    "nat-limit of a vrf" model.vrfs.iter().any(|own| own.nat_limit.is_some());
    "limit of a nat list" translates(model, |list, _| list.limit.is_some());
    "nat mss-clamp" translates(model, |list, _| list.mss_clamp.is_some());
    "nat endpoint-dependent" translates(model, |list, _| list.mapping == NatMapping::EndpointDependent);
    "nat endpoint-independent" translates(model, |list, _| {
        list.mapping == NatMapping::EndpointIndependent(NatFiltering::EndpointIndependent)
    });
    "nat filtered by endpoint" translates(model, |list, _| {
        list.mapping == NatMapping::EndpointIndependent(NatFiltering::EndpointDependent)
    });
    "punt" model.interfaces.iter().any(|own| own.punt.is_some());
    "mtu" model.interfaces.iter().any(|own| own.mtu < 1500);
    "multipath" model.routes.iter().any(|own| matches!(&own.target, RouteTarget::Via(paths) if paths.len() > 1));
    "blackhole" model.routes.iter().any(|own| own.target == RouteTarget::Blackhole);
    "unreachable" model.routes.iter().any(|own| own.target == RouteTarget::Unreachable);
    "prohibit" model.routes.iter().any(|own| own.target == RouteTarget::Prohibit);
    "few decisions" model.flow_table.flows <= 10;
    "few sessions" model.flow_table.sessions <= 10;
    "no recheck" !model.flow_table.recheck;
    "no pickup" !model.flow_table.tcp_pickup;
}

/// Whether an interface uses a policy like that.
fn validates(model: &Gateway, is: impl Fn(&weir_plane::model::SavPolicy) -> bool) -> bool {
    let own = model.interfaces.iter().flat_map(|interface| [interface.sav.v4, interface.sav.v6]).flatten();
    own.into_iter().any(|index| is(&model.sav[usize::from(index.0)]))
}

fn urpf(model: &Gateway, mode: UrpfMode) -> bool {
    validates(model, |own| matches!(own.mechanism, Mechanism::Urpf(urpf) if urpf.mode == mode))
}

fn table(model: &Gateway, is: impl Fn(Match, SavLayout) -> bool) -> bool {
    validates(model, |own| matches!(own.mechanism, Mechanism::Table { matching, layout, .. } if is(matching, layout)))
}

/// Whether an interface uses a list like that.
fn filters(model: &Gateway, is: impl Fn(&weir_plane::model::AclList) -> bool) -> bool {
    let own =
        model.interfaces.iter().flat_map(|interface| interface.access.acl_in.iter().chain(&interface.access.acl_out));
    own.into_iter().any(|index| is(&model.acls[usize::from(index.0)]))
}

/// Whether an interface uses a NAT list that has such a rule.
fn translates(model: &Gateway, is: impl Fn(&NatList, &NatRule) -> bool) -> bool {
    let lists = model.interfaces.iter().filter_map(|own| own.nat).map(|index| &model.nat[usize::from(index.0)]);
    lists.into_iter().any(|list| list.rules.iter().any(|rule| is(list, rule)))
}

/// Whether a rule maps prefixes of IPv6 without sessions: it is about all packets.
fn is_npt(rule: &NatRule) -> bool {
    let is_short =
        |own: &Addresses| matches!(own, Addresses::Net(net) if net.addr().is_ipv6() && net.prefix_len() <= 64);
    let is_whole = rule.matches.to == Addresses::Any && rule.matches.transport == Transport::Any;
    rule.verb == NatVerb::Map && is_whole && is_short(&rule.matches.from)
}

fn rules(model: &Gateway, is: impl Fn(&AclRule) -> bool) -> bool {
    filters(model, |list| list.rules.iter().any(&is))
}
