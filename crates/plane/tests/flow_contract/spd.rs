//! Random SPDs.

use weir_base::random::Random;
use weir_plane::model::{AclRule, Gateway, Origin, SaIndex, Spd, SpdAction, SpdCache, SpdIndex, SpdRule, Transport};

use crate::gateway::{Links, between, pick, rule};

/// Adds SPDs, of which most models have none.
pub fn policies(random: &mut Random, links: &Links, model: &mut Gateway) {
    if random.chance(0.75) {
        return;
    }
    for number in 0..2 {
        let mut rules: Vec<SpdRule> = (0..between(random, 1, 5)).map(|_| policy(random, links, model)).collect();
        if random.chance(0.8) {
            let all = AclRule::all(weir_plane::model::AclAction::Permit, Origin::default());
            let action = if random.chance(0.25) { SpdAction::Discard } else { SpdAction::Bypass };
            rules.push(SpdRule { action, matches: all, opaque: (false, false), ..rules[0].clone() });
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
}

fn policy(random: &mut Random, links: &Links, model: &Gateway) -> SpdRule {
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
        received_on: None,
        log: false,
        limit: None,
        flow: None,
        ..own
    };
    SpdRule {
        action: match random.below(10) {
            0 => SpdAction::Protect(SaIndex(0)),
            1 | 2 => SpdAction::Discard,
            _ => SpdAction::Bypass,
        },
        matches,
        names_family: false,
        opaque: (is_opaque, false),
        priority: pick(random, &[0, 0, 1, -1]),
        comment: None,
    }
}
