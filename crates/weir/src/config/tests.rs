//! The models of configurations. Errors are in `tests/check`.

use std::net::IpAddr;
use std::path::Path;

use proptest::prelude::*;
use weir_plane::model::{
    AclAction, Alarm, Gateway, InterfaceIndex, InterfaceKind, IpFamily, LinkCheck, Match, Mechanism, Mode,
    NeighborDiscovery, NextHop, Order, Origin, PerFamily, RateLimit, RatePer, RateUnit, RouteTarget,
    RouterAdvertisement, SamplerIndex, SavAction, SavIndex, SavLayout, SavRule, SpecialAction, SpecialSources, Tag,
    Urpf, UrpfMode, VrfIndex,
};
use weir_port::spec::{AfPacketSpec, PcapSpec, PortSpec, SizeSpec, StreamSource, TapSpec, Transport};

use super::*;

/// The files of the tests of `weir check`.
fn file(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/check").join(name)
}

fn gateway(text: &str) -> Gateway {
    let loaded = parse_str("test.toml", text);
    let diagnostics = loaded.text(false);
    loaded.gateway.unwrap_or_else(|| panic!("{diagnostics}"))
}

#[test]
fn a_whole_gateway() {
    let loaded = load(&file("valid.in/full.toml"));
    assert_eq!(loaded.text(false), "");
    let gateway = loaded.gateway.expect("no errors");

    let names: Vec<_> = gateway.interfaces.iter().map(|interface| interface.name.as_str()).collect();
    assert_eq!(names, ["lan", "lan.100", "qinq", "wan"], "a VLAN stands behind its parent");
    assert_eq!(gateway.vrfs.iter().map(|vrf| vrf.name.as_str()).collect::<Vec<_>>(), ["default", "blue"]);
    assert_eq!((gateway.workers.count, &gateway.workers.cores[..]), (1, &[0][..]));
    assert_eq!((gateway.buffers.small, gateway.buffers.large), (16384, 128));
    assert_eq!((gateway.icmp.error_rate, gateway.icmp.error_burst), (0, 0), "no rate, no burst");
    assert_eq!((gateway.icmp.echo_rate, gateway.icmp.echo_burst), (100, 10));

    let lan = &gateway.interfaces[0];
    assert_eq!(lan.mtu, 9000);
    let InterfaceKind::Port { port: PortSpec::Generator(generator), middleware, queues: 2 } = &lan.kind else {
        panic!("{:?}", lan.kind)
    };
    let fault = middleware.fault.expect("faults");
    assert_eq!((fault.drop, fault.reorder, fault.corrupt, fault.seed), (0.01, 1.0, 0.0, 7));
    assert_eq!(middleware.capture, Some(file("valid.in/lan.pcap")), "relative to the file");
    let StreamSource::Template(first) = &generator.streams[0].source else { panic!("a template") };
    assert_eq!((first.flows, first.size, first.protocol), (1000, SizeSpec::Imix, Transport::Udp));
    assert_eq!((generator.streams[0].rate, generator.streams[0].count), (Some(2_500_000), None));
    let ends = |first: &str, last: &str| (first.parse::<IpAddr>().unwrap(), last.parse::<IpAddr>().unwrap());
    assert_eq!(first.source, ends("10.0.0.0", "10.0.0.255"));
    assert_eq!(first.destination, ends("192.0.2.1", "192.0.2.9"));
    let StreamSource::Template(second) = &generator.streams[1].source else { panic!("a template") };
    assert_eq!((second.flows, second.size), (10_000, SizeSpec::Range(80, 1500)), "ten thousand flows, if there can be");
    assert_eq!((second.source_port, second.destination_port), ((1024, 65535), (9, 9)));
    let StreamSource::Template(third) = &generator.streams[2].source else { panic!("a template") };
    assert_eq!((third.flows, &third.vlan[..]), (1, &[(0x88a8, 7), (0x8100, 8)][..]));

    let vlan = &gateway.interfaces[1];
    let outer = Tag { tpid: 0x8100, vid: 100 };
    assert_eq!(vlan.kind, InterfaceKind::Vlan { parent: InterfaceIndex(0), outer, inner: None });
    assert_eq!((vlan.mtu, vlan.vrf), (9000, VrfIndex(1)), "the parent's MTU, a VRF of its own");
    let outer = Tag { tpid: 0x88a8, vid: 100 };
    assert_eq!(gateway.interfaces[2].kind, InterfaceKind::Vlan { parent: InterfaceIndex(0), outer, inner: Some(200) });
    let InterfaceKind::Port { port, .. } = &gateway.interfaces[3].kind else { panic!("a port") };
    let output = Some(file("valid.in/out.pcap"));
    assert_eq!(*port, PortSpec::Pcap(PcapSpec { output, ..PcapSpec::default() }));

    let hops = |index: usize| match &gateway.routes[index].target {
        RouteTarget::Via(hops) => hops.to_vec(),
        other => panic!("{other:?}"),
    };
    let hop = |interface, address: &str, weight| NextHop {
        interface: InterfaceIndex(interface),
        address: address.parse().ok(),
        weight,
    };
    assert_eq!(
        hops(0),
        [hop(3, "198.51.100.254", 3), hop(0, "fe80::2", 1)],
        "found by its connected prefix, and named"
    );
    assert_eq!(hops(1), [hop(0, "2001:db8::2", 1)]);
    assert_eq!(gateway.routes[2].target, RouteTarget::Blackhole);
    assert_eq!((hops(3), gateway.routes[3].vrf), (vec![hop(1, "", 1)], VrfIndex(1)), "straight to the link");
    assert_eq!(gateway.neighbors.len(), 2);
}

