//! Changes between vectors: each operation that a harness offers.

use std::sync::Arc;

use weir_base::random::Random;
use weir_plane::compile::{
    AclChange, AclEdit, AclError, AclGroup, AclMembers, AclSaid, At, Edit, EntryKey, Hop, Names, Offer, Target,
};
use weir_plane::engine::{ChangeKind, FlowFilter};
use weir_plane::model::{
    AclAction, AclDefault, AclIndex, AclList, Gateway, Group, Mechanism, Mode, Rejection, SavAction, SavPolicy,
};
use weir_plane::node::Node;
use weir_plane::rib::By;

use crate::edited::edited;
use crate::gateway::{Links, Part, Seeds, addresses, between, host, interfaces, pick, ports, prefix, rule};
use crate::pair::{Pair, Side};
use crate::spd;

/// A change, the same for both gateways.
#[derive(Debug, Clone)]
pub enum Change {
    /// Another model, with the same interfaces.
    Reload(Box<Gateway>),
    /// The model in force, again.
    ReloadSame(Box<Gateway>),
    /// A model that differs in one part.
    ReloadPart(Part, Box<Gateway>),
    /// The model in force, with other lists at an interface.
    AttachLists(Box<Gateway>),
    /// The model in force with other rules of SPDs and other settings of SAs, which alone are compiled.
    Ipsec(Box<Gateway>),
    InsertRules(String, AclEdit),
    DeleteRules(String, AclEdit),
    ReplaceRules(String, AclEdit),
    /// The same rules in another order.
    MoveRules(String, AclEdit),
    BatchRules(String, AclEdit),
    ReplaceGroup(AclMembers),
    EditSav(String, Vec<Edit>),
    ReplaceSav(String, Vec<(EntryKey, Names)>),
    StageSav(String, Option<SavAction>),
    /// A source of routes changes its offers.
    OfferRoutes(&'static str, By, Vec<Offer>),
    SetLink(u32, bool),
    ClearFlows(Box<FlowFilter>),
    CreateList(Box<AclList>),
    DeleteList(String),
    RestoreGroup(&'static str),
    /// The model in force, with other rules of NAT that keep their Ids.
    EditNat(Box<Gateway>),
    /// A bridge forgets stations.
    ClearMacs(String),
    ClearClassify,
    TendSas,
    ShareAcls(usize),
    /// Fates are recorded from now on, or not.
    Record(bool),
    Trace(Node, u32),
    /// A new transmitter for a port.
    Connect(u32),
    /// A port takes so many frames of each vector.
    Bound(u32, Option<usize>),
    Flush,
    /// Time passes, in nanoseconds.
    Wait(u64),
}

impl Change {
    pub const NAMES: &[&str] = &[
        "reload",
        "reload-same",
        "attach-lists",
        "change-ipsec",
        "insert-rules",
        "delete-rules",
        "replace-rules",
        "move-rules",
        "batch-rules",
        "replace-group",
        "edit-sav",
        "replace-sav",
        "stage-sav",
        "offer-routes",
        "link-down",
        "link-up",
        "clear-flows",
        "share-acls",
        "record",
        "record-not",
        "trace",
        "connect",
        "bound",
        "flush",
        "wait",
    ];

    /// The names of changes that edited models have beside these.
    pub const EDITED: &[&str] =
        &["create-list", "delete-list", "restore-group", "edit-nat", "clear-macs", "clear-classify", "tend-sas"];

    /// Returns the names of the changes that have the control side make a change of a kind. A new kind does not compile
    /// without.
    pub fn generators(kind: ChangeKind) -> &'static [&'static str] {
        match kind {
            ChangeKind::Model => &["reload", "reload-same", "attach-lists", "share-acls", "edit-nat"],
            ChangeKind::Links => &["link-down", "link-up"],
            ChangeKind::Routes => &["offer-routes"],
            ChangeKind::Ipsec => &["change-ipsec"],
            ChangeKind::EditSav => &["edit-sav"],
            ChangeKind::ReplaceSav => &["replace-sav"],
            ChangeKind::StageSav => &["stage-sav"],
            ChangeKind::EditList => &["insert-rules", "delete-rules", "replace-rules", "move-rules", "batch-rules"],
            ChangeKind::CreateList => &["create-list"],
            ChangeKind::DeleteList => &["delete-list"],
            ChangeKind::ReplaceGroup => &["replace-group"],
            ChangeKind::RestoreGroup => &["restore-group"],
            ChangeKind::ClearCounters => &["clear-classify"],
            ChangeKind::ClearFlows => &["clear-flows"],
            ChangeKind::ClearMacs => &["clear-macs"],
            ChangeKind::TendSas => &["tend-sas"],
            // Packets of ARP and neighbour discovery, and the time.
            ChangeKind::Neighbors => &["wait"],
        }
    }

    pub fn name(&self) -> &'static str {
        match self {
            Change::Reload(_) => "reload",
            Change::ReloadSame(_) => "reload-same",
            Change::ReloadPart(part, _) => part.name(),
            Change::AttachLists(_) => "attach-lists",
            Change::Ipsec(_) => "change-ipsec",
            Change::InsertRules(..) => "insert-rules",
            Change::DeleteRules(..) => "delete-rules",
            Change::ReplaceRules(..) => "replace-rules",
            Change::MoveRules(..) => "move-rules",
            Change::BatchRules(..) => "batch-rules",
            Change::ReplaceGroup(_) => "replace-group",
            Change::EditSav(..) => "edit-sav",
            Change::ReplaceSav(..) => "replace-sav",
            Change::StageSav(..) => "stage-sav",
            Change::OfferRoutes(..) => "offer-routes",
            Change::SetLink(_, false) => "link-down",
            Change::SetLink(_, true) => "link-up",
            Change::ClearFlows(_) => "clear-flows",
            Change::CreateList(_) => "create-list",
            Change::DeleteList(_) => "delete-list",
            Change::RestoreGroup(_) => "restore-group",
            Change::EditNat(_) => "edit-nat",
            Change::ClearMacs(_) => "clear-macs",
            Change::ClearClassify => "clear-classify",
            Change::TendSas => "tend-sas",
            Change::ShareAcls(_) => "share-acls",
            Change::Record(true) => "record",
            Change::Record(false) => "record-not",
            Change::Trace(..) => "trace",
            Change::Connect(_) => "connect",
            Change::Bound(..) => "bound",
            Change::Flush => "flush",
            Change::Wait(_) => "wait",
        }
    }

