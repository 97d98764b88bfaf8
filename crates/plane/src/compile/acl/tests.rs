//! Tests of chains, of sections that versions share, and of numbers and counters of rules.

use std::sync::Arc;

use ipnet::IpNet;
use weir_base::reclaim::{Domain, Reader};
use weir_table::classify::Fields;

use super::super::{Compiler, Places, Settings, TableFull};
use crate::kit::*;
use crate::model::{
    AclAction, AclDefault, AclIndex, AclLimit, AclList, AclRule, Addresses, Gateway, Group, InterfaceIndex, Interfaces,
    Origin, Place, RateUnit, Rejection, Sampler, SamplerIndex, Sampling, Transport,
};
use crate::root::Root;
use crate::root::acl::{Access, Action, Found, NONE};

const PERMIT: AclAction = AclAction::Permit;
const DENY: AclAction = AclAction::Deny;

/// A rule about sources.
fn rule(action: AclAction, from: &str) -> AclRule {
    AclRule { from: Addresses::Net(from.parse::<IpNet>().unwrap()), ..AclRule::all(action, Origin(0)) }
}

fn to_port(port: u16) -> Transport {
    Transport::Ports { protocol: 6, source: (0..=u16::MAX).into(), destination: (port..=port).into(), flags: None }
}

fn list(name: &str, rules: &[AclRule]) -> AclList {
    let (rules, default) = (rules.into(), AclDefault::Next);
    AclList { name: name.into(), rules, default, sample: None, origin: Origin(0) }
}

/// Three ports, of which none has a list.
fn model(lists: &[AclList]) -> Gateway {
    let mut build = Build::new().port("a", &["10.0.0.1/24"]).port("b", &["10.0.1.1/24"]).port("c", &[]);
    build.0.acls = lists.to_vec();
    build.0
}

/// Gives an interface lists for ingress and for egress.
fn name(gateway: &mut Gateway, interface: usize, input: &[u16], output: &[u16]) {
    let access = &mut gateway.interfaces[interface].access;
    access.acl_in = input.iter().copied().map(AclIndex).collect();
    access.acl_out = output.iter().copied().map(AclIndex).collect();
}

struct Rig {
    compiler: Compiler,
    reader: Reader,
    root: Option<Root>,
}

impl Rig {
    fn new(gateway: &Gateway) -> Rig {
        let domain = Domain::new();
        let settings = Settings { workers: 2, invent_neighbors: false, secret: [1, 2, 3, 4] };
        let reader = domain.reader().unwrap();
        Rig { compiler: Compiler::new(&domain, settings, gateway.limits), reader, root: None }
    }

    fn of(gateway: &Gateway) -> Rig {
        let mut rig = Rig::new(gateway);
        rig.compile(gateway).unwrap();
        rig
    }

    fn compile(&mut self, gateway: &Gateway) -> Result<(), TableFull> {
        let (root, _) = self.compiler.compile(gateway, &Places::default())?;
        self.root = Some(root);
        Ok(())
    }

    fn access(&self) -> &Access {
        &self.root.as_ref().unwrap().acl
    }

    /// The chains of an interface, in and out; the same for both families.
    fn chains(&self, interface: usize) -> (u16, u16) {
        let interface = &self.root.as_ref().unwrap().interfaces[interface];
        assert_eq!(interface.acl_in.v4, interface.acl_in.v6);
        assert_eq!(interface.acl_out.v4, interface.acl_out.v6);
        (interface.acl_in.v4, interface.acl_out.v4)
    }

    fn ask(&mut self, chain: u16, packet: Fields<u32>) -> Found {
        let chains = &self.root.as_ref().unwrap().acl.v4;
        let mut found = [0];
        chains[usize::from(chain)].lookup_each(chains, &self.reader.pin(), &[packet], &mut found);
        Found::of(found[0])
    }

    /// Returns the result of a chain for a TCP packet from an address.
    fn from(&mut self, chain: u16, source: &str) -> Found {
        self.ask(chain, Fields::new(source.parse::<std::net::Ipv4Addr>().unwrap().to_bits(), 9, 6).with_ports(1, 80))
    }