#[test]
fn devices_of_the_kernel() {
    let loaded = load(&file("valid.in/kernel.toml"));
    assert_eq!(loaded.text(false), "");
    assert_eq!(loaded.service, Service { user: Some("weir".to_owned()), group: Some("61234".to_owned()) });
    let gateway = loaded.gateway.expect("no errors");
    let port = |index: usize| match &gateway.interfaces[index].kind {
        InterfaceKind::Port { port, .. } => port.clone(),
        InterfaceKind::Vlan { .. } | InterfaceKind::Ipsec | InterfaceKind::Tunnel(_) | InterfaceKind::Bridge(_) => {
            panic!("a port")
        }
    };
    let nets = |nets: &[&str]| nets.iter().map(|net| net.parse().unwrap()).collect::<Vec<ipnet::IpNet>>();
    let af_packet = |interface: &str| AfPacketSpec {
        interface: interface.to_owned(),
        promiscuous: true,
        offload: true,
        shared: false,
    };
    let tap = |name: &str| TapSpec {
        name: name.to_owned(),
        persistent: false,
        offload: true,
        mtu: None,
        addresses: Vec::new(),
        mac: None,
    };
    assert_eq!(port(0), PortSpec::AfPacket(af_packet("eth0")));
    let long = AfPacketSpec { promiscuous: false, offload: false, shared: true, ..af_packet("a-name-of-15-oc") };
    assert_eq!(port(1), PortSpec::AfPacket(long));
    let addresses = nets(&["10.0.0.2/24", "2001:db8:4::2/64"]);
    let mac = Some([2, 0, 0, 0, 0, 2]);
    assert_eq!(port(3), PortSpec::Tap(TapSpec { persistent: true, mtu: Some(9000), addresses, mac, ..tap("host0") }));
    assert_eq!(port(4), PortSpec::Tun(tap("tun0")));

    let punt = |index: usize| gateway.interfaces[index].punt.clone();
    let addresses = nets(&["198.51.100.1/24", "2001:db8:1::1/64"]);
    assert_eq!(punt(0), Some(TapSpec { addresses, ..tap("wan-host") }), "the interface's addresses");
    assert_eq!(punt(1), None);
    let addresses = nets(&["192.0.3.1/32"]);
    let seven = TapSpec { persistent: true, offload: false, mtu: Some(1400), addresses, ..tap("seven") };
    assert_eq!(punt(2), Some(seven), "its own");
    // Without addresses, which the kernel may have in devices of VRFs only.
    let two = "version = 1\n[[vrf]]\nname = \"blue\"\n[[interface]]\nname = \"a\"\nport = \"null\"\naddress = \"192.0.2.1/24\"\npunt = \"a-host\"\n\
               [[interface]]\nname = \"b\"\nport = \"null\"\nvrf = \"blue\"\naddress = \"192.0.2.1/24\"\n";
    let none = self::gateway(&format!("{two}punt = {{ name = \"b-host\", address = [] }}\n"));
    assert_eq!(none.interfaces[1].punt, Some(tap("b-host")));
    assert!(
        parse_str("test.toml", &format!("{two}punt = \"b-host\"\n")).gateway.is_none(),
        "the address is there twice"
    );

    let default = RouterAdvertisement {
        interval: 600,
        lifetime: 1800,
        autonomous: true,
        valid_lifetime: 2_592_000,
        preferred_lifetime: 604_800,
        managed: false,
        other: false,
    };
    let sent = |index: usize| gateway.interfaces[index].router_advertisement;
    assert_eq!((sent(0), sent(1), sent(3)), (None, Some(default), None));
    let seven = RouterAdvertisement {
        interval: 10,
        lifetime: 0,
        autonomous: false,
        valid_lifetime: 3600,
        preferred_lifetime: 3600,
        managed: true,
        other: false,
    };
    assert_eq!(sent(2), Some(seven), "never preferred for longer than valid");

    let expected = NeighborDiscovery {
        reachable_time: 60_000,
        retransmit_time: 500,
        probes: 5,
        delay_first_probe: 0,
        stale_time: 5_400_000,
        hold: 8,
        hold_total: 100,
        rate: 10,
    };
    assert_eq!(gateway.neighbor_discovery, expected);
}

