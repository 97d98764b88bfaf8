//! One line into a rule.

use std::ops::{Range, RangeInclusive};

use weir_packet::identify::Identifier;
use weir_packet::wire::protocol;
use weir_plane::model::{ClassifyStart, IpFamily, SteerHeader, SteerMacs, SteerNode, SteerOctets};

use super::super::acl::conditions::{Conditions, Rest};
use super::super::acl::parser::{Is, Line, Placed, ends, span, what_of};
use super::super::acl::{Action as Verdict, Addresses, Rule as Matches, Transport, family_of_protocol};
use super::super::findings::{Kind, Sink};
use super::super::lexer::What;
use super::super::names::Names;
use super::super::parser::{Failure, comment, expected, word};
use super::super::words::{Problem, shown};
use super::action::{ACTIONS, Actions, Goes};
use super::print;
use super::rule::{Rule, Way};
use super::{frame, octets};

/// The words that may stand behind the ends.
const CONDITIONS: [&str; 17] = [
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
    "mac-from",
    "mac-to",
    "octets",
    "inner",
    "then",
    "comment",
];

/// The words that may stand behind the ends of the packet inside.
const CONDITIONS_OF_BOTH: [&str; 7] = ["port", "type", "code", "tcp-flags", "fragment", "no-fragment", "dscp"];

/// The words that may stand in rules about frames.
const CONDITIONS_OF_FRAMES: [&str; 4] = ["mac-from", "mac-to", "octets", "comment"];

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
struct Own<'l> {
    id: Placed<(Identifier, RangeInclusive<u32>)>,
    macs: SteerMacs,
    octets: Placed<SteerOctets>,
    inner: Placed<Packet<'l>>,
    then: Placed<SteerHeader>,
    comment: Option<Box<str>>,
}

/// Packets that a rule matches, as far as they were read.
struct Packet<'l> {
    is: Is<'l>,
    protocol: Option<u8>,
    /// Where the protocol stands.
    protocol_at: Option<Range<usize>>,
    from: Addresses,
    to: Addresses,
    conditions: Conditions,
}

impl<'l> Packet<'l> {
    /// Reads up to the conditions.
    fn read(text: &'l str, line: &mut Line<'l, '_, '_>) -> Result<Packet<'l>, Failure> {
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
        Ok(Packet { is, protocol, protocol_at, from, to, conditions })
    }

    /// Returns the packets as a rule of an access list. `is_among_extensions`: the protocol may be an extension header of IPv6.
    fn understood(self, text: &'l str, is_among_extensions: bool) -> Result<Matches, Failure> {
        if let (Some(number), Some(place), false) = (self.protocol, &self.protocol_at, is_among_extensions) {
            self.is.matches(number, &text[place.clone()], place.clone())?;
        }
        let family = self.is.written();
        let (rest, transport) = self.conditions.understood(Verdict::Permit, self.protocol)?;
        Ok(rest.rule(family, (self.from, self.to), transport))
    }
}

fn rule<'l>(text: &'l str, line: &mut Line<'l, '_, '_>) -> Result<Rule, Failure> {
    let front = front(line)?;
    if line.lexer.clone().next()?.what == What::Word(frame::FRAME) {
        line.lexer.next()?;
        return of_frames(line, front);
    }
    let Front { actions, unchecked, vlan } = front;
    let mut packet = Packet::read(text, line)?;
    let mut own = Own::default();
    own.read(line, text, &mut packet)?;
    let (protocol, is_ah) = (packet.protocol, matches!(own.id, Some(((Identifier::Ah, _), _))));
    let family_so_far = packet.is.family.map(|(family, _)| family);
    if let (Some(number), Some(place), false) = (protocol, &packet.protocol_at, is_ah) {
        packet.is.matches(number, &text[place.clone()], place.clone())?;
    }
    let inner = own.inner_of(text, protocol)?;
    if let Some(place) = &actions.address
        && let Some((Goes::To(_, Some(address)), _)) = &actions.goes
    {
        let family = if address.is_ipv4() { IpFamily::V4 } else { IpFamily::V6 };
        if family_so_far != Some(family) {
            let name = if address.is_ipv4() { "ip4" } else { "ip6" };
            let message = format!("the next hop {address} takes packets of its own family alone");
            return wrong(place, message, &format!("write `{name}` in front of the protocol or of `from`"));
        }
    }
    let way = way(&actions, &own, family_so_far, protocol)?;
    drops_alone(&actions)?;
    if let Some(place) = &unchecked
        && !matches!(way, Way::To(..) | Way::Node(_) | Way::Advance(..))
    {
        return wrong(place, "packets of this rule pass by no check", "leave out `unchecked`");
    }
    Ok(Rule {
        count: actions.count.is_some(),
        mark: actions.mark.map(|(mark, _)| mark),
        way,
        unchecked: unchecked.is_some(),
        vlan,
        id: own.id.map(|(id, _)| id),
        octets: own.octets.map(|(octets, _)| octets),
        macs: own.macs,
        inner,
        frame: None,
        matches: packet.understood(text, true)?,
        comment: own.comment,
    })
}

