//! One line into a rule.

use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;

use ipnet::IpNet;
use weir_packet::wire::protocol as numbers;
use weir_packet::wire::tcp::Flags;
use weir_plane::model::Rejection;

use super::super::findings::{Kind, Sink};
use super::super::lexer::{Lexer, Token, What};
use super::super::names::{LONGEST_NAME, Names, is_name};
use super::super::parser::{Failure, expected, keyword, word};
use super::super::words::{Problem, shown};
use super::super::{ANY, prefix};
use super::conditions::Conditions;
use super::{
    Action, Addresses, GROUP, IpFamily, Ports, RECEIVED_ON, Role, Rule, TCP, Transport, WITH_PORTS, family_of,
    family_of_protocol, print, words,
};

/// The actions of rules.
const ACTIONS: [Action; 6] = [
    Action::Permit,
    Action::Reflect,
    Action::Deny,
    Action::Reject(Rejection::Usual),
    Action::Reject(Rejection::Reset),
    Action::Reject(Rejection::Icmp),
];

/// Something that was read, and where it stands.
pub(in crate::rules) type Placed<T> = Option<(T, Range<usize>)>;

/// A line, as far as it has been read, and what its readers share.
pub(in crate::rules) struct Line<'l, 's, 't> {
    pub(in crate::rules) lexer: Lexer<'l>,
    pub(super) names: &'s mut Names,
    sink: &'s mut Sink<'t>,
    /// Where it stands in the sink's text.
    base: usize,
}

impl<'l, 's, 't> Line<'l, 's, 't> {
    /// A line that stands at octet `base` of the sink's text.
    pub(in crate::rules) fn new(text: &'l str, base: usize, names: &'s mut Names, sink: &'s mut Sink<'t>) -> Self {
        Line { lexer: Lexer::new(text), names, sink, base }
    }

    /// Something is odd at a place of the line.
    pub(super) fn warn(&mut self, place: Range<usize>, problem: Problem) {
        self.sink.warning(place.start + self.base..place.end + self.base, problem);
    }

    /// A name, shared with the other rules.
    pub(in crate::rules) fn shared(&mut self, name: &str) -> Arc<str> {
        self.names.name(name)
    }

    /// Lists have no place in a rule.
    pub(in crate::rules) fn one_of_them(&self, what: &str) -> Result<(), Failure> {
        let next = self.lexer.clone().next()?;
        if next.what != What::Comma {
            return Ok(());
        }
        let problem = Problem::new(Kind::Rule, format!("a rule has one {what}"));
        Err((next.range, problem.help("write a rule for each, or name a group: `@NAME`")))
    }

    /// The name of a group, if this is one.
    pub(super) fn group(&mut self, word: &str, place: &Range<usize>) -> Result<Option<Arc<str>>, Failure> {
        let Some(name) = word.strip_prefix(GROUP) else { return Ok(None) };
        if is_name(name) {
            return Ok(Some(self.names.name(name)));
        }
        let problem = Problem::new(Kind::Rule, format!("`{}` is no group's name", shown(word)));
        let help = format!(
            "behind `{GROUP}` stand 1 to {LONGEST_NAME} of the characters a-z, 0-9, `.`, `_` and `-`, the first of them a letter or digit"
        );
        Err((place.clone(), problem.help(help)))
    }
}

/// Reads a line that stands at octet `base` of the sink's text. `None`: it is no rule, and the sink knows why.
pub(super) fn parse(text: &str, base: usize, names: &mut Names, sink: &mut Sink<'_>) -> Option<Rule> {
    let mut line = Line::new(text, base, names, sink);
    match rule(text, &mut line) {
        Ok(rule) => Some(rule),
        Err((range, problem)) => {
            sink.error(range.start + base..range.end + base, problem);
            None
        }
    }
}

