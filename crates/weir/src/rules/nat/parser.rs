//! One line into a rule.

use std::ops::Range;

use ipnet::IpNet;
use weir_packet::translate;
use weir_packet::wire::protocol::{self as numbers, has_ports};

use super::super::ANY;
use super::super::acl::conditions::Rest;
use super::super::acl::parser::{Is, Line, addresses, end_of, ports, span, what};
use super::super::acl::protocol_name;
use super::super::acl::{Addresses, Ports, Transport, family_of, family_of_protocol};
use super::super::findings::{Kind, Sink};
use super::super::lexer::What;
use super::super::names::Names;
use super::super::parser::{Failure, comment, expected, keyword, word};
use super::super::words::{Problem, shown};
use super::print;
use super::rule::{INTERFACE, Rule, Target, Verb};

/// The effects that a rule may have.
const VERBS: [Verb; 5] = [Verb::Source, Verb::Destination, Verb::Both, Verb::Map, Verb::Keep];

/// A target, and where it stands.
type Placed = (Target, Range<usize>);

/// Reads a line. `None`: it is no rule, and the sink knows why.
pub(super) fn parse(text: &str, names: &mut Names, sink: &mut Sink<'_>) -> Option<Rule> {
    let mut line = Line::new(text, 0, names, sink);
    match rule(text, &mut line) {
        Ok(rule) => Some(rule),
        Err((range, problem)) => {
            sink.error(range, problem);
            None
        }
    }
}

fn wrong<T>(place: &Range<usize>, message: impl Into<String>, help: &str) -> Result<T, Failure> {
    let problem = Problem::new(Kind::Rule, message);
    Err((place.clone(), if help.is_empty() { problem } else { problem.help(help) }))
}

fn rule<'l>(text: &'l str, line: &mut Line<'l, '_, '_>) -> Result<Rule, Failure> {
    const WHAT: &str = "`source`, `destination`, `both`, `map` or `keep`";
    let (first, place) = word(&mut line.lexer, WHAT)?;
    let Some(verb) = VERBS.into_iter().find(|&verb| print::verb(verb) == first) else {
        let problem = Problem::new(Kind::Rule, format!("expected {WHAT}, found `{}`", shown(first)));
        return Err((place, problem.suggest(first, &VERBS.map(print::verb))));
    };
    let (family, protocol) = what(&mut line.lexer)?;
    let mut is = Is { family: family.map(|(family, place)| (family, &text[place])) };
    if let Some((protocol, place)) = &protocol
        && let Some(family) = family_of_protocol(*protocol)
    {
        is.of(family, &text[place.clone()], place.clone())?;
    }
    let (protocol, protocol_place) = protocol.unzip();
    let from_at = line.lexer.clone().next()?.range;
    let from = end_of(line, &mut is)?;
    let behind = line.lexer.next()?;
    let mut source_ports = Ports::Any;
    match behind.what {
        What::Word("port") => {
            source_ports = ports(line, protocol, behind.range)?.0;
            keyword(&mut line.lexer, "to")?;
        }
        What::Word("to") => {}
        _ => return Err(expected("`port` or `to`", &behind)),
    }
    let next = line.lexer.clone().next()?;
    let to_interface = next.what == What::Word(INTERFACE);
    let to = if to_interface {
        line.lexer.next()?;
        if !matches!(verb, Verb::Destination | Verb::Both) {
            let message = format!("a `{first}` rule has no `{INTERFACE}` as its destination");
            return wrong(&next.range, message, "name addresses, or `any`");
        }
        Addresses::Any
    } else {
        end_of(line, &mut is)?
    };
    if let (Some(protocol), Some(place)) = (protocol, protocol_place) {
        is.matches(protocol, &text[place.clone()], place)?;
    }
    let mut destination_ports = Ports::Any;
    if line.lexer.clone().next()?.what == What::Word("port") {
        let place = line.lexer.next()?.range;
        destination_ports = ports(line, protocol, place)?.0;
    }
    let (source, destination) = targets(text, line, (verb, protocol), &mut is)?;
    if let Some((target, place)) = &destination {
        check_destination(target, place, &destination_ports)?;
    }
    if let (Verb::Map, Some((target, place))) = (verb, &source) {
        check_map((&from, &from_at), target, place)?;
    }
    let Options { preserve, parity, limit_per_address, log, comment } = options(line, verb)?;
    let transport = match (protocol, &source_ports, &destination_ports) {
        (None, ..) => Transport::Any,
        (Some(protocol), Ports::Any, Ports::Any) => Transport::Protocol(protocol),
        (Some(protocol), ..) => {
            Transport::Ports { protocol, source: source_ports, destination: destination_ports, flags: None }
        }
    };
    let matches = Rest::default().rule(is.written(), (from, to), transport);
    let (source, destination) = (source.map(|(target, _)| target), destination.map(|(target, _)| target));
    Ok(Rule { verb, matches, to_interface, source, destination, preserve, parity, limit_per_address, log, comment })
}

