//! One line into a rule.

use std::ops::Range;
use std::sync::Arc;

use super::super::acl::conditions::{Rest, icmp_type};
use super::super::acl::parser::{Is, Line, Placed, end_of, ports, span, what};
use super::super::acl::{ICMP, ICMP6, Ports, Transport, family_of_protocol};
use super::super::findings::{Kind, Sink};
use super::super::lexer::{Lexer, What};
use super::super::names::{LONGEST_NAME, Names, is_name};
use super::super::parser::{Failure, comment, expected, keyword, word};
use super::super::words::{Problem, shown};
use super::print::{self, OPAQUE, SHARED};
use super::rule::{Action, Opaque, Rule};

const ACTIONS: [Action; 3] = [Action::Protect, Action::Bypass, Action::Discard];

/// The words that may stand behind the ends.
const OPTIONS: [&str; 6] = ["type", "code", "sa", SHARED, "priority", "comment"];

/// Options of a rule, each with its place.
#[derive(Default)]
struct Options {
    icmp_type: Placed<std::ops::RangeInclusive<u8>>,
    code: Placed<std::ops::RangeInclusive<u8>>,
    sa: Placed<Arc<str>>,
    shared: Placed<()>,
    priority: Placed<i32>,
    comment: Option<Box<str>>,
}

/// Reads a line. `None`: it is no rule, and the sink has the errors.
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
    const WHAT: &str = "`protect`, `bypass` or `discard`";
    let (first, action_at) = word(&mut line.lexer, WHAT)?;
    let Some(action) = ACTIONS.into_iter().find(|&action| print::action(action) == first) else {
        let problem = Problem::new(Kind::Rule, format!("expected {WHAT}, found `{}`", shown(first)));
        return Err((action_at, problem.suggest(first, &ACTIONS.map(print::action))));
    };
    let (family, protocol) = what(&mut line.lexer)?;
    let mut is = Is { family: family.map(|(family, place)| (family, &text[place])) };
    if let Some((protocol, place)) = &protocol
        && let Some(family) = family_of_protocol(*protocol)
    {
        is.of(family, &text[place.clone()], place.clone())?;
    }
    let (protocol, protocol_at) = protocol.unzip();
    let from = end_of(line, &mut is)?;
    let behind = line.lexer.next()?;
    let local = match behind.what {
        What::Word("port") => {
            let local = end_ports(line, protocol, behind.range)?;
            keyword(&mut line.lexer, "to")?;
            local
        }
        What::Word("to") => End::default(),
        What::Word(word) => {
            let (range, problem) = expected("`port` or `to`", &behind);
            return Err((range, problem.suggest(word, &["port", "to"])));
        }
        _ => return Err(expected("`port` or `to`", &behind)),
    };
    let to = end_of(line, &mut is)?;
    if let (Some(protocol), Some(place)) = (protocol, protocol_at) {
        is.matches(protocol, &text[place.clone()], place)?;
    }
    let mut remote = End::default();
    if line.lexer.clone().next()?.what == What::Word("port") {
        let place = line.lexer.next()?.range;
        remote = end_ports(line, protocol, place)?;
    }
    let opaque = Opaque { from: local.opaque.is_some(), to: remote.opaque.is_some() };
    for (one, other) in [(&local, &remote), (&remote, &local)] {
        if let (Some(place), false) = (&one.opaque, other.ports == Ports::Any) {
            let message = "one end has ports and the other is opaque: no packet has one of its ports without the other";
            return wrong(place, message, "name ports at one end alone, or `opaque` at both");
        }
    }
    let options = options(line, action, protocol)?;
    if opaque.is_any()
        && let Some(place) = place(&options.icmp_type).or(place(&options.code))
    {
        return wrong(&place, format!("`{OPAQUE}` matches packets without type and code"), "leave out one of them");
    }
    if action == Action::Protect && options.sa.is_none() {
        return wrong(&action_at, "a `protect` rule names an SA", "write `sa` and the name of one behind its ends");
    }
    let family = is.written();
    let transport = match (protocol, local.ports, remote.ports, options.icmp_type, options.code) {
        (None, ..) => Transport::Any,
        (Some(protocol), Ports::Any, Ports::Any, None, None) => Transport::Protocol(protocol),
        (Some(protocol), Ports::Any, Ports::Any, icmp_type, code) => Transport::Icmp {
            protocol,
            icmp_type: icmp_type.map(|(range, _)| range),
            code: code.map(|(range, _)| range),
        },
        (Some(protocol), source, destination, ..) => Transport::Ports { protocol, source, destination, flags: None },
    };
    Ok(Rule {
        action,
        matches: Rest::default().rule(family, (from, to), transport),
        opaque,
        sa: options.sa.map(|(name, _)| name),
        shared: options.shared.is_some(),
        priority: options.priority.map_or(0, |(priority, _)| priority),
        comment: options.comment,
    })
}

