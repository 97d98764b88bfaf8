//! Holds the declared objects against each other and makes the gateway of them.

mod access;
mod addresses;
mod bridges;
mod devices;
mod files;
mod idle;
mod interfaces;
mod ipsec;
mod known;
pub(super) mod live;
mod memory;
mod neighbors;
mod past_spd;
mod protection;
mod resolver;
mod routes;
mod sampler;
mod sav;
mod tunnels;
mod unusable_sas;

/// Checks of NAT rules beside a model in force.
pub(super) mod nat {
    pub(crate) use super::access::nat_inwards::{At, Twice, another_map, mapped_twice};
    pub(crate) use super::access::nat_live::{Misplaced, misplaced};
    pub(crate) use super::access::nat_spd::{Taken, before_spd};
}

use std::collections::HashMap;

use weir_packet::buffer::SMALL_FRAME;
use weir_plane::model::{Buffers, Gateway, Ipsec, Origin, Origins, Vrf, VrfIndex, Workers};

use super::declare::{self, Declared, Interface, Kind};
use super::diagnostic::{Code, Diagnostic, Severity};
use super::source::{At, Files, Sources, Span};
use known::{Access, Connected, Policies, Samplers};
use resolver::Resolver;
pub(super) use sav::exempt;
pub(super) use tunnels::fit as fit_tunnels;

/// The name of the VRF that is always there.
const DEFAULT_VRF: &str = "default";

/// Packets of a vector.
const VECTOR: u32 = 256;

/// Octets of an Ethernet header with two tags.
const LINK: usize = 22;

/// Large buffers where frames do not fit small ones, unless the file says how many: each segment of a super-packet takes one then.
const LARGE_OF_LONG_FRAMES: u32 = 512;

