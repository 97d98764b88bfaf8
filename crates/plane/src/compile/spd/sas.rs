//! The pairs of SAs of the rules of an SPD.

use crate::compile::map::Map;
use crate::model::{SaIndex, Spd, SpdAction};

/// No pair of SAs.
pub(super) const NO_SA: u32 = u32::MAX;

/// The numbers of pairs of SAs, by place of the rule; [`NO_SA`] without one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sas {
    pub(super) own: Vec<u32>,
    /// Of a rule of a rekey: that of the pair that its pair takes the place of. Else its own.
    pub(super) bases: Vec<u32>,
}

impl Sas {
    pub(super) fn of(model: &Spd, map: &Map) -> Sas {
        let number = |sa: SaIndex| map.sas.get(sa.0 as usize).copied().unwrap_or(NO_SA);
        let both = model.rules.iter().map(|rule| match rule.action {
            SpdAction::Protect(sa) => (number(sa), number(rule.rekeys.unwrap_or(sa))),
            SpdAction::Bypass | SpdAction::Discard => (NO_SA, NO_SA),
        });
        let (own, bases) = both.unzip();
        Sas { own, bases }
    }
}
