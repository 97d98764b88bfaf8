//! Interfaces by name, and their numbers.

use std::collections::HashMap;
use std::sync::Arc;

use weir_table::sav::Set;

use super::dynamic::Names;

/// Names of interfaces to their numbers.
pub(in crate::compile) type Numbers = HashMap<String, u32>;

/// The numbers of interfaces that are named, found once for each list.
pub(super) struct NamedSets<'a> {
    numbers: &'a Numbers,
    known: HashMap<*const Arc<str>, Set>,
}

impl<'a> NamedSets<'a> {
    pub(super) fn new(numbers: &'a Numbers) -> Self {
        NamedSets { numbers, known: HashMap::new() }
    }

    /// Names that no interface has (any more) stand for nothing.
    pub(super) fn of(&mut self, names: &Names) -> Set {
        let numbers = self.numbers;
        let number = |name: &Arc<str>| numbers.get(&**name).copied();
        self.known.entry(names.as_ptr()).or_insert_with(|| names.iter().filter_map(number).collect()).clone()
    }
}
