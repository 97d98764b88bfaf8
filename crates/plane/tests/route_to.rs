//! The route that an address takes, with its candidates.

use std::sync::Arc;

use crate::kit::*;
use ipnet::IpNet;
use weir_base::clock::Clock;
use weir_base::random::Entropy;
use weir_plane::compile::{Hop, Target};
use weir_plane::engine::{Engine, Options, never_routed};
use weir_plane::reason::Reason;
use weir_plane::rib::By;
use weir_plane::stats::RouteRow;

#[test]
fn the_route_of_an_address_and_its_candidates_are_found() {
    let mut build = Build::new().port("lan", &["10.0.0.1/24"]).port("out", &["10.1.0.1/24"]);
    build.vrf("blue");
    let build = build
        .via("198.51.0.0/16", &["out 10.1.0.8"])
        .metric(5)
        .via("198.51.0.0/16", &["out 10.1.0.9"])
        .via("198.0.0.0/8", &["out 10.1.0.7"]);
    let options =
        Options { clock: Clock::monotonic(), random: Entropy::from_seed(1), invent_neighbors: true, pin: false };
    let engine = Engine::start(build.0, options).unwrap_or_else(|error| panic!("{error}"));
    let target = |interface: &str, address: &str| {
        let place = engine.model().interfaces.iter().position(|own| own.name == interface).unwrap();
        let hop = Hop { interface: place as u32, address: address.parse().ok(), weight: 7 };
        Some(Arc::new(Target::Via(Box::new([hop]), None)))
    };
    // One with another route of its source behind it.
    let then = |first: Option<Arc<Target>>, next| match first.as_deref() {
        Some(Target::Via(hops, _)) => Some(Arc::new(Target::Via(hops.clone(), next))),
        _ => panic!("{first:?}"),
    };
    let net = |net: &str| net.parse::<IpNet>().unwrap();
    engine.change_routes(
        "default",
        By::Kernel,
        vec![
            (net("198.51.0.0/16"), then(target("out", "10.1.0.3"), target("lan", "10.0.0.3"))),
            (net("198.51.7.0/24"), target("out", "10.1.0.3")),
            (net("198.51.8.0/24"), then(target("out", "10.1.0.3"), Some(Arc::new(Target::Unreachable)))),
        ],
    );
    engine.change_routes(
        "default",
        By::Fpm,
        vec![
            (net("198.51.0.0/16"), Some(Arc::new(Target::Blackhole))),
            (net("198.51.7.0/24"), target("out", "10.1.0.4")),
        ],
    );
    let words = |address: &str, vrf: Option<&str>| -> Vec<String> {
        let word = |row: &RouteRow| {
            let hops: Vec<_> = row.paths.iter().map(|path| (path.address.unwrap(), path.share_permille)).collect();
            format!("{} {} {} {hops:?}", row.prefix, row.source, row.kind)
        };
        let all = engine.routes_to(address.parse().unwrap(), vrf);
        all.iter()
            .flat_map(|to| {
                let best = to.route.as_ref().map_or_else(|| format!("{}: none", to.vrf), word);
                [best].into_iter().chain(to.candidates.iter().map(word)).collect::<Vec<_>>()
            })
            .collect()
    };
    let of_file = [
        "198.51.0.0/16 file via [(10.1.0.9, 1000)]",
        "198.51.0.0/16 file via [(10.1.0.8, 0)]",
        "198.51.0.0/16 fpm blackhole []",
        "198.51.0.0/16 kernel via [(10.1.0.3, 0)]",
        "198.51.0.0/16 kernel via [(10.0.0.3, 0)]",
    ];
    assert_eq!(words("198.51.1.1", Some("default")), of_file);
    let of_fpm = ["198.51.7.0/24 fpm via [(10.1.0.4, 1000)]", "198.51.7.0/24 kernel via [(10.1.0.3, 0)]"];
    assert_eq!(words("198.51.7.9", Some("default")), of_fpm);
    let of_kernel = ["198.51.8.0/24 kernel via [(10.1.0.3, 1000)]", "198.51.8.0/24 kernel unreachable []"];
    assert_eq!(words("198.51.8.9", Some("default")), of_kernel);
    assert_eq!(words("198.52.0.1", None), ["198.0.0.0/8 file via [(10.1.0.7, 1000)]", "blue: none"]);
    assert_eq!(words("203.0.113.9", None), ["default: none", "blue: none"]);
    engine.stop();
}

#[test]
fn addresses_that_no_packet_is_routed_to_have_a_reason() {
    for (address, reason) in [
        ("224.0.0.5", Some(Reason::Multicast)),
        ("255.255.255.255", Some(Reason::Broadcast)),
        ("0.1.2.3", Some(Reason::MartianDestination)),
        ("127.0.0.1", Some(Reason::MartianDestination)),
        ("240.0.0.1", Some(Reason::MartianDestination)),
        ("169.254.1.1", Some(Reason::LinkLocal)),
        ("ff02::1", Some(Reason::Multicast)),
        ("::1", Some(Reason::MartianDestination)),
        ("fe80::1", Some(Reason::LinkLocal)),
        ("223.255.255.255", None),
        ("2001:db8::1", None),
        ("fec0::1", None),
    ] {
        assert_eq!(never_routed(address.parse().unwrap()), reason, "{address}");
    }
}