    fn found_v6(&mut self, chain: u16, source: &str) -> Found {
        let packet = Fields::new(source.parse::<std::net::Ipv6Addr>().unwrap().to_bits(), 9, 6);
        let chains = &self.root.as_ref().unwrap().acl.v6;
        let mut found = [0];
        chains[usize::from(chain)].lookup_each(chains, &self.reader.pin(), &[packet], &mut found);
        Found::of(found[0])
    }
}

/// Rules for ranges around one address, the narrowest first: all overlap, none covers a later one, and no field parts them. The
/// rule of each line after the first.
fn around(rules: u32) -> Vec<AclRule> {
    let address = |number: u32| std::net::IpAddr::V4(number.into());
    let from = |width| Addresses::Range(address((1 << 31) - 1 - width), address((1 << 31) + width));
    (0..rules).map(|width| AclRule { from: from(width), ..AclRule::all(DENY, Origin(width + 1)) }).collect()
}

/// The rule that is one too many is named by where it was declared, and by its place in the list.
#[test]
fn more_rules_that_overlap_than_a_lookup_can_search_are_refused_by_name() {
    let mut gateway = model(&[list("deep", &around(49_000))]);
    name(&mut gateway, 0, &[0], &[]);
    let mut rig = Rig::of(&gateway);
    assert_eq!(rig.from(0, "128.0.0.9").action(), Action::Deny);
    gateway.acls[0] = list("deep", &around(49_200));
    let refused = rig.compile(&gateway).unwrap_err();
    assert_eq!((&*refused.table, refused.origin), ("acl deep", Origin(49_153)));
    assert_eq!(
        refused.to_string(),
        "acl deep: more than 49152 rules overlap so that no field separates them, and a lookup would have to search them \
         all: the rule at place 1 is the first of them, and the one at place 49153 is too many"
    );
    // What was in force stays.
    assert_eq!(rig.from(0, "128.0.0.9").action(), Action::Deny);
}

#[test]
fn interfaces_that_name_the_same_lists_share_a_chain() {
    let permits = |net| rule(PERMIT, net);
    let lists = [list("x", &[permits("10.0.0.0/8")]), list("y", &[permits("192.0.2.0/24")])];
    let mut gateway = model(&lists);
    name(&mut gateway, 0, &[0, 1], &[1]);
    name(&mut gateway, 1, &[0, 1, 0], &[]);
    name(&mut gateway, 2, &[1, 0], &[0, 1]);
    let mut rig = Rig::of(&gateway);
    assert_eq!(rig.chains(0), (0, 1));
    assert_eq!(rig.chains(1), (0, NONE));
    assert_eq!(rig.chains(2), (2, 0));
    assert_eq!((rig.access().v4.len(), rig.access().v6.len()), (3, 3));
    assert!(rig.access().input && rig.access().output);
    let (ten, two) = (rig.from(0, "10.1.2.3"), rig.from(0, "192.0.2.1"));
    assert!(ten.just_permits() && two.just_permits());
    assert_eq!((rig.from(2, "10.1.2.3"), rig.from(2, "192.0.2.1"), rig.from(1, "192.0.2.1")), (ten, two, two));
    // What no list matches is denied, and counts for the last one.
    let (y, x) = (rig.from(0, "1.1.1.1"), rig.from(2, "1.1.1.1"));
    assert_eq!((y.action(), x.action(), rig.from(1, "10.1.2.3")), (Action::Deny, Action::Deny, y));
    assert_ne!(x.number(), y.number());
    assert_eq!(rig.found_v6(0, "2001:db8::1"), y);
    assert!(!rig.access().v4[0].needs_transport);
}