#[test]
fn a_default_router_is_one_for_three_intervals() {
    let lifetime = |interval: &str| {
        let sent = format!("router-advertisement = {{ interval = '{interval}' }}");
        let text =
            format!("version = 1\n[[interface]]\nname = 'a'\nport = 'null'\naddress = '2001:db8::1/64'\n{sent}\n");
        gateway(&text).interfaces[0].router_advertisement.expect("advertisements").lifetime
    };
    assert_eq!((lifetime("4s"), lifetime("30m")), (12, 5400));
}

#[test]
fn the_longest_pause_of_workers_has_its_range() {
    let with = |time: &str| {
        let text = format!("version = 1\n[workers]\nmax-latency = {time}\n[[interface]]\nname = 'a'\nport = 'null'\n");
        let loaded = parse_str("test.toml", &text);
        (loaded.text(false), loaded.gateway.map(|gateway| gateway.workers.max_latency))
    };
    for (time, micros) in [("'0us'", 0), ("'120us'", 120), ("'1ms'", 1000)] {
        assert_eq!(with(time).1, Some(std::time::Duration::from_micros(micros)), "{time}");
    }
    let said = |time: &str| {
        let (text, gateway) = with(time);
        assert!(gateway.is_none(), "{time}");
        text
    };
    let long = said("'2ms'");
    assert!(long.contains("2ms is not within 0s to 1ms, the range of the time that packets may wait"), "{long}");
    assert!(long.contains("test.toml:3:"), "{long}");
    assert!(said("50").contains("a time such as"), "{}", said("50"));
    assert!(said("'70ns'").contains("is a multiple of 1"), "{}", said("'70ns'"));
}

#[test]
fn defaults() {
    let gateway = gateway("version = 1\n[[interface]]\nname = 'a'\nport = 'null'\n");
    let interface = &gateway.interfaces[0];
    assert_eq!((interface.mtu, interface.mac, interface.vrf), (1500, None, VrfIndex(0)));
    assert_eq!((gateway.workers.count, gateway.buffers.small), (1, 8192));
    assert_eq!(gateway.workers.max_latency, std::time::Duration::from_micros(50));
    assert_eq!(gateway.neighbor_discovery, NeighborDiscovery::default());
    let many = "port = 'null'\nqueues = 16\n";
    let many = format!("version = 1\n[[interface]]\nname = 'a'\n{many}[[interface]]\nname = 'b'\n{many}");
    assert_eq!(self::gateway(&many).buffers.small, 33 * 256 * 2, "room for two vectors a queue and worker");
}

