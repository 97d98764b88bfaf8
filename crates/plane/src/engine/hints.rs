//! Neighbours that others have resolved.

use std::net::IpAddr;

use weir_packet::wire::MacAddress;

use super::control::Control;
use crate::neighbor::control::Work;

impl Control {
    /// Takes note of neighbours that the host has resolved, each with the name of its interface. One of which the neighbour table has
    /// a hardware address keeps it; the others are `stale`: the gateway confirms them at their first use.
    pub fn hint_neighbors(&self, hints: &[(String, IpAddr, MacAddress)]) {
        let now = self.clock.now();
        let mut work = Work::default();
        let mut state = self.state();
        for (name, address, mac) in hints {
            let at = state.model.interfaces.iter().position(|own| own.name == *name);
            let Some(&interface) = at.and_then(|at| state.map.interfaces.get(at)) else { continue };
            state.keeper.hint(interface, (*address, *mac), now, &mut work);
        }
        let published = self.carry_out(&mut state, None, work);
        drop(state);
        if published {
            self.wake();
        }
        // There are timers of these neighbours now.
        self.keeper.wake();
    }
}
