//! The graph against what the model says: for any rules, routes and policies a packet passes exactly if a reading of the
//! model, entry by entry, says so. One vector has packets of all interfaces. The same with entries that come and go.

mod kit;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use ipnet::IpNet;
use kit::*;
use proptest::collection::vec;
use proptest::prelude::*;
use weir_plane::compile::{Edit, EntryKey, Names};
use weir_plane::harness::Verdict;
use weir_plane::model::{
    Gateway, InterfaceIndex, Match, Mechanism, Mode, Order, Route, RouteTarget, SavLayout, SavRules, Scope, Urpf,
    UrpfMode, VrfIndex,
};
use weir_plane::sav::By;
use weir_table::lpm::Prefix;
use weir_table::sav::{self, Set, naive};

const NAMES: [&str; 4] = ["v1", "v2", "v3", "v4"];

/// A few prefixes that nest.
fn prefix() -> impl Strategy<Value = IpNet> {
    (any::<bool>(), 0..16u8, prop_oneof![Just(0u8), 1..5u8]).prop_map(|(v6, bits, len)| net(v6, bits, len))
}

/// The prefix of some of four bits below 198.18.0.0/15 or 2001:db8::/32; of none: of everything.
fn net(v6: bool, bits: u8, len: u8) -> IpNet {
    let (address, below) = (address(v6, bits), if v6 { 32 } else { 16 });
    let len = if len == 0 { 0 } else { below + len };
    IpNet::new(address, len).unwrap().trunc()
}

fn address(v6: bool, bits: u8) -> IpAddr {
    match v6 {
        true => IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, u16::from(bits) << 12, 0, 0, 0, 0, 7)),
        false => IpAddr::V4(Ipv4Addr::new(198, 18, bits << 4, 7)),
    }
}

/// Some of the interfaces: at least one.
fn interfaces() -> impl Strategy<Value = Vec<usize>> {
    (1..16usize).prop_map(|bits| (0..4).filter(|bit| bits >> bit & 1 != 0).collect())
}

type Rule = (Mode, IpNet, Vec<usize>);

/// Most in allowlists of prefixes, few in those of interfaces, as these leave nothing to the others.
fn mode() -> impl Strategy<Value = Mode> {
    prop_oneof![
        1 => Just(Mode::InterfaceAllow),
        2 => Just(Mode::InterfaceBlock),
        5 => Just(Mode::PrefixAllow),
        3 => Just(Mode::PrefixBlock),
    ]
}

fn rules() -> impl Strategy<Value = Vec<Rule>> {
    vec((mode(), prefix(), interfaces()), 0..12)
}

/// As a configuration says it.
fn text((mode, prefix, interfaces): &Rule) -> String {
    let list = if Scope::of(*mode) == Scope::Interface { "interface " } else { "" };
    let does = if mode.permits() { "permit" } else { "deny" };
    format!("{list}{does} from {prefix} on {}", names(interfaces).join(", "))
}

fn names(interfaces: &[usize]) -> Vec<&'static str> {
    interfaces.iter().map(|interface| NAMES[*interface]).collect()
}

#[derive(Debug, Clone)]
enum Wanted {
    Acl(bool),
    Urpf(UrpfMode, bool, bool),
    /// Of rules of any of these modes.
    Table(bool, Match, SavLayout, Vec<Mode>),
}

fn wanted() -> impl Strategy<Value = Wanted> {
    let mode = prop_oneof![Just(UrpfMode::Strict), Just(UrpfMode::Loose), Just(UrpfMode::Feasible)];
    let matching = prop_oneof![Just(Match::MostSpecific), Just(Match::AnyCovering)];
    let modes = prop::sample::subsequence(Mode::ALL.to_vec(), 1..=4);
    let layout = prop_oneof![
        Just(SavLayout::Merged),
        Just(SavLayout::Cards(Order::Serial)),
        Just(SavLayout::Cards(Order::Parallel))
    ];
    prop_oneof![
        1 => any::<bool>().prop_map(Wanted::Acl),
        1 => (mode, any::<bool>(), any::<bool>()).prop_map(|(mode, default, other)| Wanted::Urpf(mode, default, other)),
        2 => (any::<bool>(), matching.clone(), modes).prop_map(|(incremental, matching, modes)| {
            Wanted::Table(incremental, matching, SavLayout::Merged, modes)
        }),
        1 => (any::<bool>(), matching, layout).prop_map(|(incremental, matching, layout)| {
            Wanted::Table(incremental, matching, layout, vec![Mode::PrefixAllow])
        }),
    ]
}

/// A route: its VRF, prefix, metric, and interfaces; none: it discards.
type Way = (bool, IpNet, u32, Vec<usize>);

