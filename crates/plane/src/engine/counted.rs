//! Reads and clears the counters of a running gateway.

use std::sync::Arc;

use weir_base::tsc;

use super::collect;
use super::made::ChangeKind;
use super::report::{self, Baseline, interfaces, other_tables, tables};
use super::running::Engine;
use crate::graph::counters::{SessionCounters, WorkerCounters};
use crate::neighbor::control::Work;
use crate::root::counters::Counter;
use crate::stats::{self, Snapshot};

/// The counters or entries to clear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clear {
    /// Node clocks and rates.
    Runtime,
    /// Drop reasons.
    Errors,
    /// Interface counters, those of source address validation included.
    Interfaces,
    /// Counters of source address validation: those of interfaces, sources, and hits of prefixes.
    Sav,
    /// Counters of the rules of access lists.
    Acl,
    /// Counters of allowlists.
    Allowlists,
    /// Counters of classifier tables.
    Classify,
    /// Counters of the rules of bindings.
    Bindings,
    /// The EtherTypes that interfaces refused.
    Ethertypes,
    /// Traces, and what was to be traced.
    Trace,
    /// Learned neighbours: they are resolved again when a packet needs them.
    Neighbors,
    /// Counters of SAs.
    Sa,
    /// Counters of tunnels.
    Tunnels,
    /// Counters of SPDs and of their caches.
    Spd,
    /// Counters of steer rules.
    Steer,
    /// Counters of NAT rules, and of limits on the translations of VRFs.
    NatRules,
    /// All of these but neighbours, whose loss traffic would feel.
    All,
}

impl Engine {
    /// One reading of every counter.
    pub fn snapshot(&self) -> Snapshot {
        self.control.collect();
        let now = self.read();
        let baseline = Arc::clone(&self.control.state().baseline);
        let elapsed = self.clock.now().0.saturating_sub(baseline.since) as f64 / 1e9;
        let Baseline { runtime, errors, interfaces, sav, .. } = &*baseline;
        collect::since(now, runtime, errors, interfaces, sav, elapsed)
    }

    /// Every counter from the start on.
    fn read(&self) -> Snapshot {
        let rows = self.tables();
        let (model, map, neighbors, learned) = {
            let state = self.control.state();
            let learned = report::learned(&state.model, &state.keeper.learned);
            (Arc::clone(&state.model), Arc::clone(&state.map), state.keeper.table.stats(), learned)
        };
        let occupancy = self.pool.occupancy();
        let waiting = |of: fn(&WorkerCounters) -> (&Counter, &Counter)| {
            self.counters().map(of).map(|(came, went)| came.value().saturating_sub(went.value())).sum()
        };
        let waiting = report::Waiting {
            packets: waiting(|counters| (&counters.queued, &counters.dequeued)),
            datagrams: waiting(|counters| (&counters.begun, &counters.ended)),
            fragments: waiting(|counters| (&counters.held_fragments, &counters.released)),
            remembered: self.counters().map(|own| own.remembered.value()).sum(),
            sources: self.counters().map(|own| own.spoofed.read().count()).sum(),
            sessions: self.sessions_in_use(),
            flows: self.fast_path(),
        };
        Snapshot {
            elapsed: 0.0,
            tick_frequency: tsc::frequency(),
            workers: self
                .workers
                .iter()
                .enumerate()
                .map(|(number, worker)| {
                    collect::worker(number, worker.core, worker.sender.is_asleep(), &worker.counters)
                })
                .collect(),
            drops: collect::drops(self.counters()),
            interfaces: {
                let ports = self.control.ports();
                self.root.with(|root| interfaces(&model, &map, &ports, root))
            },
            sav: self.root.with(|root| collect::sav(&model, &map, root)),
            conservation: self.conservation(),
            buffers: stats::BufferStats {
                small: occupancy.small,
                large: occupancy.large,
                huge_pages: occupancy.pages == weir_base::region::Pages::Huge,
            },
            neighbors: stats::NeighborStats {
                events_lost: self.counters().map(|own| own.events_lost.value()).sum(),
                ..neighbors
            },
            tables: {
                let others = other_tables(&model, neighbors.entries, &waiting, self.workers.len());
                rows.iter().cloned().chain(learned).chain(others).collect()
            },
        }
    }