#[test]
fn origins_name_file_line_and_text() {
    let place = |gateway: &Gateway, origin| {
        let place = gateway.origins.place(origin).expect("a place");
        (place.file.rsplit_once("check/").expect("a test's file").1.to_owned(), place.line, place.text.to_string())
    };
    let loaded = load(&file("include.in/good.toml")).gateway.expect("no errors");
    let expected = ("include.in/parts/interfaces.toml".to_owned(), 2, "name = \"wan\"".to_owned());
    assert_eq!(place(&loaded, loaded.interfaces[0].origin), expected);
    let expected = ("include.in/good.toml".to_owned(), 5, "prefix = \"203.0.113.0/24\"".to_owned());
    assert_eq!(place(&loaded, loaded.routes[0].origin), expected);

    let loaded = load(&file("route-file.in/good.toml")).gateway.expect("no errors");
    let expected =
        ("route-file.in/lists/good.txt".to_owned(), 3, "11.0.0.0/8    # indented, with a comment".to_owned());
    assert_eq!(place(&loaded, loaded.routes[1].origin), expected);
    let RouteTarget::Via(first) = &loaded.routes[0].target else { panic!("paths") };
    let RouteTarget::Via(last) = &loaded.routes[2].target else { panic!("paths") };
    assert!(std::sync::Arc::ptr_eq(first, last), "the routes of a list share their paths");
    assert_eq!(loaded.origins.place(Origin(0)), None, "what is built in has no place");
}

#[test]
fn a_text_alone_touches_no_file() {
    let loaded = parse_str(
        "text",
        "version = 1\ninclude = '/etc/passwd'\n[[route-file]]\npath = '/etc/passwd'\ntype = 'local'\n",
    );
    let codes: Vec<Code> = loaded.diagnostics.iter().map(|diagnostic| diagnostic.code).collect();
    assert_eq!(codes, [Code::FileUnreadable, Code::FileUnreadable]);
    assert_eq!(loaded.sources.iter().count(), 1);
}

#[test]
fn places_count_lines_and_characters() {
    let loaded = parse_str("text", "\u{feff}version = 1\r\n# é\r\nx = 'é' # é\r\n[[interface]]\r\nname='é'");
    let at = |code| {
        let found = loaded.diagnostics.iter().find(|diagnostic| diagnostic.code == code).expect("found");
        let position = loaded.sources.position(found.primary.as_ref().expect("a place").span);
        (position.line, position.column, position.end_line, position.end_column)
    };
    assert_eq!(at(Code::UnknownKey), (3, 1, 3, 2));
    assert_eq!(at(Code::InvalidName), (5, 6, 5, 9));
    assert!(loaded.text(false).contains("--> text:5:6"), "both ways of saying it agree");
}

/// Nothing that is said points outside the text, and both renderings stand it.
fn holds(text: &str) {
    let loaded = parse_str("fuzz", text);
    for diagnostic in &loaded.diagnostics {
        for label in diagnostic.primary.iter().chain(&diagnostic.related) {
            let text = &loaded.sources.source(label.span.source).text;
            assert!(text.get(label.span.range()).is_some(), "{diagnostic:?}");
        }
    }
    assert_eq!(loaded.gateway.is_none(), loaded.count(Severity::Error) > 0);
    loaded.text(true);
    loaded.json();
}

