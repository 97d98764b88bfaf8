//! Access lists over versions: changes while the gateway runs, and models that take the place of others.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::kit::Build;
use ipnet::IpNet;
use weir_base::random::{Entropy, Random};
use weir_base::reclaim::{Domain, Published, Reader};
use weir_plane::acl::{Action, Found};
use weir_plane::compile::{
    AclChange, AclEdit, AclEdited, AclError, AclGroup, AclMembers, AclRestored, AclSaid, At, Compiler, Lost, LostEdits,
    LostRule, Map, Places, RuleLost, Settings,
};
use weir_plane::engine::{Clear, Engine, EngineError, LostEdit};
use weir_plane::model::{
    AclAction, AclDefault, AclIndex, AclLimit, AclList, AclRule, Addresses, Gateway, Group, InterfaceIndex, Interfaces,
    IpFamily, Nested, Origin, Place, Ports, RateUnit, Rejection, Transport,
};
use weir_plane::root::Root;
use weir_table::classify::Fields;

const PERMIT: AclAction = AclAction::Permit;
const DENY: AclAction = AclAction::Deny;

fn said() -> AclSaid {
    AclSaid { source: "api".into(), time: 7 }
}

fn net(text: &str) -> Addresses {
    Addresses::Net(text.parse::<IpNet>().unwrap())
}

fn from(action: AclAction, text: &str) -> AclRule {
    AclRule { from: net(text), ..AclRule::all(action, Origin(0)) }
}

fn list(name: &str, rules: &[AclRule]) -> AclList {
    AclList { name: name.into(), rules: rules.into(), default: AclDefault::Next, sample: None, origin: Origin(0) }
}

fn insert(at: At, rules: &[AclRule]) -> AclEdit {
    AclEdit::Insert { at, rules: rules.to_vec() }
}

/// Three ports: the first has ingress lists, the second egress lists.
fn model(lists: &[AclList], input: &[u16], output: &[u16]) -> Gateway {
    let mut build = Build::new().port("a", &["10.0.0.1/24"]).port("b", &["10.0.1.1/24"]).port("c", &[]);
    build.0.acls = lists.to_vec();
    build.0.interfaces[0].access.acl_in = input.iter().copied().map(AclIndex).collect();
    build.0.interfaces[1].access.acl_out = output.iter().copied().map(AclIndex).collect();
    build.0
}

/// A packet of TCP.
#[derive(Clone, Copy, Debug)]
struct Packet {
    from: IpAddr,
    to: IpAddr,
    port: u16,
    interface: u32,
}

/// Returns whether a rule of the model matches a packet.
fn matches(rule: &AclRule, packet: &Packet) -> bool {
    fn in_addresses(addresses: &Addresses, address: IpAddr) -> bool {
        match addresses {
            Addresses::Any => true,
            Addresses::Net(net) => net.contains(&address),
            Addresses::Range(low, high) => low.is_ipv4() == address.is_ipv4() && (*low..=*high).contains(&address),
            Addresses::Group(group) => group.members.iter().any(|member| in_addresses(member, address)),
        }
    }
    let upper = match &rule.transport {
        Transport::Any => true,
        Transport::Protocol(protocol) => *protocol == 6,
        Transport::Ports { protocol, destination, .. } => {
            *protocol == 6 && destination.ranges().iter().any(|range| range.contains(&packet.port))
        }
        Transport::Icmp { .. } => false,
    };
    let on = rule.received_on.as_ref();
    upper
        && in_addresses(&rule.from, packet.from)
        && in_addresses(&rule.to, packet.to)
        && on.is_none_or(|on| on.members().contains(&InterfaceIndex(packet.interface)))
}

/// Numbers of rules with the rules, in their order.
type Rows = Vec<(u32, AclRule)>;

/// Returns the action of lists for a packet, and the rule; `None`: the default of the last list.
fn verdict<'l>(lists: impl IntoIterator<Item = &'l Rows>, packet: &Packet) -> (Action, Option<u32>) {
    let mut rules = lists.into_iter().flatten();
    match rules.find(|(_, rule)| matches(rule, packet)) {
        None => (Action::Deny, None),
        Some((number, rule)) => {
            let action = match rule.action {
                AclAction::Permit | AclAction::Reflect => Action::Permit,
                AclAction::Deny => Action::Deny,
                AclAction::Reject(_) => Action::Reject,
            };
            (action, Some(*number))
        }
    }
}

/// A compiler whose roots readers see.
struct Rig {
    domain: Domain,
    compiler: Compiler,
    gateway: Gateway,
    map: Map,
    root: Arc<Published<Root>>,
    reader: Reader,
    published: usize,
}

impl Rig {
    fn new(gateway: Gateway) -> Rig {
        Rig::sharing(gateway, None)
    }

    /// One that keeps lists once whose copies would come to more rules than this.
    fn sharing(gateway: Gateway, most_copied: Option<usize>) -> Rig {
        let domain = Domain::new();
        let mut compiler = Compiler::new(
            &domain,
            Settings { workers: 1, invent_neighbors: false, secret: [1, 2, 3, 4] },
            gateway.limits,
        );
        if let Some(most_copied) = most_copied {
            compiler.share_acls(most_copied);
        }
        let (root, map) = compiler.compile(&gateway, &Places::default()).unwrap();
        let root = Arc::new(Published::new(root, &domain));
        let reader = domain.reader().unwrap();
        Rig { domain, compiler, gateway, map, root, reader, published: 0 }
    }

    fn reload(&mut self, gateway: Gateway) -> Vec<LostEdits> {
        let (root, map) = self.compiler.compile(&gateway, &Places::default()).unwrap();
        self.root.publish(root);
        (self.gateway, self.map) = (gateway, map);
        self.compiler.lost_acl_edits()
    }

    fn edit(&mut self, list: &str, edit: AclEdit) -> Result<AclEdited, AclError> {
        let Rig { compiler, gateway, map, root, published, .. } = self;
        let done = compiler.edit_acl((gateway, map), list, edit, &said(), |new| {
            *published += 1;
            root.publish(new);
        });
        compiler.collect_acl();
        done
    }

    fn regroup(&mut self, group: impl Into<AclMembers>) -> Result<AclEdited, AclError> {
        let Rig { compiler, gateway, map, root, .. } = self;
        compiler.replace_acl_group((gateway, map), group, &said(), |new| root.publish(new))
    }

    fn restore(&mut self, group: &str) -> Result<AclRestored, AclError> {
        let Rig { compiler, gateway, map, root, published, .. } = self;
        compiler.restore_acl_group((gateway, map), group, |new| {
            *published += 1;
            root.publish(new);
        })
    }

    fn rows(&self, list: &str) -> Rows {
        let (rows, total) = self.compiler.acl_rules(&self.gateway, list, |_| true, usize::MAX).unwrap();
        assert_eq!(rows.len(), total);
        assert!(rows.iter().enumerate().all(|(index, row)| row.index == index));
        rows.into_iter().map(|row| (row.number, row.rule)).collect()
    }

    fn numbers(&self, list: &str) -> Vec<u32> {
        self.rows(list).into_iter().map(|(number, _)| number).collect()
    }

    /// Returns the results of an interface's lists for packets: of the first interface at ingress, of the second at
    /// egress.
    fn ask(&mut self, interface: usize, packets: &[Packet]) -> Vec<Found> {
        let guard = self.reader.pin();
        ask(self.root.load(&guard), &guard, &self.map, interface, packets)
    }

    fn from(&mut self, source: &str) -> Found {
        let packet = Packet { from: source.parse().unwrap(), to: crate::kit::ip("10.0.1.9"), port: 80, interface: 0 };
        self.ask(0, &[packet])[0]
    }

    /// Packets that a rule has matched, when one more has.
    fn count(&self, number: u32) {
        let count = |root: &Root| root.acl.pages.counter(0, number).unwrap().packets.add(1);
        self.root.with(count);
    }

    fn matched(&self, list: &str, number: u32) -> Option<u64> {
        let (rows, _) = self.compiler.acl_rules(&self.gateway, list, |_| true, usize::MAX)?;
        rows.iter().find(|row| row.number == number).map(|row| row.matched.packets)
    }
}

fn ask(
    root: &Root,
    guard: &weir_base::reclaim::Guard<'_>,
    map: &Map,
    interface: usize,
    packets: &[Packet],
) -> Vec<Found> {
    let own = &root.interfaces[map.interfaces[interface] as usize];
    let chain = if interface == 0 { own.acl_in } else { own.acl_out };
    let one = |packet: &Packet| {
        let number = map.interfaces[packet.interface as usize];
        let mut found = [0];
        match (packet.from, packet.to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let fields = Fields::new(from.to_bits(), to.to_bits(), 6).with_ports(1, packet.port);
                let chains = &root.acl.v4;
                chains[usize::from(chain.v4)].lookup_each(chains, guard, &[fields.with_interface(number)], &mut found);
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let fields = Fields::new(from.to_bits(), to.to_bits(), 6).with_ports(1, packet.port);
                let chains = &root.acl.v6;
                chains[usize::from(chain.v6)].lookup_each(chains, guard, &[fields.with_interface(number)], &mut found);
            }
            _ => unreachable!("addresses of one family"),
        }
        let found = Found::of(found[0]);
        // Each rule that is found has its counter.
        assert!(root.acl.pages.counter(0, found.number()).is_some(), "no counter of {found:?}");
        assert_eq!(root.acl.pages.special(found).is_some(), found.is_special(), "{found:?}");
        found
    };
    packets.iter().map(one).collect()
}

fn address(v4: bool, random: &mut Random) -> IpAddr {
    let word = random.next();
    match v4 {
        true => Ipv4Addr::from_bits(0x0a00_0000 | (word as u32 & 0x0007_0307)).into(),
        false => Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(word & 0x0007_0307)).into(),
    }
}

fn packet(random: &mut Random) -> Packet {
    let v4 = random.next().is_multiple_of(2);
    let (from, to) = (address(v4, random), address(v4, random));
    Packet { from, to, port: [80, 81, 443, 8000][random.next() as usize % 4], interface: (random.next() % 3) as u32 }
}

fn addresses(v4: bool, random: &mut Random) -> Addresses {
    let one = address(v4, random);
    match random.next() % 8 {
        0 | 1 => Addresses::Any,
        2 => {
            let other = address(v4, random);
            Addresses::Range(one.min(other), one.max(other))
        }
        3 => Addresses::Group(hosts(&["10.0.0.0/14", "2001:db8::/110"])),
        _ => {
            let host = if v4 { 32 } else { 128 };
            let length = host - [0, 1, 3, 8, 10, 16, 19][random.next() as usize % 7];
            Addresses::Net(IpNet::new(one, length).unwrap().trunc())
        }
    }
}

fn hosts(members: &[&str]) -> Group<Addresses> {
    Group { name: "hosts".into(), members: members.iter().map(|text| net(text)).collect() }
}

fn web(members: &[u16]) -> Group<std::ops::RangeInclusive<u16>> {
    Group { name: "web".into(), members: members.iter().map(|&port| port..=port).collect() }
}

