//! Entries that come while the gateway runs: kept by who said them, beside those of the configuration.

use std::collections::HashMap;
use std::sync::Arc;

use ipnet::IpNet;
use weir_table::lpm::Folding;

use crate::model::Mode;

/// Interfaces by name: they may come and go.
pub type Names = Arc<[Arc<str>]>;

/// The key of an entry: a source has one statement for each key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntryKey {
    /// The prefix; host bits are clear.
    pub prefix: IpNet,
    /// The kind of list that it stands in.
    pub mode: Mode,
}

impl From<IpNet> for EntryKey {
    /// By which interfaces the prefix may come in, router-wide: [`Mode::PrefixAllow`].
    fn from(prefix: IpNet) -> EntryKey {
        EntryKey { prefix, mode: Mode::PrefixAllow }
    }
}

/// The statement of a source about a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// The interfaces that the list names for the prefix.
    pub interfaces: Names,
    /// When: seconds of the Unix epoch.
    pub time: u64,
}

/// A change to what a source says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// Says something of what it says nothing about.
    Add(EntryKey, Names),
    /// Says something, whatever it said before.
    Replace(EntryKey, Names),
    /// Says nothing about it any more.
    Delete(EntryKey),
}

impl Edit {
    /// Returns the key.
    pub const fn key(&self) -> EntryKey {
        match self {
            Edit::Add(key, _) | Edit::Replace(key, _) | Edit::Delete(key) => *key,
        }
    }

    /// Returns the interfaces of the statement, unless it deletes.
    pub const fn names(&self) -> Option<&Names> {
        match self {
            Edit::Add(_, names) | Edit::Replace(_, names) => Some(names),
            Edit::Delete(_) => None,
        }
    }
}

/// Sources of entries that there may be for a policy.
pub const MAX_SOURCES: usize = 64;

/// The statements of a source.
pub(super) type Entries = HashMap<EntryKey, Said, Folding>;

/// Everything that was said of a policy.
#[derive(Debug, Clone, Default)]
pub(super) struct Dynamic {
    /// Equal copies are shared.
    sources: Vec<(Arc<str>, Arc<Entries>)>,
    counts: Counts,
}

/// The counts over all statements that have to be known at any time.
#[derive(Debug, Clone, Default)]
struct Counts {
    /// Entries by mode.
    modes: [usize; 4],
    /// Entries of allowlists of interfaces, by interface.
    allowlisted: HashMap<Arc<str>, usize>,
}

impl Counts {
    fn add(&mut self, mode: Mode, said: &Said) {
        self.modes[mode as usize - 1] += 1;
        if mode == Mode::InterfaceAllow {
            said.interfaces.iter().for_each(|name| *self.allowlisted.entry(Arc::clone(name)).or_default() += 1);
        }
    }

    fn remove(&mut self, mode: Mode, said: &Said) {
        self.modes[mode as usize - 1] -= 1;
        if mode != Mode::InterfaceAllow {
            return;
        }
        for name in said.interfaces.iter() {
            if let Some(count) = self.allowlisted.get_mut(name) {
                *count -= 1;
                if *count == 0 {
                    self.allowlisted.remove(name);
                }
            }
        }
    }
}

impl Dynamic {
    pub(super) fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// Returns the sources with their numbers of entries.
    pub(super) fn sources(&self) -> impl Iterator<Item = (&Arc<str>, usize)> {
        self.sources.iter().map(|(name, said)| (name, said.len()))
    }

    /// Returns the statements of a source.
    pub(super) fn of(&self, source: &str) -> Option<&Entries> {
        self.sources.iter().find(|(name, _)| **name == *source).map(|(_, said)| &**said)
    }

    /// Returns the statements about a prefix, each with its source.
    pub(super) fn said(&self, prefix: IpNet) -> impl Iterator<Item = (&Arc<str>, EntryKey, &Said)> {
        let keys = Mode::ALL.map(|mode| EntryKey { prefix, mode });
        let of =
            move |(name, said)| keys.into_iter().filter_map(move |key| Some((name, key, Entries::get(said, &key)?)));
        self.sources.iter().map(|(name, said)| (name, &**said)).flat_map(of)
    }

    /// Returns the statements about a key of all sources but one (by its place).
    pub(super) fn others(&self, source: usize, key: EntryKey) -> impl Iterator<Item = &Said> {
        let others = self.sources.iter().enumerate().filter(move |(place, _)| *place != source);
        others.filter_map(move |(_, (_, said))| said.get(&key))
    }

    /// All that is said.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, EntryKey, &Said)> {
        self.sources.iter().flat_map(|(name, said)| said.iter().map(move |(key, said)| (name, *key, said)))
    }

    /// Entries by mode.
    pub(super) const fn counts(&self) -> &[usize; 4] {
        &self.counts.modes
    }

    /// The interfaces that entries give allowlists.
    pub(super) fn allowlisted(&self) -> impl Iterator<Item = &Arc<str>> {
        self.counts.allowlisted.keys()
    }

    /// Whether there is room for a source.
    pub(super) fn has_room_for(&self, source: &str) -> bool {
        self.sources.len() < MAX_SOURCES || self.of(source).is_some()
    }

    /// The place of a source, for [`Dynamic::set`]. One that says nothing is forgotten by [`Dynamic::forget`].
    pub(super) fn source(&mut self, source: &str) -> usize {
        let place = self.sources.iter().position(|(name, _)| **name == *source);
        place.unwrap_or_else(|| {
            self.sources.push((source.into(), Arc::default()));
            self.sources.len() - 1
        })
    }

    /// Sets what a source says; gives what it said before.
    pub(super) fn set(&mut self, source: usize, key: EntryKey, said: Option<Said>) -> Option<Said> {
        if let Some(said) = &said {
            self.counts.add(key.mode, said);
        }
        let entries = Arc::make_mut(&mut self.sources[source].1);
        let before = match said {
            Some(said) => entries.insert(key, said),
            None => entries.remove(&key),
        };
        if let Some(before) = &before {
            self.counts.remove(key.mode, before);
        }
        before
    }

    /// Makes a source say this and nothing else; gives what it said before.
    pub(super) fn replace(&mut self, source: usize, entries: Arc<Entries>) -> Arc<Entries> {
        entries.iter().for_each(|(key, said)| self.counts.add(key.mode, said));
        let before = std::mem::replace(&mut self.sources[source].1, entries);
        before.iter().for_each(|(key, said)| self.counts.remove(key.mode, said));
        before
    }

    /// Forgets sources that say nothing.
    pub(super) fn forget(&mut self) {
        self.sources.retain(|(_, said)| !said.is_empty());
    }

    /// Octets of what is kept, but for the names of interfaces, which entries share.
    pub(super) fn octets(&self) -> usize {
        let entry = size_of::<(EntryKey, Said)>() + 1;
        self.sources.iter().map(|(_, said)| said.capacity() * entry).sum()
    }
}
