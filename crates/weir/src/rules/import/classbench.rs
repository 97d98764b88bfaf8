//! Filters of ClassBench as rules.

use std::net::{Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};
use weir_plane::model::TcpFlags;
use weir_table::classify::classbench::{self, Net, Problem as Wrong};

use super::super::acl::{Action, Addresses, Rule, Transport};
use super::super::words::Problem;
use super::super::{Kind, lines};
use super::importer::{Failure, Importer, expected, ports, rule, upper};

const ICMP: u8 = 1;
const TCP: u8 = 6;

pub(super) fn read(text: &str, importer: &mut Importer<'_>) {
    for (base, line) in lines::of(text) {
        let line = line.trim_ascii_end();
        match filter(line, base) {
            Ok(filter) => importer.add(base..base + line.len(), &filter),
            Err((range, problem)) => importer.sink.error(range, problem),
        }
    }
}

fn addresses(net: Net) -> Addresses {
    let of_its_family = "a prefix is no longer than its addresses";
    Addresses::Net(match net {
        Net::V4(prefix) => Ipv4Net::new(Ipv4Addr::from(prefix.address()), prefix.len()).expect(of_its_family).into(),
        Net::V6(prefix) => Ipv6Net::new(Ipv6Addr::from(prefix.address()), prefix.len()).expect(of_its_family).into(),
    })
}

fn filter(line: &str, base: usize) -> Result<Rule, Failure> {
    let read = classbench::filter(line).map_err(|wrong| {
        let range = base + wrong.place.start..base + wrong.place.end;
        match wrong.problem {
            Wrong::Expected(what) => expected(what, &line[wrong.place], range),
            other => (range, Problem::new(Kind::Rule, other.to_string())),
        }
    })?;
    let [place, flags_place] = read.places.map(|place| base + place.start..base + place.end);
    let (from, to) = (addresses(read.source), addresses(read.destination));
    let [source, destination] = read.ports.map(|span| (span.low(), span.high()));
    let ((protocol, mask), (value, flags_mask)) = (read.protocol, read.flags);
    let all = source == (0, u16::MAX) && destination == (0, u16::MAX);
    let protocol = match (u8::try_from(protocol), mask) {
        (_, 0) => None,
        (Ok(protocol), 0xff) => Some(protocol),
        _ => return Err((place, Problem::new(Kind::Rule, "rules are about one protocol, or about all"))),
    };
    let mask = flags_mask;
    let transport = match protocol {
        None if all && mask == 0 => Some(Transport::Any),
        None if all => {
            let text = "rules match flags, types and codes of one protocol only";
            return Err((flags_place, Problem::new(Kind::Rule, text)));
        }
        None => return Err((place, Problem::new(Kind::Rule, "rules match ports of one protocol only"))),
        Some(ICMP) if mask != 0 && all => icmp(value, mask),
        Some(TCP) if mask & 0xff == 0 && mask != 0 => Some(Transport::Ports {
            protocol: TCP,
            source: ports(source),
            destination: ports(destination),
            flags: Some(TcpFlags { value: (value & mask).to_be_bytes()[0], mask: mask.to_be_bytes()[0] }),
        }),
        Some(protocol) if mask == 0 => {
            let asked = upper(protocol, source, destination);
            return asked
                .map(|asked| rule(Action::Permit, from, to, asked))
                .ok_or_else(|| (place, Problem::new(Kind::Rule, "the protocol has no ports that rules can match")));
        }
        Some(_) => None,
    };
    let unsayable = || (flags_place, Problem::new(Kind::Rule, "no rule can match these flags of this protocol"));
    transport.map(|transport| rule(Action::Permit, from, to, transport)).ok_or_else(unsayable)
}

/// Returns the type and the code of ICMP, each matched as a whole or not at all.
fn icmp(value: u16, mask: u16) -> Option<Transport> {
    let part = |value: u8, mask: u8| match mask {
        0 => Some(None),
        0xff => Some(Some(value..=value)),
        _ => None,
    };
    let ([kind, code], [of_kind, of_code]) = (value.to_be_bytes(), mask.to_be_bytes());
    Some(Transport::Icmp { protocol: ICMP, icmp_type: part(kind, of_kind)?, code: part(code, of_code)? })
}
