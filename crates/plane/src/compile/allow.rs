//! Allowlists become tables of longest-prefix match, which say of a source that it is there.
//!
//! The tables of a list that says the same as before stay; in those of another the differences are written, in one
//! transaction each, and nothing is visible before the whole model has found room. Lists that name a routing domain have no
//! tables of their own: its routes are asked.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use weir_base::reclaim::Domain;
use weir_table::lpm::{self, Full, Prefix, Transaction, Value, Writer};
use weir_table::sav::NoRoom;

use super::{Compiler, Map, TableFull, most_bytes, prefix_v4, prefix_v6};
use crate::allow::{AllowCounters, Allowlists, List, Sequence, Sources};
use crate::model::{AllowedSources, Allowlist, AllowlistIndex, Gateway, Origin, PerFamily};
use crate::root::Interface;
use crate::sav::Family;

/// What prefixes of a list have for a value: any will do.
const THERE: Value = Value::new(1).expect("1 is a value");

/// The prefixes of a list, each with the place where it was declared.
type Prefixes = Arc<[(IpNet, Origin)]>;

/// The prefixes of a list, as they are looked up.
struct Tables {
    v4: Writer<u32>,
    v6: Writer<u128>,
    /// What was written into them.
    written: Prefixes,
}

/// A list, from model to model.
struct Kept {
    name: String,
    tables: Option<Tables>,
    counters: Arc<[AllowCounters]>,
    /// What had been counted when that was last cleared: packets that passed, and packets that were refused.
    cleared: (u64, u64),
}

impl Kept {
    /// Packets whose sources were in it, and packets that it refused, over all workers, from its start on.
    fn counted(&self) -> (u64, u64) {
        let sum = |(passed, refused), worker: &AllowCounters| {
            (passed + worker.passed.value(), refused + worker.refused.value())
        };
        self.counters.iter().fold((0, 0), sum)
    }
}

/// The lists of the model in force.
#[derive(Default)]
pub(super) struct Store {
    kept: Vec<Kept>,
    current: Allowlists,
}

/// Changes of a list, for which there is room.
enum Draft<'s> {
    New(&'s mut Option<Tables>, Box<Tables>),
    Changed { v4: Transaction<'s, u32>, v6: Transaction<'s, u128>, written: &'s mut Prefixes, wanted: Prefixes },
}

/// The lists of a model, for which there is room. They change when this is committed, and not if it is dropped.
pub(super) struct Prepared<'s>(Vec<Draft<'s>>);

impl Prepared<'_> {
    pub(super) fn commit(self) {
        for draft in self.0 {
            match draft {
                Draft::New(slot, tables) => *slot = Some(*tables),
                Draft::Changed { v4, v6, written, wanted } => {
                    v4.commit();
                    v6.commit();
                    *written = wanted;
                }
            }
        }
    }
}

impl Store {
    /// Writes what differs from the lists of a model into drafts.
    ///
    /// # Errors
    /// When there is no room: then nothing has changed.
    pub(super) fn prepare(
        &mut self,
        domain: &Domain,
        workers: usize,
        gateway: &Gateway,
    ) -> Result<Prepared<'_>, TableFull> {
        let known: HashSet<&str> = self.kept.iter().map(|kept| &*kept.name).collect();
        let new = gateway.allowlists.iter().filter(|list| !known.contains(&*list.name));
        let new: Vec<Kept> = new
            .map(|list| Kept {
                name: list.name.clone(),
                tables: None,
                counters: (0..workers).map(|_| AllowCounters::default()).collect(),
                cleared: (0, 0),
            })
            .collect();
        self.kept.extend(new);
        let wanted: HashMap<&str, &Allowlist> = gateway.allowlists.iter().map(|list| (&*list.name, list)).collect();
        let limit = gateway.limits.allowed_prefixes as usize;
        let mut drafts = Vec::new();
        for Kept { name, tables, .. } in &mut self.kept {
            let Some(list) = wanted.get(name.as_str()) else { continue };
            let AllowedSources::Prefixes(prefixes) = &list.sources else { continue };
            match tables {
                Some(tables) if is_same(&tables.written, prefixes) => {}
                Some(Tables { v4, v6, written }) => {
                    let (new_v4, new_v6) = parts(list, prefixes, limit)?;
                    drafts.push(Draft::Changed {
                        v4: change(v4, &new_v4, list)?,
                        v6: change(v6, &new_v6, list)?,
                        written,
                        wanted: Arc::clone(prefixes),
                    });
                }
                slot => {
                    let new = Tables::new(domain, list, prefixes, limit)?;
                    drafts.push(Draft::New(slot, Box::new(new)));
                }
            }
        }
        Ok(Prepared(drafts))
    }

    /// Takes the lists over that were committed.
    pub(super) fn adopt(&mut self, gateway: &Gateway, map: &Map, interfaces: &mut [Interface]) {
        let wanted: HashMap<&str, &Allowlist> = gateway.allowlists.iter().map(|list| (&*list.name, list)).collect();
        self.kept.retain(|kept| wanted.contains_key(kept.name.as_str()));
        for kept in &mut self.kept {
            let list = wanted.get(kept.name.as_str());
            if list.is_some_and(|list| matches!(list.sources, AllowedSources::Vrf(_))) {
                kept.tables = None;
            }
        }
        let kept: HashMap<&str, &Kept> = self.kept.iter().map(|kept| (kept.name.as_str(), kept)).collect();
        let lists: Vec<&Kept> = gateway.allowlists.iter().filter_map(|list| kept.get(&*list.name).copied()).collect();
        let of = Reading { gateway, map, lists: &lists };
        self.current = Allowlists {
            v4: of.sequences(interfaces, |tables| tables.v4.table()).into(),
            v6: of.sequences(interfaces, |tables| tables.v6.table()).into(),
        };
    }

    /// What the root is to have.
    pub(super) fn current(&self) -> &Allowlists {
        &self.current
    }

    /// Frees what readers have passed.
    pub(super) fn collect(&mut self) {
        for tables in self.kept.iter_mut().filter_map(|kept| kept.tables.as_mut()) {
            tables.v4.collect();
            tables.v6.collect();
        }
    }

    fn get(&self, name: &str) -> Option<&Kept> {
        self.kept.iter().find(|kept| kept.name == name)
    }
}

