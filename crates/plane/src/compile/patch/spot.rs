//! Places of a list: rules of the declaration, and anchors of added ones.

/// The place of an added rule, by an index of the declaration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Anchor {
    /// Directly before this rule, behind rules that were added there before.
    Before(u32),
    /// Directly behind this rule, or behind rules that were added there before.
    Behind(u32),
    /// The declaration has no rules.
    Nothing,
}

impl Anchor {
    pub(super) fn key(self) -> u64 {
        match self {
            Anchor::Before(index) => 3 * u64::from(index),
            Anchor::Behind(index) => 3 * u64::from(index) + 2,
            Anchor::Nothing => 0,
        }
    }
}

/// The place of an item of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spot {
    /// The rule of the declaration with this index.
    Declared(u32),
    /// An added rule with this anchor.
    Added(Anchor),
}

impl Spot {
    pub(super) fn key(self) -> u64 {
        match self {
            Spot::Declared(index) => 3 * u64::from(index) + 1,
            Spot::Added(anchor) => anchor.key(),
        }
    }

    fn behind(self) -> Anchor {
        match self {
            Spot::Declared(index) => Anchor::Behind(index),
            Spot::Added(anchor) => anchor,
        }
    }

    fn before(self) -> Anchor {
        match self {
            Spot::Declared(index) => Anchor::Before(index),
            Spot::Added(anchor) => anchor,
        }
    }
}

/// The gap between two neighbours of a list, where rules are added.
#[derive(Debug, Clone, Copy)]
pub struct Gap {
    /// The item in front; `None`: the gap is at the begin.
    pub previous: Option<Spot>,
    /// The item behind; `None`: the gap is at the end.
    pub next: Option<Spot>,
    /// The number of rules of the declaration.
    pub declared: usize,
}

impl Gap {
    /// Chooses the anchor of rules that are added here. `behind`: the edit names the rule in front.
    pub fn anchor(&self, behind: bool) -> Anchor {
        match (self.previous, self.next) {
            (Some(previous), _) if behind => previous.behind(),
            (_, Some(next)) => next.before(),
            (Some(previous), None) => previous.behind(),
            (None, None) => match u32::try_from(self.declared) {
                Ok(0) | Err(_) => Anchor::Nothing,
                Ok(rules) => Anchor::Behind(rules - 1),
            },
        }
    }

    /// Returns the indices of the declaration whose rules would stand here.
    pub fn declared(&self) -> std::ops::Range<u32> {
        // The first index with a key above that of the previous item, and the first with a key not below that of the next.
        let first = self.previous.map_or(0, |spot| spot.key().div_ceil(3));
        let end = self.next.map_or(self.declared as u64, |spot| (spot.key() + 1) / 3);
        first as u32..end.max(first) as u32
    }
}

/// Returns anchors for the items of a list in their order: items with a spot keep it if it fits, all others get the place
/// behind the item in front of them.
pub fn arranged(items: &[Option<Spot>], declared: usize) -> Vec<Spot> {
    let mut next_declared = vec![None; items.len() + 1];
    for (index, item) in items.iter().enumerate().rev() {
        next_declared[index] = match item {
            Some(spot @ Spot::Declared(_)) => Some(*spot),
            _ => next_declared[index + 1],
        };
    }
    let mut previous: Option<Spot> = None;
    let place = |(index, item): (usize, &Option<Spot>)| {
        let next = next_declared[index];
        let low = previous.map_or(0, Spot::key);
        let high = next.map_or(u64::MAX, Spot::key);
        let spot = match *item {
            Some(spot @ Spot::Declared(_)) => spot,
            Some(spot) if (low..=high).contains(&spot.key()) => spot,
            _ => Spot::Added(Gap { previous, next, declared }.anchor(true)),
        };
        previous = Some(spot);
        spot
    };
    items.iter().enumerate().map(place).collect()
}

/// Returns which of these indices form a longest ascending sequence; items without an index are no part of it.
pub fn ascending(items: &[Option<u32>]) -> Vec<bool> {
    // Of all sequences of each length: the item with the lowest last index.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = vec![None; items.len()];
    for (item, index) in items.iter().enumerate().filter(|(_, index)| index.is_some()) {
        let at = ends.partition_point(|&end| items[end] < *index);
        before[item] = at.checked_sub(1).map(|at| ends[at]);
        match ends.get_mut(at) {
            Some(end) => *end = item,
            None => ends.push(item),
        }
    }
    let mut is_part = vec![false; items.len()];
    let mut next = ends.last().copied();
    while let Some(item) = next {
        is_part[item] = true;
        next = before[item];
    }
    is_part
}