#[test]
fn large_lists_are_kept_once_for_all_that_name_them() {
    let many: Vec<AclRule> = (0..100).map(|net| rule(DENY, &format!("10.0.{net}.0/24"))).collect();
    let ported = AclRule { transport: to_port(80), ..rule(PERMIT, "10.0.0.0/16") };
    let own = |net| list(net, &[rule(PERMIT, &format!("10.0.{net}.0/28"))]);
    let lists =
        [list("large", &many), own("1"), own("2"), own("3"), list("last", &[ported, rule(PERMIT, "11.0.0.0/8")])];
    let mut gateway = model(&lists);
    name(&mut gateway, 0, &[1, 0, 4], &[0, 4]);
    name(&mut gateway, 1, &[2, 0, 4], &[0, 3]);
    name(&mut gateway, 2, &[3], &[]);
    let mut rig = Rig::new(&gateway);
    // It is in four sequences.
    rig.compiler.share_acls(299);
    rig.compile(&gateway).unwrap();
    let sections = |rig: &Rig, gateway: &Gateway| -> Vec<(String, bool, usize)> {
        let sections = rig.compiler.acl_sections(gateway).into_iter();
        sections.map(|section| (section.lists.join(","), section.is_last, section.v4.boxes)).collect()
    };
    let section = |lists: &str, is_last, boxes| (lists.to_owned(), is_last, boxes);
    let mut told = sections(&rig, &gateway);
    told.sort();
    let all = [
        section("1", false, 1),
        section("2", false, 1),
        section("3", true, 1),
        section("large", false, 100),
        section("last", true, 2),
    ];
    assert_eq!(told, all);
    // Chains before a section that matches ports say so.
    let needs: Vec<bool> = rig.access().v4.iter().map(|chain| chain.needs_transport).collect();
    let (a, b, c) = (rig.chains(0), rig.chains(1), rig.chains(2));
    assert_eq!((a, b, c), ((0, 1), (2, 3), (4, NONE)));
    assert_eq!(needs[..5], [true, true, true, false, false]);
    assert!(rig.access().v6.iter().all(|chain| !chain.needs_transport));
    // The own lists first, then the large one, then what is behind it.
    let said = |rig: &mut Rig, chain, from| {
        let found = rig.from(chain, from);
        let list = rig.compiler.acl_decision(found).map(|decision| (decision.list, decision.rule.is_some()));
        let (list, by_rule) = list.unwrap();
        (found.action(), list, by_rule)
    };
    let permitted = |list: &str| (Action::Permit, list.to_owned(), true);
    let denied = |list: &str, by_rule| (Action::Deny, list.to_owned(), by_rule);
    assert_eq!(said(&mut rig, a.0, "10.0.1.5"), permitted("1"));
    assert_eq!(said(&mut rig, b.0, "10.0.1.5"), denied("large", true));
    assert_eq!(said(&mut rig, b.0, "10.0.2.5"), permitted("2"));
    assert_eq!(said(&mut rig, a.1, "10.0.2.5"), denied("large", true));
    assert_eq!(said(&mut rig, a.0, "11.1.1.1"), permitted("last"));
    assert_eq!(said(&mut rig, b.1, "11.1.1.1"), denied("3", false));
    assert_eq!(said(&mut rig, b.1, "10.0.3.1"), denied("large", true));
    assert_eq!(said(&mut rig, c.0, "10.0.3.1"), permitted("3"));
    assert_eq!(said(&mut rig, a.0, "12.1.1.1"), denied("last", false));
    // Another own list concerns no other section.
    let before: Vec<_> = rig.access().v4.iter().map(|chain| Arc::clone(&chain.table)).collect();
    gateway.acls[1].rules = [rule(PERMIT, "10.0.9.0/28")].into();
    rig.compile(&gateway).unwrap();
    let is_kept = |(chain, before): (&crate::root::acl::Chain<u32>, &Arc<_>)| Arc::ptr_eq(&chain.table, before);
    let kept: Vec<bool> = rig.access().v4.iter().zip(&before).map(is_kept).collect();
    assert_eq!(kept.iter().filter(|kept| !**kept).count(), 1);
    assert!(!kept[0]);
    assert_eq!(said(&mut rig, 0, "10.0.9.5"), permitted("1"));
    // Once it is small, all sequences have it.
    gateway.acls[0].rules = many[..99].into();
    rig.compile(&gateway).unwrap();
    assert_eq!(sections(&rig, &gateway).len(), 5);
    assert_eq!(sections(&rig, &gateway)[0], section("1,large,last", true, 102));
    assert_eq!(rig.chains(1), b);
    assert_eq!(said(&mut rig, b.0, "10.0.1.5"), denied("large", true));
    assert_eq!(said(&mut rig, b.0, "10.0.99.5"), permitted("last"));
}