/// Lines of configurations, right and wrong.
const LINES: &[&str] = &[
    "version = 1",
    "include = \"a.toml\"",
    "[workers]",
    "count = 2",
    "cores = [0, 1]",
    "[buffers]",
    "small = 8192",
    "[[vrf]]",
    "name = \"blue\"",
    "[[interface]]",
    "name = \"wan\"",
    "name = \"lan\"",
    "port = \"null\"",
    "vrf = \"blue\"",
    "parent = \"wan\"",
    "vlan = 7",
    "vlan = { outer = 1, inner = 2 }",
    "address = [\"10.0.0.1/24\", \"2001:db8::1/64\"]",
    "address = \"10.0.1.1/16\"",
    "mtu = 1280",
    "port = { generator = { source = \"10.0.0.0/24\", destination = \"::1-::2\" } }",
    "port = {",
    "}",
    "[",
    "]",
    "\"\"\"",
    "[[route]]",
    "prefix = \"10.9.9.9/8\"",
    "prefix = \"::/0\"",
    "via = { address = \"10.0.0.2\" }",
    "via = [{ interface = \"lan\" }, {}]",
    "type = \"blackhole\"",
    "[[neighbor]]",
    "interface = \"wan\"",
    "address = \"10.0.0.9\"",
    "mac = \"02:00:00:00:00:01\"",
    "[[route-file]]",
    "path = \"x\"",
    "metric = 7",
    "sav = \"edge\"",
    "sav = { ipv4 = \"edge\", ipv6 = \"none\" }",
    "[sav.edge]",
    "mechanism = \"table\"",
    "mechanism = \"acl\"",
    "mechanism = \"urpf-strict\"",
    "layout = \"cards\"",
    "rules = [\"permit from any on wan\", 'permit from 10.0.0.1/8 on lan, wan, wan comment \"x\"']",
    "rules = \"deny \\u0066rom 10.0.0.0/8 on wan, \\u00e9\"",
    "files = \"x.csv\"",
    "[line-card.one]",
    "interfaces = [\"wan\", \"lan\"]",
    "a.b.c = 1",
    "= 5",
    "é = \"\u{1f980}\"",
    "\r",
    "# comment",
    "[interface.port]",
    "fault = { drop = 2 }",
    "\u{feff}",
    "\0",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_answered(text in "\\PC{0,200}") {
        holds(&text);
    }

    #[test]
    fn any_mixture_of_lines_is_answered(picks in prop::collection::vec(0..LINES.len(), 0..40), cut in any::<prop::sample::Index>()) {
        let text = picks.iter().map(|&pick| LINES[pick]).collect::<Vec<_>>().join("\n");
        holds(&text);
        let mut cut = cut.index(text.len() + 1);
        while !text.is_char_boundary(cut) {
            cut -= 1;
        }
        holds(&text[..cut]);
    }
}

/// Each text has one error of syntax, and behind it a key that does not exist: both are found, and nothing else.
#[test]
fn one_statement_lost_is_one_error() {
    for broken in [
        "mtu 5",
        "mtu",
        "mtu =",
        "= 5",
        "mtu = 05",
        "mtu = [1, 2",
        "mtu = { a = 1",
        "mtu = [\n1,\n2",
        "mtu = 'a",
        "mtu = \"\\q\"",
        "mtu = 5 6",
        "mtu = ]",
        "[[interface]",
        "mtu = 'a'b",
        "é = 5",
        "a..b = 1",
        "mtu = \"\u{1}\"",
    ] {
        let text = format!(
            "version = 1\n[[interface]]\nname = 'a'\nport = 'null'\n{broken}\nqueues = 2\n\n[[vrf]]\nname = 'b'\nx = 1\n"
        );
        let loaded = parse_str("text", &text);
        let codes: Vec<Code> = loaded.diagnostics.iter().map(|diagnostic| diagnostic.code).collect();
        assert_eq!(codes, [Code::Syntax, Code::UnknownKey], "{}", loaded.text(false));
    }
}

#[test]
fn very_many_errors_are_cut_short() {
    let text = format!("version = 1\n{}", "a = 1\n".repeat(50_000));
    let loaded = parse_str("text", &text);
    assert_eq!(loaded.diagnostics.iter().filter(|diagnostic| diagnostic.code == Code::Syntax).count(), 101);
}

/// A gateway of three interfaces, with this behind them.
fn with_customers(sav: &str, rest: &str) -> String {
    format!(
        "version = 1\n[[interface]]\nname = 'cust1'\nport = 'null'\naddress = '10.0.1.1/24'\n{sav}\n\
         [[interface]]\nname = 'cust2'\nport = 'null'\naddress = '10.0.2.1/24'\n\
         [[interface]]\nname = 'cust2.7'\nparent = 'cust2'\nvlan = 7\naddress = '10.0.7.1/24'\n{rest}"
    )
}

