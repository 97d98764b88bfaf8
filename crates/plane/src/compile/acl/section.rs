//! Sections of chains: a classifier of each family for lists that are matched one after the other.

use std::sync::Arc;

use weir_base::reclaim::Domain;
use weir_table::classify::{Error, Limits, Rule, Shape, Upper, Writer};

use super::super::boxes::{Bits, boxes};
use super::list::List;
use super::order::{DEFAULT, PLACES};
use crate::model::{AclAction, AclDefault, AclRule, InterfaceIndex, Origin, Rejection};
use crate::root::acl::{Action, Chain, Found};

/// Octets of lookups' memory that a rule may take on average before a classifier counts as full, and the least that one may
/// take: rules that nothing parts take the most, up to 2 KiB, and a third more while some of them have gone.
const OCTETS_PER_RULE: usize = 3072;
const LEAST_OCTETS: usize = 16 << 20;

/// Lists by their numbers, in the order of matching.
pub(super) type Sequence = Arc<[u32]>;

/// A chain: a section, and the chain that decides about packets that none of its rules matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Link {
    pub(super) section: usize,
    /// [`NONE`] behind the last.
    pub(super) next: u16,
}

/// The identity of a section.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Lists {
    pub(super) sequence: Sequence,
    /// The last list's default decides about packets that no rule matches; else, the next section does.
    pub(super) is_last: bool,
}

/// A section.
pub(super) struct Section {
    pub(super) lists: Lists,
    pub(super) v4: Own<u32>,
    pub(super) v6: Own<u128>,
}

/// One family's.
pub(super) struct Own<K> {
    pub(super) writer: Writer<K>,
    /// Boxes of rules: those of defaults are not counted.
    pub(super) boxes: usize,
    /// Boxes that match fields of first fragments.
    pub(super) transport: usize,
}

/// The parameters of classifiers.
#[derive(Clone, Copy)]
pub(super) struct Means<'a> {
    pub(super) domain: &'a Domain,
    /// Boxes of a classifier at most, defaults aside.
    pub(super) limit: usize,
    /// By the model's index of an interface: its number.
    pub(super) interfaces: &'a [u32],
}

impl Means<'_> {
    /// The boxes of a rule.
    pub(super) fn boxes<K: Bits>(&self, rule: &AclRule) -> Vec<Rule<K>> {
        boxes(rule, |InterfaceIndex(index)| self.interfaces[index as usize])
    }
}

/// Why a section cannot be built.
#[derive(Debug)]
pub(super) struct Full {
    /// The list, by its number.
    pub(super) list: u32,
    /// The first of its rules that has no room, if one is to blame.
    pub(super) rule: Option<Origin>,
    pub(super) error: Error,
}

/// Returns the result of a classifier for a packet that a rule matches.
pub(super) fn found(rule: &AclRule, number: u32) -> Found {
    let special = rule.log || rule.limit.is_some() || rule.flow.is_some() || is_special(rule.action);
    Found::new(number, action(rule.action), special)
}

/// Returns the result of a classifier for a packet that no rule matches, by the default of the last list.
pub(super) fn found_default(default: AclDefault, number: u32) -> Found {
    match default {
        AclDefault::Next => Found::new(number, Action::Deny, false),
        AclDefault::Action(does) => Found::new(number, action(does), is_special(does)),
    }
}

fn action(action: AclAction) -> Action {
    match action {
        AclAction::Permit | AclAction::Reflect => Action::Permit,
        AclAction::Deny => Action::Deny,
        AclAction::Reject(_) => Action::Reject,
    }
}

/// Whether an action has an effect beside its verdict. Rejections without a word are the usual ones.
pub(super) fn is_special(action: AclAction) -> bool {
    match action {
        AclAction::Permit | AclAction::Deny | AclAction::Reject(Rejection::Usual) => false,
        AclAction::Reflect | AclAction::Reject(_) => true,
    }
}

/// The place in a classifier of what has a place in a list.
pub(super) fn place(position: usize, place: u64) -> u64 {
    position as u64 * PLACES + place
}

