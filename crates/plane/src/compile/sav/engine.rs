//! One family's table of a policy: the control side of what readers see, whatever the rules mean.

use weir_base::reclaim::Domain;
use weir_table::lpm::{Key, Prefix};
use weir_table::sav::{
    AnyCovering, Cards, Limits, Lists, Match, Merged, Modes, MostSpecific, NoRoom, Ordered, Rule, Set,
};

use crate::model::SavLayout;
use crate::root::sav::Check;

/// The shape of a table. Tables of equal shape hold the same rules in the same way.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Shape {
    pub(super) meaning: Meaning,
    /// Packets are counted for each prefix.
    pub(super) hits: bool,
    pub(super) limits: Limits,
}

/// The meaning of a set of rules.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Meaning {
    /// The first that covers the source and has the interface decides.
    Ordered,
    /// Sets of interfaces, nested ones taken so, with the interfaces of each line card where it has tables of its own.
    Nested(Match, SavLayout, Vec<Set>),
    /// Lists of any mode, those of nested prefixes taken so: in one table, whatever the layout.
    Modes(Match),
}

impl Shape {
    /// Of the table that takes lists of any mode, too.
    pub(super) fn of_modes(self) -> Shape {
        let Meaning::Nested(matching, ..) = self.meaning else { return self };
        // The prefix of no bits says which interfaces have allowlists, and is none of the rules'.
        let limits = Limits { prefixes: self.limits.prefixes + 1, ..self.limits };
        Shape { meaning: Meaning::Modes(matching), limits, ..self }
    }

    /// A table of this shape can hold what one of another is wanted for.
    pub(super) fn does_for(&self, wanted: &Shape) -> bool {
        let is_merged = matches!(wanted.meaning, Meaning::Nested(_, SavLayout::Merged, _));
        self == wanted || (is_merged && *self == wanted.clone().of_modes())
    }
}

/// The contents of a table, by prefix.
pub(super) enum Entries<K: Key> {
    /// Of an ordered list.
    Ordered(Vec<(Prefix<K>, Option<Vec<Rule>>)>),
    /// Of sets.
    Nested(Vec<(Prefix<K>, Option<Set>)>),
    /// Of lists of any mode.
    Lists(Vec<(Prefix<K>, Option<Lists>)>),
}

impl<K: Key> Entries<K> {
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Entries::Ordered(entries) => entries.is_empty(),
            Entries::Nested(entries) => entries.is_empty(),
            Entries::Lists(entries) => entries.is_empty(),
        }
    }

    /// The prefixes at which something is to stand.
    pub(super) fn present(&self) -> Vec<Prefix<K>> {
        fn present<K: Key, E>(entries: &[(Prefix<K>, Option<E>)]) -> Vec<Prefix<K>> {
            entries.iter().filter(|(_, entry)| entry.is_some()).map(|(prefix, _)| *prefix).collect()
        }
        match self {
            Entries::Ordered(entries) => present(entries),
            Entries::Nested(entries) => present(entries),
            Entries::Lists(entries) => present(entries),
        }
    }
}

/// The table.
pub(super) enum Engine<K: Key> {
    Ordered(Merged<K, Ordered>),
    MostSpecific(Merged<K, MostSpecific>),
    AnyCovering(Merged<K, AnyCovering>),
    Cards(Cards<K>, weir_table::sav::Order),
    ModesMostSpecific(Merged<K, Modes<false>>),
    ModesAnyCovering(Merged<K, Modes<true>>),
}

/// How full a table is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Occupancy {
    /// Prefixes.
    pub prefixes: usize,
    /// Different sets of interfaces.
    pub sets: usize,
    /// Octets of what lookups touch.
    pub lookup_octets: usize,
    /// Octets of what the control side keeps beside it.
    pub control_octets: usize,
}

impl<K: Key> Engine<K> {
    pub(super) fn new(domain: &Domain, shape: &Shape) -> Result<Engine<K>, NoRoom> {
        let limits = shape.limits;
        Ok(match &shape.meaning {
            Meaning::Ordered => Engine::Ordered(Merged::new(domain, limits)?),
            Meaning::Nested(matching, SavLayout::Cards(order), cards) => {
                Engine::Cards(Cards::new(domain, *matching, cards.iter().cloned(), limits)?, *order)
            }
            Meaning::Nested(Match::MostSpecific, ..) => Engine::MostSpecific(Merged::new(domain, limits)?),
            Meaning::Nested(Match::AnyCovering, ..) => Engine::AnyCovering(Merged::new(domain, limits)?),
            Meaning::Modes(Match::MostSpecific) => Engine::ModesMostSpecific(Merged::new(domain, limits)?),
            Meaning::Modes(Match::AnyCovering) => Engine::ModesAnyCovering(Merged::new(domain, limits)?),
        })
    }

