//! Allowlists become tables of longest-prefix match, which say of a source that it is there.
//!
//! A list with the same contents keeps its tables. A changed list gets new tables, and no packet sees them before the
//! whole model has found room. A list that names a VRF has no tables: it uses the routes of the VRF.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use weir_base::reclaim::Domain;
use weir_table::lpm::{self, Full, Prefix, Value, Writer};
use weir_table::sav::NoRoom;

use super::map::Map;
use super::prefix::{prefix_v4, prefix_v6};
use super::rib::Rib;
use super::rubbish::Rubbish;
use super::table_full::{TableFull, most_bytes};
use crate::model::{AllowedSources, Allowlist, AllowlistIndex, Gateway, Origin, PerFamily};
use crate::root::Interface;
use crate::root::allow::{AllowCounters, Allowlists, List, Sequence, Sources};
use crate::root::family::Family;

/// The value of a list's prefixes: any value will do.
const THERE: Value = Value::new(1).expect("1 is a value");

/// The prefixes of a list, each with the place where it was declared.
type Prefixes = Arc<[(IpNet, Origin)]>;

/// The prefixes of a list, as they are looked up.
struct Tables {
    v4: Writer<u32>,
    v6: Writer<u128>,
    /// The prefixes that were written into the tables.
    written: Prefixes,
}

/// A list, from model to model.
struct Kept {
    name: String,
    tables: Option<Tables>,
    counters: Arc<[AllowCounters]>,
    /// The counters at the last clearing: packets that passed, and packets that were refused.
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

/// The tables of lists that say something new, for which there is room, by the names of the lists.
pub(super) struct Prepared(HashMap<String, Tables>);

impl Store {
    /// Makes the tables of lists that say something else than those in force.
    ///
    /// # Errors
    /// When there is no room.
    pub(super) fn prepare(&self, domain: &Domain, gateway: &Gateway) -> Result<Prepared, TableFull> {
        let limit = gateway.limits.allowed_prefixes as usize;
        let mut new = HashMap::new();
        for list in &gateway.allowlists {
            let AllowedSources::Prefixes(prefixes) = &list.sources else { continue };
            let tables = self.get(&list.name).and_then(|kept| kept.tables.as_ref());
            if tables.is_none_or(|tables| !is_same(&tables.written, prefixes)) {
                new.insert(list.name.clone(), Tables::new(domain, list, prefixes, limit)?);
            }
        }
        Ok(Prepared(new))
    }

    /// Takes the lists of a model over.
    pub(super) fn commit(
        &mut self,
        Prepared(mut new): Prepared,
        workers: usize,
        (gateway, map): (&Gateway, &Map),
        interfaces: &mut [Interface],
        rubbish: &mut Rubbish,
    ) {
        let mut before: HashMap<String, Kept> =
            std::mem::take(&mut self.kept).into_iter().map(|kept| (kept.name.clone(), kept)).collect();
        for list in &gateway.allowlists {
            let mut kept = before.remove(&list.name).unwrap_or_else(|| Kept {
                name: list.name.clone(),
                tables: None,
                counters: (0..workers).map(|_| AllowCounters::default()).collect(),
                cleared: (0, 0),
            });
            match (&list.sources, new.remove(&list.name)) {
                (AllowedSources::Vrf(_), _) => rubbish.push(kept.tables.take()),
                (AllowedSources::Prefixes(_), Some(tables)) => rubbish.push(kept.tables.replace(tables)),
                (AllowedSources::Prefixes(_), None) => {}
            }
            self.kept.push(kept);
        }
        rubbish.push(before);
        let kept: HashMap<&str, &Kept> = self.kept.iter().map(|kept| (kept.name.as_str(), kept)).collect();
        let lists: Vec<&Kept> = gateway.allowlists.iter().filter_map(|list| kept.get(&*list.name).copied()).collect();
        let of = Reading { gateway, map, lists: &lists };
        self.current = Allowlists {
            v4: of.sequences(interfaces, |tables| tables.v4.table()).into(),
            v6: of.sequences(interfaces, |tables| tables.v6.table()).into(),
        };
    }

    /// Returns the allowlists for the root.
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
        fill(&mut tables.v4, &v4, list)?;
        fill(&mut tables.v6, &v6, list)?;
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
    /// Returns the distinct sequences of lists that interfaces name in a family, and numbers them.
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

/// Writes prefixes into an empty table.
fn fill<K: lpm::Key>(
    writer: &mut Writer<K>,
    wanted: &HashMap<Prefix<K>, Origin>,
    list: &Allowlist,
) -> Result<(), TableFull> {
    let mut draft = writer.transaction();
    for (&prefix, &origin) in wanted {
        draft.insert(prefix, THERE).map_err(|full| full_table(list, origin, full))?;
    }
    draft.commit();
    Ok(())
}

fn full_table(list: &Allowlist, origin: Origin, full: Full) -> TableFull {
    let table = format!("allowlist {}", list.name);
    TableFull { table, prefix: String::new(), origin, full: NoRoom::Prefixes(full) }
}

/// The verdict of an allowlist on a source.
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

/// The routes that allowlists may name, and the numbers of what a model names.
#[derive(Clone, Copy)]
pub(super) struct InForce<'a> {
    pub(super) gateway: &'a Gateway,
    pub(super) map: &'a Map,
    pub(super) ribs: &'a [Rib],
}

impl InForce<'_> {
    /// Returns the answers of the allowlists of an interface (its number) for a source, up to the one that refused it.
    pub(super) fn listed(self, interface: u32, source: IpAddr, refused_by: Option<u16>) -> Vec<Listed> {
        let InForce { gateway, map, ribs } = self;
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
                    let rib = ribs.get(usize::from(map.vrfs[usize::from(vrf.0)]));
                    rib.and_then(|rib| rib.covering(source)).map(|(net, entry)| (net, entry.origin))
                }
            };
            Listed { list, within, contains: Some(list.0) != refused_by }
        };
        named[..until].iter().map(of).collect()
    }
}

impl Store {
    /// How full the tables of an allowlist are; `None`: it has none.
    pub(super) fn occupancy(&self, name: &str) -> Option<PerFamily<lpm::Stats>> {
        let tables = self.get(name)?.tables.as_ref()?;
        Some(PerFamily { v4: tables.v4.stats(), v6: tables.v6.stats() })
    }

    /// Packets whose sources were in an allowlist, and packets that it refused, over all workers.
    pub(super) fn counts(&self, name: &str) -> (u64, u64) {
        let Some(kept) = self.get(name) else { return (0, 0) };
        let (passed, refused) = kept.counted();
        (passed - kept.cleared.0, refused - kept.cleared.1)
    }

    /// Clears what all allowlists counted.
    pub(super) fn clear(&mut self) {
        for kept in &mut self.kept {
            kept.cleared = kept.counted();
        }
    }
}
