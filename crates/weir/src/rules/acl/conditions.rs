//! The conditions of a rule behind the addresses.

use std::ops::{Range, RangeInclusive};

use weir_table::classify::MOST_MARK;

use super::super::ANY;
use super::super::findings::Kind;
use super::super::lexer::What;
use super::super::parser::{Failure, comment, expected, word};
use super::super::words::{Problem, any_among_others, repeated, shown};
use super::parser::{Line, Placed, number, ports, span};
use super::{
    Action, Addresses, ICMP, ICMP6, Interfaces, IpFamily, Limit, Ports, RECEIVED_ON, Rejection, Rule, TCP, TcpFlags,
    Transport, limit, words,
};

/// The words that may stand behind the addresses.
const CONDITIONS: [&str; 14] = [
    "port",
    "type",
    "code",
    "tcp-flags",
    "fragment",
    "no-fragment",
    "dscp",
    "mark",
    RECEIVED_ON,
    "limit",
    "log",
    "flow",
    "no-flow",
    "comment",
];

/// The conditions of a rule, as far as they were read.
#[derive(Default)]
pub(in crate::rules) struct Conditions {
    pub(in crate::rules) source: Placed<Ports>,
    destination: Placed<Ports>,
    icmp_type: Placed<RangeInclusive<u8>>,
    code: Placed<RangeInclusive<u8>>,
    flags: Placed<TcpFlags>,
    fragment: Placed<bool>,
    dscp: Option<u8>,
    mark: Option<u32>,
    received_on: Option<Interfaces>,
    limit: Option<Limit>,
    log: bool,
    flow: Placed<bool>,
}

/// The conditions that do not match the header behind that of IP.
#[derive(Default)]
pub(in crate::rules) struct Rest {
    pub(in crate::rules) fragment: Option<bool>,
    pub(in crate::rules) dscp: Option<u8>,
    pub(in crate::rules) mark: Option<u32>,
    pub(in crate::rules) received_on: Option<Interfaces>,
    pub(in crate::rules) limit: Option<Limit>,
    pub(in crate::rules) log: bool,
    pub(in crate::rules) flow: Option<bool>,
}

impl Rest {
    /// Returns a rule that permits packets of these addresses with these conditions, and has no comment.
    pub(in crate::rules) fn rule(
        self,
        family: Option<IpFamily>,
        (from, to): (Addresses, Addresses),
        transport: Transport,
    ) -> Rule {
        let Rest { fragment, dscp, mark, received_on, limit, log, flow } = self;
        let action = Action::Permit;
        Rule { action, family, from, to, transport, fragment, dscp, mark, received_on, limit, log, flow, comment: None }
    }
}

impl Conditions {
    /// Reads the conditions behind the addresses, to the end; returns the comment.
    pub(super) fn read(
        &mut self,
        line: &mut Line<'_, '_, '_>,
        action: Action,
        protocol: Option<u8>,
    ) -> Result<Option<Box<str>>, Failure> {
        loop {
            let token = line.lexer.next()?;
            let (name, place) = match token.what {
                What::End => return Ok(None),
                What::Word("comment") => return comment(&mut line.lexer).map(Some),
                What::Word(word) if CONDITIONS.contains(&word) => (word, token.range),
                What::Word(word) => {
                    let (range, problem) = expected("a condition, `comment` or the end of the rule", &token);
                    return Err((range, problem.suggest(word, &CONDITIONS)));
                }
                _ => return Err(expected("a condition, `comment` or the end of the rule", &token)),
            };
            self.one(line, (name, place), action, protocol)?;
        }
    }

    /// Reads a condition behind its word.
    pub(in crate::rules) fn one(
        &mut self,
        line: &mut Line<'_, '_, '_>,
        (name, place): (&str, Range<usize>),
        action: Action,
        protocol: Option<u8>,
    ) -> Result<(), Failure> {
        let is_icmp = protocol.filter(|protocol| [ICMP, ICMP6].contains(protocol));
        let wrong = |message: String| Err((place.clone(), Problem::new(Kind::Rule, message)));
        if let ("flow" | "no-flow", Some((flow, _))) = (name, &self.flow)
            && *flow != (name == "flow")
        {
            return wrong("`flow` and `no-flow` exclude each other".to_owned());
        }
        if self.has(name) {
            return wrong(format!("`{name}` stands here twice"));
        }
        match (name, is_icmp, protocol) {
            ("port", _, _) => self.destination = Some(ports(line, protocol, place)?),
            ("type", Some(icmp), _) => self.icmp_type = Some((icmp_type(line, icmp)?, place)),
            ("code", Some(_), _) => {
                let (word, range) = word(&mut line.lexer, "a code of ICMP or a range of them")?;
                let (first, last) = span(word, &range, "a code of ICMP", 255)?;
                line.one_of_them("code or range of codes")?;
                self.code = Some((first as u8..=last as u8, place));
            }
            ("type" | "code", None, _) => return wrong(format!("only rules on icmp and icmp6 match a {name}")),
            ("tcp-flags", _, Some(TCP)) => self.flags = Some((tcp_flags(line)?, place)),
            ("tcp-flags", _, _) => return wrong("only rules on tcp match its flags".to_owned()),
            ("dscp", _, _) => self.dscp = Some(dscp(line)?),
            ("mark", _, _) => self.mark = Some(mark(line)?),
            (RECEIVED_ON, _, _) => self.received_on = Some(received_on(line)?),
            ("limit", _, _) if matches!(action, Action::Permit | Action::Reflect) => self.limit = Some(limited(line)?),
            ("limit", _, _) => return wrong("only rules that permit have a limit".to_owned()),
            ("log", _, _) => self.log = true,
            ("flow" | "no-flow", _, _) if matches!(action, Action::Permit | Action::Reflect) => {
                self.flow = Some((name == "flow", place));
            }
            ("flow" | "no-flow", _, _) => {
                return wrong("flows are learned of rules that permit: others decide about each packet".to_owned());
            }
            (name, _, _) => self.fragment = Some((name == "fragment", place)),
        }
        Ok(())
    }

