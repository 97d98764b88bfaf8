//! Notes of what a change concerns.

use ipnet::IpNet;
use weir_table::classify::{Rule, Span};
use weir_table::lpm::{Key, Prefix};

use super::prefix::{prefix_v4, prefix_v6};

/// Prefixes noted for one version, at most. More concern all flows.
pub(super) const NOTED: usize = 4096;

/// Changes noted since the last version.
#[must_use]
#[derive(Debug, Default)]
pub(super) struct Noted {
    /// All flows are concerned, whatever the rest is.
    pub(super) all: bool,
    /// Sessions are matched again by lists of another version: their packets have to see that there was a change.
    pub(super) sessions: bool,
    /// Numbers of interfaces.
    pub(super) interfaces: Vec<u32>,
    pub(super) v4: Vec<Prefix<u32>>,
    pub(super) v6: Vec<Prefix<u128>>,
}

impl Noted {
    /// All flows are concerned.
    pub(super) fn all(&mut self) {
        self.all = true;
    }

    /// Packets are concerned whose sessions the lists permit otherwise now.
    pub(super) fn sessions(&mut self) {
        self.sessions = true;
    }

    /// Packets that come in or leave by an interface are concerned.
    pub(super) fn interface(&mut self, number: u32) {
        self.interfaces.push(number);
    }

    /// Packets from or to a prefix are concerned.
    pub(super) fn prefix(&mut self, net: IpNet) {
        match net {
            IpNet::V4(net) => self.v4.push(prefix_v4(net)),
            IpNet::V6(net) => self.v6.push(prefix_v6(net)),
        }
        self.all |= self.v4.len() + self.v6.len() > NOTED;
    }

    /// Packets that a rule matches are concerned; `interfaces` are those with its list.
    pub(super) fn rules(&mut self, v4: &[Rule<u32>], v6: &[Rule<u128>], interfaces: &[u32]) {
        let before = (self.v4.len(), self.v6.len());
        self.v4.extend(v4.iter().map(narrower));
        self.v6.extend(v6.iter().map(narrower));
        let is_wide = self.v4[before.0..].contains(&Prefix::ALL) || self.v6[before.1..].contains(&Prefix::ALL);
        if is_wide {
            self.v4.truncate(before.0);
            self.v6.truncate(before.1);
            self.interfaces.extend_from_slice(interfaces);
        }
    }

    /// Adds all of another.
    pub(super) fn append(&mut self, other: Noted) {
        self.all |= other.all;
        self.sessions |= other.sessions;
        self.interfaces.extend(other.interfaces);
        self.v4.extend(other.v4);
        self.v6.extend(other.v6);
    }

    /// Nothing is noted.
    pub(super) fn is_empty(&self) -> bool {
        !self.all && !self.sessions && self.interfaces.is_empty() && self.v4.is_empty() && self.v6.is_empty()
    }
}

/// The longer of the prefixes that contain a rule's sources and its destinations.
fn narrower<K: Key>(rule: &Rule<K>) -> Prefix<K> {
    let (source, destination) = (around(&rule.source), around(&rule.destination));
    if source.len() > destination.len() { source } else { destination }
}

/// The longest prefix that contains a range.
fn around<K: Key>(span: &Span<K>) -> Prefix<K> {
    let contains = |len| Some(prefix_of(span.low(), len)).filter(|prefix| prefix.last() >= span.high());
    (0..=K::BITS).rev().find_map(contains).unwrap_or(Prefix::ALL)
}

/// The prefix of a length that contains an address.
pub(super) fn prefix_of<K: Key>(address: K, len: u8) -> Prefix<K> {
    Prefix::new(address, K::BITS).map_or(Prefix::ALL, |host| host.shorten(len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_narrower_side_of_a_rule_is_noted_and_its_interfaces_if_both_are_all() {
        let span = |low, high| Span::new(low, high).unwrap();
        let rule = |source, destination| Rule { source, destination, ..Rule::<u32>::any() };
        let mut noted = Noted::default();
        noted.rules(&[rule(Span::every(), span(0x0a00_0001, 0x0a00_0006))], &[], &[3]);
        noted.rules(&[rule(span(0x0b00_0000, 0x0bff_ffff), Span::every())], &[], &[3]);
        assert_eq!(noted.v4, ["10.0.0.0/29".parse().unwrap(), "11.0.0.0/8".parse().unwrap()]);
        assert!(noted.interfaces.is_empty());
        noted.rules(&[rule(Span::every(), Span::every())], &[], &[3]);
        assert_eq!((noted.v4.len(), noted.interfaces), (2, vec![3]));
    }
}
