//! The four kinds of lists of draft-ietf-savnet-general-sav-capabilities, in one table.

use crate::sav::Set;
use crate::sav::rows::{Pair, Row};
use crate::sav::{Match, Verdict};

use super::Meaning;

/// The kinds of lists, by the draft's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Mode {
    /// 1: the prefixes that may enter by an interface. An interface with such a list uses no other.
    InterfaceAllow = 1,
    /// 2: the prefixes that may not enter by an interface.
    InterfaceBlock = 2,
    /// 3: the interfaces that a prefix may enter by, router-wide.
    PrefixAllow = 3,
    /// 4: the interfaces that a prefix may not enter by, router-wide.
    PrefixBlock = 4,
}

impl Mode {
    /// All modes, in the order of their numbers.
    pub const ALL: [Mode; 4] = [Mode::InterfaceAllow, Mode::InterfaceBlock, Mode::PrefixAllow, Mode::PrefixBlock];

    /// Returns the draft's number.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Returns whether the mode is an allowlist.
    pub const fn permits(self) -> bool {
        matches!(self, Mode::InterfaceAllow | Mode::PrefixAllow)
    }
}

/// The lists of a prefix: the interfaces of each mode.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Lists {
    /// Interfaces by mode. An empty set of mode 3 or 4 differs from none: the prefix is known.
    of: [Option<Set>; 4],
    allowlisted: Set,
}

impl Lists {
    /// Returns the interfaces of the entries of a mode for this prefix, if any entry exists.
    pub fn of(&self, mode: Mode) -> Option<&Set> {
        self.of[mode as usize - 1].as_ref()
    }

    /// Adds interfaces.
    pub fn add(&mut self, mode: Mode, interfaces: &Set) {
        let list = &mut self.of[mode as usize - 1];
        *list = Some(list.as_ref().map_or_else(|| interfaces.clone(), |list| list.union(interfaces)));
    }

    /// Returns the interfaces with allowlists of any content: see [`Lists::with_allowlisted`].
    pub fn allowlisted(&self) -> &Set {
        &self.allowlisted
    }

    /// Sets the interfaces with allowlists: at the default prefix only, and always there if any exist.
    #[must_use]
    pub fn with_allowlisted(self, allowlisted: Set) -> Lists {
        Lists { allowlisted, ..self }
    }

    /// Returns whether the prefix has an entry of any mode.
    pub fn has_entries(&self) -> bool {
        self.of.iter().any(Option::is_some)
    }

    /// Returns whether the prefix has neither entries nor interfaces with allowlists.
    pub fn is_empty(&self) -> bool {
        !self.has_entries() && self.allowlisted.is_empty()
    }

    fn octets(&self) -> usize {
        self.of.iter().flatten().chain([&self.allowlisted]).map(Set::octets).sum()
    }
}

/// Lists of all modes. Only its allowlist decides for an interface that has one. For other interfaces, a source in the
/// blocklist of the interface is invalid. Else the router-wide lists decide: nested ones by [`Match`], and of one
/// prefix the allowlist before the blocklist. Sources outside all router-wide lists are unknown.
///
/// The default prefix must hold the interfaces with allowlists: [`Lists::with_allowlisted`].
#[derive(Debug, Clone, Copy)]
pub struct Modes<const ANY_COVERING: bool>;

/// Result of the router-wide lists for sources of a prefix.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
enum Said {
    /// No list covers the prefix.
    #[default]
    Nothing,
    /// The sources may enter by these interfaces.
    Allow(Set),
    /// The sources may not enter by these interfaces.
    Block(Set),
}

/// The lists of a prefix combined with those of the covering prefixes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Asked {
    /// Interfaces with allowlists.
    allowlisted: Set,
    /// Interfaces whose allowlists cover the prefix.
    allowed: Set,
    /// Interfaces whose blocklists cover the prefix.
    blocked: Set,
    said: Said,
}

impl<const ANY_COVERING: bool> Modes<ANY_COVERING> {
    /// Meaning of nested prefixes of router-wide lists.
    pub const MATCH: Match = if ANY_COVERING { Match::AnyCovering } else { Match::MostSpecific };

    fn say(around: &Said, own: &Lists) -> Said {
        let both = |set: &Set, more: &Set| if ANY_COVERING { set.union(more) } else { more.clone() };
        match (around, own.of(Mode::PrefixAllow), own.of(Mode::PrefixBlock)) {
            (around, None, None) => around.clone(),
            (Said::Allow(set), Some(more), _) => Said::Allow(both(set, more)),
            (_, Some(set), _) => Said::Allow(set.clone()),
            // If any covering list counts, an outer allowlist precedes an inner blocklist.
            (Said::Allow(set), None, Some(_)) if ANY_COVERING => Said::Allow(set.clone()),
            (Said::Block(set), None, Some(more)) => Said::Block(both(set, more)),
            (_, None, Some(set)) => Said::Block(set.clone()),
        }
    }
}

impl<const ANY_COVERING: bool> Meaning for Modes<ANY_COVERING> {
    type Entry = Lists;
    type State = Asked;
    type Cell = Pair;

    const NESTS: bool = true;

    fn state(around: Option<&Asked>, own: &Lists, _: u8) -> Asked {
        let nothing = Asked::default();
        let around = around.unwrap_or(&nothing);
        let with = |set: &Set, mode| own.of(mode).map_or_else(|| set.clone(), |more| set.union(more));
        Asked {
            allowlisted: around.allowlisted.union(&own.allowlisted),
            allowed: with(&around.allowed, Mode::InterfaceAllow),
            blocked: with(&around.blocked, Mode::InterfaceBlock),
            said: Self::say(&around.said, own),
        }
    }

    fn row(Asked { allowlisted, allowed, blocked, said }: &Asked) -> Row {
        // An interface with an allowlist is valid if the allowlist covers the source, whatever other lists decide.
        let closed = |invalid: &Set| blocked.union(invalid).without(allowlisted);
        let row = |rest, invalid| Row { rest, closed: allowlisted.clone(), invalid, valid: allowed.clone(), mark: 0 };
        match said {
            Said::Nothing => row(Verdict::Unknown, closed(&Set::default())),
            Said::Block(set) => row(Verdict::Valid, closed(set)),
            Said::Allow(set) => Row::of(allowed.union(&set.without(allowlisted).without(blocked))),
        }
    }

    fn entry_octets(entry: &Lists) -> usize {
        entry.octets()
    }

    fn state_octets(state: &Asked) -> usize {
        let said = match &state.said {
            Said::Nothing => 0,
            Said::Allow(set) | Said::Block(set) => set.octets(),
        };
        // The set of interfaces with allowlists is the same everywhere.
        state.allowed.octets() + state.blocked.octets() + said
    }
}
