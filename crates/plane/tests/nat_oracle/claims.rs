//! Claims about a whole vector, whose packets need not be translated in their order: proved when it is over.

use std::collections::BTreeMap;

use weir_plane::reason::Reason;

use crate::mapping::Endpoint;
use crate::packet::{ICMP, Tuple};
use crate::policy::{draws, has_parity, ports};
use crate::rules::Rule;
use crate::translator::{Counts, Key, Limited, Share, Translator};

/// A claim.
#[derive(Debug)]
pub enum Claim {
    /// No port was free. `zones` are the VRFs in which the replies may come in.
    Exhausted { fields: Tuple, to: (u32, u16), rule: Option<(Rule, usize)>, came: Key, zones: [usize; 2] },
    /// The address had as many translations as it may have.
    Limited(Limited, u32),
    /// The VRF, or the list of an outside interface, had as many translations as it may have.
    Full(Share, u32),
    /// The port changed, as another translation has this tuple.
    Changed(Key),
    /// One of these.
    Any(Vec<Claim>),
}

impl Claim {
    fn name(&self) -> &'static str {
        match self {
            Claim::Exhausted { .. } => "exhausted",
            Claim::Limited(..) => "limited",
            Claim::Full(..) => "limited together",
            Claim::Changed(_) => "port not kept",
            Claim::Any(claims) => claims.last().map_or("", Claim::name),
        }
    }
}

impl Translator {
    /// Ends a vector: proves the claims, and compares the counts of drops.
    pub fn finish(&mut self, drops: &BTreeMap<Reason, u64>, counts: &mut Counts) -> Result<(), String> {
        let (wanted, more) = (std::mem::take(&mut self.drops), std::mem::take(&mut self.may_drop));
        for (&reason, &count) in drops {
            let most = wanted.iter().filter(|(_, reasons)| reasons.contains(&reason)).count() as u64;
            let least = wanted.iter().filter(|(_, reasons)| reasons[..] == [reason]).count() as u64;
            if !(least..=most + more as u64).contains(&count) {
                return Err(format!(
                    "{count} packets were dropped for {reason:?} of {least} to {most}, {more} more may be: {wanted:x?}"
                ));
            }
        }
        for (name, reason) in
            [("beyond the limit of a list", Reason::NatListLimit), ("beyond the limit of a VRF", Reason::NatVrfLimit)]
        {
            if drops.get(&reason).is_some_and(|&count| count > 0) {
                counts.add(name);
            }
        }
        for vrf in 0..3 {
            let count = self.count_of(Share::Vrf(vrf));
            if self.layout.limits.vrf.is_some_and(|most| count > most as usize) {
                return Err(format!("VRF {vrf} has {count} translations"));
            }
        }
        let count: u64 = drops.values().sum();
        if !(wanted.len()..=wanted.len() + more).contains(&(count as usize)) {
            return Err(format!("{drops:?}, and these had to be dropped: {wanted:x?}"));
        }
        for claim in std::mem::take(&mut self.claims) {
            if !self.holds(&claim) {
                return Err(format!("not so: {claim:x?}"));
            }
            counts.add(claim.name());
        }
        self.moments.clear();
        self.halfway.clear();
        self.mappings.begin_vector();
        Ok(())
    }

    /// Whether a packet whose TTL was over may have had a translation to an endpoint for a moment.
    fn had_a_moment(&self, protocol: u8, to: (u32, u16)) -> bool {
        let is_whole = self.is_whole();
        self.moments.iter().any(|(fields, own)| {
            fields.protocol == protocol && (is_whole || (protocol == ICMP || own.1 == to.1) && own.0 == to.0)
        })
    }

    /// Whether an outside endpoint may have a mapping: also one of the same inside endpoint by another target.
    fn may_be_mapped(&self, outside: &Endpoint) -> bool {
        self.mappings.at(outside).is_some() || self.mappings.retaken.contains(outside)
    }

    fn holds(&self, claim: &Claim) -> bool {
        match claim {
            Claim::Any(claims) => claims.iter().any(|claim| self.holds(claim)),
            Claim::Changed(key @ (_, tuple)) => {
                self.may_be_taken(key)
                    || self.mappings.at(&Endpoint::destination(tuple)).is_some()
                    || self.had_a_moment(tuple.protocol, (tuple.source, tuple.sport))
            }
            Claim::Limited(limited, most) => {
                let live = self.limited.get(limited).copied().unwrap_or(0);
                let gone = self.gone_limited.iter().filter(|(one, _)| one == limited).count();
                let moments = self.moments.iter().filter(|(fields, _)| fields.source == limited.3).count();
                live + gone + moments >= *most as usize
            }
            Claim::Full(share, most) => {
                let gone = self.gone_shares.iter().filter(|(shares, _)| shares.contains(share)).count();
                // Others had a translation until their source was decided, or their TTL was over.
                self.count_of(*share) + gone + self.moments.len() + self.halfway.len() >= *most as usize
            }
            Claim::Exhausted { fields, to, .. } if self.had_a_moment(fields.protocol, *to) => true,
            Claim::Exhausted { fields, to, rule, came, zones } => {
                let mut given = Tuple { destination: to.0, dport: to.1, ..*fields };
                let is_free = |given: Tuple| {
                    let reply = given.turned();
                    zones.iter().all(|&zone| !self.may_be_taken(&(zone, reply)) && (zone, reply) != *came)
                };
                let Some((rule, edge)) = rule else { return !is_free(given) };
                // Sources are translated behind all destinations of a vector: two packets may have one tuple until then, and no more.
                if self.halfway.iter().filter(|&other| *other == given).count() > 2 {
                    return true;
                }
                let inside = Endpoint::source(fields);
                if self.maps(rule, *edge, fields) {
                    let known = rule.source.as_ref().and_then(|target| self.mappings.of(*edge, target, &inside));
                    // Unless it began when the port became free, after the packet.
                    if let Some((mapping, true)) =
                        known.filter(|(own, _)| !self.mappings.retaken.contains(&own.outside))
                    {
                        let Endpoint { address: source, port: sport, .. } = mapping.outside;
                        return !is_free(Tuple { source, sport, ..given });
                    }
                }
                let addresses = match self.pair(rule, *edge, came.0, fields.source) {
                    Some(pair) if draws(rule, fields) => vec![pair],
                    _ => self.addresses(rule, *edge, fields.source),
                };
                let with_parity = has_parity(rule, fields);
                let full = |address: u32| {
                    given.source = address;
                    let taken = self.keys.len() + self.gone.len() + self.mappings.len();
                    if ports(rule, fields).len() > 2 * taken + 2 {
                        return false;
                    }
                    let candidates = ports(rule, fields).filter(|port| !with_parity || port % 2 == fields.sport % 2);
                    let (mut all, mut free) = (0, 0);
                    for sport in candidates {
                        all += 1;
                        let given = Tuple { sport, ..given };
                        let is_mapped = draws(rule, fields) && self.may_be_mapped(&Endpoint::source(&given));
                        free += usize::from(!is_mapped && is_free(given));
                    }
                    // More than 512 are not all looked at.
                    free == 0 || all > 512 && free * 10 < all
                };
                addresses.into_iter().any(full)
            }
        }
    }
}