fn rule(random: &mut Random) -> AclRule {
    let v4 = random.next().is_multiple_of(2);
    let actions = [PERMIT, DENY, AclAction::Reject(Rejection::Usual), AclAction::Reject(Rejection::Icmp)];
    let (from, to) = (addresses(v4, random), addresses(v4, random));
    let destination = match random.next() % 3 {
        0 => Ports::Group(web(&[80])),
        _ => (80..=[80, 500][random.next() as usize % 2]).into(),
    };
    let transport = match random.next() % 3 {
        0 => Transport::Ports { protocol: 6, source: Ports::ALL, destination, flags: None },
        1 => Transport::Protocol(6),
        _ => Transport::Any,
    };
    let received_on = match random.next() % 6 {
        0 => Some(Interfaces::List([InterfaceIndex((random.next() % 3) as u32)].into())),
        _ => None,
    };
    let action = actions[random.next() as usize % 4];
    let limit = (action == PERMIT && random.next().is_multiple_of(4)).then_some(AclLimit {
        unit: RateUnit::Packets,
        rate: 1,
        burst: 1,
    });
    AclRule { from, to, transport, received_on, limit, ..AclRule::all(action, Origin(0)) }
}

fn with_groups(mut gateway: Gateway) -> Gateway {
    gateway.groups.addresses = vec![hosts(&["10.0.0.0/14", "2001:db8::/110"])];
    gateway.groups.ports = vec![web(&[80])];
    gateway
}

/// Gives rules the members that groups have now.
fn renew(rows: &mut Rows, hosts: &Group<Addresses>, web: &Group<std::ops::RangeInclusive<u16>>) {
    for (_, rule) in rows {
        for addresses in [&mut rule.from, &mut rule.to] {
            if let Addresses::Group(group) = addresses {
                *group = hosts.clone();
            }
        }
        if let Transport::Ports { destination: Ports::Group(group), .. } = &mut rule.transport {
            *group = web.clone();
        }
    }
}

/// Random changes, and what lists are to be after each.
struct Naive {
    lists: [Rows; 2],
    hosts: Group<Addresses>,
    web: Group<std::ops::RangeInclusive<u16>>,
}

enum Change {
    List(usize, AclEdit),
    Group(AclGroup),
}

impl Naive {
    fn change(&self, random: &mut Random) -> Change {
        let at = random.next() as usize % 2;
        let rows = &self.lists[at];
        let index = random.next() as usize % (rows.len() + 1);
        let number = |random: &mut Random| rows[random.next() as usize % rows.len()].0;
        let edit = match random.next() % 40 {
            0..20 if rows.len() < 300 => {
                let at = match (random.next() % 4, rows.is_empty()) {
                    (0, false) => At::Before(number(random)),
                    (1, false) => At::After(number(random)),
                    (2, _) => At::End,
                    _ => At::Index(index),
                };
                AclEdit::Insert { at, rules: vec![rule(random)] }
            }
            20 => AclEdit::Insert { at: At::Index(index), rules: (0..3).map(|_| rule(random)).collect() },
            21 => {
                let mut rules: Vec<AclRule> = rows.iter().map(|(_, rule)| rule.clone()).collect();
                rules.truncate(index);
                rules.insert(index / 2, rule(random));
                AclEdit::Replace { rules, default: None }
            }
            22 => {
                // Of both families, as rules are about either.
                let several = ["10.0.0.0/15", "2001:db8::/112", "10.4.0.0/16"];
                let members = &several[..2 + random.next() as usize % 2];
                return Change::Group(AclGroup::Addresses(hosts(members)));
            }
            23 => return Change::Group(AclGroup::Ports(web(&[80, 443, 8000][..1 + random.next() as usize % 3]))),
            24 | 25 if rows.len() > 2 => AclEdit::Batch(vec![
                AclChange::Delete(rows[0].0),
                AclChange::Insert(At::Index(1), vec![rule(random), rule(random)]),
                AclChange::Replace(rows[1 + index % (rows.len() - 1)].0, vec![rule(random)]),
            ]),
            26 if rows.len() > 2 => AclEdit::Delete { rules: vec![number(random), number(random)] },
            _ if !rows.is_empty() => AclEdit::Delete { rules: vec![number(random)] },
            _ => AclEdit::Insert { at: At::End, rules: vec![rule(random)] },
        };
        Change::List(at, edit)
    }

    /// Applies a change to the expected lists. New rules have these numbers.
    fn apply(&mut self, change: &Change, added: &[u32]) {
        match change {
            Change::Group(AclGroup::Addresses(group)) => self.hosts = group.clone(),
            Change::Group(AclGroup::Ports(group)) => self.web = group.clone(),
            Change::Group(_) => unreachable!("no group of interfaces"),
            Change::List(at, edit) => {
                let rows = &mut self.lists[*at];
                let mut added = added.iter().copied();
                let place = |rows: &Rows, at: At| {
                    let of = |number| rows.iter().position(|(own, _)| *own == number).unwrap();
                    match at {
                        At::Index(index) => index,
                        At::End => rows.len(),
                        At::Before(number) => of(number),
                        At::After(number) => of(number) + 1,
                    }
                };
                match edit {
                    AclEdit::Insert { at, rules } => {
                        let index = place(rows, *at);
                        rows.splice(index..index, rules.iter().map(|rule| (added.next().unwrap(), rule.clone())));
                    }
                    AclEdit::Delete { rules } => rows.retain(|(number, _)| !rules.contains(number)),
                    AclEdit::Replace { rules, .. } => {
                        let mut old = std::mem::take(rows);
                        let mut new: Rows = rules.iter().map(|rule| (0, rule.clone())).collect();
                        renew(&mut new, &self.hosts, &self.web);
                        for (_, rule) in &new {
                            let number = match old.iter().position(|(_, old)| old == rule) {
                                Some(at) => old.remove(at).0,
                                None => added.next().unwrap(),
                            };
                            rows.push((number, rule.clone()));
                        }
                    }
                    AclEdit::Batch(changes) => {
                        for change in changes {
                            let (at, new, goes) = match change {
                                AclChange::Insert(at, rules) => (*at, &rules[..], false),
                                AclChange::Delete(number) => (At::Before(*number), &[][..], true),
                                AclChange::Replace(number, rules) => (At::Before(*number), &rules[..], true),
                            };
                            let index = place(rows, at);
                            if goes {
                                rows.remove(index);
                            }
                            rows.splice(index..index, new.iter().map(|rule| (added.next().unwrap(), rule.clone())));
                        }
                    }
                }
                assert_eq!(added.next(), None, "as many are new as there should be");
            }
        }
        for rows in &mut self.lists {
            renew(rows, &self.hosts, &self.web);
        }
    }

    /// Returns the expected results of both interfaces: both lists apply on the first, the second list alone on the
    /// second.
    fn verdicts(&self, interface: usize, packets: &[Packet]) -> Vec<(Action, Option<u32>)> {
        let lists = &self.lists[interface..];
        packets.iter().map(|packet| verdict(lists, packet)).collect()
    }
}

fn told(found: &Found, default: u32) -> (Action, Option<u32>) {
    (found.action(), (found.number() != default).then_some(found.number()))
}

fn start(random: &mut Random, most_copied: Option<usize>) -> (Rig, Naive, u32) {
    let rules: Vec<AclRule> = (0..60).map(|_| rule(random)).collect();
    let lists = [list("x", &rules[..30]), list("y", &rules[30..])];
    let rig = Rig::sharing(with_groups(model(&lists, &[0, 1], &[1])), most_copied);
    let naive = Naive {
        lists: [rig.rows("x"), rig.rows("y")],
        hosts: hosts(&["10.0.0.0/14", "2001:db8::/110"]),
        web: web(&[80]),
    };
    let default = rig.compiler.acl_lists(&rig.gateway)[1].default_number;
    (rig, naive, default)
}

#[test]
fn random_changes_do_what_they_say() {
    // As one classifier for each sequence; the second list by itself for both; that as soon as it has 50 boxes.
    for (seed, most_copied) in
        [None, None, None, Some(0), Some(0), Some(50), Some(50), Some(50)].into_iter().enumerate()
    {
        let mut random = Random::from_seed(seed as u64);
        let (mut rig, mut naive, default) = start(&mut random, most_copied);
        for step in 0..400 {
            let change = naive.change(&mut random);
            let before = rig.published;
            let edited = match &change {
                Change::List(at, edit) => rig.edit(["x", "y"][*at], edit.clone()),
                Change::Group(group) => rig.regroup(group.clone()),
            };
            let edited = edited.unwrap();
            naive.apply(&change, &edited.added);
            if let Change::List(at, AclEdit::Delete { rules }) = &change {
                assert_eq!(edited.rules, naive.lists[*at].len());
                assert!(edited.deleted == 1 || rules.len() > 1);
            }
            assert!(rig.published <= before + 2);
            for (name, rows) in ["x", "y"].into_iter().zip(&naive.lists) {
                assert_eq!(rig.rows(name), *rows, "seed {seed}, step {step}: {name}");
            }
            let packets: Vec<Packet> = (0..40).map(|_| packet(&mut random)).collect();
            for interface in 0..2 {
                let found = rig.ask(interface, &packets);
                let said: Vec<_> = found.iter().map(|found| told(found, default)).collect();
                assert_eq!(said, naive.verdicts(interface, &packets), "seed {seed}, step {step}");
            }
        }
    }
}

/// A lookup finds the state before a change, or the state after it, packet by packet.
#[test]
fn readers_see_lists_of_before_or_after() {
    readers_see(None);
}

#[test]
fn readers_see_sections_of_before_or_after() {
    readers_see(Some(0));
}

