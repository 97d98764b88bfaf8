//! One line into a rule.

use std::ops::{Range, RangeInclusive};

use weir_packet::identify::Identifier;
use weir_packet::wire::protocol;
use weir_plane::model::{IpFamily, SteerHeader, SteerNode, SteerOctets};

use super::super::acl::conditions::Conditions;
use super::super::acl::parser::{Is, Line, Placed, ends, span, what_of};
use super::super::acl::{Action as Verdict, Rule as Matches, family_of_protocol};
use super::super::findings::{Kind, Sink};
use super::super::lexer::What;
use super::super::names::Names;
use super::super::parser::{Failure, comment, expected, word};
use super::super::words::{Problem, shown};
use super::action::{ACTIONS, Actions, Goes};
use super::octets;
use super::print;
use super::rule::{Rule, Way};

/// The words that may stand behind the ends.
const CONDITIONS: [&str; 14] = [
    "port",
    "type",
    "code",
    "tcp-flags",
    "fragment",
    "no-fragment",
    "dscp",
    "spi",
    "vni",
    "teid",
    "session",
    "octets",
    "then",
    "comment",
];

const HEADERS: [SteerHeader; 3] = [SteerHeader::Ethernet, SteerHeader::Ip4, SteerHeader::Ip6];

/// The largest VLAN identifier (IEEE 802.1Q, 9.6).
const MOST_VLAN: u64 = 4094;

/// Protocols of tunnels.
const OF_TUNNELS: [u8; 4] = [protocol::UDP, protocol::GRE, protocol::IPIP, protocol::IPV6];

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

/// The part of a rule in front of the packets that it matches.
#[derive(Default)]
struct Front {
    actions: Actions,
    unchecked: Option<Range<usize>>,
    vlan: Option<RangeInclusive<u16>>,
}

/// The conditions of a rule that access lists have not.
#[derive(Default)]
struct Own {
    id: Placed<(Identifier, RangeInclusive<u32>)>,
    octets: Placed<SteerOctets>,
    then: Placed<SteerHeader>,
    comment: Option<Box<str>>,
}

fn rule<'l>(text: &'l str, line: &mut Line<'l, '_, '_>) -> Result<Rule, Failure> {
    let Front { actions, unchecked, vlan } = front(line)?;
    let (family, protocol) = what_of(&mut line.lexer, &["proto"])?;
    let mut is = Is { family: family.map(|(family, place)| (family, &text[place])) };
    if let Some((protocol, place)) = &protocol
        && let Some(family) = family_of_protocol(*protocol)
    {
        is.of(family, &text[place.clone()], place.clone())?;
    }
    let (protocol, protocol_at) = protocol.unzip();
    let mut conditions = Conditions::default();
    let (from, to) = ends(line, &mut is, protocol, &mut conditions)?;
    let mut own = Own::default();
    own.read(line, &mut conditions, protocol)?;
    if let (Some(number), Some(place)) = (protocol, &protocol_at)
        && !matches!(own.id, Some(((Identifier::Ah, _), _)))
    {
        is.matches(number, &text[place.clone()], place.clone())?;
    }
    if let Some(place) = &actions.address
        && let Some((Goes::To(_, Some(address)), _)) = &actions.goes
    {
        let family = if address.is_ipv4() { IpFamily::V4 } else { IpFamily::V6 };
        let before = is.family.map(|(family, _)| family);
        if before != Some(family) {
            let name = if address.is_ipv4() { "ip4" } else { "ip6" };
            let message = format!("the next hop {address} takes packets of its own family alone");
            return wrong(place, message, &format!("write `{name}` in front of the protocol or of `from`"));
        }
    }
    let way = way(&actions, &own, is.family.map(|(family, _)| family), protocol)?;
    if let (Some((_, place)), Way::Drop) = (&actions.mark, &way) {
        return wrong(place, "a rule that drops leaves no packet to mark", "leave out `mark` or `drop`");
    }
    if let Some(place) = &unchecked
        && !matches!(way, Way::To(..) | Way::Node(_) | Way::Advance(..))
    {
        return wrong(place, "packets of this rule pass by no check", "leave out `unchecked`");
    }
    let family = is.written();
    let (rest, transport) = conditions.understood(Verdict::Permit, protocol)?;
    let matches = Matches {
        action: Verdict::Permit,
        family,
        from,
        to,
        transport,
        fragment: rest.fragment,
        dscp: rest.dscp,
        mark: rest.mark,
        received_on: rest.received_on,
        limit: rest.limit,
        log: rest.log,
        flow: rest.flow,
        comment: None,
    };
    Ok(Rule {
        count: actions.count.is_some(),
        mark: actions.mark.map(|(mark, _)| mark),
        way,
        unchecked: unchecked.is_some(),
        vlan,
        id: own.id.map(|(id, _)| id),
        octets: own.octets.map(|(octets, _)| octets),
        matches,
        comment: own.comment,
    })
}

