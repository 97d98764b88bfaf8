//! The objects of a model that reloads name, as values that can be compared.
//!
//! Each struct is taken apart field by field, so that the compiler wants a line here whenever an object gets another key.
//! Indices are compared by the names behind them: objects that move within a file are the same.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use weir_plane::engine::sa_name;
use weir_plane::model::{
    AclList, AllowedSources, Allowlist, Bindings, Bridge, Buffers, ClassifyTable, Gateway, Groups, InterfaceIndex,
    Ipsec, LineCard, Mechanism, NatList, Neighbor, NextHop, Origin, PerFamily, Sampler, SamplerIndex, Sampling,
    SavPolicy, SavRule, SavRules, Spd, SteerList, Urpf,
};

use crate::rules::binding::Binding;
use crate::rules::classify::{Session, parse_mask};
use crate::rules::{acl, nat, spd, steer};

/// The rules and keys of each object as they print, wherever they stand in files. Members of groups count as rules.
pub(super) type Printed = BTreeMap<String, Vec<String>>;

/// Prints the objects of a gateway but its interfaces, routes, SAs and policies of source address validation, which are
/// compared by themselves.
pub(super) fn printed(gateway: &Gateway) -> Printed {
    let Gateway {
        interfaces: _,
        routes: _,
        sas: _,
        sav: _,
        origins: _,
        vrfs,
        bridges,
        neighbors,
        groups,
        acls,
        allowlists,
        bindings,
        classify,
        nat,
        spds,
        steer,
        ipsec,
        samplers,
        line_cards,
        workers,
        buffers,
        icmp,
        neighbor_discovery,
        limits,
        flow_table,
    } = gateway;
    let all = Objects(gateway);
    let tables = [
        ("workers", words(workers)),
        ("buffers", of_buffers(*buffers)),
        ("icmp", words(icmp)),
        ("neighbor-discovery", words(neighbor_discovery)),
        ("limits", words(limits)),
        ("flow-table", words(&(flow_table, learning(gateway)))),
        ("ipsec", of_ipsec(ipsec)),
    ];
    let mut found: Printed = tables.into_iter().map(|(name, keys)| (name.to_owned(), vec![keys])).collect();
    found.extend(vrfs.iter().map(|vrf| (format!("vrf {}", vrf.name), vec![words(&vrf.nat_limit)])));
    found.extend(neighbors.iter().map(|neighbor| all.neighbor(neighbor)));
    found.extend(bridges.iter().map(|bridge| all.bridge(bridge)));
    found.extend(acls.iter().map(|list| all.acl(list)));
    found.extend(allowlists.iter().map(|list| all.allowlist(list)));
    found.extend(bindings.iter().map(of_bindings));
    found.extend(classify.iter().map(|table| (format!("classify {}", table.name), all.table(table))));
    found.extend(nat.iter().map(|list| all.nat(list)));
    found.extend(spds.iter().map(|spd| all.spd(spd)));
    found.extend(steer.iter().map(of_steer));
    found.extend(samplers.iter().map(of_sampler));
    found.extend(line_cards.iter().map(|card| all.line_card(card)));
    found.extend(all.groups(groups));
    found
}

/// Returns the interfaces whose flows are learned, sorted by name; `None` for all interfaces.
fn learning(gateway: &Gateway) -> Option<Vec<&str>> {
    let learns = gateway.interfaces.iter().filter(|own| own.fast_path);
    let mut names: Vec<&str> = learns.map(|own| own.name.as_str()).collect();
    names.sort_unstable();
    (names.len() < gateway.interfaces.len()).then_some(names)
}

/// Returns the sessions of a table, as they are written, sorted.
pub(super) fn sessions(gateway: &Gateway, table: &ClassifyTable) -> Vec<String> {
    let mut lines: Vec<String> = match parse_mask(&table.text) {
        Ok((mask, _)) => {
            table.sessions.iter().map(|session| Session::of(gateway, table, session).text(&mask)).collect()
        }
        // The text of a mask was printed by a mask.
        Err(_) => Vec::new(),
    };
    lines.sort_unstable();
    lines
}

/// A policy of source address validation: its keys, and the rules of its mechanism, of which there may be a million.
pub(super) struct Policy<'g> {
    keys: Vec<String>,
    gateway: &'g Gateway,
    rules: &'g [SavRule],
}

