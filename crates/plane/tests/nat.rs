//! Translation in the graph: packets that are held, vectors with several packets of a new flow, and nodes that are not visited.
//!
//! `tests/nat/README.md` lists the scenarios of VPP's test_nat44_ed, and the tests that have them.

#[path = "nat/npt.rs"]
mod npt;
#[path = "nat/reload.rs"]
mod reload;
#[path = "nat/workers.rs"]
mod workers;

use crate::kit::*;
use weir_base::clock::Time;
use weir_packet::wire::MacAddress;
use weir_plane::engine::FlowFilter;
use weir_plane::harness::{Harness, Options, Verdict};
use weir_plane::model::{Addresses, FastPath, IpFamily, NatFiltering, NatRule, NatTarget, NatVerb};
use weir_plane::node::Node;
use weir_plane::reason::Reason;
use weir_plane::translation_log::NatEventKind;

fn build() -> Build {
    two_ports().port("far", &["10.9.0.1/24"]).via("172.16.0.0/16", &["far 10.9.0.254"])
}

/// Source address, source port and destination port of a frame.
fn ends(frame: &[u8]) -> (String, u16, u16) {
    let at = l3(frame);
    let word = |place: usize| u16::from_be_bytes([frame[at + place], frame[at + place + 1]]);
    let source = &frame[at + 12..at + 16];
    (format!("{}.{}.{}.{}", source[0], source[1], source[2], source[3]), word(20), word(22))
}

#[test]
fn a_held_packet_is_translated_when_it_leaves() {
    let build = || build().masquerade("far", 6000..=6999);
    let mut rig = build().rig();
    rig.harness.listen();
    for port in [1, 2] {
        let text = format!("udp from 10.0.0.2 port 7 to 172.16.0.1 port {port}");
        assert_eq!(rig.send("lan", &text).outcome.verdict, Verdict::Held);
    }
    assert_eq!(rig.harness.translations(&FlowFilter::default(), 9).total, 0, "their way out is not known");
    rig.reload(build().neighbor("far", "10.9.0.254", mac(9)));
    let (_, out) = rig.idle();
    assert_eq!(out.len(), 2);
    for ((interface, frame), port) in out.iter().zip([1, 2]) {
        let (source, from, to) = ends(frame);
        assert_eq!((interface.as_str(), source.as_str(), to), ("far", "10.9.0.1", port));
        assert!((6000..=6999).contains(&from));
    }
    assert_eq!(rig.harness.translations(&FlowFilter::default(), 9).total, 2);
    assert_eq!(rig.conservation().imbalance(), 0);
}

#[test]
fn packets_of_a_vector_share_the_translation_that_the_first_opens() {
    let mut rig = build().masquerade("wan", 6000..=6999).rig();
    let frame = rig.frame("lan", "udp from 10.0.0.2 port 7 to 198.51.100.9 port 1");
    let (_, out) = rig.put_all("lan", &[&frame, &frame, &frame]);
    let ports: Vec<u16> = out.iter().map(|(_, frame)| ends(frame).1).collect();
    assert!(ports.len() == 3 && ports.iter().all(|port| *port == ports[0]), "{ports:?}");
    let translations = rig.harness.translations(&FlowFilter::default(), 9);
    assert_eq!((translations.total, translations.rows[0].packets), (1, [3, 0]));
    assert_eq!(rig.harness.nat_lists()[0].rules[0].opened, 1);
    assert_eq!(rig.harness.nat_pools()[0].translations, 1);
}

