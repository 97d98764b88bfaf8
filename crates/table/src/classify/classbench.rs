//! Filters as ClassBench (D. Taylor and J. Turner, "ClassBench: A Packet Classification Benchmark", 2007) writes them, one a line:
//!
//! ```text
//! @192.0.2.0/24  198.51.100.7/32  0 : 65535  80 : 80  0x06/0xFF  0x0200/0x1200
//! ```
//!
//! Addresses, source ports, destination ports, protocol and mask, flags and mask. The upper octet of flags is that of TCP's
//! flags, or the type of ICMP; the lower one the code of ICMP. They may be missing. Empty lines and comments (`#`) count for
//! nothing.

use std::ops::Range;

use crate::lpm::{Key, Prefix};

use super::{Masked, Rule, Span, Upper};

/// A prefix of either family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Net {
    /// Of IPv4.
    V4(Prefix<u32>),
    /// Of IPv6.
    V6(Prefix<u128>),
}

/// A filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// The source.
    pub source: Net,
    /// The destination.
    pub destination: Net,
    /// Source ports, and destination ports.
    pub ports: [Span<u16>; 2],
    /// The protocol, and which of its bits count.
    pub protocol: (u16, u16),
    /// The flags, and which of their bits count.
    pub flags: (u16, u16),
    /// Where the protocol stands in the line, and the flags.
    pub places: [Range<usize>; 2],
}

/// A line that is no filter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct Wrong {
    /// Where in the line.
    pub place: Range<usize>,
    /// The problem.
    pub problem: Problem,
}

/// A problem of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// Something else was expected there.
    #[error("expected {0}")]
    Expected(&'static str),
    /// A range has no values.
    #[error("a range that ends before it begins")]
    Backwards,
}

/// The words of a line, and where they stand.
struct Words<'t> {
    line: &'t str,
    at: usize,
}

impl<'t> Words<'t> {
    /// The next one; empty at the end.
    fn next(&mut self) -> (&'t str, Range<usize>) {
        let rest = &self.line[self.at..];
        let start = self.at + (rest.len() - rest.trim_ascii_start().len());
        let word = self.line[start..].split_ascii_whitespace().next().unwrap_or_default();
        self.at = start + word.len();
        (word, start..self.at)
    }

    fn one<T>(&mut self, what: &'static str, read: impl FnOnce(&str) -> Option<T>) -> Result<(T, Range<usize>), Wrong> {
        let (word, place) = self.next();
        match read(word) {
            Some(read) => Ok((read, place)),
            None => Err(Wrong { place, problem: Problem::Expected(what) }),
        }
    }

    /// `low : high`
    fn ports(&mut self) -> Result<Span<u16>, Wrong> {
        let port = |word: &str| word.parse().ok();
        let (low, _) = self.one("a port", port)?;
        self.one("`:`", |word| (word == ":").then_some(()))?;
        let (high, place) = self.one("a port", port)?;
        Span::new(low, high).ok_or(Wrong { place, problem: Problem::Backwards })
    }
}

/// Reads a line.
///
/// # Errors
/// The first place where it is no filter.
pub fn filter(line: &str) -> Result<Filter, Wrong> {
    let mut words = Words { line, at: 0 };
    let (source, _) = words.one("`@` and a prefix", |word| net(word.strip_prefix('@')?))?;
    let (destination, _) = words.one("a prefix", net)?;
    let ports = [words.ports()?, words.ports()?];
    let (protocol, place) = words.one("a protocol and its mask", masked)?;
    let flags = |word: &str| if word.is_empty() { Some((0, 0)) } else { masked(word) };
    let (flags, place_of_flags) = words.one("flags and their mask", flags)?;
    words.one("the end", |word| word.is_empty().then_some(()))?;
    Ok(Filter { source, destination, ports, protocol, flags, places: [place, place_of_flags] })
}

/// Reads all lines of a text as rules for IPv4, flags as they stand there. All ports are no condition.
///
/// # Errors
/// The first line that is no filter, or none for IPv4.
pub fn rules(text: &str) -> Result<Vec<Rule<u32>>, String> {
    let lines = text.trim_start_matches('\u{feff}').lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| filter(line).ok().and_then(|filter| filter.rule()).ok_or_else(|| line.to_owned())).collect()
}

impl Filter {
    /// The rule for IPv4 that it is, if it is one.
    fn rule(&self) -> Option<Rule<u32>> {
        let (Net::V4(source), Net::V4(destination)) = (self.source, self.destination) else { return None };
        let upper = match self.ports {
            [from, to] if from == Span::<u16>::ALL && to == Span::<u16>::ALL => Upper::Any,
            [source, destination] => Upper::Ports { source, destination },
        };
        let protocol = (self.protocol.1 == 0xff).then_some(self.protocol.0 as u8);
        let flags = Masked::new(self.flags.1, self.flags.0);
        let (source, destination) = (source.into(), destination.into());
        Some(Rule { source, destination, protocol, upper, flags, ..Rule::any() })
    }
}

fn net(word: &str) -> Option<Net> {
    fn of<K: Key>(word: &str) -> Option<Prefix<K>> {
        word.parse().ok()
    }
    of(word).map(Net::V4).or_else(|| of(word).map(Net::V6))
}

/// `0x06/0xFF`
fn masked(word: &str) -> Option<(u16, u16)> {
    let (value, mask) = word.split_once('/')?;
    let number = |text: &str| u16::from_str_radix(text.strip_prefix("0x")?, 16).ok();
    Some((number(value)?, number(mask)?))
}
