//! Templates and records of translations (RFC 8158): their beginnings and ends, and packets that found no port or were beyond a limit.

use std::net::IpAddr;

use weir_plane::translation_log::{NatEvent, NatEventKind};

use super::record::{
    DESTINATION_IPV4_ADDRESS, DESTINATION_IPV6_ADDRESS, DESTINATION_TRANSPORT_PORT, Field, PROTOCOL_IDENTIFIER, Record,
    SOURCE_IPV4_ADDRESS, SOURCE_IPV6_ADDRESS, SOURCE_TRANSPORT_PORT,
};

const POST_NAT_SOURCE_IPV4_ADDRESS: Field = (225, 4);
const POST_NAT_DESTINATION_IPV4_ADDRESS: Field = (226, 4);
const POST_NAPT_SOURCE_TRANSPORT_PORT: Field = (227, 2);
const POST_NAPT_DESTINATION_TRANSPORT_PORT: Field = (228, 2);
const NAT_EVENT: Field = (230, 1);
const POST_NAT_SOURCE_IPV6_ADDRESS: Field = (281, 16);
const POST_NAT_DESTINATION_IPV6_ADDRESS: Field = (282, 16);
const OBSERVATION_TIME_MILLISECONDS: Field = (323, 8);
const NAT_QUOTA_EXCEEDED_EVENT: Field = (466, 4);
const MAX_SESSION_ENTRIES: Field = (471, 4);
const MAX_ENTRIES_PER_USER: Field = (473, 4);

/// Of the registry of `natEvent`.
mod event {
    pub(super) const SESSION_CREATE: u8 = 4;
    pub(super) const SESSION_DELETE: u8 = 5;
    pub(super) const PORTS_EXHAUSTED: u8 = 12;
    pub(super) const QUOTA_EXCEEDED: u8 = 13;
}

/// Of the registry of `natQuotaExceededEvent`: the most entries of all, and of a user.
const SESSION_ENTRIES: u32 = 1;
const ENTRIES_PER_USER: u32 = 3;

/// Translations of IPv4 and of IPv6.
const SESSIONS: [u16; 2] = [259, 260];
/// Packets that found no port, likewise.
const EXHAUSTED: [u16; 2] = [261, 262];
/// Packets beyond a limit, likewise.
const LIMITED: [u16; 2] = [263, 264];
/// Packets beyond the limit of a VRF or list, of both families.
const ALL_LIMITED: [u16; 2] = [265, 265];

