//! Sessions: a value of a mask, and its action.

use std::fmt::{self, Write as _};
use std::net::IpAddr;
use std::ops::Range;

use weir_plane::model::{ClassifySession, ClassifyTable, Gateway, NextHop};

use super::super::Findings;
use super::super::acl::{Limit, burst, rate};
use super::super::findings::{Kind, Sink};
use super::super::lexer::{Lexer, What};
use super::super::parser::{Failure, expected, word};
use super::super::words::{Problem, shown};
use super::mask::{Mask, hex, write_hex};

/// A session of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// The octets to match, which the mask covers.
    pub value: Vec<u8>,
    /// Packets pass.
    pub permit: bool,
    /// The VRF of their lookup, by name.
    pub vrf: Option<String>,
    /// The next hops that they go to; empty: those of their route.
    pub via: Vec<Via>,
    /// The mark that they get.
    pub mark: Option<u32>,
    /// How many of them pass.
    pub limit: Option<Limit>,
    /// One packet of so many goes to the sampler of this name.
    pub sample: Option<(u32, String)>,
    /// A number that means something to whom made the session.
    pub opaque: u32,
}

/// A next hop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Via {
    /// The gateway's address; `None`: the other end of the interface.
    pub address: Option<IpAddr>,
    /// The interface by name; `None`: that of the address.
    pub interface: Option<String>,
    /// Share of flows relative to the others, 1 or more.
    pub weight: u8,
    /// Where it stands in the text.
    pub place: Range<usize>,
}

/// Reads a session of a table with this mask.
///
/// # Errors
/// If it cannot be understood.
pub fn parse(text: &str, mask: &Mask) -> Result<(Session, Findings), Findings> {
    let mut sink = Sink::new(text);
    match read(text, mask) {
        Ok(session) => Ok((session, sink.warnings)),
        Err((range, problem)) => {
            sink.error(range, problem);
            Err(sink.errors)
        }
    }
}

fn wrong(place: Range<usize>, message: impl Into<String>) -> Failure {
    (place, Problem::new(Kind::Rule, message))
}

/// Reads the value of a session, with or without its action.
///
/// # Errors
/// If it cannot be understood.
pub fn parse_value(text: &str, mask: &Mask) -> Result<Vec<u8>, Findings> {
    let mut sink = Sink::new(text);
    let mut lexer = Lexer::new(text);
    let read = read_value(&mut lexer, mask).and_then(|(value, behind)| match behind {
        None => covered(value, mask, 0..text.len()),
        Some(_) => read(text, mask).map(|session| session.value),
    });
    read.map_err(|(range, problem)| {
        sink.error(range, problem);
        sink.errors
    })
}

fn covered(value: Vec<u8>, mask: &Mask, place: Range<usize>) -> Result<Vec<u8>, Failure> {
    match mask.covers(&value) {
        Ok(()) => Ok(value),
        Err(why) => Err(wrong(place, why.to_string())),
    }
}

fn read(text: &str, mask: &Mask) -> Result<Session, Failure> {
    let mut lexer = Lexer::new(text);
    let start = lexer.clone().next()?.range.start;
    let (value, behind) = read_value(&mut lexer, mask)?;
    let Some((verb, place)) = behind else {
        let place = lexer.next()?.range;
        return Err(wrong(place, "expected `permit` or `deny`, found the end of the rule"));
    };
    let value = covered(value, mask, start..place.start.max(start))?;
    let permit = match verb {
        "permit" => true,
        "deny" => false,
        _ => {
            let message = format!("expected `permit` or `deny`, found `{}`", shown(verb));
            return Err((place, Problem::new(Kind::Rule, message).suggest(verb, &["permit", "deny"])));
        }
    };
    let mut session =
        Session { value, permit, vrf: None, via: Vec::new(), mark: None, limit: None, sample: None, opaque: 0 };
    session.read_options(&mut lexer)?;
    Ok(session)
}

/// A word, and where it stands; `None`: there is none.
type Behind<'t> = Option<(&'t str, Range<usize>)>;