    fn sessions_in_use(&self) -> report::SessionUse {
        let sum = |of: fn(&SessionCounters) -> &Counter| self.counters().map(|own| of(&own.sessions).value()).sum();
        report::SessionUse {
            wanted: self.root.with(|root| root.acl.reflecting.contains(&true)),
            used: sum(|of| &of.sessions),
            half_open: sum(|of| &of.half_open),
            octets: sum(|of| &of.octets),
        }
    }

    /// Returns the occupancy of the compiler's tables. During an operation it is that of the last listing.
    fn tables(&self) -> Arc<[stats::TableStats]> {
        if let Some(compiler) = self.control.try_compiler() {
            let (model, map) = self.control.in_force();
            let rows: Arc<[_]> = tables(&model, &map, &compiler).into();
            self.control.state().tables = Arc::clone(&rows);
            return rows;
        }
        Arc::clone(&self.control.state().tables)
    }

    /// Counts from 0 again. The totals of all packets are never cleared.
    pub fn clear(&self, what: Clear) {
        let mut now = self.read();
        // Interfaces that were removed may return, and their counters with them.
        self.root.with(|root| {
            now.interfaces.extend(root.interfaces.iter().filter(|interface| !interface.present).map(|interface| {
                let counted = collect::interface(&interface.counters, None, false);
                stats::InterfaceStats { name: interface.name.to_string(), ..counted }
            }));
            now.sav.extend(collect::sav_of_absent(root));
        });
        let all = what == Clear::All;
        let ethertypes = || self.root.with(collect::all_refused_ethertypes);
        let ethertypes = (all || what == Clear::Ethertypes).then(ethertypes);
        {
            let mut state = self.control.state();
            let baseline = Arc::make_mut(&mut state.baseline);
            if all || what == Clear::Runtime {
                baseline.runtime = now.clone();
                baseline.since = self.clock.now().0;
            }
            if all || what == Clear::Errors {
                baseline.errors = now.clone();
            }
            if all || matches!(what, Clear::Interfaces | Clear::Sav) {
                baseline.sav.clone_from(&now.sav);
            }
            if all || what == Clear::Interfaces {
                baseline.interfaces = now;
            }
            if let Some(ethertypes) = ethertypes {
                baseline.ethertypes = ethertypes;
            }
        }
        if all || matches!(what, Clear::Interfaces | Clear::Sav) {
            for own in self.counters() {
                own.spoofed.clear();
                own.unknown.clear();
            }
        }
        if all || matches!(what, Clear::Sav | Clear::Acl | Clear::Allowlists | Clear::Classify | Clear::Bindings) {
            let operation = self.control.operate(ChangeKind::ClearCounters);
            let mut compiler = operation.write();
            if all || what == Clear::Sav {
                compiler.clear_sav();
            }
            if all || what == Clear::Acl {
                compiler.clear_acl();
            }
            if all || what == Clear::Allowlists {
                compiler.clear_allowlists();
            }
            if all || what == Clear::Classify {
                compiler.clear_classify();
            }
            if all || what == Clear::Bindings {
                compiler.clear_bindings();
            }
        }
        if all || what == Clear::Sa {
            self.clear_sas(None);
        }
        if all || what == Clear::Tunnels {
            self.clear_tunnels(None);
        }
        if all || what == Clear::Spd {
            self.clear_spds();
        }
        if all || what == Clear::Steer {
            self.clear_steer();
        }
        if all || what == Clear::NatRules {
            self.clear_nat();
        }
        if all || what == Clear::Trace {
            self.tracer.clear();
        }
        if what == Clear::Neighbors {
            let mut work = Work::default();
            let mut state = self.control.state();
            state.keeper.clear(&mut work);
            self.control.carry_out(&mut state, None, work);
        }
    }
}
