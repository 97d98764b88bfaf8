//! Tunnels become those of the root. What outlives a version (path MTUs, counters) goes on where the tunnel does.

use std::collections::HashMap;
use std::sync::Arc;

use weir_packet::tunnel::Outer;

use super::home::home;
use super::map::Map;
use crate::model::{Gateway, InterfaceKind};
use crate::root::path_mtu::PathMtu;
use crate::root::tunnel::{Key, Tunnel, TunnelCounters, TunnelTable, Tunnels};
use crate::root::{Interface, NONE};

/// The tunnels in force, and what outlives them.
#[derive(Default)]
pub(super) struct Store {
    /// By number of the interface.
    counters: HashMap<u32, Arc<[TunnelCounters]>>,
    paths: HashMap<u32, (Key, Arc<PathMtu>)>,
    current: Tunnels,
}

impl Store {
    /// The tunnels in force.
    pub(super) fn current(&self) -> &Tunnels {
        &self.current
    }

    /// Puts the tunnels of a model into force.
    pub(super) fn commit(&mut self, workers: usize, (gateway, map): (&Gateway, &Map), interfaces: &[Interface]) {
        let (counted, known) = (std::mem::take(&mut self.counters), std::mem::take(&mut self.paths));
        let mut list: Vec<Option<Arc<Tunnel>>> = Vec::new();
        for (interface, &number) in gateway.interfaces.iter().zip(&map.interfaces) {
            let InterfaceKind::Tunnel(wanted) = interface.kind else { continue };
            // The configuration refuses addresses of two families.
            let Some(outer) = Outer::new(wanted.local, wanted.remote, &wanted.shape()) else { continue };
            let vrf = map.vrfs[usize::from(wanted.vrf.0)];
            let counters = counted.get(&number).cloned();
            let counters = counters.unwrap_or_else(|| (0..workers).map(|_| TunnelCounters::default()).collect());
            let mut tunnel =
                Tunnel { outer, interface: number, vrf, wanted, home: NONE, path: Arc::default(), counters };
            if let Some((_, path)) = known.get(&number).filter(|(key, _)| *key == tunnel.key()) {
                tunnel.path = Arc::clone(path);
            }
            tunnel.home = home(interfaces, vrf, wanted.local);
            self.counters.insert(number, Arc::clone(&tunnel.counters));
            self.paths.insert(number, (tunnel.key(), Arc::clone(&tunnel.path)));
            if list.len() <= number as usize {
                list.resize(number as usize + 1, None);
            }
            list[number as usize] = Some(Arc::new(tunnel));
        }
        let tunnels = || list.iter().flatten();
        let entries: Vec<(Key, u32)> = tunnels().map(|tunnel| (tunnel.key(), tunnel.interface)).collect();
        let mut ports: Vec<_> =
            tunnels().filter(|own| own.wanted.port != 0).map(|own| (own.wanted.port, own.wanted.carrier)).collect();
        ports.sort_unstable();
        ports.dedup();
        let mut ends: Vec<_> =
            entries.iter().map(|(key, _)| (key.vrf, key.local, key.remote, key.carrier, key.port)).collect();
        ends.sort_unstable();
        ends.dedup();
        self.current = Tunnels {
            table: Arc::new(TunnelTable::new(&entries)),
            ports: ports.into(),
            ends: ends.into(),
            list: list.into(),
        };
    }
}
