//! The specification: what entries mean, found by looking at each of them.

use crate::lpm::{Key, Prefix};

use super::{Set, Verdict};

/// The longest prefix that covers the source decides. Prefixes are distinct.
pub fn most_specific<K: Key>(entries: &[(Prefix<K>, Set)], source: K, interface: u32) -> Verdict {
    let longest = entries.iter().filter(|(prefix, _)| prefix.contains(source)).max_by_key(|(prefix, _)| prefix.len());
    match longest {
        None => Verdict::Unknown,
        Some((_, set)) if set.contains(interface) => Verdict::Valid,
        Some(_) => Verdict::Invalid,
    }
}

/// An entry that covers the source and has the interface is enough.
pub fn any_covering<K: Key>(entries: &[(Prefix<K>, Set)], source: K, interface: u32) -> Verdict {
    let mut covering = entries.iter().filter(|(prefix, _)| prefix.contains(source)).peekable();
    if covering.peek().is_none() {
        return Verdict::Unknown;
    }
    if covering.any(|(_, set)| set.contains(interface)) { Verdict::Valid } else { Verdict::Invalid }
}

/// The first entry that covers the source and has the interface decides: `true` permits. A source that entries cover, but
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