/// Sources are translated behind the destinations of a vector: packets for two outside addresses of a server have one tuple in between.
#[test]
fn packets_of_a_vector_for_two_addresses_of_a_server_both_go_in() {
    for translates in [true, false] {
        let mut build = two_ports().neighbor("lan", "10.0.0.3", mac(3)).masquerade("wan", 6000..=6999);
        let list = build.0.nat.last_mut().expect("a list of rules");
        let source = list.rules[0].clone();
        let net = |text: &str| Addresses::Net(text.parse().expect("a prefix"));
        let mut destination = NatRule { verb: NatVerb::Destination, source: None, ..source.clone() };
        destination.matches.to = net("192.0.2.0/30");
        destination.destination = Some(NatTarget { addresses: Some(net("10.0.0.3/32")), ports: None });
        list.rules = [destination].into_iter().chain(translates.then_some(source)).collect();
        let mut rig = build.rig();
        let frames = [1, 3].map(|own| rig.frame("lan", &format!("udp from 10.0.0.2 port 7 to 192.0.2.{own} port 53")));
        let (_, out) = rig.put_all("lan", &[&frames[0], &frames[1]]);
        assert!(out.iter().all(|(_, frame)| ends(frame).2 == 53));
        // Without another source both have the same tuple: the server sees no difference.
        assert_eq!(out.len(), if translates { 2 } else { 1 });
        assert_eq!(rig.harness.drops(Reason::NatExhausted), u64::from(!translates));
        assert_eq!(rig.harness.translations(&FlowFilter::default(), 9).total, out.len());
        for (_, frame) in &out {
            let (source, port, _) = ends(frame);
            let answer = rig.frame("lan", &format!("udp from 10.0.0.3 port 53 to {source} port {port}"));
            assert_eq!(ends(&rig.put_all("lan", &[&answer]).1[0].1).2, 7);
        }
    }
}

#[test]
fn other_routing_domains_visit_no_node_for_it() {
    let build = build().masquerade("wan", 6000..=6999).port("left", &["10.77.0.1/24"]).in_vrf("other");
    let build = build.port("right", &["10.78.0.1/24"]).in_vrf("other").neighbor("right", "10.78.0.2", mac(7));
    let mut rig = build.rig();
    rig.harness.trace(Node::EthernetInput, 2);
    rig.send("left", "udp from 10.77.0.2 port 7 to 10.78.0.2 port 1");
    rig.send("lan", "udp from 10.0.0.2 port 7 to 198.51.100.9 port 1");
    let traces = rig.harness.traces();
    let visited = |at: usize, name: &str| traces[at].steps.iter().any(|step| step.node == name);
    assert!(!visited(0, "ip4-nat-in") && !visited(0, "ip4-nat-out"));
    assert!(!visited(1, "ip4-nat-in") && visited(1, "ip4-nat-out"), "no rule is about its destination");
}

/// Two tenants with equal addresses, whose default routes lead to an interface of the default VRF.
fn tenants() -> Build {
    tenants_of(&[("red", "rlan", 11), ("blue", "blan", 12)])
}

/// As [`tenants`], of these tenants: a VRF, its port, and a number for its host.
fn tenants_of(tenants: &[(&str, &str, u8)]) -> Build {
    let mut build = two_ports().masquerade("wan", 6000..=6999);
    for &(vrf, port, own) in tenants {
        build = build.port(port, &["10.7.0.1/24"]).in_vrf(vrf).neighbor(port, "10.7.0.2", mac(own));
        build = build.via_in(vrf, "0.0.0.0/0", &["wan 192.0.2.2"]);
    }
    build
}

#[test]
fn replies_are_looked_up_in_the_vrf_of_the_first_packet() {
    let mut rig = tenants().rig();
    let ask = "udp from 10.7.0.2 port 7 to 198.51.100.9 port 53";
    let mut ports = Vec::new();
    for lan in ["rlan", "blan", "lan"] {
        let text = if lan == "lan" { ask.replace("10.7.", "10.0.") } else { ask.to_owned() };
        let frame = rig.frame(lan, &text);
        let (_, out) = rig.put_all(lan, &[&frame, &frame]);
        let (source, port, to) = ends(&out[0].1);
        assert_eq!((out.len(), out[0].0.as_str(), source.as_str(), to), (2, "wan", "192.0.2.1", 53));
        assert_eq!(ends(&out[1].1).1, port, "one translation for both");
        ports.push((lan, port));
    }
    assert_eq!(rig.harness.translations(&FlowFilter::default(), 9).total, 3);
    for _ in 0..3 {
        for (lan, port) in &ports {
            let answer = rig.frame("wan", &format!("udp from 198.51.100.9 port 53 to 192.0.2.1 port {port}"));
            let (_, out) = rig.put_all("wan", &[&answer]);
            assert_eq!(out.len(), 1, "{lan}");
            assert_eq!((out[0].0.as_str(), ends(&out[0].1).2), (*lan, 7));
        }
    }
    assert_eq!(rig.conservation().imbalance(), 0);
    // A reload keeps them; one after which no route leads from a tenant to the outside ends that tenant's.
    let version = |build: Build| build.port("more", &["10.99.0.1/24"]);
    rig.reload(version(tenants()));
    let answer = rig.frame("wan", &format!("udp from 198.51.100.9 port 53 to 192.0.2.1 port {}", ports[0].1));
    assert_eq!(rig.put_all("wan", &[&answer]).1[0].0, "rlan");
    let mut without = version(tenants());
    let red = without.vrf("red");
    without.0.routes.retain(|route| route.vrf != red);
    rig.reload(without);
    let (_, out) = rig.put_all("wan", &[&answer]);
    assert_eq!(out.iter().map(|(interface, _)| interface.as_str()).collect::<Vec<_>>(), ["wan"], "port unreachable");
    assert_eq!(rig.harness.translations(&FlowFilter::default(), 9).total, 2);
    let answer = rig.frame("wan", &format!("udp from 198.51.100.9 port 53 to 192.0.2.1 port {}", ports[1].1));
    assert_eq!(rig.put_all("wan", &[&answer]).1[0].0, "blan");
    assert_eq!(rig.conservation().imbalance(), 0);
}

