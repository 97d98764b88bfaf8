//! Finds rules of an ordered list that can be removed.
//!
//! A rule *never* matches if earlier rules, one or several, match all of its packets. A rule is *redundant* if it
//! matches packets, and the rules behind it decide equally about them.
//!
//! # The promise
//! Any set of the found rules can be removed: no packet gets another verdict. So a rule that shadows a rule with
//! another verdict is not found while that rule is in the list: without the first, the second would match.
//!
//! Found rules are *named*, all others *stay*. The promise holds if and only if for each packet, all named rules that
//! match before the first staying one have its verdict. Rules that never match are named first: for each packet, the
//! first match is none of them. Then rules are checked from the last to the first. A rule is named if, for each packet
//! that it is the first to match, the named rules behind it and the first staying one have its verdict. Packets of an
//! earlier rule make no difference, because the only earlier rules that are named yet never match.
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
//! Addresses, ports, interfaces, codepoints and fragments in all combinations; TCP flags only with ports and protocol
//! 6; type and code only with protocol 1 or 58, and without ports. Packets of any protocol may have none of them,
//! because headers may be truncated. These are all packets of [`Fields`], or more: a packet that does not occur may
//! hide a removable rule, and never adds one.
//!
//! # How
//! By search for a counterexample. All rules are put into a classifier. A packet of a rule is looked up: if the rule is
//! the first match, it does match. Else the packets of the found rule are cut out, and one of the remaining packets is
//! looked up, until one shows the rule or none remains. That takes one or few lookups for most rules; for the others
//! about as many as rules cover them.
//!
//! Redundant rules are found likewise: a packet that the rule is the first to match, and a later rule of another
//! verdict, show that it is not redundant. If the next staying rule has the same verdict, their common packets are
//! settled, provided that no rule of another verdict between them overlaps the region. The next rule, or such a rule,
//! is found by comparing addresses and ports with all later ones, 64 at a time. (A second classifier of the later rules
//! was slower for 50,000 rules, and very slow for rules that nothing separates.)
//!
//! On a machine that others used (AMD family 26, model 2; 2.6 GHz), ClassBench's sets took 0.1 s (acl1, 8589 rules) to 0.8 s
//! of CPU time (acl1, 44,473 rules; fw1, 51,412), whether all rules had one verdict, or two at random. Loading the classifier
//! is 0.2 to 0.3 s of that.
//!
//! Some lists would take forever. So an [`Effort`] bounds the work, and rules beyond it are reported as undecided.

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
    /// Boxes of the rule: it matches the packets of any of them.
    pub boxes: &'r [Rule<K>],
    /// Verdict on its packets; equal numbers mean equal treatment.
    pub verdict: u32,
}

/// Reason why a rule can be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The rule never matches.
    Never,
    /// The rule matches, but without it all packets have the same verdict.
    Redundant,
}

/// A rule that can be removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Number in the list.
    pub rule: usize,
    /// The reason.
    pub kind: Kind,
    /// The rules that match its packets, in order: before it if it never matches, behind it if it is redundant. Empty
    /// if no packet can match it, or the end of the list decides alone.
    pub by: Vec<usize>,
    /// Some of its packets would match no rule, which gives the same verdict.
    pub unmatched: bool,
}

/// Result of an analysis.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Removable rules, in order.
    pub findings: Vec<Finding>,
    /// Rules beyond the allowed effort, in order. They may be removable, too.
    pub undecided: Vec<usize>,
}

/// Bound on the work, in lookups, regions, thousands of outlines, or 16 rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Work for one rule.
    pub each: usize,
    /// Work in total, beyond 16 for each rule.
    pub all: usize,
}

impl Default for Effort {
    /// A few seconds in total.
    fn default() -> Effort {
        Effort { each: 20_000, all: 4_000_000 }
    }
}

