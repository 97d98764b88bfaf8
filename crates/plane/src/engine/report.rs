//! Reports of the control thread about interfaces, tables and reloads.

use std::sync::atomic::Ordering;

use weir_packet::wire::MacAddress;
use weir_port::Link;
use weir_table::classify::MOST_RULES;

use super::collect::{self, RefusedEthertypes};
use super::ports::OpenPort;
use super::punts;
use crate::changed::Changed;
use crate::compile::rib::Rib;
use crate::compile::{Compiler, LostEdits, MOST_BINDINGS, Map};
use crate::graph::counters::{Ending, FlowCounters, SessionCounters};
use crate::graph::fragments::{self, Fragments};
use crate::graph::hold::Hold;
use crate::graph::reassembly::Reassembly;
use crate::graph::record::Miss;
use crate::model::{self, FlowTable, InterfaceKind};
use crate::neighbor::Table;
use crate::neighbor::learned::Learned;
use crate::root::Root;
use crate::root::sav::{PLACES, Sources};
use crate::stats::{self, Snapshot};

/// The changes of a reload.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reloaded {
    /// The version now in force.
    pub generation: u64,
    /// Interfaces that came.
    pub added: Vec<String>,
    /// Interfaces that went.
    pub removed: Vec<String>,
    /// Interfaces that were changed.
    pub changed: Vec<String>,
    /// Routes in force now, and before.
    pub routes: (usize, usize),
    /// Changes to access lists and their groups that were made while the gateway ran, and ended: these are declared
    /// otherwise now.
    pub lost: Vec<LostEdits>,
    /// Translations that ended, as the rules give them other addresses now, or none.
    pub translations: usize,
    /// Learned bindings that ended: their lists do not learn any more, or their interfaces are gone.
    pub bindings: usize,
}

/// The counters at the last clearing. Reports subtract them, so that workers never reset counters.
#[derive(Clone, Default)]
pub(super) struct Baseline {
    pub(super) runtime: Snapshot,
    pub(super) errors: Snapshot,
    pub(super) interfaces: Snapshot,
    pub(super) sav: Vec<stats::SavInterfaceStats>,
    pub(super) ethertypes: RefusedEthertypes,
    pub(super) since: u64,
}

pub(super) fn count(compiler: &Compiler) -> usize {
    compiler.ribs().iter().map(Rib::len).sum()
}

pub(super) fn interfaces(
    model: &model::Gateway,
    map: &Map,
    ports: &[Option<OpenPort>],
    root: &Root,
) -> Vec<stats::InterfaceStats> {
    model
        .interfaces
        .iter()
        .zip(&map.interfaces)
        .filter_map(|(interface, &number)| {
            let compiled = root.interfaces.get(number as usize)?;
            let port = ports.get(compiled.port as usize).and_then(Option::as_ref);
            let is_port = matches!(interface.kind, InterfaceKind::Port { .. });
            let own = port.filter(|_| is_port).map(|port| &port.port);
            let counters = own.map(|port| port.counters());
            Some(stats::InterfaceStats {
                name: interface.name.clone(),
                kind: match interface.kind {
                    InterfaceKind::Port { .. } => own.map_or("closed", |port| port.kind()),
                    InterfaceKind::Vlan { .. } => "vlan",
                    InterfaceKind::Ipsec => "ipsec",
                    InterfaceKind::Tunnel(tunnel) => tunnel.carrier.name(),
                    InterfaceKind::Bridge(_) => "bridge",
                },
                capabilities: own.map_or_else(Vec::new, |port| port.capabilities().names()),
                up: interface.kind.is_portless() || port.is_some_and(|port| port.port.link() == Link::Up),
                mac: if compiled.is_linkless { String::new() } else { MacAddress(compiled.mac).to_string() },
                mtu: compiled.mtu,
                vrf: model.vrfs[usize::from(interface.vrf.0)].name.clone(),
                addresses: nets(compiled.addresses.iter().chain(compiled.tentative.iter())),
                automatic: nets(
                    compiled
                        .addresses
                        .iter()
                        .chain(compiled.tentative.iter())
                        .filter(|own| own.origin == model::Origin::default() && !interface.addresses.contains(own)),
                ),
                tentative: nets(compiled.tentative.iter()),
                punt_device: ports.get(compiled.punt as usize).and_then(Option::as_ref).map(|punt| stats::PuntDevice {
                    name: punt.port.device().unwrap_or_default().to_owned(),
                    state: punts::State::of(&*punt.port).name(),
                    failed: punt.port.counters().transmit_errors.load(Ordering::Relaxed),
                }),
                origin: model.origins.place(interface.origin).map_or_else(String::new, |place| place.to_string()),
                ..collect::interface(&compiled.counters, counters.as_deref(), has_faults(interface))
            })
        })
        .collect()
}