#[test]
fn policies_of_source_address_validation() {
    let text = with_customers(
        "sav = { ipv4 = 'edge', ipv6 = 'none' }",
        r#"
        [sav.edge]
        mechanism = "table"
        match = "any-covering"
        layout = "cards"
        lookup = "parallel"
        incremental = true
        action = "permit"
        special = { loopback = "check", link-local = "deny" }
        rules = ["permit from 10.0.0.0/8 on cust2, cust1", 'permit from any on any comment "all"', "permit from ::/0 on cust1,cust2"]
        [line-card.lc1]
        interfaces = ["cust2"]
        "#,
    );
    let gateway = gateway(&text);
    let [policy] = &gateway.sav[..] else { panic!("{:?}", gateway.sav) };
    assert_eq!((policy.name.as_str(), policy.action), ("edge", SavAction::Permit));
    let special =
        SpecialSources { loopback: SpecialAction::Check, link_local: SpecialAction::Deny, ..SpecialSources::default() };
    assert_eq!(policy.special, special);
    let Mechanism::Table { rules, matching: Match::AnyCovering, layout: SavLayout::Cards(Order::Parallel) } =
        &policy.mechanism
    else {
        panic!("{:?}", policy.mechanism)
    };
    assert!(rules.incremental && !rules.hits);
    let interfaces = |rule: &SavRule| rule.interfaces.iter().map(|interface| interface.0).collect::<Vec<_>>();
    let read: Vec<_> = rules.list.iter().map(|rule| (rule.prefix.to_string(), interfaces(rule), rule.permit)).collect();
    let expected =
        [("10.0.0.0/8", vec![0, 1]), ("0.0.0.0/0", vec![0, 1, 2]), ("::/0", vec![0, 1, 2]), ("::/0", vec![0, 1])];
    assert_eq!(read, expected.map(|(prefix, interfaces)| (prefix.to_owned(), interfaces, true)));
    assert!(std::sync::Arc::ptr_eq(&rules.list[0].interfaces, &rules.list[3].interfaces), "one list of one set");
    assert_eq!(rules.list[1].origin, rules.list[2].origin);
    let sav = |index: usize| gateway.interfaces[index].sav;
    assert_eq!(sav(0), PerFamily { v4: Some(SavIndex(0)), v6: None });
    assert_eq!(sav(1), PerFamily::default());
    let cards: Vec<_> = gateway.line_cards.iter().map(|card| (card.name.as_str(), &card.interfaces[..])).collect();
    assert_eq!(cards, [("lc1", &[InterfaceIndex(1), InterfaceIndex(2)][..])], "the VLAN sits where its parent does");
}