fn readers_see(most_copied: Option<usize>) {
    const STEPS: usize = 3000;
    let mut random = Random::from_seed(99);
    let (mut rig, mut naive, default) = start(&mut random, most_copied);
    let packets: Arc<[Packet]> = (0..32).map(|_| packet(&mut random)).collect();
    let (root, domain, map) = (Arc::clone(&rig.root), rig.domain.clone(), rig.map.clone());
    let (phase, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let looked = Arc::new(AtomicUsize::new(0));
    let reader = std::thread::spawn({
        let (phase, stop, packets) = (Arc::clone(&phase), Arc::clone(&stop), Arc::clone(&packets));
        let looked = Arc::clone(&looked);
        move || {
            let mut reader = domain.reader().unwrap();
            let mut seen = Vec::new();
            while !stop.load(Ordering::SeqCst) {
                let before = phase.load(Ordering::SeqCst);
                let guard = reader.pin();
                let found = ask(root.load(&guard), &guard, &map, 0, &packets);
                drop(guard);
                seen.push((before, phase.load(Ordering::SeqCst), found));
                looked.store(seen.len(), Ordering::Relaxed);
                if seen.len() > 200_000 {
                    break;
                }
            }
            seen
        }
    });
    // The reader looks once in thirty changes at least, however late it gets a CPU.
    let wait = |step: usize| {
        while looked.load(Ordering::Relaxed) < step / (STEPS / 100) && !reader.is_finished() {
            std::thread::yield_now();
        }
    };
    let mut verdicts = vec![naive.verdicts(0, &packets)];
    for step in 1..=STEPS {
        wait(step);
        let change = naive.change(&mut random);
        let edited = match &change {
            Change::List(at, edit) => rig.edit(["x", "y"][*at], edit.clone()),
            Change::Group(group) => rig.regroup(group.clone()),
        };
        naive.apply(&change, &edited.unwrap().added);
        verdicts.push(naive.verdicts(0, &packets));
        phase.fetch_add(1, Ordering::SeqCst);
    }
    stop.store(true, Ordering::SeqCst);
    let seen = reader.join().unwrap();
    assert!(seen.len() >= 100, "the reader looked {} times", seen.len());
    for (before, after, found) in seen {
        for (at, found) in found.iter().enumerate() {
            let said = told(found, default);
            let allowed = &verdicts[before..=(after + 1).min(STEPS)];
            assert!(allowed.iter().any(|all| all[at] == said), "{:?}: {said:?} in {before}..={after}", packets[at]);
        }
    }
}

/// A lookup that lasts over two changes could see the second of them alone.
#[test]
fn a_change_in_place_waits_until_lookups_have_passed_the_one_before() {
    let mut rig = Rig::new(model(&[list("x", &[from(DENY, "10.1.0.0/16")])], &[0], &[]));
    let permit = |net: &str| insert(At::Index(0), &[from(PERMIT, net)]);
    rig.edit("x", permit("10.2.0.0/16")).unwrap();
    let mut reader = rig.domain.reader().unwrap();
    let guard = reader.pin();
    let done = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&done);
    let changes = std::thread::spawn(move || {
        for net in ["10.3.0.0/16", "10.4.0.0/16"] {
            rig.edit("x", permit(net)).unwrap();
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    // The lookup began behind the first change, so the second one comes; the third waits.
    while done.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(done.load(Ordering::SeqCst), 1);
    drop(guard);
    changes.join().unwrap();
    assert_eq!(done.load(Ordering::SeqCst), 2);
}

#[test]
fn a_rule_of_one_box_goes_in_and_out_in_place() {
    let rules: Vec<AclRule> = (0..50).map(|net| from(PERMIT, &format!("10.1.{net}.0/24"))).collect();
    let mut rig = Rig::new(model(&[list("x", &rules)], &[0], &[]));
    let table = |rig: &Rig| rig.root.with(|root| Arc::clone(&root.acl.v4[0].table));
    let before = table(&rig);
    let added = rig.edit("x", insert(At::Index(3), &[from(DENY, "10.1.7.9/32")])).unwrap();
    assert_eq!((added.added.len(), added.deleted, added.rules, rig.published), (1, 0, 51, 1));
    assert_eq!((rig.from("10.1.7.9").number(), rig.from("10.1.7.9").action()), (added.added[0], Action::Deny));
    assert_eq!(rig.from("10.1.7.8").action(), Action::Permit);
    // A root says which flows a rule concerns that is there. Another root is published for a page, a special rule, and
    // questions about ports before.
    let port = Transport::Ports { protocol: 6, source: Ports::ALL, destination: (80..=80).into(), flags: None };
    let asks = AclRule { transport: port, ..from(DENY, "10.1.8.0/24") };
    let asked = rig.edit("x", insert(At::Index(0), std::slice::from_ref(&asks))).unwrap().added[0];
    assert!(rig.root.with(|root| root.acl.v4[0].needs_transport && !root.acl.v6[0].needs_transport));
    assert_eq!(rig.published, 3);
    rig.edit("x", insert(At::Index(0), &[asks])).unwrap();
    assert_eq!(rig.published, 4);
    let limit = Some(AclLimit { unit: RateUnit::Packets, rate: 5, burst: 1 });
    rig.edit("x", insert(At::End, &[AclRule { limit, ..from(PERMIT, "10.2.0.0/16") }])).unwrap();
    assert_eq!(rig.published, 6);
    assert!(rig.from("10.2.0.1").is_special());
    // The last rule that matches ports is removed.
    let second = rig.numbers("x")[0];
    for (number, published) in [(second, 7), (asked, 8), (added.added[0], 9)] {
        let edited = rig.edit("x", AclEdit::Delete { rules: vec![number] }).unwrap();
        assert_eq!((edited.deleted, rig.published), (1, published));
    }
    assert!(rig.root.with(|root| !root.acl.v4[0].needs_transport));
    assert!(Arc::ptr_eq(&before, &table(&rig)), "it is the same classifier all the time");
    assert_eq!(rig.from("10.1.7.9").action(), Action::Permit);
}

#[test]
fn rules_find_places_wherever_they_come() {
    for step in [0, 1] {
        let mut rig = Rig::new(model(&[list("x", &[from(DENY, "10.9.0.0/16"), from(DENY, "10.8.0.0/16")])], &[0], &[]));
        let mut index = 1;
        for host in 0..3000_u32 {
            let address = IpAddr::from(Ipv4Addr::from_bits(0x0a01_0000 + host));
            rig.edit("x", insert(At::Index(index), &[from(PERMIT, &format!("{address}/32"))])).unwrap();
            index += step;
        }
        assert_eq!(rig.from("10.1.4.1").action(), Action::Permit);
        let rows = rig.rows("x");
        let first = if step == 1 { "10.1.0.0/32" } else { "10.1.11.183/32" };
        assert_eq!(rows[1].1.from, net(first));
        // New pages of counters are all that readers had to learn of before.
        assert!(rig.published <= 3003, "{} versions", rig.published);
    }
}

#[test]
fn batches_find_rules_whatever_came_and_went_before() {
    let rules = |nets: std::ops::Range<u32>| -> Vec<AclRule> {
        nets.map(|net| from(PERMIT, &format!("10.{}.{}.0/24", net / 256, net % 256))).collect()
    };
    let mut rig = Rig::new(model(&[list("x", &rules(0..4))], &[0], &[]));
    assert_eq!(rig.edit("x", AclEdit::Batch(Vec::new())).unwrap().rules, 4);
    assert_eq!(rig.compiler.acl_lists(&rig.gateway).iter().map(|list| list.edited).collect::<Vec<_>>(), [false]);
    let own = rig.numbers("x");
    // More than one gap has room for, again and again, so that rules get other places on the way.
    let wide = Addresses::Group(Group { name: "wide".into(), members: Arc::new([]) });
    rig.regroup(AclGroup::Addresses(addresses_of("wide", &["10.9.0.0/16", "10.8.0.0/16"]))).unwrap();
    let wide = AclRule { from: wide, ..AclRule::all(PERMIT, Origin(0)) };
    let mut changes = Vec::new();
    for net in 0..1500 {
        changes.push(AclChange::Insert(
            At::After(own[1]),
            [&rules(net..net + 1)[..], std::slice::from_ref(&wide)].concat(),
        ));
        changes.push(AclChange::Insert(At::Before(own[2]), rules(net + 2000..net + 2001)));
    }
    changes.push(AclChange::Delete(own[1]));
    changes.push(AclChange::Insert(At::Before(own[2]), rules(7..8)));
    changes.push(AclChange::Replace(own[2], rules(8..10)));
    let edited = rig.edit("x", AclEdit::Batch(changes)).unwrap();
    assert_eq!((edited.added.len(), edited.deleted, edited.rules), (4503, 2, 4505));
    let (numbers, rows) = (rig.numbers("x"), rig.rows("x"));
    assert_eq!((numbers[0], numbers[4504]), (own[0], own[3]));
    assert_eq!(numbers[4501..4504], edited.added[4500..]);
    assert_eq!((rows[1].1.from.clone(), rows[3001].1.from.clone()), (net("10.5.219.0/24"), net("10.7.208.0/24")));
    // What went is not found, even if another has its place by now.
    let gone = vec![
        AclChange::Delete(own[3]),
        AclChange::Insert(At::End, rules(1..2)),
        AclChange::Insert(At::Before(own[3]), rules(1..2)),
    ];
    assert!(
        matches!(rig.edit("x", AclEdit::Batch(gone)), Err(AclError::NoSuchRule { number, .. }) if number == own[3])
    );
    assert_eq!(rig.numbers("x"), numbers);
}

#[test]
fn what_can_not_be_changed_stays_as_it_was() {
    let rules = [from(PERMIT, "10.0.0.0/8"), from(DENY, "10.1.0.0/16")];
    let mut gateway = model(&[list("x", &rules), list("y", &rules[..1]), list("z", &[])], &[0], &[]);
    gateway.limits.acl_rules = 8;
    let mut rig = Rig::new(gateway);
    let before = (rig.rows("x"), rig.rows("y"));
    let one = from(DENY, "192.0.2.0/24");
    let is = |error: AclError, text: &str| assert!(error.to_string().contains(text), "{error}");
    is(rig.edit("w", insert(At::End, std::slice::from_ref(&one))).unwrap_err(), "no access list with the name `w`");
    is(
        rig.edit("x", insert(At::Index(3), std::slice::from_ref(&one))).unwrap_err(),
        "has 2 rules: there is no place 4",
    );
    let foreign = before.1[0].0;
    for edit in [
        insert(At::Before(foreign), std::slice::from_ref(&one)),
        AclEdit::Delete { rules: vec![before.0[0].0, foreign] },
        AclEdit::Delete { rules: vec![12345] },
        AclEdit::Batch(vec![AclChange::Insert(At::End, vec![one.clone()]), AclChange::Delete(foreign)]),
    ] {
        is(rig.edit("x", edit).unwrap_err(), "access list `x` has no rule");
    }
    let logs = AclRule { log: true, ..one.clone() };
    is(rig.edit("x", insert(At::End, &[one.clone(), logs])).unwrap_err(), "rule 2 logs, but access list `x` has no");
    let group = Addresses::Group(hosts(&["10.0.0.0/8"]));
    let names = AclRule { from: group, ..one.clone() };
    is(rig.edit("x", insert(At::End, std::slice::from_ref(&names))).unwrap_err(), "no group `hosts`");
    is(rig.edit("x", insert(At::End, &vec![one.clone(); 6])).unwrap_err(), "9 rules are more than the 8");
    is(rig.regroup(AclGroup::Addresses(hosts(&[]))).unwrap_err(), "would have no members");

    // A group that comes, and members for which there is no room.
    rig.regroup(AclGroup::Addresses(hosts(&["10.2.0.0/16"]))).unwrap();
    let named = rig.edit("x", insert(At::Index(0), &[names])).unwrap().added[0];
    assert_eq!(rig.from("10.2.0.1").number(), named);
    is(rig.regroup(AclGroup::Ports(Group { name: "hosts".into(), ..web(&[1]) })).unwrap_err(), "no group `hosts`");
    let many: Vec<String> = (0..7).map(|net| format!("10.{net}.0.0/16")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    is(rig.regroup(AclGroup::Addresses(hosts(&many))).unwrap_err(), "access list `x`: 9 rules are more than the 8");
    assert_eq!((rig.from("10.2.0.1").number(), rig.from("10.3.0.1").number()), (named, before.0[0].0));
    assert_eq!(rig.regroup(AclGroup::Addresses(hosts(&many[..6]))).unwrap().rules, 1);
    assert_eq!(rig.from("10.3.0.1").number(), named);
    // The classifier is full now, the list is not.
    is(rig.edit("x", insert(At::End, std::slice::from_ref(&one))).unwrap_err(), "9 rules are more than the 8");
    rig.edit("x", AclEdit::Delete { rules: vec![named] }).unwrap();
    assert_eq!((rig.rows("x"), rig.rows("y")), before);

    // Lists that are not declared.
    let said = said();
    let Rig { compiler, gateway, map, .. } = &mut rig;
    let mut create = |list| compiler.create_acl((gateway, map), list, &said);
    is(create(list("x", &[])).unwrap_err(), "with the name `x` already");
    assert_eq!(create(list("new", std::slice::from_ref(&one))).unwrap().rules, 1);
    is(compiler.delete_acl((gateway, map), "x").unwrap_err(), "cannot remove access list `x`: interface a uses it");
    is(compiler.delete_acl((gateway, map), "y").unwrap_err(), "is declared in the configuration");
    assert_eq!(rig.numbers("new").len(), 1);
    rig.edit("new", insert(At::End, &[one])).unwrap();
    assert_eq!(rig.reload(rig.gateway.clone()), []);
    assert_eq!(rig.numbers("new").len(), 2);
    let Rig { compiler, gateway, map, .. } = &mut rig;
    assert_eq!(compiler.delete_acl((gateway, map), "new").unwrap().deleted, 2);
    assert!(compiler.acl_rules(gateway, "new", |_| true, 1).is_none());
}

#[test]
fn a_list_keeps_its_classifier_when_its_edits_were_saved() {
    let rules = [from(PERMIT, "10.0.0.0/8"), from(DENY, "0.0.0.0/0")];
    let mut rig = Rig::new(model(&[list("x", &rules)], &[0], &[]));
    let live = from(DENY, "10.1.0.0/16");
    rig.edit("x", insert(At::Index(0), std::slice::from_ref(&live))).unwrap();
    rig.edit("x", AclEdit::Delete { rules: vec![rig.numbers("x")[1]] }).unwrap();
    assert_eq!(rig.compiler.acl_edits(&rig.gateway).len(), 2);
    let classifier =
        |rig: &Rig| rig.root.with(|root| Arc::clone(&root.acl.v4[usize::from(root.interfaces[0].acl_in.v4)].table));
    let (table, numbers) = (classifier(&rig), rig.numbers("x"));
    let saved = [live, rules[1].clone()];
    assert_eq!(rig.reload(model(&[list("x", &saved)], &[0], &[])), []);
    assert!(Arc::ptr_eq(&table, &classifier(&rig)));
    assert_eq!((rig.numbers("x"), rig.compiler.acl_edits(&rig.gateway).len()), (numbers.clone(), 0));

    // With other rules the list is compiled again.
    assert_eq!(rig.reload(model(&[list("x", &rules)], &[0], &[])), []);
    assert!(!Arc::ptr_eq(&table, &classifier(&rig)));
    assert_eq!(rig.numbers("x")[1], numbers[1]);
}

#[test]
fn lists_that_are_declared_as_they_were_keep_their_changes() {
    let rules = [from(PERMIT, "10.0.0.0/8"), from(PERMIT, "10.128.0.0/9"), from(DENY, "0.0.0.0/0")];
    let lists = [list("x", &rules), list("y", &rules)];
    let mut rig = Rig::new(with_groups(model(&lists, &[0], &[1])));
    let on = |index| Some(Interfaces::List([InterfaceIndex(index)].into()));
    let live = AclRule { received_on: on(2), ..from(DENY, "10.1.0.0/16") };
    let new = rig.edit("x", insert(At::Index(1), &[live])).unwrap().added[0];
    let gone = rig.rows("x")[2].0;
    rig.edit("x", AclEdit::Delete { rules: vec![gone] }).unwrap();
    rig.edit("y", AclEdit::Delete { rules: vec![rig.rows("y")[0].0] }).unwrap();
    rig.count(new);
    rig.count(rig.rows("x")[0].0);
    let row = |rig: &Rig| {
        let (rows, _) = rig.compiler.acl_rules(&rig.gateway, "x", |_| true, usize::MAX).unwrap();
        rows.into_iter().map(|row| (row.number, row.source, row.time, row.origin)).collect::<Vec<_>>()
    };
    let before = row(&rig);
    assert_eq!((before[1].1.as_str(), before[1].2, before[0].1.as_str()), ("api", Some(7), "file"));

    // The same lists of a model whose interfaces have other indices; rules stand on other lines.
    let mut build = Build::new().port("c", &[]).port("b", &["10.0.1.1/24"]).port("a", &["10.0.0.1/24"]);
    let at = build.0.origins.add(Place { file: "f".into(), line: 3, text: "".into() });
    build.0.acls = lists.to_vec();
    build.0.acls[0].rules = rules.iter().map(|rule| AclRule { origin: at, ..rule.clone() }).collect();
    build.0.interfaces[2].access.acl_in = vec![AclIndex(0)];
    build.0.interfaces[1].access.acl_out = vec![AclIndex(1)];
    let mut other = with_groups(build.0);
    let classifier =
        |rig: &Rig| rig.root.with(|root| Arc::clone(&root.acl.v4[usize::from(root.interfaces[0].acl_in.v4)].table));
    let table = classifier(&rig);
    assert_eq!(rig.reload(other.clone()), []);
    assert!(Arc::ptr_eq(&table, &classifier(&rig)));
    let after = row(&rig);
    assert_eq!(after[1], before[1]);
    assert_eq!((after[0].0, after[0].3.as_str()), (before[0].0, "f:3"));
    assert_eq!((rig.rows("x")[1].1.received_on.clone(), rig.rows("y").len()), (on(0), 2));
    assert_eq!((rig.matched("x", new), rig.matched("x", before[0].0)), (Some(1), Some(1)));

    // The interface that a rule names goes: then the rule goes, and the list is as it was changed otherwise.
    let mut without = other.clone();
    without.interfaces.remove(0);
    for interface in &mut without.interfaces {
        assert!(interface.access.acl_in.len() + interface.access.acl_out.len() == 1);
    }
    let rule = AclRule { received_on: on(0), ..from(DENY, "10.1.0.0/16") };
    let gone = Lost::Rules(vec![LostRule { number: Some(new), rule, protects: true, lost: RuleLost::NoInterface }]);
    let lost = [LostEdits { of: "acl x".into(), rules: 1, protects: true, lost: gone }];
    assert_eq!(rig.compiler.refused_acl_edits(&without).unwrap(), lost);
    assert_eq!(rig.reload(without), lost);
    assert_eq!((rig.rows("x").len(), rig.rows("y").len()), (2, 2));
    assert_eq!(rig.matched("x", before[0].0), Some(1), "it is the same rule, and has counted on");

    // Another declaration.
    other.acls[1].rules = rules[..2].into();
    let mut reverse = rules.clone();
    reverse.reverse();
    other.acls[0].rules = reverse.into();
    rig.edit("x", insert(At::End, &[from(DENY, "10.3.0.0/16"), from(DENY, "10.4.0.0/16")])).unwrap();
    let (last, added) = (rig.numbers("x")[1], rig.numbers("x")[2..].to_vec());
    assert_eq!(rig.reload(other.clone()), []);
    // The removed rule is still removed, and the added rules stand behind their anchor.
    assert_eq!(rig.numbers("x"), [last, added[0], added[1], before[0].0]);
    assert_eq!((rig.matched("x", before[0].0), rig.rows("y").len()), (Some(1), 1));
    assert_eq!(rig.reload(other), []);
    assert_eq!(rig.numbers("x").len(), 4);
}

/// Ports `a`, `c` and `b`, in this order; `c` may be missing. The first has the list `x`, the last `y` for what leaves.
fn perhaps_without_c(with_c: bool, edge: &[u32]) -> Gateway {
    let build = Build::new().port("a", &["10.0.0.1/24"]);
    let build = if with_c { build.port("c", &["10.0.2.1/24"]) } else { build };
    let mut gateway = build.port("b", &["10.0.1.1/24"]).0;
    let named = AclRule { received_on: Some(group_of("edge", edge)), ..from(PERMIT, "10.5.0.0/16") };
    gateway.groups.interfaces = vec![interfaces_of("edge", edge)];
    let rules = [from(DENY, "10.9.0.0/16"), named, from(PERMIT, "10.0.0.0/8")];
    gateway.acls = vec![list("x", &rules), list("y", &rules[..1])];
    gateway.interfaces[0].access.acl_in = vec![AclIndex(0)];
    gateway.interfaces[if with_c { 2 } else { 1 }].access.acl_out = vec![AclIndex(1)];
    gateway
}

fn interfaces_of(name: &str, members: &[u32]) -> Group<InterfaceIndex> {
    Group { name: name.into(), members: members.iter().copied().map(InterfaceIndex).collect() }
}

fn group_of(name: &str, members: &[u32]) -> Interfaces {
    Interfaces::Group(interfaces_of(name, members))
}

/// Packets from each of 10.0 to 10.10, by each interface.
fn from_all(interfaces: [u32; 2]) -> Vec<Packet> {
    let of = |net: u8| {
        let from = Ipv4Addr::new(10, net, 0, 1).into();
        interfaces.map(|interface| Packet { from, to: crate::kit::ip("10.0.1.9"), port: 80, interface })
    };
    (0..11).flat_map(of).collect()
}

#[test]
fn live_rules_lose_the_interfaces_that_are_gone_and_no_packet_fares_otherwise() {
    let mut rig = Rig::new(perhaps_without_c(true, &[0]));
    let on = |indices: &[u32]| Interfaces::List(indices.iter().copied().map(InterfaceIndex).collect());
    let rule = |action, net: u8, on| AclRule { received_on: Some(on), ..from(action, &format!("10.{net}.0.0/16")) };
    let group = |name: &str, own: &[u32], named: &[&str]| AclMembers {
        own: AclGroup::Interfaces(interfaces_of(name, own)),
        groups: named.iter().map(|&name| name.into()).collect(),
    };
    rig.regroup(group("pair", &[1, 2], &[])).unwrap();
    rig.regroup(group("only", &[1], &[])).unwrap();
    rig.regroup(group("both", &[2], &["only"])).unwrap();
    rig.regroup(group("nest", &[], &["only"])).unwrap();
    let live = [
        rule(DENY, 1, on(&[1, 2])),
        rule(DENY, 2, on(&[1])),
        rule(PERMIT, 3, on(&[2])),
        rule(DENY, 4, group_of("pair", &[])),
        rule(DENY, 6, group_of("only", &[])),
        rule(DENY, 7, group_of("both", &[])),
        rule(DENY, 8, group_of("nest", &[])),
        from(PERMIT, "10.9.0.0/24"),
    ];
    let added = rig.edit("x", insert(At::Index(0), &live)).unwrap().added;
    let gone = rig.numbers("x")[10];
    rig.edit("x", AclEdit::Delete { rules: vec![gone] }).unwrap();
    rig.edit("y", insert(At::End, &[from(DENY, "10.1.0.0/16")])).unwrap();
    let created = list("new", &[rule(PERMIT, 1, on(&[1])), rule(DENY, 1, on(&[0]))]);
    let Rig { compiler, gateway, map, .. } = &mut rig;
    compiler.create_acl((gateway, map), created, &said()).unwrap();
    added.iter().for_each(|&number| rig.count(number));
    let before = rig.rows("x");
    let fared = rig.ask(0, &from_all([0, 2]));

    let mut reports = rig.reload(perhaps_without_c(false, &[0]));
    reports.sort_unstable_by(|a, b| a.of.cmp(&b.of));
    let lost = |place: usize, lost| {
        let rule = before[place].1.clone();
        LostRule { number: Some(added[place]), protects: rule.action == DENY, rule, lost }
    };
    let rules = vec![
        lost(0, RuleLost::Interfaces(vec![InterfaceIndex(1)])),
        lost(1, RuleLost::NoInterface),
        lost(4, RuleLost::NoGroup("only".into())),
        lost(6, RuleLost::NoGroup("nest".into())),
    ];
    let of = |of: &str, rules, lost| LostEdits { of: of.into(), rules, protects: true, lost };
    let members = |interfaces: &[u32], groups: &[&str]| Lost::Members {
        interfaces: interfaces.iter().copied().map(InterfaceIndex).collect(),
        groups: groups.iter().map(|&group| group.into()).collect(),
    };
    assert_eq!(reports.len(), 6, "{reports:?}");
    assert!(
        matches!(&reports[0], LostEdits { of, rules: 1, protects: false, lost: Lost::Rules(rules) } if of == "acl new" && rules.len() == 1)
    );
    assert_eq!(reports[1], of("acl x", 3, Lost::Rules(rules)));
    assert_eq!(reports[2], of("group both", 0, members(&[], &["only"])));
    assert_eq!(reports[3], of("group nest", 0, Lost::NothingLeft));
    assert_eq!(reports[4], of("group only", 0, Lost::NothingLeft));
    assert_eq!(reports[5], of("group pair", 0, members(&[1], &[])));

    // The rules that stay are the same, with their counters; the one that was deleted is not back.
    let stays = [added[0], added[2], added[3], added[5], added[7], before[8].0, before[9].0];
    assert_eq!(rig.numbers("x"), stays);
    assert!(stays[..5].iter().all(|&number| rig.matched("x", number) == Some(1)));
    assert_eq!(rig.rows("x")[0].1.received_on, Some(on(&[1])), "`b`, by its new index");
    assert_eq!(rig.rows("x")[2].1.received_on, Some(group_of("pair", &[1])));
    assert_eq!((rig.rows("y").len(), rig.numbers("new").len()), (2, 1));
    assert_eq!(rig.compiler.acl_occupancy().0, 7 + 2 + 1);
    assert_eq!(rig.ask(0, &from_all([0, 1])), fared);
    let groups: Vec<_> =
        rig.compiler.acl_groups(&rig.gateway).iter().map(|(group, _)| group.name().to_string()).collect();
    assert_eq!(groups, ["edge", "both", "pair"]);
    assert_eq!(rig.reload(rig.gateway.clone()), []);
    assert_eq!(rig.numbers("x"), stays);
}

#[test]
fn live_rules_do_not_follow_a_group_that_has_nothing_left() {
    // `edge` is `b` in the file, and was given `c`, which goes.
    let mut rig = Rig::new(perhaps_without_c(true, &[2]));
    let of = |name: &str, own: &[u32], named: &[&str]| AclMembers {
        own: AclGroup::Interfaces(interfaces_of(name, own)),
        groups: named.iter().map(|&name| name.into()).collect(),
    };
    rig.regroup(of("edge", &[1], &[])).unwrap();
    rig.regroup(of("more", &[0], &["edge"])).unwrap();
    let rule = |action, net: u8, group: &str| AclRule {
        received_on: Some(group_of(group, &[])),
        ..from(action, &format!("10.{net}.0.0/16"))
    };
    let live = [rule(PERMIT, 9, "edge"), rule(DENY, 1, "edge"), rule(DENY, 2, "more")];
    let added = rig.edit("x", insert(At::Index(0), &live)).unwrap().added;
    let fared = rig.ask(0, &from_all([0, 2]));
    let told = rig.reload(perhaps_without_c(false, &[1]));
    let of: Vec<(&str, usize)> = told.iter().map(|lost| (lost.of.as_str(), lost.rules)).collect();
    assert_eq!(of, [("group edge", 0), ("group more", 0), ("acl x", 2)]);
    assert_eq!(told[0].lost, Lost::NothingLeft);
    // What the file says of the group is what its own rule follows: packets of 10.5 by `b`, which all rules permit.
    let numbers = rig.numbers("x");
    assert_eq!((numbers.len(), numbers[0]), (4, added[2]));
    assert_eq!(rig.rows("x")[2].1.received_on, Some(group_of("edge", &[1])));
    assert_eq!(rig.rows("x")[0].1.received_on, Some(group_of("more", &[0])));
    let actions = |found: &[Found]| found.iter().map(|found| found.action()).collect::<Vec<_>>();
    assert_eq!(actions(&rig.ask(0, &from_all([0, 1]))), actions(&fared));
}

#[test]
fn live_rules_do_not_follow_a_declared_group_that_names_one_that_has_nothing_left() {
    // `wide` is all of `edge`, which was given `c`, which goes. `low` was given `wide`, and `mixed` a member besides.
    let declared = |with_c: bool, edge: &[u32]| {
        let mut gateway = perhaps_without_c(with_c, edge);
        gateway.groups.interfaces.extend([interfaces_of("wide", edge), interfaces_of("low", &[0])]);
        let nested = |name: &str, named: &str| Nested { name: name.into(), own: 0, groups: [named.into()].into() };
        gateway.groups.nested = vec![nested("wide", "edge")];
        gateway
    };
    let mut rig = Rig::new(declared(true, &[0, 2]));
    let of = |name: &str, own: &[u32], named: &[&str]| AclMembers {
        own: AclGroup::Interfaces(interfaces_of(name, own)),
        groups: named.iter().map(|&name| name.into()).collect(),
    };
    rig.regroup(of("edge", &[1], &[])).unwrap();
    rig.regroup(of("low", &[], &["wide"])).unwrap();
    rig.regroup(of("mixed", &[2], &["wide"])).unwrap();
    let rule = |net: u8, group: &str| AclRule {
        received_on: Some(group_of(group, &[])),
        ..from(DENY, &format!("10.{net}.0.0/16"))
    };
    let live = [rule(1, "low"), rule(2, "wide"), rule(3, "mixed")];
    let added = rig.edit("x", insert(At::Index(0), &live)).unwrap().added;
    let fared = rig.ask(0, &from_all([0, 2]));
    let told = rig.reload(declared(false, &[0, 1]));
    let lost = |place: usize, name: &str| LostRule {
        number: Some(added[place]),
        protects: true,
        rule: AclRule { received_on: Some(group_of(name, &[1])), ..live[place].clone() },
        lost: RuleLost::NoGroup(name.into()),
    };
    let group = |of: &str, lost| LostEdits { of: format!("group {of}"), rules: 0, protects: true, lost };
    let rules = Lost::Rules(vec![lost(0, "low"), lost(1, "wide")]);
    assert_eq!(
        told,
        [
            group("edge", Lost::NothingLeft),
            group("low", Lost::NothingLeft),
            group("mixed", Lost::Members { interfaces: vec![], groups: vec!["wide".into()] }),
            LostEdits { of: "acl x".into(), rules: 2, protects: true, lost: rules },
        ]
    );
    assert_eq!(rig.rows("x")[0].1.received_on, Some(group_of("mixed", &[1])));
    // By `a` and `b` packets of 10.5 fare by the file's rule, and all others as before.
    let actions = |found: &[Found]| found.iter().map(|found| found.action()).collect::<Vec<_>>();
    assert_eq!(actions(&rig.ask(0, &from_all([0, 1]))), actions(&fared));
    assert_eq!(rig.reload(rig.gateway.clone()), []);
}

/// `servers` and `web`, of addresses, and a rule for `servers`.
fn servers_and_web(web: Option<&str>) -> Gateway {
    let servers = addresses_of("servers", &["10.0.0.0/8"]);
    let rule = AclRule { from: Addresses::Group(servers.clone()), to: net("10.0.1.7/32"), ..from(DENY, "::/0") };
    let mut gateway = model(&[list("x", &[rule])], &[0], &[]);
    gateway.groups.addresses = vec![servers];
    gateway.groups.addresses.extend(web.map(|net| addresses_of("web", &[net])));
    gateway
}

/// A rule for all packets from a group of addresses.
fn from_group(name: &str) -> AclRule {
    AclRule { from: Addresses::Group(addresses_of(name, &[])), ..AclRule::all(PERMIT, Origin(0)) }
}

#[test]
fn live_rules_do_not_get_wider_where_a_group_that_theirs_names_is_gone() {
    let other_kind = || {
        let mut gateway = servers_and_web(None);
        gateway.groups.ports = vec![web(&[80])];
        gateway
    };
    for after in [servers_and_web(None), other_kind()] {
        let mut rig = Rig::new(servers_and_web(Some("10.1.0.0/16")));
        rig.regroup(nesting("servers", &[], &["web"])).unwrap();
        rig.regroup(nesting("bad", &["192.0.2.1/32"], &["web"])).unwrap();
        let added = rig.edit("x", insert(At::End, &[from_group("servers"), from_group("bad")])).unwrap().added;
        let number = |rig: &mut Rig, source: &str| Some(rig.from(source).number()).filter(|of| added.contains(of));
        assert_eq!((number(&mut rig, "10.1.0.1"), number(&mut rig, "10.2.0.1")), (Some(added[0]), None));
        assert_eq!(number(&mut rig, "192.0.2.1"), Some(added[1]));

        let lost = rig.reload(after);
        let of: Vec<_> = lost.iter().map(|lost| (lost.of.as_str(), lost.rules, lost.protects)).collect();
        assert_eq!(of, [("group bad", 0, false), ("group servers", 0, true), ("acl x", 1, false)]);
        assert_eq!(lost[0].lost, Lost::Members { interfaces: vec![], groups: vec!["web".into()] });
        assert_eq!(lost[1].lost, Lost::NothingLeft);
        let Lost::Rules(rules) = &lost[2].lost else { panic!("{lost:?}") };
        let rules: Vec<_> = rules.iter().map(|rule| (rule.number, &rule.lost)).collect();
        assert_eq!(rules, [(Some(added[0]), &RuleLost::NoGroup("servers".into()))]);
        for source in ["10.1.0.1", "10.2.0.1"] {
            assert_eq!(number(&mut rig, source), None, "{source} is not what the live rule was about");
        }
        assert_eq!(number(&mut rig, "192.0.2.1"), Some(added[1]), "what is left of it stays");
        assert_eq!(rig.rows("x")[0].1.from, Addresses::Group(addresses_of("servers", &["10.0.0.0/8"])));
        assert_eq!(rig.reload(rig.gateway.clone()), []);
    }
}

#[test]
fn live_rules_do_not_get_wider_where_their_group_does_not_go_with_what_is_declared() {
    // `servers` was given `web` and would be in itself; `more` goes on without it.
    let mut rig = Rig::new(servers_and_web(Some("10.1.0.0/16")));
    rig.regroup(nesting("servers", &["10.4.0.0/16"], &["web"])).unwrap();
    rig.regroup(nesting("more", &["192.0.2.1/32"], &["servers"])).unwrap();
    let added = rig.edit("x", insert(At::End, &[from_group("servers"), from_group("more")])).unwrap().added;
    let mut circle = servers_and_web(None);
    circle.groups.addresses.push(addresses_of("web", &["10.0.0.0/8"]));
    circle.groups.nested = vec![Nested { name: "web".into(), own: 0, groups: ["servers".into()].into() }];
    let told = rig.reload(circle);
    let of: Vec<(&str, usize)> = told.iter().map(|lost| (lost.of.as_str(), lost.rules)).collect();
    assert_eq!(of, [("group more", 0), ("group servers", 0), ("acl x", 1)]);
    assert_eq!(told[0].lost, Lost::Members { interfaces: vec![], groups: vec!["servers".into()] });
    assert_eq!(told[1].lost, Lost::DoesNotGo);
    assert_eq!(rig.numbers("x")[1..], added[1..]);
    assert_eq!(rig.rows("x")[1].1.from, Addresses::Group(addresses_of("more", &["192.0.2.1/32"])));

    // A rule that the file has now would have no addresses by what its group was given: none of a live one's are in the file.
    let mut rig = Rig::new(servers_and_web(None));
    rig.edit("x", AclEdit::Delete { rules: rig.numbers("x") }).unwrap();
    rig.regroup(nesting("servers", &["2001:db8:4::/48"], &[])).unwrap();
    let Rig { compiler, gateway, map, .. } = &mut rig;
    compiler.create_acl((gateway, map), list("y", &[from_group("servers")]), &said()).unwrap();
    let from = Addresses::Group(addresses_of("servers", &["10.0.0.0/8"]));
    let rule = AclRule { family: Some(IpFamily::V4), from, ..from_group("servers") };
    let mut v4 = servers_and_web(None);
    v4.acls = vec![list("x", &[rule.clone(), rule])];
    let told = rig.reload(v4);
    let of: Vec<(&str, usize)> = told.iter().map(|lost| (lost.of.as_str(), lost.rules)).collect();
    assert_eq!(of, [("group servers", 0), ("acl y", 1)], "the file removed the rule that was removed from `x`, too");
    assert_eq!(told[0].lost, Lost::DoesNotGo);
    assert_eq!((rig.rows("y"), rig.rows("x").len()), (vec![], 2));
}

#[test]
fn lists_that_stay_mean_the_same_interfaces_in_chains_that_are_new() {
    let mut gateway = perhaps_without_c(true, &[2]);
    let on = |index| Some(Interfaces::List([InterfaceIndex(index)].into()));
    gateway.acls[0].rules = vec![AclRule { received_on: on(2), ..AclRule::all(PERMIT, Origin(0)) }].into();
    let mut rig = Rig::new(gateway);
    let packets = |interfaces: [u32; 2]| from_all(interfaces)[..2].to_vec();
    let before = rig.ask(0, &packets([0, 2]));
    assert_eq!(before.iter().map(|found| found.action()).collect::<Vec<_>>(), [Action::Deny, Action::Permit]);
    // The same list for another interface's new sequence; `b` has another index.
    let mut other = perhaps_without_c(false, &[1]);
    other.acls[0].rules = vec![AclRule { received_on: on(1), ..AclRule::all(PERMIT, Origin(0)) }].into();
    other.interfaces[0].access.acl_in = vec![AclIndex(1), AclIndex(0)];
    assert_eq!(rig.reload(other), []);
    let after = rig.ask(0, &packets([0, 1]));
    assert_eq!((after[0].action(), after[1]), (Action::Deny, before[1]));
}

#[test]
fn a_full_chain_is_told_with_the_line_of_the_new_model() {
    let nets: Vec<String> = (0..5).map(|net| format!("10.{net}.0.0/16")).collect();
    let nets: Vec<&str> = nets.iter().map(String::as_str).collect();
    let group = addresses_of("hosts", &nets);
    // Both lists on interfaces of their own, and then together; two lines further down.
    let of = |line: u32, together: bool| {
        let mut gateway = model(&[], &[], &[]);
        let mut at = |line| gateway.origins.add(Place { file: "f".into(), line, text: "".into() });
        let rule = |origin| AclRule { from: Addresses::Group(group.clone()), ..AclRule::all(PERMIT, origin) };
        let (x, y) = (list("x", &[rule(at(line))]), list("y", &[rule(at(line + 1))]));
        let origin = at(line + 2);
        gateway.acls = vec![x, AclList { origin, ..y }];
        gateway.groups.addresses = vec![group.clone()];
        gateway.limits.acl_rules = 8;
        gateway.interfaces[0].access.acl_in = if together { vec![AclIndex(0), AclIndex(1)] } else { vec![AclIndex(0)] };
        gateway.interfaces[1].access.acl_out = vec![AclIndex(1)];
        gateway
    };
    let mut rig = Rig::new(of(10, false));
    let told = |rig: &mut Rig, gateway: &Gateway| {
        let full = rig.compiler.compile(gateway, &Places::default()).map(drop).unwrap_err();
        assert_eq!(full.to_string(), "acl y: 10 rules are more than the 8 that there is room for");
        gateway.origins.place(full.origin).unwrap().line
    };
    assert_eq!(told(&mut rig, &of(20, true)), 21);
    // A group that was changed, and a rule that came, which has no line but its list's.
    rig.regroup(AclGroup::Addresses(addresses_of("hosts", &nets[..4]))).unwrap();
    let live = [from(DENY, "10.7.0.0/16"), from(DENY, "10.8.0.0/16")];
    rig.edit("x", insert(At::End, &live)).unwrap();
    assert_eq!(told(&mut rig, &of(30, true)), 31);
    rig.edit("y", AclEdit::Delete { rules: rig.numbers("y") }).unwrap();
    rig.edit("y", insert(At::End, &[from(DENY, "10.1.0.0/16"), from(DENY, "10.2.0.0/16")])).unwrap();
    let two = AclRule { from: Addresses::Group(group.clone()), ..AclRule::all(DENY, Origin(0)) };
    rig.edit("y", insert(At::Index(0), &[two])).unwrap();
    assert_eq!(told(&mut rig, &of(40, true)), 42);
    assert_eq!(rig.from("10.1.0.1").action(), Action::Permit, "it goes on");
}

#[test]
fn groups_keep_their_edits_over_other_declarations() {
    let named = AclRule {
        from: Addresses::Group(hosts(&["10.0.0.0/14", "2001:db8::/110"])),
        ..AclRule::all(PERMIT, Origin(0))
    };
    let lists = [list("x", std::slice::from_ref(&named)), list("y", &[from(DENY, "10.7.0.0/16"), named])];
    let mut rig = Rig::new(with_groups(model(&lists, &[0], &[1])));
    let number = rig.numbers("x")[0];
    rig.count(number);
    assert_eq!(rig.regroup(AclGroup::Addresses(hosts(&["10.7.0.0/16"]))).unwrap().rules, 2);
    assert_eq!((rig.from("10.7.0.1").number(), rig.from("10.1.0.1").action()), (number, Action::Deny));
    // It is no change to a list, and rules that come have the same members.
    let group = Addresses::Group(hosts(&["1.1.1.1/32"]));
    let added =
        rig.edit("y", insert(At::Index(0), &[AclRule { to: group, ..from(DENY, "10.1.0.0/16") }])).unwrap().added[0];
    assert_eq!(rig.rows("y")[0].1.to, Addresses::Group(hosts(&["10.7.0.0/16"])));
    assert_eq!(rig.compiler.acl_lists(&rig.gateway).iter().map(|list| list.edited).collect::<Vec<_>>(), [false, true]);
    let same = rig.gateway.clone();
    assert_eq!(rig.reload(same), []);
    assert_eq!((rig.from("10.7.0.1").number(), rig.matched("x", number)), (number, Some(1)));
    // A list that is declared otherwise has the members as well.
    let mut other = rig.gateway.clone();
    other.acls[0].rules = [&lists[0].rules[..], &[from(DENY, "10.9.0.0/16")]].concat().into();
    assert_eq!(rig.reload(other.clone()), []);
    assert_eq!((rig.from("10.7.0.1").number(), rig.rows("x").len()), (number, 2));
    // Another declaration of the group, which `y` names: what was changed in that list itself stays.
    other.groups.addresses = vec![hosts(&["10.5.0.0/16"])];
    for list in &mut other.acls {
        let renewed = list.rules.iter().cloned().map(|rule| match &rule.from {
            Addresses::Group(_) => AclRule { from: Addresses::Group(hosts(&["10.5.0.0/16"])), ..rule },
            _ => rule,
        });
        list.rules = renewed.collect();
    }
    assert_eq!(rig.reload(other.clone()), []);
    // The members that were removed are not there, and the one that was added is.
    let both = || Addresses::Group(hosts(&["10.5.0.0/16", "10.7.0.0/16"]));
    assert_eq!((rig.numbers("y")[0], rig.rows("y")[0].1.to.clone()), (added, both()));
    assert_eq!(rig.rows("y")[2].1.from, both());
    assert_eq!((rig.from("10.5.0.1").number(), rig.from("10.7.0.1").number()), (number, number));
    assert_eq!(rig.from("10.1.0.1").action(), Action::Deny);
    // The file has what was changed: nothing is changed any more.
    other.groups.addresses = vec![hosts(&["10.5.0.0/16", "10.7.0.0/16"])];
    assert_eq!(rig.reload(other), []);
    assert_eq!(rig.compiler.acl_groups(&rig.gateway)[0].1, None);
    assert_eq!(rig.matched("x", number), Some(1));
}

fn addresses_of(name: &str, members: &[&str]) -> Group<Addresses> {
    Group { name: name.into(), ..hosts(members) }
}

/// Addresses of a group's own, and the groups that it names.
fn nesting(name: &str, own: &[&str], groups: &[&str]) -> AclMembers {
    let groups = groups.iter().map(|&group| group.into()).collect();
    AclMembers { own: AclGroup::Addresses(addresses_of(name, own)), groups }
}

/// `all` names `outer`, and that names `inner`; a rule of the first list names `all`.
fn nested() -> Gateway {
    let groups = [
        ("inner", vec!["10.2.0.0/16"], None),
        ("outer", vec!["10.1.0.0/16", "10.2.0.0/16"], Some("inner")),
        ("all", vec!["2001:db8::/32", "10.1.0.0/16", "10.2.0.0/16"], Some("outer")),
    ];
    let named = Addresses::Group(addresses_of("all", &groups[2].1));
    let rule = AclRule { from: named, ..AclRule::all(PERMIT, Origin(0)) };
    let mut gateway = model(&[list("x", &[from(DENY, "10.9.0.0/16"), rule])], &[0], &[]);
    gateway.groups.addresses = groups.iter().map(|(name, members, _)| addresses_of(name, members)).collect();
    let nested = |(name, _, named): &(&str, Vec<&str>, Option<&str>)| {
        Some(Nested { name: (*name).into(), own: 1, groups: [(*named)?.into()].into() })
    };
    gateway.groups.nested = groups.iter().filter_map(nested).collect();
    gateway
}

#[test]
fn groups_that_name_others_follow_them() {
    let mut rig = Rig::new(nested());
    let number = rig.numbers("x")[1];
    let is_in = |rig: &mut Rig, source: &str| rig.from(source).number() == number;
    assert!(is_in(&mut rig, "10.1.0.1") && is_in(&mut rig, "10.2.0.1"));
    assert_eq!(rig.regroup(AclGroup::Addresses(addresses_of("inner", &["10.3.0.0/16"]))).unwrap().rules, 1);
    assert!(is_in(&mut rig, "10.1.0.1") && is_in(&mut rig, "10.3.0.1") && !is_in(&mut rig, "10.2.0.1"));
    let of = |rig: &Rig, name: &str| {
        let groups = rig.compiler.acl_groups(&rig.gateway);
        let (group, said) = groups.into_iter().find(|(group, _)| &**group.name() == name).unwrap();
        let AclGroup::Addresses(group) = group else { panic!() };
        (group, said.is_some())
    };
    assert_eq!(of(&rig, "all"), (addresses_of("all", &["2001:db8::/32", "10.1.0.0/16", "10.3.0.0/16"]), false));

    // A new group, which one that was declared names from now on; then it changes.
    rig.regroup(AclGroup::Addresses(addresses_of("new", &["10.4.0.0/16"]))).unwrap();
    assert_eq!(rig.regroup(nesting("outer", &[], &["new", "inner"])).unwrap().rules, 1);
    assert!(is_in(&mut rig, "10.4.0.1") && is_in(&mut rig, "10.3.0.1") && !is_in(&mut rig, "10.1.0.1"));
    assert_eq!(rig.regroup(AclGroup::Addresses(addresses_of("new", &["10.5.0.0/16"]))).unwrap().rules, 1);
    assert!(is_in(&mut rig, "10.5.0.1") && !is_in(&mut rig, "10.4.0.1"));

    let is = |error: AclError, text: &str| assert!(error.to_string().contains(text), "{error}");
    is(rig.regroup(nesting("inner", &["10.8.0.0/16"], &["all"])).unwrap_err(), "would be in itself");
    is(rig.regroup(nesting("new", &[], &["new"])).unwrap_err(), "`new` would be in itself");
    is(rig.regroup(nesting("new", &[], &["none"])).unwrap_err(), "no group `none`");
    assert!(is_in(&mut rig, "10.5.0.1") && !is_in(&mut rig, "10.8.0.1"));

    // All of it stays with the same declarations, and applies to others: a member was removed, and another one added.
    let same = rig.gateway.clone();
    assert_eq!(rig.reload(same), []);
    assert!(is_in(&mut rig, "10.5.0.1") && is_in(&mut rig, "10.3.0.1"));
    let mut other = rig.gateway.clone();
    other.groups.nested.push(Nested { name: "inner".into(), own: 1, groups: ["fixed".into()].into() });
    other.groups.addresses.push(addresses_of("fixed", &["10.7.0.0/16"]));
    other.groups.addresses[0] = addresses_of("inner", &["10.2.0.0/16", "10.7.0.0/16"]);
    assert_eq!(rig.reload(other), []);
    assert!(is_in(&mut rig, "10.5.0.1") && is_in(&mut rig, "10.7.0.1") && is_in(&mut rig, "10.3.0.1"));
    assert!(!is_in(&mut rig, "10.2.0.1"));
}

#[test]
fn what_groups_were_given_is_taken_back() {
    let mut rig = Rig::new(nested());
    let number = rig.numbers("x")[1];
    let declared = (rig.rows("x"), rig.compiler.acl_groups(&rig.gateway));
    let is_in = |rig: &mut Rig, source: &str| rig.from(source).number() == number;
    let is = |error: AclError, text: &str| assert_eq!(error.to_string(), text);
    is(rig.restore("none").unwrap_err(), "there is no group `none` of the kind that is meant");
    is(
        rig.restore("inner").unwrap_err(),
        "group `inner` is declared in the configuration, and as it says there: remove it there",
    );

    // A group of the configuration is as that says, in all rules and groups that name it.
    rig.count(number);
    rig.regroup(AclGroup::Addresses(addresses_of("inner", &["10.3.0.0/16"]))).unwrap();
    assert!(is_in(&mut rig, "10.3.0.1") && !is_in(&mut rig, "10.2.0.1"));
    let before = rig.published;
    assert_eq!(rig.restore("inner"), Ok(AclRestored { kind: "addresses", members: Some(1), rules: 1 }));
    assert_eq!(rig.published, before + 1);
    assert!(!is_in(&mut rig, "10.3.0.1") && is_in(&mut rig, "10.2.0.1"));
    assert_eq!((rig.rows("x"), rig.compiler.acl_groups(&rig.gateway)), declared);
    assert_eq!(rig.matched("x", number), Some(1), "it is the same rule");
    assert!(matches!(rig.restore("inner"), Err(AclError::GroupDeclared { .. })));

    // A live group ends once no rule names it.
    rig.regroup(AclGroup::Addresses(addresses_of("new", &["10.4.0.0/16"]))).unwrap();
    rig.regroup(nesting("outer", &["10.1.0.0/16"], &["new"])).unwrap();
    rig.regroup(nesting("more", &[], &["new"])).unwrap();
    let of = |name: &str| Addresses::Group(addresses_of(name, &[]));
    let names = AclRule { to: of("new"), ..AclRule::all(DENY, Origin(0)) };
    let named = rig.edit("x", insert(At::End, &vec![names; 10])).unwrap().added;
    let first: Vec<String> = named[..8].iter().map(u32::to_string).collect();
    let refused = rig.restore("new").unwrap_err();
    let text = format!(
        "cannot remove group `new`: access list `x` (rules {} and 2 more), group `more`, group `outer` use it",
        first.join(", ")
    );
    is(refused, &text);
    assert!(is_in(&mut rig, "10.4.0.1"), "nothing has changed");
    rig.edit("x", AclEdit::Delete { rules: named[1..].to_vec() }).unwrap();
    // As `outer` is put back, it names `inner` again.
    assert_eq!(rig.restore("outer"), Ok(AclRestored { kind: "addresses", members: Some(2), rules: 1 }));
    assert!(is_in(&mut rig, "10.2.0.1") && !is_in(&mut rig, "10.4.0.1"));
    assert_eq!(rig.restore("more"), Ok(AclRestored { kind: "addresses", members: None, rules: 0 }));
    is(
        rig.restore("new").unwrap_err(),
        &format!("cannot remove group `new`: access list `x` (rule {}) uses it", named[0]),
    );
    rig.edit("x", AclEdit::Delete { rules: vec![named[0]] }).unwrap();
    let before = rig.published;
    assert_eq!(rig.restore("new"), Ok(AclRestored { kind: "addresses", members: None, rules: 0 }));
    assert_eq!(rig.published, before, "nobody matches anything else");
    assert_eq!((rig.rows("x"), rig.compiler.acl_groups(&rig.gateway)), declared);
    assert!(matches!(rig.restore("new"), Err(AclError::NoSuchGroup { .. })));
    assert_eq!(rig.reload(rig.gateway.clone()), []);
}

#[test]
fn a_group_that_can_not_be_as_declared_stays_as_it_is() {
    let mut rig = Rig::new(nested());
    let number = rig.numbers("x")[1];
    let all = |rig: &Rig| rig.compiler.acl_groups(&rig.gateway);
    // `inner` names what `outer` is without it: `outer` as it was declared would be in itself.
    rig.regroup(nesting("outer", &["10.1.0.0/16"], &[])).unwrap();
    rig.regroup(nesting("inner", &[], &["outer"])).unwrap();
    let before = (rig.rows("x"), all(&rig));
    assert_eq!(rig.restore("outer"), Err(AclError::GroupCycle { group: "inner".into() }));
    assert_eq!((rig.rows("x"), all(&rig)), before);
    rig.restore("inner").unwrap();
    rig.restore("outer").unwrap();

    // A rule came that is about a family which the group has only now.
    rig.regroup(AclGroup::Addresses(addresses_of("inner", &["10.2.0.0/16", "2001:db8:1::/48"]))).unwrap();
    let group = Addresses::Group(addresses_of("inner", &[]));
    let v6 = AclRule { family: Some(IpFamily::V6), from: group, ..AclRule::all(DENY, Origin(0)) };
    let new = rig.edit("x", insert(At::Index(0), &[v6])).unwrap().added[0];
    let before = (rig.rows("x"), all(&rig));
    assert_eq!(rig.restore("inner"), Err(AclError::NoFamily { list: "x".into(), place: 1 }));
    assert_eq!((rig.rows("x"), all(&rig)), before);
    rig.edit("x", AclEdit::Delete { rules: vec![new] }).unwrap();

    // There is no room: the list has as many boxes as it may while the group is small.
    let few = ["10.0.0.0/16"];
    let mut gateway = nested();
    gateway.limits.acl_rules = 14;
    let mut rig = Rig::new(gateway);
    rig.regroup(nesting("outer", &few, &[])).unwrap();
    let fill: Vec<AclRule> = (0..11).map(|net| from(DENY, &format!("10.{net}.0.0/24"))).collect();
    rig.edit("x", insert(At::End, &fill)).unwrap();
    rig.edit("x", insert(At::End, &fill[..1])).unwrap();
    let before = (rig.rows("x"), all(&rig));
    assert!(matches!(rig.restore("outer"), Err(AclError::NoRoom { .. })));
    assert_eq!((rig.rows("x"), all(&rig), rig.from("10.0.0.1").number()), (before.0, before.1, number));
}

#[test]
fn groups_that_change_have_so_many_members_together() {
    let mut gateway = nested();
    gateway.limits.acl_rules = 8;
    let mut rig = Rig::new(gateway);
    let many: Vec<String> = (0..3).map(|net| format!("10.{net}.0.0/16")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    // 3 of `inner`, 4 of `outer`, and `all` of them.
    let full = rig.regroup(AclGroup::Addresses(addresses_of("inner", &many))).unwrap_err();
    assert!(matches!(full, AclError::GroupsFull { most: 8, .. }), "{full}");
    rig.regroup(AclGroup::Addresses(addresses_of("inner", &many[..1]))).unwrap();
}

#[test]
fn a_model_is_held_against_the_members_that_groups_have() {
    let many = |count: usize, net: u8| -> Vec<String> {
        (0..count).map(|host| format!("10.{net}.{}.{}/32", host / 256, host % 256)).collect()
    };
    let group = |name: &str, members: &[String]| {
        let members: Vec<&str> = members.iter().map(String::as_str).collect();
        addresses_of(name, &members)
    };
    let declare = |gateway: &mut Gateway, count| {
        gateway.groups.addresses = vec![group("a", &many(count, 1)), group("b", &many(count, 2))];
    };
    let between = |count| {
        let (from, to) = (group("a", &many(count, 1)), group("b", &many(count, 2)));
        AclRule { from: Addresses::Group(from), to: Addresses::Group(to), ..AclRule::all(PERMIT, Origin(0)) }
    };
    let mut small = model(&[list("x", &[from(DENY, "10.9.0.0/16")])], &[0], &[]);
    small.limits.acl_rules = 1_000_000;
    declare(&mut small, 1);
    let mut rule = small.clone();
    rule.acls[0].rules = [&small.acls[0].rules[..], &[between(1)]].concat().into();
    let refused = |rig: &mut Rig, gateway: &Gateway, boxes: usize| {
        let full = rig.compiler.compile(gateway, &Places::default()).map(drop).unwrap_err().to_string();
        assert!(full.contains("acl x") && full.contains(&format!("{boxes} rules are more than the 1000000")), "{full}");
        assert_eq!(rig.from("10.9.0.1").action(), Action::Deny, "it goes on");
    };

    // The file has one member each; the present members of the groups count. The list could have 1.44 million boxes if
    // they were of both families. The other lists, of half a terabyte, cannot be built.
    for (count, boxes) in [(1_200, 1_440_001), (60_000, 3_600_000_001)] {
        let mut rig = Rig::new(small.clone());
        rig.regroup(AclGroup::Addresses(group("a", &many(count, 1)))).unwrap();
        rig.regroup(AclGroup::Addresses(group("b", &many(count, 2)))).unwrap();
        refused(&mut rig, &rule, boxes);
    }
    // A rule came while they were small, and stays with its list.
    let mut rig = Rig::new(small.clone());
    rig.edit("x", insert(At::End, &[between(1)])).unwrap();
    let mut grown = small.clone();
    declare(&mut grown, 60_000);
    refused(&mut rig, &grown, 3_600_000_001);
    assert_eq!(rig.reload(small), []);
    assert_eq!(rig.rows("x").len(), 2);
}

#[test]
fn no_group_leaves_a_rule_without_addresses() {
    let mut rig = Rig::new(nested());
    let group = Addresses::Group(addresses_of("inner", &[]));
    let v4 = AclRule { family: Some(IpFamily::V4), from: group, ..AclRule::all(DENY, Origin(0)) };
    rig.edit("x", insert(At::Index(1), std::slice::from_ref(&v4))).unwrap();
    let denied = rig.from("10.2.0.1").number();
    let v6 = addresses_of("inner", &["2001:db8:1::/48"]);
    let refused = rig.regroup(AclGroup::Addresses(v6.clone())).unwrap_err();
    assert_eq!(refused, AclError::NoFamily { list: "x".into(), place: 2 });
    assert_eq!(rig.from("10.2.0.1").number(), denied, "it is as it was");
    rig.edit("x", AclEdit::Delete { rules: vec![denied] }).unwrap();
    rig.regroup(AclGroup::Addresses(v6)).unwrap();
    let refused = rig.edit("x", insert(At::End, std::slice::from_ref(&v4))).unwrap_err();
    assert_eq!(refused, AclError::NoFamily { list: "x".into(), place: 1 });

    // The file has such a rule from now on, and counts.
    let mut other = rig.gateway.clone();
    let from = Addresses::Group(addresses_of("inner", &["10.2.0.0/16"]));
    other.acls[0].rules = [&other.acls[0].rules[..], &[AclRule { from, ..v4 }]].concat().into();
    let lost: Vec<String> = rig.reload(other).into_iter().map(|lost| lost.of).collect();
    assert_eq!(lost, ["group inner"]);
    assert_eq!(rig.rows("x").len(), 3);
}

#[test]
fn lists_and_chains_tell_of_themselves() {
    let rules = [from(PERMIT, "10.0.0.0/8"), from(DENY, "2001:db8::/32")];
    let mut gateway = model(&[list("x", &rules), list("y", &rules[..1]), list("z", &[])], &[0, 1], &[1]);
    gateway.acls[1].default = AclDefault::Action(PERMIT);
    gateway.interfaces[2].access.acl_out = vec![AclIndex(0), AclIndex(1)];
    let mut rig = Rig::new(gateway);
    let lists = rig.compiler.acl_lists(&rig.gateway);
    let told: Vec<_> =
        lists.iter().map(|list| (list.name.as_str(), list.rules, list.input.clone(), list.output.clone())).collect();
    let names = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<Vec<_>>();
    assert_eq!(told[0], ("x", 2, names(&["a"]), names(&["c"])));
    assert_eq!(told[1], ("y", 1, names(&["a"]), names(&["b", "c"])));
    assert_eq!(told[2], ("z", 0, vec![], vec![]));
    let chains = rig.compiler.acl_sections(&rig.gateway);
    let told: Vec<_> =
        chains.iter().map(|chain| (chain.lists.clone(), chain.input.clone(), chain.output.clone())).collect();
    assert_eq!(told, [(names(&["x", "y"]), names(&["a"]), names(&["c"])), (names(&["y"]), vec![], names(&["b"]))]);
    assert_eq!((chains[0].v4.boxes, chains[0].v6.boxes, chains[1].v6.boxes), (2, 1, 0));
    assert!(chains[0].v4.lookup_octets > 0 && chains[0].v4.control_octets > 0);
    assert_eq!(rig.compiler.acl_occupancy().0, 3);
    // What decided.
    let found = rig.from("10.1.2.3");
    let decision = rig.compiler.acl_decision(found).unwrap();
    assert_eq!(
        (decision.list.as_str(), decision.rule, decision.action),
        ("x", Some((0, rules[0].clone())), Action::Permit)
    );
    let found = rig.from("192.0.2.1");
    let decision = rig.compiler.acl_decision(found).unwrap();
    assert_eq!((decision.list.as_str(), decision.rule, decision.action), ("y", None, Action::Permit));
    // Counters, and counting from nothing again.
    rig.count(found.number());
    rig.count(found.number());
    assert_eq!(rig.compiler.acl_lists(&rig.gateway)[1].default_matched.packets, 2);
    rig.compiler.clear_acl();
    rig.count(found.number());
    assert_eq!(rig.compiler.acl_lists(&rig.gateway)[1].default_matched.packets, 1);
}

/// Three interfaces, each with a list of its own before a common one.
fn with_a_common_list(common: usize) -> Gateway {
    let rules = |net: usize, count| -> Vec<AclRule> {
        (0..count).map(|host: usize| from(DENY, &format!("10.{net}.{}.{}/32", host / 256, host % 256))).collect()
    };
    let lists = [
        list("common", &rules(0, common)),
        list("1", &rules(1, 30)),
        list("2", &rules(2, 30)),
        list("3", &rules(3, 30)),
    ];
    let mut gateway = model(&lists, &[1, 0], &[2, 0]);
    gateway.interfaces[2].access.acl_in = vec![AclIndex(3), AclIndex(0)];
    gateway
}

#[test]
fn rules_that_come_and_go_leave_sections_as_they_are_until_there_are_more() {
    let mut rig = Rig::sharing(with_a_common_list(10), Some(30));
    let tables =
        |rig: &Rig| rig.root.with(|root| root.acl.v4.iter().map(|chain| Arc::clone(&chain.table)).collect::<Vec<_>>());
    let is_kept = |rig: &Rig, before: &[_]| {
        let now = tables(rig);
        now.len() == before.len() && now.iter().zip(before).all(|(now, before)| Arc::ptr_eq(now, before))
    };
    let before = tables(&rig);
    assert_eq!(before.len(), 3, "two copies of ten rules");
    let one = |rig: &mut Rig, net: usize| {
        rig.edit("common", insert(At::End, &[from(DENY, &format!("11.0.0.{net}/32"))])).unwrap().added[0]
    };
    for net in 0..50 {
        let number = one(&mut rig, net);
        rig.edit("common", AclEdit::Delete { rules: vec![number] }).unwrap();
    }
    let numbers: Vec<u32> = (0..5).map(|net| one(&mut rig, net)).collect();
    assert!(is_kept(&rig, &before), "no more than fifteen at any time");
    // With the sixteenth, sequences share it; the following ones use it as it is.
    let last = one(&mut rig, 99);
    let lists = |rig: &Rig| -> Vec<String> {
        rig.compiler.acl_sections(&rig.gateway).into_iter().map(|section| section.lists.join(",")).collect()
    };
    assert_eq!(lists(&rig), ["common", "1", "2", "3"]);
    assert_eq!((rig.from("11.0.0.4").number(), rig.from("11.0.0.99").number()), (numbers[4], last));
    let before = tables(&rig);
    for net in 100..200 {
        one(&mut rig, net);
    }
    assert!(is_kept(&rig, &before));
    assert_eq!(rig.from("11.0.0.180").action(), Action::Deny);
}

#[test]
fn the_limit_holds_for_all_sections_of_a_sequence() {
    let group = |count: usize| {
        let members: Vec<String> = (0..count).map(|host| format!("10.9.0.{host}/32")).collect();
        let members: Vec<&str> = members.iter().map(String::as_str).collect();
        Group { name: format!("g{count}").into(), ..hosts(&members) }
    };
    let grouped = |count| AclRule { from: Addresses::Group(group(count)), ..AclRule::all(DENY, Origin(0)) };
    let mut gateway = with_a_common_list(100);
    gateway.groups.addresses = vec![group(70), group(71)];
    gateway.limits.acl_rules = 200;
    let mut rig = Rig::sharing(gateway, Some(0));
    // 100 and 30 in each; 190 of all; there may be 200.
    let too_many = |refused: Result<AclEdited, AclError>, list: &str| {
        let refused = refused.unwrap_err();
        assert!(matches!(&refused, AclError::NoRoom { list: own, .. } if own == list), "{refused}");
    };
    too_many(rig.edit("1", insert(At::End, &[grouped(71)])), "common");
    rig.edit("1", insert(At::End, &[grouped(70)])).unwrap();
    let before = rig.rows("1");
    for list in ["1", "common"] {
        too_many(rig.edit(list, insert(At::End, &[from(DENY, "10.8.0.1/32")])), list);
    }
    assert_eq!((rig.rows("1"), rig.rows("common").len()), (before, 100));
    rig.edit("2", insert(At::End, &[from(DENY, "10.8.0.1/32")])).unwrap();
    assert_eq!(rig.from("10.8.0.1"), rig.from("10.8.0.2"), "the default");
}

#[test]
fn an_engine_changes_lists_and_tells_of_them() {
    let gateway = model(&[list("x", &[from(PERMIT, "10.0.0.0/8")])], &[0], &[]);
    let options = weir_plane::engine::Options {
        clock: weir_base::clock::Clock::monotonic(),
        random: Entropy::from_seed(1),
        invent_neighbors: false,
        pin: false,
    };
    let engine = Engine::start(gateway.clone(), options).unwrap();
    let one = from(DENY, "10.1.0.0/16");
    let edit = |edit: AclEdit| engine.edit_acl::<AclError>("x", &said(), |_| Ok(edit));
    let number = edit(insert(At::Index(0), &[one])).unwrap().added[0];
    let numbers = || engine.acl_rules("x", |_| true, 9, |_, row| row.number).unwrap();
    assert_eq!((numbers().0[0], numbers().1), (number, 2));
    let wrong = edit(AclEdit::Delete { rules: vec![number, 999] }).unwrap_err();
    assert_eq!(wrong, AclError::NoSuchRule { list: "x".into(), number: 999 });
    let tables = engine.snapshot().tables;
    let used = |name: &str| tables.iter().find(|table| table.name == name).map(|table| (table.used, table.bytes > 0));
    assert_eq!(
        (used("acl rules"), used("acl4 x"), used("acl6 x")),
        (Some((2, true)), Some((2, true)), Some((0, true)))
    );
    assert_eq!((engine.acl_lists()[0].live, engine.acl_sections()[0].v4.boxes), (1, 2));
    let servers = AclGroup::Addresses(hosts(&["10.2.0.0/16"]));
    engine.replace_acl_group(&said(), |_| Ok::<_, AclError>(servers)).unwrap();
    assert_eq!(engine.acl_groups(|_, group, said| (group.kind(), said.is_some())), [("addresses", true)]);
    engine.clear(Clear::Acl);
    assert_eq!(engine.reload(gateway.clone()).unwrap().lost, []);
    let mut other = gateway;
    other.acls[0].default = AclDefault::Action(PERMIT);
    assert_eq!(engine.reload(other.clone()).unwrap().lost, []);
    assert_eq!((numbers().1, engine.acl_default("x")), (2, Some(AclDefault::Action(PERMIT))));
    // The anchor of a rule that refuses packets goes.
    other.acls[0].rules = [from(PERMIT, "10.0.0.0/9")].into();
    let Err(EngineError::EditsLost(refused)) = engine.reload(other.clone()) else { panic!("it was put into force") };
    assert!(refused.len() == 1 && refused[0].protects && refused[0].of == "acl x", "{refused:?}");
    assert_eq!(numbers().1, 2);
    let lost = engine.reload_after(other, LostEdit::Drop, |_| ()).unwrap().lost;
    let Lost::Rules(rules) = &lost[0].lost else { panic!("{lost:?}") };
    assert_eq!(rules[0].lost, RuleLost::NoAnchor(from(PERMIT, "10.0.0.0/8").into()));
    assert_eq!(numbers().1, 1);
    engine.stop();
}