fn ways() -> impl Strategy<Value = Vec<Way>> {
    let paths = prop_oneof![4 => interfaces(), 1 => Just(Vec::new())];
    vec((any::<bool>(), prefix(), 0..3u32, paths), 0..12)
}

fn build(rules: &[Rule], ways: &[Way], policies: &[Wanted], by: &[Option<usize>]) -> Build {
    let mut build = Build::new()
        .port("trunk", &[])
        .port("out", &["192.0.2.1/24", "2001:db8:ff00::1/64"])
        .via("203.0.113.0/24", &["out 192.0.2.2"])
        .via("2001:db9::/32", &["out 2001:db8:ff00::2"])
        .line_card("first", &[]);
    for (number, name) in (1..).zip(NAMES) {
        build =
            build.vlan(name, "trunk", &[number], &[&format!("10.0.{number}.1/24"), &format!("fd00:{number}::1/64")]);
    }
    build.0.line_cards[0].interfaces = vec![build.interface("v1"), build.interface("v3")];
    let mut seen: Vec<(bool, IpNet, u32)> = Vec::new();
    for (other, prefix, metric, paths) in ways {
        let key = (*other, *prefix, *metric);
        if seen.contains(&key) {
            continue;
        }
        seen.push(key);
        let gateway = |interface: &usize| match prefix {
            IpNet::V4(_) => format!("v{0} 10.0.{0}.2", interface + 1),
            IpNet::V6(_) => format!("v{0} fd00:{0}::2", interface + 1),
        };
        let paths: Vec<String> = paths.iter().map(gateway).collect();
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        let vrf = if *other { "other" } else { "default" };
        build = match paths.is_empty() {
            true => build.route_in(vrf, &prefix.to_string(), RouteTarget::Blackhole),
            false => build.via_in(vrf, &prefix.to_string(), &paths),
        };
        build = build.metric(*metric);
    }
    build = build.route_in("other", "203.0.113.0/24", RouteTarget::Blackhole);
    for (number, policy) in policies.iter().enumerate() {
        let mut rules = |modes: &[Mode], incremental| {
            let texts: Vec<String> = rules.iter().filter(|(mode, ..)| modes.contains(mode)).map(text).collect();
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            SavRules { incremental, ..build.rules(&texts) }
        };
        let mechanism = match *policy {
            Wanted::Acl(incremental) => Mechanism::Acl(rules(&[Mode::PrefixAllow, Mode::PrefixBlock], incremental)),
            Wanted::Table(incremental, matching, layout, ref modes) => {
                Mechanism::Table { rules: rules(modes, incremental), matching, layout }
            }
            Wanted::Urpf(mode, default_route, other) => {
                let vrf = build.0.vrfs.iter().position(|vrf| vrf.name == "other").filter(|_| other);
                Mechanism::Urpf(Urpf { mode, default_route, vrf: vrf.map(|vrf| VrfIndex(vrf as u16)) })
            }
        };
        build = build.policy(&format!("p{number}"), mechanism);
    }
    for (name, policy) in NAMES.iter().zip(by) {
        if let Some(policy) = policy {
            build = build.validate(&[name], &format!("p{policy}"));
        }
    }
    build
}

/// An entry of a table or list.
type Entry = (Mode, IpNet, Set);

/// Decides by the model, entry by entry, with the live edits.
fn passes(model: &Gateway, policy: &Mechanism, later: &[Entry], interface: InterfaceIndex, source: IpAddr) -> bool {
    match policy {
        Mechanism::Acl(rules) | Mechanism::Table { rules, .. } => {
            let configured = rules.list.iter().map(|rule| {
                let set = rule.interfaces.iter().map(|interface| interface.0).collect();
                (rule.mode(), rule.prefix, set)
            });
            let entries: Vec<Entry> = configured.chain(later.iter().cloned()).collect();
            let verdict = match source {
                IpAddr::V4(source) => by_rules(&entries, policy, interface, u32::from(source), |net| match net {
                    IpNet::V4(net) => Prefix::new(net.network().into(), net.prefix_len()),
                    IpNet::V6(_) => None,
                }),
                IpAddr::V6(source) => by_rules(&entries, policy, interface, u128::from(source), |net| match net {
                    IpNet::V6(net) => Prefix::new(net.network().into(), net.prefix_len()),
                    IpNet::V4(_) => None,
                }),
            };
            // Without an allowlist of prefixes there is none that a source would have to stand in.
            let is_table = matches!(policy, Mechanism::Table { .. });
            let open = is_table && !entries.is_empty() && entries.iter().all(|(mode, ..)| *mode != Mode::PrefixAllow);
            verdict == sav::Verdict::Valid || (verdict == sav::Verdict::Unknown && (rules.incremental || open))
        }
        Mechanism::Urpf(urpf) => by_routes(model, *urpf, interface, source),
    }
}

