//! Translations as lines of the log.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use weir_packet::wire::protocol;
use weir_plane::engine::endpoint;
use weir_plane::translation_log::{Ends, NatEvent, NatEventKind};

/// An event in words.
struct Line<'a> {
    event: &'a NatEvent,
    /// The list of its rule, and the rule's place there.
    rule: Option<(Arc<str>, u32)>,
}

/// Logs an event. `rule` is the list of its rule, and the rule's place there.
pub(super) fn log(event: &NatEvent, rule: Option<(Arc<str>, u32)>) {
    let line = Line { event, rule };
    match event.kind {
        NatEventKind::Created | NatEventKind::Ended => tracing::info!("{line}"),
        NatEventKind::Exhausted | NatEventKind::Limited => tracing::warn!("{line}"),
    }
}

impl Line<'_> {
    /// An address with its port or identifier, if the protocol has these.
    fn end(&self, (address, word): (IpAddr, u16)) -> String {
        let protocol = self.event.protocol;
        match protocol {
            protocol::ICMP | protocol::ICMPV6 => format!("{address} id {word}"),
            _ => endpoint(address, protocol::has_ports(protocol).then_some(word)),
        }
    }

    fn ends(&self, [source, destination]: Ends) -> String {
        format!("{} to {}", self.end(source), self.end(destination))
    }
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NatEvent { kind, protocol, before, after, .. } = *self.event;
        match kind {
            NatEventKind::Created => f.write_str("nat: created ")?,
            NatEventKind::Ended => f.write_str("nat: ended ")?,
            NatEventKind::Exhausted => f.write_str("nat-exhausted: no free port for ")?,
            NatEventKind::Limited => f.write_str("nat-limit: too many translations for ")?,
        }
        match protocol::NAMES.name(protocol) {
            Some(name) => write!(f, "{name} ")?,
            None => write!(f, "protocol {protocol} ")?,
        }
        write!(f, "from {}", self.ends(before))?;
        if matches!(kind, NatEventKind::Created | NatEventKind::Ended) {
            write!(f, " as {}", self.ends(after))?;
        }
        match &self.rule {
            Some((list, place)) => write!(f, ", nat {list} rule {place}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_base::clock::Time;
    use weir_plane::translation_log::LogTo;

    use super::*;

    #[test]
    fn lines_name_endpoints_and_rules() {
        let at = |address: &str, port| (address.parse().unwrap(), port);
        let before = [at("10.0.0.5", 4000), at("203.0.113.9", 53)];
        let after = [at("198.51.100.1", 6000), at("203.0.113.9", 53)];
        let event = NatEvent {
            time: Time(0),
            kind: NatEventKind::Created,
            protocol: 17,
            before,
            after,
            rule: (0, 0),
            to: LogTo::LINES,
        };
        let line = |kind, protocol, rule: Option<u32>| {
            let rule = rule.map(|place| (Arc::from("edge"), place));
            Line { event: &NatEvent { kind, protocol, ..event }, rule }.to_string()
        };
        assert_eq!(
            line(NatEventKind::Created, 17, Some(2)),
            "nat: created udp from 10.0.0.5:4000 to 203.0.113.9:53 as 198.51.100.1:6000 to 203.0.113.9:53, nat edge rule 2"
        );
        assert_eq!(
            line(NatEventKind::Ended, 47, None),
            "nat: ended gre from 10.0.0.5 to 203.0.113.9 as 198.51.100.1 to 203.0.113.9"
        );
        assert_eq!(
            line(NatEventKind::Exhausted, 6, Some(1)),
            "nat-exhausted: no free port for tcp from 10.0.0.5:4000 to 203.0.113.9:53, nat edge rule 1"
        );
    }
}
