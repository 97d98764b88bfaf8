//! Finds the rules of an ordered list that can be left out.
//!
//! A rule *never* matches if the rules before it, one or several, take all of its packets. A rule is *redundant* if it
//! matches packets, and what follows it decides about these in the same way.
//!
//! # The promise
//! Any set of the rules found can be left out, one of them or all: no packet gets another verdict. So a rule that shadows
//! another one with another verdict is not found while that one is in the list: without the first, the second would match.
//!
//! Rules found are *named*, all others *stay*. The promise holds if and only if for each packet, all named rules that match
//! before the first staying one have the verdict of that one. Rules that never match are named first: for each packet,
//! the first match is none of them. Then rules are looked at from the last to the first. A rule is named if, for each packet
//! that it is the first to match, the named rules behind it and the first staying one have its verdict. Packets that an
//! earlier rule takes make no difference then, as no earlier rule is named yet but for those that never match.
//!
//! ```
//! use weir_table::classify::Rule;
//! use weir_table::classify::cover::{Effort, Finding, Kind, Listed, analyse};
//! use weir_table::lpm::Prefix;
//!
//! let from = |prefix: &str| Rule::<u32> { source: prefix.parse::<Prefix<u32>>().unwrap().into(), ..Rule::any() };
//! let rules = [from("10.0.0.0/9"), from("10.128.0.0/9"), from("10.0.0.0/8"), from("10.1.0.0/16"), from("0.0.0.0/0")];
//! let (permit, deny) = (0, 1);
//! let verdicts = [permit, permit, deny, permit, permit];
//! let list: Vec<_> =
//!     rules.iter().zip(verdicts).map(|(rule, verdict)| Listed { boxes: std::slice::from_ref(rule), verdict }).collect();
//! let report = analyse(&list, deny, Effort::default()).unwrap();
//! let never = |rule| Finding { rule, kind: Kind::Never, by: vec![0, 1], unmatched: false };
//! // The first two stay: without them rule 2 would deny.
//! assert_eq!(report.findings, [never(2), Finding { by: vec![0], ..never(3) }]);
//! ```
//!
//! # Which packets there are
//! Addresses, ports, interfaces, codepoints and fragments in all combinations; flags of TCP only beside ports and with
//! protocol 6; type and code only with protocol 1 or 58; and ports not with these. Packets of any protocol may have none of
//! them, as headers may be cut off. That is what [`Fields`] are made of, or more: a packet that does not
//! occur keeps a rule from being found, and never makes it so.
//!
//! # How
//! By looking for a packet that shows the contrary. All rules are put into a classifier. A packet of a rule is looked up: if
//! the rule is the first that matches, it does not never match. Otherwise the packets of the rule that was found are cut
//! out, and one of what is left is looked up, until one shows it or nothing is left. That takes one or few lookups for
//! most rules, and for the others as many as there are rules that cover them, or somewhat more.
//!
//! Redundant rules are found alike: a packet that the rule is the first to match, and a later one of another verdict, shows
//! that it is not. Where the next staying rule has the same verdict, what both match is settled if no rule of another
//! verdict that lies between them, named or not, overlaps what is looked at. The next rule, or such a rule, is found by comparing addresses and
//! ports with all that come after, 64 at a time. (A second classifier of the rules that come after, into which they were
//! put one by one, took longer for 50,000 rules, and very long for rules that nothing parts.)
//!
//! On a machine that others used (AMD family 26, model 2; 2.6 GHz), ClassBench's sets took 0.1 s (acl1, 8589 rules) to 0.8 s
//! of CPU time (acl1, 44,473 rules; fw1, 51,412), whether all rules had one verdict, or two at random. Loading the classifier
//! is 0.2 to 0.3 s of that.
//!
//! Lists can be made for which that takes forever. So there is an [`Effort`], and what exceeds it is told as undecided.

pub mod naive;
mod outline;
mod region;

use std::collections::BTreeSet;
use std::sync::Arc;

use weir_base::reclaim::{Domain, Reader};

use super::address::Address;
use super::family;
use super::fields::Fields;
use super::rule::Rule;
use super::{Error, Limits, NO_RULE, Table, Writer};
use outline::Outlines;
use region::Region;

/// A rule of a list.
#[derive(Clone, Copy, Debug)]
pub struct Listed<'r, K> {
    /// It matches what any of these matches.
    pub boxes: &'r [Rule<K>],
    /// What it does to packets: equal numbers stand for what makes no difference.
    pub verdict: u32,
}

/// Why a rule could be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// It can never match.
    Never,
    /// It matches, but without it all packets had the same verdict.
    Redundant,
}