fn rule<'l>(text: &'l str, line: &mut Line<'l, '_, '_>) -> Result<Rule, Failure> {
    let (action, place) = does(&mut line.lexer)?;
    let (family, protocol) = what(&mut line.lexer)?;
    let mut is = Is { family: family.map(|(family, place)| (family, &text[place])) };
    if let Some((protocol, place)) = &protocol
        && let Some(family) = family_of_protocol(*protocol)
    {
        is.of(family, &text[place.clone()], place.clone())?;
    }
    let (protocol, protocol_place) = protocol.unzip();
    if action == Action::Reject(Rejection::Reset) && protocol != Some(TCP) {
        let problem = Problem::new(Kind::Rule, "only rules on tcp reject by a reset");
        return Err((place, problem.help("`reject` resets TCP and answers all else by ICMP")));
    }
    let mut conditions = Conditions::default();
    let (from, to) = ends(line, &mut is, protocol, &mut conditions)?;
    if let (Some(protocol), Some(place)) = (protocol, protocol_place) {
        is.matches(protocol, &text[place.clone()], place)?;
    }
    let comment = conditions.read(line, action, protocol)?;
    let family = is.written();
    let (rest, transport) = conditions.understood(action, protocol)?;
    if action == Action::Reflect
        && let Some(message) = without_replies(&transport, rest.fragment)
    {
        return Err((
            place,
            Problem::new(Kind::Rule, message).help("write `permit`, and a rule for the other direction"),
        ));
    }
    Ok(Rule { action, comment, ..rest.rule(family, (from, to), transport) })
}

/// Reads both ends of a rule, with the source ports between them.
pub(in crate::rules) fn ends<'l>(
    line: &mut Line<'l, '_, '_>,
    is: &mut Is<'l>,
    protocol: Option<u8>,
    conditions: &mut Conditions,
) -> Result<(Addresses, Addresses), Failure> {
    let from = end_of(line, is)?;
    let behind = line.lexer.next()?;
    match behind.what {
        What::Word("port") => {
            conditions.source = Some(ports(line, protocol, behind.range)?);
            keyword(&mut line.lexer, "to")?;
        }
        What::Word("to") => {}
        What::Word(word) => {
            let (range, problem) = expected("`port` or `to`", &behind);
            return Err((range, problem.suggest(word, &["port", "to"])));
        }
        _ => return Err(expected("`port` or `to`", &behind)),
    }
    let to = end_of(line, is)?;
    Ok((from, to))
}

/// Why packets that a rule matches open no session, if none of them does.
pub(in crate::rules) fn without_replies(transport: &Transport, fragment: Option<bool>) -> Option<&'static str> {
    match transport {
        Transport::Protocol(numbers::ESP) => {
            Some("`permit+reflect` has no meaning for esp: the replies have another SPI")
        }
        Transport::Icmp { protocol, icmp_type: Some(types), .. }
            if !words::requests(*protocol).any(|of| types.contains(&of)) =>
        {
            Some("`permit+reflect` has no meaning for ICMP messages without replies: only requests open sessions")
        }
        Transport::Ports { flags: Some(flags), .. }
            if flags.value & (Flags::SYN.0 | Flags::FIN.0) == Flags::SYN.0 | Flags::FIN.0 =>
        {
            Some("`permit+reflect` has no meaning for SYN together with FIN: such a packet opens no session")
        }
        Transport::Ports { flags: Some(flags), .. } if flags.value & Flags::RST.0 != 0 => {
            Some("`permit+reflect` has no meaning for RST: a reset opens no session")
        }
        _ if fragment == Some(true) => {
            Some("`permit+reflect` has no meaning for later fragments: the first fragment of a packet opens a session")
        }
        _ => None,
    }
}

fn does(lexer: &mut Lexer<'_>) -> Result<(Action, Range<usize>), Failure> {
    const WHAT: &str = "`permit`, `deny` or `reject`";
    let (word, range) = word(lexer, WHAT)?;
    match ACTIONS.into_iter().find(|&action| print::action(action) == word) {
        Some(action) => Ok((action, range)),
        None => {
            let problem = Problem::new(Kind::Rule, format!("expected {WHAT}, found `{}`", shown(word)));
            if word.ends_with("+reflect") {
                return Err((range, problem.help("sessions permit: `permit+reflect` alone opens them")));
            }
            Err((range, problem.suggest(word, &ACTIONS.map(print::action))))
        }
    }
}

