//! Interfaces, routes and neighbours, as they are declared.

use std::net::IpAddr;
use std::path::PathBuf;

use ipnet::IpNet;
use weir_packet::wire::MacAddress;
use weir_plane::model::{PerFamily, RouterAdvertisement, Tag};
use weir_port::spec::{Middleware, PortSpec, TapSpec};

use super::super::source::{At, SourceId, Span};
use super::access::OfInterface;

/// An interface.
pub(in super::super) struct Interface {
    pub(in super::super) name: At<String>,
    pub(in super::super) kind: Option<Kind>,
    pub(in super::super) mac: Option<At<MacAddress>>,
    pub(in super::super) mtu: Option<At<u32>>,
    pub(in super::super) vrf: Option<At<String>>,
    /// There is a VRF, but it could not be read.
    pub(in super::super) lost_vrf: bool,
    pub(in super::super) zone: Option<At<String>>,
    pub(in super::super) merge: weir_plane::model::Merge,
    pub(in super::super) addresses: Vec<At<IpNet>>,
    /// Some address could not be read.
    pub(in super::super) lost_addresses: bool,
    pub(in super::super) punt: Option<Punt>,
    pub(in super::super) router_advertisement: Option<At<RouterAdvertisement>>,
    /// Names of policies.
    pub(in super::super) sav: PerFamily<Option<At<String>>>,
    pub(in super::super) access: OfInterface,
    /// The name of a list of rules that translate.
    pub(in super::super) nat: Option<At<String>>,
    /// The name of an SPD.
    pub(in super::super) spd: Option<At<String>>,
    /// The name of a list of steer rules.
    pub(in super::super) steer: Option<At<String>>,
}

/// The device of the host that an interface punts to.
pub(in super::super) struct Punt {
    pub(in super::super) spec: TapSpec,
    pub(in super::super) follow: weir_plane::model::Follow,
    pub(in super::super) uses: Uses,
}

/// The kind of an interface.
pub(in super::super) enum Kind {
    Port {
        port: Option<PortSpec>,
        middleware: Middleware,
        queues: u16,
        uses: Uses,
    },
    Vlan {
        parent: At<String>,
        tags: Option<At<(Tag, Option<u16>)>>,
    },
    Ipsec,
    Tunnel(super::tunnel::Tunnel),
    /// The name of the bridge on which the gateway has a station.
    Bridge(At<String>),
}

/// The resources of the system that no other object may use at the same time.
#[derive(Default)]
pub(in super::super) struct Uses {
    pub(in super::super) files: Vec<FileUse>,
    pub(in super::super) device: Option<Device>,
    /// Addresses that the kernel gets at its side of a device.
    pub(in super::super) host: Vec<HostAddress>,
    /// The configuration states these addresses, be it that there are none.
    pub(in super::super) states_addresses: bool,
}

/// A device of the kernel.
pub(in super::super) struct Device {
    pub(in super::super) name: String,
    pub(in super::super) span: Span,
}

/// An address of the kernel's.
pub(in super::super) struct HostAddress {
    pub(in super::super) net: IpNet,
    pub(in super::super) span: Span,
}

/// A file that a port reads or writes.
pub(in super::super) struct FileUse {
    pub(in super::super) path: PathBuf,
    pub(in super::super) span: Span,
    pub(in super::super) written: bool,
}

/// A route.
pub(in super::super) struct Route {
    pub(in super::super) vrf: Option<At<String>>,
    pub(in super::super) metric: u32,
    pub(in super::super) prefix: At<IpNet>,
    pub(in super::super) target: Option<Target>,
}

/// Many routes to one target, one a line of a file of their own.
pub(in super::super) struct RouteFile {
    pub(in super::super) path: At<String>,
    pub(in super::super) vrf: Option<At<String>>,
    pub(in super::super) metric: u32,
    pub(in super::super) target: Option<Target>,
    /// The file, once read, and its routes.
    pub(in super::super) source: Option<SourceId>,
    pub(in super::super) routes: Vec<LineRoute>,
}

/// A line of a [`RouteFile`].
#[derive(Clone, Copy)]
pub(in super::super) struct LineRoute {
    pub(in super::super) prefix: IpNet,
    pub(in super::super) line: u32,
}

/// The target of a route.
pub(in super::super) enum Target {
    Via { paths: Vec<Path>, lost: bool },
    Blackhole,
    Unreachable,
    Prohibit,
    Local,
}

/// One path of a route.
pub(in super::super) struct Path {
    pub(in super::super) address: Option<At<IpAddr>>,
    pub(in super::super) interface: Option<At<String>>,
    /// The VRF of the interface, if it is another one than the route's.
    pub(in super::super) vrf: Option<At<String>>,
    pub(in super::super) weight: u8,
    pub(in super::super) span: Span,
}

/// A neighbour.
pub(in super::super) struct Neighbor {
    pub(in super::super) interface: At<String>,
    pub(in super::super) address: At<IpAddr>,
    pub(in super::super) mac: Option<MacAddress>,
}