#[test]
fn translations_between_vrfs_take_the_fast_path_both_ways() {
    let fast = |mut build: Build| {
        build.0.flow_table.enabled = FastPath::On;
        build
    };
    let mut rig = fast(tenants()).rig();
    rig.harness.set_recording(false);
    let mut flows = Vec::new();
    for lan in ["rlan", "blan"] {
        let ask = rig.frame(lan, "udp from 10.7.0.2 port 7 to 198.51.100.9 port 53");
        let (_, out) = rig.put_all(lan, &[&ask]);
        let port = ends(&out[0].1).1;
        let answer = rig.frame("wan", &format!("udp from 198.51.100.9 port 53 to 192.0.2.1 port {port}"));
        rig.put_all("wan", &[&answer]);
        flows.push((lan, ask, answer, port));
    }
    // All four directions are learned by now, or with the next packet.
    for (lan, ask, answer, _) in &flows {
        rig.put_all(lan, &[ask]);
        rig.put_all("wan", &[answer]);
    }
    let before = rig.harness.fast_path().hits;
    for (lan, ask, answer, port) in &flows {
        let (_, out) = rig.put_all(lan, &[ask, ask]);
        assert_eq!(out.len(), 2);
        assert!(out.iter().all(|(to, frame)| to == "wan" && ends(frame).1 == *port), "{lan}");
        let (_, out) = rig.put_all("wan", &[answer, answer]);
        assert!(out.len() == 2 && out.iter().all(|(to, frame)| to == lan && ends(frame).2 == 7), "{lan}");
    }
    assert_eq!(rig.harness.fast_path().hits - before, 8);
    let rows = rig.harness.translations(&FlowFilter::default(), 9).rows;
    let mut vrfs: Vec<[String; 2]> = rows.into_iter().map(|row| row.vrfs).collect();
    vrfs.sort();
    assert_eq!(vrfs, [["blue", "default"], ["red", "default"]]);
    // A VRF that is gone takes its translations with it, and no others.
    rig.reload(fast(tenants_of(&[("blue", "blan", 12)])));
    let (lan, _, answer, _) = &flows[1];
    assert_eq!(rig.put_all("wan", &[answer]).1[0].0, *lan);
    let (_, out) = rig.put_all("wan", &[&flows[0].2]);
    assert!(out.iter().all(|(to, _)| to == "wan"), "the gateway answers: no port of its own");
    assert_eq!(rig.harness.translations(&FlowFilter::default(), 9).total, 1);
    assert_eq!(rig.conservation().imbalance(), 0);
}

