//! Source address validation, samplers and alarms.

use weir_plane::stats::*;

pub(crate) fn sav_policies() -> Vec<SavPolicyStats> {
    let table = |family, prefixes, sets, lookup_octets, control_octets| SavTableStats {
        family,
        prefixes: (prefixes, 2_000_000),
        sets: (sets, 16_384),
        lookup_octets,
        control_octets,
    };
    let edge = SavPolicyStats {
        name: "edge".into(),
        mechanism: "table",
        action: "discard",
        stage: None,
        matching: Some("most-specific"),
        layout: Some("merged"),
        incremental: true,
        rules: Some([1, 0, 2, 0]),
        rate_limit: None,
        redirect: vec![],
        sample: None,
        exempt: 0,
        link_check: "off",
        alarm: None,
        origin: "edge.toml:40".into(),
        tables: vec![table("ipv4", 3, 2, 1_572_864, 640), table("ipv6", 1, 1, 2048, 320)],
        sources: vec![("file".into(), 3), ("api".into(), 1)],
        dynamic_octets: 224,
        hits_octets: 1024,
        limit_octets: 0,
    };
    let core = SavPolicyStats {
        name: "core".into(),
        mechanism: "urpf-strict",
        action: "permit",
        stage: Some(("rate-limit", 1_763_718_401)),
        matching: None,
        layout: None,
        incremental: false,
        rules: None,
        rate_limit: Some(weir_plane::model::RateLimit {
            unit: weir_plane::model::RateUnit::Bits,
            rate: 10_000_000,
            burst: 1_000_000,
            per: weir_plane::model::RatePer::Interface,
        }),
        redirect: vec![("ipv4", Some("198.51.100.9".parse().unwrap()), "wan".into()), ("ipv6", None, "lan".into())],
        sample: Some((100, "lab".into())),
        exempt: 2,
        link_check: "known",
        alarm: Some(weir_plane::model::Alarm { packets: 1000, window: 10 }),
        origin: "edge.toml:44".into(),
        tables: vec![],
        sources: vec![],
        dynamic_octets: 0,
        hits_octets: 0,
        limit_octets: 0,
    };
    vec![edge, core]
}

pub(crate) fn sav_entries() -> Vec<SavEntryRow> {
    let row = SavEntryRow {
        prefix: "192.0.2.0/24".parse().unwrap(),
        interfaces: vec!["wan".into(), "lan".into()],
        scope: weir_plane::model::Scope::Prefix,
        permit: true,
        source: "file".into(),
        origin: "edge.toml:41".into(),
        time: None,
        hits: Some(12),
    };
    let denied = SavEntryRow {
        prefix: "2001:db8::/32".parse().unwrap(),
        interfaces: vec!["wan".into()],
        permit: false,
        origin: "customers.csv:7".into(),
        hits: Some(0),
        ..row.clone()
    };
    let said = SavEntryRow {
        prefix: "192.0.2.64/26".parse().unwrap(),
        interfaces: vec!["lan".into()],
        source: "api".into(),
        origin: String::new(),
        time: Some(1_763_718_401),
        hits: None,
        ..row.clone()
    };
    vec![row, denied, said]
}

pub(crate) fn samplers() -> (Vec<SamplerStats>, Vec<crate::sampler::Status>) {
    use crate::sampler::{IpfixStatus, PcapStatus, Sent, Status, Written};
    let stats = vec![
        SamplerStats { name: "spoofed".into(), offered: 100_000, taken: 990, over_rate: 7, ring_full: 3 },
        SamplerStats { name: "quiet".into(), ..SamplerStats::default() },
    ];
    let status = vec![
        Status {
            name: "spoofed".into(),
            pcap: Some(PcapStatus {
                path: "/var/log/weir/spoofed.pcap".into(),
                length: 1536,
                written: Written { samples: 980, bytes: 101_536, lost: 10, rotations: 2 },
                failure: Some("/var/log/weir/spoofed.pcap: No space left on device".into()),
            }),
            ipfix: Some(IpfixStatus {
                address: "192.0.2.1:4739".parse().unwrap(),
                sent: Sent { samples: 985, messages: 250, bytes: 100_000, lost: 5, refused: 0 },
                failure: None,
            }),
            astray: 0,
        },
        Status {
            name: "quiet".into(),
            pcap: None,
            ipfix: Some(IpfixStatus {
                address: "[2001:db8::1]:4739".parse().unwrap(),
                sent: Sent::default(),
                failure: None,
            }),
            astray: 0,
        },
    ];
    (stats, status)
}

pub(crate) fn alarms() -> weir_plane::alarm::Alarms {
    use weir_base::clock::Time;
    use weir_plane::alarm::{Alarms, Reading};
    let reading = |interface: &str, packets| Reading {
        interface: interface.into(),
        policy: "edge".into(),
        families: weir_plane::model::PerFamily { v4: true, v6: true },
        alarm: weir_plane::model::Alarm { packets: 100, window: 10 },
        packets,
    };
    let mut alarms = Alarms::default();
    alarms.step(Time(0), 1_795_255_200, &[reading("wan", 5), reading("lan", 5)]);
    alarms.step(Time(10_000_000_000), 1_795_255_210, &[reading("wan", 5), reading("lan", 2005)]);
    alarms
}
