//! Lists and tables of policies.

use weir_plane::model::PerFamily;
use weir_plane::stats::*;
use weir_port::Filters;

use super::super::acl::{Acls, Chain, Hits, List, WorstLookup};
use super::super::classify::Classify;

/// An SPD.
pub(crate) fn spds() -> Vec<SpdStats> {
    use weir_plane::model::{AclAction, AclRule, Addresses, IpFamily, SaIndex, SpdAction, SpdRule};
    let any = AclRule::all(AclAction::Permit, Default::default());
    let bypass = SpdRule {
        action: SpdAction::Bypass,
        matches: AclRule {
            family: Some(IpFamily::V4),
            from: Addresses::Net("10.0.0.0/8".parse().unwrap()),
            ..any.clone()
        },
        names_family: true,
        opaque: (false, false),
        shared: false,
        rekeys: None,
        priority: 5,
        comment: None,
    };
    let protect = SpdRule {
        action: SpdAction::Protect(SaIndex(0)),
        matches: any,
        names_family: false,
        priority: 0,
        comment: Some("the rest".into()),
        ..bypass
    };
    let traffic = |packets, bytes| Traffic { packets, bytes };
    let row = |rule, (output, input), sa: Option<&str>, line: u32| SpdRuleRow {
        rule,
        sa: sa.map(Into::into),
        output,
        input,
        origin: format!("edge.toml:{line}"),
    };
    vec![SpdStats {
        name: "edge".into(),
        interfaces: vec!["wan".into(), "dmz".into()],
        rules: vec![
            row(bypass, (traffic(12, 1200), traffic(3, 240)), None, 11),
            row(protect, (traffic(0, 0), traffic(0, 0)), Some("east"), 10),
        ],
        caches: vec![SpdCacheRow {
            output: true,
            family: IpFamily::V4,
            places: 4096,
            entries: 5,
            hits: 6,
            misses: 7,
            stale: 8,
            overwritten: 9,
        }],
        origin: "edge.toml:9".into(),
    }]
}

/// A list of steer rules.
pub(crate) fn steer() -> Vec<SteerStats> {
    use weir_plane::model::{
        AclAction, AclRule, Addresses, InterfaceIndex, IpFamily, NextHop, SteerRule, SteerWay, Transport,
    };
    let any = AclRule::all(AclAction::Permit, Default::default());
    let rest = SteerRule {
        count: true,
        mark: None,
        way: SteerWay::On,
        unchecked: false,
        vlan: None,
        id: None,
        octets: None,
        macs: Default::default(),
        inner: None,
        frame: None,
        matches: any.clone(),
        names_family: false,
        comment: Some("the rest".into()),
    };
    let redirect = SteerRule {
        count: false,
        mark: Some(7),
        way: SteerWay::To {
            hop: NextHop { interface: InterfaceIndex(2), address: None, weight: 1 },
            interface: Some("dpi".into()),
        },
        matches: AclRule {
            family: Some(IpFamily::V4),
            from: Addresses::Net("10.0.0.0/8".parse().unwrap()),
            transport: Transport::Protocol(17),
            ..any
        },
        names_family: true,
        comment: None,
        ..rest.clone()
    };
    let row = |id, rule, (packets, bytes), line: u32| SteerRuleRow {
        id,
        rule,
        matched: Traffic { packets, bytes },
        origin: format!("edge.toml:{line}"),
    };
    // EOPNOTSUPP of Linux.
    let at = |name: &str, filters| SteerPlace { name: name.into(), filters };
    vec![SteerStats {
        name: "edge".into(),
        interfaces: vec![at("wan", Filters::Refused(95)), at("dmz", Filters::None)],
        rules: vec![row(1, redirect, (12, 1200), 10), row(2, rest, (0, 0), 11)],
        origin: "edge.toml:9".into(),
    }]
}