#[test]
fn established_translations_take_the_fast_path_both_ways() {
    let build = || {
        let mut build = two_ports().masquerade("wan", 6000..=6999);
        build.0.flow_table.enabled = FastPath::On;
        build
    };
    let mut rig = build().rig();
    rig.harness.set_recording(false);
    let out = "udp from 10.0.0.2 port 7 to 198.51.100.9 port 53";
    let ask = rig.frame("lan", out);
    let port = ends(&rig.put_all("lan", &[&ask]).1[0].1).1;
    let answer = rig.frame("wan", &format!("udp from 198.51.100.9 port 53 to 192.0.2.1 port {port}"));
    rig.put_all("wan", &[&answer]);
    assert_eq!(rig.harness.fast_path().hits, 0);
    for _ in 0..3 {
        let (_, sent) = rig.put_all("lan", &[&ask]);
        assert_eq!(ends(&sent[0].1), ("192.0.2.1".to_owned(), port, 53));
        let (_, sent) = rig.put_all("wan", &[&answer]);
        assert_eq!(ends(&sent[0].1), ("198.51.100.9".to_owned(), 53, 7));
    }
    assert_eq!(rig.harness.fast_path().hits, 6);
    let translations = rig.harness.translations(&FlowFilter::default(), 9);
    assert_eq!((translations.total, translations.rows[0].packets), (1, [4, 4]));
    assert_eq!(rig.harness.nat_lists()[0].rules[0].packets, 8);
    // A rule that gives the same goes on with it; another one begins a translation.
    rig.reload(build());
    rig.put_all("lan", &[&ask]);
    assert_eq!(rig.harness.fast_path().hits, 7);
    let mut other = two_ports().masquerade("wan", 7000..=7999);
    other.0.flow_table.enabled = FastPath::On;
    rig.reload(other);
    let (_, sent) = rig.put_all("lan", &[&ask]);
    assert!((7000..=7999).contains(&ends(&sent[0].1).1));
    assert_eq!((rig.harness.fast_path().hits, rig.harness.nat_lists()[0].rules[0].opened), (7, 1));
}

/// Has the translations of the last list logged.
fn logged(mut build: Build) -> Build {
    build.0.nat.last_mut().unwrap().log = true;
    build
}

#[test]
fn beginnings_and_ends_are_logged_once_a_packet_has_left() {
    let build = || logged(two_ports().masquerade("wan", 6000..=6000));
    let mut rig = build().rig();
    rig.harness.log_translations();
    let out = rig.frame("lan", "udp from 10.0.0.2 port 7 to 198.51.100.9 port 53");
    rig.put_all("lan", &[&out, &out]);
    rig.put_all("lan", &[&out]);
    let events = rig.harness.nat_events();
    let [event] = &events[..] else { panic!("{events:?}") };
    assert_eq!((event.kind, event.protocol), (NatEventKind::Created, 17));
    assert_eq!(event.before, [(ip("10.0.0.2"), 7), (ip("198.51.100.9"), 53)]);
    assert_eq!(event.after, [(ip("192.0.2.1"), 6000), (ip("198.51.100.9"), 53)]);
    // A reload that gives another port ends it.
    rig.reload(logged(two_ports().masquerade("wan", 7000..=7000)));
    rig.put_all("lan", &[&out]);
    let kinds: Vec<_> = rig.harness.nat_events().iter().map(|event| (event.kind, event.after[0].1)).collect();
    assert_eq!(kinds, [(NatEventKind::Ended, 6000), (NatEventKind::Created, 7000)]);
}

#[test]
fn rules_are_named_by_their_ids_also_when_an_edit_ends_their_translations() {
    let of = |ports, id: u32| {
        let mut build = logged(two_ports().masquerade("wan", ports)).limit_per_address(9);
        build.0.nat[0].ids = Some([id].into());
        build
    };
    let mut rig = of(6000..=6000, 7).rig();
    rig.harness.log_translations();
    let out = rig.frame("lan", "udp from 10.0.0.2 port 7 to 198.51.100.9 port 53");
    rig.put_all("lan", &[&out]);
    let shown = |rig: &Rig| {
        let translations = rig.harness.translations(&FlowFilter::default(), 9).rows;
        let (pools, users, lists) = (rig.harness.nat_pools(), rig.harness.nat_users(9), rig.harness.nat_lists());
        [translations[0].rule.unwrap(), pools[0].rule, users[0].rule, lists[0].rules[0].id]
    };
    assert_eq!(shown(&rig), [7; 4]);
    // Another rule in its place, which has another port.
    rig.reload(of(7000..=7000, 9));
    rig.put_all("lan", &[&out]);
    assert_eq!(shown(&rig), [9; 4]);
    let events = rig.harness.nat_events();
    let told: Vec<_> = events.iter().map(|event| (event.kind, event.rule.id)).collect();
    assert_eq!(told, [(NatEventKind::Created, 7), (NatEventKind::Ended, 7), (NatEventKind::Created, 9)]);
    assert!(events.iter().all(|event| event.rule.list == events[0].rule.list));
    // A rule that stays, and gets another id.
    rig.reload(of(7000..=7000, 1));
    rig.put_all("lan", &[&out]);
    assert_eq!((shown(&rig), rig.harness.nat_lists()[0].rules[0].packets), ([1; 4], 2));
}

