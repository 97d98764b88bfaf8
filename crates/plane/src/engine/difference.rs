//! The interfaces that two models have in common, or not.
//!
//! Each struct is taken apart field by field, so that the compiler wants a line here whenever an interface gets another
//! key. Indices are compared by the names behind them: objects that move within a file are the same.

use std::collections::HashMap;
use std::fmt::Debug;

use super::report::Reloaded;
use crate::model::{self, Access, Ethertypes, Interface, InterfaceKind, PerFamily, Tunnel, VrfIndex};

/// The keys of an interface with their values, in words.
type Keys = Vec<(&'static str, String)>;

/// Compares two models, interface by interface.
#[must_use]
pub fn difference(old: &model::Gateway, new: &model::Gateway) -> Reloaded {
    let named = |model: &model::Gateway| -> HashMap<String, usize> {
        model.interfaces.iter().zip(0..).map(|(interface, at)| (interface.name.clone(), at)).collect()
    };
    let (before, after) = (named(old), named(new));
    let changed = |interface: &&Interface| {
        let own = before.get(&interface.name).map(|&at| &old.interfaces[at]);
        own.is_some_and(|own| keys(old, own) != keys(new, interface))
    };
    let names = |interfaces: &mut dyn Iterator<Item = &Interface>| interfaces.map(|own| own.name.clone()).collect();
    Reloaded {
        added: names(&mut new.interfaces.iter().filter(|own| !before.contains_key(&own.name))),
        removed: names(&mut old.interfaces.iter().filter(|own| !after.contains_key(&own.name))),
        changed: names(&mut new.interfaces.iter().filter(changed)),
        ..Reloaded::default()
    }
}

/// Returns the keys of an interface.
fn keys(model: &model::Gateway, interface: &Interface) -> Keys {
    let Interface {
        name: _,
        kind,
        mac,
        mtu,
        addresses,
        vrf,
        zone,
        fast_path,
        merge,
        punt,
        follow,
        router_advertisement,
        sav,
        access,
        nat,
        spd,
        steer,
        origin: _,
    } = interface;
    let addresses: Vec<_> = addresses.iter().map(|address| address.net).collect();
    let mut keys = vec![
        ("kind", of_kind(model, kind)),
        ("mac", words(mac)),
        ("mtu", words(mtu)),
        ("address", words(&addresses)),
        ("vrf", vrf_name(model, *vrf).to_owned()),
        ("zone", words(zone)),
        ("fast-path", words(fast_path)),
        ("merge", words(merge)),
        ("punt", words(&(punt, follow))),
        ("router-advertisement", words(router_advertisement)),
        ("nat", words(&nat.map(|list| &model.nat[usize::from(list.0)].name))),
        ("spd", words(&spd.map(|spd| &model.spds[usize::from(spd.0)].name))),
        ("steer", words(&steer.map(|list| &model.steer[usize::from(list.0)].name))),
    ];
    let PerFamily { v4, v6 } = sav;
    for (key, policy) in [("sav.ip4", v4), ("sav.ip6", v6)] {
        keys.push((key, words(&policy.map(|policy| &model.sav[usize::from(policy.0)].name))));
    }
    keys.extend(of_access(model, interface, access));
    keys
}

/// Returns the kind of an interface with the names of what it stands on.
fn of_kind(model: &model::Gateway, kind: &InterfaceKind) -> String {
    match kind {
        InterfaceKind::Port { port, middleware, queues } => words(&(port, middleware, queues)),
        InterfaceKind::Vlan { parent, outer, inner } => {
            words(&("vlan", &model.interfaces[parent.0 as usize].name, outer, inner))
        }
        InterfaceKind::Ipsec => "ipsec".to_owned(),
        InterfaceKind::Tunnel(tunnel) => words(&(Tunnel { vrf: VrfIndex(0), ..*tunnel }, vrf_name(model, tunnel.vrf))),
        InterfaceKind::Bridge(bridge) => words(&("bridge", &model.bridges[usize::from(bridge.0)].name)),
    }
}

fn of_access(model: &model::Gateway, interface: &Interface, access: &Access) -> Keys {
    let Access {
        // The lists in force are those below, or live ones instead.
        acl_in: _,
        acl_out: _,
        live_lists: _,
        allow: PerFamily { v4, v6 },
        bindings,
        dhcp_trusted,
        slaac_trusted,
        classify_in,
        classify_out,
        ethertypes_in,
        ethertypes_out,
    } = access;
    let allowed = |lists: &[model::AllowlistIndex]| {
        words(&lists.iter().map(|list| &model.allowlists[usize::from(list.0)].name).collect::<Vec<_>>())
    };
    let table =
        |table: &Option<model::ClassifyIndex>| words(&table.map(|table| &model.classify[usize::from(table.0)].name));
    let types =
        |ethertypes: &Option<Ethertypes>| words(&ethertypes.as_ref().map(|Ethertypes { types, origin: _ }| types));
    vec![
        ("acl.in", words(&model.lists_of(interface, false))),
        ("acl.out", words(&model.lists_of(interface, true))),
        ("allow.ip4", allowed(v4)),
        ("allow.ip6", allowed(v6)),
        ("mac-ip", words(&bindings.map(|list| &model.bindings[usize::from(list.0)].name))),
        ("dhcp-trusted", words(dhcp_trusted)),
        ("slaac-trusted", words(slaac_trusted)),
        ("classify.in", table(classify_in)),
        ("classify.out", table(classify_out)),
        ("ethertypes.in", types(ethertypes_in)),
        ("ethertypes.out", types(ethertypes_out)),
    ]
}

fn vrf_name(model: &model::Gateway, vrf: VrfIndex) -> &str {
    &model.vrfs[usize::from(vrf.0)].name
}

fn words(value: &impl Debug) -> String {
    format!("{value:?}")
}