/// Reads up to the packets that the rule matches.
fn front(line: &mut Line<'_, '_, '_>) -> Result<Front, Failure> {
    let mut front = Front::default();
    loop {
        let next = line.lexer.clone().next()?;
        let What::Word(name) = next.what else {
            return Err(expected("an action of a steer rule", &next));
        };
        let is_behind = front.unchecked.is_some() || front.vlan.is_some();
        match name {
            _ if ACTIONS.contains(&name) && !is_behind => {
                line.lexer.next()?;
                front.actions.read(line, name, next.range)?;
            }
            "unchecked" if !is_behind => {
                line.lexer.next()?;
                front.unchecked = Some(next.range);
            }
            "vlan" if front.vlan.is_none() => {
                line.lexer.next()?;
                let (word, range) = word(&mut line.lexer, "a VLAN identifier or a range of them")?;
                let (first, last) = span(word, &range, "a VLAN identifier", MOST_VLAN)?;
                line.one_of_them("VLAN or range of VLANs")?;
                front.vlan = Some(first as u16..=last as u16);
            }
            _ if front.actions.count.is_none() && front.actions.mark.is_none() && front.actions.goes.is_none() => {
                let message = format!("expected an action of a steer rule, found `{}`", shown(name));
                return Err((next.range, Problem::new(Kind::Rule, message).suggest(name, &ACTIONS)));
            }
            _ => return Ok(front),
        }
    }
}

impl Own {
    /// Reads the conditions behind the ends, to the end of the rule.
    fn read(
        &mut self,
        line: &mut Line<'_, '_, '_>,
        conditions: &mut Conditions,
        protocol: Option<u8>,
    ) -> Result<(), Failure> {
        const WHAT: &str = "a condition, `comment` or the end of the rule";
        loop {
            let token = line.lexer.next()?;
            let (name, at) = match token.what {
                What::End => return Ok(()),
                What::Word("comment") => {
                    self.comment = Some(comment(&mut line.lexer)?);
                    return Ok(());
                }
                What::Word(word) if CONDITIONS.contains(&word) => (word, token.range),
                What::Word(word) => {
                    let (range, problem) = expected(WHAT, &token);
                    return Err((range, problem.suggest(word, &CONDITIONS)));
                }
                _ => return Err(expected(WHAT, &token)),
            };
            match name {
                "then" if self.then.is_some() => return wrong(&at, "`then` stands here twice", ""),
                "then" => self.then = Some((then(line)?, at)),
                "octets" if self.octets.is_some() => return wrong(&at, "`octets` stands here twice", ""),
                "octets" => self.octets = Some((octets::read(line)?, at)),
                "spi" | "vni" | "teid" | "session" => {
                    if self.id.is_some() {
                        return wrong(&at, "a rule matches identifiers of one kind, once", "");
                    }
                    let kind = identifier(name, protocol, &at)?;
                    let (word, range) = word(&mut line.lexer, "an identifier or a range of them")?;
                    let (first, last) = span(word, &range, "an identifier", kind.most().into())?;
                    line.one_of_them("identifier or range of identifiers")?;
                    self.id = Some(((kind, first as u32..=last as u32), at));
                }
                _ => conditions.one(line, (name, at), Verdict::Permit, protocol)?,
            }
        }
    }
}