/// Reads the value, and the word behind it.
fn read_value<'t>(lexer: &mut Lexer<'t>, mask: &Mask) -> Result<(Vec<u8>, Behind<'t>), Failure> {
    let what = || match mask.fields.first() {
        None => "`hex` and digits".to_owned(),
        Some(_) => mask.fields.iter().map(|field| format!("`{}`", field.spec.name)).collect::<Vec<_>>().join(", "),
    };
    let mut seen = vec![false; mask.fields.len()];
    let mut value = vec![0; mask.octets().len()];
    loop {
        let behind = behind(lexer)?;
        let name = behind.as_ref().map_or("", |(name, _)| name);
        if name == "hex" && !seen.contains(&true) {
            let (digits, place) = word(lexer, "hexadecimal digits")?;
            if mask.has_names() {
                return Err(wrong(place, "names of interfaces and VRFs are no digits: write the fields of the mask"));
            }
            let mut octets = hex(digits, place)?;
            octets.resize(octets.len().max(value.len()), 0);
            return Ok((octets, self::behind(lexer)?));
        }
        let Some(at) = mask.fields.iter().position(|field| field.spec.name == name) else {
            if let Some(missing) = seen.iter().position(|seen| !seen).map(|at| mask.fields[at].spec.name)
                && (seen.contains(&true) || ["permit", "deny"].contains(&name))
            {
                let place = behind.map_or(lexer.clone().next()?.range, |(_, place)| place);
                return Err(wrong(place, format!("the session has no `{missing}`, which the mask has")));
            }
            if mask.fields.is_empty() || seen.contains(&false) {
                let place = behind.map_or(lexer.clone().next()?.range, |(_, place)| place);
                let found =
                    if name.is_empty() { "the end of the rule".to_owned() } else { format!("`{}`", shown(name)) };
                let message = format!("expected {}, found {found}", what());
                return Err((place, Problem::new(Kind::Rule, message).help(format!("the mask is `{mask}`"))));
            }
            for &(at, fixed) in &mask.fixed {
                value[at] |= fixed;
            }
            return Ok((value, behind));
        };
        let place = behind.map_or(0..0, |(_, place)| place);
        if std::mem::replace(&mut seen[at], true) {
            return Err(wrong(place, format!("the session has `{name}` twice")));
        }
        let field = &mask.fields[at];
        let (written, place) = word(lexer, "a value")?;
        let written = written.strip_suffix(&format!("/{}", field.length)).unwrap_or(written);
        let octets = field.spec.read(written).map_err(|problem| (place.clone(), problem))?;
        if octets.iter().zip(field.mask()).any(|(octet, mask)| octet & !mask != 0) {
            let message =
                format!("`{}` has bits that the mask does not cover: `{name}/{}`", shown(written), field.length);
            return Err(wrong(place, message));
        }
        let own = &mut value[field.spec.at..];
        own.iter_mut().zip(octets).for_each(|(own, octet)| *own |= octet);
    }
}

/// Reads the next word, if there is one.
fn behind<'t>(lexer: &mut Lexer<'t>) -> Result<Behind<'t>, Failure> {
    let token = lexer.next()?;
    match token.what {
        What::Word(name) => Ok(Some((name, token.range))),
        What::End => Ok(None),
        _ => Err(expected("a field, `permit` or `deny`", &token)),
    }
}

impl Session {
    fn read_options(&mut self, lexer: &mut Lexer<'_>) -> Result<(), Failure> {
        const WORDS: [&str; 6] = ["vrf", "via", "mark", "limit", "sample", "opaque"];
        loop {
            let token = lexer.next()?;
            let (option, place) = match token.what {
                What::End => return Ok(()),
                What::Word(option) => (option, token.range),
                _ => return Err(expected("an option or the end of the session", &token)),
            };
            if !self.permit && ["vrf", "via", "mark", "limit"].contains(&option) {
                return Err(wrong(place, format!("`{option}` is for packets that pass, and the session denies them")));
            }
            let taken = match option {
                "vrf" => self.vrf.is_some(),
                "mark" => self.mark.is_some(),
                "limit" => self.limit.is_some(),
                "sample" => self.sample.is_some(),
                _ => false,
            };
            if taken {
                return Err(wrong(place, format!("the session has `{option}` twice")));
            }
            match option {
                "vrf" => self.vrf = Some(word(lexer, "a VRF's name")?.0.to_owned()),
                "via" => self.via.push(via(lexer, place)?),
                "mark" => {
                    let (text, place) = word(lexer, "a number")?;
                    self.mark = Some(number(text, place, 0..=u32::MAX)?);
                }
                "limit" => {
                    let (text, place) = word(lexer, "a rate")?;
                    let (unit, rate) = rate(text).map_err(|problem| (place, problem))?;
                    let burst = match number_behind(lexer, "burst")? {
                        Some((text, place)) => Some(burst(text, unit).map_err(|problem| (place, problem))?),
                        None => None,
                    };
                    self.limit = Some(Limit { unit, rate, burst });
                }
                "sample" => {
                    let name = word(lexer, "a sampler's name")?.0.to_owned();
                    let one_in = match number_behind(lexer, "one-in")? {
                        Some((text, place)) => number(text, place, 1..=u32::MAX)?,
                        None => 1,
                    };
                    self.sample = Some((one_in, name));
                }
                "opaque" => {
                    let (text, place) = word(lexer, "a number")?;
                    self.opaque = number(text, place, 0..=u32::MAX)?;
                }
                _ => {
                    let message = format!("`{}` is no option of a session", shown(option));
                    let problem = Problem::new(Kind::Rule, message).suggest(option, &WORDS);
                    let help = problem.help.clone().unwrap_or_else(|| format!("options are {}", WORDS.join(", ")));
                    return Err((place, problem.help(help)));
                }
            }
        }
    }

    /// Writes the session of a table with this mask.
    pub fn text(&self, mask: &Mask) -> String {
        let mut text = String::new();
        // Strings take everything.
        let _ = self.write(mask, &mut text);
        text
    }