#[test]
fn what_becomes_of_invalid_packets() {
    let text = with_customers(
        "sav = 'edge'",
        r#"
        [sav.edge]
        mechanism = "table"
        action = "redirect"
        rate-limit = { bits = "2.5M", per = "rule" }
        redirect = [{ interface = "cust2.7" }, { address = "10.0.2.9" }]
        sample = { one-in = 100, to = "lab" }
        exempt = ["permit icmp from any to any type echo-request", "deny ip6 from any to any"]
        link-check = "strict"
        alarm = { packets = "1k", window = "1m" }
        rules = ["interface permit from 10.0.0.0/8 on cust1", "deny from 10.0.0.0/8 on cust2"]
        [sav.loose]
        mechanism = "urpf-loose"
        rate-limit = { packets = 7 }
        redirect = { address = "10.0.7.9" }
        [sampler.lab]
        ipfix = "127.0.0.1:4739"
        "#,
    );
    let gateway = gateway(&text);
    let [edge, loose] = &gateway.sav[..] else { panic!("{:?}", gateway.sav) };
    let limit = |unit, rate, burst, per| Some(RateLimit { unit, rate, burst, per });
    assert_eq!(edge.action, SavAction::Redirect);
    assert_eq!(edge.rate_limit, limit(RateUnit::Bits, 2_500_000, 65_535 * 8, RatePer::Rule));
    assert_eq!(loose.rate_limit, limit(RateUnit::Packets, 7, 1, RatePer::Interface));
    let hop = |interface, address: Option<&str>| {
        let address = address.map(|address| address.parse().expect("an address"));
        Some(NextHop { interface: InterfaceIndex(interface), address, weight: 1 })
    };
    assert_eq!(edge.redirect, PerFamily { v4: hop(1, Some("10.0.2.9")), v6: hop(2, None) });
    assert_eq!(loose.redirect, PerFamily { v4: hop(2, Some("10.0.7.9")), v6: None });
    assert_eq!(edge.sample.map(|sample| (sample.one_in, sample.to)), Some((100, SamplerIndex(0))));
    let exempt: Vec<_> = edge.exempt.iter().map(|rule| (rule.action == AclAction::Permit, rule.family)).collect();
    assert_eq!(exempt, [(true, Some(IpFamily::V4)), (false, Some(IpFamily::V6))]);
    assert_eq!((edge.link_check, loose.link_check), (LinkCheck::Strict, LinkCheck::Off));
    assert_eq!(edge.alarm, Some(Alarm { packets: 1000, window: 60 }));
    let modes: Vec<_> = edge.mechanism.rules().expect("a table").list.iter().map(SavRule::mode).collect();
    assert_eq!(modes, [Mode::InterfaceAllow, Mode::PrefixBlock]);
}

#[test]
fn files_of_rules() {
    let loaded = load(&file("valid.in/sav.toml"));
    assert_eq!(loaded.text(false), "");
    let gateway = loaded.gateway.expect("no errors");
    let rules = gateway.sav[0].mechanism.rules().expect("a table");
    let read = rules.list.iter().map(|rule| {
        let place = gateway.origins.place(rule.origin).expect("a place");
        let interfaces: Vec<_> = rule.interfaces.iter().map(|interface| interface.0).collect();
        let file = place.file.rsplit_once("valid.in/").expect("a test's file").1.to_owned();
        (rule.prefix.to_string(), interfaces, file, place.line)
    });
    let expected = [
        ("2001:db8::/32", vec![0], "sav.toml", 24),
        ("192.0.2.0/26", vec![0, 1], "lists/sav.rules", 2),
        ("192.0.2.64/26", vec![0, 1], "lists/sav.rules", 3),
        ("10.0.0.0/9", vec![0, 1], "lists/sav.csv", 2),
        ("10.128.0.0/9", vec![0, 1, 2], "lists/sav.csv", 3),
        ("172.16.0.0/12", vec![0, 1], "lists/sav.json", 2),
        ("2001:db8:7::/48", vec![0, 1, 2], "lists/sav.json", 3),
    ];
    let expected =
        expected.map(|(prefix, interfaces, file, line)| (prefix.to_owned(), interfaces, file.to_owned(), line));
    assert_eq!(read.collect::<Vec<_>>(), expected);
    assert_eq!(gateway.interfaces[2].sav, PerFamily::default(), "its policy is switched off");
}

#[test]
fn unicast_reverse_path_forwarding() {
    let rest = "[[vrf]]\nname = 'blue'\n[[interface]]\nname = 'blue'\nport = 'null'\nvrf = 'blue'\naddress = '10.0.9.1/24'\n\
        [sav.a]\nmechanism = 'none'\nvrf = 1\n\
        [sav.b]\nmechanism = 'urpf-loose'\nallow-default = true\nvrf = 'blue'\n[sav.c]\nmechanism = 'urpf-feasible'\n";
    let text = with_customers("sav = { ipv4 = 'c', ipv6 = 'b' }", rest)
        .replace("name = 'cust2'\n", "name = 'cust2'\nsav = 'a'\n");
    let gateway = gateway(&text);
    let mechanisms: Vec<_> =
        gateway.sav.iter().map(|policy| (policy.name.as_str(), policy.mechanism.clone())).collect();
    let loose = Urpf { mode: UrpfMode::Loose, default_route: true, vrf: Some(VrfIndex(1)) };
    let feasible = Urpf { mode: UrpfMode::Feasible, default_route: false, vrf: None };
    assert_eq!(mechanisms, [("b", Mechanism::Urpf(loose)), ("c", Mechanism::Urpf(feasible))]);
    assert_eq!(gateway.interfaces[0].sav, PerFamily { v4: Some(SavIndex(1)), v6: Some(SavIndex(0)) });
    assert_eq!(gateway.interfaces[1].sav, PerFamily::default(), "switched off");
}