/// Finds the rules of a list that can be removed. `unmatched` is the verdict for packets without a matching rule: a
/// number that no rule has if the end of this list does not decide.
///
/// # Errors
/// If a classifier of all boxes does not fit its memory.
pub fn analyse<K: Address>(list: &[Listed<'_, K>], unmatched: u32, effort: Effort) -> Result<Report, Error> {
    report((list, Some(unmatched), effort))
}

/// Finds only the rules of a list that never match, which is less work. Verdicts do not matter.
///
/// # Errors
/// As for [`analyse`].
pub fn never<K: Address>(list: &[Listed<'_, K>], effort: Effort) -> Result<Report, Error> {
    report((list, None, effort))
}

/// The rules of a list, the verdict on unmatched packets if there is one, and the bound on the work.
type Args<'r, K> = (&'r [Listed<'r, K>], Option<u32>, Effort);

/// The body of both functions.
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

/// Regions per lookup.
const TOGETHER: usize = 64;

/// Packets per vector.
const VECTOR: usize = 256;

/// Packets of a rule that are looked up before its regions.
const FIRST: usize = 8;

/// Largest number of covering rules of which a smallest set is selected; of more, all are reported.
const MOST_CHOICES: usize = 32;

/// The work exceeded the bound.
struct Spent;

/// The remaining work.
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

/// Result of the search for a packet that a rule is the first to match.
enum Search {
    /// Such a packet exists.
    Found,
    /// No such packet exists: these earlier rules match all of them.
    Covered(BTreeSet<usize>),
}

/// The reason why a rule can be removed.
#[derive(Default)]
struct Needless {
    by: BTreeSet<usize>,
    unmatched: bool,
}

/// A box after a rule.
enum After<K> {
    /// The first staying rule that matches the packet has the same verdict, and no rule of another verdict before it
    /// overlaps the region.
    Same(usize),
    /// The first rule that overlaps the region and has another verdict, with its packets.
    Other(usize, Region<K>),
    /// Neither exists.
    End,
}

struct Analysis<'r, K> {
    list: &'r [Listed<'r, K>],
    /// Named rules.
    named: Vec<bool>,
    /// The number of first rules with equal verdicts.
    alike: usize,
    boxes: Vec<&'r Rule<K>>,
    /// The rule of each box.
    rules: Vec<usize>,
    /// Start of the boxes of each rule, and the end of all.
    starts: Vec<usize>,
    /// Outlines of boxes that may matter to earlier rules.
    outlines: Outlines<K>,
    /// All boxes, by their numbers.
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
        // An upper bound; address space costs nothing.
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
            // The rule has the verdict of all earlier rules, so it does not matter to them.
            (self.starts[rule]..self.starts[rule + 1]).for_each(|number| self.outlines.remove(number));
        }
        report.findings.push(finding);
    }

    /// Searches for rules that never match. Returns for each rule whether it is known to be the first match of a
    /// packet.
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

    /// Searches for a packet that a rule is the first to match.
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

    /// Returns as few of the covering rules as suffice, within the bound.
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

    /// Returns whether some rules match all packets of another; `false` beyond the bound.
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

    /// Searches for redundant rules among the matching ones.
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

    /// Returns whether a rule makes no difference to any packet, whichever named rules are removed.
    fn needless(
        &mut self,
        rule: usize,
        unmatched: u32,
        allowance: &mut Allowance<'_>,
    ) -> Result<Option<Needless>, Spent> {
        let mut needless = Needless::default();
        // Regions that other rules may decide otherwise.
        let mut open = Vec::from_iter(self.regions_of(rule));
        while let Some(region) = open.pop() {
            allowance.spend(1)?;
            let packet = region.packet(false);
            let mut first = [NO_RULE];
            self.find(&[packet], &mut first);
            let first = first[0] as usize;
            if self.rules[first] < rule {
                // Packets of an earlier rule do not matter.
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

    /// Finds the next deciding box behind a rule that is the first to match a packet of a region.
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