#[test]
fn a_vrf_has_as_many_translations_as_its_limit_allows_of_both_families() {
    let limited = |most| logged(two_ports().masquerade("wan", 6000..=6999)).nat_limit("default", most);
    let mut rig = limited(2).rig();
    rig.harness.log_translations();
    let v4 = |port: u16| format!("udp from 10.0.0.2 port {port} to 198.51.100.9 port 53");
    let v6 = |port: u16| format!("udp from 2001:db8:a::2 port {port} to 2001:db8:c::9 port 53");
    let refused = Verdict::Drop(Reason::NatVrfLimit);
    assert_ne!(rig.send("lan", &v4(1)).outcome.verdict, refused);
    assert_ne!(rig.send("lan", &v6(1)).outcome.verdict, refused);
    for text in [v4(2), v6(2), v4(3)] {
        assert_eq!(rig.send("lan", &text).outcome.verdict, refused, "{text}");
    }
    let row = |rig: &Rig| {
        let vrfs = rig.harness.nat_vrfs();
        (vrfs[0].vrf.clone(), vrfs[0].translations, vrfs[0].limit, vrfs[0].limited)
    };
    assert_eq!(row(&rig), ("default".to_owned(), 2, Some(2), 3));
    let events = rig.harness.nat_events();
    let refused_events: Vec<_> = events.iter().filter(|event| event.kind == NatEventKind::VrfLimited).collect();
    assert_eq!(refused_events.iter().map(|event| event.limit).collect::<Vec<_>>(), [Some(2)], "once a minute");
    // Packets of the translations pass, and one that ends makes room.
    assert_ne!(rig.send("lan", &v4(1)).outcome.verdict, refused);
    rig.harness.clear_flows(&FlowFilter { translations: true, ..FlowFilter::default() });
    assert_ne!(rig.send("lan", &v4(4)).outcome.verdict, refused);
    assert_ne!(rig.send("lan", &v4(5)).outcome.verdict, refused);
    assert_eq!(rig.send("lan", &v4(6)).outcome.verdict, refused);
    // A smaller limit ends none, and a greater one lets more in.
    rig.reload(limited(1));
    assert_eq!((row(&rig).1, row(&rig).3), (2, 4));
    assert_eq!(rig.send("lan", &v4(6)).outcome.verdict, refused);
    rig.reload(limited(3));
    assert_ne!(rig.send("lan", &v4(6)).outcome.verdict, refused);
    assert_eq!(row(&rig), ("default".to_owned(), 3, Some(3), 5));
    assert_eq!(rig.conservation().imbalance(), 0);
}

#[test]
fn a_list_without_a_log_logs_nothing_but_exhaustion_once_a_minute() {
    let mut rig = two_ports().masquerade("wan", 6000..=6000).rig();
    rig.harness.log_translations();
    let send = |rig: &mut Rig, port: u16| {
        let frame = rig.frame("lan", &format!("udp from 10.0.0.2 port {port} to 198.51.100.9 port 53"));
        rig.put_all("lan", &[&frame]);
    };
    send(&mut rig, 1);
    assert_eq!(rig.harness.nat_events(), []);
    for port in 2..10 {
        send(&mut rig, port);
    }
    let events = rig.harness.nat_events();
    let told: Vec<_> = events.iter().map(|event| (event.kind, event.before[0].0, event.after[0].0)).collect();
    assert_eq!(told, [(NatEventKind::Exhausted, ip("10.0.0.2"), ip("192.0.2.1"))]);
    assert_eq!(events[0].before[0], (ip("10.0.0.2"), 2));
    assert_eq!(rig.harness.nat_lists()[0].rules[0].exhausted, 8);
}