/// Reads behind `as` the source and the destination that packets get.
fn targets<'l>(
    text: &'l str,
    line: &mut Line<'l, '_, '_>,
    (verb, protocol): (Verb, Option<u8>),
    is: &mut Is<'l>,
) -> Result<(Option<Placed>, Option<Placed>), Failure> {
    if verb == Verb::Keep {
        let next = line.lexer.clone().next()?;
        if next.what == What::Word("as") {
            return wrong(&next.range, "a `keep` rule has no target: packets keep their addresses", "");
        }
        return Ok((None, None));
    }
    let next = line.lexer.clone().next()?;
    if let What::Word(word) = next.what
        && word != "as"
    {
        let (range, problem) = expected("`port` or `as`", &next);
        return Err((range, problem.suggest(word, &["port", "as"])));
    }
    keyword(&mut line.lexer, "as")?;
    Ok(match verb {
        Verb::Destination => (None, Some(target(text, line, protocol, is, true)?)),
        Verb::Both => {
            keyword(&mut line.lexer, "source")?;
            let source = target(text, line, protocol, is, false)?;
            keyword(&mut line.lexer, "destination")?;
            (Some(source), Some(target(text, line, protocol, is, true)?))
        }
        _ => (Some(target(text, line, protocol, is, false)?), None),
    })
}

/// Addresses, and perhaps ports.
fn target<'l>(
    text: &'l str,
    line: &mut Line<'l, '_, '_>,
    protocol: Option<u8>,
    is: &mut Is<'l>,
    is_destination: bool,
) -> Result<Placed, Failure> {
    let (first, place) = word(&mut line.lexer, "an address, a prefix, a range, a group or `interface`")?;
    let addresses = match first {
        INTERFACE => None,
        ANY => return wrong(&place, format!("`{ANY}` is no target"), "name addresses, or `interface`"),
        _ => Some(addresses(line, first, place.clone())?),
    };
    if let Some(family) = addresses.as_ref().and_then(family_of) {
        is.of(family, &text[place.clone()], place.clone())?;
    }
    let next = line.lexer.clone().next()?;
    if next.what != What::Word("port") {
        return Ok((Target { addresses, ports: None }, place));
    }
    line.lexer.next()?;
    let changes = |protocol: u8| {
        let is_icmp = matches!(protocol, numbers::ICMP | numbers::ICMPV6);
        translate::has_words(protocol, is_icmp && !is_destination)
    };
    if let Some(protocol) = protocol
        && !changes(protocol)
    {
        let name = protocol_name(protocol).map_or_else(|| protocol.to_string(), str::to_owned);
        let message = match has_ports(protocol) {
            true => format!("ports of {name} are not translated: its checksum is one of another kind"),
            false => format!("packets of {name} have no ports"),
        };
        return wrong(&next.range, message, "leave out `port`");
    }
    if is_destination && protocol.is_none() {
        return wrong(&next.range, "only rules on tcp, udp and dccp give a destination port", "name one of them");
    }
    let (word, range) = word(&mut line.lexer, "a port or a range of ports")?;
    let (low, high) = span(word, &range, "a port", u64::from(u16::MAX))?;
    line.one_of_them("port or range of ports")?;
    if is_destination && low == 0 {
        return wrong(&range, "nothing listens at port 0, which is reserved", "begin with 1, or a greater port");
    }
    // Both are ports, as was seen.
    Ok((Target { addresses, ports: Some(low as u16..=high as u16) }, place.start..range.end))
}

/// A destination is one address, with one port, or as many ports as the rule matches.
fn check_destination(target: &Target, place: &Range<usize>, matched: &Ports) -> Result<(), Failure> {
    let is_one = match &target.addresses {
        Some(Addresses::Net(net)) => net.prefix_len() == net.max_prefix_len(),
        _ => false,
    };
    if !is_one {
        return wrong(place, "the destination that packets get is one address", "write `192.0.2.1`, for instance");
    }
    let Some(ports) = target.ports.as_ref().filter(|ports| ports.start() != ports.end()) else { return Ok(()) };
    let count = |ports: &std::ops::RangeInclusive<u16>| u32::from(*ports.end()) - u32::from(*ports.start()) + 1;
    match matched {
        Ports::Range(matched) if count(matched) == count(ports) => Ok(()),
        Ports::Range(matched) => {
            let message =
                format!("{} ports cannot stand for {}: the ranges differ in length", count(ports), count(matched));
            wrong(place, message, "give both as many ports, or the target one port")
        }
        _ => wrong(
            place,
            "a range of target ports needs a range of ports that the rule matches",
            "write `port` and a range behind its destination",
        ),
    }
}