/// A rule that could be left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Its number in the list.
    pub rule: usize,
    /// Why.
    pub kind: Kind,
    /// The rules that take its packets, in order: before it if it never matches, after it if it is redundant. None if it
    /// asks for what no packet has, or the end of the list does it all.
    pub by: Vec<usize>,
    /// Some of its packets, or all, would be matched by no rule, which has the same verdict.
    pub unmatched: bool,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Rules that could be left out, in order.
    pub findings: Vec<Finding>,
    /// Rules that took more effort than was allowed, in order. They may be such too.
    pub undecided: Vec<usize>,
}

/// How much may be looked at: lookups, pieces, thousands of rules by their outlines, or 16 rules themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// For one rule.
    pub each: usize,
    /// In all, beyond 16 for every rule.
    pub all: usize,
}

impl Default for Effort {
    /// A second or some in all.
    fn default() -> Effort {
        Effort { each: 20_000, all: 4_000_000 }
    }
}

/// Finds the rules of a list that can be left out. `unmatched` is the verdict for packets that no rule matches: a number that
/// no rule has, if the end of this list does not decide about them.
///
/// # Errors
/// If there is no room for a classifier of all boxes.
pub fn analyse<K: Address>(list: &[Listed<'_, K>], unmatched: u32, effort: Effort) -> Result<Report, Error> {
    report((list, Some(unmatched), effort))
}

/// Finds the rules of a list that never match, and no others: the lesser part of the work. Verdicts have no part in it.
///
/// # Errors
/// As of [`analyse`].
pub fn never<K: Address>(list: &[Listed<'_, K>], effort: Effort) -> Result<Report, Error> {
    report((list, None, effort))
}

/// The rules of a list, the verdict on packets that none matches, if there is one, and a bound on the work.
type Args<'r, K> = (&'r [Listed<'r, K>], Option<u32>, Effort);

/// The body of both.
fn report<K: Address>(args: Args<'_, K>) -> Result<Report, Error> {
    fn ipv4(args: Args<'_, u32>) -> Result<Report, Error> {
        find(args)
    }
    fn ipv6(args: Args<'_, u128>) -> Result<Report, Error> {
        find(args)
    }
    // SAFETY: the functions differ from this one in the family only.
    unsafe { family::call::<K, Args<'_, K>, _, _, _, _, _>(args, ipv4, ipv6) }
}

fn find<K: Address>((list, unmatched, effort): Args<'_, K>) -> Result<Report, Error> {
    let mut analysis = Analysis::new(list, effort)?;
    let mut report = Report::default();
    let matches = analysis.never(&mut report);
    if let Some(unmatched) = unmatched {
        analysis.redundant(&matches, unmatched, &mut report);
    }
    report.findings.sort_by_key(|finding| finding.rule);
    report.undecided.sort_unstable();
    Ok(report)
}

/// Pieces that are looked up together.
const TOGETHER: usize = 64;

/// Packets of a vector.
const VECTOR: usize = 256;

/// Packets of a rule that are looked up before its pieces are.
const FIRST: usize = 8;

/// Rules that cover one, of which the fewest that do so are chosen; of more, all are told.
const MOST_CHOICES: usize = 32;

/// It took more than was allowed.
struct Spent;

/// What may still be looked at.
struct Allowance<'a> {
    each: usize,
    all: &'a mut usize,
}

impl Allowance<'_> {
    fn spend(&mut self, much: usize) -> Result<(), Spent> {
        if much > self.each || much > *self.all {
            return Err(Spent);
        }
        self.each -= much;
        *self.all -= much;
        Ok(())
    }
}

/// What looking for a packet that a rule is the first to match came to.
enum Search {
    /// There is one.
    Found,
    /// There is none: these rules before it take them all.
    Covered(BTreeSet<usize>),
}

/// Why a rule can be left out.
#[derive(Default)]
struct Needless {
    by: BTreeSet<usize>,
    unmatched: bool,
}

/// A box after a rule.
enum After<K> {
    /// The first staying one that matches the packet, with the same verdict; none of another verdict overlaps the region
    /// before.
    Same(usize),
    /// The first that overlaps the region and has another verdict, and what it matches.
    Other(usize, Region<K>),
    /// There is neither.
    End,
}

struct Analysis<'r, K> {
    list: &'r [Listed<'r, K>],
    /// Which rules have been found.
    named: Vec<bool>,
    /// So many rules, the first ones, have the same verdict.
    alike: usize,
    boxes: Vec<&'r Rule<K>>,
    /// The rule that a box belongs to.
    rules: Vec<usize>,
    /// Where the boxes of a rule begin, and at last, where all end.
    starts: Vec<usize>,
    /// Of boxes that may make a difference to rules before them.
    outlines: Outlines<K>,
    /// All boxes, identified by their numbers.
    table: Arc<Table<K>>,
    reader: Reader,
    each: usize,
    left: usize,
}

