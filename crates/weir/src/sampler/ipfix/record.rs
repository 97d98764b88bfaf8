//! Templates and data records (RFC 7011, 3.4), and which information elements they are made of.

use weir_packet::parse::ParseFlags;
use weir_packet::wire::protocol;
use weir_plane::sample::{Cause, Sample, Treatment};
use weir_plane::sav::By;

/// Sets of templates and of options templates (RFC 7011, 3.3.2).
const TEMPLATE_SET: u16 = 2;
const OPTIONS_SET: u16 = 3;

/// Our templates.
pub(super) const IPV4: u16 = 256;
pub(super) const IPV6: u16 = 257;
pub(super) const INTERFACE: u16 = 258;
// Those of translations follow: see `translation`.

/// A length that each record says itself (RFC 7011, 7).
const VARIABLE: u16 = u16::MAX;

/// Information elements, by their numbers at IANA, and the octets that we send of them.
pub(super) type Field = (u16, u16);
pub(super) const PROTOCOL_IDENTIFIER: Field = (4, 1);
pub(super) const SOURCE_TRANSPORT_PORT: Field = (7, 2);
pub(super) const SOURCE_IPV4_ADDRESS: Field = (8, 4);
const INGRESS_INTERFACE: Field = (10, 4);
pub(super) const DESTINATION_TRANSPORT_PORT: Field = (11, 2);
pub(super) const DESTINATION_IPV4_ADDRESS: Field = (12, 4);
pub(super) const SOURCE_IPV6_ADDRESS: Field = (27, 16);
pub(super) const DESTINATION_IPV6_ADDRESS: Field = (28, 16);
const INTERFACE_NAME: Field = (82, VARIABLE);
const FORWARDING_STATUS: Field = (89, 1);
/// 64 bits, of which 32 are enough (RFC 7011, 6.2).
const IP_TOTAL_LENGTH: Field = (224, 4);
const SAMPLING_PROBABILITY: Field = (311, 8);
const DATA_LINK_FRAME_SIZE: Field = (312, 2);
const DATA_LINK_FRAME_SECTION: Field = (315, VARIABLE);
const OBSERVATION_TIME_NANOSECONDS: Field = (325, 8);
const DATA_LINK_FRAME_TYPE: Field = (408, 2);

/// The fields of a sample's record in front of the addresses, in order.
const BEFORE: &[Field] = &[OBSERVATION_TIME_NANOSECONDS, INGRESS_INTERFACE];
const BEHIND: &[Field] = &[
    SOURCE_TRANSPORT_PORT,
    DESTINATION_TRANSPORT_PORT,
    PROTOCOL_IDENTIFIER,
    FORWARDING_STATUS,
    IP_TOTAL_LENGTH,
    SAMPLING_PROBABILITY,
    DATA_LINK_FRAME_SIZE,
    DATA_LINK_FRAME_TYPE,
    DATA_LINK_FRAME_SECTION,
];

/// Ethernet, of the registry of `dataLinkFrameType` (RFC 7133).
const ETHERNET: u16 = 1;

/// Of the registry of `forwardingStatus` (RFC 7270, 4.12).
mod status {
    pub(super) const FORWARDED: u8 = 64;
    pub(super) const DROPPED: u8 = 128;
    pub(super) const ACL_DENY: u8 = 129;
    pub(super) const POLICER: u8 = 138;
    pub(super) const RPF: u8 = 140;
}

/// Seconds from 1900, where NTP's time begins, to 1970 (RFC 5905, 6).
const NTP_TO_UNIX: u64 = 2_208_988_800;

/// A data record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    /// The template that it goes by.
    pub(super) template: u16,
    pub(super) octets: Vec<u8>,
}

/// The sets of templates: their numbers, and what they hold. `more` are other templates of data records, by number.
pub(super) fn templates(more: &[(u16, &[Field])]) -> [(u16, Vec<u8>); 2] {
    let mut samples = Vec::new();
    for (number, addresses) in [
        (IPV4, [SOURCE_IPV4_ADDRESS, DESTINATION_IPV4_ADDRESS]),
        (IPV6, [SOURCE_IPV6_ADDRESS, DESTINATION_IPV6_ADDRESS]),
    ] {
        let fields = [BEFORE, &addresses, BEHIND].concat();
        samples.extend(number.to_be_bytes());
        samples.extend((fields.len() as u16).to_be_bytes());
        specify(&mut samples, &fields);
    }
    for &(number, fields) in more {
        samples.extend(number.to_be_bytes());
        samples.extend((fields.len() as u16).to_be_bytes());
        specify(&mut samples, fields);
    }
    let fields = [INGRESS_INTERFACE, INTERFACE_NAME];
    let mut options = Vec::new();
    options.extend(INTERFACE.to_be_bytes());
    options.extend((fields.len() as u16).to_be_bytes());
    // The scope: the first field.
    options.extend(1_u16.to_be_bytes());
    specify(&mut options, &fields);
    [(TEMPLATE_SET, samples), (OPTIONS_SET, options)]
}