/// The templates: their numbers and fields.
pub(super) fn templates() -> [(u16, &'static [Field]); 7] {
    const SESSION_V4: &[Field] = &[
        OBSERVATION_TIME_MILLISECONDS,
        NAT_EVENT,
        PROTOCOL_IDENTIFIER,
        SOURCE_IPV4_ADDRESS,
        DESTINATION_IPV4_ADDRESS,
        POST_NAT_SOURCE_IPV4_ADDRESS,
        POST_NAT_DESTINATION_IPV4_ADDRESS,
        SOURCE_TRANSPORT_PORT,
        DESTINATION_TRANSPORT_PORT,
        POST_NAPT_SOURCE_TRANSPORT_PORT,
        POST_NAPT_DESTINATION_TRANSPORT_PORT,
    ];
    const SESSION_V6: &[Field] = &[
        OBSERVATION_TIME_MILLISECONDS,
        NAT_EVENT,
        PROTOCOL_IDENTIFIER,
        SOURCE_IPV6_ADDRESS,
        DESTINATION_IPV6_ADDRESS,
        POST_NAT_SOURCE_IPV6_ADDRESS,
        POST_NAT_DESTINATION_IPV6_ADDRESS,
        SOURCE_TRANSPORT_PORT,
        DESTINATION_TRANSPORT_PORT,
        POST_NAPT_SOURCE_TRANSPORT_PORT,
        POST_NAPT_DESTINATION_TRANSPORT_PORT,
    ];
    const EXHAUSTED_V4: &[Field] = &[
        OBSERVATION_TIME_MILLISECONDS,
        NAT_EVENT,
        PROTOCOL_IDENTIFIER,
        SOURCE_IPV4_ADDRESS,
        POST_NAT_SOURCE_IPV4_ADDRESS,
    ];
    const EXHAUSTED_V6: &[Field] = &[
        OBSERVATION_TIME_MILLISECONDS,
        NAT_EVENT,
        PROTOCOL_IDENTIFIER,
        SOURCE_IPV6_ADDRESS,
        POST_NAT_SOURCE_IPV6_ADDRESS,
    ];
    const LIMITED_V4: &[Field] = &[
        OBSERVATION_TIME_MILLISECONDS,
        NAT_EVENT,
        NAT_QUOTA_EXCEEDED_EVENT,
        MAX_ENTRIES_PER_USER,
        PROTOCOL_IDENTIFIER,
        SOURCE_IPV4_ADDRESS,
    ];
    const LIMITED_V6: &[Field] = &[
        OBSERVATION_TIME_MILLISECONDS,
        NAT_EVENT,
        NAT_QUOTA_EXCEEDED_EVENT,
        MAX_ENTRIES_PER_USER,
        PROTOCOL_IDENTIFIER,
        SOURCE_IPV6_ADDRESS,
    ];
    const OF_ALL: &[Field] =
        &[OBSERVATION_TIME_MILLISECONDS, NAT_EVENT, NAT_QUOTA_EXCEEDED_EVENT, MAX_SESSION_ENTRIES, PROTOCOL_IDENTIFIER];
    [
        (SESSIONS[0], SESSION_V4),
        (SESSIONS[1], SESSION_V6),
        (EXHAUSTED[0], EXHAUSTED_V4),
        (EXHAUSTED[1], EXHAUSTED_V6),
        (LIMITED[0], LIMITED_V4),
        (LIMITED[1], LIMITED_V6),
        (ALL_LIMITED[0], OF_ALL),
    ]
}

/// The record of an event at a time, in nanoseconds of the Unix epoch.
pub(super) fn of(own: &NatEvent, time: u64) -> Record {
    let [(source, source_port), (destination, destination_port)] = own.before;
    let [(post_source, post_source_port), (post_destination, post_destination_port)] = own.after;
    let (templates, event) = match own.kind {
        NatEventKind::Created => (SESSIONS, event::SESSION_CREATE),
        NatEventKind::Ended => (SESSIONS, event::SESSION_DELETE),
        NatEventKind::Exhausted => (EXHAUSTED, event::PORTS_EXHAUSTED),
        NatEventKind::Limited => (LIMITED, event::QUOTA_EXCEEDED),
        NatEventKind::ListLimited | NatEventKind::VrfLimited => (ALL_LIMITED, event::QUOTA_EXCEEDED),
    };
    let quota = match own.kind {
        NatEventKind::Limited => Some(ENTRIES_PER_USER),
        NatEventKind::ListLimited | NatEventKind::VrfLimited => Some(SESSION_ENTRIES),
        _ => None,
    };
    let template = templates[usize::from(source.is_ipv6())];
    let mut octets = (time / 1_000_000).to_be_bytes().to_vec();
    octets.push(event);
    if let Some(quota) = quota {
        octets.extend(quota.to_be_bytes());
        octets.extend(own.limit.unwrap_or(0).to_be_bytes());
    }
    octets.push(own.protocol);
    if !matches!(own.kind, NatEventKind::ListLimited | NatEventKind::VrfLimited) {
        add(&mut octets, source);
    }
    if own.kind == NatEventKind::Exhausted {
        add(&mut octets, post_source);
    }
    if matches!(own.kind, NatEventKind::Created | NatEventKind::Ended) {
        for address in [destination, post_source, post_destination] {
            add(&mut octets, address);
        }
        for port in [source_port, destination_port, post_source_port, post_destination_port] {
            octets.extend(port.to_be_bytes());
        }
    }
    Record { template, octets }
}

fn add(octets: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(address) => octets.extend(address.octets()),
        IpAddr::V6(address) => octets.extend(address.octets()),
    }
}

