//! The upkeep of SAs, and the clearing of the counters of IPsec.

use super::control::Control;
use super::upkeep::Due;
use super::{policies, sas};
use crate::root::ipsec::Sequences;

impl Control {
    /// Returns the packets that SAs have to send now, and ends SAs whose lifetime is over.
    pub(super) fn due_of_sas(&self) -> Due {
        let now = self.clock.now();
        let mut upkeep = self.upkeep();
        self.root.with(|root| upkeep.step(now, &root.ipsec))
    }

    /// Counts of SAs begin with 0.
    pub(super) fn clear_sas(&self) {
        let ((model, map), now) = (self.in_force(), self.clock.now());
        let upkeep = self.upkeep();
        let mut cleared = self.cleared();
        self.root.with(|root| cleared.clear_sas(sas::counted(&model, &map, root, (&upkeep, now))));
    }

    /// Counts of SPDs and their caches begin with 0.
    pub(super) fn clear_spds(&self) {
        self.root.with(|root| policies::clear(root, &mut self.cleared()));
    }

    /// The sequence numbers of each outbound key that was ever in force, by the digest of the key.
    pub fn sequences(&self) -> Sequences {
        self.look().0.sequences()
    }
}
