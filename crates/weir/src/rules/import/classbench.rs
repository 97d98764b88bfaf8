//! Filters of ClassBench (D. Taylor and J. Turner, "ClassBench: A Packet Classification Benchmark", 2007).

use std::ops::Range;

use ipnet::IpNet;
use weir_plane::model::TcpFlags;

use super::super::acl::{Action, Addresses, Transport};
use super::super::words::Problem;
use super::super::{Kind, lines};
use super::{Failure, Importer, expected, ports, rule, upper};

const ICMP: u8 = 1;
const TCP: u8 = 6;

pub(super) fn read(text: &str, importer: &mut Importer<'_>) {
    for (base, line) in lines::of(text) {
        let line = line.trim_ascii_end();
        match filter(line, base) {
            Ok(filter) => importer.add(base..base + line.len(), &filter),
            Err((range, problem)) => importer.sink.error(range, problem),
        }
    }
}

/// The words of a line, and where they stand.
struct Words<'t> {
    line: &'t str,
    base: usize,
    at: usize,
}

impl<'t> Words<'t> {
    /// The next one; empty at the end.
    fn next(&mut self) -> (&'t str, Range<usize>) {
        let rest = &self.line[self.at..];
        let start = self.at + (rest.len() - rest.trim_ascii_start().len());
        let word = self.line[start..].split_ascii_whitespace().next().unwrap_or_default();
        self.at = start + word.len();
        (word, self.base + start..self.base + self.at)
    }

    fn one<T>(&mut self, what: &str, read: impl FnOnce(&str) -> Option<T>) -> Result<T, Failure> {
        let (word, range) = self.next();
        read(word).ok_or_else(|| expected(what, word, range))
    }

    /// `low : high`
    fn ports(&mut self) -> Result<(u16, u16), Failure> {
        let low: u16 = self.one("a port", |word| word.parse().ok())?;
        self.one("`:`", |word| (word == ":").then_some(()))?;
        let (word, range) = self.next();
        match word.parse() {
            Ok(high) if low <= high => Ok((low, high)),
            Ok(_) => Err((range, Problem::new(Kind::Rule, "a range that ends before it begins"))),
            Err(_) => Err(expected("a port", word, range)),
        }
    }
}

fn filter(line: &str, base: usize) -> Result<super::Rule, Failure> {
    let mut words = Words { line, base, at: 0 };
    let net = |word: &str| word.parse::<IpNet>().ok().map(|net| Addresses::Net(net.trunc()));
    let from = words.one("`@` and a prefix", |word| net(word.strip_prefix('@')?))?;
    let to = words.one("a prefix", net)?;
    let (source, destination) = (words.ports()?, words.ports()?);
    let (word, place) = words.next();
    let (protocol, mask) = masked(word).ok_or_else(|| expected("a protocol and its mask", word, place.clone()))?;
    let all = source == (0, u16::MAX) && destination == (0, u16::MAX);
    let protocol = match (u8::try_from(protocol), mask) {
        (_, 0) => None,
        (Ok(protocol), 0xff) => Some(protocol),
        _ => return Err((place, Problem::new(Kind::Rule, "rules are about one protocol, or about all"))),
    };
    let (word, flags_place) = words.next();
    let flags = if word.is_empty() { Some((0, 0)) } else { masked(word) };
    let (value, mask) = flags.ok_or_else(|| expected("flags and their mask", word, flags_place.clone()))?;
    let (word, rest) = words.next();
    if !word.is_empty() {
        return Err(expected("the end", word, rest));
    }
    let transport = match protocol {
        None if all && mask == 0 => Some(Transport::Any),
        None if all => {
            let text = "rules ask for flags, types and codes of one protocol only";
            return Err((flags_place, Problem::new(Kind::Rule, text)));
        }
        None => return Err((place, Problem::new(Kind::Rule, "rules ask for ports of one protocol only"))),
        Some(ICMP) if mask != 0 && all => icmp(value, mask),
        Some(TCP) if mask & 0xff == 0 && mask != 0 => Some(Transport::Ports {
            protocol: TCP,
            source: ports(source),
            destination: ports(destination),
            flags: Some(TcpFlags { value: (value & mask).to_be_bytes()[0], mask: mask.to_be_bytes()[0] }),
        }),
        Some(protocol) if mask == 0 => {
            let asked = upper(protocol, source, destination);
            return asked
                .map(|asked| rule(Action::Permit, from, to, asked))
                .ok_or_else(|| (place, Problem::new(Kind::Rule, "the protocol has no ports that rules can ask for")));
        }
        Some(_) => None,
    };
    let unsayable = || (flags_place, Problem::new(Kind::Rule, "flags that no rule can ask for, of this protocol"));
    transport.map(|transport| rule(Action::Permit, from, to, transport)).ok_or_else(unsayable)
}

/// The type and the code of ICMP, each asked about as a whole or not at all.
fn icmp(value: u16, mask: u16) -> Option<Transport> {
    let part = |value: u8, mask: u8| match mask {
        0 => Some(None),
        0xff => Some(Some(value..=value)),
        _ => None,
    };
    let ([kind, code], [of_kind, of_code]) = (value.to_be_bytes(), mask.to_be_bytes());
    Some(Transport::Icmp { protocol: ICMP, icmp_type: part(kind, of_kind)?, code: part(code, of_code)? })
}

/// `0x06/0xFF`
fn masked(word: &str) -> Option<(u16, u16)> {
    let (value, mask) = word.split_once('/')?;
    let number = |text: &str| u16::from_str_radix(text.strip_prefix("0x")?, 16).ok();
    Some((number(value)?, number(mask)?))
}
