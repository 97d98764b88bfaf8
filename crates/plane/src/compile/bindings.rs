//! Bindings become classifiers. A list that says the same as before keeps its own; another is built beside the old one, and
//! is in force with the next root. Rules that stay keep what they counted.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ipnet::IpNet;
use weir_base::reclaim::{Domain, Published};
use weir_packet::wire::MacAddress;
use weir_table::classify::{Limits, Rule, Span, Upper, Writer};
use weir_table::sav::NoRoom;

use super::boxes::Bits;
use super::map::Map;
use super::rubbish::Rubbish;
use super::table_full::TableFull;
use crate::model::{self, Binding, BindingsIndex, Gateway};
use crate::root::Interface;
use crate::root::acl::{PAGE, Page, Pages};
use crate::root::bindings::{Bindings, Bound, LEARNED, LearnedTable, Verdict};

/// Octets of lookups' memory that a rule may take on average, and the least there is for a list (the classifier says what
/// rules take).
const OCTETS_PER_RULE: usize = 4096;
const LEAST_OCTETS: usize = 4 << 20;
const MOST_OCTETS: usize = 4 << 30;

/// Rules of a list, at most: beside them there is what is behind the last.
pub(crate) const MOST_BINDINGS: usize = MOST_OCTETS / OCTETS_PER_RULE - 1;

/// The identity of a rule, independent of its origin: whether it permits, the station, the addresses, and the number of
/// equal rules before it in the list. `None` stands for the packets that no rule matches.
type Meaning = Option<(bool, [u8; 6], u8, Option<IpNet>, usize)>;

/// A list, from model to model.
struct Kept {
    name: String,
    meanings: Vec<Meaning>,
    /// Of its rules, in their order, and of what is behind the last.
    numbers: Vec<u32>,
    v4: Writer<u32>,
    v6: Writer<u128>,
}

/// The lists of the model in force.
pub(super) struct Store {
    kept: Vec<Kept>,
    numbers: Numbers,
    current: Bindings,
}

/// Numbers of rules, by the names of their lists and what they mean.
#[derive(Clone, Default)]
struct Numbers {
    given: HashMap<(String, Meaning), u32>,
    free: Vec<u32>,
    /// By number: packets and octets that were counted when it was given, or when that was last cleared.
    before: Vec<(u64, u64)>,
}

/// The lists of a model, for which there is room.
pub(super) struct Prepared {
    /// The lists that differ.
    new: Vec<Kept>,
    numbers: Numbers,
    pages: Pages,
}

impl Numbers {
    fn number(&mut self, key: (String, Meaning), pages: &Pages) -> u32 {
        if let Some(&number) = self.given.get(&key) {
            return number;
        }
        let number = self.free.pop().unwrap_or(self.before.len() as u32);
        if number as usize == self.before.len() {
            self.before.push((0, 0));
        }
        // What its last owner counted is not the new one's.
        self.before[number as usize] = pages.matched(number);
        self.given.insert(key, number);
        number
    }
}

/// The name of the list of trusted interfaces that name none. No configuration has an empty name.
const TRUSTED: &str = "";

/// The lists of a model, and one that permits all if interfaces are to be snooped on that name none.
fn lists(gateway: &Gateway) -> Vec<model::Bindings> {
    let is_trusted = |own: &model::Interface| own.access.dhcp_trusted || own.access.slaac_trusted;
    let is_bare = |own: &model::Interface| is_trusted(own) && own.access.bindings.is_none();
    let mut lists = gateway.bindings.clone();
    if gateway.interfaces.iter().any(is_bare) && gateway.bindings.iter().any(|list| list.learn.is_some()) {
        let origin = model::Origin::default();
        let all = Binding { permit: true, mac: [0; 6], mac_length: 0, from: None, origin };
        lists.push(model::Bindings {
            name: TRUSTED.to_owned(),
            rules: [all].into(),
            learn: None,
            prefixes: [].into(),
            origin,
        });
    }
    lists
}

impl Store {
    /// Has no lists yet. Learned bindings are published to the readers of `domain`.
    pub(super) fn new(domain: &Domain) -> Store {
        let learned = Some(Arc::new(Published::new(LearnedTable::default(), domain)));
        Store { kept: Vec::new(), numbers: Numbers::default(), current: Bindings { learned, ..Bindings::default() } }
    }

