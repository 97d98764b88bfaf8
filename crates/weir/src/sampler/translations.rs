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
    /// The VRF that the first packet came in by, if it is not the default one.
    vrf: Option<Arc<str>>,
    /// The lists of its rules.
    lists: [Option<Arc<str>>; 2],
}

/// Logs an event. `vrf` is the VRF that the first packet came in by, `lists` are the lists of its rule and of the rule that gave
/// the source.
pub(super) fn log(event: &NatEvent, vrf: Option<Arc<str>>, lists: [Option<Arc<str>>; 2]) {
    let line = Line { event, vrf: vrf.filter(|name| **name != *"default"), lists };
    match event.kind {
        NatEventKind::Created | NatEventKind::Ended => tracing::info!("{line}"),
        NatEventKind::Exhausted | NatEventKind::Limited | NatEventKind::ListLimited | NatEventKind::VrfLimited => {
            tracing::warn!("{line}");
        }
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
            NatEventKind::ListLimited => f.write_str("nat-list-limit: too many translations of its list for ")?,
            NatEventKind::VrfLimited => f.write_str("nat-vrf-limit: too many translations of its VRF for ")?,
        }
        match protocol::NAMES.name(protocol) {
            Some(name) => write!(f, "{name} ")?,
            None => write!(f, "protocol {protocol} ")?,
        }
        write!(f, "from {}", self.ends(before))?;
        if matches!(kind, NatEventKind::Created | NatEventKind::Ended) {
            write!(f, " as {}", self.ends(after))?;
        }
        if let Some(vrf) = &self.vrf {
            write!(f, ", vrf {vrf}")?;
        }
        let rules = [Some(self.event.rule), self.event.source_rule];
        let named = self.lists.iter().zip(rules).filter_map(|(list, rule)| list.as_ref().zip(rule));
        named.into_iter().try_for_each(|(list, rule)| write!(f, ", nat {list} rule {}", rule.id))
    }
}

#[cfg(test)]
mod tests {
    use weir_base::clock::Time;
    use weir_plane::translation_log::{LogTo, RuleId};

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
            zone: 0,
            before,
            after,
            rule: RuleId { list: 0, id: 2 },
            source_rule: None,
            limit: None,
            to: LogTo::LINES,
        };
        let line = |kind, protocol, id: Option<u32>| {
            let rule = RuleId { list: 0, id: id.unwrap_or_default() };
            let (vrf, list) = ((protocol == 47).then(|| Arc::from("red")), id.map(|_| Arc::from("edge")));
            Line { event: &NatEvent { kind, protocol, rule, ..event }, vrf, lists: [list, None] }.to_string()
        };
        let hairpin = NatEvent { source_rule: Some(RuleId { list: 1, id: 6 }), ..event };
        let lists = [Some(Arc::from("edge")), Some(Arc::from("dmz"))];
        assert!(Line { event: &hairpin, vrf: None, lists }.to_string().ends_with(", nat edge rule 2, nat dmz rule 6"));
        assert_eq!(
            line(NatEventKind::Created, 17, Some(2)),
            "nat: created udp from 10.0.0.5:4000 to 203.0.113.9:53 as 198.51.100.1:6000 to 203.0.113.9:53, nat edge rule 2"
        );
        assert_eq!(
            line(NatEventKind::Ended, 47, None),
            "nat: ended gre from 10.0.0.5 to 203.0.113.9 as 198.51.100.1 to 203.0.113.9, vrf red"
        );
        assert_eq!(
            line(NatEventKind::Exhausted, 6, Some(1)),
            "nat-exhausted: no free port for tcp from 10.0.0.5:4000 to 203.0.113.9:53, nat edge rule 1"
        );
    }
}
