//! Random classifier tables on some interfaces: by source, destination, protocol with port, and DSCP, in chains.

use std::net::IpAddr;

use weir_base::random::Random;
use weir_plane::model::{
    AclLimit, ClassifyAction, ClassifyIndex, ClassifySession, ClassifyStart, ClassifyTable, Gateway, InterfaceIndex,
    IpFamily, META_INTERFACE, META_NAME, META_VRF, NextHop, Origin, RateUnit, VrfIndex,
};

use crate::gateway::{Links, between, host, pick};

/// Adds tables, of which most models have none.
pub fn tables(random: &mut Random, links: &Links, model: &mut Gateway) {
    if random.chance(0.6) {
        return;
    }
    let count = between(random, 1, 4) as u16;
    for number in 0..count {
        let table = table(random, links, number);
        model.classify.push(table);
    }
    for interface in &mut model.interfaces {
        let mut first = || random.chance(0.3).then(|| ClassifyIndex(random.below(u64::from(count)) as u16));
        (interface.access.classify_in, interface.access.classify_out) = (first(), first());
    }
}

/// Creates a table whose next one has a lower number: there is no circle.
fn table(random: &mut Random, links: &Links, number: u16) -> ClassifyTable {
    let v6 = random.chance(0.4);
    let (at, length) = if v6 { (8, 16) } else { (12, 4) };
    let (start, family, mask): (_, _, Vec<u8>) = match random.below(5) {
        4 => {
            let mut mask = vec![0; META_VRF + META_NAME];
            match random.below(3) {
                0 => mask[..META_INTERFACE].fill(0xff),
                1 => mask[META_INTERFACE..META_VRF].fill(0xff),
                _ => mask[META_VRF..].fill(0xff),
            }
            mask.truncate(mask.iter().rposition(|&octet| octet > 0).map_or(0, |last| last + 1));
            (ClassifyStart::Meta, None, mask)
        }
        0 => (ClassifyStart::Transport, None, vec![0, 0, 0xff, 0xff]),
        1 => (ClassifyStart::Network, None, vec![0x0f, 0xf0]),
        side => {
            let at = at + length * (side as usize - 2);
            let mut mask = vec![0; at + length];
            mask[at..].fill(0xff);
            (ClassifyStart::Network, Some(if v6 { IpFamily::V6 } else { IpFamily::V4 }), mask)
        }
    };
    let mut sessions: Vec<ClassifySession> = Vec::new();
    let mut actions = Vec::new();
    for _ in 0..between(random, 1, 12) {
        let mut value = vec![0; mask.len()];
        match (start, family) {
            (ClassifyStart::Meta, _) => {
                let at =
                    [META_INTERFACE, META_VRF].into_iter().rfind(|&at| mask.get(at).is_some_and(|&octet| octet > 0));
                let names: &[&str] = match at {
                    None => &[],
                    Some(META_INTERFACE) => &["p0", "p1", "p2"],
                    Some(_) => &["default", "red"],
                };
                match names.len() as u64 {
                    0 => value[3] = random.below(5) as u8,
                    count => {
                        let (at, name) = (at.unwrap_or(0), names[random.below(count) as usize]);
                        value[at..at + name.len()].copy_from_slice(name.as_bytes());
                    }
                }
            }
            (ClassifyStart::Transport, _) => value[3] = pick(random, &[53, 80, 1, 2, 9]),
            (_, None) => value[1] = pick(random, &[0, 0xb0, 0x20]),
            _ => {
                let end = mask.len();
                let number = between(random, 1, 12) as u8;
                match host(random.below(links.count as u64) as usize, v6, number) {
                    IpAddr::V4(address) => value[end - 4..].copy_from_slice(&address.octets()),
                    IpAddr::V6(address) => value[end - 16..].copy_from_slice(&address.octets()),
                }
            }
        }
        value.iter_mut().zip(&mask).for_each(|(value, mask)| *value &= mask);
        let value: Box<[u8]> = value.into();
        if sessions.iter().any(|own| own.value == value) {
            continue;
        }
        actions.push(action(random, links));
        let action = (actions.len() - 1) as u32;
        sessions.push(ClassifySession { value, action, opaque: 0, origin: Origin::default() });
    }
    ClassifyTable {
        name: format!("t{number}"),
        start,
        family,
        mask: mask.into(),
        text: format!("mask {number}").into(),
        size: 16,
        next: (number > 0 && random.chance(0.5)).then(|| ClassifyIndex(random.below(u64::from(number)) as u16)),
        permits_misses: random.chance(0.9),
        sessions: sessions.into(),
        actions: actions.into(),
        origin: Origin::default(),
    }
}

fn action(random: &mut Random, links: &Links) -> ClassifyAction {
    let plain = ClassifyAction::of(true);
    match random.below(8) {
        0 => ClassifyAction::of(false),
        1 => {
            let limit = Some(AclLimit { unit: RateUnit::Packets, rate: between(random, 1, 1000), burst: 3 });
            ClassifyAction { limit, ..plain }
        }
        2 => ClassifyAction { vrf: Some(VrfIndex(random.below(2) as u16)), ..plain },
        3 => ClassifyAction { mark: Some(random.below(5) as u32), ..plain },
        4 | 5 => {
            let hop = |random: &mut Random| {
                let link = random.below(links.count as u64) as usize;
                let address = Some(host(link, random.chance(0.4), between(random, 1, 6) as u8));
                NextHop { interface: InterfaceIndex(link as u32), address, weight: 1 }
            };
            let via = (0..between(random, 1, 3)).map(|_| hop(random)).collect();
            ClassifyAction { via, ..plain }
        }
        _ => plain,
    }
}
