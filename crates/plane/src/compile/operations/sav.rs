//! Source address validation: edits, stages, decisions and reports.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::compile::compiler::Compiler;
use crate::compile::map::Map;
use crate::compile::sav::{
    Decision, Edit, Edited, EntryKey, Facts, Means, Names, Occupancy, SavError, SavPlan, Stage, StageError, Store,
};
use crate::graph::record;
use crate::model::{Gateway, PerFamily, SavAction};
use crate::root::Root;
use crate::stats::SavEntryRow;

impl Compiler {
    /// Changes what a source says of the table of a policy, at a time in seconds of the Unix epoch: gives the version that
    /// follows. `gateway` is the model in force.
    ///
    /// # Errors
    /// If the policy has no table, a change cannot be made, or there is no room. Then nothing has changed.
    pub fn edit_sav(
        &mut self,
        gateway: &Gateway,
        policy: &str,
        source: &str,
        edits: &[Edit],
        time: u64,
    ) -> Result<(Edited, Root), SavError> {
        let (store, means) = self.means(gateway);
        let edited = store.edit(means, policy, source, edits, time)?;
        Ok((edited, self.root()))
    }

    /// Makes a source say these entries of the table of a policy and no others.
    ///
    /// # Errors
    /// As for [`Compiler::edit_sav`]; errors in an entry name its place.
    pub fn replace_sav(
        &mut self,
        gateway: &Gateway,
        policy: &str,
        source: &str,
        entries: &[(EntryKey, Names)],
        time: u64,
    ) -> Result<(Edited, Root), SavError> {
        let plan = self.plan_sav(gateway, policy, source, entries, time)?;
        let done = self.carry_out_sav(gateway, plan);
        drop(self.take_rubbish());
        done
    }

    /// The first part of [`Compiler::replace_sav`], which takes nearly all of its time where most of a table changes. The
    /// second has to follow before anything else changes.
    ///
    /// # Errors
    /// As there.
    pub fn plan_sav(
        &self,
        gateway: &Gateway,
        policy: &str,
        source: &str,
        entries: &[(EntryKey, Names)],
        time: u64,
    ) -> Result<SavPlan, SavError> {
        let Compiler { domain, settings, numbers, sav, .. } = self;
        let means = Means { domain, workers: settings.workers, gateway, numbers: &numbers.interfaces };
        sav.plan(means, policy, source, entries, time)
    }

    /// The second part.
    ///
    /// # Errors
    /// When there is no room. Then nothing has changed.
    pub fn carry_out_sav(&mut self, gateway: &Gateway, plan: SavPlan) -> Result<(Edited, Root), SavError> {
        let Compiler { domain, settings, numbers, sav, rubbish, .. } = self;
        let means = Means { domain, workers: settings.workers, gateway, numbers: &numbers.interfaces };
        let edited = sav.carry_out(means, plan, rubbish)?;
        Ok((edited, self.root()))
    }

    /// Has all prefixes of tables been hit by nothing.
    pub fn clear_sav(&mut self) {
        self.sav.clear_hits();
    }

    /// Has another action than the configured one in force for a policy from a time on, in seconds of the Unix epoch, or
    /// again the configured one: gives the version that follows. `gateway` is the model in force.
    ///
    /// # Errors
    /// When there is no such policy, or it does not say what the action needs.
    pub fn stage_sav(
        &mut self,
        gateway: &Gateway,
        policy: &str,
        action: Option<SavAction>,
        time: u64,
    ) -> Result<Root, StageError> {
        self.sav.stage(gateway, policy, action, time)?;
        Ok(self.root())
    }

    /// The action that is in force for a policy in the place of the configured one.
    pub fn sav_stage(&self, policy: &str) -> Option<Stage> {
        self.sav.stage_of(policy)
    }

    /// Policies whose stages ended with the last model, as they are gone or lack what the stage needs; once.
    pub fn ended_sav_stages(&mut self) -> Vec<String> {
        self.sav.ended_stages()
    }

    /// Octets of a policy's rules on which packets are not validated.
    pub fn sav_exempt_octets(&self, policy: &str) -> usize {
        self.sav.exempt_octets(policy)
    }

    /// Octets of the buckets by which a policy limits what is not valid.
    pub fn sav_meter_octets(&self, policy: &str) -> usize {
        self.sav.meter_octets(policy)
    }

    fn means<'a>(&'a mut self, gateway: &'a Gateway) -> (&'a mut Store, Means<'a>) {
        let Compiler { domain, settings, numbers, sav, .. } = self;
        (sav, Means { domain, workers: settings.workers, gateway, numbers: &numbers.interfaces })
    }

    /// Returns the decision about a source that entered by an interface (its number), for the result of a node.
    pub fn sav_decision(
        &self,
        (gateway, map, root): (&Gateway, &Map, &Root),
        policy: u16,
        interface: u32,
        source: IpAddr,
        said: record::Said,
    ) -> Option<Decision> {
        self.sav.decision(Facts { gateway, map, ribs: &self.ribs, root }, policy, interface, source, said)
    }

    /// How full the tables of a policy are, if it has any.
    pub fn sav_occupancy(&self, policy: &str) -> Option<PerFamily<Occupancy>> {
        self.sav.occupancy(policy)
    }

    /// Returns the number of entries by source of a policy's table, the octets of the table, and the octets of its hit
    /// counters.
    pub fn sav_sources(&self, policy: &str) -> (Vec<(String, usize)>, usize, usize) {
        self.sav.sources(policy)
    }

    /// Returns up to `most` entries of a policy whose prefix is `wanted`, and the number of all such entries. Entries
    /// of the configuration come first, in its order, then the others by prefix.
    pub fn sav_entries(
        &self,
        gateway: &Gateway,
        policy: &str,
        wanted: impl Fn(IpNet) -> bool,
        most: usize,
    ) -> (Vec<SavEntryRow>, usize) {
        self.sav.entries(gateway, policy, wanted, most)
    }
}
