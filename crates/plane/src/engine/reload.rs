//! Reloads: another model comes into force while packets pass.

use std::sync::Arc;

use super::difference::difference;
use super::error::EngineError;
use super::links::{look_at, show_carriers};
use super::made::ChangeKind;
use super::operation::Operation;
use super::ports::{Opened, announcing, open_ports, tell_of_mtus};
use super::report::{self, Reloaded, count};
use super::running::{Engine, connect, receive};
use crate::compile::{GroupEdits, Map, Places, Prepared, regroup};
use crate::graph::worker::Command;
use crate::model;
use crate::neighbor::Link;
use crate::neighbor::control::{News, Work};
use crate::root::ipsec::Numbers;

/// The treatment of live edits that do not apply to a new model, and without which more packets might pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LostEdit {
    /// The model is refused.
    Refuse,
    /// They end, and are reported.
    Drop,
}

/// A model that can come into force.
struct Ready {
    /// Its ports.
    opened: Opened,
    prepared: Prepared,
    links: Vec<Link>,
    /// The routes of the model in force.
    routes: usize,
}

impl Engine {
    /// Puts a new model into force. Ports are opened and tables written first. Then everything changes at once: no packet
    /// sees a mixture. On any error the old model stays in force.
    ///
    /// # Errors
    /// As for [`Engine::start`], and when something changed that only a start can change.
    pub fn reload(&self, model: model::Gateway) -> Result<Reloaded, EngineError> {
        self.reload_after(model, LostEdit::Refuse, |_| ())
    }

    /// Reloads as [`Engine::reload`] does; `lost` is the treatment of edits that do not apply. Calls `before_force`
    /// with the sequence numbers of outbound SAs before the model comes into force. The numbers that it reserves serve
    /// the first packets of new SAs.
    ///
    /// # Errors
    /// As for [`Engine::reload`].
    pub fn reload_after(
        &self,
        mut model: model::Gateway,
        lost: LostEdit,
        before_force: impl FnOnce(Numbers),
    ) -> Result<Reloaded, EngineError> {
        let operation = self.control.operate(ChangeKind::Model);
        let groups = operation.read().groups_of(&model);
        regroup(&groups, &mut model);
        self.put(&operation, model, (lost, None), before_force)
    }

    /// Puts a model into force whose rules have the members that their groups have from then on. `edits` are other live edits of
    /// groups than those in force.
    pub(super) fn put(
        &self,
        operation: &Operation<'_>,
        mut model: model::Gateway,
        (lost, edits): (LostEdit, Option<&GroupEdits>),
        before_force: impl FnOnce(Numbers),
    ) -> Result<Reloaded, EngineError> {
        let control = &*self.control;
        let (before, _) = control.in_force();
        check(&before, &model)?;
        model.buffers = model::Buffers { large_is_default: model.buffers.large_is_default, ..before.buffers };
        let Ready { opened, prepared, links, routes } = self.prepare(operation, &before, &model, (lost, edits))?;
        // New ports can send before anything is routed to them. Old ports are closed after nothing is routed to them. New
        // ports receive once their interfaces are in force and workers have let go of the old ports: these may be of the
        // same device, and frames would come twice, and out of order.
        connect(&self.workers, &opened.new, &mut control.ports());
        self.workers.settle();
        if control.leave(&links) {
            self.workers.settle();
        }
        let mut report = difference(&before, &model);
        let mut work = Work::default();
        let mut places = opened.places.ports.clone();
        {
            let mut ports = control.ports();
            look_at(&model, &ports, &mut places);
            tell_of_mtus(&mut ports, &model, &places, &mut work);
        }
        let standing = Places { ports: places.clone(), punts: opened.places.punts.clone(), ..Places::default() };
        let model = Arc::new(model);
        let sequences = operation.write().announced_sequences(&model);
        before_force(Numbers { sequences, windows: Vec::new() });
        let mut compiler = operation.write();
        let nat = self.root.with(|root| root.nat.version);
        let untranslated = self.untranslated();
        let (root, map) = compiler.commit(&model, prepared, true);
        report.generation = root.model;
        report.routes = (count(&compiler), routes);
        report.lost = compiler.lost_acl_edits();
        let ended = compiler.ended_sav_stages().into_iter();
        work.news.extend(ended.map(|policy| News::StageEnded { policy }));
        let Opened { new, gone, places: compiled, .. } = opened;
        let map = control.take_over(&mut compiler, root, (Arc::clone(&model), map), (compiled, places), &mut work);
        drop(compiler);
        // The host changes its routes when it sees a carrier go or come.
        show_carriers(&model, &standing, &mut control.ports());
        self.replace_ports((&before, &model), &new, &gone);
        self.follow(operation, (&model, &map), links, work);
        report.bindings = control.state().keeper.learned.take_ended();
        if self.root.with(|root| root.nat.version) != nat {
            self.workers.iter().for_each(|worker| worker.recheck());
            // Packets and ageing have matched some of them before.
            report.translations = (self.untranslated() - untranslated) as usize;
        }
        Ok(report)
    }

