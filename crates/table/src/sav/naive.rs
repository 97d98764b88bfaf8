//! The reference implementation: checks each entry.

use crate::lpm::{Key, Prefix};

use super::{Match, Mode, Set, Verdict};

/// Decides by the longest prefix that covers the source. Prefixes are distinct.
pub fn most_specific<K: Key>(entries: &[(Prefix<K>, Set)], source: K, interface: u32) -> Verdict {
    let longest = entries.iter().filter(|(prefix, _)| prefix.contains(source)).max_by_key(|(prefix, _)| prefix.len());
    match longest {
        None => Verdict::Unknown,
        Some((_, set)) if set.contains(interface) => Verdict::Valid,
        Some(_) => Verdict::Invalid,
    }
}

/// Accepts a source if an entry covers it and has the interface.
pub fn any_covering<K: Key>(entries: &[(Prefix<K>, Set)], source: K, interface: u32) -> Verdict {
    let mut covering = entries.iter().filter(|(prefix, _)| prefix.contains(source)).peekable();
    if covering.peek().is_none() {
        return Verdict::Unknown;
    }
    if covering.any(|(_, set)| set.contains(interface)) { Verdict::Valid } else { Verdict::Invalid }
}

/// Decides by the first entry that covers the source and has the interface: `true` permits. A source with entries, but
/// none for this interface, is invalid.
pub fn ordered<K: Key>(entries: &[(Prefix<K>, Set, bool)], source: K, interface: u32) -> Verdict {
    let mut covering = entries.iter().filter(|(prefix, ..)| prefix.contains(source)).peekable();
    if covering.peek().is_none() {
        return Verdict::Unknown;
    }
    match covering.find(|(_, set, _)| set.contains(interface)) {
        Some((_, _, true)) => Verdict::Valid,
        _ => Verdict::Invalid,
    }
}

/// Decides by lists of four modes (draft-ietf-savnet-general-sav-capabilities, with its precedence). A prefix may be in
/// any of them, and several times.
pub fn modes<K: Key>(entries: &[(Prefix<K>, Mode, Set)], matching: Match, source: K, interface: u32) -> Verdict {
    let names = |set: &Set| set.contains(interface);
    let of = |mode| entries.iter().filter(move |(_, other, _)| *other == mode);
    let covering = |mode| of(mode).filter(|(prefix, ..)| prefix.contains(source));
    // An interface with mode 1 uses nothing else.
    if of(Mode::InterfaceAllow).any(|(_, _, set)| names(set)) {
        let covered = covering(Mode::InterfaceAllow).any(|(_, _, set)| names(set));
        return if covered { Verdict::Valid } else { Verdict::Invalid };
    }
    // Sources that pass mode 2 continue with modes 3 and 4.
    if covering(Mode::InterfaceBlock).any(|(_, _, set)| names(set)) {
        return Verdict::Invalid;
    }
    let router_wide = || covering(Mode::PrefixAllow).chain(covering(Mode::PrefixBlock));
    let Some(longest) = router_wide().map(|(prefix, ..)| prefix.len()).max() else { return Verdict::Unknown };
    let counts = |(prefix, ..): &&(Prefix<K>, Mode, Set)| matching == Match::AnyCovering || prefix.len() == longest;
    let mut allow = covering(Mode::PrefixAllow).filter(counts).peekable();
    // Mode 3 overrides mode 4.
    let valid = match allow.peek() {
        Some(_) => allow.any(|(_, _, set)| names(set)),
        None => !covering(Mode::PrefixBlock).filter(counts).any(|(_, _, set)| names(set)),
    };
    if valid { Verdict::Valid } else { Verdict::Invalid }
}