    /// Describes the change for a failure's report.
    pub fn line(&self) -> String {
        match self {
            Change::Reload(_)
            | Change::ReloadSame(_)
            | Change::ReloadPart(..)
            | Change::AttachLists(_)
            | Change::EditNat(_)
            | Change::Ipsec(_) => self.name().to_owned(),
            other => format!("{other:?}"),
        }
    }

    /// Makes the change; returns its result as text.
    pub fn apply(&self, side: &mut Side, time: &mut u64) -> String {
        let (said, harness) = (AclSaid { source: "test".into(), time: 1 }, &mut side.harness);
        match self {
            Change::Reload(model)
            | Change::ReloadSame(model)
            | Change::ReloadPart(_, model)
            | Change::AttachLists(model)
            | Change::EditNat(model) => side.reload(model),
            Change::Ipsec(model) => side.change_ipsec(model),
            Change::InsertRules(list, edit)
            | Change::DeleteRules(list, edit)
            | Change::ReplaceRules(list, edit)
            | Change::MoveRules(list, edit)
            | Change::BatchRules(list, edit) => format!("{:?}", harness.edit_acl(list, edit.clone(), &said)),
            Change::ReplaceGroup(members) => format!("{:?}", harness.replace_acl_group(members.clone(), &said)),
            Change::EditSav(policy, edits) => format!("{:?}", harness.edit_sav(policy, "api", edits, 1)),
            Change::ReplaceSav(policy, entries) => format!("{:?}", harness.replace_sav(policy, "peer", entries, 1)),
            Change::StageSav(policy, action) => format!("{:?}", harness.stage_sav(policy, *action, 1)),
            Change::OfferRoutes(vrf, by, offers) => format!("{:?}", harness.change_routes(vrf, *by, offers.clone())),
            Change::SetLink(interface, up) => format!("{:?}", harness.set_link(*interface, *up)),
            Change::ClearFlows(filter) => format!("{:?}", harness.clear_flows(filter)),
            Change::CreateList(list) => {
                let made = harness.create_acl(&said, |_| Ok::<_, AclError>((**list).clone()));
                format!("{made:?}")
            }
            Change::DeleteList(list) => format!("{:?}", harness.delete_acl(list)),
            Change::RestoreGroup(group) => format!("{:?}", harness.restore_acl_group(group)),
            Change::ClearMacs(bridge) => format!("{:?}", harness.clear_bridge(bridge)),
            Change::ClearClassify => format!("{:?}", harness.clear_classify()),
            Change::TendSas => format!("{:?}", harness.tend_sas()),
            Change::ShareAcls(most) => format!("{:?}", harness.share_acls(*most)),
            Change::Record(on) => format!("{:?}", harness.set_recording(*on)),
            Change::Trace(node, count) => format!("{:?}", harness.trace(*node, *count)),
            Change::Connect(port) => format!("{:?}", side.connect_port(*port)),
            Change::Bound(port, room) => format!("{:?}", side.bound_port(*port, *room)),
            Change::Flush => format!("{:?}", harness.flush()),
            Change::Wait(nanoseconds) => {
                *time += nanoseconds;
                String::new()
            }
        }
    }