#[test]
fn interfaces_without_lists_have_no_chains() {
    let rig = Rig::of(&model(&[list("x", &[])]));
    assert_eq!((rig.chains(0), rig.access().v4.len()), ((NONE, NONE), 0));
    assert!(!rig.access().input && !rig.access().output);
}

#[test]
fn a_default_that_decides_is_the_last_that_is_asked() {
    let mut lists = [list("x", &[rule(DENY, "10.0.0.0/8")]), list("y", &[rule(DENY, "192.0.2.0/24")])];
    lists[0].default = AclDefault::Action(PERMIT);
    lists[1].default = AclDefault::Action(AclAction::Reject(Rejection::Icmp));
    let mut gateway = model(&lists);
    name(&mut gateway, 0, &[0, 1], &[1, 0]);
    let mut rig = Rig::of(&gateway);
    assert_eq!(rig.from(0, "10.1.2.3").action(), Action::Deny);
    assert!(rig.from(0, "192.0.2.1").just_permits());
    let rejected = rig.from(1, "10.1.2.3");
    assert_eq!((rejected.action(), rejected.is_special()), (Action::Reject, true));
    assert_eq!(rig.access().pages.special(rejected).unwrap().rejection, Rejection::Icmp);
    assert_eq!(rig.from(1, "192.0.2.1").action(), Action::Deny);
}

#[test]
fn chains_say_whether_rules_ask_for_ports() {
    let any = AclRule::all(PERMIT, Origin(0));
    let flags = crate::model::TcpFlags { value: 2, mask: 2 };
    let all = 0..=u16::MAX;
    let tcp =
        |flags| Transport::Ports { protocol: 6, source: all.clone().into(), destination: all.clone().into(), flags };
    let icmp = |code| Transport::Icmp { protocol: 1, icmp_type: None, code: Some(code) };
    let cases = [
        (Transport::Protocol(6), false),
        (tcp(None), false),
        (tcp(Some(flags)), true),
        (to_port(80), true),
        (icmp(0..=255), false),
        (icmp(0..=1), true),
    ];
    for (transport, needs) in cases {
        let mut gateway = model(&[list("x", &[any.clone(), AclRule { transport, ..any.clone() }])]);
        name(&mut gateway, 0, &[0], &[]);
        let rig = Rig::of(&gateway);
        assert_eq!(rig.access().v4[0].needs_transport, needs, "{:?}", gateway.acls[0].rules[1]);
    }
}

