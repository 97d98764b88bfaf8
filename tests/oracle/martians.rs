//! Special sources under policies of source address validation.
//!
//! For each class of special sources, action, mechanism and family: what `docs/sav.md` lets pass passes, and nothing else.
//! The measure of "as if the interface had no policy" is an interface without one.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::frame::{self, Ipv4, UDP};
use crate::program::{Bench, fate, some};

/// A special source.
#[derive(Debug, Clone, Copy)]
struct Source {
    address: &'static str,
    /// Its class; `None`: it is in none, and a martian everywhere, or an ordinary address.
    class: Option<&'static str>,
}

const SOURCES: [Source; 21] = [
    Source { address: "0.0.0.0", class: Some("unspecified") },
    Source { address: "0.0.0.1", class: Some("unspecified") },
    Source { address: "0.255.255.255", class: Some("unspecified") },
    Source { address: "127.0.0.1", class: Some("loopback") },
    Source { address: "127.255.255.254", class: Some("loopback") },
    Source { address: "169.254.7.7", class: Some("link-local") },
    Source { address: "224.0.0.5", class: Some("multicast") },
    Source { address: "239.255.255.255", class: Some("multicast") },
    Source { address: "255.255.255.255", class: Some("broadcast") },
    // The ends of the prefix that the interface connects.
    Source { address: "CONNECTED.0", class: Some("broadcast") },
    Source { address: "CONNECTED.255", class: Some("broadcast") },
    Source { address: "240.0.0.1", class: None },
    Source { address: "203.0.113.7", class: None },
    Source { address: "::", class: Some("unspecified") },
    Source { address: "::1", class: Some("loopback") },
    Source { address: "fe80::7", class: Some("link-local") },
    Source { address: "ff02::5", class: Some("multicast") },
    Source { address: "ff0e::5", class: Some("multicast") },
    Source { address: "::ffff:192.0.2.1", class: None },
    Source { address: "::ffff:127.0.0.1", class: None },
    Source { address: "2001:db8:7777::7", class: None },
];

/// Prefixes that stand for all sources above.
const EVERYWHERE: [&str; 2] = ["0.0.0.0/0", "::/0"];

/// A policy, and the interface that names it.
#[derive(Debug, Clone)]
struct Policy {
    mechanism: &'static str,
    action: &'static str,
    /// The action of each class of `special`; `None`: the defaults.
    special: Option<&'static str>,
    /// Whether the mechanism takes any source for valid on this interface.
    takes: bool,
    exempt: bool,
}

fn policies() -> Vec<Policy> {
    let mut policies = Vec::new();
    for mechanism in ["acl", "table", "urpf-strict", "urpf-loose", "urpf-feasible", "none"] {
        for action in ["permit", "rate-limit", "redirect", "discard"] {
            for special in [None, Some("permit"), Some("deny"), Some("check")] {
                for takes in [false, true] {
                    policies.push(Policy { mechanism, action, special, takes, exempt: false });
                }
            }
        }
    }
    for action in ["permit", "discard"] {
        policies.push(Policy { mechanism: "table", action, special: Some("permit"), takes: true, exempt: true });
        policies.push(Policy { mechanism: "urpf-loose", action, special: Some("check"), takes: false, exempt: true });
    }
    policies
}

/// The class's action where the policy says nothing of it.
fn default_action(class: &str) -> &'static str {
    if ["unconfigured", "link-local"].contains(&class) { "permit" } else { "deny" }
}

