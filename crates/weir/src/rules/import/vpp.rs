//! Rules of VPP's ACL plugin, as its test tool (`acl_add_replace`) and its debug command line (`set acl-plugin acl`) read them.
//!
//! Also as VPP prints a list: by `show acl-plugin acl index N` on its debug command line, or `acl_dump` of its test tool.
//!
//! ```text
//! acl-index 0 count 2 tag {web}
//!           0: ipv4 permit src 192.0.2.0/24 dst 0.0.0.0/0 proto 6 sport 0-65535 dport 80 tcpflags 2 mask 18
//!           1: ipv4 deny src 0.0.0.0/0 dst 0.0.0.0/0 proto 0 sport 0-65535 dport 0-65535
//!   applied inbound on sw_if_index: 1
//!
//! acl_index: 0, count: 1
//!    tag {web}
//!    ipv4 action 1 src 192.0.2.0/24 dst 0.0.0.0/0 proto 6 sport 0-65535 dport 80-80 tcpflags 2 mask 18
//! ```
//!
//! Omitted parts of a rule are as in VPP: it permits IPv4, all addresses, all protocols and all ports. In the place of
//! ports, rules on ICMP have types and codes. VPP compares ports only where a rule names a protocol.

use std::iter::Peekable;
use std::ops::Range;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use weir_plane::model::TcpFlags;

use super::super::acl::{Action, Addresses, IpFamily, Rule, Transport, without_replies};
use super::super::words::{Problem, shown};
use super::super::{Kind, lines};
use super::importer::{self, Failure, Importer, expected, rule, upper};
use crate::render::number::plural;

const ICMP: u8 = 1;
const TCP: u8 = 6;
const ICMP6: u8 = 58;

pub(super) fn read(text: &str, importer: &mut Importer<'_>) {
    if lines::of(text).next().is_some_and(|(_, line)| Head::of(line).is_some()) {
        return printed(text, importer);
    }
    let mut lists = 0;
    let mut continued = false;
    let mut words: Vec<Word<'_>> = Vec::new();
    for (base, line) in lines::of(text) {
        if !continued {
            lists += 1;
            if lists > 1 {
                let problem = Problem::new(Kind::Rule, "a second list begins here").help("import one list at a time");
                return importer.sink.error(base..base + line.trim_ascii_end().len(), problem);
            }
        }
        let line = line.trim_ascii_end();
        let content = line.strip_suffix('\\').unwrap_or(line);
        words.extend(split(content, base));
        continued = content.len() < line.len() || words.last().is_some_and(|word| word.text == ",");
    }
    list(&words, importer);
}

/// The first line of a list that VPP printed.
struct Head {
    /// Which list it is.
    index: u32,
    /// How many rules it has.
    count: usize,
}

impl Head {
    /// `acl-index 0 count 2 …` or `acl_index: 0, count: 2`; the test tool writes the name of its function before it.
    fn of(line: &str) -> Option<Head> {
        let (word, numbers) = ["acl-index ", "acl_index: "].into_iter().find_map(|word| {
            let (before, numbers) = line.split_once(word)?;
            (before.is_empty() || before.ends_with(": ")).then_some((word, numbers))
        })?;
        let (index, rest) = match word.ends_with(": ") {
            true => numbers.split_once(", count: ")?,
            false => numbers.split_once(" count ")?,
        };
        let count = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        Some(Head { index: index.parse().ok()?, count: count.parse().ok()? })
    }
}

/// Reads one list as VPP prints it.
fn printed(text: &str, importer: &mut Importer<'_>) {
    let mut head: Option<(Head, Range<usize>)> = None;
    let mut rules = 0;
    for (base, line) in lines::of(text) {
        let line = line.trim_ascii_end();
        let place = base..base + line.len();
        if let Some(found) = Head::of(line) {
            if let Some((first, _)) = &head {
                let problem = Problem::new(Kind::Rule, "a second list begins here");
                let help = format!("have VPP print one: `show acl-plugin acl index {}`", first.index);
                return importer.sink.error(place, problem.help(help));
            }
            head = Some((found, place));
            continue;
        }
        // Where VPP uses the list, and what it is called.
        if ["applied ", "used in ", "tag {"].into_iter().any(|known| line.starts_with(known)) {
            continue;
        }
        let mut words = split(line, base);
        // The rule's number, or the comma behind a rule.
        if words.first().is_some_and(|word| word.text.strip_suffix(':').is_some_and(|n| n.parse::<u32>().is_ok())) {
            words.remove(0);
        }
        if words.last().is_some_and(|word| word.text == ",") {
            words.pop();
        }
        if words.is_empty() {
            continue;
        }
        rules += 1;
        one(&words, true, importer);
    }
    let Some((Head { count, .. }, place)) = head else { return };
    if rules < count {
        let here = if rules == 1 { "1 is here".to_owned() } else { format!("{rules} are here") };
        let message = format!("the list has {}, of which {here}", plural(count as u64, "rule"));
        let problem = Problem::new(Kind::Rule, message);
        importer.sink.error(place, problem.help("the end of the text is missing"));
    }
}