/// A rule that drops has no mark.
fn drops_alone(actions: &Actions) -> Result<(), Failure> {
    match (&actions.mark, &actions.goes) {
        (Some((_, place)), Some((Goes::Drop, _))) => {
            wrong(place, "a rule that drops leaves no packet to mark", "leave out `mark` or `drop`")
        }
        _ => Ok(()),
    }
}

/// Reads a rule about frames that are not IP, behind the word `frame`.
fn of_frames(line: &mut Line<'_, '_, '_>, Front { actions, unchecked, vlan }: Front) -> Result<Rule, Failure> {
    let frame = frame::read(line)?;
    let mut own = Own::default();
    own.read_of_frames(line)?;
    let way = match &actions.goes {
        None => Way::On,
        Some((Goes::Drop, _)) => Way::Drop,
        Some((Goes::To(interface, None), _)) => Way::To(interface.clone(), None),
        Some((_, place)) => {
            let message = "frames that are not IP have no next hop, queue, node or packet behind their header";
            return wrong(place, message, "write `redirect interface NAME`, `drop`, `mark` or `count`");
        }
    };
    drops_alone(&actions)?;
    if let (Some(place), false) = (&unchecked, matches!(way, Way::To(..))) {
        return wrong(place, "frames of this rule pass by no check", "leave out `unchecked`");
    }
    Ok(Rule {
        count: actions.count.is_some(),
        mark: actions.mark.map(|(mark, _)| mark),
        way,
        unchecked: unchecked.is_some(),
        vlan,
        id: None,
        octets: own.octets.map(|(octets, _)| octets),
        macs: own.macs,
        inner: None,
        frame: Some(frame),
        matches: every(),
        comment: own.comment,
    })
}