    fn write(&self, mask: &Mask, f: &mut String) -> fmt::Result {
        // A value of digits may have octets that no field stands for.
        let is_fixed = |&(at, fixed): &(usize, u8)| self.value.get(at) == Some(&fixed);
        let fields = if mask.fixed.iter().all(is_fixed) { mask.fields.as_slice() } else { &[] };
        if fields.is_empty() {
            f.write_str("hex ")?;
            write_hex(f, &self.value)?;
            f.write_char(' ')?;
        }
        for field in fields {
            write!(f, "{} ", field.spec.name)?;
            let end = field.spec.at + field.spec.mask.len();
            let mut octets: Vec<u8> = self.value.iter().copied().take(end).skip(field.spec.at).collect();
            octets.resize(field.spec.mask.len(), 0);
            field.spec.write(f, &octets)?;
            f.write_char(' ')?;
        }
        f.write_str(if self.permit { "permit" } else { "deny" })?;
        if let Some(vrf) = &self.vrf {
            write!(f, " vrf {vrf}")?;
        }
        for Via { address, interface, weight, .. } in &self.via {
            f.write_str(" via")?;
            address.iter().try_for_each(|address| write!(f, " {address}"))?;
            interface.iter().try_for_each(|interface| write!(f, " on {interface}"))?;
            if *weight != 1 {
                write!(f, " weight {weight}")?;
            }
        }
        if let Some(mark) = self.mark {
            write!(f, " mark {mark}")?;
        }
        if let Some(limit) = self.limit {
            write!(f, " limit {limit}")?;
        }
        if let Some((one_in, name)) = &self.sample {
            write!(f, " sample {name}")?;
            if *one_in != 1 {
                write!(f, " one-in {one_in}")?;
            }
        }
        if self.opaque != 0 {
            write!(f, " opaque {}", self.opaque)?;
        }
        Ok(())
    }
}

/// Reads a next hop behind its word.
fn via(lexer: &mut Lexer<'_>, start: Range<usize>) -> Result<Via, Failure> {
    let (mut address, mut interface) = (None, None);
    let (first, mut place) = word(lexer, "an address, or `on` and an interface")?;
    if first == "on" {
        let (name, end) = word(lexer, "an interface's name")?;
        (interface, place) = (Some(name.to_owned()), end);
    } else {
        let problem = || Problem::new(Kind::Rule, format!("`{}` is no address", shown(first)));
        let parsed = first.parse::<IpAddr>();
        address = Some(parsed.map_err(|_| (place.clone(), problem().help("an interface stands behind `on`")))?);
        if let Some((name, end)) = number_behind(lexer, "on")? {
            (interface, place) = (Some(name.to_owned()), end);
        }
    }
    let weight = match number_behind(lexer, "weight")? {
        Some((text, place)) => number(text, place, 1..=255)? as u8,
        None => 1,
    };
    Ok(Via { address, interface, weight, place: start.start..place.end })
}

/// Reads the word behind another word, if that comes next.
fn number_behind<'t>(lexer: &mut Lexer<'t>, name: &str) -> Result<Option<(&'t str, Range<usize>)>, Failure> {
    let mut ahead = lexer.clone();
    if ahead.next()?.what != What::Word(name) {
        return Ok(None);
    }
    let found = word(&mut ahead, &format!("what belongs to `{name}`"))?;
    *lexer = ahead;
    Ok(Some(found))
}

fn number(text: &str, place: Range<usize>, range: std::ops::RangeInclusive<u32>) -> Result<u32, Failure> {
    let parsed = text.parse::<u32>().ok().filter(|number| range.contains(number));
    parsed.ok_or_else(|| {
        wrong(place, format!("`{}` is no number from {} to {}", shown(text), range.start(), range.end()))
    })
}

impl Session {
    /// Returns a session of a gateway's table, as one would write it.
    pub fn of(model: &Gateway, table: &ClassifyTable, session: &ClassifySession) -> Session {
        let action = table.actions.get(session.action as usize);
        let via = |hop: &NextHop| Via {
            address: hop.address,
            interface: model.interfaces.get(hop.interface.0 as usize).map(|interface| interface.name.clone()),
            weight: hop.weight,
            place: 0..0,
        };
        Session {
            value: session.value.to_vec(),
            permit: action.is_none_or(|action| action.permit),
            vrf: action
                .and_then(|action| action.vrf)
                .and_then(|vrf| model.vrfs.get(usize::from(vrf.0)))
                .map(|vrf| vrf.name.clone()),
            via: action.map_or_else(Vec::new, |action| action.via.iter().map(via).collect()),
            mark: action.and_then(|action| action.mark),
            limit: action.and_then(|action| action.limit).map(Limit::of),
            sample: action.and_then(|action| action.sample).and_then(|sampling| {
                let sampler = model.samplers.get(usize::from(sampling.to.0))?;
                Some((sampling.one_in, sampler.name.clone()))
            }),
            opaque: session.opaque,
        }
    }
}

/// Writes a session of a gateway's table.
pub fn written(model: &Gateway, table: &ClassifyTable, session: &ClassifySession) -> String {
    let own = Session::of(model, table, session);
    match super::parse_mask(&table.text) {
        Ok((mask, _)) => own.text(&mask),
        // The text of a mask was printed by a mask.
        Err(_) => String::new(),
    }
}
