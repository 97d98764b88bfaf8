//! The neighbours that the host sets or resolves on punt devices which interfaces follow.

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;

use weir_packet::wire::MacAddress;
use weir_port::links::{self, Neighbor, NeighborMonitor};

/// Neighbours of a device that are looked at, at most. The kernel has 1,024 of a family by default.
const MOST: usize = 4096;

/// A neighbour that the host has resolved, with the name of the interface.
type Hint = (String, IpAddr, MacAddress);

/// The neighbours of the devices, as the host had them at the last look.
#[derive(Debug, Default)]
pub(in super::super) struct Neighbors {
    monitor: Option<NeighborMonitor>,
    /// The indices of the devices, by interface.
    devices: BTreeMap<String, u32>,
    /// They have to be listed.
    is_due: bool,
    /// Why they cannot be watched, which was said.
    failure: Option<String>,
    /// The static ones, by interface.
    fixed: BTreeMap<String, Vec<(IpAddr, MacAddress)>>,
    /// The others, at the last look.
    resolved: HashSet<Hint>,
}

impl Neighbors {
    /// Returns whether neighbours of these devices, by interface, have to be read. Does not block.
    pub(in super::super) fn look(&mut self, devices: BTreeMap<String, u32>) -> bool {
        if devices.is_empty() {
            *self = Neighbors::default();
            return false;
        }
        if self.monitor.is_none() {
            match NeighborMonitor::open() {
                Ok(monitor) => (self.monitor, self.failure, self.is_due) = (Some(monitor), None, true),
                Err(error) => self.say(format!("cannot watch neighbours of punt devices: {error}")),
            }
        }
        if self.devices != devices {
            (self.devices, self.is_due) = (devices, true);
        }
        let is_wanted = |index| self.devices.values().any(|&own| own == index);
        self.is_due |= self.monitor.as_mut().is_some_and(|monitor| monitor.has_changed(is_wanted));
        self.is_due
    }

    /// Reads them. Returns the ones that the host has resolved since.
    pub(in super::super) fn read(&mut self) -> Vec<Hint> {
        if !std::mem::take(&mut self.is_due) {
            return Vec::new();
        }
        let before = std::mem::take(&mut self.resolved);
        let mut hints = Vec::new();
        for (name, &index) in &self.devices {
            // Else the device is gone, or the next change tries again.
            let Ok(all) = links::neighbors(index) else { continue };
            self.fixed.insert(name.clone(), fixed(&all));
            for own in all.iter().filter(|own| !own.is_static).take(MOST) {
                let hint = (name.clone(), own.address, MacAddress(own.mac));
                if !before.contains(&hint) {
                    hints.push(hint.clone());
                }
                self.resolved.insert(hint);
            }
        }
        self.fixed.retain(|name, _| self.devices.contains_key(name));
        hints
    }

    /// Returns the static ones, by interface, in order.
    pub(in super::super) fn fixed(&self) -> &BTreeMap<String, Vec<(IpAddr, MacAddress)>> {
        &self.fixed
    }

    fn say(&mut self, failure: String) {
        if self.failure.as_ref() != Some(&failure) {
            tracing::warn!(kind = crate::events::Kind::Neighbor.name(), "{failure}");
            self.failure = Some(failure);
        }
    }
}

fn fixed(all: &[Neighbor]) -> Vec<(IpAddr, MacAddress)> {
    let fixed = all.iter().filter(|own| own.is_static).take(MOST);
    let mut fixed: Vec<_> = fixed.map(|own| (own.address, MacAddress(own.mac))).collect();
    fixed.sort_unstable();
    fixed
}