#[test]
fn one_prefix_stands_once_for_each_metric() {
    let route = |metric: &str| format!("[[route]]\nprefix = '203.0.113.0/24'\n{metric}\ntype = 'blackhole'\n");
    let text = |metrics: [&str; 3]| with_customers("", &metrics.map(route).concat());
    let gateway = gateway(&text(["", "metric = 4294967295", "metric = 7"]));
    assert_eq!(gateway.routes.iter().map(|route| route.metric).collect::<Vec<_>>(), [0, u32::MAX, 7]);
    let again = parse_str("text", &text(["", "metric = 7", "metric = 0"]));
    let codes: Vec<Code> = again.diagnostics.iter().map(|diagnostic| diagnostic.code).collect();
    assert_eq!(codes, [Code::DuplicateRoute]);
}

#[test]
fn sources_of_routes() {
    let load = |text: &str| {
        let loaded = parse_str(
            "test.toml",
            &format!(
                "version = 1\n[[vrf]]\nname = \"blue\"\n[[interface]]\nname = \"a\"\nport = \"null\"\nvrf = \"blue\"\n{text}"
            ),
        );
        assert!(loaded.gateway.is_some(), "{}", loaded.text(false));
        loaded.routes
    };
    assert_eq!((load(""), load("[routes]\nlimit = 5\n")), (None, None), "no source");
    let plain = load("[routes]\nkernel = true\n").expect("a source");
    let usual = routes::Table::main();
    assert_eq!((plain.kernel, plain.fpm, plain.limit, &plain.tables[..]), (true, None, 2_000_000, &[usual][..]));
    let all = "[routes]\nfpm = \"[::1]:2620\"\nlimit = 7\nstale-time = \"3s\"\n\
               [[routes.table]]\nvrf = \"blue\"\nid = 100\nprotocols = [\"bgp\", 77]\nmax-metric = 9\n";
    let all = load(all).expect("a source");
    assert_eq!((all.kernel, all.fpm, all.limit), (false, Some("[::1]:2620".parse().unwrap()), 7));
    assert_eq!(all.stale_time.as_secs(), 3);
    let [table] = &all.tables[..] else { panic!("{:?}", all.tables) };
    assert_eq!((table.id, &*table.vrf, table.max_metric), (100, "blue", 9));
    assert_eq!([186, 77, 2, 3].map(|protocol| table.takes(protocol, 0)), [true, true, false, false]);
    assert_eq!([1, 2, 3, 186].map(|protocol| routes::Table::main().takes(protocol, 0)), [false, false, true, true]);
    assert!(table.takes(186, table.max_metric) && !table.takes(186, table.max_metric + 1));
}

#[test]
fn the_lifetime_of_first_use_is_a_time_or_a_number_of_seconds() {
    for (lifetime, seconds) in [("300", 300), ("\"5m\"", 300), ("\"1d\"", 86_400)] {
        let gateway = gateway(&format!("version = 1\n[mac-ip.a]\nlearn = \"slaac\"\nslaac-lifetime = {lifetime}\n"));
        let slaac = gateway.bindings[0].learn.and_then(|learn| learn.slaac);
        assert_eq!(slaac.map(|slaac| slaac.lifetime), Some(seconds), "{lifetime}");
    }
    for lifetime in ["\"0s\"", "\"2d\"", "\"1500ms\"", "true"] {
        let text = format!("version = 1\n[mac-ip.a]\nlearn = \"slaac\"\nslaac-lifetime = {lifetime}\n");
        assert!(parse_str("test.toml", &text).gateway.is_none(), "{lifetime}");
    }
}