impl Tables {
    fn new(domain: &Domain, list: &Allowlist, prefixes: &Prefixes, limit: usize) -> Result<Tables, TableFull> {
        let limits = lpm::Limits { max_routes: limit, max_bytes: most_bytes(limit) };
        let refused = |full| full_table(list, list.origin, full);
        let mut tables = Tables {
            v4: Writer::new(domain, limits).map_err(refused)?,
            v6: Writer::new(domain, limits).map_err(refused)?,
            written: Arc::clone(prefixes),
        };
        let (v4, v6) = parts(list, prefixes, limit)?;
        change(&mut tables.v4, &v4, list)?.commit();
        change(&mut tables.v6, &v6, list)?.commit();
        Ok(tables)
    }
}

/// The lists of a model, in its order, with what is kept of them.
struct Reading<'a> {
    gateway: &'a Gateway,
    map: &'a Map,
    lists: &'a [&'a Kept],
}

impl Reading<'_> {
    /// The different sequences of lists that interfaces name in a family, which are told their numbers.
    fn sequences<K: Family>(
        &self,
        interfaces: &mut [Interface],
        table: impl Fn(&Tables) -> Arc<lpm::Table<K>>,
    ) -> Vec<Sequence<K>> {
        let mut all = Vec::new();
        let mut numbers: HashMap<&[AllowlistIndex], u16> = HashMap::new();
        for (interface, &number) in self.gateway.interfaces.iter().zip(&self.map.interfaces) {
            let named: &Vec<AllowlistIndex> = K::of(&interface.access.allow);
            if named.is_empty() {
                continue;
            }
            let sequence = *numbers.entry(named.as_slice()).or_insert_with(|| {
                all.push(Sequence(named.iter().map(|&index| self.list(index, &table)).collect()));
                (all.len() - 1) as u16
            });
            let allow = &mut interfaces[number as usize].allow;
            *(if K::BITS == 32 { &mut allow.v4 } else { &mut allow.v6 }) = sequence;
        }
        all
    }

    fn list<K: Family>(&self, index: AllowlistIndex, table: impl Fn(&Tables) -> Arc<lpm::Table<K>>) -> List<K> {
        let kept = self.lists[usize::from(index.0)];
        let sources = match (&self.gateway.allowlists[usize::from(index.0)].sources, &kept.tables) {
            (AllowedSources::Vrf(vrf), _) => Sources::Vrf(self.map.vrfs[usize::from(vrf.0)]),
            (AllowedSources::Prefixes(_), Some(tables)) => Sources::Prefixes(table(tables)),
            (AllowedSources::Prefixes(_), None) => unreachable!("a list of prefixes was given tables when prepared"),
        };
        List { place: index.0, sources, counters: Arc::clone(&kept.counters) }
    }
}

/// The same prefixes, wherever they were declared.
fn is_same(written: &Prefixes, wanted: &Prefixes) -> bool {
    Arc::ptr_eq(written, wanted) || written.iter().map(|(net, _)| net).eq(wanted.iter().map(|(net, _)| net))
}