    /// Builds what differs from the lists in force.
    ///
    /// # Errors
    /// When there is no room: then nothing has changed.
    pub(super) fn prepare(&self, domain: &Domain, workers: usize, gateway: &Gateway) -> Result<Prepared, TableFull> {
        let mut numbers = self.numbers.clone();
        let mut new = Vec::new();
        for list in &lists(gateway) {
            let meanings = meanings(list);
            if self.get(&list.name).is_some_and(|kept| kept.meanings == meanings) {
                continue;
            }
            let given =
                meanings.iter().map(|&meaning| numbers.number((list.name.clone(), meaning), &self.current.pages));
            let given: Vec<u32> = given.collect();
            let (v4, v6) = (classifier(domain, list, &given)?, classifier(domain, list, &given)?);
            new.push(Kept { name: list.name.clone(), meanings, numbers: given, v4, v6 });
        }
        let mut pages: Vec<Arc<Page>> = self.current.pages.0.to_vec();
        pages.resize_with(numbers.before.len().div_ceil(PAGE), || Arc::new(Page::new(workers)));
        Ok(Prepared { new, numbers, pages: Pages(pages.into()) })
    }

    /// Takes the lists of a model over.
    pub(super) fn commit(
        &mut self,
        prepared: Prepared,
        gateway: &Gateway,
        map: &Map,
        interfaces: &mut [Interface],
        rubbish: &mut Rubbish,
    ) {
        let Prepared { new, mut numbers, pages } = prepared;
        let changed: HashSet<&str> = new.iter().map(|kept| kept.name.as_str()).collect();
        let declared = lists(gateway);
        let wanted: HashSet<&str> = declared.iter().map(|list| list.name.as_str()).collect();
        let stays = |kept: &Kept| wanted.contains(kept.name.as_str()) && !changed.contains(kept.name.as_str());
        let (mut kept, gone): (Vec<Kept>, Vec<Kept>) = std::mem::take(&mut self.kept).into_iter().partition(stays);
        rubbish.push(gone);
        kept.extend(new);
        self.kept = kept;
        let used: HashSet<u32> = self.kept.iter().flat_map(|kept| kept.numbers.iter().copied()).collect();
        let Numbers { given, free, .. } = &mut numbers;
        given.retain(|_, number| {
            let keep = used.contains(number);
            if !keep {
                free.push(*number);
            }
            keep
        });
        self.numbers = numbers;
        let mut lists: Vec<Bound> = Vec::new();
        for (interface, &number) in gateway.interfaces.iter().zip(&map.interfaces) {
            let (trusted, watched) = (interface.access.dhcp_trusted, interface.access.slaac_trusted);
            let place = match interface.access.bindings {
                Some(BindingsIndex(place)) => place,
                // The list for these is the last, if there is one.
                None if (trusted || watched) && declared.len() > gateway.bindings.len() => {
                    gateway.bindings.len() as u16
                }
                None => continue,
            };
            let known = lists.iter().position(|bound| bound.place == place).or_else(|| {
                let list = declared.get(usize::from(place))?;
                let kept = self.get(&list.name)?;
                let learns = list.learn.is_some();
                let snoops = list.learn.is_some_and(|learn| learn.dhcp);
                let is_first_come = list.learn.is_some_and(|learn| learn.slaac.is_some());
                let watches = is_first_come;
                let end = kept.numbers.last().copied().unwrap_or_default();
                let (v4, v6) = (kept.v4.table(), kept.v6.table());
                lists.push(Bound { place, v4, v6, end, learns, snoops, watches, is_first_come });
                Some(lists.len() - 1)
            });
            if let Some(at) = known {
                lists[at].snoops |= trusted;
                lists[at].watches |= watched;
            }
            interfaces[number as usize].bindings = known.map_or(crate::root::bindings::NONE, |at| at as u16);
        }
        let learned = self.current.learned.take();
        self.current = Bindings { lists: lists.into(), pages, learned };
    }

    /// Returns the bindings for the root.
    pub(super) fn current(&self) -> &Bindings {
        &self.current
    }

    fn get(&self, name: &str) -> Option<&Kept> {
        self.kept.iter().find(|kept| kept.name == name)
    }

    /// Packets and octets that a number has counted since it was given, or since that was cleared.
    fn matched(&self, number: u32) -> (u64, u64) {
        let (packets, octets) = self.current.pages.matched(number);
        let before = self.numbers.before.get(number as usize).copied().unwrap_or_default();
        (packets - before.0, octets - before.1)
    }
}