/// Makes the gateway; what it is worth if there were errors, the caller knows.
pub(super) fn resolve(
    declared: &Declared,
    sources: &Sources,
    files: &dyn Files,
    thorough: bool,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Gateway> {
    let mut origins = Origins::default();
    let origin_sources =
        sources.iter().map(|source| origins.add_source(source.name.clone(), source.text.clone())).collect();
    let mut resolver = Resolver {
        declared,
        sources,
        diagnostics,
        vrfs: HashMap::new(),
        interfaces: HashMap::new(),
        vrf_of: Vec::new(),
        index_of: Vec::new(),
        connected: Connected::default(),
        policies: Policies::default(),
        samplers: Samplers::default(),
        access: Access::default(),
        sas: HashMap::new(),
        bridges: HashMap::new(),
        origins,
        origin_sources,
        thorough,
        is_beside: false,
    };
    let vrfs = resolver.vrfs();
    resolver.policies();
    resolver.access_names();
    resolver.bridge_names();
    let samplers = resolver.samplers();
    let mut interfaces = resolver.interfaces();
    resolver.fast_interfaces();
    resolver.addresses();
    let routes = resolver.routes();
    let neighbors = resolver.neighbors(&routes);
    let groups = resolver.groups();
    let nat = resolver.nat_lists();
    let sas = resolver.sas();
    let spds = resolver.spds(&sas);
    let steer = resolver.steer();
    let fitted = resolver.tunnels(interfaces.as_deref_mut().unwrap_or_default(), &routes, &spds, &sas);
    resolver.nat_inwards(&nat, interfaces.as_deref().unwrap_or_default());
    resolver.nat_targets(&nat, &routes, interfaces.as_deref().unwrap_or_default());
    resolver.needless_nat_limits(&vrfs, &nat, &routes, interfaces.as_deref().unwrap_or_default());
    resolver.needless_list_limits(&nat);
    resolver.nat_routed(&nat, &routes, interfaces.as_deref().unwrap_or_default());
    resolver.nat_before_spd(&nat, &spds, interfaces.as_deref().unwrap_or_default());
    resolver.unreachable_peers(&sas, &routes);
    resolver.beside_transport(&spds, &sas);
    resolver.past_spds(&spds, interfaces.as_deref().unwrap_or_default(), &routes);
    let classify = resolver.classify_tables();
    let (acls, allowlists, bindings) = (resolver.lists(), resolver.allowlists(), resolver.bindings());
    resolver.chains(&acls, interfaces.as_deref().unwrap_or_default());
    resolver.needless_reflect(&acls, interfaces.as_deref().unwrap_or_default());
    resolver.needless_rules(&acls, interfaces.as_deref().unwrap_or_default());
    let (sav, line_cards) = (resolver.sav(interfaces.as_deref()), resolver.line_cards());
    resolver.own_links(&sav, interfaces.as_deref().unwrap_or_default(), &routes, &neighbors);
    let bridges = resolver.bridges(interfaces.as_deref().unwrap_or_default(), &routes, &sav);
    resolver.steer_at(&steer, &acls, (&vrfs, interfaces.as_deref().unwrap_or_default(), &routes, &bridges));
    if let Some(interfaces) = &interfaces {
        resolver.learned_bindings(interfaces, &bridges);
        resolver.servers_of_bindings(interfaces, &bridges);
        resolver.unrouted(interfaces, &bridges, &classify);
    }
    let workers = resolver.workers();
    let buffers = resolver.buffers(&workers);
    resolver.files(files);
    resolver.beyond_memory(files, (&classify, &bridges, workers.count));
    if !resolver.diagnostics.iter().any(|found| found.severity == Severity::Error) {
        resolver.absent_cores(files);
    }
    resolver.devices();
    resolver.route_vrfs();
    resolver.routes_without_devices();
    resolver.unused();
    let settings = &declared.settings;
    let (icmp, limits) = (settings.icmp, settings.limits);
    Some(Gateway {
        bridges,
        vrfs,
        interfaces: interfaces?,
        routes,
        neighbors,
        sav,
        samplers,
        line_cards,
        groups,
        acls,
        allowlists,
        bindings,
        classify,
        nat,
        spds,
        steer,
        sas,
        ipsec: Ipsec {
            state: settings.ipsec_state.clone(),
            reserves: true,
            unchecked: false,
            engine: settings.engine.as_ref().map(|engine| engine.value),
            insecure: settings.insecure,
            fitted,
        },
        workers,
        buffers,
        icmp,
        neighbor_discovery: settings.neighbor_discovery,
        flow_table: settings.flow_table,
        limits,
        origins: resolver.origins,
    })
}

impl<'a> Resolver<'a> {
    fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    /// Checks the VRFs of tables of other sources' routes.
    fn route_vrfs(&mut self) {
        let declared = self.declared;
        for name in &declared.settings.route_vrfs {
            self.vrf_named(name);
        }
    }

    /// The origin of what begins at a span.
    fn origin(&mut self, span: Span) -> Origin {
        let source = self.sources.source(span.source);
        let line = source.line(span.start);
        let (index, start) = (self.origin_sources[span.source.0 as usize], source.line_start(line));
        match self.is_beside {
            true => self.origins.put_line(index, line, start),
            false => self.origins.add_line(index, line, start),
        }
    }

    fn vrfs(&mut self) -> Vec<Vrf> {
        let mut vrfs = vec![Vrf::named(DEFAULT_VRF)];
        let mut first: HashMap<&str, Span> = HashMap::new();
        self.vrfs.insert(DEFAULT_VRF, VrfIndex(0));
        let declared = self.declared;
        for declare::vrf::Vrf { name, nat_limit } in &declared.vrfs {
            let limit_origin = nat_limit.as_ref().map_or(Origin(0), |limit| self.origin(limit.span));
            let nat_limit = nat_limit.as_ref().map(|limit| limit.value);
            if let Some(&first) = first.get(name.value.as_str()) {
                let message = format!("there are two VRFs `{}`", name.value);
                self.report(Diagnostic::error(Code::DuplicateName, name.span, message).related(first, "first here"));
                continue;
            }
            first.insert(&name.value, name.span);
            let origin = self.origin(name.span);
            if name.value == DEFAULT_VRF {
                vrfs[0] = Vrf { name: name.value.clone(), nat_limit, limit_origin, origin };
                continue;
            }
            let Ok(index) = u16::try_from(vrfs.len()) else {
                let message = format!("there are more than {} VRFs", u16::MAX);
                self.report(Diagnostic::error(Code::LimitExceeded, name.span, message));
                break;
            };
            self.vrfs.insert(&name.value, VrfIndex(index));
            vrfs.push(Vrf { name: name.value.clone(), nat_limit, limit_origin, origin });
        }
        vrfs
    }

    /// The VRF of a name, `default` where there is none.
    fn vrf(&mut self, name: Option<&At<String>>) -> Option<VrfIndex> {
        let Some(name) = name else { return Some(VrfIndex(0)) };
        let found = self.vrfs.get(name.value.as_str()).copied();
        if found.is_none() && !self.declared.lost_vrfs {
            let unknown = Diagnostic::error(Code::UnknownVrf, name.span, format!("there is no VRF `{}`", name.value));
            let unknown = unknown.suggest(&name.value, self.vrfs.keys());
            let help = unknown.help.clone().unwrap_or_else(|| "declare it under `[[vrf]]`".to_owned());
            self.report(unknown.help(help));
        }
        found
    }

    /// The declared interface of a name.
    fn interface(&mut self, name: &At<String>) -> Option<usize> {
        let found = self.interfaces.get(name.value.as_str()).copied();
        if found.is_none() && !self.declared.lost_interfaces {
            let message = format!("there is no interface `{}`", name.value);
            let unknown = Diagnostic::error(Code::UnknownInterface, name.span, message);
            let unknown = unknown.suggest(&name.value, self.interfaces.keys());
            let help = unknown.help.clone().unwrap_or_else(|| "declare it under `[[interface]]`".to_owned());
            self.report(unknown.help(help));
        }
        found
    }

    /// A declared interface.
    fn declared(&self, interface: usize) -> &'a Interface {
        &self.declared.interfaces[interface]
    }

    fn workers(&mut self) -> Workers {
        let settings = &self.declared.settings;
        let cores = settings.cores.as_ref().map_or(&[][..], |cores| &cores.value);
        if let (Some(count), Some(cores)) = (&settings.workers, &settings.cores)
            && usize::from(count.value) != cores.value.len()
            && !settings.lost_workers
        {
            let message = match count.value {
                1 => format!("1 worker needs 1 core, not {}", cores.value.len()),
                count => format!("{count} workers need as many cores, not {}", cores.value.len()),
            };
            let found = Diagnostic::error(Code::CoreCount, cores.span, message);
            self.report(found.related(count.span, "the number of workers"));
        }
        let most = if let Some(cores) = &settings.cores
            && cores.value.len() > 16
        {
            let message = format!("there are {} cores, but at most 16 workers", cores.value.len());
            self.report(Diagnostic::error(Code::OutOfRange, cores.span, message));
            16
        } else {
            cores.len().max(1)
        };
        // At most 16, as just seen.
        let count = settings.workers.map_or(most as u16, |count| count.value);
        let max_latency = settings.max_latency.unwrap_or(Workers::MAX_LATENCY);
        Workers { count, cores: cores.to_vec(), max_latency }
    }

    /// Warns of cores that this machine does not have: the gateway may be for another one.
    fn absent_cores(&mut self, files: &dyn Files) {
        let settings = &self.declared.settings;
        let Some(cores) = settings.cores.as_ref().filter(|_| self.thorough && !settings.lost_workers) else { return };
        let Some(online) = files.cpus() else { return };
        let absent = cores.value.iter().filter(|core| !online.contains(core));
        let absent: Vec<String> = absent.map(u16::to_string).collect();
        if !absent.is_empty() {
            let s = if absent.len() == 1 { "" } else { "s" };
            let message = format!("this machine has no core{s} {} online", absent.join(", "));
            let found = Diagnostic::warning(Code::UnknownCore, cores.span, message);
            self.report(found.help("`weir run` fails where a core is missing"));
        }
    }

    fn buffers(&mut self, workers: &Workers) -> Buffers {
        let queues = self.declared.interfaces.iter().map(|interface| match &interface.kind {
            Some(Kind::Port { queues, .. }) => u32::from(*queues),
            _ => 0,
        });
        let queues: u32 = queues.fold(0, u32::saturating_add);
        // Each worker holds a vector in hand and each queue one in flight.
        let least = queues.saturating_add(u32::from(workers.count)).saturating_mul(VECTOR);
        let default = Buffers::default();
        let small = match self.declared.settings.small {
            Some(small) => {
                if small.value < least {
                    let message = format!("{} small buffers are too few: {least} are needed", small.value);
                    let found = Diagnostic::error(Code::TooFewBuffers, small.span, message);
                    self.report(found.help(format!(
                        "each of {} and {} needs room for a vector of {VECTOR} packets",
                        super::plural(usize::from(workers.count), "worker"),
                        super::plural(queues as usize, "receive queue"),
                    )));
                }
                small.value
            }
            None => default.small.max(least.saturating_mul(2)),
        };
        let usual = if self.has_long_frames() { LARGE_OF_LONG_FRAMES } else { default.large };
        let large = self.declared.settings.large;
        Buffers { small, large: large.unwrap_or(usual), large_is_default: large.is_none() }
    }

    /// Frames of some interface are too long for a small buffer.
    fn has_long_frames(&self) -> bool {
        let mtus = self.declared.interfaces.iter().filter_map(|interface| interface.mtu);
        mtus.map(|mtu| mtu.value as usize).any(|mtu| mtu > SMALL_FRAME - LINK)
    }

    /// Warns of objects that nothing uses.
    fn unused(&mut self) {
        let declared = self.declared;
        if declared.interfaces.is_empty() && !declared.lost_interfaces {
            if let Some(source) = self.sources.iter().next() {
                let start = if source.text.starts_with('\u{feff}') { 3 } else { 0 };
                let span = Span { source: super::source::SourceId(0), start, end: start };
                let found = Diagnostic::warning(Code::NoInterfaces, span, "the gateway has no interfaces");
                self.report(found.help("declare them under `[[interface]]`"));
            }
            return;
        }
        for declare::vrf::Vrf { name, .. } in &declared.vrfs {
            let index = self.vrfs.get(name.value.as_str()).copied();
            if name.value != DEFAULT_VRF && !self.vrf_of.contains(&index) && !declared.lost_interfaces {
                let message = format!("no interface belongs to the VRF `{}`", name.value);
                self.report(Diagnostic::warning(Code::UnusedVrf, name.span, message));
            }
        }
        self.unused_policies();
        self.unused_samplers();
        self.unused_access();
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse_str;

    #[test]
    fn frames_that_do_not_fit_small_buffers_have_more_large_ones() {
        let large = |mtu: &str, buffers: &str| {
            let text = format!("version = 1\n{buffers}\n[[interface]]\nname = \"a\"\nport = \"null\"\n{mtu}\n");
            parse_str("test.toml", &text).gateway.expect("a valid file").buffers.large
        };
        assert_eq!([large("", ""), large("mtu = 1578", ""), large("mtu = 1579", "")], [64, 64, 512]);
        assert_eq!(large("mtu = 9000", "[buffers]\nlarge = 65"), 65);
    }
}
