//! Bridges: interfaces that are one link.

use weir_packet::wire::MacAddress;

use super::{InterfaceIndex, Origin, RateLimit};

/// The index of a bridge in the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BridgeIndex(pub u16);

/// A bridge.
#[derive(Debug, Clone, PartialEq)]
pub struct Bridge {
    /// Its name, unique.
    pub name: String,
    /// Its ports: interfaces without addresses, each of which is a port of no other bridge.
    pub ports: Vec<BridgePort>,
    /// Stations are learned from the sources of frames.
    pub learns: bool,
    /// Seconds after which a station that sends nothing is forgotten; 0: never.
    pub ageing: u32,
    /// Stations, at most.
    pub macs: u32,
    /// The frames that are flooded.
    pub floods: Floods,
    /// Frames that are flooded in a second, at most; `None`: no limit.
    pub storm_limit: Option<RateLimit>,
    /// Stations that move to another port in a second, at most; `None`: no limit.
    pub move_limit: Option<RateLimit>,
    /// Configured stations.
    pub stations: Vec<BridgeStation>,
    /// Where it was declared.
    pub origin: Origin,
}

/// A port of a bridge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BridgePort {
    /// The interface.
    pub interface: InterfaceIndex,
    /// Its split-horizon group: no frame goes from one port of a group to another.
    pub group: Option<u16>,
    /// Where it was declared.
    pub origin: Origin,
}

/// A configured station of a bridge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BridgeStation {
    /// Its hardware address.
    pub mac: MacAddress,
    /// The interface that leads to it, a port of the bridge.
    pub interface: InterfaceIndex,
    /// Where it was declared.
    pub origin: Origin,
}

/// The frames that a bridge floods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Floods {
    /// Frames to stations that are not known.
    pub unknown: bool,
    /// Broadcasts.
    pub broadcast: bool,
    /// Multicasts.
    pub multicast: bool,
}

impl Bridge {
    /// The usual ageing time, in seconds (IEEE 802.1Q, 8.8.3).
    pub const AGEING: u32 = 300;
    /// The usual number of stations.
    pub const MACS: u32 = 16_384;
    /// The most stations that a bridge may have.
    pub const MOST_MACS: u32 = 4_194_304;
    /// The most ports that a bridge may have.
    pub const MOST_PORTS: usize = 1024;

    /// A bridge without ports, with the usual settings.
    #[must_use]
    pub fn new(name: impl Into<String>, origin: Origin) -> Bridge {
        Bridge {
            name: name.into(),
            ports: Vec::new(),
            learns: true,
            ageing: Bridge::AGEING,
            macs: Bridge::MACS,
            floods: Floods::ALL,
            storm_limit: None,
            move_limit: None,
            stations: Vec::new(),
            origin,
        }
    }

    /// An interface is a port of the bridge.
    #[must_use]
    pub fn has_port(&self, interface: InterfaceIndex) -> bool {
        self.ports.iter().any(|port| port.interface == interface)
    }
}

impl Floods {
    /// All of them.
    pub const ALL: Floods = Floods { unknown: true, broadcast: true, multicast: true };
}