fn place<T>(placed: &Placed<T>) -> Option<Range<usize>> {
    placed.as_ref().map(|(_, place)| place.clone())
}

/// The ports of an end.
struct End {
    ports: Ports,
    /// Where it says that they are not there.
    opaque: Option<Range<usize>>,
}

impl Default for End {
    fn default() -> Self {
        End { ports: Ports::Any, opaque: None }
    }
}

/// Reads the ports behind the word `port`.
fn end_ports(line: &mut Line<'_, '_, '_>, protocol: Option<u8>, port: Range<usize>) -> Result<End, Failure> {
    let next = line.lexer.clone().next()?;
    if next.what == What::Word(OPAQUE) {
        line.lexer.next()?;
        return Ok(End { ports: Ports::Any, opaque: Some(next.range) });
    }
    Ok(End { ports: ports(line, protocol, port)?.0, opaque: None })
}

/// Reads the options behind the ends, to the end of the rule.
fn options(line: &mut Line<'_, '_, '_>, action: Action, protocol: Option<u8>) -> Result<Options, Failure> {
    const WHAT: &str = "an option, `comment` or the end of the rule";
    let mut options = Options::default();
    let icmp = protocol.filter(|protocol| [ICMP, ICMP6].contains(protocol));
    loop {
        let token = line.lexer.next()?;
        let (name, at) = match token.what {
            What::End => return Ok(options),
            What::Word("comment") => {
                options.comment = Some(comment(&mut line.lexer)?);
                return Ok(options);
            }
            What::Word(word) if OPTIONS.contains(&word) => (word, token.range),
            What::Word(word) => {
                let (range, problem) = expected(WHAT, &token);
                return Err((range, problem.suggest(word, &OPTIONS)));
            }
            _ => return Err(expected(WHAT, &token)),
        };
        let is_twice = match name {
            "type" => options.icmp_type.is_some(),
            "code" => options.code.is_some(),
            "sa" => options.sa.is_some(),
            SHARED => options.shared.is_some(),
            _ => options.priority.is_some(),
        };
        if is_twice {
            return wrong(&at, format!("`{name}` stands here twice"), "");
        }
        match (name, icmp) {
            ("type", Some(icmp)) => options.icmp_type = Some((icmp_type(line, icmp)?, at)),
            ("code", Some(_)) => {
                let (word, range) = word(&mut line.lexer, "a code of ICMP or a range of them")?;
                let (first, last) = span(word, &range, "a code of ICMP", 255)?;
                line.one_of_them("code or range of codes")?;
                options.code = Some((first as u8..=last as u8, at));
            }
            ("type" | "code", None) => {
                return wrong(&at, format!("only rules on icmp and icmp6 have a {name}"), "");
            }
            ("sa", _) if action != Action::Protect => {
                let message = format!("a `{}` rule has no SA", print::action(action));
                return wrong(&at, message, "write `protect`, or leave out `sa`");
            }
            ("sa", _) => options.sa = Some((sa(line)?, at)),
            (SHARED, _) if action != Action::Protect => {
                let message = format!("a `{}` rule has no flows to share", print::action(action));
                return wrong(&at, message, "write `protect`, or leave out `shared`");
            }
            (SHARED, _) => options.shared = Some(((), at)),
            _ => options.priority = Some((priority(line)?, at)),
        }
    }
}

/// Reads the name of an SA.
fn sa(line: &mut Line<'_, '_, '_>) -> Result<Arc<str>, Failure> {
    let (name, place) = word(&mut line.lexer, "the name of an SA")?;
    if !is_name(name) {
        let help = format!(
            "a name has 1 to {LONGEST_NAME} of the characters a-z, 0-9, `.`, `_` and `-`, and begins with a letter or digit"
        );
        return wrong(&place, format!("`{}` is no SA's name", shown(name)), &help);
    }
    line.one_of_them("SA")?;
    Ok(line.shared(name))
}

/// Reads a signed number.
fn priority(line: &mut Line<'_, '_, '_>) -> Result<i32, Failure> {
    let (text, place) = word(&mut line.lexer, "a priority")?;
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return wrong(&place, format!("`{}` is not a priority", shown(text)), "it is a number such as `10` or `-5`");
    }
    match text.parse() {
        Ok(priority) => Ok(priority),
        Err(_) => {
            let message = format!("`{}` is not a priority: it is from {} to {}", shown(text), i32::MIN, i32::MAX);
            wrong(&place, message, "")
        }
    }
}

/// Where a rule names its SA.
pub(super) fn place_of_sa(rule: &str) -> Option<Range<usize>> {
    let mut lexer = Lexer::new(rule);
    let mut is_next = false;
    loop {
        let token = lexer.next().ok()?;
        match token.what {
            What::Word(_) if is_next => return Some(token.range),
            What::Word(word) => is_next = word == "sa",
            What::End => return None,
            _ => {}
        }
    }
}
