//! What the files declare, object by object, before the objects are held against each other.

pub(super) mod access;
mod advertisement;
mod device;
mod interface;
mod line_card;
mod port;
mod route;
pub(super) mod sampler;
pub(super) mod sav;
mod settings;

use std::net::IpAddr;
use std::path::PathBuf;

use ipnet::IpNet;
use weir_packet::wire::MacAddress;
use weir_plane::model::{PerFamily, RouterAdvertisement, Tag};
use weir_port::spec::{Middleware, PortSpec, TapSpec};

pub(super) use line_card::LineCard;
pub(super) use settings::Settings;

use super::diagnostic::Code;
use super::source::{At, Source, SourceId, Span};
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
    "service",
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
];

/// Everything that the files declare.
#[derive(Default)]
pub(super) struct Declared {
    pub(super) settings: Settings,
    pub(super) vrfs: Vec<At<String>>,
    pub(super) interfaces: Vec<Interface>,
    pub(super) routes: Vec<Route>,
    pub(super) route_files: Vec<RouteFile>,
    pub(super) neighbors: Vec<Neighbor>,
    pub(super) sav: Vec<sav::Policy>,
    pub(super) line_cards: Vec<LineCard>,
    pub(super) samplers: Vec<sampler::Sampler>,
    pub(super) access: access::Access,
    /// Some interface or its name could not be read: names that seem unknown may be its own.
    pub(super) lost_interfaces: bool,
    /// The same of VRFs.
    pub(super) lost_vrfs: bool,
    /// The same of policies of source address validation.
    pub(super) lost_sav: bool,
    /// The same of samplers.
    pub(super) lost_samplers: bool,
}

/// An interface.
pub(super) struct Interface {
    pub(super) name: At<String>,
    pub(super) kind: Option<Kind>,
    pub(super) mac: Option<At<MacAddress>>,
    pub(super) mtu: Option<At<u32>>,
    pub(super) vrf: Option<At<String>>,
    /// There is a VRF, but it could not be read.
    pub(super) lost_vrf: bool,
    pub(super) addresses: Vec<At<IpNet>>,
    /// Some address could not be read.
    pub(super) lost_addresses: bool,
    pub(super) punt: Option<Punt>,
    pub(super) router_advertisement: Option<At<RouterAdvertisement>>,
    /// Names of policies.
    pub(super) sav: PerFamily<Option<At<String>>>,
    pub(super) access: access::OfInterface,
}

/// The device of the host that an interface punts to.
pub(super) struct Punt {
    pub(super) spec: TapSpec,
    pub(super) uses: Uses,
}

/// What an interface is made of.
pub(super) enum Kind {
    Port { port: Option<PortSpec>, middleware: Middleware, queues: u16, uses: Uses },
    Vlan { parent: At<String>, tags: Option<At<(Tag, Option<u16>)>> },
}

/// What something uses of the system that nothing else may use at the same time.
#[derive(Default)]
pub(super) struct Uses {
    pub(super) files: Vec<FileUse>,
    pub(super) device: Option<Device>,
    /// Addresses that the kernel gets at its side of a device.
    pub(super) host: Vec<HostAddress>,
}

/// A device of the kernel.
pub(super) struct Device {
    pub(super) name: String,
    pub(super) span: Span,
}

/// An address of the kernel's.
pub(super) struct HostAddress {
    pub(super) net: IpNet,
    pub(super) span: Span,
}

/// A file that a port reads or writes.
pub(super) struct FileUse {
    pub(super) path: PathBuf,
    pub(super) span: Span,
    pub(super) written: bool,
}

/// A route.
pub(super) struct Route {
    pub(super) vrf: Option<At<String>>,
    pub(super) metric: u32,
    pub(super) prefix: At<IpNet>,
    pub(super) target: Option<Target>,
}

/// Many routes to one target, one a line of a file of their own.
pub(super) struct RouteFile {
    pub(super) path: At<String>,
    pub(super) vrf: Option<At<String>>,
    pub(super) metric: u32,
    pub(super) target: Option<Target>,
    /// The file, once read, and its routes.
    pub(super) source: Option<SourceId>,
    pub(super) routes: Vec<LineRoute>,
}

/// A line of a [`RouteFile`].
#[derive(Clone, Copy)]
pub(super) struct LineRoute {
    pub(super) prefix: IpNet,
    pub(super) line: u32,
}

/// What a route does.
pub(super) enum Target {
    Via { paths: Vec<Path>, lost: bool },
    Blackhole,
    Unreachable,
    Local,
}

/// One path of a route.
pub(super) struct Path {
    pub(super) address: Option<At<IpAddr>>,
    pub(super) interface: Option<At<String>>,
    pub(super) weight: u8,
    pub(super) span: Span,
}

/// A neighbour.
pub(super) struct Neighbor {
    pub(super) interface: At<String>,
    pub(super) address: At<IpAddr>,
    pub(super) mac: Option<MacAddress>,
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
        self.settings.read(reader, root);
        self.access.read(reader, root, lost);
        for value in reader.tables(root, "vrf") {
            let table = reader.table(value, "a VRF", &["name"]);
            let name = table.and_then(|table| reader.require(&table, "name")).and_then(|value| reader.name(value));
            match name {
                Some(name) => self.vrfs.push(name),
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

/// Whether some of the tables under a key could not be read, so many having been.
fn lost_some(root: &Table<'_>, key: &str, read: usize) -> bool {
    root.get(key).is_some_and(|value| value.get_ref().as_table().is_none_or(|all| all.len() != read))
}

/// Refuses keys that have no meaning here.
fn refuse(reader: &mut Reader<'_>, table: &Table<'_>, keys: &[&str], why: &str) {
    for key in keys {
        if let Some((name, _)) = table.entry(key) {
            let span = reader.span(name.span());
            let found = super::diagnostic::Diagnostic::error(Code::ConflictingKeys, span, format!("`{key}` {why}"));
            reader.report(found);
        }
    }
}
