//! Listings of sessions and translations, and their end by command. A running gateway and a harness differ only in the way to a
//! worker's sessions, which they pass in as `page`: the page of a worker from a place on; `None`: the worker is gone.

use super::control::Control;
use super::flows::{self, Compiled, First, FlowFilter, FlowOrder};
use super::made::ChangeKind;
use super::{report, translations};
use crate::compile::Map;
use crate::graph::session::Page;
use crate::model;
use crate::stats;

impl Control {
    /// Sessions that a filter, made of the model in force, matches: at most so many, in this order.
    ///
    /// # Errors
    /// As for `filter`.
    pub(super) fn flows_of<E>(
        &self,
        page: impl Fn(usize, u64) -> Option<Page>,
        filter: impl FnOnce(&model::Gateway) -> Result<FlowFilter, E>,
        order: FlowOrder,
        most: usize,
    ) -> Result<stats::Flows, E> {
        let (model, map) = self.in_force();
        let filter = Compiled::new(&filter(&model)?, &map);
        let (now, first) = (self.clock.now(), self.first(page, &filter, order, most));
        let (compiler, model, _) = self.look();
        let counted = report::sessions_counted(self.counters().map(|own| &own.sessions));
        let counted = (counted, self.fast_path());
        Ok(self.root.with(|root| first.rows((&model, &compiler, root), &model.flow_table, counted, now)))
    }

    /// Translations, at most so many, the oldest first.
    ///
    /// # Errors
    /// As for `filter`.
    pub(super) fn translations_of<E>(
        &self,
        page: impl Fn(usize, u64) -> Option<Page>,
        filter: impl FnOnce(&model::Gateway) -> Result<FlowFilter, E>,
        most: usize,
    ) -> Result<stats::Translations, E> {
        let (model, map) = self.in_force();
        let (now, first) = (self.clock.now(), self.gathered(page, &filter(&model)?, &map, most));
        Ok(self.root.with(|root| translations::rows(first, (&model, root), &model.flow_table, now)))
    }

    /// The outside addresses of rules that translate sources.
    pub(super) fn nat_pools_of(&self, page: impl Fn(usize, u64) -> Option<Page>) -> Vec<stats::NatPool> {
        let (model, map) = self.in_force();
        let first = self.gathered(page, &FlowFilter::default(), &map, usize::MAX);
        self.root.with(|root| translations::pools(first, (&model, root), &self.cleared()))
    }

    /// The inside addresses with the most translations, `most` of them.
    pub(super) fn nat_users_of(&self, page: impl Fn(usize, u64) -> Option<Page>, most: usize) -> Vec<stats::NatUser> {
        let (model, map) = self.in_force();
        let first = self.gathered(page, &FlowFilter::default(), &map, usize::MAX);
        self.root.with(|root| translations::users(first, (&model, root), most))
    }

    /// The VRFs that translate.
    pub(super) fn nat_vrfs_of(&self, page: impl Fn(usize, u64) -> Option<Page>) -> Vec<stats::NatVrf> {
        let (_, map) = self.in_force();
        let first = self.gathered(page, &FlowFilter::default(), &map, usize::MAX);
        self.root.with(|root| translations::vrfs(first, root, &self.cleared()))
    }

    /// Ends the sessions that a filter matches, and returns their number. `end` ends those of a worker from a place on, and returns
    /// their number and the next place; `None`: the worker is gone.
    ///
    /// # Errors
    /// As for `filter`.
    pub(super) fn end_flows_by<E>(
        &self,
        mut end: impl FnMut(usize, u64, &Compiled) -> Option<(usize, Option<u64>)>,
        filter: impl FnOnce(&model::Gateway) -> Result<FlowFilter, E>,
    ) -> Result<usize, E> {
        self.made.count(ChangeKind::ClearFlows);
        let (model, map) = self.in_force();
        let filter = Compiled::new(&filter(&model)?, &map);
        let mut count = 0;
        for worker in 0..self.counters().count() {
            let mut from = Some(0);
            while let Some((ended, next)) = from.and_then(|at| end(worker, at, &filter)) {
                count += ended;
                from = next;
            }
        }
        Ok(count)
    }

    /// The translations that a filter matches.
    fn gathered(
        &self,
        page: impl Fn(usize, u64) -> Option<Page>,
        filter: &FlowFilter,
        map: &Map,
        most: usize,
    ) -> First {
        let filter = Compiled::new(&FlowFilter { translations: true, ..filter.clone() }, map);
        self.first(page, &filter, FlowOrder::Age, most)
    }

    /// Collects the sessions of all workers that a filter matches: the first `most` in an order.
    fn first(
        &self,
        page: impl Fn(usize, u64) -> Option<Page>,
        filter: &Compiled,
        order: FlowOrder,
        most: usize,
    ) -> First {
        let (now, mut first) = (self.clock.now(), First::new(order, most));
        for worker in 0..self.counters().count() {
            let add = |_, session: _| {
                first.all += usize::from(filter.is_about(&session));
                if filter.matches(&session) {
                    first.add(worker, session, now);
                }
            };
            flows::each(|from| page(worker, from), add);
        }
        first
    }
}
