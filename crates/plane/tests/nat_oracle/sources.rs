//! Sources that rules give: addresses, ports and mappings, as they left, have to be allowed.

use weir_plane::model::NatVerb;

use crate::claims::Claim;
use crate::mapping::{Endpoint, Mapping};
use crate::mutant::Mutant;
use crate::packet::{ICMP, SCTP, Tuple, has_ports};
use crate::policy::{draws, has_parity, ports};
use crate::rules::Rule;
use crate::translator::{Counts, Translator};

impl Translator {
    /// The source has to be one that a rule gives.
    pub fn check_source(
        &mut self,
        rule: &Rule,
        edge: usize,
        pair: Option<u32>,
        (vrf, fields): (usize, &Tuple),
        (zone, given): (usize, &Tuple),
        counts: &mut Counts,
    ) -> Result<(), String> {
        let (protocol, address) = (fields.protocol, given.source);
        let allowed = self.addresses(rule, edge, fields.source);
        if !allowed.contains(&address) {
            return Err(format!("source {address:#x} of {allowed:x?} by {rule:?}"));
        }
        // SCTP keeps its ports: another address may have them free.
        let with_ports = has_ports(protocol) && protocol != SCTP || protocol == ICMP;
        let known = rule.source.as_ref().and_then(|target| self.mappings.of(edge, target, &Endpoint::source(fields)));
        let is_known =
            self.maps(rule, edge, fields) && known.is_some_and(|(known, _)| known.outside == Endpoint::source(given));
        // A mapping that there is has the address and the port that its first rule gave.
        if is_known {
            return Ok(());
        }
        if let Some(pair) = pair.filter(|&pair| pair != address) {
            let other = Tuple { source: pair, ..*given }.turned();
            if with_ports {
                return Err(format!("source {address:#x}, and the inside address has {pair:#x}"));
            }
            // A rule about both draws while the route is not known: the tuple has to be free in the VRF of the packet, too.
            let zones = if rule.verb == NatVerb::Both { vec![zone, vrf] } else { vec![zone] };
            if !zones.iter().any(|&zone| (zone, other) == (vrf, *fields)) {
                self.claims.push(Claim::Any(zones.into_iter().map(|zone| Claim::Changed((zone, other))).collect()));
            }
            counts.add("other address without ports");
        }
        if with_ports {
            if rule.verb != NatVerb::Map {
                self.paired.insert((allowed, edge, vrf, fields.source), address);
            }
            self.check_port(fields, given, zone, rule)?;
        }
        Ok(())
    }

    /// The port that was drawn has to be one that the rule gives, even or odd and kept if so wanted.
    fn check_port(&mut self, fields: &Tuple, given: &Tuple, zone: usize, rule: &Rule) -> Result<(), String> {
        let ports = ports(rule, fields);
        if !ports.contains(&given.sport) {
            return Err(format!("port {} is not one of {ports:?} by {rule:?}", given.sport));
        }
        if has_parity(rule, fields) && fields.sport % 2 != given.sport % 2 {
            return Err(format!("port {} became {} by {rule:?}", fields.sport, given.sport));
        }
        let outside = Endpoint::source(given);
        // A rule about both draws before the mappings of its vector begin.
        let is_before = rule.verb == NatVerb::Both && self.mappings.begun.contains(&outside);
        let other = self.mappings.at(&outside).filter(|(_, is_sure)| *is_sure && draws(rule, fields) && !is_before);
        if let Some((other, _)) = other {
            return Err(format!("{outside:x?} has the mapping {other:x?}"));
        }
        let kept = Tuple { sport: fields.sport, ..*given };
        if rule.preserve && ports.contains(&fields.sport) && kept != *given {
            let key = (zone, kept.turned());
            if !self.may_be_taken(&key) && self.mappings.at(&Endpoint::source(&kept)).is_none() {
                self.claims.push(Claim::Changed(key));
            }
        }
        Ok(())
    }

    /// An inside endpoint has one outside endpoint by a target, and no other inside endpoint has that.
    pub fn check_mapping(
        &self,
        rule: &Rule,
        edge: usize,
        fields: &Tuple,
        given: &Tuple,
        counts: &mut Counts,
    ) -> Result<Mapping, String> {
        let target = rule.source.clone().expect("the rule gives sources");
        let (inside, outside) = (Endpoint::source(fields), Endpoint::source(given));
        match self.mappings.of(edge, &target, &inside) {
            Some((known, true)) if (known.outside == outside) == self.is(Mutant::MapsByDestination) => {
                let others = self.live.iter().map(|&number| self.session(number));
                let others = others.filter(|other| other.mappings.contains(known)).map(|other| other.came);
                return Err(format!("{outside:x?}, and there is {known:x?} of {:x?}", others.collect::<Vec<_>>()));
            }
            Some((_, true)) => counts.add("more destinations of a mapping"),
            _ => {}
        }
        Ok(Mapping { edge, target, inside, outside })
    }
}