#[test]
fn special_rules_have_what_they_ask_for() {
    let limit = Some(AclLimit { unit: RateUnit::Packets, rate: 10, burst: 3 });
    let rules = [
        AclRule { log: true, ..rule(DENY, "10.0.0.0/24") },
        AclRule { limit, ..rule(PERMIT, "10.0.1.0/24") },
        rule(AclAction::Reject(Rejection::Reset), "10.0.2.0/24"),
        rule(AclAction::Reject(Rejection::Usual), "10.0.3.0/24"),
    ];
    let mut gateway =
        model(&[AclList { sample: Some(Sampling { one_in: 7, to: SamplerIndex(1) }), ..list("x", &rules) }]);
    let sampler = |name: &str| Sampler {
        name: name.into(),
        pcap: None,
        ipfix: None,
        snap_length: 64,
        rate: 1,
        origin: Origin(0),
    };
    gateway.samplers = vec![sampler("s"), sampler("t")];
    name(&mut gateway, 0, &[0], &[]);
    let mut rig = Rig::of(&gateway);
    let all: Vec<Found> = ["10.0.0.1", "10.0.1.1", "10.0.2.1", "10.0.3.1"].map(|from| rig.from(0, from)).into();
    assert_eq!(all.iter().map(|found| found.is_special()).collect::<Vec<_>>(), [true, true, true, false]);
    let special = |rig: &Rig, found| rig.access().pages.special(found).cloned();
    let logged = special(&rig, all[0]).unwrap();
    let choice = logged.sample.unwrap();
    assert_eq!((choice.sampler, choice.one_in, logged.meter.is_none()), (1, 7, true));
    let limited = special(&rig, all[1]).unwrap();
    assert!(limited.sample.is_none());
    let meter = limited.meter.unwrap();
    assert_eq!((meter.limit().rate, meter.limit().burst, meter.len()), (10, 3, 1));
    assert_eq!(special(&rig, all[2]).unwrap().rejection, Rejection::Reset);
    assert!(special(&rig, all[3]).is_none());

    // Another sampler concerns no classifier; and the bucket stays as full as it is.
    let before = Arc::clone(&rig.access().v4[0].table);
    gateway.acls[0].sample = Some(Sampling { one_in: 9, to: SamplerIndex(0) });
    rig.compile(&gateway).unwrap();
    assert!(Arc::ptr_eq(&before, &rig.access().v4[0].table));
    let choice = special(&rig, all[0]).unwrap().sample.unwrap();
    assert_eq!((choice.sampler, choice.one_in), (0, 9));
    assert!(Arc::ptr_eq(&meter, &special(&rig, all[1]).unwrap().meter.unwrap()));
}

#[test]
fn lists_that_stay_the_same_keep_their_classifiers() {
    let received_on = Some(Interfaces::List([InterfaceIndex(2)].into()));
    let rules = [rule(PERMIT, "10.0.0.0/8"), AclRule { received_on, ..rule(DENY, "192.0.2.0/24") }];
    let mut gateway = model(&[list("x", &rules), list("y", &[rule(PERMIT, "10.1.0.0/16")])]);
    name(&mut gateway, 0, &[0], &[1]);
    name(&mut gateway, 1, &[0, 1], &[]);
    let mut rig = Rig::of(&gateway);
    let tables = |rig: &Rig| rig.access().v4.iter().map(|chain| Arc::clone(&chain.table)).collect::<Vec<_>>();
    let before = tables(&rig);
    let is_kept = |rig: &Rig| -> Vec<bool> {
        tables(rig).iter().map(|table| before.iter().any(|before| Arc::ptr_eq(before, table))).collect()
    };
    rig.compile(&gateway).unwrap();
    assert_eq!(is_kept(&rig), [true; 3]);

    // Lists in another order, that stand elsewhere, in a model with another interface before the others.
    let mut other = Build::new().port("new", &[]).port("a", &[]).port("b", &[]).port("c", &[]).0;
    other.acls = vec![gateway.acls[1].clone(), gateway.acls[0].clone()];
    let origin = other.origins.add(Place { file: "f".into(), line: 3, text: "".into() });
    let mut moved = other.acls[1].rules.to_vec();
    moved[1].received_on = Some(Interfaces::List([InterfaceIndex(3)].into()));
    moved[1].origin = origin;
    moved[1].comment = Some("why".into());
    other.acls[1].rules = moved.into();
    name(&mut other, 1, &[1], &[0]);
    name(&mut other, 2, &[1, 0], &[]);
    rig.compile(&other).unwrap();
    assert_eq!(is_kept(&rig), [true; 3]);

    // Another default, another rule, and another order of lists.
    other.acls[0].default = AclDefault::Action(DENY);
    rig.compile(&other).unwrap();
    assert_eq!(is_kept(&rig), [true, false, false]);
    other.acls[0].default = AclDefault::Next;
    other.acls[1].rules = other.acls[1].rules[..1].into();
    name(&mut other, 0, &[0], &[0, 1]);
    rig.compile(&other).unwrap();
    assert_eq!(is_kept(&rig), [false; 4]);
}

