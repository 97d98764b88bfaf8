//! Which sources get another verdict, on which interface, when one configuration takes the place of another: all of them,
//! exactly.
//!
//! The boundaries of both gateways together cut the address space into intervals in which neither verdict changes. Both
//! gateways look up the first address of each interval. Adjacent intervals that change in the same way become one
//! range, which is reported as the fewest prefixes that cover it. Ranges are reported as they are found, so memory is
//! that of the two gateways and of the boundaries, however much changes.

use std::io;
use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Serialize, Serializer};
use weir_plane::engine::Answer;
use weir_plane::family::Family;
use weir_plane::harness::Harness;
use weir_plane::model::{Gateway, LinkCheck, SavPolicy, SpecialAction};
use weir_plane::record::Said;
use weir_table::sav::Verdict as Found;

use super::address::{Address, cover};
use super::boundaries::{Ground, add_of_link, order};
use crate::replay::validation::Validation;
use crate::replay::{self, Options, ReplayError};

/// The number of changes of an interface and family that are reported with both decisions.
pub const EXPLAINED: u64 = 100;

/// The number of sources in a lookup.
const BATCH: usize = 4096;

/// The verdict on a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// There is no policy: it passes.
    Unvalidated,
    /// It passes.
    Valid,
    /// It passes, as the rules are not complete.
    Unknown,
    /// It does not pass where the policy discards.
    Invalid,
}

impl Verdict {
    const ALL: [Verdict; 4] = [Verdict::Unvalidated, Verdict::Valid, Verdict::Unknown, Verdict::Invalid];

    /// As people read it.
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::Unvalidated => "unvalidated",
            Verdict::Valid => "valid",
            Verdict::Unknown => "unknown",
            Verdict::Invalid => "invalid",
        }
    }

    fn of(answer: Answer) -> Verdict {
        match answer {
            Answer::Unasked => Verdict::Unvalidated,
            Answer::Said(Said::Mechanism(Found::Unknown)) => Verdict::Unknown,
            answer if answer.passes() => Verdict::Valid,
            _ => Verdict::Invalid,
        }
    }

    /// Whether this and another are a change. Where there is no policy on one side, it is one only if what passes there does
    /// not pass on the other.
    fn differs(self, other: Verdict) -> bool {
        if self == Verdict::Unvalidated || other == Verdict::Unvalidated {
            (self == Verdict::Invalid) != (other == Verdict::Invalid)
        } else {
            self != other
        }
    }
}

/// An interface and a family, of which at least one configuration validates sources.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Interface {
    /// The interface.
    pub interface: String,
    /// `ipv4` or `ipv6`.
    pub family: &'static str,
    /// Its policy in the old configuration.
    pub old: Option<Policy>,
    /// Its policy in the new one.
    pub new: Option<Policy>,
    /// Remarks on parts of the policy that depend on more than the source, and are not compared.
    pub remarks: Vec<String>,
}

/// A policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Policy {
    /// Its name.
    pub name: String,
    /// Its mechanism.
    pub mechanism: &'static str,
    /// The action for invalid packets.
    pub action: &'static str,
}

/// Sources whose verdict changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Change {
    /// The verdict of the old configuration.
    pub old: Verdict,
    /// The verdict of the new configuration.
    pub new: Verdict,
    /// Themselves: adjacent prefixes, as few as there can be.
    #[serde(serialize_with = "as_text")]
    pub prefixes: Vec<IpNet>,
    /// The first of them.
    pub first: IpAddr,
    /// The last.
    pub last: IpAddr,
    /// The old and the new decision about the first source; only in the first [`EXPLAINED`] changes.
    pub why: Option<[Why; 2]>,
}

fn as_text<S: Serializer>(prefixes: &[IpNet], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(prefixes.iter().map(IpNet::to_string))
}

/// The decision about a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Why {
    /// A policy.
    Policy(Box<Validation>),
    /// Something else, in words.
    Words(&'static str),
}

/// How many ranges change in which way.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Totals(Vec<(Verdict, Verdict, u64)>);

impl Totals {
    fn add(&mut self, old: Verdict, new: Verdict) {
        match self.0.iter_mut().find(|(a, b, _)| (*a, *b) == (old, new)) {
            Some((_, _, count)) => *count += 1,
            None => self.0.push((old, new, 1)),
        }
    }

    /// Returns the old verdict, the new verdict and the number of ranges, in the order of verdicts.
    pub fn iter(&self) -> impl Iterator<Item = (Verdict, Verdict, u64)> {
        let pairs = Verdict::ALL.into_iter().flat_map(|old| Verdict::ALL.map(|new| (old, new)));
        pairs.filter_map(|(old, new)| self.0.iter().copied().find(|(a, b, _)| (*a, *b) == (old, new)))
    }
}

