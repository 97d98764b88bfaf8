//! The routes of a source for one prefix, in the order in which they precede.

use std::collections::HashSet;
use std::sync::Arc;

use weir_plane::compile::Target;

/// Routes of a prefix that are offered, at most.
pub(super) const MOST_OFFERED: usize = 8;
/// Chains that are kept.
const MOST_CHAINS: usize = 1 << 16;

/// Targets with further ones behind them. Prefixes with the same routes share them.
#[derive(Debug, Default)]
pub(super) struct Chains(HashSet<Arc<Target>>);

impl Chains {
    /// Returns the first of these targets, with the others behind it.
    pub(super) fn of(&mut self, targets: impl Iterator<Item = Arc<Target>>) -> Option<Arc<Target>> {
        let mut chain: Vec<Arc<Target>> = Vec::new();
        for target in targets {
            if chain.contains(&target) {
                continue;
            }
            // A route that discards needs no link.
            let is_last = !matches!(*target, Target::Via(..));
            chain.push(target);
            if is_last || chain.len() == MOST_OFFERED {
                break;
            }
        }
        let last = chain.pop()?;
        Some(chain.into_iter().rfold(last, |next, target| match &*target {
            Target::Via(hops, _) => self.shared(Target::Via(hops.clone(), Some(next))),
            Target::Blackhole | Target::Unreachable | Target::Prohibit => target,
        }))
    }

    /// Forgets all of them. Offers keep theirs.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    fn shared(&mut self, target: Target) -> Arc<Target> {
        if let Some(known) = self.0.get(&target) {
            return Arc::clone(known);
        }
        if self.0.len() >= MOST_CHAINS {
            self.clear();
        }
        let target = Arc::new(target);
        self.0.insert(Arc::clone(&target));
        target
    }
}