/// The rule of an access list about all packets.
fn every() -> Matches {
    Rest::default().rule(None, (Addresses::Any, Addresses::Any), Transport::Any)
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

impl<'l> Own<'l> {
    /// Reads the conditions behind the ends, to the end of the rule.
    fn read(&mut self, line: &mut Line<'l, '_, '_>, text: &'l str, packet: &mut Packet<'l>) -> Result<(), Failure> {
        while let Some((name, at)) = self.next(line, &CONDITIONS)? {
            if name == "inner" && self.inner.is_some() {
                return wrong(&at, "`inner` stands here twice", "");
            }
            let is_of_outer = !CONDITIONS_OF_BOTH.contains(&name) && name != "then";
            if self.inner.is_some() && is_of_outer {
                let message = format!("`{name}` stands in front of `inner`: it is about the outer packet");
                return wrong(&at, message, "");
            }
            match name {
                "then" if self.then.is_some() => return wrong(&at, "`then` stands here twice", ""),
                "then" => self.then = Some((then(line)?, at)),
                "inner" => self.inner = Some((Packet::read(text, line)?, at)),
                "mac-from" | "mac-to" | "octets" => self.of_frame(line, name, at)?,
                "spi" | "vni" | "teid" | "session" => {
                    if self.id.is_some() {
                        return wrong(&at, "a rule matches identifiers of one kind, once", "");
                    }
                    let kind = identifier(name, packet.protocol, &at)?;
                    let (word, range) = word(&mut line.lexer, "an identifier or a range of them")?;
                    let (first, last) = span(word, &range, "an identifier", kind.most().into())?;
                    line.one_of_them("identifier or range of identifiers")?;
                    self.id = Some(((kind, first as u32..=last as u32), at));
                }
                _ => {
                    let Packet { conditions, protocol, .. } = match &mut self.inner {
                        Some((inner, _)) => inner,
                        None => &mut *packet,
                    };
                    conditions.one(line, (name, at), Verdict::Permit, *protocol)?;
                }
            }
        }
        Ok(())
    }

    /// Reads the conditions of frames that are not IP, to the end of the rule.
    fn read_of_frames(&mut self, line: &mut Line<'_, '_, '_>) -> Result<(), Failure> {
        while let Some((name, at)) = self.next(line, &CONDITIONS_OF_FRAMES)? {
            self.of_frame(line, name, at.clone())?;
            if let Some((SteerOctets { start: ClassifyStart::Transport, .. }, _)) = &self.octets {
                return wrong(&at, "frames that are not IP have no transport header", "count from `l2` or `l3`");
            }
        }
        Ok(())
    }

    /// Reads the word of the next condition; `None`: the rule ends.
    fn next<'t>(
        &mut self,
        line: &mut Line<'t, '_, '_>,
        conditions: &[&str],
    ) -> Result<Option<(&'t str, Range<usize>)>, Failure> {
        const WHAT: &str = "a condition, `comment` or the end of the rule";
        let token = line.lexer.next()?;
        match token.what {
            What::End => Ok(None),
            What::Word("comment") => {
                self.comment = Some(comment(&mut line.lexer)?);
                Ok(None)
            }
            What::Word(word) if conditions.contains(&word) => Ok(Some((word, token.range))),
            What::Word(word) => {
                let (range, problem) = expected(WHAT, &token);
                Err((range, problem.suggest(word, conditions)))
            }
            _ => Err(expected(WHAT, &token)),
        }
    }

    /// Reads a condition on the frame behind its word.
    fn of_frame(&mut self, line: &mut Line<'_, '_, '_>, name: &str, at: Range<usize>) -> Result<(), Failure> {
        let is_twice = match name {
            "mac-from" => self.macs.from.is_some(),
            "mac-to" => self.macs.to.is_some(),
            _ => self.octets.is_some(),
        };
        if is_twice {
            return wrong(&at, format!("`{name}` stands here twice"), "");
        }
        match name {
            "mac-from" => self.macs.from = Some(frame::station(line)?),
            "mac-to" => self.macs.to = Some(frame::station(line)?),
            _ => self.octets = Some((octets::read(line)?, at)),
        }
        Ok(())
    }

    /// Returns the packet inside, of a rule on this protocol.
    fn inner_of(&mut self, text: &'l str, protocol: Option<u8>) -> Result<Option<Box<Matches>>, Failure> {
        let Some((inner, at)) = self.inner.take() else { return Ok(None) };
        let of_ip = match protocol {
            Some(protocol::IPIP) => Some((IpFamily::V4, "ip4")),
            Some(protocol::IPV6) => Some((IpFamily::V6, "ip6")),
            _ => None,
        };
        let has_id = matches!(self.id, Some(((Identifier::Vni | Identifier::Teid, _), _)));
        if !has_id && of_ip.is_none() {
            let message = "only rules with `vni` or `teid`, and rules on ipv4 and ipv6, match the packet inside";
            return wrong(&at, message, "write `vni 0-16777215` for VXLAN, or `teid 0-4294967295` for GTP-U");
        }
        if let (Some((family, name)), Some((own, _))) = (of_ip, inner.is.family)
            && family != own
        {
            return wrong(&at, format!("the packet inside is {name}"), "");
        }
        let matches = inner.understood(text, false)?;
        if matches.groups().next().is_some() {
            return wrong(&at, "the packet inside is matched without groups", "write a rule for each member");
        }
        Ok(Some(Box::new(matches)))
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
fn way(actions: &Actions, own: &Own<'_>, family: Option<IpFamily>, protocol: Option<u8>) -> Result<Way, Failure> {
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