/// A word, and where it stands.
#[derive(Debug, Clone)]
struct Word<'t> {
    text: &'t str,
    range: Range<usize>,
}

/// Cuts a line into words; a comma is one, and so is what stands between braces.
fn split(line: &str, base: usize) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    let mut at = 0;
    while let Some(skipped) = line[at..].find(|c: char| !c.is_ascii_whitespace()) {
        let start = at + skipped;
        let rest = &line[start..];
        let length = match rest.as_bytes()[0] {
            b',' => 1,
            b'{' => rest.find('}').map_or(rest.len(), |end| end + 1),
            _ => rest.find(|c: char| c.is_ascii_whitespace() || c == ',').unwrap_or(rest.len()),
        };
        at = start + length;
        words.push(Word { text: &line[start..at], range: base + start..base + at });
    }
    words
}

/// The parts of a rule.
#[derive(Debug, Clone)]
struct Said {
    action: Action,
    family: Option<IpFamily>,
    source: Option<IpNet>,
    destination: Option<IpNet>,
    protocol: u8,
    /// Where it stands.
    protocol_place: Range<usize>,
    first: (u16, u16),
    second: (u16, u16),
    flags: Option<TcpFlags>,
    comment: Option<Box<str>>,
}

const SILENT: Said = Said {
    action: Action::Permit,
    family: None,
    source: None,
    destination: None,
    protocol: 0,
    protocol_place: 0..0,
    first: (0, u16::MAX),
    second: (0, u16::MAX),
    flags: None,
    comment: None,
};