impl PartialEq for Policy<'_> {
    fn eq(&self, other: &Self) -> bool {
        let names = |own: &Policy<'_>, rule: &SavRule, at: usize| {
            own.gateway.interfaces[rule.interfaces[at].0 as usize].name.as_str().to_owned()
        };
        let same = |(one, two): (&SavRule, &SavRule)| {
            let SavRule { prefix, interfaces, permit, scope, origin: _ } = one;
            (*prefix, *permit, *scope, interfaces.len()) == (two.prefix, two.permit, two.scope, two.interfaces.len())
                && (0..interfaces.len()).all(|at| names(self, one, at) == names(other, two, at))
        };
        self.keys == other.keys && self.rules.len() == other.rules.len() && self.rules.iter().zip(other.rules).all(same)
    }
}

/// Returns the policies of source address validation by their names.
pub(super) fn policies(gateway: &Gateway) -> BTreeMap<String, Policy<'_>> {
    let all = Objects(gateway);
    gateway.sav.iter().map(|policy| (format!("sav {}", policy.name), all.policy(policy))).collect()
}

/// An object's name and keys.
type Object = (String, Vec<String>);

/// The objects of a gateway.
struct Objects<'g>(&'g Gateway);

impl<'g> Objects<'g> {
    fn interface(&self, index: InterfaceIndex) -> Arc<str> {
        self.0.interfaces[index.0 as usize].name.as_str().into()
    }

    fn sampler(&self, index: SamplerIndex) -> &'g str {
        &self.0.samplers[usize::from(index.0)].name
    }

    fn sampling(&self, sampling: Option<&Sampling>) -> String {
        words(&sampling.map(|Sampling { one_in, to }| (one_in, self.sampler(*to))))
    }

    fn acl(&self, list: &AclList) -> Object {
        let AclList { name, rules, default, sample, origin: _ } = list;
        let rules = rules.iter().map(|rule| acl::Rule::of(rule, |index| self.interface(index)).to_string());
        let keys = [words(default), self.sampling(sample.as_ref())];
        (format!("acl {name}"), rules.chain(keys).collect())
    }

    fn nat(&self, list: &NatList) -> Object {
        let NatList { name, rules, ids: _, limit, limit_origin: _, mss_clamp, mapping, log, ipfix, origin: _ } = list;
        let rules = rules.iter().map(|rule| nat::Rule::of(rule, |index| self.interface(index)).to_string());
        let keys = words(&(limit, mss_clamp, mapping, log, ipfix.map(|index| self.sampler(index))));
        (format!("nat {name}"), rules.chain([keys]).collect())
    }

    fn spd(&self, spd: &Spd) -> Object {
        let Spd { name, rules, cache, origin: _ } = spd;
        let rules = rules.iter().map(|rule| spd::Rule::of(rule, |sa| sa_name(self.0, sa)).to_string());
        (format!("spd {name}"), rules.chain([words(cache)]).collect())
    }

    fn bridge(&self, bridge: &Bridge) -> Object {
        let ports = bridge.ports.iter().map(|port| format!("{} {:?}", self.interface(port.interface), port.group));
        let stations = bridge.stations.iter().map(|own| format!("{} {}", own.mac, self.interface(own.interface)));
        let bare = Bridge { ports: Vec::new(), stations: Vec::new(), origin: Origin::default(), ..bridge.clone() };
        (format!("bridge {}", bridge.name), ports.chain(stations).chain([words(&bare)]).collect())
    }

    fn allowlist(&self, list: &Allowlist) -> Object {
        let Allowlist { name, sources, origin: _ } = list;
        let sources = match sources {
            AllowedSources::Prefixes(prefixes) => {
                let mut prefixes: Vec<String> = prefixes.iter().map(|(net, _)| net.to_string()).collect();
                prefixes.sort_unstable();
                prefixes
            }
            AllowedSources::Vrf(vrf) => vec![format!("vrf {}", self.0.vrfs[usize::from(vrf.0)].name)],
        };
        (format!("allowlist {name}"), sources)
    }

    /// Returns the sessions of a table and its other keys.
    fn table(&self, table: &ClassifyTable) -> Vec<String> {
        let ClassifyTable { name: _, text, size, next, permits_misses, origin: _, .. } = table;
        let next = next.map(|next| self.0.classify[usize::from(next.0)].name.as_str());
        let keys = format!("{text} {size} {next:?} {permits_misses}");
        sessions(self.0, table).into_iter().chain([keys]).collect()
    }

    fn groups(&self, groups: &Groups) -> Vec<Object> {
        // The members of nested groups are members.
        let Groups { addresses, ports, interfaces, nested: _ } = groups;
        let addresses = addresses.iter().map(|group| (&group.name, words(&group.members)));
        let ports = ports.iter().map(|group| (&group.name, words(&group.members)));
        let interfaces = interfaces.iter().map(|group| (&group.name, self.names(&group.members)));
        let all = addresses.chain(ports).chain(interfaces);
        all.map(|(name, members)| (format!("group {name}"), vec![members])).collect()
    }

    fn names(&self, interfaces: &[InterfaceIndex]) -> String {
        words(&interfaces.iter().map(|&index| self.interface(index)).collect::<Vec<_>>())
    }

    fn neighbor(&self, neighbor: &Neighbor) -> Object {
        let Neighbor { interface, address, mac, origin: _ } = neighbor;
        (format!("neighbor {address} {}", self.interface(*interface)), vec![mac.to_string()])
    }

    fn line_card(&self, card: &LineCard) -> Object {
        let LineCard { name, interfaces, origin: _ } = card;
        (format!("line-card {name}"), vec![self.names(interfaces)])
    }

    fn policy(&self, policy: &'g SavPolicy) -> Policy<'g> {
        let SavPolicy {
            name: _,
            mechanism,
            action,
            rate_limit,
            redirect: PerFamily { v4, v6 },
            sample,
            exempt,
            link_check,
            alarm,
            special,
            origin: _,
        } = policy;
        let hop = |hop: &Option<NextHop>| {
            let named = hop.map(|NextHop { interface, address, weight }| (self.interface(interface), address, weight));
            words(&named)
        };
        let of_rules = |SavRules { list: _, incremental, hits }: &SavRules| words(&(incremental, hits));
        let of_mechanism = match mechanism {
            Mechanism::Acl(rules) => of_rules(rules),
            Mechanism::Urpf(Urpf { mode, default_route, vrf }) => {
                let vrf = vrf.map(|vrf| self.0.vrfs[usize::from(vrf.0)].name.as_str());
                words(&(mode, default_route, vrf))
            }
            Mechanism::Table { rules, matching, layout } => words(&(of_rules(rules), matching, layout)),
        };
        let mut keys = vec![
            mechanism.name().to_owned(),
            of_mechanism,
            words(&(action, rate_limit, link_check, alarm, special)),
            hop(v4),
            hop(v6),
            self.sampling(sample.as_ref()),
        ];
        keys.extend(exempt.iter().map(|rule| acl::Rule::of(rule, |index| self.interface(index)).to_string()));
        Policy { keys, gateway: self.0, rules: mechanism.rules().map_or(&[], |rules| &rules.list) }
    }
}