#[test]
fn packets_without_a_port_are_counted_by_address_and_protocol() {
    let mut rig = two_ports().masquerade("wan", 6000..=6000).rig();
    for text in ["udp from 10.0.0.2 port {}", "tcp from 10.0.0.2 port {}", "udp from 10.0.0.3 port {}"] {
        for port in 1..4 {
            let text = text.replace("{}", &port.to_string());
            let frame = rig.frame("lan", &format!("{text} to 198.51.100.9 port 53"));
            rig.put_all("lan", &[&frame]);
        }
    }
    let pools = rig.harness.nat_pools();
    let counts: Vec<_> = pools[0].exhausted_by.iter().map(|own| (own.address, own.protocol, own.packets)).collect();
    let own = Some(ip("192.0.2.1"));
    assert_eq!((pools[0].exhausted, counts), (7, vec![(own, "tcp", 2), (own, "udp", 5)]));
}

#[test]
fn a_pool_has_the_addresses_that_the_rule_gives() {
    let count = |family| {
        let mut build = two_ports().port("far", &["10.9.0.1/24", "10.9.0.2/32", "2001:db8:9::1/64"]);
        build = build.masquerade("far", 6000..=6999);
        let list = build.0.nat.last_mut().unwrap();
        list.rules = list
            .rules
            .iter()
            .cloned()
            .map(|mut rule| {
                rule.matches.family = family;
                rule
            })
            .collect();
        build.rig().harness.nat_pools()[0].addresses
    };
    assert_eq!([Some(IpFamily::V4), Some(IpFamily::V6), None].map(count), [1, 1, 2]);
}

#[test]
fn a_pool_has_the_ports_that_are_drawn_if_the_rule_names_none() {
    let ports =
        |verb, target: NatTarget| two_ports().nat("wan", verb, Some(target)).rig().harness.nat_pools()[0].ports.clone();
    let interface = |ports| NatTarget { addresses: None, ports };
    assert_eq!(ports(NatVerb::Source, interface(None)), Some(1024..=65_535));
    assert_eq!(ports(NatVerb::Source, interface(Some(6000..=6999))), Some(6000..=6999));
}

#[test]
fn ports_are_found_where_98_of_100_are_taken() {
    let mut rig = two_ports().masquerade("wan", 6000..=6999).rig();
    let mut ports = std::collections::HashSet::new();
    for flow in 0..985 {
        let frame = rig.frame("lan", &format!("udp from 10.0.0.2 port {} to 198.51.100.9 port 53", flow + 1));
        let (_, out) = rig.put_all("lan", &[&frame]);
        let port = ends(&out[0].1).1;
        assert!((6000..=6999).contains(&port) && ports.insert(port), "flow {flow}: {port}");
    }
    assert_eq!(rig.harness.nat_lists()[0].rules[0].exhausted, 0);
}

/// No worker owns a part of a pool: a port is taken by an outside tuple, and a tuple belongs to one worker.
#[test]
fn a_pool_of_one_port_serves_all_workers() {
    let model = two_ports().masquerade("wan", 5000..=5000).0;
    let mut harness = Harness::with_workers(model, Options { seed: 7, invent_neighbors: false }, 4).unwrap();
    let to = MacAddress(harness.interface_mac(0).unwrap());
    for host in 1..=200 {
        let text = format!("udp from 10.0.0.2 port 7 to 198.51.100.{host} port 53");
        assert!(harness.inject(0, &frame(&text, to), Time(0), host));
    }
    harness.run();
    let translations = harness.translations(&FlowFilter::default(), usize::MAX).rows;
    let per_worker: Vec<usize> =
        (0..4).map(|worker| translations.iter().filter(|own| own.worker == worker).count()).collect();
    assert_eq!((harness.nat_lists()[0].rules[0].exhausted, translations.len()), (0, 200));
    assert!(per_worker.iter().all(|&count| count > 20), "{per_worker:?}");
}

/// Fragments have no ports to choose a worker by. Those of a reply come to the worker of its translation, too.
/// The ports that a gateway draws for so many flows, each to another destination, and their number in each of 64 parts of the range.
fn drawn(rig: &mut Rig, flows: u16) -> (Vec<u16>, [u32; 64]) {
    let (mut ports, mut parts) = (Vec::new(), [0; 64]);
    for flow in 0..flows {
        let text = format!("udp from 10.0.0.2 port 7 to 198.51.100.9 port {}", flow + 1);
        let frame = rig.frame("lan", &text);
        let port = ends(&rig.put_all("lan", &[&frame]).1[0].1).1;
        ports.push(port);
        parts[(usize::from(port) - 0x8000) >> 9] += 1;
    }
    (ports, parts)
}