fn by_rules<K: weir_table::lpm::Key>(
    entries: &[Entry],
    policy: &Mechanism,
    interface: InterfaceIndex,
    source: K,
    prefix: impl Fn(IpNet) -> Option<Prefix<K>>,
) -> sav::Verdict {
    let listed: Vec<(Prefix<K>, Mode, Set)> =
        entries.iter().filter_map(|(mode, net, set)| Some((prefix(*net)?, *mode, set.clone()))).collect();
    let Mechanism::Table { matching, .. } = policy else {
        let listed: Vec<_> = listed.into_iter().map(|(prefix, mode, set)| (prefix, set, mode.permits())).collect();
        return naive::ordered(&listed, source, interface.0);
    };
    let allows = |list: &[&Set]| list.iter().any(|set| set.contains(interface.0));
    let own: Vec<&Set> =
        listed.iter().filter(|(_, mode, _)| *mode == Mode::InterfaceAllow).map(|(_, _, set)| set).collect();
    let any: Vec<&Set> =
        entries.iter().filter(|(mode, ..)| *mode == Mode::InterfaceAllow).map(|(_, _, set)| set).collect();
    // An allowlist of the other family's prefixes has none of this one's.
    if allows(&any) && !allows(&own) {
        return sav::Verdict::Invalid;
    }
    if listed.iter().any(|(_, mode, _)| *mode != Mode::PrefixAllow) {
        return naive::modes(&listed, *matching, source, interface.0);
    }
    // A prefix that stands several times has all the interfaces.
    let mut merged: BTreeMap<Prefix<K>, Set> = BTreeMap::new();
    for (prefix, _, set) in listed {
        let known = merged.entry(prefix).or_default();
        *known = known.union(&set);
    }
    let merged: Vec<(Prefix<K>, Set)> = merged.into_iter().collect();
    match matching {
        Match::MostSpecific => naive::most_specific(&merged, source, interface.0),
        Match::AnyCovering => naive::any_covering(&merged, source, interface.0),
    }
}

fn by_routes(model: &Gateway, urpf: Urpf, interface: InterfaceIndex, source: IpAddr) -> bool {
    let vrf = urpf.vrf.unwrap_or(VrfIndex(0));
    let counts = |route: &&Route| {
        route.vrf == vrf && route.prefix.contains(&source) && (urpf.default_route || route.prefix.prefix_len() > 0)
    };
    let covering: Vec<&Route> = model.routes.iter().filter(counts).collect();
    let Some(longest) = covering.iter().map(|route| route.prefix.prefix_len()).max() else { return false };
    let mut routes: Vec<&Route> = covering.into_iter().filter(|route| route.prefix.prefix_len() == longest).collect();
    routes.sort_by_key(|route| route.metric);
    let leads = |route: &Route| match &route.target {
        RouteTarget::Via(paths) => paths.iter().any(|path| path.interface == interface),
        _ => false,
    };
    if !matches!(routes[0].target, RouteTarget::Via(_)) {
        return false;
    }
    match urpf.mode {
        UrpfMode::Loose => true,
        UrpfMode::Strict => leads(routes[0]),
        UrpfMode::Feasible => routes.into_iter().any(leads),
    }
}

fn send(rig: &mut Rig, sources: &[(usize, bool, u8)]) -> Vec<Verdict> {
    let frames: Vec<Vec<u8>> = sources
        .iter()
        .map(|&(interface, v6, bits)| {
            let to = if v6 { "2001:db9::1" } else { "203.0.113.1" };
            let source = address(v6, bits);
            rig.frame("trunk", &format!("udp from {source} port 7 to {to} port 9 vlan {}", interface + 1))
        })
        .collect();
    rig.put_all("trunk", &frames).0.into_iter().map(|outcome| outcome.verdict).collect()
}

fn agrees(rig: &mut Rig, later: &[Entry], sources: &[(usize, bool, u8)]) -> Result<(), TestCaseError> {
    let found = send(rig, sources);
    let model = rig.harness.model();
    for (&(interface, v6, bits), found) in sources.iter().zip(found) {
        let index = index(model, interface);
        let own = model.interfaces[index.0 as usize].sav;
        let policy = if v6 { own.v6 } else { own.v4 }.map(|policy| &model.sav[usize::from(policy.0)].mechanism);
        let expected = match policy {
            Some(policy) if !passes(model, policy, later, index, address(v6, bits)) => {
                Verdict::Drop(By::of(policy).reason())
            }
            _ => Verdict::Forward,
        };
        prop_assert_eq!(found, expected, "{:?} on {} by {:?}", address(v6, bits), NAMES[interface], policy);
    }
    Ok(())
}

