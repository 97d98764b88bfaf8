//! The mask of a table: by the names of fields, or in hexadecimal digits.

use std::fmt;
use std::ops::Range;

use weir_plane::model::{ClassifyStart, IpFamily, META_INTERFACE};
use weir_table::masked;

use super::super::Findings;
use super::super::findings::{Kind, Sink};
use super::super::lexer::{Lexer, What};
use super::super::parser::{Failure, expected, word};
use super::super::words::{Problem, shown};
use super::field::{IP4, IP6, LINK, META, Spec, TRANSPORT};

/// The octets of an IPv4 header that say that it has no options, and that the packet is no later fragment: mask and value.
const PLAIN: [(usize, u8, u8); 3] = [(0, 0xff, 0x45), (6, 0x1f, 0), (7, 0xff, 0)];

/// A field of a mask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) spec: &'static Spec,
    /// Its first bits that count.
    pub(super) length: u8,
}

/// A mask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mask {
    /// The header that it begins at.
    pub start: ClassifyStart,
    /// The family of packets that may match.
    pub family: Option<IpFamily>,
    octets: Vec<u8>,
    /// Its fields in the order in which they were written; empty for hexadecimal digits.
    pub(super) fields: Vec<Field>,
    /// Values that every session has: octet and value.
    pub(super) fixed: Vec<(usize, u8)>,
}

/// Reads a mask.
///
/// # Errors
/// If it cannot be understood, or is zero or too long.
pub fn parse(text: &str) -> Result<(Mask, Findings), Findings> {
    let mut sink = Sink::new(text);
    match read(text) {
        Ok(mask) => Ok((mask, sink.warnings)),
        Err((range, problem)) => {
            sink.error(range, problem);
            Err(sink.errors)
        }
    }
}

fn read(text: &str) -> Result<Mask, Failure> {
    let mut lexer = Lexer::new(text);
    let (first, place) = word(&mut lexer, "`l2`, `l3`, `l4` or `meta`")?;
    let start = match first {
        "l2" => ClassifyStart::Link,
        "l3" => ClassifyStart::Network,
        "l4" => ClassifyStart::Transport,
        "meta" => ClassifyStart::Meta,
        _ => {
            let message = format!("expected `l2`, `l3`, `l4` or `meta`, found `{}`", shown(first));
            return Err((place, Problem::new(Kind::Rule, message).help("a mask begins with the header that it is on")));
        }
    };
    let mut ahead = lexer.clone();
    let (next, place) = word(&mut ahead, "`hex` or a field")?;
    let mut mask = Mask { start, family: None, octets: Vec::new(), fields: Vec::new(), fixed: Vec::new() };
    if next == "hex" {
        let (digits, place) = word(&mut ahead, "hexadecimal digits")?;
        mask.octets = hex(digits, place.clone())?;
        if mask.has_names() {
            let message = format!("digits of `meta` are those of the mark, {META_INTERFACE} octets at most");
            return Err((place, Problem::new(Kind::Rule, message).help("write `interface` and `vrf` as fields")));
        }
        end(&mut ahead)?;
        return mask.finish(place);
    }
    let specs = match start {
        ClassifyStart::Link => LINK,
        ClassifyStart::Transport => TRANSPORT,
        ClassifyStart::Meta => META,
        ClassifyStart::Network => {
            lexer = ahead;
            match next {
                "ip4" => {
                    mask.family = Some(IpFamily::V4);
                    IP4
                }
                "ip6" => {
                    mask.family = Some(IpFamily::V6);
                    IP6
                }
                _ => {
                    let message = format!("expected `ip4`, `ip6` or `hex`, found `{}`", shown(next));
                    return Err((place, Problem::new(Kind::Rule, message).suggest(next, &["ip4", "ip6", "hex"])));
                }
            }
        }
    };
    mask.read_fields(&mut lexer, specs)?;
    mask.finish(0..text.len())
}