/// The number of large buffers counts if a file says it.
fn of_buffers(buffers: Buffers) -> String {
    let large = (!buffers.large_is_default).then_some(buffers.large);
    words(&(buffers.small, large))
}

fn of_bindings(list: &Bindings) -> Object {
    let Bindings { name, rules, learn, prefixes, origin: _ } = list;
    let rules = rules.iter().map(|rule| Binding::of(rule).to_string());
    (format!("mac-ip {name}"), rules.chain([words(learn), words(prefixes)]).collect())
}

fn of_steer(list: &SteerList) -> Object {
    let SteerList { name, rules, origin: _ } = list;
    (format!("steer {name}"), rules.iter().map(|rule| steer::Rule::of(rule).to_string()).collect())
}

fn of_sampler(sampler: &Sampler) -> Object {
    let Sampler { name, pcap, ipfix, snap_length, rate, origin: _ } = sampler;
    (format!("sampler {name}"), vec![words(&(pcap, ipfix, snap_length, rate))])
}

fn of_ipsec(ipsec: &Ipsec) -> String {
    // The fitted MTU is that of each tunnel, too.
    let Ipsec { state, reserves, unchecked, engine, insecure, fitted: _ } = ipsec;
    // A relative path in the file is relative to the file, and the file itself has several paths.
    let state = state.as_ref().map(|path| path.canonicalize().unwrap_or_else(|_| path.clone()));
    words(&(state, reserves, unchecked, engine, insecure))
}

fn words(value: &impl Debug) -> String {
    format!("{value:?}")
}