fn nets<'a>(addresses: impl Iterator<Item = &'a model::Address>) -> Vec<String> {
    addresses.map(|address| address.net.to_string()).collect()
}

fn has_faults(interface: &model::Interface) -> bool {
    matches!(&interface.kind, InterfaceKind::Port { middleware, .. } if middleware.fault.is_some())
}

/// The held packets and reassemblies of all workers.
pub(super) struct Waiting {
    /// Packets, for neighbours.
    pub(super) packets: u64,
    /// Datagrams for ourselves, for the rest of their fragments.
    pub(super) datagrams: u64,
    /// Fragments, for the first of their datagram.
    pub(super) fragments: u64,
    /// Datagrams whose fragments are remembered for access lists.
    pub(super) remembered: u64,
    /// Prefixes that packets came from which were not valid.
    pub(super) sources: usize,
    pub(super) sessions: SessionUse,
    pub(super) flows: stats::FastPath,
}

/// Sessions, and what they take.
pub(super) struct SessionUse {
    /// Some zone has rules that open sessions.
    pub(super) wanted: bool,
    pub(super) used: u64,
    pub(super) half_open: u64,
    pub(super) octets: u64,
}

/// How full the compiler's tables are.
pub(super) fn tables(model: &model::Gateway, map: &Map, compiler: &Compiler) -> Vec<stats::TableStats> {
    let mut rows = Vec::new();
    for (number, (v4, v6)) in compiler.occupancy().enumerate() {
        let index = map.vrfs.iter().position(|&vrf| usize::from(vrf) == number);
        let Some(vrf) = index.map(|index| &model.vrfs[index].name) else { continue };
        for (family, table) in [("fib4", v4), ("fib6", v6)] {
            rows.push(stats::TableStats {
                name: format!("{family} {vrf}"),
                used: table.routes as u64,
                limit: table.max_routes as u64,
                bytes: table.bytes as u64,
                when_full: "the reload that adds routes is refused as a whole, a route of another source by itself"
                    .into(),
            });
        }
    }
    for policy in crate::engine::show::sav_policies(model, compiler) {
        for table in &policy.tables {
            rows.push(stats::TableStats {
                name: format!("sav {} {}", table.family, policy.name),
                used: table.prefixes.0 as u64,
                limit: table.prefixes.1 as u64,
                bytes: (table.lookup_octets + table.control_octets) as u64,
                when_full: "the reload or the batch that adds entries is refused as a whole".into(),
            });
        }
    }
    rows.extend(access_lists(model, compiler));
    for bridge in compiler.bridges() {
        rows.push(stats::TableStats {
            name: format!("bridge {}", bridge.name),
            used: bridge.macs.len() as u64,
            limit: bridge.macs.most().into(),
            bytes: bridge.macs.octets() as u64,
            when_full: "frames to further stations are flooded".into(),
        });
    }
    for table in &model.classify {
        rows.push(stats::TableStats {
            name: format!("classify {}", table.name),
            used: table.sessions.len() as u64,
            limit: table.size.into(),
            bytes: compiler.classify_octets(&table.name).unwrap_or(0) as u64,
            when_full: "further sessions are refused".into(),
        });
    }
    for policy in model.sav.iter().filter(|policy| !policy.exempt.is_empty()) {
        rows.push(stats::TableStats {
            name: format!("sav exempt {}", policy.name),
            used: policy.exempt.len() as u64,
            limit: MOST_RULES as u64,
            bytes: compiler.sav_exempt_octets(&policy.name) as u64,
            when_full: "the reload that adds rules is refused as a whole".into(),
        });
    }
    rows.extend(acls(model, compiler));
    rows
}