    fn has(&self, name: &str) -> bool {
        match name {
            "port" => self.destination.is_some(),
            "type" => self.icmp_type.is_some(),
            "code" => self.code.is_some(),
            "tcp-flags" => self.flags.is_some(),
            "dscp" => self.dscp.is_some(),
            "mark" => self.mark.is_some(),
            RECEIVED_ON => self.received_on.is_some(),
            "limit" => self.limit.is_some(),
            "log" => self.log,
            "flow" | "no-flow" => self.flow.is_some(),
            _ => self.fragment.is_some(),
        }
    }

    /// Returns the conditions on the header behind that of IP, and all others.
    pub(in crate::rules) fn understood(
        self,
        action: Action,
        protocol: Option<u8>,
    ) -> Result<(Rest, Transport), Failure> {
        let Conditions { source, destination, icmp_type, code, flags, fragment, flow, .. } = self;
        let Conditions { dscp, mark, received_on, limit, log, .. } = self;
        let of_octets = |octets: &Placed<RangeInclusive<u8>>| octets.as_ref().map(|(_, place)| place.clone());
        let of_ports = |ports: &Placed<Ports>| ports.as_ref().map(|(_, place)| place.clone());
        let of_flags = flags.as_ref().map(|(_, place)| place.clone());
        let asked = of_ports(&source).or(of_ports(&destination)).or(of_octets(&icmp_type));
        let asked = asked.or(of_octets(&code)).or(of_flags);
        if let Some((true, fragment)) = &fragment {
            let wrong = |place: &Range<usize>, message: &str| Err((place.clone(), Problem::new(Kind::Rule, message)));
            if let Some(place) = &asked {
                let place = if place.start > fragment.start { place } else { fragment };
                return wrong(place, "fragments that are not the first of their packet have no ports, types or flags");
            }
            if action == Action::Reject(Rejection::Reset) {
                return wrong(fragment, "fragments that are not the first of their packet cannot be reset");
            }
        }
        let (fragment, flow) = (fragment.map(|(fragment, _)| fragment), flow.map(|(flow, _)| flow));
        let rest = Rest { fragment, dscp, mark, received_on, limit, log, flow };
        let Some(protocol) = protocol else { return Ok((rest, Transport::Any)) };
        let transport = match (source, destination, flags, icmp_type, code) {
            (None, None, None, None, None) => Transport::Protocol(protocol),
            (None, None, None, icmp_type, code) => Transport::Icmp {
                protocol,
                icmp_type: icmp_type.map(|(range, _)| range),
                code: code.map(|(range, _)| range),
            },
            (source, destination, flags, _, _) => Transport::Ports {
                protocol,
                source: source.map_or(Ports::Any, |(ports, _)| ports),
                destination: destination.map_or(Ports::Any, |(ports, _)| ports),
                flags: flags.map(|(flags, _)| flags),
            },
        };
        Ok((rest, transport))
    }
}

/// Interfaces, with commas between, or a group of them.
fn received_on(line: &mut Line<'_, '_, '_>) -> Result<Interfaces, Failure> {
    let mut list: Vec<&str> = Vec::new();
    let mut places: Vec<Range<usize>> = Vec::new();
    loop {
        let (word, place) = word(&mut line.lexer, "an interface's name or a group")?;
        let group = line.group(word, &place)?;
        let more = line.lexer.clone().next()?.what == What::Comma;
        if let Some(group) = group {
            if more || !list.is_empty() {
                let problem = Problem::new(Kind::Rule, "a group of interfaces stands alone");
                return Err((place, problem.help("groups may name others, and interfaces beside them")));
            }
            return Ok(Interfaces::Group(group));
        }
        if word == ANY {
            let problem = match more || !list.is_empty() {
                true => any_among_others(),
                false => Problem::new(Kind::Rule, format!("`{RECEIVED_ON}` names interfaces, not `{ANY}`"))
                    .help(format!("a rule without `{RECEIVED_ON}` is about all")),
            };
            return Err((place, problem));
        }
        list.push(word);
        places.push(place);
        if !more {
            break;
        }
        line.lexer.next()?;
    }
    let shared = line.names.list(&list).map_err(|(at, problem)| (places[at].clone(), problem))?;
    if let Some(at) = shared.repeated {
        line.warn(places[at].clone(), repeated(list[at]));
    }
    Ok(Interfaces::List(shared.on.expect("words that all were seen not to stand for all interfaces")))
}

