//! What becomes of packets that are not valid: every action, whatever found them so, with counters and conservation.

mod kit;

use kit::*;
use weir_plane::compile::StageError;
use weir_plane::harness::Verdict;
use weir_plane::model::{
    IpFamily, Match, Mechanism, NextHop, Order, PerFamily, RateLimit, RatePer, RateUnit, SavAction, SavLayout,
    SavRules, SpecialAction, Urpf, UrpfMode,
};
use weir_plane::reason::Reason;
use weir_plane::stats::SavInterfaceStats;

const SECOND: u64 = 1_000_000_000;

/// Two ports, and one more to where what is not valid is sent. `lan` has 10.0.0.0/24 and 2001:db8:a::/64.
fn gateway() -> Build {
    two_ports()
        .port("scrub", &["192.0.3.1/24", "2001:db8:c::1/64"])
        .neighbor("scrub", "192.0.3.2", mac(3))
        .neighbor("scrub", "2001:db8:c::2", mac(3))
        .via("198.51.100.0/24", &["wan 192.0.2.2"])
        .via("2001:db8:66::/48", &["wan 2001:db8:b::2"])
}

/// Every mechanism, with what drops for it: none takes 198.51.100.0/24 or 2001:db8:66::/48 on `lan` for valid.
fn mechanisms() -> Vec<(Build, Mechanism, Reason)> {
    let mut build = gateway();
    let rules = build.rules(&[
        "permit from 10.0.0.0/24 on lan",
        "permit from 2001:db8:a::/64 on lan",
        "permit from 198.51.100.0/24 on wan",
    ]);
    let table = |matching, layout| Mechanism::Table { rules: rules.clone(), matching, layout };
    let urpf = |mode| Mechanism::Urpf(Urpf { mode, default_route: false, vrf: None });
    let loose = build
        .clone()
        .route("198.51.100.0/25", weir_plane::model::RouteTarget::Blackhole)
        .route("2001:db8:66:1::/64", weir_plane::model::RouteTarget::Blackhole);
    vec![
        (build.clone(), Mechanism::Acl(rules.clone()), Reason::SavAcl),
        (build.clone(), table(Match::MostSpecific, SavLayout::Merged), Reason::SavTable),
        (build.clone(), table(Match::AnyCovering, SavLayout::Merged), Reason::SavTable),
        (build.clone(), table(Match::AnyCovering, SavLayout::Cards(Order::Serial)), Reason::SavTable),
        (build.clone(), table(Match::MostSpecific, SavLayout::Cards(Order::Parallel)), Reason::SavTable),
        (build.clone(), urpf(UrpfMode::Strict), Reason::SavUrpfStrict),
        (loose, urpf(UrpfMode::Loose), Reason::SavUrpfLoose),
        (build, urpf(UrpfMode::Feasible), Reason::SavUrpfFeasible),
    ]
}

const FORGED: [&str; 2] = ["198.51.100.1", "2001:db8:66:1::1"];
const HONEST: [&str; 2] = ["10.0.0.2", "2001:db8:a::2"];

fn packet(source: &str) -> String {
    let to = if source.contains(':') { "2001:db8:dddd::1" } else { "203.0.113.1" };
    format!("udp from {source} port 7 to {to} port 9")
}

fn per_interface(rate: u64, burst: u64) -> RateLimit {
    RateLimit { unit: RateUnit::Packets, rate, burst, per: RatePer::Interface }
}

fn next_hop(build: &Build, address: &str) -> Option<NextHop> {
    Some(NextHop { interface: build.interface("scrub"), address: Some(ip(address)), weight: 1 })
}

/// The policy `p` on `lan`, which may do anything.
fn with_policy(build: Build, mechanism: Mechanism, action: SavAction) -> Build {
    let redirect = PerFamily { v4: next_hop(&build, "192.0.3.2"), v6: next_hop(&build, "2001:db8:c::2") };
    let mut build = build.policy("p", mechanism).validate(&["lan"], "p");
    let policy = build.0.sav.last_mut().unwrap();
    (policy.action, policy.redirect, policy.rate_limit) = (action, redirect, Some(per_interface(10, 2)));
    build
}

fn simple(action: SavAction) -> Build {
    let mut build = gateway();
    let rules = build.rules(&["permit from 10.0.0.0/24 on lan", "permit from 2001:db8:a::/64 on lan"]);
    let mechanism = Mechanism::Table { rules, matching: Match::MostSpecific, layout: SavLayout::Merged };
    with_policy(build, mechanism, action)
}

fn row(rig: &Rig, family: &str) -> SavInterfaceStats {
    rig.harness.sav().into_iter().find(|row| (&*row.interface, row.family) == ("lan", family)).unwrap()
}

fn invalid(row: &SavInterfaceStats) -> u64 {
    row.invalid.iter().map(|(_, traffic)| traffic.packets).sum()
}

#[test]
fn every_action_with_every_mechanism_and_family() {
    for (build, mechanism, reason) in mechanisms() {
        for action in SavAction::ALL {
            let mut rig = with_policy(build.clone(), mechanism.clone(), action).rig();
            for (family, forged, honest) in [("ipv4", FORGED[0], HONEST[0]), ("ipv6", FORGED[1], HONEST[1])] {
                let name = format!("{} {} {family}", mechanism.name(), action.name());
                rig.advance(SECOND);
                let mut ways: Vec<Result<String, Reason>> = Vec::new();
                for _ in 0..4 {
                    assert_eq!(rig.send("lan", &packet(honest)).only().port, "wan", "{name}");
                    let passage = rig.send("lan", &packet(forged));
                    ways.push(match passage.outcome.verdict {
                        Verdict::Forward => Ok(passage.only().port),
                        Verdict::Drop(reason) => Err(reason),
                        other => panic!("{name}: {other:?}"),
                    });
                }
                let to = |port: &str| Ok(port.to_owned());
                let expected = match action {
                    SavAction::Permit => vec![to("wan"); 4],
                    SavAction::Discard => vec![Err(reason); 4],
                    SavAction::Redirect => vec![to("scrub"); 4],
                    SavAction::RateLimit => {
                        vec![to("wan"), to("wan"), Err(Reason::SavRateLimit), Err(Reason::SavRateLimit)]
                    }
                };
                assert_eq!(ways, expected, "{name}");
                let row = row(&rig, family);
                let limited = if action == SavAction::RateLimit { 2 } else { 0 };
                let redirected = if action == SavAction::Redirect { 4 } else { 0 };
                let counted = (row.checked, row.limited, row.redirected, invalid(&row));
                assert_eq!(counted, (8, limited, redirected, 4), "{name}");
            }
            let sources = rig.harness.invalid_sources();
            let seen: Vec<(&str, String, u64)> =
                sources.rows.iter().map(|row| (&*row.interface, row.prefix.to_string(), row.traffic.packets)).collect();
            let expected = [("lan", "198.51.100.0/24".to_owned(), 4), ("lan", "2001:db8:66::/48".to_owned(), 4)];
            assert_eq!(seen, expected);
        }
    }
}