fn specify(octets: &mut Vec<u8>, fields: &[Field]) {
    for (element, length) in fields {
        octets.extend(element.to_be_bytes());
        octets.extend(length.to_be_bytes());
    }
}

/// The name of an interface.
pub(super) fn interface(number: u32, name: &str) -> Record {
    let mut octets = number.to_be_bytes().to_vec();
    variable(&mut octets, name.as_bytes());
    Record { template: INTERFACE, octets }
}

/// A sample of a packet that came at this time, in nanoseconds of the Unix epoch. `None`: it has no IP header.
pub(super) fn of(sample: &Sample, time: u64) -> Option<Record> {
    let (frame, parsed) = (sample.frame(), &sample.parsed);
    let header = frame.get(usize::from(parsed.l3)..)?;
    let (template, addresses) = match header.first()? >> 4 {
        4 => (IPV4, header.get(12..20)?),
        6 => (IPV6, header.get(8..40)?),
        _ => return None,
    };
    let mut octets = Vec::with_capacity(80 + frame.len());
    octets.extend(ntp(time).to_be_bytes());
    octets.extend(sample.interface.to_be_bytes());
    octets.extend(addresses);
    octets.extend(ports(sample));
    octets.push(parsed.protocol);
    octets.push(status(sample));
    octets.extend(sample.length.saturating_sub(u32::from(parsed.l3)).to_be_bytes());
    octets.extend((1.0 / f64::from(sample.one_in.max(1))).to_be_bytes());
    octets.extend(u16::try_from(sample.length).unwrap_or(u16::MAX).to_be_bytes());
    octets.extend(ETHERNET.to_be_bytes());
    variable(&mut octets, frame);
    Some(Record { template, octets })
}

/// The ports as they stand in the packet; zeros where it has none, or they were not kept.
fn ports(sample: &Sample) -> [u8; 4] {
    let parsed = &sample.parsed;
    let present = parsed.flags.contains(ParseFlags::L4) && protocol::has_ports(parsed.protocol);
    let found = sample.frame().get(usize::from(parsed.l4)..).and_then(<[u8]>::first_chunk);
    found.filter(|_| present).copied().unwrap_or_default()
}

fn status(sample: &Sample) -> u8 {
    match (sample.treatment, sample.cause) {
        (Treatment::Passed | Treatment::Redirected, _) => status::FORWARDED,
        (Treatment::RateLimited, _) => status::POLICER,
        (Treatment::Dropped, Cause::Logged { .. } | Cause::Classified { .. } | Cause::Invalid { by: By::Acl, .. }) => {
            status::ACL_DENY
        }
        // A source that may not enter here: the reason is RPF, whatever the mechanism.
        (Treatment::Dropped, Cause::Invalid { by, .. }) => match by {
            By::UrpfStrict | By::UrpfLoose | By::UrpfFeasible | By::Table => status::RPF,
            _ => status::DROPPED,
        },
    }
}

/// Nanoseconds of the Unix epoch as a timestamp of NTP: seconds modulo 2³², and their fraction (RFC 7011, 6.1.9).
fn ntp(time: u64) -> u64 {
    let (seconds, nanoseconds) = (time / 1_000_000_000 + NTP_TO_UNIX, time % 1_000_000_000);
    // Rounded up, so that the nanosecond comes out again.
    (seconds << 32) | (nanoseconds << 32).div_ceil(1_000_000_000)
}

/// Octets with their length in front (RFC 7011, 7).
fn variable(octets: &mut Vec<u8>, value: &[u8]) {
    match u8::try_from(value.len()) {
        Ok(length) if length < 255 => octets.push(length),
        _ => {
            octets.push(255);
            octets.extend((value.len() as u16).to_be_bytes());
        }
    }
    octets.extend(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_count_from_1900() {
        assert_eq!(ntp(0), NTP_TO_UNIX << 32);
        assert_eq!(ntp(1_500_000_000), ((NTP_TO_UNIX + 1) << 32) | (1 << 31));
        // RFC 5905, figure 4: 7 February 2036, 06:28:16, where the next era begins.
        assert_eq!(ntp(2_085_978_496_000_000_000) >> 32, 0);
        for nanoseconds in [1, 999, 123_456_789, 999_999_999] {
            assert_eq!(((ntp(nanoseconds) & 0xffff_ffff) * 1_000_000_000) >> 32, nanoseconds);
        }
    }

    #[test]
    fn lengths_take_one_octet_or_three() {
        let encode = |length: usize| {
            let mut octets = Vec::new();
            variable(&mut octets, &vec![7; length]);
            (octets[..octets.len() - length].to_vec(), octets.len())
        };
        assert_eq!(encode(0), (vec![0], 1));
        assert_eq!(encode(254), (vec![254], 255));
        assert_eq!(encode(255), (vec![255, 0, 255], 258));
        assert_eq!(encode(256), (vec![255, 1, 0], 259));
    }
}