    /// Returns a change of the gateways of a pair.
    pub fn random(random: &mut Random, links: &Links, seeds: &mut Seeds, pair: &Pair) -> Change {
        let model = pair.off.harness.model();
        let link = random.below(links.count as u64) as u32;
        let port = pair.off.harness.port_of(link);
        if links.edited && random.chance(0.4) {
            return edited(random, links, pair);
        }
        if links.bare && random.chance(0.1) {
            let part = pick(random, &[Part::Bindings, Part::Filtered, Part::Routes]);
            seeds.change(part, random);
            return Change::ReloadPart(part, Box::new(seeds.model(links)));
        }
        // With prefixes inside each other, most changes are noted by prefix.
        // Rules change beneath sessions, and little else.
        let share = match (links.bare, links.crossed) {
            (true, _) => 0.6,
            (_, true) => 0.85,
            _ => 0.0,
        };
        let kind = match random.chance(share) {
            true if links.crossed => 13,
            true => pick(random, &[13, 13, 13, 22, 37, 37]),
            false => random.below(40),
        };
        match kind {
            0 => {
                *seeds = Seeds::random(random);
                Change::Reload(Box::new(seeds.model(links)))
            }
            1 => Change::ReloadSame(Box::new(model.clone())),
            2..=12 => {
                let part = pick(random, Part::ALL);
                seeds.change(part, random);
                Change::ReloadPart(part, Box::new(seeds.model(links)))
            }
            // Policies of source address validation, where there are some to change.
            22..=26 if !validates(model) => edit(random, links, pair),
            13..=20 => edit(random, links, pair),
            21 => regroup(random, links),
            22 | 23 => {
                let edits = (0..between(random, 1, 4)).map(|_| sav_edit(random, links)).collect();
                Change::EditSav(policy(random, model, is_table), edits)
            }
            24 => {
                let mut entries: Vec<(EntryKey, Names)> = Vec::new();
                for _ in 0..random.below(5) {
                    let (key, names) = (key(random, links), names(random, links));
                    if entries.iter().all(|(known, _)| *known != key) {
                        entries.push((key, names));
                    }
                }
                Change::ReplaceSav(policy(random, model, is_table), entries)
            }
            25 | 26 => {
                let action = random.chance(0.7).then(|| pick(random, &SavAction::ALL));
                Change::StageSav(policy(random, model, |_| true), action)
            }
            27 | 28 => Change::SetLink(port, random.chance(0.7)),
            29 => {
                let mut filter = rule(random, links, &Default::default());
                filter.received_on = None;
                Change::ClearFlows(Box::new(FlowFilter {
                    rule: random.chance(0.7).then_some(filter),
                    ..FlowFilter::default()
                }))
            }
            30 => Change::ShareAcls(pick(random, &[0, 20, 4096])),
            31 => Change::Record(true),
            32 => Change::Trace(pick(random, &[Node::Rx, Node::EthernetInput]), between(random, 1, 20) as u32),
            33 => Change::Connect(link),
            34 => Change::Bound(port, random.chance(0.3).then(|| random.below(60) as usize)),
            35 => Change::Flush,
            36 => {
                let mut model = model.clone();
                let names = model.acls.iter().filter(|_| random.chance(0.4)).map(|list| list.name.as_str().into());
                let lists: Arc<[Arc<str>]> = names.collect();
                let interface = random.below(model.interfaces.len() as u64) as usize;
                model.interfaces[interface].access.live_lists[random.below(2) as usize] = Some(lists);
                Change::AttachLists(Box::new(model))
            }
            37 => offer(random, links),
            38 => change_ipsec(random, links, model.clone()),
            _ => Change::Wait(wait(random, model)),
        }
    }
}

