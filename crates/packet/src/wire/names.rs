//! Words for numbers, in rules and in packets' text.

/// The words of one kind of number.
#[derive(Debug)]
pub struct Names {
    /// A name for each number that has one, in the order of numbers.
    names: &'static [(u8, &'static str)],
    /// Other words, which are read and never printed.
    synonyms: &'static [(u8, &'static str)],
}

impl Names {
    pub(super) const fn new(names: &'static [(u8, &'static str)], synonyms: &'static [(u8, &'static str)]) -> Names {
        Names { names, synonyms }
    }

    /// Returns the name of a number, as in `tcp`.
    pub fn name(&self, number: u8) -> Option<&'static str> {
        self.names.iter().find(|(own, _)| *own == number).map(|(_, name)| *name)
    }

    /// Returns the number of a name or a synonym.
    pub fn number(&self, word: &str) -> Option<u8> {
        self.names.iter().chain(self.synonyms).find(|(_, own)| *own == word).map(|(number, _)| *number)
    }

    /// Returns all names, for suggestions; synonyms are not among them.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.names.iter().map(|(_, name)| *name)
    }

    /// Returns all words that [`number`](Self::number) reads.
    pub fn words(&self) -> impl Iterator<Item = &'static str> {
        self.names.iter().chain(self.synonyms).map(|(_, word)| *word)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use crate::wire::{dscp, icmpv4, icmpv6, protocol};

    #[test]
    fn names_are_read_as_they_are_printed() {
        for all in [&dscp::NAMES, &icmpv4::NAMES, &icmpv6::NAMES, &protocol::NAMES] {
            assert!(all.names.is_sorted_by(|a, b| a.0 < b.0), "a number stands once");
            assert_eq!(all.words().collect::<HashSet<_>>().len(), all.words().count(), "a word stands once");
            for number in 0..=255 {
                assert!(all.name(number).is_none_or(|name| all.number(name) == Some(number)));
            }
            assert!(all.words().all(|word| all.number(word).and_then(|number| all.name(number)).is_some()));
        }
        assert!(dscp::NAMES.names.iter().all(|(number, _)| *number < 64));
    }
}