    /// Makes changes that readers see together, by what [`Engine::check`] gives from then on.
    pub(super) fn change(&mut self, entries: Entries<K>) -> Result<(), NoRoom> {
        match (self, entries) {
            (Engine::Ordered(table), Entries::Ordered(entries)) => table.change(entries),
            (Engine::MostSpecific(table), Entries::Nested(entries)) => table.change(entries),
            (Engine::AnyCovering(table), Entries::Nested(entries)) => table.change(entries),
            (Engine::Cards(tables, _), Entries::Nested(entries)) => tables.change(entries),
            (Engine::ModesMostSpecific(table), Entries::Lists(entries)) => table.change(entries),
            (Engine::ModesAnyCovering(table), Entries::Lists(entries)) => table.change(entries),
            _ => unreachable!("entries of a table are made by its meaning"),
        }
    }

    /// Makes the table hold these entries and no others: cheaper than changes where all is new.
    pub(super) fn fill(&mut self, entries: Entries<K>) -> Result<(), NoRoom> {
        fn there<K, E>(entries: Vec<(Prefix<K>, Option<E>)>) -> impl Iterator<Item = (Prefix<K>, E)> {
            entries.into_iter().filter_map(|(prefix, entry)| Some((prefix, entry?)))
        }
        match (self, entries) {
            (Engine::Ordered(table), Entries::Ordered(entries)) => table.replace_all(there(entries)),
            (Engine::MostSpecific(table), Entries::Nested(entries)) => table.replace_all(there(entries)),
            (Engine::AnyCovering(table), Entries::Nested(entries)) => table.replace_all(there(entries)),
            (Engine::Cards(tables, _), Entries::Nested(entries)) => tables.replace_all(there(entries)),
            (Engine::ModesMostSpecific(table), Entries::Lists(entries)) => table.replace_all(there(entries)),
            (Engine::ModesAnyCovering(table), Entries::Lists(entries)) => table.replace_all(there(entries)),
            _ => unreachable!("entries of a table are made by its meaning"),
        }
    }

    /// Returns the check for the readers of a line card.
    pub(super) fn check(&self, card: usize) -> Option<Check<K>> {
        let table = match self {
            Engine::Ordered(table) => table.reading(),
            Engine::MostSpecific(table) => table.reading(),
            Engine::AnyCovering(table) => table.reading(),
            Engine::Cards(tables, order) => return Some(Check::Card(tables.reading(card)?, *order)),
            Engine::ModesMostSpecific(table) => return Some(Check::Modes(table.reading())),
            Engine::ModesAnyCovering(table) => return Some(Check::Modes(table.reading())),
        };
        Some(Check::Rules { table, default: true })
    }

    /// The number of a prefix, by which its hits are counted; there is none where they are not.
    pub(super) fn counter(&self, prefix: &Prefix<K>) -> Option<u32> {
        match self {
            Engine::Ordered(table) => table.counter_of(prefix),
            Engine::MostSpecific(table) => table.counter_of(prefix),
            Engine::AnyCovering(table) => table.counter_of(prefix),
            Engine::Cards(..) => None,
            Engine::ModesMostSpecific(table) => counter_of_lists(table, prefix),
            Engine::ModesAnyCovering(table) => counter_of_lists(table, prefix),
        }
    }

    pub(super) fn occupancy(&self) -> Occupancy {
        let of =
            |prefixes, sets, lookup_octets, control_octets| Occupancy { prefixes, sets, lookup_octets, control_octets };
        match self {
            Engine::Ordered(table) => of(table.occupancy().0, table.sets().0, table.octets(), table.control_octets()),
            Engine::MostSpecific(table) => {
                of(table.occupancy().0, table.sets().0, table.octets(), table.control_octets())
            }
            Engine::AnyCovering(table) => {
                of(table.occupancy().0, table.sets().0, table.octets(), table.control_octets())
            }
            Engine::Cards(tables, _) => {
                of(tables.occupancy().0, tables.sets().0, tables.octets(), tables.control_octets())
            }
            Engine::ModesMostSpecific(table) => of_lists(table),
            Engine::ModesAnyCovering(table) => of_lists(table),
        }
    }
}

/// That of a prefix that entries have: the prefix of no bits may be there without.
fn counter_of_lists<K: Key, const ANY_COVERING: bool>(
    table: &Merged<K, Modes<ANY_COVERING>>,
    prefix: &Prefix<K>,
) -> Option<u32> {
    table.get(prefix).filter(|lists| lists.has_entries()).and_then(|_| table.counter_of(prefix))
}

/// How full a table of lists is. The prefix of no bits is none where it only says which interfaces have allowlists.
fn of_lists<K: Key, const ANY_COVERING: bool>(table: &Merged<K, Modes<ANY_COVERING>>) -> Occupancy {
    let unsaid = table.get(&Prefix::ALL).is_some_and(|lists| !lists.has_entries());
    Occupancy {
        prefixes: table.occupancy().0 - usize::from(unsaid),
        sets: table.sets().0,
        lookup_octets: table.octets(),
        control_octets: table.control_octets(),
    }
}