/// How full allowlists and bindings are.
fn access_lists(model: &model::Gateway, compiler: &Compiler) -> Vec<stats::TableStats> {
    let mut rows = Vec::new();
    for list in crate::engine::show::allowlists(model, compiler).iter().filter(|list| list.vrf.is_none()) {
        rows.push(stats::TableStats {
            name: format!("allowlist {}", list.name),
            used: (list.prefixes.0 + list.prefixes.1) as u64,
            limit: u64::from(model.limits.allowed_prefixes),
            bytes: list.octets as u64,
            when_full: "the reload or the edit that adds prefixes is refused as a whole".into(),
        });
    }
    for list in crate::engine::show::bindings(model, compiler) {
        rows.push(stats::TableStats {
            name: format!("mac-ip {}", list.name),
            used: list.rules.len() as u64,
            limit: MOST_BINDINGS as u64,
            bytes: list.octets as u64,
            when_full: "the reload or the edit that adds rules is refused as a whole".into(),
        });
    }
    rows
}

/// How full the learned bindings of lists are.
pub(super) fn learned(model: &model::Gateway, learned: &Learned) -> Vec<stats::TableStats> {
    let lists = (0..).zip(&model.bindings).filter_map(|(place, list)| Some((place, list, list.learn?)));
    let row = |(place, list, learn): (u16, &model::Bindings, model::Learn)| {
        let (used, octets) = learned.of_list(place);
        stats::TableStats {
            name: format!("learned {}", list.name),
            used: used as u64,
            limit: u64::from(learn.limit),
            bytes: octets as u64,
            when_full: "the latest binding by first use makes room; leases keep theirs, and new ones are refused"
                .into(),
        }
    };
    lists.map(row).collect()
}

/// How full access lists are.
fn acls(model: &model::Gateway, compiler: &Compiler) -> Vec<stats::TableStats> {
    let mut rows = Vec::new();
    let (rules, octets) = compiler.acl_occupancy();
    let most = u64::from(model.limits.acl_rules);
    if rules > 0 || !model.acls.is_empty() {
        rows.push(stats::TableStats {
            name: "acl rules".into(),
            used: rules as u64,
            limit: most,
            bytes: octets as u64,
            when_full: "the reload or the change that adds rules is refused as a whole".into(),
        });
    }
    for section in compiler.acl_sections(model) {
        let more = if section.is_last { "" } else { " …" };
        for (family, table) in [("acl4", section.v4), ("acl6", section.v6)] {
            rows.push(stats::TableStats {
                name: format!("{family} {}{more}", section.lists.join(" ")),
                used: table.boxes as u64,
                limit: most,
                bytes: (table.lookup_octets + table.control_octets) as u64,
                when_full: "the reload or the change that adds rules is refused as a whole".into(),
            });
        }
    }
    rows
}

/// Sums up the counters of sessions.
pub(crate) fn sessions_counted<'c>(counters: impl Iterator<Item = &'c SessionCounters>) -> stats::SessionsCounted {
    counters.fold(stats::SessionsCounted::default(), |all, own| stats::SessionsCounted {
        opened: all.opened + own.opened.value(),
        open: all.open + own.sessions.value(),
        expired: all.expired + own.ended[Ending::Expired as usize].value(),
        replaced: all.replaced + own.ended[Ending::Replaced as usize].value(),
        revoked: all.revoked + own.ended[Ending::Revoked as usize].value() + untranslated(own),
        renewed: all.renewed + own.ended[Ending::Renewed as usize].value(),
        unconfirmed: all.unconfirmed + own.ended[Ending::Unconfirmed as usize].value(),
        cleared: all.cleared + own.ended[Ending::Cleared as usize].value(),
    })
}

/// Counts the translations that ended because the rules gave them other addresses, or none.
pub(super) fn untranslated(counters: &SessionCounters) -> u64 {
    counters.ended[Ending::Untranslated as usize].value()
}

/// Sums up the counters of learned decisions.
pub(crate) fn fast_path<'c>(counters: impl Iterator<Item = &'c FlowCounters>) -> stats::FastPath {
    counters.fold(stats::FastPath::default(), |all, own| {
        let missed = |miss: Miss| own.misses[miss.place()].value();
        stats::FastPath {
            decisions: all.decisions + own.learned.value(),
            octets: all.octets + own.octets.value(),
            hits: all.hits + own.hits.value(),
            new: all.new + missed(Miss::New).saturating_sub(own.no_flow.value()),
            no_flow: all.no_flow + own.no_flow.value(),
            changed: Changed::ALL.map(|changed| all.changed[changed as usize] + missed(Miss::Changed(changed))),
            differs: all.differs + missed(Miss::Differs),
            excluded: all.excluded + own.excluded.value(),
            learned: all.learned + own.decided.value(),
            refused: all.refused + own.refused.value(),
            expired: all.expired + own.expired.value(),
        }
    })
}

