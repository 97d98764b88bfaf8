//! Translations after a reload: the rules in force give them what they would give their first packets.

use super::*;

/// A host and a server behind `lan`, whose packets to the address of `wan` come back to the server: by rules about both addresses
/// or, without these, by two rules. All rules give one port.
fn hairpin(with_both: bool) -> Build {
    let interface = || Some(NatTarget { addresses: None, ports: Some(6000..=6000) });
    let server = NatTarget { addresses: Some(Addresses::Net("10.0.0.3/32".parse().unwrap())), ports: None };
    let mut build = logged(two_ports().neighbor("lan", "10.0.0.3", mac(3)).masquerade("wan", 6000..=6000));
    let source = build.0.nat[0].rules[0].clone();
    let of = |verb, source_target| NatRule {
        verb,
        to_interface: true,
        source: source_target,
        destination: Some(server.clone()),
        ..source.clone()
    };
    let rules = [of(NatVerb::Both, interface()), of(NatVerb::Destination, None), source.clone()];
    let from = usize::from(!with_both);
    build.0.nat[0].rules = rules[from..].into();
    build.0.nat[0].ids = Some(([4, 5, 6][from..]).into());
    build
}

#[test]
fn a_hairpin_goes_on_under_other_rules_that_give_it_the_same_and_names_both() {
    for with_both in [true, false] {
        let mut rig = hairpin(with_both).rig();
        rig.harness.log_translations();
        let out = rig.frame("lan", "udp from 10.0.0.2 port 7 to 192.0.2.1 port 53");
        let named = |rig: &Rig| {
            let shown = rig.harness.translations(&FlowFilter::default(), 9);
            (shown.total, shown.rows[0].rule, shown.rows[0].source_by.as_ref().map(|by| by.rule))
        };
        let by = |with_both: bool| if with_both { (1, Some(4), None) } else { (1, Some(5), Some(6)) };
        for now in [with_both, !with_both, with_both] {
            rig.reload(hairpin(now));
            let (_, sent) = rig.put_all("lan", &[&out]);
            assert_eq!((sent[0].0.as_str(), ends(&sent[0].1)), ("lan", ("192.0.2.1".to_owned(), 6000, 53)));
            assert_eq!(named(&rig), by(now));
        }
        let events = rig.harness.nat_events();
        let [event] = &events[..] else { panic!("{events:?}") };
        let named = (1, Some(event.rule.id), event.source_rule.map(|rule| rule.id));
        assert_eq!((event.kind, named), (NatEventKind::Created, by(with_both)));
    }
}

#[test]
fn a_new_flow_behind_a_reload_ends_no_translation_of_its_inside_endpoint() {
    let build = |ports| two_ports().masquerade("wan", ports).endpoint_independent(NatFiltering::EndpointDependent);
    let mut rig = build(6000..=6000).rig();
    let sent = |rig: &mut Rig, to: u16| {
        let frame = rig.frame("lan", &format!("udp from 10.0.0.2 port 7 to 198.51.100.9 port {to}"));
        ends(&rig.put_all("lan", &[&frame]).1[0].1).1
    };
    assert_eq!([1, 2].map(|to| sent(&mut rig, to)), [6000; 2]);
    // Another target, which has the port, too.
    rig.reload(build(6000..=6999));
    let port = sent(&mut rig, 3);
    assert_ne!(port, 6000, "the rules have not given it yet");
    assert_eq!([1, 2, 3, 4].map(|to| sent(&mut rig, to)), [6000, 6000, port, port]);
    let answer = rig.frame("wan", "udp from 198.51.100.9 port 2 to 192.0.2.1 port 6000");
    assert_eq!(rig.put_all("wan", &[&answer]).1[0].0, "lan");
    assert_eq!(rig.harness.translations(&FlowFilter::default(), 9).total, 4);
}

#[test]
fn rules_about_destinations_go_before_mappings_after_a_reload() {
    // With a rule that gives the server this port, and one behind all that keeps packets.
    let build = |port: Option<u16>, keeps: bool| {
        let mut build = two_ports().neighbor("lan", "10.0.0.3", mac(3)).masquerade("wan", 6000..=6999);
        build = build.endpoint_independent(NatFiltering::EndpointDependent);
        let list = build.0.nat.last_mut().expect("a list of rules");
        let source = list.rules[0].clone();
        let addresses = || Some(Addresses::Net("10.0.0.3/32".parse().expect("a prefix")));
        let destination = port.map(|port| NatRule {
            verb: NatVerb::Destination,
            to_interface: true,
            source: None,
            destination: Some(NatTarget { addresses: addresses(), ports: Some(port..=port) }),
            ..source.clone()
        });
        let keep = keeps.then(|| NatRule { verb: NatVerb::Keep, source: None, ..source.clone() });
        list.rules = destination.into_iter().chain([source]).chain(keep).collect();
        build
    };
    let mut rig = build(None, false).rig();
    let out = rig.frame("lan", "udp from 10.0.0.3 port 9 to 198.51.100.9 port 1");
    let port = ends(&rig.put_all("lan", &[&out]).1[0].1).1;
    let text = format!("udp from 10.0.0.2 port 7 to 192.0.2.1 port {port}");
    let hairpin = rig.frame("lan", &text);
    let sent = |rig: &mut Rig| {
        let (interface, frame) = rig.put_all("lan", &[&hairpin]).1.remove(0);
        assert_eq!(interface, "lan");
        ends(&frame)
    };
    let first = sent(&mut rig);
    assert_eq!((first.0.as_str(), first.2), ("192.0.2.1", 9));
    for given in [Some(9), None] {
        rig.reload(build(given, false));
        assert_eq!(sent(&mut rig), first, "the same by {given:?}");
    }
    for (given, wanted) in [(Some(10), 10), (None, 9)] {
        rig.reload(build(given, false));
        assert_eq!(sent(&mut rig).2, wanted);
    }
    rig.reload(build(None, true));
    let verdict = rig.send("lan", &text).outcome.verdict;
    assert_eq!(verdict, Verdict::Drop(Reason::LocalUnhandled), "it is for the gateway");
    assert_eq!(rig.harness.translations(&FlowFilter::default(), 9).total, 1, "that of the server");
}