#[test]
fn rules_that_stay_keep_their_numbers_and_what_they_counted() {
    let rules: Vec<AclRule> = (0..20).map(|net| rule(PERMIT, &format!("10.0.{net}.0/24"))).collect();
    let mut gateway = model(&[list("x", &rules)]);
    name(&mut gateway, 0, &[0], &[]);
    let mut rig = Rig::of(&gateway);
    let number = |rig: &mut Rig, net: usize| rig.from(0, &format!("10.0.{net}.9")).number();
    let before: Vec<u32> = (0..20).map(|net| number(&mut rig, net)).collect();
    for (packets, &number) in (1..).zip(&before) {
        rig.access().pages.counter(1, number).unwrap().packets.add(packets);
    }
    // Five go, others are in another order, one has another action, and there are new ones.
    let mut new: Vec<AclRule> = rules[5..].iter().rev().cloned().collect();
    new[3].action = DENY;
    new.extend((30..35).map(|net| rule(PERMIT, &format!("10.0.{net}.0/24"))));
    gateway.acls[0].rules = new.into();
    rig.compile(&gateway).unwrap();
    let changed = 20 - 1 - 3;
    for (net, &was) in before.iter().enumerate().skip(5) {
        let now = number(&mut rig, net);
        assert_eq!(now == was, net != changed, "10.0.{net}.0/24");
        if net != changed {
            assert_eq!(rig.access().pages.matched(now).0, net as u64 + 1);
        }
    }
    let fresh: Vec<u32> = (30..35).map(|net| number(&mut rig, net)).collect();
    assert!(fresh.iter().all(|number| !before.contains(number)));
    // What was given up rests, though readers have passed: who still says it means the rule that had it.
    gateway.acls[0].rules = [&gateway.acls[0].rules[..], &[rule(DENY, "172.16.0.0/12")]].concat().into();
    rig.compile(&gateway).unwrap();
    assert!(!before.contains(&rig.from(0, "172.16.1.1").number()));
}

#[test]
fn what_has_no_room_is_refused_and_changes_nothing() {
    let rules: Vec<AclRule> = (0..60).map(|net| rule(PERMIT, &format!("10.0.{net}.0/24"))).collect();
    let mut gateway = model(&[list("x", &rules), list("y", &[])]);
    gateway.limits.acl_rules = 100;
    name(&mut gateway, 0, &[0, 1], &[]);
    let mut rig = Rig::of(&gateway);
    let before = Arc::clone(&rig.access().v4[0].table);
    let origin = |gateway: &mut Gateway| gateway.origins.add(Place { file: "f".into(), line: 7, text: "".into() });
    // The 41st rule of the second list is one too many.
    let mut full = gateway.clone();
    let at = origin(&mut full);
    let mut more: Vec<AclRule> = (0..50).map(|net| rule(PERMIT, &format!("10.1.{net}.0/24"))).collect();
    more[40].origin = at;
    full.acls[1].rules = more.into();
    let error = rig.compile(&full).unwrap_err();
    assert_eq!((error.table.as_str(), error.origin), ("acl y", at));
    assert!(error.to_string().contains("rules are more than the 100"), "{error}");
    // A group comes to too many boxes, in one list, and in the chain of both.
    for members in [90, 250] {
        let mut full = gateway.clone();
        let at = origin(&mut full);
        let members = (0..members).map(|host| Addresses::Net(format!("10.9.0.{host}/32").parse().unwrap())).collect();
        let from = Addresses::Group(Group { name: "g".into(), members });
        full.acls[1].rules = [AclRule { from, ..AclRule::all(PERMIT, at) }].into();
        let error = rig.compile(&full).unwrap_err();
        assert_eq!((error.table.as_str(), error.origin), ("acl y", at));
    }
    let numbers = rig.from(0, "1.1.1.1").number();
    rig.compile(&gateway).unwrap();
    assert!(Arc::ptr_eq(&before, &rig.access().v4[0].table));
    // Numbers that were taken for what was refused are free.
    full = gateway.clone();
    full.acls[1].rules = [rule(DENY, "172.16.0.0/12")].into();
    rig.compile(&full).unwrap();
    assert!(rig.from(0, "172.16.1.1").number() < 200 && rig.from(0, "1.1.1.1").number() == numbers);
}