/// The family of a rule, as far as it is known.
pub(in crate::rules) struct Is<'l> {
    /// And what says so.
    pub(in crate::rules) family: Option<(IpFamily, &'l str)>,
}

impl<'l> Is<'l> {
    /// Something of the rule is of a family.
    pub(in crate::rules) fn of(&mut self, family: IpFamily, word: &'l str, place: Range<usize>) -> Result<(), Failure> {
        match &self.family {
            Some((known, by)) if *known != family => {
                let message = format!("`{}` is of another family than `{}`", shown(word), shown(by));
                Err((place, Problem::new(Kind::Rule, message)))
            }
            Some(_) => Ok(()),
            None => {
                self.family = Some((family, word));
                Ok(())
            }
        }
    }

    /// Refuses an extension header of IPv6 as a protocol, unless the rule is about IPv4 alone. The parser walks past such
    /// headers (RFC 8200, 4), so a packet's protocol is the one behind them: the rule would match no packet of IPv6.
    pub(in crate::rules) fn matches(&self, protocol: u8, word: &str, place: Range<usize>) -> Result<(), Failure> {
        let family = self.family.as_ref().map(|(family, _)| *family);
        if family == Some(IpFamily::V4) || !numbers::is_extension(protocol) {
            return Ok(());
        }
        let message = format!("`{word}` is an extension header in IPv6: a rule matches the protocol behind it");
        let help = match family {
            None => format!("write `ip4 {word}` for IPv4, and name the protocol behind it for IPv6"),
            Some(_) => "name the protocol behind it, such as `tcp`, or match all protocols".to_owned(),
        };
        Err((place, Problem::new(Kind::Rule, message).help(help)))
    }

    /// The family, if the rule names it.
    pub(in crate::rules) fn written(&self) -> Option<IpFamily> {
        self.family.as_ref().filter(|(_, by)| ["ip4", "ip6"].contains(by)).map(|(family, _)| *family)
    }
}

/// Family, protocol or `ip`, and the word `from` behind them.
pub(in crate::rules) fn what(lexer: &mut Lexer<'_>) -> Result<(Placed<IpFamily>, Placed<u8>), Failure> {
    what_of(lexer, &[])
}

/// Family, protocol or `ip`, and the word `from` behind them. One of these words may stand before the protocol.
pub(in crate::rules) fn what_of(
    lexer: &mut Lexer<'_>,
    before: &[&str],
) -> Result<(Placed<IpFamily>, Placed<u8>), Failure> {
    const WHAT: &str = "`ip`, `ip4`, `ip6` or a protocol";
    let (first, range) = match word_behind(lexer, before, WHAT)? {
        ("from", range) => {
            return Err((range, Problem::new(Kind::Rule, format!("expected {WHAT}, found `from`"))));
        }
        found => found,
    };
    let family = match first {
        "ip" => {
            keyword(lexer, "from")?;
            return Ok((None, None));
        }
        "ip4" => IpFamily::V4,
        "ip6" => IpFamily::V6,
        _ => {
            let protocol = protocol(first, &range, WHAT, &["ip", "ip4", "ip6"])?;
            keyword(lexer, "from")?;
            return Ok((None, Some((protocol, range))));
        }
    };
    let family = Some((family, range));
    match word_behind(lexer, before, "a protocol or `from`")? {
        ("from", _) => Ok((family, None)),
        (second, range) => {
            let protocol = protocol(second, &range, "a protocol or `from`", &["from"])?;
            keyword(lexer, "from")?;
            Ok((family, Some((protocol, range))))
        }
    }
}

/// Reads a word, and passes over one of these in front of it.
fn word_behind<'l>(lexer: &mut Lexer<'l>, before: &[&str], what: &str) -> Result<(&'l str, Range<usize>), Failure> {
    let found = word(lexer, what)?;
    if before.contains(&found.0) { word(lexer, "a protocol") } else { Ok(found) }
}