    /// Counts the translations that the rules have ended since the start.
    fn untranslated(&self) -> u64 {
        self.control.counters().map(|own| report::untranslated(&own.sessions)).sum()
    }

    /// Opens the ports of a model and compiles it. Nothing that is in force changes.
    fn prepare(
        &self,
        operation: &Operation<'_>,
        before: &model::Gateway,
        model: &model::Gateway,
        (lost, edits): (LostEdit, Option<&GroupEdits>),
    ) -> Result<Ready, EngineError> {
        let control = &*self.control;
        let compiler = operation.read();
        let acls = compiler.stage_acls_with(model, edits)?;
        let refused = if lost == LostEdit::Refuse { acls.protecting() } else { Vec::new() };
        if !refused.is_empty() {
            compiler.abandon_acls(acls);
            return Err(EngineError::EditsLost(refused));
        }
        let mut opened = match open_ports(model, &before.interfaces, &self.pool, control.all_ports()) {
            Ok(opened) => opened,
            Err(error) => {
                compiler.abandon_acls(acls);
                return Err(error);
            }
        };
        let announcing = announcing(&control.ports(), &opened.places);
        match control.prepare(&compiler, acls, model, &mut opened.places, &announcing) {
            Ok((prepared, links)) => Ok(Ready { opened, prepared, links, routes: count(&compiler) }),
            Err(error) => {
                opened.undo(control.all_ports());
                Err(error.into())
            }
        }
    }

    /// Has workers apply limits, forget the ports that are gone, and receive from new ones.
    fn replace_ports(&self, (before, model): (&model::Gateway, &model::Gateway), new: &[u32], gone: &[u32]) {
        let control = &*self.control;
        self.workers.wake();
        for &number in gone {
            control.ports()[number as usize].iter_mut().for_each(|port| port.port.keep_open());
        }
        for worker in self.workers.iter() {
            // Limits that stay do not fill token buckets again.
            if (model.icmp, model.neighbor_discovery) != (before.icmp, before.neighbor_discovery) {
                worker.command(Command::Limit(model.icmp, model.neighbor_discovery));
            }
            worker.command(Command::Pace(model.workers.max_latency));
            for &number in gone {
                worker.command(Command::Forget(number));
            }
        }
        // Workers let go of a port before it counts as closed: then all of its output is written.
        self.workers.settle();
        receive(&self.workers, new, &mut control.ports());
        for &number in gone {
            let closed = control.ports()[number as usize].take();
            // The error of its last flush is known only now.
            let failure = closed.and_then(|port| port.failure());
            control.state().untold.extend(failure);
        }
    }

    /// Adopts the links of a model that is in force, and wakes the threads that use it.
    fn follow(&self, operation: &Operation<'_>, (model, map): (&model::Gateway, &Map), links: Vec<Link>, work: Work) {
        let control = &*self.control;
        control.adopt(&mut operation.write(), (model, map), links, work);
        // Devices may have changed since.
        let mut work = Work::default();
        control.look_at_links(&mut work);
        control.state().report(work.news);
        self.workers.wake();
        self.keeper.wake();
    }
}

/// Refuses changes that only a start can make.
pub(super) fn check(before: &model::Gateway, model: &model::Gateway) -> Result<(), EngineError> {
    let place = |workers: &model::Workers| (workers.count, workers.cores.clone());
    if place(&model.workers) != place(&before.workers) {
        return Err(EngineError::NeedsRestart { what: "the number or place of workers" });
    }
    let (now, then) = (model.buffers, before.buffers);
    if now.small != then.small || !now.large_is_default && now.large != then.large {
        return Err(EngineError::NeedsRestart { what: "the number of packet buffers" });
    }
    if model.limits != before.limits {
        return Err(EngineError::NeedsRestart { what: "the limits of tables" });
    }
    Ok(())
}