#[cfg(test)]
mod tests {
    use weir_base::clock::Time;
    use weir_plane::translation_log::{LogTo, RuleId};

    use super::*;

    #[test]
    fn records_are_as_long_as_their_templates_say() {
        let ends = |v6: bool| {
            let (source, destination) = if v6 { ("fd00::5", "2001:db8::9") } else { ("10.0.0.5", "203.0.113.9") };
            [(source.parse().unwrap(), 4000), (destination.parse().unwrap(), 53)]
        };
        for v6 in [false, true] {
            use NatEventKind::*;
            for kind in [Created, Ended, Exhausted, Limited, ListLimited, VrfLimited] {
                let (before, after) = (ends(v6), ends(v6));
                let event = NatEvent {
                    time: Time(0),
                    kind,
                    protocol: 17,
                    zone: 0,
                    before,
                    after,
                    rule: RuleId { list: 0, id: 1 },
                    source_rule: None,
                    limit: Some(7),
                    to: LogTo::LINES,
                };
                let record = of(&event, 1_500_000_000);
                let (_, fields) = *templates().iter().find(|(number, _)| *number == record.template).unwrap();
                let length: u16 = fields.iter().map(|(_, length)| length).sum();
                assert_eq!(record.octets.len(), usize::from(length), "{kind:?}");
                assert_eq!(record.octets[..8], 1500_u64.to_be_bytes());
            }
        }
    }

    #[test]
    fn events_of_limits_have_the_limit_and_those_of_ports_the_outside_address() {
        let at = |address: &str| (address.parse().unwrap(), 9);
        let event = NatEvent {
            time: Time(0),
            kind: NatEventKind::Exhausted,
            protocol: 6,
            zone: 0,
            before: [at("10.0.0.5"), at("203.0.113.9")],
            after: [at("198.51.100.1"), at("203.0.113.9")],
            rule: RuleId { list: 0, id: 1 },
            source_rule: None,
            limit: Some(2000),
            to: LogTo::LINES,
        };
        let of = |kind| {
            let record = of(&NatEvent { kind, ..event }, 0);
            (record.template, record.octets[8..].to_vec())
        };
        assert_eq!(of(NatEventKind::Exhausted), (261, vec![12, 6, 10, 0, 0, 5, 198, 51, 100, 1]));
        assert_eq!(of(NatEventKind::Limited), (263, vec![13, 0, 0, 0, 3, 0, 0, 7, 0xd0, 6, 10, 0, 0, 5]));
        for kind in [NatEventKind::ListLimited, NatEventKind::VrfLimited] {
            assert_eq!(of(kind), (265, vec![13, 0, 0, 0, 1, 0, 0, 7, 0xd0, 6]));
        }
    }

    #[test]
    fn a_beginning_has_both_pairs_of_endpoints() {
        let at = |address: &str, port| (address.parse().unwrap(), port);
        let event = NatEvent {
            time: Time(0),
            kind: NatEventKind::Created,
            protocol: 6,
            zone: 0,
            before: [at("10.0.0.5", 4000), at("203.0.113.9", 443)],
            after: [at("198.51.100.1", 6000), at("203.0.113.9", 8443)],
            rule: RuleId { list: 0, id: 1 },
            source_rule: None,
            limit: None,
            to: LogTo::LINES,
        };
        let record = of(&event, 0);
        let expected: Vec<u8> = [
            &[0; 8][..],
            &[4, 6],
            &[10, 0, 0, 5, 203, 0, 113, 9, 198, 51, 100, 1, 203, 0, 113, 9],
            &[0x0f, 0xa0, 0x01, 0xbb, 0x17, 0x70, 0x20, 0xfb],
        ]
        .concat();
        assert_eq!((record.template, record.octets), (259, expected));
    }
}