/// Takes what is found, in order.
pub trait Sink {
    /// An interface and family begin.
    ///
    /// # Errors
    /// If the report cannot be written.
    fn begin(&mut self, interface: &Interface) -> io::Result<()>;
    /// Some of its sources change.
    ///
    /// # Errors
    /// If the report cannot be written.
    fn change(&mut self, change: &Change) -> io::Result<()>;
    /// That was all of it.
    ///
    /// # Errors
    /// If the report cannot be written.
    fn end(&mut self, totals: &Totals) -> io::Result<()>;
}

/// Two gateways.
pub struct Diff {
    old: Harness,
    new: Harness,
}

/// An interface on both sides, by the index of each model.
type Sides = [u32; 2];

impl Diff {
    /// Compiles both.
    ///
    /// # Errors
    /// When one cannot be made.
    pub fn new(old: Gateway, new: Gateway) -> Result<Diff, ReplayError> {
        let options = Options::default();
        Ok(Diff { old: replay::harness(old, options)?, new: replay::harness(new, options)? })
    }

    /// The interfaces that only one of the two has: of the old one, and of the new one. Nothing of them is compared.
    pub fn alone(&self) -> [Vec<String>; 2] {
        let names = |harness: &Harness| -> Vec<String> {
            harness.model().interfaces.iter().map(|interface| interface.name.clone()).collect()
        };
        let [old, new] = [names(&self.old), names(&self.new)];
        let without =
            |these: &[String], those: &[String]| these.iter().filter(|name| !those.contains(name)).cloned().collect();
        [without(&old, &new), without(&new, &old)]
    }

    /// Finds all changes, by interface in the order of the new configuration, IPv4 before IPv6, by address.
    ///
    /// # Errors
    /// When the sink fails.
    pub fn run(&self, sink: &mut impl Sink) -> io::Result<()> {
        let index = |harness: &Harness, name: &str| {
            harness.model().interfaces.iter().position(|interface| interface.name == name).map(|index| index as u32)
        };
        let interfaces = self.new.model().interfaces.iter().zip(0..);
        let both: Vec<Sides> =
            interfaces.filter_map(|(interface, new)| Some([index(&self.old, &interface.name)?, new])).collect();
        let (mut v4, mut v6) = (Ranges::<u32>::default(), Ranges::<u128>::default());
        for sides in both {
            self.family(sides, &mut v4, sink)?;
            self.family(sides, &mut v6, sink)?;
        }
        Ok(())
    }

    fn family<K: Address>(&self, sides: Sides, ranges: &mut Ranges<K>, sink: &mut impl Sink) -> io::Result<()> {
        let policies =
            [(&self.old, sides[0]), (&self.new, sides[1])].map(|(harness, index)| policy::<K>(harness, index));
        if policies.iter().all(Option::is_none) {
            return Ok(());
        }
        sink.begin(&Interface {
            interface: self.new.model().interfaces[sides[1] as usize].name.clone(),
            family: K::NAME,
            old: policies[0].map(of_policy),
            new: policies[1].map(of_policy),
            remarks: remarks(policies),
        })?;
        ranges.prepare(self, sides);
        let mut totals = Totals::default();
        let mut told = 0;
        ranges.walk(self, sides, |first, last, old, new| {
            totals.add(old, new);
            told += 1;
            let why = (told <= EXPLAINED).then(|| [why(&self.old, sides[0], first), why(&self.new, sides[1], first)]);
            let prefixes = cover(first, last).collect();
            sink.change(&Change { old, new, prefixes, first: first.address(), last: last.address(), why })
        })?;
        sink.end(&totals)
    }
}

fn policy<K: Family>(harness: &Harness, index: u32) -> Option<&SavPolicy> {
    let model = harness.model();
    let policy = (*K::of(&model.interfaces[index as usize].sav))?;
    model.sav.get(usize::from(policy.0))
}

fn of_policy(policy: &SavPolicy) -> Policy {
    Policy { name: policy.name.clone(), mechanism: policy.mechanism.name(), action: policy.action.name() }
}

