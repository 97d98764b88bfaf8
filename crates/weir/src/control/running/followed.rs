//! Interfaces that follow their punt devices.

use std::collections::BTreeMap;
use std::sync::{MutexGuard, PoisonError};

use weir_plane::model::{Gateway, Interface};
use weir_plane::stats::NeighborRow;

use super::super::host::{Host, Neighbors, Sides};
use super::Running;
use crate::events;

impl Running {
    pub(super) fn host_so_far(&self) -> MutexGuard<'_, Host> {
        // It is replaced as a whole.
        self.host.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn neighbors_of_host(&self) -> MutexGuard<'_, Neighbors> {
        // After a panic, the next change lists them again.
        self.host_neighbors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the host has given punt devices something else since. To be called some times a second.
    pub(crate) fn has_news_of_host(&self) -> bool {
        let model = self.engine.model();
        let follows = |own: &Interface| own.follow.mtu || own.follow.addresses || own.follow.neighbors;
        if !model.interfaces.iter().any(follows) && self.host_so_far().is_empty() {
            // What it watched is of no use any more.
            self.neighbors_of_host().look(BTreeMap::new());
            return false;
        }
        let (sides, is_due) = self.sides(&model);
        is_due || self.host_so_far().is_behind(&model, sides)
    }

    /// Returns the host's side of the punt devices, and whether their neighbours have to be read.
    fn sides(&self, model: &Gateway) -> (Sides, bool) {
        let devices = self.engine.host_sides();
        let follows = |name: &str| model.interfaces.iter().any(|own| own.name == name && own.follow.neighbors);
        let watched = devices.iter().filter_map(|(name, side)| Some((name.clone(), side.as_ref()?.index)));
        let mut neighbors = self.neighbors_of_host();
        let is_due = neighbors.look(watched.filter(|(name, _)| follows(name)).collect());
        (Sides { devices, neighbors: neighbors.fixed().clone() }, is_due)
    }

    /// Has interfaces take over what the host gives their punt devices now. To be called on a thread that may wait.
    pub(crate) fn follow_host(&self) {
        let _changing = self.change_alone();
        if self.confirm_by().is_some() {
            // The gateway may go back to another model.
            return;
        }
        let _alone = self.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        let hints = self.neighbors_of_host().read();
        if !hints.is_empty() {
            self.engine.hint_neighbors(&hints);
        }
        let before = self.host_so_far().clone();
        let mut gateway = (*self.engine.model()).clone();
        let (next, refused) = before.next(&mut gateway, self.sides(&self.engine.model()).0);
        for line in refused {
            tracing::warn!(kind = events::Kind::Link.name(), "{line}");
        }
        let differences = before.differences(&next);
        if differences.is_empty() && before.neighbors() == next.neighbors() {
            *self.host_so_far() = next;
            return;
        }
        if let Err(refusal) = self.put_edited(gateway) {
            tracing::warn!(kind = events::Kind::Link.name(), "cannot follow the host: {}", refusal.for_log());
            // It is not tried again until the host changes something.
            self.host_so_far().note(next);
            return;
        }
        let (had, has) = (before.neighbors(), next.neighbors());
        let gone = had.difference(&has).map(|own| (own, "is gone"));
        for (&(interface, address, mac), what) in has.difference(&had).map(|own| (own, "is static")).chain(gone) {
            let (kind, text) = (events::Kind::Neighbor.name(), address.to_string());
            tracing::info!(
                kind,
                interface,
                address = text,
                "interface {interface}: from the host: neighbour {address} at {mac} {what}"
            );
        }
        *self.host_so_far() = next.clone();
        for (name, has) in differences {
            let (interface, has) = (name.as_str(), has.words());
            tracing::info!(kind = events::Kind::Link.name(), interface, "interface {name}: from the host: {has}");
        }
    }

    /// Names the host as the source of static neighbours that it gave.
    pub(super) fn name_host(&self, mut rows: Vec<NeighborRow>) -> Vec<NeighborRow> {
        let hosts = self.host_so_far().places();
        for row in &mut rows {
            if let Some(name) = hosts.get(&row.origin) {
                (row.source, row.origin) = ("host".into(), name.clone());
            }
        }
        rows
    }
}