/// The configuration: interface 0 has no policy, interface N the policy N - 1. Packets leave by `wan`, redirected ones by
/// `scrub`.
fn config(policies: &[Policy]) -> String {
    let mut text =
        String::from("version = 1\n[[interface]]\nname = \"trunk\"\nport = \"null\"\nmac = \"02:00:00:00:00:01\"\n");
    for (name, net) in [("wan", 1), ("scrub", 2)] {
        writeln!(text, "[[interface]]\nname = \"{name}\"\nport = \"null\"").expect("it fits");
        writeln!(text, "address = [\"198.51.{net}.1/24\", \"2001:db8:f{net}::1/64\"]").expect("it fits");
    }
    text += "[[route]]\nprefix = \"0.0.0.0/0\"\nvia = { address = \"198.51.1.2\" }\n";
    text += "[[route]]\nprefix = \"::/0\"\nvia = { address = \"2001:db8:f1::2\" }\n";
    text += "[[vrf]]\nname = \"back\"\n";
    for number in 0..=policies.len() {
        writeln!(text, "[[interface]]\nname = \"v{number}\"\nparent = \"trunk\"\nvlan = {}", number + 1)
            .expect("it fits");
        writeln!(text, "address = [\"10.9.{number}.1/24\", \"2001:db8:{number:x}::1/64\"]").expect("it fits");
        if number > 0 {
            writeln!(text, "sav = \"p{number}\"").expect("it fits");
        }
    }
    for (number, policy) in (1..).zip(policies) {
        writeln!(text, "[sav.p{number}]\nmechanism = \"{}\"\naction = \"{}\"", policy.mechanism, policy.action)
            .expect("it fits");
        text += "rate-limit = { packets = 1000000 }\n";
        text += "redirect = [{ address = \"198.51.2.2\" }, { address = \"2001:db8:f2::2\" }]\n";
        if let Some(special) = policy.special {
            let classes = ["unconfigured", "unspecified", "loopback", "link-local", "multicast", "broadcast"];
            let classes: Vec<String> = classes.iter().map(|class| format!("{class} = \"{special}\"")).collect();
            writeln!(text, "special = {{ {} }}", classes.join(", ")).expect("it fits");
        }
        if policy.exempt {
            text += "exempt = \"permit ip from any to any\"\n";
        }
        match policy.mechanism {
            "acl" | "table" => {
                let on = if policy.takes { format!("v{number}") } else { "wan".to_owned() };
                let rules: Vec<String> =
                    EVERYWHERE.iter().map(|prefix| format!("\"permit from {prefix} on {on}\"")).collect();
                writeln!(text, "rules = [{}]", rules.join(", ")).expect("it fits");
            }
            // The default route leads over `wan`: it is a route back for the loose mode alone.
            "urpf-loose" if policy.takes => text += "allow-default = true\n",
            _ => {}
        }
    }
    text
}

/// Whether the mechanism takes a source for valid, if it decides; `None`: the documentation leaves it open.
fn valid(policy: &Policy, source: IpAddr, connected: bool) -> Option<bool> {
    match policy.mechanism {
        "none" => Some(true),
        "acl" | "table" => Some(policy.takes),
        // The addresses of the link are connected; its network and broadcast address have an entry of their own.
        _ if connected => None,
        "urpf-loose" => match source {
            // IPv6 link-local prefixes are connected on each link.
            IpAddr::V6(address) if address.is_unicast_link_local() => None,
            _ => Some(policy.takes),
        },
        _ => match source {
            IpAddr::V6(address) if address.is_unicast_link_local() => None,
            _ => Some(false),
        },
    }
}