/// Returns the identities of a list's rules, and that of the end of the list.
fn meanings(list: &model::Bindings) -> Vec<Meaning> {
    let mut seen: HashMap<(bool, [u8; 6], u8, Option<IpNet>), usize> = HashMap::new();
    let of = |rule: &Binding| {
        let (permit, mac, length, from) = (rule.permit, rule.mac, rule.mac_length, rule.from);
        let times = seen.entry((permit, mac, length, from)).or_default();
        *times += 1;
        Some((permit, mac, length, from, *times))
    };
    list.rules.iter().map(of).chain([None]).collect()
}

/// The rules of a list, as far as they are about a family.
fn classifier<K: Bits>(domain: &Domain, list: &model::Bindings, numbers: &[u32]) -> Result<Writer<K>, TableFull> {
    let full = |full| TableFull {
        table: format!("mac-ip {}", list.name),
        prefix: String::new(),
        origin: list.origin,
        full: NoRoom::Rules(full),
    };
    let count = list.rules.len() + 1;
    let bytes = count.saturating_mul(OCTETS_PER_RULE).clamp(LEAST_OCTETS, MOST_OCTETS);
    let limits = Limits { rules: count.min(MOST_BINDINGS + 1), bytes };
    let mut writer = Writer::new(domain, limits).map_err(full)?;
    let rules = list.rules.iter().map(|rule| (about::<K>(rule), rule.permit)).chain([(Some(Rule::any()), false)]);
    let placed = (0..)
        .zip(rules.zip(numbers))
        .filter_map(|(place, ((rule, permit), &number))| Some((place, rule?, Verdict::new(number, permit).0)));
    writer.load(placed).map_err(full)?;
    Ok(writer)
}

/// Returns the conditions of a rule if it applies to this family.
fn about<K: Bits>(rule: &Binding) -> Option<Rule<K>> {
    let source = match rule.from {
        None => Span::every(),
        Some(net) => Span::new(K::of_address(net.network())?, K::of_address(net.broadcast())?)?,
    };
    let [a, b, c, d, e, f] = rule.mac;
    let (upper, lower) = (u32::from_be_bytes([a, b, c, d]), u16::from_be_bytes([e, f]));
    let length = u32::from(rule.mac_length.min(48));
    let open = u32::MAX.checked_shr(length).unwrap_or(0);
    let last = K::from(upper | open);
    let destination = if length == 0 { Span::every() } else { Span::new(K::from(upper), last)? };
    let upper = match length.checked_sub(32) {
        None | Some(0) => Upper::Any,
        Some(more) => {
            let open = u16::MAX.checked_shr(more).unwrap_or(0);
            Upper::Ports { source: Span::<u16>::ALL, destination: Span::new(lower, lower | open)? }
        }
    };
    Some(Rule { source, destination, upper, ..Rule::any() })
}

/// The decision of bindings about a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BindingDecision {
    /// The list.
    pub list: BindingsIndex,
    /// The place of the rule that decides; `None`: none matches. Then a learned binding permits the packet, or it is dropped.
    pub rule: Option<usize>,
    /// The rule permits.
    pub permit: bool,
    /// The hardware address of the packet.
    pub mac: MacAddress,
}

impl Store {
    /// Returns the decision of the rule with this number, of the bindings of an interface (its number).
    pub(super) fn decision(
        &self,
        (gateway, map): (&Gateway, &Map),
        interface: u32,
        mac: MacAddress,
        number: u32,
        permit: bool,
    ) -> Option<BindingDecision> {
        let index = map.interfaces.iter().position(|&other| other == interface)?;
        let list = gateway.interfaces[index].access.bindings?;
        let declared = &gateway.bindings[usize::from(list.0)];
        if number == LEARNED {
            return Some(BindingDecision { list, rule: None, permit, mac });
        }
        let at = self.get(&declared.name)?.numbers.iter().position(|&other| other == number)?;
        Some(BindingDecision { list, rule: Some(at).filter(|&at| at < declared.rules.len()), permit, mac })
    }

    /// Returns the matches of each rule of a list, in packets and octets, then of no rule; and the octets of its tables.
    pub(super) fn counts(&self, name: &str) -> (Vec<(u64, u64)>, usize) {
        let Some(kept) = self.get(name) else { return Default::default() };
        let octets = [kept.v4.stats(), kept.v6.stats()].iter().map(|of| of.octets + of.side_octets).sum();
        (kept.numbers.iter().map(|&number| self.matched(number)).collect(), octets)
    }

    /// Has the rules of all bindings matched nothing.
    pub(super) fn clear(&mut self) {
        let Store { numbers, current, .. } = self;
        for (number, before) in (0..).zip(&mut numbers.before) {
            *before = current.pages.matched(number);
        }
    }
}
