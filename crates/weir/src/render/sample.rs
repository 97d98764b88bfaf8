//! A made-up snapshot for tests of rendering.

mod flows;
mod lists;
mod sav;

use std::time::Duration;

use weir_plane::engine::{TraceRow, TraceStep};
use weir_plane::model::{Lifetime, Lifetimes};
use weir_plane::stats::*;

use super::route_to::RoutesTo;

pub(crate) use self::flows::{flows, nat, nat_users, nat_vrfs};
pub(crate) use self::lists::{acls, allowlists, bindings, classify, ethertypes, spds, steer};
pub(crate) use self::sav::{alarms, samplers, sav_entries, sav_policies};

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
        mover: Some(BridgeMover { mac: "02:00:00:00:aa:01".to_owned(), interface: "vx".to_owned() }),
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
        path: Some(weir_plane::stats::TunnelPath { mtu: 1400, inner_mtu: 1350, seconds_left: 590 }),
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
                punt_device: Some(PuntDevice { name: "wan-host".into(), state: "missing", failed: 7 }),
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
        protocol: None,
        metric: None,
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

pub(crate) fn routes_to(vrf: Option<&str>) -> RoutesTo {
    let [default, ..] = &routes()[..] else { unreachable!("there are some") };
    let other = RouteRow {
        kind: "blackhole".into(),
        paths: vec![],
        origin: String::new(),
        source: "kernel".into(),
        protocol: Some("bgp".into()),
        metric: Some(20),
        ..default.clone()
    };
    let mut vrfs = vec![
        RouteTo { vrf: "default".into(), route: Some(default.clone()), candidates: vec![other] },
        RouteTo { vrf: "blue".into(), route: None, candidates: vec![] },
    ];
    vrfs.retain(|own| vrf.is_none_or(|vrf| own.vrf == vrf));
    RoutesTo { address: "203.0.114.1".parse().unwrap(), unrouted: None, vrfs }
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
