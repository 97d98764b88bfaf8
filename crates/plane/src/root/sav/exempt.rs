//! Rules that say which packets are not validated, as they are looked up.

use weir_packet::vector::VECTOR;
use weir_table::classify::{self, Fields, NO_RULE, Small};

/// The rules of a policy, as far as they are about one family.
#[derive(Clone)]
pub struct Exempt<K>(Small<K>);

impl<K: classify::Address> Exempt<K> {
    /// Rules in their order, each with its place in the policy's list and whether it exempts.
    ///
    /// # Errors
    /// When there are more than [`classify::MOST_RULES`].
    pub fn new<'r>(
        rules: impl IntoIterator<Item = (&'r classify::Rule<K>, u32, bool)>,
    ) -> Result<Exempt<K>, classify::Error>
    where
        K: 'r,
    {
        // The identity holds both the rule and its verdict, so that the first matching rule decides alone.
        let rules = rules.into_iter().map(|(rule, place, permit)| (rule, place << 1 | u32::from(permit)));
        Ok(Exempt(Small::build(rules)?))
    }

    /// Calls `exempt` with the place of each packet that is, and that of the rule that says so. There are [`VECTOR`] packets
    /// at most.
    #[inline]
    pub(crate) fn each(&self, packets: &[Fields<K>], mut exempt: impl FnMut(usize, u32)) {
        let mut found = [NO_RULE; VECTOR];
        let found = &mut found[..packets.len()];
        self.0.lookup_each(packets, found);
        for (at, &rule) in found.iter().enumerate() {
            if rule != NO_RULE && rule & 1 != 0 {
                exempt(at, rule >> 1);
            }
        }
    }

    /// Octets of memory.
    pub fn octets(&self) -> usize {
        self.0.octets()
    }
}
