//! The effects of a reload, found out before it.

use std::collections::{HashMap, HashSet};

use super::difference::difference;
use super::error::EngineError;
use super::reload::check;
use super::report::{Reloaded, count};
use super::running::Engine;
use crate::compile::{AclListBrief, LostEdits, Places, PortPlace};
use crate::model::{self, InterfaceKind};

/// The effects of a reload.
#[derive(Debug, Default)]
pub struct Preview {
    /// The setting that needs a restart, if there is one.
    pub restart: Option<String>,
    /// Interfaces that come, go and change, and how many routes there would be.
    pub difference: Reloaded,
    /// Interfaces whose ports are closed and opened again.
    pub reopened: Vec<String>,
    /// Live edits of access lists and groups that end.
    pub lost: Vec<LostEdits>,
}

impl Engine {
    /// Returns all access lists without a look at their rules, and whether a group has live edits.
    pub fn acl_briefs(&self) -> (Vec<AclListBrief>, bool) {
        self.control.look().0.acl_briefs()
    }

    /// Finds out what a reload of a model would do. Opens no port, and changes nothing.
    ///
    /// # Errors
    /// When a list of the model has no room.
    pub fn preview(&self, model: &model::Gateway) -> Result<Preview, EngineError> {
        let places = self.places(model);
        let (compiler, before, _) = self.control.look();
        let restart = check(&before, model).err().map(|error| error.to_string());
        let lost = compiler.ending_acl_edits(model)?;
        let mut difference = difference(&before, model);
        difference.routes = (compiler.count_routes(model, &places), count(&compiler));
        drop(compiler);
        let ports = |gateway: &model::Gateway| -> HashSet<String> {
            let is_port = |own: &&model::Interface| matches!(own.kind, InterfaceKind::Port { .. });
            gateway.interfaces.iter().filter(is_port).map(|own| own.name.clone()).collect()
        };
        let (old, new) = (ports(&before), ports(model));
        let named = |gateway: &model::Gateway, name: &str| {
            let found = gateway.interfaces.iter().find(|own| own.name == name);
            found.map(|own| (own.kind.clone(), own.mac))
        };
        let mut reopened: Vec<String> =
            old.intersection(&new).filter(|name| named(&before, name) != named(model, name)).cloned().collect();
        reopened.sort_unstable();
        Ok(Preview { restart, difference, reopened, lost })
    }

    /// Returns the places of a model's interfaces: those of the interfaces in force with the same names. A link that is not there yet
    /// counts as up.
    fn places(&self, model: &model::Gateway) -> Places {
        let state = self.control.state();
        let each = (0..).zip(&state.model.interfaces);
        let known: HashMap<&str, PortPlace> =
            each.filter_map(|(index, own)| Some((own.name.as_str(), *state.places.ports.get(&index)?))).collect();
        let each = (0..).zip(&model.interfaces);
        let ports = each.filter_map(|(index, own)| Some((index, *known.get(own.name.as_str())?))).collect();
        Places { ports, ..state.places.clone() }
    }
}
