//! The four kinds of lists of draft-ietf-savnet-general-sav-capabilities, side by side in one table.

use crate::sav::Set;
use crate::sav::rows::{Pair, Row};
use crate::sav::{Match, Verdict};

use super::Meaning;

/// The kinds of lists, by the draft's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Mode {
    /// 1: the prefixes that may come in by an interface. Where it has such a list, nothing else is asked of it.
    InterfaceAllow = 1,
    /// 2: the prefixes that may not come in by an interface.
    InterfaceBlock = 2,
    /// 3: the interfaces by which a prefix may come in, router-wide.
    PrefixAllow = 3,
    /// 4: the interfaces by which a prefix may not come in, router-wide.
    PrefixBlock = 4,
}

impl Mode {
    /// All of them, in the order of their numbers.
    pub const ALL: [Mode; 4] = [Mode::InterfaceAllow, Mode::InterfaceBlock, Mode::PrefixAllow, Mode::PrefixBlock];

    /// The draft's number.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Whether it is one of allowlists.
    pub const fn permits(self) -> bool {
        matches!(self, Mode::InterfaceAllow | Mode::PrefixAllow)
    }
}

/// What lists say of a prefix: the interfaces of each mode.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Lists {
    /// By mode. An empty set of mode 3 or 4 is not the same as none: the prefix is known.
    of: [Option<Set>; 4],
    allowlisted: Set,
}

impl Lists {
    /// The interfaces that entries of a mode name for this prefix, if there are any such entries.
    pub fn of(&self, mode: Mode) -> Option<&Set> {
        self.of[mode as usize - 1].as_ref()
    }

    /// Names more interfaces.
    pub fn add(&mut self, mode: Mode, interfaces: &Set) {
        let list = &mut self.of[mode as usize - 1];
        *list = Some(list.as_ref().map_or_else(|| interfaces.clone(), |list| list.union(interfaces)));
    }

    /// The interfaces that have allowlists, whatever stands in them: see [`Lists::with_allowlisted`].
    pub fn allowlisted(&self) -> &Set {
        &self.allowlisted
    }

    /// With the interfaces that have allowlists: at the prefix of no bits, and there always, if there are any.
    #[must_use]
    pub fn with_allowlisted(self, allowlisted: Set) -> Lists {
        Lists { allowlisted, ..self }
    }

    /// Entries of some mode have the prefix.
    pub fn has_entries(&self) -> bool {
        self.of.iter().any(Option::is_some)
    }

    /// Nothing is said: no entry has the prefix, and it need not name interfaces with allowlists.
    pub fn is_empty(&self) -> bool {
        !self.has_entries() && self.allowlisted.is_empty()
    }

    fn octets(&self) -> usize {
        self.of.iter().flatten().chain([&self.allowlisted]).map(Set::octets).sum()
    }
}

/// Lists of all modes. An interface that has an allowlist of prefixes is asked about that alone. Of any other, a source in
/// its blocklist is not valid; then the router-wide lists are asked, nested ones as [`Match`] says, and of one prefix the
/// allowlist before the blocklist. Sources that no router-wide list covers are unknown.
///
/// The prefix of no bits has to name the interfaces with allowlists: [`Lists::with_allowlisted`].
#[derive(Debug, Clone, Copy)]
pub struct Modes<const ANY_COVERING: bool>;

/// What router-wide lists say of sources of a prefix.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
enum Said {
    /// None of them covers the prefix.
    #[default]
    Nothing,
    /// They may come in by these interfaces.
    Allow(Set),
    /// They may not come in by these.
    Block(Set),
}

/// What lists of a prefix and those of the prefixes around come to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Asked {
    /// The interfaces that have allowlists.
    allowlisted: Set,
    /// Those whose allowlists cover the prefix.
    allowed: Set,
    /// Those whose blocklists cover it.
    blocked: Set,
    said: Said,
}

impl<const ANY_COVERING: bool> Modes<ANY_COVERING> {
    /// How nested prefixes of router-wide lists are taken.
    pub const MATCH: Match = if ANY_COVERING { Match::AnyCovering } else { Match::MostSpecific };

    fn say(around: &Said, own: &Lists) -> Said {
        let both = |set: &Set, more: &Set| if ANY_COVERING { set.union(more) } else { more.clone() };
        match (around, own.of(Mode::PrefixAllow), own.of(Mode::PrefixBlock)) {
            (around, None, None) => around.clone(),
            (Said::Allow(set), Some(more), _) => Said::Allow(both(set, more)),
            (_, Some(set), _) => Said::Allow(set.clone()),
            // Where any that covers counts, an allowlist around is asked before a blocklist inside.
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
        // An interface that has an allowlist is valid if that covers the source, and not if anything else does not say so.
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
        // The interfaces that have allowlists are the same set everywhere.
        state.allowed.octets() + state.blocked.octets() + said
    }
}