fn protocol(word: &str, range: &Range<usize>, what: &str, others: &[&str]) -> Result<u8, Failure> {
    if let Some(protocol) = words::protocol(word) {
        return Ok(protocol);
    }
    if word.bytes().all(|byte| byte.is_ascii_digit()) {
        return number(word, range, "a protocol", 255).map(|protocol| protocol as u8);
    }
    let problem = Problem::new(Kind::Rule, format!("expected {what}, found `{}`", shown(word)));
    if word == "reflect" {
        return Err((range.clone(), problem.help("write `permit+reflect` as the action")));
    }
    let candidates = [others, &words::protocols()].concat();
    let problem = problem.help("protocols without a name here are written as their numbers");
    Err((range.clone(), problem.suggest(word, &candidates)))
}

/// Addresses of a rule, and what they say of its family.
pub(in crate::rules) fn end_of<'l>(line: &mut Line<'l, '_, '_>, is: &mut Is<'l>) -> Result<Addresses, Failure> {
    let token = line.lexer.next()?;
    let word = match token.what {
        What::Word(word) if !["to", "port"].contains(&word) => word,
        _ => return Err(expected("addresses or `any`", &token)),
    };
    let addresses = addresses(line, word, token.range.clone())?;
    if let Some(family) = family_of(&addresses) {
        is.of(family, word, token.range)?;
    }
    Ok(addresses)
}

pub(in crate::rules) fn addresses(
    line: &mut Line<'_, '_, '_>,
    word: &str,
    place: Range<usize>,
) -> Result<Addresses, Failure> {
    if word == ANY {
        return Ok(Addresses::Any);
    }
    if let Some(group) = line.group(word, &place)? {
        return Ok(Addresses::Group(group));
    }
    let wrong = |help: &str| {
        let problem = Problem::new(Kind::Prefix, format!("`{}` is not an address, prefix or range", shown(word)));
        Err((place.clone(), problem.help(help)))
    };
    // No packet has an IPv4-mapped address: such packets are dropped as martians.
    let mapped = |instead: String| {
        let problem = Problem::new(Kind::Prefix, format!("`{}`: no packet has an IPv4-mapped address", shown(word)));
        Err((place.clone(), problem.help(format!("write `{instead}`"))))
    };
    if let Ok(address) = word.parse::<IpAddr>() {
        return match prefix::unmapped(address.into()) {
            Some(net) => mapped(net.addr().to_string()),
            None => Ok(Addresses::Net(address.into())),
        };
    }
    if let Some((first, last)) = word.split_once('-') {
        return match (first.parse::<IpAddr>(), last.parse::<IpAddr>()) {
            (Ok(first), Ok(last)) if first.is_ipv4() != last.is_ipv4() => wrong("both ends are of one family"),
            (Ok(first), Ok(last)) if first > last => wrong(&format!("write `{last}-{first}`")),
            (Ok(first), Ok(last)) => match (prefix::unmapped(first.into()), prefix::unmapped(last.into())) {
                (Some(first), Some(last)) => mapped(format!("{}-{}", first.addr(), last.addr())),
                _ => Ok(Addresses::Range(first, last)),
            },
            _ => wrong("a range looks like `10.0.0.1-10.0.0.9`"),
        };
    }
    match prefix::parse(word) {
        Ok((net, _)) if let Some(net) = prefix::unmapped(net) => mapped(IpNet::V4(net).to_string()),
        Ok((net, clean)) => {
            if !clean {
                let message = format!("`{word}` has bits set behind its length; it is taken as {net}");
                let problem = Problem::new(Kind::HostBits, message);
                line.warn(place, problem.help(format!("write `{net}`")));
            }
            Ok(Addresses::Net(net))
        }
        Err(help) => wrong(&help),
    }
}

/// Reads the ports behind the word `port`.
pub(in crate::rules) fn ports(
    line: &mut Line<'_, '_, '_>,
    protocol: Option<u8>,
    port: Range<usize>,
) -> Result<(Ports, Range<usize>), Failure> {
    if !protocol.is_some_and(|protocol| WITH_PORTS.contains(&protocol)) {
        let problem = Problem::new(Kind::Rule, "only rules on tcp, udp, sctp and dccp match ports");
        let problem = match protocol {
            None => problem.help("name one of them instead of `ip`, or behind `ip4` or `ip6`"),
            Some(_) => problem,
        };
        return Err((port, problem));
    }
    let (word, range) = word(&mut line.lexer, "a port or a range of ports")?;
    let ports = one_or_group(line, word, &range)?;
    line.one_of_them("port or range of ports")?;
    Ok((ports, port.start..range.end))
}