/// The kind of identifiers that a word names in a rule on a protocol.
fn identifier(name: &str, of: Option<u8>, at: &Range<usize>) -> Result<Identifier, Failure> {
    match (name, of) {
        ("spi", Some(protocol::ESP)) => Ok(Identifier::Esp),
        ("spi", Some(protocol::AH)) => Ok(Identifier::Ah),
        ("spi", _) => wrong(at, "only rules on esp and ah match an SPI", "ESP in UDP is esp, too"),
        ("session", Some(protocol::L2TP)) => Ok(Identifier::Session),
        ("session", _) => wrong(at, "only rules on l2tp match a session", ""),
        ("vni", Some(protocol::UDP)) => Ok(Identifier::Vni),
        (_, Some(protocol::UDP)) => Ok(Identifier::Teid),
        _ => wrong(at, format!("only rules on udp match a {}", if name == "vni" { "VNI" } else { "TEID" }), ""),
    }
}

fn then(line: &mut Line<'_, '_, '_>) -> Result<SteerHeader, Failure> {
    const WHAT: &str = "`ethernet`, `ip4` or `ip6`";
    let (word, place) = word(&mut line.lexer, WHAT)?;
    match HEADERS.into_iter().find(|&header| print::header(header) == word) {
        Some(header) => Ok(header),
        None => {
            let problem = Problem::new(Kind::Rule, format!("expected {WHAT}, found `{}`", shown(word)));
            Err((place, problem.suggest(word, &HEADERS.map(print::header))))
        }
    }
}

/// Checks that the packets of a rule can go the way that it says.
fn way(actions: &Actions, own: &Own, family: Option<IpFamily>, protocol: Option<u8>) -> Result<Way, Failure> {
    let is_advance = matches!(actions.goes, Some((Goes::Advance(_), _)));
    if let (Some((_, place)), false) = (&own.then, is_advance) {
        return wrong(
            place,
            "`then` names the header behind the octets of `advance`",
            "write `advance` or leave out `then`",
        );
    }
    let Some((goes, place)) = &actions.goes else { return Ok(Way::On) };
    match goes {
        Goes::Drop => Ok(Way::Drop),
        Goes::To(interface, address) => Ok(Way::To(interface.clone(), *address)),
        Goes::Queue(worker) => Ok(Way::Queue(*worker)),
        Goes::Node(node @ (SteerNode::Ip4Lookup | SteerNode::Ip6Lookup)) => {
            let (own, word) = if *node == SteerNode::Ip4Lookup { (IpFamily::V4, "ip4") } else { (IpFamily::V6, "ip6") };
            if family == Some(own) {
                return Ok(Way::Node(*node));
            }
            let message = format!("the node `{}` takes packets of {word} alone", node.name());
            wrong(place, message, &format!("write `{word}` in front of the protocol or of `from`"))
        }
        Goes::Node(node) => {
            if protocol.is_some_and(|number| OF_TUNNELS.contains(&number)) {
                return Ok(Way::Node(*node));
            }
            let message = format!("the node `{}` takes packets of tunnels alone", node.name());
            wrong(place, message, "name the protocol of the tunnel: udp, gre, ipv4 or ipv6")
        }
        Goes::Advance(octets) => match &own.then {
            Some((header, _)) => Ok(Way::Advance(*octets, *header)),
            None => wrong(
                place,
                "`advance` needs the header that follows",
                "end the rule with `then ethernet`, `then ip4` or `then ip6`",
            ),
        },
    }
}