impl<'r, K: Address> Analysis<'r, K> {
    fn new(list: &'r [Listed<'r, K>], effort: Effort) -> Result<Analysis<'r, K>, Error> {
        let (mut boxes, mut rules, mut starts) = (Vec::new(), Vec::new(), vec![0]);
        for (rule, listed) in list.iter().enumerate() {
            boxes.extend(listed.boxes);
            rules.resize(boxes.len(), rule);
            starts.push(boxes.len());
        }
        if boxes.len() >= NO_RULE as usize {
            return Err(Error::TooManyRules { rules: boxes.len(), most: NO_RULE as usize - 1 });
        }
        let domain = Domain::new();
        let reader = domain.reader().expect("nobody else reads");
        // Rules take less, and address space costs nothing.
        let bytes = boxes.len().saturating_mul(4096).saturating_add(64 << 20);
        let mut writer = Writer::new(&domain, Limits { rules: boxes.len(), bytes })?;
        writer.load(boxes.iter().zip(0..).map(|(rule, number)| (u64::from(number), (*rule).clone(), number)))?;
        let outlines = Outlines::new(&boxes);
        let left = effort.all.saturating_add(16 * list.len());
        let (table, each) = (writer.table(), effort.each);
        let named = vec![false; list.len()];
        let alike = list.iter().take_while(|listed| listed.verdict == list[0].verdict).count();
        Ok(Analysis { list, named, alike, boxes, rules, starts, outlines, table, reader, each, left })
    }

    fn boxes_of(&self, rule: usize) -> &'r [Rule<K>] {
        self.list[rule].boxes
    }

    fn regions_of(&self, rule: usize) -> impl Iterator<Item = Region<K>> + use<'r, K> {
        self.boxes_of(rule).iter().flat_map(Region::all)
    }

    fn find(&mut self, packets: &[Fields<K>], found: &mut [u32]) {
        self.table.lookup_each(&self.reader.pin(), packets, found);
    }

    fn name(&mut self, finding: Finding, report: &mut Report) {
        let rule = finding.rule;
        self.named[rule] = true;
        if rule < self.alike {
            // It has the verdict of all rules before it, so it makes no difference to them.
            (self.starts[rule]..self.starts[rule + 1]).for_each(|number| self.outlines.remove(number));
        }
        report.findings.push(finding);
    }

    /// Looks for rules that never match. For each rule, whether it is known to match some packet first.
    fn never(&mut self, report: &mut Report) -> Vec<bool> {
        let mut matches = vec![false; self.list.len()];
        let mut packets: Vec<Fields<K>> = Vec::with_capacity(VECTOR + FIRST);
        let mut found = vec![0; VECTOR + FIRST];
        for rule in 0..self.list.len() {
            let corners = self.regions_of(rule).flat_map(|region| [region.packet(false), region.packet(true)]);
            packets.extend(corners.take(FIRST));
            if packets.len() >= VECTOR || rule + 1 == self.list.len() {
                let found = &mut found[..packets.len()];
                self.find(&packets, found);
                found.iter().for_each(|number| matches[self.rules[*number as usize]] = true);
                packets.clear();
            }
        }
        for (rule, matches) in matches.iter_mut().enumerate().filter(|(_, matches)| !**matches) {
            let mut left = self.left;
            let mut allowance = Allowance { each: self.each, all: &mut left };
            match self.search(rule, &mut allowance) {
                Ok(Search::Found) => *matches = true,
                Ok(Search::Covered(by)) => {
                    let by = self.fewest(rule, Vec::from_iter(by), &mut allowance);
                    self.name(Finding { rule, kind: Kind::Never, by, unmatched: false }, report);
                }
                Err(Spent) => report.undecided.push(rule),
            }
            self.left = left;
        }
        matches
    }

    /// Looks for a packet that a rule is the first to match.
    fn search(&mut self, rule: usize, allowance: &mut Allowance<'_>) -> Result<Search, Spent> {
        let mut open = Vec::from_iter(self.regions_of(rule));
        let mut by = BTreeSet::new();
        let mut found = [0; TOGETHER];
        while !open.is_empty() {
            let some = open.split_off(open.len().saturating_sub(TOGETHER));
            allowance.spend(some.len())?;
            let packets = Vec::from_iter(some.iter().map(|region| region.packet(false)));
            let found = &mut found[..some.len()];
            self.find(&packets, found);
            let numbers = found.iter().map(|found| *found as usize);
            if numbers.clone().any(|number| self.rules[number] == rule) {
                return Ok(Search::Found);
            }
            for (region, number) in some.into_iter().zip(numbers) {
                by.insert(self.rules[number]);
                let cut = Region::of(self.boxes[number], region.shape()).expect("it matches a packet of this shape");
                region.cut(&cut, &mut open);
            }
        }
        Ok(Search::Covered(by))
    }

    /// Of rules that cover one, as few as do so, as far as allowed.
    fn fewest(&self, rule: usize, by: Vec<usize>, allowance: &mut Allowance<'_>) -> Vec<usize> {
        if !(2..=MOST_CHOICES).contains(&by.len()) {
            return by;
        }
        if let Some(alone) = by.iter().find(|one| self.cover(rule, &[**one], allowance)) {
            return vec![*alone];
        }
        let mut kept = by;
        for position in (0..kept.len()).rev() {
            let mut fewer = kept.clone();
            fewer.remove(position);
            if self.cover(rule, &fewer, allowance) {
                kept = fewer;
            }
        }
        kept
    }

    /// Whether some rules take all packets of another. If it takes too long to tell: not.
    fn cover(&self, rule: usize, by: &[usize], allowance: &mut Allowance<'_>) -> bool {
        let mut open = Vec::from_iter(self.regions_of(rule));
        for one in by.iter().flat_map(|by| self.boxes_of(*by)) {
            if allowance.spend(open.len()).is_err() {
                return false;
            }
            for region in std::mem::take(&mut open) {
                match Region::of(one, region.shape()) {
                    Some(cut) => drop(region.cut(&cut, &mut open)),
                    None => open.push(region),
                }
            }
        }
        open.is_empty()
    }

    /// Looks for redundant rules among those that match.
    fn redundant(&mut self, matches: &[bool], unmatched: u32, report: &mut Report) {
        for rule in (0..self.list.len()).rev().filter(|rule| matches[*rule]) {
            let mut left = self.left;
            match self.needless(rule, unmatched, &mut Allowance { each: self.each, all: &mut left }) {
                Ok(None) => {}
                Ok(Some(Needless { by, unmatched })) => {
                    let by = by.into_iter().collect();
                    self.name(Finding { rule, kind: Kind::Redundant, by, unmatched }, report);
                }
                Err(Spent) => report.undecided.push(rule),
            }
            self.left = left;
        }
    }

    /// Whether a rule makes no difference to any packet, whichever of the named rules are left out.
    fn needless(
        &mut self,
        rule: usize,
        unmatched: u32,
        allowance: &mut Allowance<'_>,
    ) -> Result<Option<Needless>, Spent> {
        let mut needless = Needless::default();
        // What other rules may decide otherwise.
        let mut open = Vec::from_iter(self.regions_of(rule));
        while let Some(region) = open.pop() {
            allowance.spend(1)?;
            let packet = region.packet(false);
            let mut first = [NO_RULE];
            self.find(&[packet], &mut first);
            let first = first[0] as usize;
            if self.rules[first] < rule {
                // Packets that an earlier rule takes do not matter.
                let cut = Region::of(self.boxes[first], region.shape()).expect("it matches a packet of this shape");
                region.cut(&cut, &mut open);
                continue;
            }
            match self.after(rule, &region, &packet, allowance)? {
                After::Same(number) => {
                    needless.by.insert(self.rules[number]);
                    let cut = Region::of(self.boxes[number], region.shape());
                    region.cut(&cut.expect("it matches a packet of this shape"), &mut open);
                }
                After::Other(number, _) if self.boxes[number].matches(&packet) => return Ok(None),
                After::Other(_, other) => {
                    let both = region.cut(&other, &mut open);
                    open.extend(both);
                }
                After::End if unmatched == self.list[rule].verdict => needless.unmatched = true,
                After::End => return Ok(None),
            }
        }
        Ok(Some(needless))
    }

    /// What comes after a rule that is the first to match a packet, and the region that the packet is of.
    fn after(
        &self,
        rule: usize,
        region: &Region<K>,
        packet: &Fields<K>,
        allowance: &mut Allowance<'_>,
    ) -> Result<After<K>, Spent> {
        let verdict = self.list[rule].verdict;
        let mut candidates = self.outlines.candidates(self.outlines.of(region), self.starts[rule + 1]);
        let mut passed = 0;
        let after = candidates.by_ref().inspect(|_| passed += 1).find_map(|number| {
            let (other, rule) = (self.boxes[number], self.rules[number]);
            if self.list[rule].verdict == verdict {
                return (!self.named[rule] && other.matches(packet)).then_some(After::Same(number));
            }
            let other = Region::of(other, region.shape()).filter(|other| region.overlaps(other));
            other.map(|other| After::Other(number, other))
        });
        allowance.spend(candidates.looked_at() / 1024 + passed / 16)?;
        Ok(after.unwrap_or(After::End))
    }
}