/// Says which rules of which list overlap, where a classifier says at which of its places they are: places in the list, counted
/// from 1, and where the rule that is one too many was declared.
fn named<'l>(error: Error, sequence: &[u32], list: impl Fn(u32) -> &'l List) -> Option<Full> {
    let Error::Overlap { most, places } = error else { return None };
    let number = |place: u64| sequence.get(usize::try_from(place / PLACES).ok()?).copied();
    let index = |place: u64| {
        // A rule has as many places as boxes.
        let entries = list(number(place)?).order.iter().take_while(|entry| entry.place <= place % PLACES);
        entries.count().checked_sub(1)
    };
    let (last, of) = (index(places[1])?, number(places[1])?);
    // Where the first is in a list before it, all of this one are among them.
    let first = if number(places[0]) == Some(of) { index(places[0])? } else { 0 };
    let rule = list(of).order.iter().nth(last).map(|entry| list(of).rule(entry).origin);
    let places = [first, last].map(|index| index as u64 + 1);
    Some(Full { list: of, rule, error: Error::Overlap { most, places } })
}

/// Whether a box matches fields that only first fragments have.
pub(super) fn needs_transport<K>(rule: &Rule<K>) -> bool {
    !matches!(rule.upper, Upper::Any) || rule.flags.mask() != 0
}

impl Section {
    /// A section of these lists, as they run, which do not have too many boxes.
    pub(super) fn build<'l>(
        means: Means<'_>,
        lists: Lists,
        list: impl Fn(u32) -> &'l List + Copy,
    ) -> Result<Section, Full> {
        let (v4, v6) = (Own::build(means, &lists, list)?, Own::build(means, &lists, list)?);
        Ok(Section { lists, v4, v6 })
    }

    /// The position of a list.
    pub(super) fn position(&self, list: u32) -> Option<usize> {
        self.lists.sequence.iter().position(|&own| own == list)
    }

    /// Frees what readers have passed.
    pub(super) fn collect(&mut self) {
        self.v4.writer.collect();
        self.v6.writer.collect();
    }
}

impl<K: Bits> Own<K> {
    fn build<'l>(means: Means<'_>, lists: &Lists, list: impl Fn(u32) -> &'l List) -> Result<Own<K>, Full> {
        let Lists { sequence, is_last } = lists;
        let limits = Limits {
            // One of them has a default.
            rules: means.limit + 1,
            bytes: means.limit.saturating_mul(OCTETS_PER_RULE).clamp(LEAST_OCTETS, 4 << 30),
        };
        let mut all: Vec<(u64, Rule<K>, u32)> = Vec::new();
        let (mut used, mut transport) = (0_usize, 0);
        for (position, &number) in sequence.iter().enumerate() {
            let list = list(number);
            for entry in list.order.iter() {
                let rule = list.rule(entry);
                let boxes = means.boxes::<K>(rule);
                used += boxes.len();
                let identity = found(rule, entry.number).identity();
                for (own, rule) in (place(position, entry.place)..).zip(boxes) {
                    transport += usize::from(needs_transport(&rule));
                    all.push((own, rule, identity));
                }
            }
            if position + 1 == sequence.len() {
                let found = if *is_last { found_default(list.default, list.number) } else { Found::NEXT };
                all.push((place(position, DEFAULT), Rule::any(), found.identity()));
            }
        }
        let full = |error| Full { list: sequence.last().copied().unwrap_or_default(), rule: None, error };
        let mut writer = Writer::new(means.domain, limits).map_err(full)?;
        writer.load(all).map_err(|error| named(error, sequence, &list).unwrap_or_else(|| full(error)))?;
        Ok(Own { writer, boxes: used, transport })
    }

    /// How a lookup fares at worst.
    pub(super) fn worst(&self) -> Shape {
        self.writer.worst()
    }

    /// Returns the chain of the root, of which `next` is the number of the following chain.
    pub(super) fn chain(&self, next: u16, needs_transport: bool) -> Chain<K> {
        Chain { table: self.writer.table(), needs_transport, next }
    }
}