pub(crate) fn allowlists() -> Vec<AllowlistStats> {
    let interfaces = |names: &[&str]| names.iter().map(ToString::to_string).collect();
    let own = AllowlistStats {
        name: "customers".into(),
        vrf: None,
        prefixes: (3, 1),
        octets: 2048,
        interfaces: PerFamily { v4: interfaces(&["wan", "lan"]), v6: interfaces(&["wan"]) },
        passed: 1000,
        refused: 7,
        origin: "edge.toml:50".into(),
    };
    let routed = AllowlistStats {
        name: "routed".into(),
        vrf: Some("blue".into()),
        prefixes: (0, 0),
        octets: 0,
        interfaces: PerFamily { v4: vec![], v6: vec![] },
        passed: 0,
        refused: 0,
        origin: "edge.toml:54".into(),
    };
    vec![own, routed]
}

pub(crate) fn classify() -> Classify {
    use crate::render::classify::{Session, Table};
    let session = |session: &str, packets, idle, line| Session {
        session: session.to_owned(),
        packets,
        bytes: 100 * packets,
        idle,
        opaque: 0,
        origin: format!("edge.toml:{line}"),
    };
    Classify {
        tables: vec![Table {
            name: "edge".into(),
            mask: "l3 ip4 src/24 proto".into(),
            sessions: 3,
            size: 1024,
            bytes: 2048,
            input: vec!["wan".into()],
            output: vec![],
            next: None,
            miss: Some("permit".into()),
            matched: 17,
            missed: 4,
            origin: "edge.toml:50".into(),
            rows: Some(vec![
                session("src 192.0.2.0 proto udp deny", 17, Some(2.5), 52),
                session("src 198.51.100.0 proto 6 permit", 0, None, 53),
            ]),
        }],
    }
}

pub(crate) fn bindings() -> Vec<BindingsStats> {
    let traffic = |packets| Traffic { packets, bytes: 64 * packets };
    let row = |id, permit, mac: &str, mac_length, from: Option<&str>, packets| BindingRow {
        id,
        permit,
        mac: mac.into(),
        mac_length,
        from: from.map(|from| from.parse().unwrap()),
        matched: traffic(packets),
        origin: format!("edge.toml:{}", 60 + id),
    };
    vec![BindingsStats {
        name: "cust".into(),
        interfaces: vec!["lan".into()],
        rules: vec![
            row(1, true, "02:00:00:00:00:01", 48, Some("10.0.0.1/32"), 12),
            row(2, true, "02:00:5e:00:00:00", 24, Some("2001:db8::/32"), 3),
            row(3, false, "00:00:00:00:00:00", 0, None, 0),
        ],
        unmatched: traffic(7),
        octets: 2048,
        limit: None,
        learned: Vec::new(),
        not_learned: 0,
        refused: Vec::new(),
        prefixes: Vec::new(),
        origin: "edge.toml:60".into(),
    }]
}

pub(crate) fn ethertypes() -> Vec<EthertypeStats> {
    let row = |interface: &str, direction, ethertypes: Option<&[u16]>, refused, origin: &str| EthertypeStats {
        interface: interface.into(),
        direction,
        ethertypes: ethertypes.map(<[u16]>::to_vec),
        refused,
        origin: origin.into(),
    };
    vec![
        row("lan", "in", Some(&[0x0800, 0x0806, 0x86dd, 0x9000]), 7, "edge.toml:70"),
        row("lan", "out", Some(&[]), 0, "edge.toml:70"),
        row("wan", "out", None, 3, ""),
    ]
}

pub(crate) fn acls() -> Acls {
    let hits = |packets| Hits { packets, bytes: 64 * packets };
    let list = List {
        name: "edge-in".into(),
        default: "deny".into(),
        rules: 2,
        live: 1,
        matched: hits(12),
        unmatched: hits(5),
        input: vec!["wan".into()],
        output: vec![],
        origin: "edge.toml:40".into(),
    };
    let chain = |family: &str| Chain {
        lists: vec!["edge-in".into()],
        input: vec!["wan".into()],
        output: vec![],
        family: family.into(),
        boxes: 2,
        bytes: 2048,
        needs_transport: family == "ipv4",
        is_last: true,
        worst_lookup: WorstLookup { ticks: 7, nodes: 0, overlapping: 0 },
    };
    Acls { lists: vec![list], groups: vec![], chains: vec![chain("ipv4"), chain("ipv6")] }
}
