//! A made-up snapshot for tests of rendering.

use std::time::Duration;

use weir_plane::engine::{TraceRow, TraceStep};
use weir_plane::model::{Lifetime, Lifetimes, PerFamily};
use weir_plane::stats::*;

use super::acl::{Acls, Chain, Hits, List, WorstLookup};
use super::classify::Classify;

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
    let fast_path =
        FastPath { learned: 3, octets: 4096, hits: 1200, new: 5, changed: 2, excluded: 7, ..FastPath::default() };
    Flows {
        rows: vec![row],
        total: 1,
        counted: SessionsCounted { opened: 40, expired: 30, replaced: 9, revoked: 0 },
        fast_path,
    }
}

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
        matches: any.clone(),
        names_family: false,
        comment: Some("the rest".into()),
    };
    let redirect = SteerRule {
        count: false,
        mark: Some(7),
        way: SteerWay::To {
            hop: NextHop { interface: InterfaceIndex(2), address: None, weight: 1 },
            names_interface: true,
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
    let row = |rule, interface: Option<&str>, (packets, bytes), line: u32| SteerRuleRow {
        rule,
        interface: interface.map(Into::into),
        matched: Traffic { packets, bytes },
        origin: format!("edge.toml:{line}"),
    };
    vec![SteerStats {
        name: "edge".into(),
        interfaces: vec!["wan".into(), "dmz".into()],
        rules: vec![row(redirect, Some("dpi"), (12, 1200), 10), row(rest, None, (0, 0), 11)],
        origin: "edge.toml:9".into(),
    }]
}

/// A pair of SAs, one direction of which has lost packets.
pub(crate) fn sas() -> Vec<SaStats> {
    vec![SaStats {
        name: "east".to_owned(),
        mode: weir_plane::model::SaMode::Tunnel,
        local: "198.51.100.1".parse().unwrap(),
        remote: "203.0.113.1".parse().unwrap(),
        vrf: "default".to_owned(),
        algorithm: "aes128gcm16".parse().unwrap(),
        esn: true,
        encapsulation: None,
        interface: None,
        outbound: Some(SaDirection {
            spi: 0x1001,
            engine: "aws-lc",
            packets: 900,
            bytes: 81_000,
            next: 901,
            reserved: Some(1_048_577),
            exhausted: 0,
            unreserved: 0,
            path_mtu: Some(weir_plane::stats::PathMtu { mtu: 1400, left: std::time::Duration::from_secs(540) }),
            dummies: 0,
            life: Some(SaLife { age: Duration::from_secs(3700), phase: SaPhase::Soft("time") }),
        }),
        inbound: Some(SaInbound {
            spi: 0x2001,
            engine: "aws-lc",
            packets: 800,
            bytes: 72_000,
            highest: 810,
            window: 64,
            replayed: 3,
            lost: 7,
            auth_failed: 0,
            malformed: 0,
            dummies: 0,
            selector: 0,
            life: Some(SaLife { age: Duration::from_secs(60), phase: SaPhase::Fresh }),
        }),
        keepalives: 0,
        lifetimes: Lifetimes {
            soft: Lifetime { time: Some(Duration::from_secs(3600)), ..Lifetime::default() },
            hard: Lifetime { time: Some(Duration::from_secs(5400)), packets: Some(1 << 30), ..Lifetime::default() },
        },
        expired: 0,
        origin: "edge.toml:20".to_owned(),
    }]
}

/// A bridge with a station of the gateway.
pub(crate) fn bridges() -> Vec<BridgeStats> {
    let port = |interface: &str, group, up| BridgePortRow { interface: interface.to_owned(), group, up };
    vec![BridgeStats {
        name: "lan".to_owned(),
        ports: vec![port("lan1", None, true), port("vx", Some(1), true), port("lan2", None, false)],
        own_station: Some("gw".to_owned()),
        learns: true,
        ageing: 300,
        floods: vec!["unknown".to_owned(), "broadcast".to_owned()],
        macs: 2,
        most_macs: 16_384,
        memory: 1 << 20,
        known: 900,
        unknown: 3,
        broadcast: 40,
        multicast: 0,
        own: 12,
        copies: 86,
        lost: 1,
        storm: 5,
        learned: 7,
        moved: 2,
        held: 1,
        full: 0,
        origin: "edge.toml:40".to_owned(),
    }]
}

/// The stations of that bridge.
pub(crate) fn macs() -> Vec<MacRow> {
    let row = |mac: &str, interface: &str, kind: &str, age| MacRow {
        mac: mac.to_owned(),
        interface: interface.to_owned(),
        kind: kind.to_owned(),
        age,
    };
    vec![
        row("02:00:00:00:00:01", "gw", "own", None),
        row("02:00:00:00:aa:01", "lan1", "learned", Some(4)),
        row("02:00:00:00:bb:01", "vx", "static", None),
    ]
}

/// A tunnel that has refused packets.
pub(crate) fn tunnels() -> Vec<TunnelStats> {
    vec![TunnelStats {
        name: "vx".to_owned(),
        kind: "vxlan".to_owned(),
        vni: Some(100),
        key: None,
        port: Some(4789),
        local: "198.51.100.1".parse().unwrap(),
        remote: "203.0.113.1".parse().unwrap(),
        vrf: "default".to_owned(),
        mtu: 1450,
        path_mtu: Some(1400),
        out_packets: 900,
        out_bytes: 90_000,
        in_packets: 800,
        in_bytes: 80_000,
        refused: 3,
        too_long: 2,
        lowered: 1,
        origin: "edge.toml:30".to_owned(),
    }]
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
        before,
        after,
        received_on: "lan".into(),
        list: Some("edge".into()),
        rule: Some(0),
        origin: Some(origin.clone()),
        age: Duration::from_secs(10),
        idle: Duration::from_secs(1),
        expires: Duration::from_secs(119),
        packets: [3, 2],
        bytes: [300, 200],
    };
    let pool = NatPool {
        list: "edge".into(),
        rule: 0,
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
    (vec![rules], Translations { rows: vec![translation], total: 2 }, vec![pool])
}

pub(crate) fn nat_users() -> Vec<NatUser> {
    let user = NatUser {
        list: "edge".into(),
        rule: 0,
        interface: "wan".into(),
        address: "10.0.0.5".parse().unwrap(),
        translations: 2,
        limit: Some(2),
        origin: "edge.toml:11".into(),
    };
    vec![user.clone(), NatUser { address: "fd00::5".parse().unwrap(), translations: 1, limit: None, ..user }]
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
    use super::classify::{Session, Table};
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

pub(crate) fn snapshot() -> Snapshot {
    let node = |name, state, calls, packets, ticks| NodeStats {
        name,
        state,
        calls,
        packets,
        ticks,
        by_packets: vec![0, 0, 0, 0, 0, 0, 0, 0, calls],
        by_ticks: [vec![0, calls], vec![0; 14]].concat(),
        ..NodeStats::default()
    };
    let drop =
        |reason: &'static str, description: &'static str, severity: &'static str, node: &'static str, packets| {
            let [reason, description, severity, node] = [reason, description, severity, node].map(Into::into);
            DropStats { reason, description, severity, node, packets }
        };
    let traffic = |packets, bytes| Traffic { packets, bytes };
    Snapshot {
        elapsed: 2.0,
        tick_frequency: 2.0e9,
        workers: vec![WorkerStats {
            worker: 0,
            core: Some(2),
            nodes: vec![
                node("rx", "polling", 10, 2000, 24_000),
                node("ethernet-input", "active", 20, 1000, 25_500),
                node("drop", "active", 0, 0, 0),
            ],
            received: 2000,
            transmitted: 1900,
            dropped: 100,
            local: 0,
            loops: 50,
            idle_loops: 40,
            sleeps: 7,
            ..WorkerStats::default()
        }],
        drops: vec![
            drop("no-route", "No route covers the destination.", "warning", "ip-lookup", 40),
            drop("blackhole", "A blackhole route covers the destination.", "info", "ip-lookup", 60),
            drop("no-buffer", "The buffer pool is exhausted.", "error", "any", 0),
        ],
        interfaces: vec![
            InterfaceStats {
                name: "wan".into(),
                kind: "generator",
                capabilities: vec!["tx-tcp4", "tx-checksum"],
                up: true,
                mac: "02:00:00:00:00:01".into(),
                mtu: 1500,
                vrf: "default".into(),
                addresses: vec!["198.51.100.1/24".into(), "2001:db8:1::1/64".into()],
                tentative: vec!["2001:db8:1::1/64".into()],
                rx: traffic(2000, 128_000),
                tx: traffic(0, 0),
                dropped: traffic(100, 6400),
                punt: traffic(12, 1200),
                kernel_drops: 5,
                faults: vec![("dropped", 3), ("corrupted", 1)],
                origin: "edge.toml:3".into(),
                ..Default::default()
            },
            InterfaceStats {
                name: "lan".into(),
                kind: "null",
                mtu: 9000,
                vrf: "default".into(),
                tx: traffic(1900, 121_600),
                merged: (2, 40),
                cut: (1, 45),
                transmit_errors: 2,
                origin: "edge.toml:9".into(),
                ..Default::default()
            },
        ],
        sav: vec![
            SavInterfaceStats {
                interface: "wan".into(),
                family: "ipv4",
                policy: "edge".into(),
                checked: 1000,
                unknown: 10,
                invalid: vec![("acl", traffic(0, 0)), ("table", traffic(90, 5760)), ("special", traffic(10, 640))],
                ..Default::default()
            },
            SavInterfaceStats {
                interface: "wan".into(),
                family: "ipv6",
                checked: 5,
                invalid: vec![("table", traffic(0, 0))],
                ..Default::default()
            },
        ],
        conservation: Conservation { received: 2000, transmitted: 1900, dropped: 100, ..Default::default() },
        buffers: BufferStats { small: (8192, 8000), large: (64, 64), huge_pages: false },
        neighbors: NeighborStats {
            entries: 1,
            limit: 65_536,
            incomplete: 0,
            evicted: 4,
            refused: 3,
            unsent: 2,
            events_lost: 0,
        },
        tables: vec![TableStats {
            name: "fib4 default".into(),
            used: 12,
            limit: 2_000_000,
            bytes: 1_572_864,
            when_full: "new routes are refused".into(),
        }],
    }
}

pub(crate) fn routes() -> Vec<RouteRow> {
    let path = |interface: &str, address: Option<&str>, weight, share_permille, mac: Option<&str>| PathRow {
        interface: interface.into(),
        address: address.map(|address| address.parse().unwrap()),
        weight,
        share_permille,
        mac: mac.map(Into::into),
    };
    let route = |prefix: &str, kind: &'static str, paths, origin: &str| RouteRow {
        vrf: "default".into(),
        prefix: prefix.into(),
        kind: kind.into(),
        paths,
        origin: origin.into(),
        source: "file".into(),
    };
    let two = vec![
        path("wan", Some("198.51.100.254"), 3, 750, Some("02:00:00:00:00:fe")),
        path("lan", Some("192.0.2.254"), 1, 250, None),
    ];
    vec![
        route("0.0.0.0/0", "via", two, "edge.toml:20"),
        route("192.0.2.0/24", "connected", vec![path("lan", None, 1, 1000, None)], "edge.toml:9"),
        route("203.0.113.0/24", "blackhole", vec![], "edge.toml:24"),
        route("ff00::/8", "unreachable", vec![], ""),
    ]
}

pub(crate) fn neighbors() -> Vec<NeighborRow> {
    let row = NeighborRow {
        interface: "wan".into(),
        address: "198.51.100.254".parse().unwrap(),
        mac: "02:00:00:00:00:fe".into(),
        state: "static".into(),
        source: "static".into(),
        age: None,
        origin: "edge.toml:30".into(),
    };
    let learned = NeighborRow {
        address: "198.51.100.7".parse().unwrap(),
        mac: "02:00:00:00:00:07".into(),
        state: "stale".into(),
        source: "dynamic".into(),
        age: Some(75.25),
        origin: String::new(),
        ..row.clone()
    };
    vec![row, learned]
}

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

pub(crate) fn traces() -> Vec<TraceRow> {
    let step = |node, note: &str| TraceStep {
        decisions: Vec::new(),
        node,
        interface: "wan".into(),
        packet: "IP4 10.0.0.1 > 192.0.2.9 udp 1 > 2 ttl 64 length 46".into(),
        note: note.into(),
    };
    vec![TraceRow {
        number: 1,
        worker: 0,
        time: 3_723_000_000_042,
        steps: vec![step("ethernet-input", ""), step("drop", "ttl-expired")],
    }]
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