/// A rate, and perhaps a burst.
fn limited(line: &mut Line<'_, '_, '_>) -> Result<Limit, Failure> {
    let (rate, place) = word(&mut line.lexer, "a rate such as `1000pps` or `10Mbps`")?;
    let (unit, rate) = limit::rate(rate).map_err(|problem| (place, problem))?;
    if line.lexer.clone().next()?.what != What::Word("burst") {
        return Ok(Limit { unit, rate, burst: None });
    }
    line.lexer.next()?;
    let (burst, place) = word(&mut line.lexer, "a burst")?;
    let burst = limit::burst(burst, unit).map_err(|problem| (place, problem))?;
    Ok(Limit { unit, rate, burst: Some(burst) })
}

pub(in crate::rules) fn icmp_type(line: &mut Line<'_, '_, '_>, protocol: u8) -> Result<RangeInclusive<u8>, Failure> {
    let (word, range) = word(&mut line.lexer, "a type of ICMP or a range of them")?;
    line.one_of_them("type or range of types")?;
    if let Some(number) = words::icmp_type(protocol, word) {
        return Ok(number..=number);
    }
    if !word.starts_with(|c: char| c.is_ascii_digit()) {
        let problem = Problem::new(Kind::Rule, format!("`{}` is no type of ICMP", shown(word)));
        let problem = problem.help("types without a name here are written as their numbers");
        let problem = problem.suggest(word, &words::icmp_types(protocol));
        return Err((
            range,
            match words::icmp_type_begun(protocol, word) {
                Some(name) => problem.help(format!("did you mean `{name}`?")),
                None => problem,
            },
        ));
    }
    let (first, last) = span(word, &range, "a type of ICMP", 255)?;
    Ok(first as u8..=last as u8)
}

fn dscp(line: &mut Line<'_, '_, '_>) -> Result<u8, Failure> {
    let (word, range) = word(&mut line.lexer, "a differentiated services code point")?;
    if let Some(dscp) = words::dscp(word) {
        return Ok(dscp);
    }
    if word.bytes().all(|byte| byte.is_ascii_digit()) {
        return number(word, &range, "a differentiated services code point", 63).map(|dscp| dscp as u8);
    }
    let problem = Problem::new(Kind::Rule, format!("`{}` is no differentiated services code point", shown(word)));
    let problem = problem.help("it is a name such as `ef`, `af21` or `cs6`, or a number up to 63");
    Err((range, problem.suggest(word, &words::dscps())))
}

/// Reads a mark that rules match.
fn mark(line: &mut Line<'_, '_, '_>) -> Result<u32, Failure> {
    let (word, range) = word(&mut line.lexer, "a mark")?;
    number(word, &range, "a mark that rules match", MOST_MARK.into()).map(|mark| mark as u32)
}

/// Reads the flags that are set, `/`, and the flags that are compared. Commas stand between flags, with or without
/// blanks.
fn tcp_flags(line: &mut Line<'_, '_, '_>) -> Result<TcpFlags, Failure> {
    const SHAPE: &str = "write them like `syn/syn,ack`: the flags that are set, then the flags that are compared";
    let (first, place) = word(&mut line.lexer, "flags of TCP")?;
    let mut text = first.to_owned();
    let mut place = place;
    while line.lexer.clone().next()?.what == What::Comma {
        line.lexer.next()?;
        let (word, range) = word(&mut line.lexer, "a flag of TCP")?;
        text = format!("{text},{word}");
        place.end = range.end;
    }
    let wrong = |message: String| (place.clone(), Problem::new(Kind::Rule, message));
    let Some((value, mask)) = text.split_once('/') else {
        let (range, problem) = wrong(format!("`{}` does not say which flags are compared", shown(&text)));
        return Err((range, problem.help(SHAPE)));
    };
    let bits = |text: &str| {
        if text == words::NONE {
            return Ok(0);
        }
        text.split(',').try_fold(0, |bits, name| match words::flag(name) {
            Some(bit) => Ok(bits | bit),
            None => {
                let (range, problem) = wrong(format!("`{}` is no flag of TCP", shown(name)));
                let problem = problem.help(SHAPE);
                Err((range, problem.suggest(name, &[&words::flags()[..], &[words::NONE]].concat())))
            }
        })
    };
    let flags = TcpFlags { value: bits(value)?, mask: bits(mask)? };
    if flags.mask == 0 {
        return Err(wrong("no flag is compared".to_owned()));
    }
    match flags.value & !flags.mask {
        0 => Ok(flags),
        more => Err(wrong(format!("`{}` is to be set, but not compared", words::Flags(more)))),
    }
}