/// Rules of two interfaces, `wan` and `far`. An outside one translates sources into its address. One with a destination gives
/// packets for the address of `wan` to a host inside.
fn two_lists(with_destination: [bool; 2], is_outside: [bool; 2]) -> Build {
    let mut build = build().neighbor("lan", "10.0.0.3", mac(3)).neighbor("far", "10.9.0.254", mac(9));
    for ((interface, has), outside) in ["wan", "far"].into_iter().zip(with_destination).zip(is_outside) {
        if !outside {
            continue;
        }
        build = build.masquerade(interface, 6000..=6999);
        let list = build.0.nat.last_mut().expect("a list of rules");
        let source = list.rules[0].clone();
        let net = |text: &str| Addresses::Net(text.parse().expect("a prefix"));
        let mut destination = NatRule { verb: NatVerb::Destination, source: None, ..source.clone() };
        destination.matches.to = net("192.0.2.1/32");
        destination.destination = Some(NatTarget { addresses: Some(net("10.0.0.3/32")), ports: None });
        list.rules = Some(destination).filter(|_| has).into_iter().chain([source]).collect();
    }
    build
}

#[test]
fn the_source_of_a_hairpin_is_translated_by_the_list_that_gives_its_destination_after_a_reload() {
    let mut rig = two_lists([true, true], [true, true]).rig();
    let out = rig.frame("lan", "udp from 10.0.0.2 port 7 to 192.0.2.1 port 53");
    let source = |rig: &mut Rig| ends(&rig.put_all("lan", &[&out]).1[0].1).0;
    assert_eq!(source(&mut rig), "192.0.2.1");
    rig.reload(two_lists([false, true], [true, true]));
    assert_eq!(source(&mut rig), "10.9.0.1");
    assert_eq!(rig.harness.translations(&FlowFilter::default(), 9).total, 1);
}

#[test]
fn packets_from_an_interface_that_is_outside_now_keep_their_source() {
    let mut rig = two_lists([true, false], [true, false]).rig();
    let out = rig.frame("far", "udp from 10.9.0.254 port 7 to 192.0.2.1 port 53");
    let source = |rig: &mut Rig| ends(&rig.put_all("far", &[&out]).1[0].1).0;
    for (is_outside, wanted) in [(false, "192.0.2.1"), (true, "10.9.0.254"), (false, "192.0.2.1")] {
        rig.reload(two_lists([true, false], [true, is_outside]));
        assert_eq!(source(&mut rig), wanted);
    }
    assert_eq!(rig.harness.translations(&FlowFilter::default(), 9).total, 1);
}

#[test]
fn a_map_keeps_no_translation_with_another_port() {
    let build = |maps: bool| {
        let mut build = two_ports().masquerade("wan", 6000..=6999);
        let list = build.0.nat.last_mut().expect("a list of rules");
        let source = list.rules[0].clone();
        let net = |text: &str| Addresses::Net(text.parse().expect("a prefix"));
        let mut map = NatRule { verb: NatVerb::Map, ..source.clone() };
        map.matches.from = net("10.0.0.2/32");
        map.source = Some(NatTarget { addresses: Some(net("192.0.2.1/32")), ports: None });
        list.rules = Some(map).filter(|_| maps).into_iter().chain([source]).collect();
        build
    };
    for (port, is_kept) in [(7, false), (6007, true)] {
        let mut rig = build(false).rig();
        let out = rig.frame("lan", &format!("udp from 10.0.0.2 port {port} to 198.51.100.9 port 1"));
        let sent = |rig: &mut Rig| ends(&rig.put_all("lan", &[&out]).1[0].1);
        assert_ne!(sent(&mut rig).1, port);
        rig.reload(build(true));
        assert_eq!(sent(&mut rig), ("192.0.2.1".to_owned(), port, 1));
        rig.reload(build(false));
        assert_eq!(sent(&mut rig).1 == port, is_kept, "a source rule keeps a translation that it may give");
    }
}
