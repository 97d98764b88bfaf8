//! Sessions and translations.

use std::time::Duration;

use weir_plane::stats::*;

/// A session.
pub(crate) fn flows() -> Flows {
    let rule = FlowRule {
        interface: "wan".into(),
        output: true,
        list: Some("to-outside".into()),
        number: Some(3),
        origin: Some("edge.toml:20".into()),
    };
    let row = FlowRow {
        worker: 0,
        zone: (2, "inside".into()),
        protocol: 6,
        state: "established",
        half_open: false,
        source: "192.0.2.5".parse().unwrap(),
        destination: "203.0.113.1".parse().unwrap(),
        ports: Some((1000, 443)),
        request: None,
        received_on: "lan".into(),
        rules: vec![rule],
        age: Duration::from_secs(3600),
        idle: Duration::from_millis(250),
        expires: Duration::from_secs(86_400),
        packets: [100, 99],
        bytes: [5200, 148_000],
        slow: [None, Some("new")],
    };
    let fast_path = FastPath {
        decisions: 3,
        learned: 6,
        octets: 4096,
        hits: 1200,
        new: 5,
        changed: [0, 0, 2, 0, 0],
        excluded: 7,
        ..FastPath::default()
    };
    Flows {
        rows: vec![row],
        total: 1,
        all: 1,
        counted: SessionsCounted {
            opened: 40,
            open: 1,
            expired: 28,
            replaced: 9,
            revoked: 0,
            renewed: 1,
            ..Default::default()
        },
        fast_path,
    }
}

/// A rule that translates, a translation of it, and its addresses.
pub(crate) fn nat() -> (Vec<NatStats>, Translations, Vec<NatPool>) {
    let rule = weir_plane::model::NatRule {
        verb: weir_plane::model::NatVerb::Source,
        matches: weir_plane::model::AclRule {
            family: Some(weir_plane::model::IpFamily::V4),
            from: weir_plane::model::Addresses::Net("10.0.0.0/8".parse().unwrap()),
            ..weir_plane::model::AclRule::all(weir_plane::model::AclAction::Permit, Default::default())
        },
        to_interface: false,
        source: Some(weir_plane::model::NatTarget {
            addresses: Some(weir_plane::model::Addresses::Net("198.51.100.9/32".parse().unwrap())),
            ports: None,
        }),
        destination: None,
        preserve: false,
        parity: false,
        log: false,
        limit_per_address: Some(2),
        comment: None,
    };
    let origin = "edge.toml:11".to_owned();
    let row = NatRuleRow {
        id: 7,
        rule,
        packets: 12,
        bytes: 1200,
        opened: 3,
        exhausted: 1,
        clamped: 2,
        limited: 4,
        origin: origin.clone(),
    };
    let rules = NatStats {
        name: "edge".into(),
        interfaces: vec!["wan".into()],
        limit: Some(2000),
        held: Some(3),
        limited: 7,
        mss_clamp: Some(weir_plane::model::MssClamp::Value(1400)),
        mapping: weir_plane::model::NatMapping::EndpointIndependent(Default::default()),
        rules: vec![row],
        origin: "edge.toml:9".into(),
    };
    let before = NatEnds {
        source: "10.0.0.5".parse().unwrap(),
        destination: "203.0.113.9".parse().unwrap(),
        ports: Some((4000, 53)),
        identifier: None,
    };
    let after = NatEnds { source: "198.51.100.9".parse().unwrap(), ports: Some((50_000, 53)), ..before };
    let translation = TranslationRow {
        worker: 0,
        protocol: 17,
        state: "stream",
        half_open: false,
        vrfs: ["red".into(), "default".into()],
        zones: [1, 0],
        icmp_type: None,
        before,
        after,
        received_on: "lan".into(),
        list: Some("edge".into()),
        rule: Some(7),
        origin: Some(origin.clone()),
        source_by: None,
        age: Duration::from_secs(10),
        idle: Duration::from_secs(1),
        expires: Duration::from_secs(119),
        packets: [3, 2],
        bytes: [300, 200],
        slow: [None, None],
    };
    let pool = NatPool {
        list: "edge".into(),
        rule: 7,
        interface: "wan".into(),
        addresses: 1,
        ports: None,
        translations: 2,
        addresses_used: 1,
        greatest: vec![("198.51.100.9".parse().unwrap(), 2)],
        exhausted: 1,
        exhausted_by: vec![NatExhausted { address: "198.51.100.9".parse().ok(), protocol: "tcp", packets: 1 }],
        origin,
    };
    (vec![rules], Translations { rows: vec![translation], total: 2, all: 2 }, vec![pool])
}

pub(crate) fn nat_vrfs() -> Vec<NatVrf> {
    let red = NatVrf { vrf: "red".into(), translations: 3, limit: Some(4), limited: 7 };
    vec![NatVrf { vrf: "default".into(), translations: 0, limit: None, limited: 0 }, red]
}

pub(crate) fn nat_users() -> Vec<NatUser> {
    let user = NatUser {
        list: "edge".into(),
        rule: 7,
        interface: "wan".into(),
        vrf: "red".into(),
        address: "10.0.0.5".parse().unwrap(),
        translations: 2,
        limit: Some(2),
        origin: "edge.toml:11".into(),
    };
    vec![user.clone(), NatUser { address: "fd00::5".parse().unwrap(), translations: 1, limit: None, ..user }]
}