impl Mask {
    fn read_fields(&mut self, lexer: &mut Lexer<'_>, specs: &'static [Spec]) -> Result<(), Failure> {
        let mut ports = None;
        loop {
            let token = lexer.next()?;
            let name = match token.what {
                What::Word(name) => name,
                What::End if !self.fields.is_empty() => break,
                _ => return Err(expected("a field", &token)),
            };
            let (name, length) = name.split_once('/').map_or((name, None), |(name, length)| (name, Some(length)));
            let place = token.range;
            let Some(spec) = specs.iter().find(|spec| spec.name == name) else {
                let names: Vec<&str> = specs.iter().map(|spec| spec.name).collect();
                let message = format!("`{}` is no field here", shown(name));
                let problem = Problem::new(Kind::Rule, message).suggest(name, &names);
                let help = problem.help.clone().unwrap_or_else(|| format!("fields are {}", names.join(", ")));
                return Err((place, problem.help(help)));
            };
            if self.fields.iter().any(|field| field.spec == spec) {
                return Err((place, Problem::new(Kind::Rule, format!("the mask has `{name}` twice"))));
            }
            let length = match length {
                None => spec.bits(),
                Some(_) if !spec.has_length() => {
                    return Err((place, Problem::new(Kind::Rule, format!("all bits of `{name}` count"))));
                }
                Some(length) => match length.parse::<u8>() {
                    Ok(length) if (1..=spec.bits()).contains(&length) => length,
                    _ => {
                        let message = format!("the length of `{name}` is 1 to {}", spec.bits());
                        return Err((place, Problem::new(Kind::Rule, message)));
                    }
                },
            };
            if matches!(name, "sport" | "dport") && self.start == ClassifyStart::Network {
                ports = Some(place);
            }
            self.fields.push(Field { spec, length });
        }
        if let Some(place) = ports {
            self.needs_plain_header(place)?;
        }
        for field in &self.fields {
            let octets = field.mask();
            let end = field.spec.at + octets.len();
            self.octets.resize(self.octets.len().max(end), 0);
            self.octets[field.spec.at..end].iter_mut().zip(octets).for_each(|(own, octet)| *own |= octet);
        }
        Ok(())
    }

    /// Ports stand behind a header of a known length.
    fn needs_plain_header(&mut self, place: Range<usize>) -> Result<(), Failure> {
        if !self.fields.iter().any(|field| field.spec.name == "proto") {
            let message = "ports mean something by the protocol only";
            return Err((place, Problem::new(Kind::Rule, message).help("add `proto`, or begin the mask with `l4`")));
        }
        if self.family == Some(IpFamily::V4) {
            self.octets.resize(8, 0);
            for (at, mask, value) in PLAIN {
                self.octets[at] |= mask;
                self.fixed.push((at, value));
            }
        }
        Ok(())
    }

    fn finish(mut self, place: Range<usize>) -> Result<Mask, Failure> {
        match masked::Mask::new(&self.octets) {
            Ok(mask) => {
                self.octets = mask.octets();
                Ok(self)
            }
            Err(why) => Err((place, Problem::new(Kind::Rule, why.to_string()))),
        }
    }

    /// Names of interfaces or VRFs count.
    pub(super) fn has_names(&self) -> bool {
        self.start == ClassifyStart::Meta && self.octets.len() > META_INTERFACE
    }

    /// The octets of the mask; the last one is not zero.
    pub fn octets(&self) -> &[u8] {
        &self.octets
    }

    /// Checks the value of a session against the mask.
    pub(super) fn covers(&self, value: &[u8]) -> Result<(), masked::MaskError> {
        masked::Mask::new(&self.octets)?.value(value).map(|_| ())
    }
}

impl Field {
    /// The bits of the field's octets that count.
    pub(super) fn mask(&self) -> Vec<u8> {
        if !self.spec.has_length() {
            return self.spec.mask.to_vec();
        }
        let bits = |at: usize| (usize::from(self.length)).saturating_sub(8 * at).min(8);
        (0..self.spec.mask.len()).map(|at| (0xff00u16 >> bits(at)) as u8).collect()
    }
}

/// Reads octets of hexadecimal digits, two for each.
pub(in crate::rules) fn hex(digits: &str, place: Range<usize>) -> Result<Vec<u8>, Failure> {
    let wrong = |message: String| (place.clone(), Problem::new(Kind::Rule, message));
    if !digits.len().is_multiple_of(2) {
        return Err(wrong(format!("{} hexadecimal digits are no whole octets", digits.len())));
    }
    let value = |digit: u8| char::from(digit).to_digit(16).map(|digit| digit as u8);
    let octets = digits.as_bytes().chunks(2).map(|pair| Some(value(pair[0])? << 4 | value(pair[1])?));
    octets.collect::<Option<Vec<u8>>>().ok_or_else(|| wrong(format!("`{}` are no hexadecimal digits", shown(digits))))
}

/// Nothing is behind.
pub(super) fn end(lexer: &mut Lexer<'_>) -> Result<(), Failure> {
    let token = lexer.next()?;
    if token.what == What::End { Ok(()) } else { Err(expected("the end", &token)) }
}

/// Writes octets in hexadecimal digits.
pub(in crate::rules) fn write_hex(f: &mut impl fmt::Write, octets: &[u8]) -> fmt::Result {
    octets.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
}

impl fmt::Display for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.start {
            ClassifyStart::Link => "l2",
            ClassifyStart::Network => "l3",
            ClassifyStart::Transport => "l4",
            ClassifyStart::Meta => "meta",
        })?;
        match self.family {
            Some(IpFamily::V4) => f.write_str(" ip4")?,
            Some(IpFamily::V6) => f.write_str(" ip6")?,
            None => {}
        }
        if self.fields.is_empty() {
            f.write_str(" hex ")?;
            return write_hex(f, &self.octets);
        }
        for Field { spec, length } in &self.fields {
            write!(f, " {}", spec.name)?;
            if *length != spec.bits() {
                write!(f, "/{length}")?;
            }
        }
        Ok(())
    }
}
