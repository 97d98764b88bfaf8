//! Rules that protect the same packets.

use std::collections::HashMap;

use super::identity::selectors;
use crate::model::{Spd, SpdAction, SpdRule};

/// For each rule that protects, by place, the rules that protect the same packets.
pub(super) struct Alike {
    /// The other ones with other SAs, each with its number.
    pub(super) others: Vec<Vec<(u32, u32)>>,
    /// The numbers of the rules with which it shares its flows, itself among them, in the order in which they are matched; none if there
    /// is no other.
    pub(super) shares: Vec<Vec<u32>>,
}

impl Alike {
    /// `sas` and `numbers`: those of each rule, by place.
    pub(super) fn of(model: &Spd, sas: &[u32], numbers: &[u32]) -> Alike {
        let rules = &model.rules;
        let mut groups: HashMap<SpdRule, Vec<usize>> = HashMap::new();
        for place in model.order() {
            let place = place as usize;
            if matches!(rules[place].action, SpdAction::Protect(_)) {
                groups.entry(selectors(&rules[place])).or_default().push(place);
            }
        }
        let mut alike = Alike { others: vec![Vec::new(); rules.len()], shares: vec![Vec::new(); rules.len()] };
        for places in groups.into_values().filter(|places| places.len() > 1) {
            let shared: Vec<usize> = places.iter().copied().filter(|&place| rules[place].shared).collect();
            for &place in &places {
                let others = places.iter().filter(|&&other| sas[other] != sas[place]);
                alike.others[place] = others.map(|&other| (sas[other], numbers[other])).collect();
            }
            for &place in shared.iter().filter(|_| shared.len() > 1) {
                alike.shares[place] = shared.iter().map(|&place| numbers[place]).collect();
            }
        }
        alike
    }
}