fn one_or_group(line: &mut Line<'_, '_, '_>, word: &str, place: &Range<usize>) -> Result<Ports, Failure> {
    if let Some(group) = line.group(word, place)? {
        return Ok(Ports::Group(group));
    }
    let (first, last) = span(word, place, "a port", u64::from(u16::MAX))?;
    Ok(Ports::Range(first as u16..=last as u16))
}

/// Parses a member of a group of addresses.
pub(super) fn member_addresses(text: &str, names: &mut Names, sink: &mut Sink<'_>) -> Result<Addresses, Failure> {
    member(text, names, sink, "addresses or a group", |line, word, place| {
        if word == ANY {
            let problem = Problem::new(Kind::Rule, format!("`{ANY}` is no member of a group"));
            return Err((place, problem.help("all addresses are `0.0.0.0/0` and `::/0`")));
        }
        addresses(line, word, place)
    })
}

/// Parses a member of a group of ports.
pub(super) fn member_ports(text: &str, names: &mut Names, sink: &mut Sink<'_>) -> Result<Ports, Failure> {
    member(text, names, sink, "a port, a range of ports or a group", |line, word, place| {
        one_or_group(line, word, &place)
    })
}

/// One word, and nothing behind it.
fn member<T>(
    text: &str,
    names: &mut Names,
    sink: &mut Sink<'_>,
    what: &str,
    read: impl FnOnce(&mut Line<'_, '_, '_>, &str, Range<usize>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let mut line = Line::new(text, 0, names, sink);
    let (word, place) = word(&mut line.lexer, what)?;
    let member = read(&mut line, word, place)?;
    let behind = line.lexer.next()?;
    if behind.what == What::End { Ok(member) } else { Err(expected("nothing more", &behind)) }
}

/// Where a rule names something in a role.
pub(super) fn place_of(rule: &str, role: Role, name: &str) -> Option<Range<usize>> {
    let mut lexer = Lexer::new(rule);
    let mut at = None;
    loop {
        let Token { what, range } = lexer.next().ok()?;
        match what {
            What::Word(word) if at == Some(role) && word == name => return Some(range),
            What::Word("from" | "to" | "as" | "source" | "destination") => at = Some(Role::Addresses),
            What::Word("port") => at = Some(Role::Ports),
            What::Word(RECEIVED_ON) => at = Some(Role::Interfaces),
            What::Word(_) if at == Some(Role::Interfaces) => {}
            What::Comma => {}
            What::End => return None,
            _ => at = None,
        }
    }
}

/// A number up to `most`.
pub(in crate::rules) fn number(word: &str, range: &Range<usize>, what: &str, most: u64) -> Result<u64, Failure> {
    span(word, range, what, most).and_then(|(first, last)| match first == last {
        true => Ok(first),
        false => Err((range.clone(), Problem::new(Kind::Rule, format!("`{}` is not {what}", shown(word))))),
    })
}

/// A number up to `most`, or two with a hyphen between.
pub(in crate::rules) fn span(word: &str, range: &Range<usize>, what: &str, most: u64) -> Result<(u64, u64), Failure> {
    let wrong = |message: String| Err((range.clone(), Problem::new(Kind::Rule, message)));
    let parse = |part: &str| {
        let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        // More digits than a u64 holds are a number all the same: one out of range.
        digits.then(|| part.parse::<u64>().unwrap_or(u64::MAX))
    };
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    let (Some(first), Some(last)) = (parse(first), parse(last)) else {
        return wrong(format!("`{}` is not {what}", shown(word)));
    };
    if first.max(last) > most {
        return wrong(format!("`{}` is not {what}: it is at most {most}", shown(word)));
    }
    if first > last {
        let help = format!("write `{last}-{first}`");
        let message = format!("the range `{}` is empty", shown(word));
        return Err((range.clone(), Problem::new(Kind::Rule, message).help(help)));
    }
    Ok((first, last))
}