/// Checks that the two prefixes of a map have one length.
fn check_map(
    (from, from_at): (&Addresses, &Range<usize>),
    target: &Target,
    place: &Range<usize>,
) -> Result<(), Failure> {
    let Addresses::Net(from) = from else {
        return wrong(from_at, "a map is from one prefix or address", "write a rule for each prefix");
    };
    if target.ports.is_some() {
        return wrong(place, "a map keeps the ports", "leave out `port`");
    }
    let length = |net: &IpNet| net.prefix_len();
    match &target.addresses {
        Some(Addresses::Net(to)) if length(to) == length(from) => Ok(()),
        Some(Addresses::Net(to)) => wrong(
            place,
            format!(
                "the prefixes of a map differ in length: {from} has {} bits, {to} has {}",
                length(from),
                length(to)
            ),
            "give both the same length",
        ),
        None if length(from) == from.max_prefix_len() => Ok(()),
        None => wrong(place, "an interface has one address, and the map is from more", "map a single address"),
        Some(_) => wrong(place, "a map is to one prefix or address", "write a rule for each prefix"),
    }
}

/// The options behind the targets.
#[derive(Default)]
struct Options {
    preserve: bool,
    parity: bool,
    log: bool,
    limit_per_address: Option<u32>,
    comment: Option<Box<str>>,
}

const PRESERVE: &str = "preserve";
const PARITY: &str = "parity";
const LOG: &str = "log";
const LIMIT: &str = "limit-per-address";
/// Translations that an inside address may be limited to: as many as `sessions` of the flow table may be.
const LIMITS: std::ops::RangeInclusive<u64> = 1..=16_000_000;

/// Reads the options behind the targets, to the end.
fn options(line: &mut Line<'_, '_, '_>, verb: Verb) -> Result<Options, Failure> {
    const WHAT: &str = "`preserve`, `parity`, `limit-per-address`, `log`, `comment` or the end of the rule";
    let mut own = Options::default();
    loop {
        let token = line.lexer.next()?;
        match token.what {
            What::End => return Ok(own),
            What::Word("comment") => {
                own.comment = Some(comment(&mut line.lexer)?);
                return Ok(own);
            }
            What::Word(word @ PRESERVE) if own.preserve => return twice(&token.range, word),
            What::Word(word @ PARITY) if own.parity => return twice(&token.range, word),
            What::Word(word @ LOG) if own.log => return twice(&token.range, word),
            What::Word(LOG) if verb != Verb::Keep => own.log = true,
            What::Word(LOG) => return wrong(&token.range, "a `keep` rule has no translations to log", "leave it out"),
            What::Word(word @ LIMIT) if own.limit_per_address.is_some() => return twice(&token.range, word),
            What::Word(PRESERVE) if matches!(verb, Verb::Source | Verb::Both) => own.preserve = true,
            What::Word(PARITY) if matches!(verb, Verb::Source | Verb::Both) => own.parity = true,
            What::Word(word @ (PRESERVE | PARITY)) => {
                let verb = print::verb(verb);
                let message = match word {
                    PRESERVE => format!("a `{verb}` rule draws no ports: there is none to preserve"),
                    _ => format!("a `{verb}` rule draws no ports: `{word}` has no meaning"),
                };
                return wrong(&token.range, message, "leave it out");
            }
            What::Word(LIMIT) if verb == Verb::Source => {
                let (text, range) = word(&mut line.lexer, "the most translations of an address")?;
                let most = text.parse::<u64>().ok().filter(|most| LIMITS.contains(most));
                let Some(most) = most.and_then(|most| u32::try_from(most).ok()) else {
                    let (least, greatest) = (LIMITS.start(), LIMITS.end());
                    let message = format!("`{}` is no limit: it is a number from {least} to {greatest}", shown(text));
                    return wrong(&range, message, "");
                };
                own.limit_per_address = Some(most);
            }
            What::Word(LIMIT) => {
                let message = format!("a `{}` rule has no limit for each address", print::verb(verb));
                return wrong(&token.range, message, "leave it out: `source` rules have one");
            }
            What::Word(word) => {
                let (range, problem) = expected(WHAT, &token);
                return Err((range, problem.suggest(word, &[PRESERVE, PARITY, LIMIT, LOG, "comment"])));
            }
            _ => return Err(expected(WHAT, &token)),
        }
    }
}

fn twice<T>(place: &Range<usize>, word: &str) -> Result<T, Failure> {
    wrong(place, format!("`{word}` stands here twice"), "")
}
