//! Reads metric families from a gateway, object by object.

mod edge;
mod engine;
mod links;
mod policies;
mod state;
mod ways;

use super::family::Family;
use crate::config::Detail;
use crate::control::Gateway;

/// Reads all families. A family without samples stays in the list: the gateway has no object of its kind.
pub(super) fn read(gateway: &dyn Gateway, detail: Detail) -> Vec<Family> {
    let snapshot = gateway.snapshot();
    let mut families = engine::read(&gateway.version(), &snapshot);
    families.extend(links::read(&snapshot));
    families.extend(ways::read(gateway));
    families.extend(edge::read(gateway));
    families.extend(policies::read(gateway, &snapshot, detail));
    families.extend(state::read(gateway, detail));
    families
}