/// Returns remarks on the parts of two policies that depend on more than the source.
fn remarks(policies: [Option<&SavPolicy>; 2]) -> Vec<String> {
    let mut remarks = Vec::new();
    let any = |has: fn(&SavPolicy) -> bool| policies.into_iter().flatten().any(has);
    if any(|policy| !policy.exempt.is_empty()) {
        remarks.push("exempt rules match more than the source, and are not compared".to_owned());
    }
    if any(|policy| policy.link_check != LinkCheck::Off) {
        remarks.push("the link check compares hardware addresses, and is not part of the difference".to_owned());
    }
    if let [Some(old), Some(new)] = policies
        && old.special.unconfigured != new.special.unconfigured
    {
        let name = |action| match action {
            SpecialAction::Permit => "permit",
            SpecialAction::Deny => "deny",
            SpecialAction::Check => "check",
        };
        let (old, new) = (name(old.special.unconfigured), name(new.special.unconfigured));
        remarks.push(format!("who has no address yet (`unconfigured`): {old} -> {new}"));
    }
    remarks
}

/// Returns the decision about a source.
fn why<K: Address>(harness: &Harness, index: u32, source: K) -> Why {
    let mut answers = Vec::new();
    harness.answers::<K>(index, &[source.octets()], &mut answers);
    let words = match answers[..] {
        [Answer::Said(said)] => {
            let policy = K::of(&harness.model().interfaces[index as usize].sav).map_or(u16::MAX, |policy| policy.0);
            let number = harness.interface_number(index).unwrap_or(index);
            match harness.decision(policy, number, source.address(), said) {
                Some(decision) => return Why::Policy(Box::new(Validation::new(harness, &decision))),
                None => "nothing is known of what decides",
            }
        }
        [Answer::Martian] => "no packet comes from such an address",
        _ => "the interface has no policy for the family",
    };
    Why::Words(words)
}

/// The boundaries of both sides.
#[derive(Default)]
struct Ranges<K> {
    /// The inputs of the boundaries in `shared`: interfaces with the same policies share them.
    of: Option<[Ground; 2]>,
    shared: Vec<K>,
    /// The boundaries of the interface's own addresses.
    own: Vec<K>,
}

impl<K: Address> Ranges<K> {
    fn prepare(&mut self, diff: &Diff, sides: Sides) {
        let grounds = [Ground::of::<K>(&diff.old, sides[0]), Ground::of::<K>(&diff.new, sides[1])];
        if self.of != Some(grounds) {
            self.shared.clear();
            grounds[0].add(&diff.old, &mut self.shared);
            grounds[1].add(&diff.new, &mut self.shared);
            order(&mut self.shared);
            self.of = Some(grounds);
        }
        self.own.clear();
        add_of_link(&diff.old, sides[0], &mut self.own);
        add_of_link(&diff.new, sides[1], &mut self.own);
        order(&mut self.own);
    }

    /// Looks up each interval in both gateways. Reports each range that changes: first address, last address, and
    /// verdicts.
    fn walk(
        &self,
        diff: &Diff,
        sides: Sides,
        mut changed: impl FnMut(K, K, Verdict, Verdict) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut starts = merged(&self.shared, &self.own);
        let (mut batch, mut octets) = (Vec::with_capacity(BATCH), Vec::with_capacity(BATCH));
        let (mut old, mut new) = (Vec::with_capacity(BATCH), Vec::with_capacity(BATCH));
        // Where the range began that is being walked through, and how it changes.
        let mut open: Option<(K, Verdict, Verdict)> = None;
        loop {
            batch.clear();
            batch.extend(starts.by_ref().take(BATCH));
            if batch.is_empty() {
                break;
            }
            octets.clear();
            octets.extend(batch.iter().map(|start: &K| start.octets()));
            diff.old.answers::<K>(sides[0], &octets, &mut old);
            diff.new.answers::<K>(sides[1], &octets, &mut new);
            for ((&start, &old), &new) in batch.iter().zip(&old).zip(&new) {
                let (old, new) = (Verdict::of(old), Verdict::of(new));
                let change = old.differs(new).then_some((old, new));
                if change == open.map(|(_, old, new)| (old, new)) {
                    continue;
                }
                if let (Some((first, old, new)), Some(last)) = (open, start.previous()) {
                    changed(first, last, old, new)?;
                }
                open = change.map(|(old, new)| (start, old, new));
            }
        }
        match open {
            Some((first, old, new)) => changed(first, K::ZERO.saturate(0), old, new),
            None => Ok(()),
        }
    }
}

/// Two lists in order, each value once, as one.
fn merged<'a, K: Address>(mut one: &'a [K], mut other: &'a [K]) -> impl Iterator<Item = K> + 'a {
    std::iter::from_fn(move || {
        let next = one.first().into_iter().chain(other.first()).min().copied()?;
        for list in [&mut one, &mut other] {
            if list.first() == Some(&next) {
                *list = &list[1..];
            }
        }
        Some(next)
    })
}
