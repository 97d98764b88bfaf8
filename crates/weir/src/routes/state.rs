//! The states of all sources of routes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ipnet::IpNet;
use weir_plane::rib::By;

use super::desk::Desk;
use super::question::Own;
use crate::render::routes::Source;

/// The states of all sources, which their threads update.
#[derive(Clone, Default)]
pub(crate) struct Sources {
    states: Arc<Mutex<Vec<Source>>>,
    /// The threads that answer questions, by the name of their source.
    desks: Arc<Mutex<BTreeMap<&'static str, Desk>>>,
}

impl Sources {
    pub(super) fn lock(&self) -> MutexGuard<'_, Vec<Source>> {
        // Each state is whole at all times.
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn desks(&self) -> MutexGuard<'_, BTreeMap<&'static str, Desk>> {
        self.desks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a thread answer questions about the routes of a source from now on; `None`: nobody answers.
    pub(super) fn connect(&self, by: By, desk: Option<Desk>) {
        match desk {
            Some(desk) => drop(self.desks().insert(by.name(), desk)),
            None => drop(self.desks().remove(by.name())),
        }
    }

    /// Returns the routes of a source for each of these prefixes of VRFs; `None`: it has no time to answer, or is gone.
    pub(crate) fn own(&self, source: &str, prefixes: Vec<(String, IpNet)>) -> Option<Vec<Vec<Own>>> {
        let desk = self.desks().get(source).cloned();
        desk?.ask(prefixes)
    }

    /// Returns the states.
    pub(crate) fn read(&self) -> Vec<Source> {
        self.lock().clone()
    }
}
