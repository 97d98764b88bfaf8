//! Random SPDs, and SAs whose packets of ESP come back.

use weir_base::random::Random;
use weir_plane::model::{
    AclRule, Gateway, InterfaceIndex, Origin, Sa, SaIndex, Spd, SpdAction, SpdCache, SpdIndex, SpdRule, Transport,
};

use crate::gateway::{Links, between, host, pick, rule};
use crate::kit::{esp, l3, mend};

/// Adds SPDs, of which most models have none.
pub fn policies(random: &mut Random, links: &Links, model: &mut Gateway) {
    if random.chance(0.7) {
        return;
    }
    for number in 0..2 {
        let mut rules: Vec<SpdRule> = (0..between(random, 1, 5)).map(|_| policy(random, links, model)).collect();
        if random.chance(0.8) {
            let all = AclRule::all(weir_plane::model::AclAction::Permit, Origin::default());
            let action = match random.below(20) {
                0..=4 => SpdAction::Discard,
                5..=12 => SpdAction::Bypass,
                _ => SpdAction::Protect(SaIndex(random.below(2) as u32)),
            };
            rules.push(SpdRule { action, matches: all, opaque: (false, false), shared: false, ..rules[0].clone() });
        }
        let cache = SpdCache {
            outbound: random.chance(0.3),
            inbound: random.chance(0.3),
            flows: pick(random, &[1, 100, 10_000]),
        };
        model.spds.push(Spd { name: format!("p{number}"), rules: rules.into(), cache, origin: Origin::default() });
    }
    for interface in &mut model.interfaces {
        interface.spd = random.chance(0.3).then(|| SpdIndex(random.below(2) as u16));
    }
    for spd in &mut model.spds {
        share(random, spd);
    }
}

/// Has both pairs share the flows of a rule, in some SPDs.
fn share(random: &mut Random, spd: &mut Spd) {
    let mut rules = spd.rules.to_vec();
    let protects = rules.iter_mut().enumerate().find_map(|(at, rule)| match rule.action {
        SpdAction::Protect(SaIndex(sa)) => Some((at, sa, rule)),
        _ => None,
    });
    let Some((at, sa, rule)) = protects.filter(|_| random.chance(0.3)) else { return };
    rule.shared = true;
    let other = SpdRule { action: SpdAction::Protect(SaIndex(1 - sa)), ..rule.clone() };
    rules.insert(at + usize::from(random.chance(0.5)), other);
    spd.rules = rules.into();
}

pub fn policy(random: &mut Random, links: &Links, model: &Gateway) -> SpdRule {
    let own = rule(random, links, &model.groups);
    let transport = match own.transport {
        Transport::Ports { protocol, source, destination, .. } => {
            Transport::Ports { protocol, source, destination, flags: None }
        }
        other => other,
    };
    let is_opaque = matches!(transport, Transport::Any | Transport::Protocol(_)) && random.chance(0.1);
    let matches = AclRule {
        transport,
        fragment: None,
        dscp: None,
        mark: None,
        received_on: None,
        log: false,
        limit: None,
        flow: None,
        ..own
    };
    SpdRule {
        action: match random.below(10) {
            0..=2 => SpdAction::Protect(SaIndex(random.below(2) as u32)),
            3 => SpdAction::Discard,
            _ => SpdAction::Bypass,
        },
        matches,
        names_family: false,
        opaque: (is_opaque, false),
        shared: false,
        rekeys: None,
        priority: pick(random, &[0, 0, 1, -1]),
        comment: None,
    }
}

/// The SPIs of the pairs.
const SPIS: [u32; 2] = [0x1001, 0x1002];

/// Adds two pairs of SAs, if there are SPDs. Both SAs of a pair have one SPI and one key, so that packets of ESP that leave are
/// packets of ESP that may come in, once their addresses are exchanged.
pub fn sas(random: &mut Random, links: &Links, model: &mut Gateway) {
    if model.spds.is_empty() {
        return;
    }
    let algorithm = pick(random, &["aes128gcm16", "aes256gcm16", "null-sha256"]);
    for (number, spi) in (0..).zip(SPIS) {
        let v6 = number == 1 && random.chance(0.5);
        let [local, remote] = [host(0, v6, 1), host(1, v6, 2)].map(|own| own.to_string());
        let own = esp::sa(algorithm, &local, &remote);
        let mut key = own.outbound;
        key.iter_mut().for_each(|key| key.spi = spi);
        // One that is missing.
        let outbound = key.clone().filter(|_| random.chance(0.95));
        let interface = random.chance(0.3).then(|| InterfaceIndex(random.below(links.count as u64) as u32));
        let window = pick(random, &[64, 1024]);
        model.sas.push(Sa {
            name: format!("s{number}"),
            outbound,
            inbound: key,
            interface,
            window,
            ..esp::sa(algorithm, &local, &remote)
        });
    }
}

/// The packet of ESP around another packet, as the peer would send it; `None` for any other frame. `to` is the hardware address
/// of the gateway.
pub fn reflected(frame: &[u8], to: [u8; 6]) -> Option<Vec<u8>> {
    let at = l3(frame);
    let mut frame = [&to[..], &[2, 0, 0, 0, 0, 0x16], &frame[at - 2..]].concat();
    let (header, length, addresses) = match frame[14] >> 4 {
        4 if frame[14 + 9] == 50 && frame[14] == 0x45 && frame[14 + 6] & 0x3f == 0 && frame[14 + 7] == 0 => (20, 4, 12),
        6 if frame[14 + 6] == 50 => (40, 16, 8),
        _ => return None,
    };
    let spi = frame.get(14 + header..14 + header + 4)?;
    if !SPIS.iter().any(|own| own.to_be_bytes() == spi) {
        return None;
    }
    let (source, destination) = frame[14 + addresses..14 + addresses + 2 * length].split_at_mut(length);
    source.swap_with_slice(destination);
    frame[14 + if header == 20 { 8 } else { 7 }] = 64;
    if header == 20 {
        mend(&mut frame);
    }
    Some(frame)
}