/// How full the tables are of what was learned, and of what is in workers.
pub(super) fn other_tables(
    model: &model::Gateway,
    learned: u64,
    waiting: &Waiting,
    workers: usize,
) -> Vec<stats::TableStats> {
    let mut rows = Vec::new();
    if !model.sav.is_empty() {
        rows.push(stats::TableStats {
            name: "invalid sources".into(),
            used: waiting.sources as u64,
            limit: (PLACES * workers) as u64,
            bytes: (Sources::octets() * workers) as u64,
            when_full: "the prefix of the same set that sent least makes room, and counts as lost".into(),
        });
    }
    rows.push(stats::TableStats {
        name: "neighbors".into(),
        used: model.neighbors.len() as u64 + learned,
        limit: u64::from(model.limits.neighbors),
        bytes: learned * Table::BYTES as u64,
        when_full: "neighbours that never answered are evicted, then unused ones; else the new one is refused".into(),
    });
    rows.extend(of_flows(model, waiting));
    rows.extend(of_waiting(model, waiting, workers));
    rows
}

/// Sessions and learned decisions.
fn of_flows(model: &model::Gateway, waiting: &Waiting) -> Vec<stats::TableStats> {
    let mut rows = Vec::new();
    if waiting.sessions.used > 0 || waiting.sessions.wanted {
        let FlowTable { sessions, half_open, .. } = model.flow_table;
        rows.push(stats::TableStats {
            name: "sessions".into(),
            used: waiting.sessions.used,
            limit: sessions.into(),
            bytes: waiting.sessions.octets,
            when_full: "a packet that would open another session is dropped".into(),
        });
        rows.push(stats::TableStats {
            name: "half-open sessions".into(),
            used: waiting.sessions.half_open,
            limit: half_open.into(),
            bytes: 0,
            when_full: "the oldest half-open session on the same worker ends".into(),
        });
    }
    if waiting.flows != stats::FastPath::default() {
        rows.push(stats::TableStats {
            name: "learned decisions".into(),
            used: waiting.flows.decisions,
            limit: model.flow_table.flows.into(),
            bytes: waiting.flows.octets,
            when_full: "packets of further flows walk, until decisions about idle flows are forgotten".into(),
        });
    }
    rows
}

/// Packets and fragments that wait in workers.
fn of_waiting(model: &model::Gateway, waiting: &Waiting, workers: usize) -> Vec<stats::TableStats> {
    let hold = model.neighbor_discovery.hold_total;
    let datagrams = Reassembly::share(model.buffers.large as usize, workers) * workers;
    let mut rows = vec![
        stats::TableStats {
            name: "held packets".into(),
            used: waiting.packets,
            limit: u64::from(hold) * workers as u64,
            bytes: (Hold::bytes(hold) * workers) as u64,
            when_full: "the oldest packet for the same neighbour, else for the one waited for longest, is dropped"
                .into(),
        },
        stats::TableStats {
            name: "datagrams in reassembly".into(),
            used: waiting.datagrams,
            limit: datagrams as u64,
            bytes: Reassembly::bytes(datagrams) as u64,
            when_full: "the oldest of the same family on the same worker is dropped".into(),
        },
    ];
    if !model.acls.is_empty() {
        let (remembered, waits) = Fragments::octets();
        rows.push(stats::TableStats {
            name: "acl fragments".into(),
            used: waiting.fragments,
            limit: (fragments::WAITING * workers) as u64,
            bytes: (waits * workers) as u64,
            when_full: "a fragment that comes before the first of its datagram is dropped".into(),
        });
        rows.push(stats::TableStats {
            name: "acl datagrams".into(),
            used: waiting.remembered,
            limit: (fragments::DATAGRAMS * workers) as u64,
            bytes: (remembered * workers) as u64,
            when_full: "the oldest on the same worker is forgotten, and fragments that wait for its first are dropped"
                .into(),
        });
    }
    rows
}
