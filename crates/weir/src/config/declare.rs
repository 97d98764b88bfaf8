//! The declarations of the files, object by object, before references between objects are checked.

pub(super) mod access;
mod advertisement;
pub(super) mod bridge;
mod device;
mod interface;
pub(super) mod ipsec;
mod line_card;
mod metrics;
mod mss;
mod objects;
mod port;
mod refuse;
mod route;
mod routes;
pub(super) mod rules;
pub(super) mod sampler;
pub(super) mod sav;
mod settings;
pub(super) mod tunnel;
pub(super) mod vrf;

pub(super) use line_card::LineCard;
pub(super) use objects::{
    Device, FileUse, HostAddress, Interface, Kind, LineRoute, Neighbor, Path, Punt, Route, RouteFile, Target, Uses,
};
use refuse::{lost_some, refuse};
pub(super) use settings::Settings;

use super::source::{At, Source};
use super::table::{Reader, Table};

/// The keys of a file.
pub(super) const ROOT_KEYS: &[&str] = &[
    "version",
    "include",
    "workers",
    "buffers",
    "icmp",
    "limits",
    "neighbor-discovery",
    "flow-table",
    "service",
    "metrics",
    "routes",
    "vrf",
    "interface",
    "route",
    "route-file",
    "neighbor",
    "sav",
    "line-card",
    "sampler",
    "acl",
    "group",
    "allowlist",
    "mac-ip",
    "classify",
    "nat",
    "spd",
    "steer",
    "ipsec",
    "sa",
    "bridge",
];

/// Everything that the files declare.
#[derive(Default)]
pub(super) struct Declared {
    pub(super) settings: Settings,
    pub(super) vrfs: Vec<vrf::Vrf>,
    pub(super) interfaces: Vec<Interface>,
    pub(super) routes: Vec<Route>,
    pub(super) route_files: Vec<RouteFile>,
    pub(super) neighbors: Vec<Neighbor>,
    pub(super) sav: Vec<sav::Policy>,
    pub(super) line_cards: Vec<LineCard>,
    pub(super) samplers: Vec<sampler::Sampler>,
    pub(super) access: access::Access,
    /// Pairs of SAs.
    pub(super) sas: Vec<ipsec::Sa>,
    /// Some pair of SAs or its name could not be read.
    pub(super) lost_sas: bool,
    /// Bridges.
    pub(super) bridges: Vec<bridge::Bridge>,
    /// Some bridge or its name could not be read.
    pub(super) lost_bridges: bool,
    /// Some interface or its name could not be read: names that seem unknown may be its own.
    pub(super) lost_interfaces: bool,
    /// The same of VRFs.
    pub(super) lost_vrfs: bool,
    /// The same of policies of source address validation.
    pub(super) lost_sav: bool,
    /// The same of samplers.
    pub(super) lost_samplers: bool,
}

impl Declared {
    /// Takes in all that one file declares, but for what it includes.
    pub(super) fn read(&mut self, reader: &mut Reader<'_>, root: &Table<'_>, source: &Source, headers_lost: &[&str]) {
        // What stands before the first header may be an include, of anything.
        let lost = |name: &str| headers_lost.iter().any(|header| header.contains(name) || !header.contains('['));
        self.lost_interfaces |= lost("interface");
        self.lost_vrfs |= lost("vrf");
        self.lost_sav |= lost("sav");
        self.lost_samplers |= lost("sampler");
        self.lost_sas |= lost("[sa.");
        self.lost_bridges |= lost("[bridge.");
        self.settings.read(reader, root, source);
        self.access.read(reader, root, lost);
        for value in reader.tables(root, "vrf") {
            match vrf::read(reader, value) {
                Some(vrf) => self.vrfs.push(vrf),
                None => self.lost_vrfs = true,
            }
        }
        for value in reader.tables(root, "interface") {
            match interface::read(reader, value, source) {
                Some(interface) => self.interfaces.push(interface),
                None => self.lost_interfaces = true,
            }
        }
        for value in reader.tables(root, "route") {
            self.routes.extend(route::read(reader, value));
        }
        for value in reader.tables(root, "route-file") {
            self.route_files.extend(route::read_file(reader, value));
        }
        for value in reader.tables(root, "neighbor") {
            let Some(table) = reader.table(value, "a neighbour", &["interface", "address", "mac"]) else { continue };
            let interface = reader.require(&table, "interface");
            let interface = interface.and_then(|value| reader.reference(value, "an interface's name"));
            let address = reader.require(&table, "address").and_then(|value| reader.host_address(value));
            let mac = reader.require(&table, "mac").and_then(|value| reader.mac(value));
            if let (Some(interface), Some(address)) = (interface, address) {
                self.neighbors.push(Neighbor { interface, address, mac });
            }
        }
        let policies = reader.named_tables(root, "sav");
        self.lost_sav |= lost_some(root, "sav", policies.len());
        for (name, value) in policies {
            match sav::read(reader, name, value) {
                Some(policy) => self.sav.push(policy),
                None => self.lost_sav = true,
            }
        }
        let sas = reader.named_tables(root, "sa");
        self.lost_sas |= lost_some(root, "sa", sas.len());
        for (name, value) in sas {
            match ipsec::read(reader, name, value, source) {
                Some(sa) => self.sas.push(sa),
                None => self.lost_sas = true,
            }
        }
        let bridges = reader.named_tables(root, "bridge");
        self.lost_bridges |= lost_some(root, "bridge", bridges.len());
        for (name, value) in bridges {
            match bridge::read(reader, name, value) {
                Some(bridge) => self.bridges.push(bridge),
                None => self.lost_bridges = true,
            }
        }
        for (name, value) in reader.named_tables(root, "line-card") {
            self.line_cards.extend(line_card::read(reader, name, value));
        }
        let samplers = reader.named_tables(root, "sampler");
        self.lost_samplers |= lost_some(root, "sampler", samplers.len());
        for (name, value) in samplers {
            match sampler::read(reader, name, value, source) {
                Some(sampler) => self.samplers.push(sampler),
                None => self.lost_samplers = true,
            }
        }
    }
}
