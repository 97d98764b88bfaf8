//! One line into a rule.

use std::net::IpAddr;
use std::ops::{Range, RangeInclusive};

use super::super::findings::{Kind, Sink};
use super::super::lexer::{Lexer, Token, What};
use super::super::parser::{Failure, comment, expected, keyword, word};
use super::super::words::{Problem, action, shown};
use super::super::{ANY, Action, prefix};
use super::{Addresses, ICMP, ICMP6, IpFamily, Rule, TCP, TcpFlags, Transport, WITH_PORTS};
use super::{family_of, family_of_protocol, words};

/// The words that may stand behind the addresses.
const CONDITIONS: [&str; 8] = ["port", "type", "code", "tcp-flags", "fragment", "no-fragment", "dscp", "comment"];

const ALL_PORTS: RangeInclusive<u16> = 0..=u16::MAX;
const ALL_OCTETS: RangeInclusive<u8> = 0..=u8::MAX;

/// Something that was read, and where it stands.
type Placed<T> = Option<(T, Range<usize>)>;

/// The conditions of a rule, as far as they were read.
#[derive(Default)]
struct Conditions {
    source: Placed<RangeInclusive<u16>>,
    destination: Placed<RangeInclusive<u16>>,
    icmp_type: Placed<RangeInclusive<u8>>,
    code: Placed<RangeInclusive<u8>>,
    flags: Placed<TcpFlags>,
    fragment: Placed<bool>,
    dscp: Placed<u8>,
}

pub(super) fn rule(line: &str, sink: &mut Sink<'_>) -> Result<Rule, Failure> {
    let mut lexer = Lexer::new(line);
    let action = does(&mut lexer)?;
    let (family, protocol) = what(&mut lexer)?;
    let mut is = Is { family: family.map(|(family, place)| (family, line[place].to_owned())) };
    if let Some((protocol, place)) = &protocol
        && let Some(family) = family_of_protocol(*protocol)
    {
        is.of(family, &line[place.clone()], place.clone())?;
    }
    let mut conditions = Conditions::default();
    let from = addresses(&mut lexer, &mut is, sink)?;
    let protocol = protocol.map(|(protocol, _)| protocol);
    let behind = lexer.next()?;
    let to_is_next = |token: Token<'_>| match token.what {
        What::Word("to") => Ok(()),
        What::Word(word) => {
            let (range, problem) = expected("`port` or `to`", &token);
            Err((range, problem.suggest(word, &["port", "to"])))
        }
        _ => Err(expected("`port` or `to`", &token)),
    };
    if behind.what == What::Word("port") {
        conditions.source = Some(ports(&mut lexer, protocol, behind.range)?);
        keyword(&mut lexer, "to")?;
    } else {
        to_is_next(behind)?;
    }
    let to = addresses(&mut lexer, &mut is, sink)?;
    let comment = conditions.read(&mut lexer, protocol)?;
    let fragment = conditions.fragment.clone().map(|(fragment, _)| fragment);
    let dscp = conditions.dscp.clone().map(|(dscp, _)| dscp);
    let transport = conditions.transport(protocol)?;
    Ok(Rule { action, family: is.written(), from, to, transport, fragment, dscp, comment })
}

fn does(lexer: &mut Lexer<'_>) -> Result<Action, Failure> {
    let (word, range) = word(lexer, "`permit` or `deny`")?;
    if word == "permit+reflect" {
        let problem = Problem::new(Kind::Rule, "`permit+reflect` needs sessions, which this version does not keep");
        return Err((range, problem.help("write `permit`, and a rule for the way back")));
    }
    action(word).map_err(|problem| (range, problem))
}

/// The family of a rule, as far as it is known.
struct Is {
    /// And what says so.
    family: Option<(IpFamily, String)>,
}