#[test]
fn ports_are_uniform_and_differ_from_start_to_start() {
    const FLOWS: u16 = 12_800;
    let build = || two_ports().masquerade("wan", 0x8000..=0xffff);
    let (first, parts) = drawn(&mut build().rig_of_seed(1), FLOWS);
    let expected = f64::from(FLOWS) / 64.0;
    let chi: f64 = parts.iter().map(|&count| (f64::from(count) - expected).powi(2) / expected).sum();
    // With 63 degrees of freedom, 1 of 10,000 is above 113, and 1 of 10,000 below 29.
    assert!((29.0..113.0).contains(&chi), "{chi}: {parts:?}");
    // One port says nothing about the next: pairs are as often in rising order as in falling.
    let rising = first.windows(2).filter(|pair| pair[0] < pair[1]).count();
    assert!((5_900..6_900).contains(&rising), "{rising}");
    let (second, _) = drawn(&mut build().rig_of_seed(2), 100);
    assert!(first.iter().zip(&second).filter(|(one, other)| one == other).count() < 3);
}

#[test]
fn mappings_do_not_depend_on_destinations_on_the_fast_path_either() {
    let mut build = two_ports().masquerade("wan", 6000..=6999).endpoint_independent(NatFiltering::EndpointIndependent);
    build.0.flow_table.enabled = FastPath::On;
    let mut rig = build.rig();
    rig.harness.set_recording(false);
    let mut port = None;
    for to in 1..50 {
        let frame = rig.frame("lan", &format!("udp from 10.0.0.2 port 7 to 198.51.100.9 port {to}"));
        for _ in 0..3 {
            let own = ends(&rig.put_all("lan", &[&frame]).1[0].1).1;
            assert_eq!(*port.get_or_insert(own), own);
        }
    }
    let answer = rig.frame("wan", &format!("udp from 198.51.100.77 port 9 to 192.0.2.1 port {}", port.unwrap()));
    for _ in 0..3 {
        let (_, sent) = rig.put_all("wan", &[&answer]);
        assert_eq!((sent[0].0.as_str(), ends(&sent[0].1)), ("lan", ("198.51.100.77".to_owned(), 9, 7)));
    }
    assert!(rig.harness.fast_path().hits > 40);
}

#[test]
fn a_mapping_lets_in_no_packet_whose_answer_gets_another_mapping() {
    let open = NatFiltering::EndpointIndependent;
    let mut build = two_ports().masquerade("wan", 1024..=65_535).endpoint_independent(open);
    let list = build.0.nat.last_mut().expect("a list of rules");
    let others = list.rules[0].clone();
    let mut some = others.clone();
    some.matches.to = Addresses::Net("198.51.100.9/32".parse().expect("a prefix"));
    some.source = Some(NatTarget { addresses: None, ports: Some(6000..=6999) });
    list.rules = vec![some, others].into();
    let mut rig = build.rig();
    let sent = |rig: &mut Rig, to: u16| {
        let frame = rig.frame("lan", &format!("udp from 10.0.0.2 port 7 to 198.51.100.9 port {to}"));
        ends(&rig.put_all("lan", &[&frame]).1[0].1).1
    };
    let port = sent(&mut rig, 1);
    let from_outside = rig.frame("wan", &format!("udp from 198.51.100.77 port 9 to 192.0.2.1 port {port}"));
    let goes_in = |rig: &mut Rig, frame: &[u8]| rig.put_all("wan", &[frame]).1.iter().any(|(port, _)| port == "lan");
    assert!(!goes_in(&mut rig, &from_outside), "the answer gets a port of the second rule");
    assert_eq!(sent(&mut rig, 2), port, "the mapping is still that of the first rule");
    let wanted = rig.frame("wan", &format!("udp from 198.51.100.9 port 9 to 192.0.2.1 port {port}"));
    assert!(goes_in(&mut rig, &wanted));
}