#[test]
fn policies_let_no_martian_pass_that_would_not_without_them() {
    let policies = policies();
    assert!(policies.len() < 250, "each has a /24");
    let bench = Bench::new(&config(&policies));
    let destinations = [IpAddr::V4(Ipv4Addr::new(203, 0, 113, 200)), "2001:db8:8888::8".parse().expect("an address")];
    let (mut frames, mut cases) = (Vec::new(), Vec::new());
    for number in 0..=policies.len() {
        for source in SOURCES {
            let connected = source.address.starts_with("CONNECTED");
            let address = source.address.replace("CONNECTED", &format!("10.9.{number}"));
            let address: IpAddr = address.parse().expect("an address");
            let packet = match (address, destinations) {
                (IpAddr::V4(from), [to @ IpAddr::V4(four), _]) => {
                    Ipv4::new(from, four, UDP).packet(&frame::udp(address, to, (5000, 9), b"data"))
                }
                (IpAddr::V6(from), [_, to @ IpAddr::V6(six)]) => {
                    frame::ipv6(from, six, 0, UDP, &frame::udp(address, to, (5000, 9), b"data"))
                }
                _ => unreachable!("one of each family"),
            };
            frames.push(frame::ethernet(&[number as u16 + 1], &packet));
            cases.push((number, source, address, connected));
        }
    }
    let lines = bench.replay(&[("trunk", &frame::paced(frames, 20_000_000))]);
    let mut without: BTreeMap<&str, String> = BTreeMap::new();
    let mut wrong = Vec::new();
    for ((number, source, address, connected), line) in cases.iter().zip(&lines) {
        let found = fate(line);
        let out: Vec<&str> = line["out"].as_array().expect("a list").iter().filter_map(|name| name.as_str()).collect();
        if *number == 0 {
            without.insert(source.address, found);
            continue;
        }
        let policy = &policies[number - 1];
        // An ordinary route: the packet goes on as from an interface without a policy.
        let base = without[source.address].as_str();
        let set = source.class.map(|class| policy.special.unwrap_or(default_action(class)));
        // A class that is permitted, or that the mechanism takes, is no martian; nothing else changes.
        let passes = match source.class {
            Some("link-local") => vec!["drop link-local"],
            Some(_) => vec!["forward"],
            None => vec![base],
        };
        let invalid = || match policy.action {
            "discard" if base.starts_with("drop martian") => vec!["drop sav", base],
            // What nobody forwards may be dropped for that.
            "discard" if source.class == Some("link-local") => vec!["drop sav", "drop link-local"],
            "discard" => vec!["drop sav"],
            // It is sent elsewhere, or dropped for whatever reason; it never goes where its destination's route leads.
            "redirect" if source.class == Some("link-local") => vec!["drop"],
            "redirect" => vec!["scrub", "drop"],
            _ => vec![base],
        };
        let expected = if policy.exempt || policy.mechanism == "none" {
            vec![base]
        } else {
            match set {
                Some("permit") => passes,
                Some("deny") => invalid(),
                _ if source.class.is_none() && base.starts_with("drop martian") => vec!["drop martian", "drop sav"],
                _ => match valid(policy, *address, *connected) {
                    Some(true) => passes,
                    Some(false) => invalid(),
                    None => [passes, invalid()].concat(),
                },
            }
        };
        let right = expected.iter().any(|expected| match *expected {
            "forward" => found == "forward" && out == ["wan"],
            "scrub" => found == "forward" && out == ["scrub"],
            expected => found.starts_with(expected) && !(expected.starts_with("drop") && found == "forward"),
        });
        if !right {
            wrong.push(format!(
                "{} ({:?}) under {policy:?}: {expected:?} is right: {found} {out:?}",
                source.address, source.class
            ));
        }
    }
    assert!(wrong.is_empty(), "{} of {} packets:\n{}", wrong.len(), lines.len(), some(&wrong));
}

/// Packets that no gateway forwards are not forwarded, whatever policies say of their sources.
#[test]
fn packets_that_stay_on_their_link_stay_there() {
    let policies = policies();
    let bench = Bench::new(&config(&policies));
    let six = |text: &str| text.parse::<Ipv6Addr>().expect("an address");
    let packets: [(&str, Vec<u8>); 8] = [
        (
            "unconfigured, IPv4",
            Ipv4::new(Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST, UDP).packet(&[0, 68, 0, 67, 0, 8, 0, 0]),
        ),
        (
            "unconfigured, IPv6",
            frame::ipv6(Ipv6Addr::UNSPECIFIED, six("ff02::16"), 0, UDP, &[0, 68, 0, 67, 0, 8, 0, 0]),
        ),
        ("to a group", Ipv4::new([203, 0, 113, 7].into(), [224, 0, 1, 1].into(), UDP).packet(&[0; 8])),
        ("to a group, IPv6", frame::ipv6(six("2001:db8:7777::7"), six("ff0e::1"), 0, UDP, &[0; 8])),
        ("to a martian", Ipv4::new([203, 0, 113, 7].into(), [127, 0, 0, 1].into(), UDP).packet(&[0; 8])),
        ("to a martian, IPv6", frame::ipv6(six("2001:db8:7777::7"), six("::1"), 0, UDP, &[0; 8])),
        ("to a link-local address", Ipv4::new([203, 0, 113, 7].into(), [169, 254, 1, 1].into(), UDP).packet(&[0; 8])),
        ("to a link-local address, IPv6", frame::ipv6(six("2001:db8:7777::7"), six("fe80::99"), 0, UDP, &[0; 8])),
    ];
    let (mut frames, mut cases) = (Vec::new(), Vec::new());
    for number in 0..=policies.len() {
        for (name, packet) in &packets {
            frames.push(frame::ethernet(&[number as u16 + 1], packet));
            cases.push((number, name));
        }
    }
    let lines = bench.replay(&[("trunk", &frame::paced(frames, 20_000_000))]);
    let forwarded = cases.iter().zip(&lines).filter(|(_, line)| line["verdict"] == "forward");
    let wrong: Vec<String> = forwarded
        .map(|((number, name), line)| format!("{name} under {:?}: {line}", number.checked_sub(1).map(|n| &policies[n])))
        .collect();
    assert!(wrong.is_empty(), "{} packets:\n{}", wrong.len(), some(&wrong));
}