fn list(words: &[Word<'_>], importer: &mut Importer<'_>) {
    let texts: Vec<&str> = words.iter().take(5).map(|word| word.text).collect();
    let begin = match texts[..] {
        ["acl_add_replace", number, ..] if number.parse::<i64>().is_ok() => 2,
        ["acl_add_replace", ..] => 1,
        ["set", "acl-plugin", "acl", "index", _] => 5,
        ["set", "acl-plugin", "acl", ..] => 3,
        _ => 0,
    };
    let rules = &words[begin..];
    if rules.is_empty() {
        return;
    }
    for rule in rules.split(|word| word.text == ",") {
        if rule.is_empty() {
            // Two commas, or one at an end: VPP would take nothing for a rule that permits everything.
            let at = words.last().map_or(0..0, |last| last.range.clone());
            importer.sink.error(at, Problem::new(Kind::Rule, "a rule that says nothing, beside a comma"));
        } else {
            one(rule, false, importer);
        }
    }
}

/// Reads one rule of at least one word. `is_printed`: VPP wrote it, with all that it knows of it.
fn one(words: &[Word<'_>], is_printed: bool, importer: &mut Importer<'_>) {
    let range = words[0].range.start..words[words.len() - 1].range.end;
    match said(words, importer).and_then(|said| said.rule(&range)) {
        Ok((rule, odd)) => {
            // VPP prints ports of rules without a protocol, too, and never looks at them.
            if let Some((range, problem)) = odd.filter(|_| !is_printed) {
                importer.sink.warning(range, problem);
            }
            importer.add(range, &rule);
        }
        Err((range, problem)) => importer.sink.error(range, problem),
    }
}

/// Reads what one rule says.
fn said(words: &[Word<'_>], importer: &mut Importer<'_>) -> Result<Said, Failure> {
    let mut said = SILENT;
    let end = words.last().map_or(0, |word| word.range.end);
    let mut words = words.iter().peekable();
    while let Some(Word { text, range }) = words.next() {
        let mut next = || words.next().cloned().unwrap_or(Word { text: "", range: end..end });
        match *text {
            "ipv4" => said.family = Some(IpFamily::V4),
            "ipv6" => said.family = Some(IpFamily::V6),
            "permit" => said.action = Action::Permit,
            "deny" => said.action = Action::Deny,
            "permit+reflect" => said.action = Action::Reflect,
            "action" => match number(&next(), "an action, 0 to 2", 2)? {
                0 => said.action = Action::Deny,
                1 => said.action = Action::Permit,
                _ => said.action = Action::Reflect,
            },
            "src" => said.source = Some(net(&next())?),
            "dst" => said.destination = Some(net(&next())?),
            "proto" => {
                let word = next();
                said.protocol = number(&word, "a protocol, 0 to 255", 255)? as u8; // at most that
                said.protocol_place = word.range;
            }
            "sport" => said.first = ports(&next())?,
            "dport" => said.second = ports(&next())?,
            "tcpflags" => said.flags = Some(flags(&mut words, end)?),
            "tag" => {
                let tag = next();
                importer.sink.warning(
                    range.start..tag.range.end,
                    Problem::new(Kind::Rule, format!("the tag `{}` is left out: lists have names", shown(tag.text))),
                );
            }
            // How many rules follow is seen.
            "count" => drop(number(&next(), "a number", u64::from(u32::MAX))?),
            "desc" => {
                let text = next().text;
                let text = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or(text);
                said.comment = Some(text.trim()).filter(|text| !text.is_empty()).map(Box::from);
            }
            other => {
                let known = [
                    "ipv4", "ipv6", "permit", "deny", "src", "dst", "proto", "sport", "dport", "tcpflags", "tag",
                    "desc",
                ];
                let problem = Problem::new(Kind::Rule, format!("`{}` says nothing in a rule of VPP", shown(other)));
                return Err((range.clone(), problem.suggest(other, &known)));
            }
        }
    }
    Ok(said)
}

fn number(word: &Word<'_>, what: &str, most: u64) -> Result<u64, Failure> {
    let read = word.text.parse().ok().filter(|number| *number <= most);
    read.ok_or_else(|| expected(what, word.text, word.range.clone()))
}

fn net(word: &Word<'_>) -> Result<IpNet, Failure> {
    let net: Option<IpNet> = word.text.parse().ok();
    net.map(|net| net.trunc()).ok_or_else(|| expected("a prefix", word.text, word.range.clone()))
}

/// `80`, or `80-90`
fn ports(word: &Word<'_>) -> Result<(u16, u16), Failure> {
    let (low, high) = word.text.split_once('-').unwrap_or((word.text, word.text));
    match (low.parse(), high.parse()) {
        (Ok(low), Ok(high)) if low <= high => Ok((low, high)),
        (Ok(_), Ok(_)) => Err((word.range.clone(), Problem::new(Kind::Rule, "a range that ends before it begins"))),
        _ => Err(expected("a port, or two with `-` between them", word.text, word.range.clone())),
    }
}

/// `VALUE MASK`, perhaps with `mask` between them.
fn flags<'w, 't: 'w>(
    words: &mut Peekable<impl Iterator<Item = &'w Word<'t>>>,
    end: usize,
) -> Result<TcpFlags, Failure> {
    let mut octet = |what| {
        let word = words.next().cloned().unwrap_or(Word { text: "", range: end..end });
        if word.text == "mask" {
            let word = words.next().cloned().unwrap_or(Word { text: "", range: end..end });
            return number(&word, what, 255);
        }
        number(&word, what, 255)
    };
    let (value, mask) = (octet("flags, 0 to 255")?, octet("a mask of flags, 0 to 255")?);
    Ok(TcpFlags { value: (value & mask) as u8, mask: mask as u8 }) // at most 255
}

impl Said {
    /// Our rule, and what is odd about theirs.
    fn rule(self, range: &Range<usize>) -> Result<(Rule, Option<Failure>), Failure> {
        let wrong = |text: &str| (range.clone(), Problem::new(Kind::Rule, text));
        let family = |net: Option<IpNet>| net.map(|net| net.addr().is_ipv6());
        let named = self.family.map(|family| family == IpFamily::V6);
        let families = [family(self.source), family(self.destination), named];
        let is_v6 = families.iter().flatten().next().copied().unwrap_or(false);
        if families.iter().flatten().any(|&other| other != is_v6) {
            return Err(wrong("a rule of two address families"));
        }
        // VPP takes such rules; ours on ICMP are about packets of its family.
        let of_other = match self.protocol {
            ICMP if is_v6 => Some(("protocol 1 is ICMP of IPv4, and the rule is for IPv6", "ICMPv6 is protocol 58")),
            ICMP6 if !is_v6 => Some(("protocol 58 is ICMPv6, and the rule is for IPv4", "ICMP of IPv4 is protocol 1")),
            _ => None,
        };
        if let Some((text, help)) = of_other {
            return Err((self.protocol_place, Problem::new(Kind::Rule, text).help(help)));
        }
        let all = if is_v6 { IpNet::V6(Ipv6Net::default()) } else { IpNet::V4(Ipv4Net::default()) };
        let [from, to] = [self.source, self.destination].map(|net| Addresses::Net(net.unwrap_or(all)));
        let every = (0, u16::MAX);
        let mut odd = None;
        let flags = self.flags.filter(|flags| flags.mask != 0);
        let transport = match self.protocol {
            0 => {
                if self.first != every || self.second != every || flags.is_some() {
                    odd = Some(wrong(
                        "VPP compares ports and flags only where a rule names a protocol: this rule matches any",
                    ));
                }
                Transport::Any
            }
            TCP if flags.is_some() => Transport::Ports {
                protocol: TCP,
                source: importer::ports(self.first),
                destination: importer::ports(self.second),
                flags,
            },
            _ if flags.is_some() => return Err(wrong("only rules on TCP match flags")),
            protocol => upper(protocol, self.first, self.second)
                .ok_or_else(|| wrong("ports, or types and codes, that the protocol cannot have"))?,
        };
        if self.action == Action::Reflect
            && let Some(text) = without_replies(&transport, None)
        {
            return Err(wrong(text));
        }
        let rule = rule(self.action, from, to, transport);
        Ok((Rule { comment: self.comment, ..rule }, odd))
    }
}
