//! Changes of edited models: lists that come and go, groups as declared again, and NAT rules that keep their Ids.

use std::sync::Arc;

use weir_base::random::Random;
use weir_plane::model::{AclList, Gateway, Origin};

use crate::change::{Change, regroup};
use crate::gateway::{Links, pick};
use crate::nat;
use crate::pair::Pair;

/// The names of lists that come and go.
const LIVE: [&str; 2] = ["live0", "live1"];

/// Returns a change.
pub fn edited(random: &mut Random, links: &Links, pair: &Pair) -> Change {
    let harness = &pair.off.harness;
    let model = harness.model();
    match random.below(13) {
        0..=2 => {
            let own = &model.acls[random.below(model.acls.len() as u64) as usize];
            let (rules, default, sample) = (own.rules.clone(), own.default, own.sample);
            let name = pick(random, &LIVE).to_owned();
            Change::CreateList(Box::new(AclList { name, rules, default, sample, origin: Origin(0) }))
        }
        3 => Change::DeleteList(pick(random, &LIVE).to_owned()),
        4 | 5 => Change::AttachLists(Box::new(attach(random, model.clone(), pair))),
        6 => Change::RestoreGroup(pick(random, &["hosts", "web", "edge"])),
        7 => regroup(random, links),
        8 | 9 if !model.nat.is_empty() => Change::EditNat(Box::new(rearrange(random, links, model.clone()))),
        10 if !model.bridges.is_empty() => {
            let bridge = random.below(model.bridges.len() as u64) as usize;
            Change::ClearMacs(model.bridges[bridge].name.clone())
        }
        11 => Change::ClearClassify,
        _ => Change::TendSas,
    }
}

/// Names lists at an interface, created ones among them.
fn attach(random: &mut Random, mut model: Gateway, pair: &Pair) -> Gateway {
    let all = pair.off.harness.acl_lists();
    let is_live = |name: &str| LIVE.contains(&name);
    let wanted = all.iter().filter(|list| random.chance(if is_live(&list.name) { 0.8 } else { 0.3 }));
    let names: Arc<[Arc<str>]> = wanted.map(|list| Arc::from(list.name.as_str())).collect();
    let interface = random.below(model.interfaces.len() as u64) as usize;
    model.interfaces[interface].access.live_lists[random.below(2) as usize] = Some(names);
    model
}

/// Inserts, deletes and moves rules of a NAT list. The others keep their Ids.
fn rearrange(random: &mut Random, links: &Links, mut model: Gateway) -> Gateway {
    let at = random.below(model.nat.len() as u64) as usize;
    let list = &mut model.nat[at];
    let mut rules: Vec<_> = (0..).map(|place| list.id(place)).zip(list.rules.iter().cloned()).collect();
    let next = rules.iter().map(|(id, _)| id + 1).max().unwrap_or(1);
    let place = random.below(rules.len() as u64 + 1) as usize;
    match random.below(3) {
        0 => rules.insert(place, (next, nat::rule(random, links))),
        1 if rules.len() > 1 => drop(rules.remove(place.min(rules.len() - 1))),
        _ => rules.rotate_left(place),
    }
    let (ids, rules): (Vec<u32>, Vec<_>) = rules.into_iter().unzip();
    (list.ids, list.rules) = (Some(ids.into()), rules.into());
    model
}
