//! A worker's caches of policies by flow: one for each SPD, direction and family that has one.

use std::sync::Arc;

use weir_base::random::SecureRandom;
use weir_table::flow::Secret;
use weir_table::recent::Recent;

use crate::root::Root;
use crate::root::family::{Both, BothMut, Family};
use crate::root::spd::{Cached, Spd};

/// A cache, with what the root knows of it.
pub(crate) struct Own<K: Family> {
    cached: Arc<Cached<K>>,
    pub(crate) table: Recent<K::FlowKey>,
}

/// The caches of a family, by SPD and direction.
#[derive(Default)]
pub(crate) struct OfFamily<K: Family>(Vec<[Option<Own<K>>; 2]>);

/// The caches of a worker.
pub(crate) struct PolicyCaches {
    /// The version of the SPDs that the caches belong to.
    version: u64,
    random: SecureRandom,
    v4: OfFamily<u32>,
    v6: OfFamily<u128>,
}

impl Both for PolicyCaches {
    type Part<K: Family> = OfFamily<K>;

    fn v4(&self) -> &OfFamily<u32> {
        &self.v4
    }

    fn v6(&self) -> &OfFamily<u128> {
        &self.v6
    }
}

impl BothMut for PolicyCaches {
    fn v4_mut(&mut self) -> &mut OfFamily<u32> {
        &mut self.v4
    }

    fn v6_mut(&mut self) -> &mut OfFamily<u128> {
        &mut self.v6
    }
}

impl PolicyCaches {
    /// Without caches; `random` gives the secrets of their hashes.
    pub(crate) fn new(random: SecureRandom) -> PolicyCaches {
        PolicyCaches { version: 0, random, v4: OfFamily(Vec::new()), v6: OfFamily(Vec::new()) }
    }

    /// Takes the caches of a root whose SPDs are others than before. A cache that stays keeps its entries.
    #[inline]
    pub(crate) fn adopt(&mut self, root: &Root, worker: usize) {
        if root.spd.version != self.version {
            self.adopt_all(root, worker);
        }
    }

    #[cold]
    fn adopt_all(&mut self, root: &Root, worker: usize) {
        self.version = root.spd.version;
        self.v4.adopt(&root.spd.list, worker, &mut self.random);
        self.v6.adopt(&root.spd.list, worker, &mut self.random);
    }
}

impl<K: Family> OfFamily<K> {
    fn adopt(&mut self, spds: &[Arc<Spd>], worker: usize, random: &mut SecureRandom) {
        let mut before: Vec<Own<K>> = std::mem::take(&mut self.0).into_iter().flatten().flatten().collect();
        let mut of = |cached: &Option<Arc<Cached<K>>>| {
            let cached = cached.as_ref()?;
            if let Some(at) = before.iter().position(|own| own.cached.id == cached.id) {
                return Some(before.swap_remove(at));
            }
            let secret = Secret::new(std::array::from_fn(|_| random.next()));
            Some(Own { cached: cached.clone(), table: Recent::new(cached.take(worker)?, secret) })
        };
        self.0 = spds.iter().map(|spd| [of(&K::of(&**spd).cached[0]), of(&K::of(&**spd).cached[1])]).collect();
        for Own { cached, table } in before {
            cached.give_back(worker, table.into_entries());
        }
    }

    /// The cache of an SPD and direction.
    #[inline(always)]
    pub(crate) fn of(&mut self, spd: usize, output: bool) -> Option<&mut Own<K>> {
        self.0.get_mut(spd)?[usize::from(output)].as_mut()
    }
}