/// The prefixes of a list by family, each once, with the place where it was declared first.
type Parts = (HashMap<Prefix<u32>, Origin>, HashMap<Prefix<u128>, Origin>);

fn parts(list: &Allowlist, prefixes: &Prefixes, limit: usize) -> Result<Parts, TableFull> {
    let (mut v4, mut v6) = (HashMap::new(), HashMap::new());
    for &(net, origin) in &**prefixes {
        match net {
            IpNet::V4(net) => drop(v4.entry(prefix_v4(net)).or_insert(origin)),
            IpNet::V6(net) => drop(v6.entry(prefix_v6(net)).or_insert(origin)),
        }
        if v4.len() + v6.len() > limit {
            return Err(full_table(list, origin, Full::Routes(limit)));
        }
    }
    Ok((v4, v6))
}

/// Writes the differences into a draft.
fn change<'w, K: lpm::Key>(
    writer: &'w mut Writer<K>,
    wanted: &HashMap<Prefix<K>, Origin>,
    list: &Allowlist,
) -> Result<Transaction<'w, K>, TableFull> {
    let gone: Vec<Prefix<K>> =
        writer.iter().map(|(prefix, _)| prefix).filter(|net| !wanted.contains_key(net)).collect();
    let mut draft = writer.transaction();
    // Removals first: what they free may be needed.
    for prefix in &gone {
        draft.remove(prefix);
    }
    for (&prefix, &origin) in wanted {
        if draft.get(&prefix).is_none() {
            draft.insert(prefix, THERE).map_err(|full| full_table(list, origin, full))?;
        }
    }
    Ok(draft)
}

fn full_table(list: &Allowlist, origin: Origin, full: Full) -> TableFull {
    let table = format!("allowlist {}", list.name);
    TableFull { table, prefix: String::new(), origin, full: NoRoom::Prefixes(full) }
}

/// What an allowlist says of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listed {
    /// The list.
    pub list: AllowlistIndex,
    /// The longest of its prefixes, or of the routes of its routing domain, that covers the source, with the place where it
    /// was declared; `None`: nothing does.
    pub within: Option<(IpNet, Origin)>,
    /// The list contains the source. It does not where the route that covers it discards.
    pub contains: bool,
}

impl Compiler {
    /// What the allowlists of an interface (its number) say of a source, in their order: up to the one that refused it.
    /// `gateway` is the model in force.
    pub fn allow_decision(
        &self,
        gateway: &Gateway,
        map: &Map,
        interface: u32,
        source: IpAddr,
        refused_by: Option<u16>,
    ) -> Vec<Listed> {
        let Some(index) = map.interfaces.iter().position(|&number| number == interface) else { return Vec::new() };
        let allow = &gateway.interfaces[index].access.allow;
        let named = if source.is_ipv4() { &allow.v4 } else { &allow.v6 };
        let until = named.iter().position(|list| Some(list.0) == refused_by).map_or(named.len(), |at| at + 1);
        let of = |&list: &AllowlistIndex| {
            let within = match &gateway.allowlists[usize::from(list.0)].sources {
                AllowedSources::Prefixes(prefixes) => {
                    let covering = prefixes.iter().filter(|(net, _)| net.contains(&source));
                    covering.max_by_key(|(net, _)| net.prefix_len()).copied()
                }
                AllowedSources::Vrf(vrf) => {
                    let rib = self.ribs.get(usize::from(map.vrfs[usize::from(vrf.0)]));
                    rib.and_then(|rib| rib.covering(source)).map(|(net, entry)| (net, entry.origin))
                }
            };
            Listed { list, within, contains: Some(list.0) != refused_by }
        };
        named[..until].iter().map(of).collect()
    }

    /// How full the tables of an allowlist are; `None`: it has none.
    pub fn allow_occupancy(&self, name: &str) -> Option<PerFamily<lpm::Stats>> {
        let tables = self.allow.get(name)?.tables.as_ref()?;
        Some(PerFamily { v4: tables.v4.stats(), v6: tables.v6.stats() })
    }

    /// Packets whose sources were in an allowlist, and packets that it refused, over all workers.
    pub fn allow_counts(&self, name: &str) -> (u64, u64) {
        let Some(kept) = self.allow.get(name) else { return (0, 0) };
        let (passed, refused) = kept.counted();
        (passed - kept.cleared.0, refused - kept.cleared.1)
    }

    /// Has all allowlists asked about nothing.
    pub fn clear_allowlists(&mut self) {
        for kept in &mut self.allow.kept {
            kept.cleared = kept.counted();
        }
    }
}