fn index(model: &Gateway, interface: usize) -> InterfaceIndex {
    InterfaceIndex(model.interfaces.iter().position(|known| known.name == NAMES[interface]).unwrap() as u32)
}

/// Rules, routes, policies, and which of these each interface has.
type Case = (Vec<Rule>, Vec<Way>, Vec<Wanted>, Vec<Option<usize>>);

/// The statement of a source about one rule's prefix and list from then on: these interfaces, or none.
type Change = (usize, Mode, IpNet, Option<Vec<usize>>);

fn change() -> impl Strategy<Value = Change> {
    (0..2usize, mode(), prefix(), prop::option::weighted(0.7, interfaces()))
}

/// Every source of one family, on every interface.
fn everything() -> Vec<(usize, bool, u8)> {
    let of = |interface| [false, true].into_iter().flat_map(move |v6| (0..16).map(move |bits| (interface, v6, bits)));
    (0..4).flat_map(of).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn the_graph_does_what_the_model_says(
        first in (rules(), ways(), vec(wanted(), 1..4), vec(prop::option::weighted(0.9, 0..3usize), 4)),
        second in (rules(), ways(), vec(wanted(), 1..4), vec(prop::option::weighted(0.9, 0..3usize), 4)),
        sources in vec((0..4usize, any::<bool>(), 0..16u8), 1..200),
    ) {
        let make = |(rules, ways, policies, by): &Case| {
            let by: Vec<_> = by.iter().map(|policy| policy.map(|policy| policy % policies.len())).collect();
            build(rules, ways, policies, &by)
        };
        let mut rig = make(&first).inventive();
        agrees(&mut rig, &[], &sources)?;
        // And after a reload, which keeps what it can.
        rig.reload(make(&second));
        agrees(&mut rig, &[], &sources)?;
        let (_, ways, policies, by) = second;
        rig.reload(make(&(first.0, ways, policies, by)));
        agrees(&mut rig, &[], &sources)?;
    }

    #[test]
    fn entries_that_come_later_count_as_rules(
        rules in rules(),
        other_rules in rules(),
        (incremental, any_covering, configured) in (any::<bool>(), any::<bool>(), any::<bool>()),
        batches in vec((vec(change(), 1..6), 0..6usize), 1..6),
    ) {
        let matching = if any_covering { Match::AnyCovering } else { Match::MostSpecific };
        // Some tables become tables of lists by live edits; others are so from the start.
        let modes = if configured { Mode::ALL.to_vec() } else { vec![Mode::PrefixAllow] };
        let policies = [Wanted::Table(incremental, matching, SavLayout::Merged, modes)];
        let make = |rules: &[Rule]| build(rules, &[], &policies, &[Some(0); 4]);
        let mut rig = make(&rules).inventive();
        let mut said: [BTreeMap<EntryKey, Vec<usize>>; 2] = Default::default();
        let listed = |interfaces: &[usize]| -> Names { names(interfaces).into_iter().map(Arc::from).collect() };
        for (batch, how) in batches {
            for (number, said) in said.iter_mut().enumerate() {
                let of_source = batch.iter().filter(|(source, ..)| *source == number);
                let mut edits = Vec::new();
                for (_, mode, prefix, change) in of_source {
                    let key = EntryKey { prefix: *prefix, mode: *mode };
                    match change {
                        Some(interfaces) => {
                            edits.push(Edit::Replace(key, listed(interfaces)));
                            said.insert(key, interfaces.clone());
                        }
                        None if said.remove(&key).is_some() => edits.push(Edit::Delete(key)),
                        None => {}
                    }
                }
                let source = ["api", "peer"][number];
                let edited = if how % 2 == 0 {
                    rig.harness.edit_sav("p0", source, &edits, 0)
                } else {
                    let all: Vec<_> = said.iter().map(|(key, interfaces)| (*key, listed(interfaces))).collect();
                    rig.harness.replace_sav("p0", source, &all, 0)
                };
                prop_assert_eq!(edited.unwrap().entries, said.len());
            }
            // What was said stays, whatever else comes.
            if how == 4 {
                rig.reload(make(&other_rules));
            }
            let model = rig.harness.model();
            let entry = |(key, interfaces): (&EntryKey, &Vec<usize>)| {
                let set = interfaces.iter().map(|interface| index(model, *interface).0).collect();
                (key.mode, key.prefix, set)
            };
            let later: Vec<Entry> = said.iter().flatten().map(entry).collect();
            agrees(&mut rig, &later, &everything())?;
        }
    }
}