/// Returns a change of the rules of SPDs and of the settings of SAs.
fn change_ipsec(random: &mut Random, links: &Links, mut model: Gateway) -> Change {
    let new = (0..model.spds.len()).map(|_| spd::policy(random, links, &model)).collect::<Vec<_>>();
    for (spd, new) in model.spds.iter_mut().zip(new) {
        let mut rules = spd.rules.to_vec();
        if random.chance(0.5) {
            rules.insert(0, new);
        }
        if rules.len() > 1 && random.chance(0.5) {
            let first = random.below(rules.len() as u64) as usize;
            rules.rotate_left(first);
        }
        if !rules.is_empty() && random.chance(0.5) {
            let at = random.below(rules.len() as u64) as usize;
            match random.chance(0.5) {
                true => drop(rules.remove(at)),
                false => rules.insert(0, rules[at].clone()),
            }
        }
        spd.rules = rules.into();
    }
    for sa in &mut model.sas {
        if random.chance(0.5) {
            sa.hop_limit = between(random, 1, 255) as u8;
        }
    }
    Change::Ipsec(Box::new(model))
}

/// Returns offers of a source: interfaces have numbers by their order.
fn offer(random: &mut Random, links: &Links) -> Change {
    let vrf = if random.chance(0.8) { "default" } else { "red" };
    let by = pick(random, &By::OTHERS);
    let offers = (0..between(random, 1, 4)).map(|_| {
        let v6 = random.chance(0.5);
        let mut hop = || {
            let interface = random.below(links.count as u64) as usize;
            let address = Some(host(interface, v6, between(random, 2, 4) as u8));
            Hop { interface: interface as u32, address, weight: between(random, 1, 3) as u8 }
        };
        let (one, two) = (vec![hop()], vec![hop(), hop()]);
        let target = match random.below(8) {
            0 | 1 => None,
            2 => Some(Target::Blackhole),
            3 => Some(Target::Unreachable),
            4 | 5 => Some(Target::Via(two.into(), None)),
            _ => Some(Target::Via(one.into(), None)),
        };
        (prefix(random, links, v6), target.map(Arc::new))
    });
    Change::OfferRoutes(vrf, by, offers.collect())
}

/// Returns a time that passes: often such that sessions are just not over, or just over.
fn wait(random: &mut Random, model: &Gateway) -> u64 {
    let mut timeouts = model.flow_table.timeouts;
    let all: Vec<u64> = timeouts.all().map(|(_, time)| time.as_nanos() as u64).collect();
    let one = pick(random, &all);
    match random.below(6) {
        0 => one,
        1 => one - 1,
        2 => one + 1,
        3 => random.below(2_000_000_000),
        4 => random.below(300_000_000_000),
        _ => random.below(50_000_000),
    }
}

/// Returns the name of a policy: mostly of one that an interface uses and that `is` accepts.
fn policy(random: &mut Random, model: &Gateway, is: impl Fn(&SavPolicy) -> bool) -> String {
    let own = model.interfaces.iter().flat_map(|interface| [interface.sav.v4, interface.sav.v6]).flatten();
    let used: Vec<&SavPolicy> = own.map(|index| &model.sav[usize::from(index.0)]).filter(|own| is(own)).collect();
    let any = &model.sav[random.below(model.sav.len() as u64) as usize];
    let used = used.get(random.below(used.len() as u64) as usize).filter(|_| random.chance(0.9));
    used.unwrap_or(&any).name.clone()
}

/// Whether an interface has a policy.
fn validates(model: &Gateway) -> bool {
    model.interfaces.iter().any(|interface| interface.sav.v4.is_some() || interface.sav.v6.is_some())
}

fn is_table(policy: &SavPolicy) -> bool {
    matches!(policy.mechanism, Mechanism::Table { .. })
}