impl Is {
    /// Something of the rule is of a family.
    fn of(&mut self, family: IpFamily, word: &str, place: Range<usize>) -> Result<(), Failure> {
        match &self.family {
            Some((known, by)) if *known != family => {
                let message = format!("`{}` is of another family than `{}`", shown(word), shown(by));
                Err((place, Problem::new(Kind::Rule, message)))
            }
            Some(_) => Ok(()),
            None => {
                self.family = Some((family, word.to_owned()));
                Ok(())
            }
        }
    }

    /// The family, if the rule names it.
    fn written(&self) -> Option<IpFamily> {
        self.family.as_ref().filter(|(_, by)| ["ip4", "ip6"].contains(&by.as_str())).map(|(family, _)| *family)
    }
}

/// Family, protocol or `ip`, and the word `from` behind them.
fn what(lexer: &mut Lexer<'_>) -> Result<(Placed<IpFamily>, Placed<u8>), Failure> {
    const WHAT: &str = "`ip`, `ip4`, `ip6` or a protocol";
    let (first, range) = match self::word(lexer, WHAT)? {
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
    match self::word(lexer, "a protocol or `from`")? {
        ("from", _) => Ok((family, None)),
        (second, range) => {
            let protocol = protocol(second, &range, "a protocol or `from`", &["from"])?;
            keyword(lexer, "from")?;
            Ok((family, Some((protocol, range))))
        }
    }
}

fn protocol(word: &str, range: &Range<usize>, what: &str, others: &[&str]) -> Result<u8, Failure> {
    if let Some(protocol) = words::protocol(word) {
        return Ok(protocol);
    }
    if word.bytes().all(|byte| byte.is_ascii_digit()) {
        return number(word, range, "a protocol", 255).map(|protocol| protocol as u8);
    }
    let problem = Problem::new(Kind::Rule, format!("expected {what}, found `{}`", shown(word)));
    let candidates = [others, &words::protocols()].concat();
    let problem = problem.help("protocols without a name here are written as their numbers");
    Err((range.clone(), problem.suggest(word, &candidates)))
}

fn addresses(lexer: &mut Lexer<'_>, is: &mut Is, sink: &mut Sink<'_>) -> Result<Addresses, Failure> {
    let token = lexer.next()?;
    let word = match token.what {
        What::Word(word) if !["to", "port"].contains(&word) => word,
        _ => return Err(expected("addresses or `any`", &token)),
    };
    let place = token.range;
    if word == ANY {
        return Ok(Addresses::Any);
    }
    let wrong = |message: String, help: &str| {
        let problem = Problem::new(Kind::Prefix, message);
        Err((place.clone(), if help.is_empty() { problem } else { problem.help(help) }))
    };
    let no = || format!("`{}` are no addresses", shown(word));
    let addresses = if let Ok(address) = word.parse::<IpAddr>() {
        Addresses::Net(address.into())
    } else if let Some((first, last)) = word.split_once('-') {
        let (Ok(first), Ok(last)) = (first.parse::<IpAddr>(), last.parse::<IpAddr>()) else {
            return wrong(no(), "a range looks like `10.0.0.1-10.0.0.9`");
        };
        if first.is_ipv4() != last.is_ipv4() {
            return wrong(no(), "both ends are of one family");
        }
        if first > last {
            return wrong(no(), &format!("write `{last}-{first}`"));
        }
        Addresses::Range(first, last)
    } else {
        match prefix::parse(word) {
            Ok((net, clean)) => {
                if !clean {
                    let message = format!("`{word}` has bits set behind its length; it is taken as {net}");
                    let problem = Problem::new(Kind::HostBits, message);
                    sink.warning(place.clone(), problem.help(format!("write `{net}`")));
                }
                Addresses::Net(net)
            }
            Err(help) => return wrong(no(), &help),
        }
    };
    if let Some(family) = family_of(&addresses) {
        is.of(family, word, place)?;
    }
    Ok(addresses)
}

/// What stands behind the word `port`.
fn ports(
    lexer: &mut Lexer<'_>,
    protocol: Option<u8>,
    port: Range<usize>,
) -> Result<(RangeInclusive<u16>, Range<usize>), Failure> {
    if !protocol.is_some_and(|protocol| WITH_PORTS.contains(&protocol)) {
        let problem = Problem::new(Kind::Rule, "only rules on tcp, udp, sctp and dccp ask for ports");
        let problem = match protocol {
            None => problem.help("name one of them instead of `ip`, or behind `ip4` or `ip6`"),
            Some(_) => problem,
        };
        return Err((port, problem));
    }
    let (word, range) = word(lexer, "a port or a range of ports")?;
    let (first, last) = span(word, &range, "a port", u64::from(u16::MAX))?;
    one_of_them(lexer, "port or range of ports")?;
    Ok((first as u16..=last as u16, port.start..range.end))
}

/// Lists have no place in a rule.
fn one_of_them(lexer: &Lexer<'_>, what: &str) -> Result<(), Failure> {
    let next = lexer.clone().next()?;
    if next.what != What::Comma {
        return Ok(());
    }
    Err((next.range, Problem::new(Kind::Rule, format!("a rule has one {what}")).help("write a rule for each")))
}

impl Conditions {
    /// What stands behind the addresses, to the end; gives the comment.
    fn read(&mut self, lexer: &mut Lexer<'_>, protocol: Option<u8>) -> Result<Option<Box<str>>, Failure> {
        let is_icmp = protocol.filter(|protocol| [ICMP, ICMP6].contains(protocol));
        loop {
            let token = lexer.next()?;
            let (name, place) = match token.what {
                What::End => return Ok(None),
                What::Word("comment") => return comment(lexer).map(Some),
                What::Word(word) if CONDITIONS.contains(&word) => (word, token.range),
                What::Word(word) => {
                    let (range, problem) = expected("a condition, `comment` or the end of the rule", &token);
                    return Err((range, problem.suggest(word, &CONDITIONS)));
                }
                _ => return Err(expected("a condition, `comment` or the end of the rule", &token)),
            };
            if self.has(name) {
                return Err((place, Problem::new(Kind::Rule, format!("`{name}` stands here twice"))));
            }
            match (name, is_icmp, protocol) {
                ("port", _, _) => self.destination = Some(ports(lexer, protocol, place)?),
                ("type", Some(icmp), _) => self.icmp_type = Some((icmp_type(lexer, icmp)?, place)),
                ("code", Some(_), _) => {
                    let (word, range) = word(lexer, "a code of ICMP or a range of them")?;
                    let (first, last) = span(word, &range, "a code of ICMP", 255)?;
                    one_of_them(lexer, "code or range of codes")?;
                    self.code = Some((first as u8..=last as u8, place));
                }
                ("type" | "code", None, _) => {
                    let message = format!("only rules on icmp and icmp6 ask for a {name}");
                    return Err((place, Problem::new(Kind::Rule, message)));
                }
                ("tcp-flags", _, Some(TCP)) => self.flags = Some((tcp_flags(lexer)?, place)),
                ("tcp-flags", _, _) => {
                    return Err((place, Problem::new(Kind::Rule, "only rules on tcp ask for its flags")));
                }
                ("dscp", _, _) => self.dscp = Some((dscp(lexer)?, place)),
                (name, _, _) => self.fragment = Some((name == "fragment", place)),
            }
        }
    }

    fn has(&self, name: &str) -> bool {
        match name {
            "port" => self.destination.is_some(),
            "type" => self.icmp_type.is_some(),
            "code" => self.code.is_some(),
            "tcp-flags" => self.flags.is_some(),
            "dscp" => self.dscp.is_some(),
            _ => self.fragment.is_some(),
        }
    }

    /// What they ask of the header behind that of IP.
    fn transport(self, protocol: Option<u8>) -> Result<Transport, Failure> {
        let Conditions { source, destination, icmp_type, code, flags, fragment, .. } = self;
        let of_octets = |octets: &Placed<RangeInclusive<u8>>| octets.as_ref().map(|(_, place)| place.clone());
        let of_ports = |ports: &Placed<RangeInclusive<u16>>| ports.as_ref().map(|(_, place)| place.clone());
        let of_flags = flags.as_ref().map(|(_, place)| place.clone());
        let asked = of_ports(&source).or(of_ports(&destination)).or(of_octets(&icmp_type));
        let asked = asked.or(of_octets(&code)).or(of_flags);
        if let (Some(place), Some((true, fragment))) = (asked, fragment) {
            let message = "fragments that are not the first of their packet have no ports, types or flags";
            let place = if place.start > fragment.start { place } else { fragment };
            return Err((place, Problem::new(Kind::Rule, message)));
        }
        let Some(protocol) = protocol else { return Ok(Transport::Any) };
        Ok(match (source, destination, flags, icmp_type, code) {
            (None, None, None, None, None) => Transport::Protocol(protocol),
            (None, None, None, icmp_type, code) => Transport::Icmp {
                protocol,
                icmp_type: icmp_type.map_or(ALL_OCTETS, |(range, _)| range),
                code: code.map_or(ALL_OCTETS, |(range, _)| range),
            },
            (source, destination, flags, _, _) => Transport::Ports {
                protocol,
                source: source.map_or(ALL_PORTS, |(range, _)| range).into(),
                destination: destination.map_or(ALL_PORTS, |(range, _)| range).into(),
                flags: flags.map(|(flags, _)| flags),
            },
        })
    }
}

fn icmp_type(lexer: &mut Lexer<'_>, protocol: u8) -> Result<RangeInclusive<u8>, Failure> {
    let (word, range) = word(lexer, "a type of ICMP or a range of them")?;
    one_of_them(lexer, "type or range of types")?;
    if let Some(number) = words::icmp_type(protocol, word) {
        return Ok(number..=number);
    }
    if !word.starts_with(|c: char| c.is_ascii_digit()) {
        let problem = Problem::new(Kind::Rule, format!("`{}` is no type of ICMP", shown(word)));
        let problem = problem.help("types without a name here are written as their numbers");
        return Err((range, problem.suggest(word, &words::icmp_types(protocol))));
    }
    let (first, last) = span(word, &range, "a type of ICMP", 255)?;
    Ok(first as u8..=last as u8)
}

fn dscp(lexer: &mut Lexer<'_>) -> Result<u8, Failure> {
    let (word, range) = word(lexer, "a differentiated services code point")?;
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

/// Flags that are set, `/`, and those that are asked about. Commas stand between flags, with or without blanks.
fn tcp_flags(lexer: &mut Lexer<'_>) -> Result<TcpFlags, Failure> {
    const SHAPE: &str = "they look like `syn/syn,ack`: those that are set, and those that are asked about";
    let (first, place) = word(lexer, "flags of TCP")?;
    let mut text = first.to_owned();
    let mut place = place;
    while lexer.clone().next()?.what == What::Comma {
        lexer.next()?;
        let (word, range) = word(lexer, "a flag of TCP")?;
        text = format!("{text},{word}");
        place.end = range.end;
    }
    let wrong = |message: String| (place.clone(), Problem::new(Kind::Rule, message));
    let Some((value, mask)) = text.split_once('/') else {
        let (range, problem) = wrong(format!("`{}` does not say which flags are asked about", shown(&text)));
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
        return Err(wrong("no flag is asked about".to_owned()));
    }
    match flags.value & !flags.mask {
        0 => Ok(flags),
        more => Err(wrong(format!("`{}` is to be set, but not asked about", words::Flags(more)))),
    }
}

/// A number up to `most`.
fn number(word: &str, range: &Range<usize>, what: &str, most: u64) -> Result<u64, Failure> {
    span(word, range, what, most).and_then(|(first, last)| match first == last {
        true => Ok(first),
        false => Err((range.clone(), Problem::new(Kind::Rule, format!("`{}` is not {what}", shown(word))))),
    })
}

/// A number up to `most`, or two with a hyphen between.
fn span(word: &str, range: &Range<usize>, what: &str, most: u64) -> Result<(u64, u64), Failure> {
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