/// Returns a list: mostly one that an interface uses.
fn list(random: &mut Random, model: &Gateway) -> String {
    let access = model.interfaces.iter().map(|interface| &interface.access);
    let used: Vec<AclIndex> = access.flat_map(|own| own.acl_in.iter().chain(&own.acl_out).copied()).collect();
    let any = random.below(model.acls.len() as u64) as usize;
    let used = used.get(random.below(used.len() as u64) as usize).filter(|_| random.chance(0.9));
    model.acls[used.map_or(any, |index| usize::from(index.0))].name.clone()
}

fn key(random: &mut Random, links: &Links) -> EntryKey {
    let v6 = random.chance(0.5);
    let modes = [Mode::PrefixAllow, Mode::PrefixAllow, Mode::PrefixBlock, Mode::PrefixBlock, Mode::InterfaceBlock];
    let any = pick(random, &Mode::ALL);
    let mode = if random.chance(0.1) { any } else { pick(random, &modes) };
    EntryKey { prefix: prefix(random, links, v6), mode }
}

fn names(random: &mut Random, links: &Links) -> Names {
    interfaces(random, links).iter().map(|index| Arc::from(links.name(index.0 as usize))).collect()
}

fn sav_edit(random: &mut Random, links: &Links) -> Edit {
    let (key, names) = (key(random, links), names(random, links));
    match random.below(20) {
        0 => Edit::Add(key, names),
        1 => Edit::Delete(key),
        _ => Edit::Replace(key, names),
    }
}

fn edit(random: &mut Random, links: &Links, pair: &Pair) -> Change {
    let harness = &pair.off.harness;
    let list = list(random, harness.model());
    let there = harness.acl_rules(&list);
    // Most of the time a rule that packets match.
    let matched: Vec<u32> = there.iter().filter(|row| row.matched.packets > 0).map(|row| row.number).collect();
    let some = |random: &mut Random| match matched.is_empty() || random.chance(0.3) {
        true => there.get(random.below(there.len() as u64) as usize).map_or(0, |row| row.number),
        false => pick(random, &matched),
    };
    // Groups have other members than those of the model where they were replaced.
    let new = |random: &mut Random| rule(random, links, &harness.model().groups);
    match random.below(8) {
        0..=2 => {
            let at = match random.below(6) {
                0..=2 => At::Index(0),
                3 => At::End,
                4 => At::Before(some(random)),
                _ => At::After(some(random)),
            };
            // A rule by itself may go in where it is.
            let most = if links.bare || links.crossed { 1 } else { 3 };
            let rules = (0..between(random, 1, most)).map(|_| new(random)).collect();
            Change::InsertRules(list, AclEdit::Insert { at, rules })
        }
        3 | 4 => {
            let mut rules: Vec<u32> = (0..between(random, 1, 3)).map(|_| some(random)).collect();
            rules.sort_unstable();
            rules.dedup();
            Change::DeleteRules(list, AclEdit::Delete { rules })
        }
        5 => {
            let mut rules: Vec<_> = there.iter().map(|row| row.rule.clone()).collect();
            rules.retain(|_| random.chance(0.7));
            (0..random.below(4)).for_each(|_| rules.push(new(random)));
            let default = random.chance(0.3).then(|| {
                let reject = AclAction::Reject(Rejection::Usual);
                AclDefault::Action(pick(random, &[AclAction::Permit, links.reflect(), AclAction::Deny, reject]))
            });
            Change::ReplaceRules(list, AclEdit::Replace { rules, default })
        }
        6 => {
            let mut rules: Vec<_> = there.iter().map(|row| row.rule.clone()).collect();
            for _ in 0..2 {
                let most = rules.len() as u64;
                if most > 1 {
                    rules.swap(random.below(most) as usize, random.below(most) as usize);
                }
            }
            Change::MoveRules(list, AclEdit::Replace { rules, default: None })
        }
        _ => {
            let changes = vec![
                AclChange::Insert(At::Index(0), vec![new(random)]),
                AclChange::Replace(some(random), vec![new(random)]),
            ];
            Change::BatchRules(list, AclEdit::Batch(changes))
        }
    }
}

pub fn regroup(random: &mut Random, links: &Links) -> Change {
    let group = match random.below(3) {
        0 => AclGroup::Addresses(Group { name: "hosts".into(), members: addresses(random, links) }),
        1 => AclGroup::Ports(Group { name: "web".into(), members: ports(random) }),
        _ => AclGroup::Interfaces(Group { name: "edge".into(), members: interfaces(random, links) }),
    };
    Change::ReplaceGroup(group.into())
}
