//! Bridges and their stations.

use serde::{Deserialize, Serialize};

/// A bridge and its counters, which count since the gateway was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct BridgeStats {
    /// Its name.
    pub name: String,
    /// Its ports, in the order of the configuration.
    pub ports: Vec<BridgePortRow>,
    /// The interface that is the gateway's own station on it.
    pub own_station: Option<String>,
    /// Stations are learned.
    pub learns: bool,
    /// Seconds after which a silent station is forgotten; 0: never.
    pub ageing: u32,
    /// The kinds of frames that it floods: `unknown`, `broadcast`, `multicast`.
    pub floods: Vec<String>,
    /// Stations that there are.
    pub macs: u64,
    /// Stations that there may be.
    pub most_macs: u32,
    /// Octets of memory of the MAC table.
    pub memory: u64,
    /// Frames to known stations.
    pub known: u64,
    /// Frames to unknown stations that were flooded.
    pub unknown: u64,
    /// Broadcasts that were flooded.
    pub broadcast: u64,
    /// Multicasts that were flooded.
    pub multicast: u64,
    /// Frames to the gateway's own station.
    pub own: u64,
    /// Copies that flooding made.
    pub copies: u64,
    /// Copies that were not made: they exceed the MTU of a port, or buffers had run out.
    pub lost: u64,
    /// Frames that the storm limit dropped.
    pub storm: u64,
    /// Stations that were learned.
    pub learned: u64,
    /// Stations that moved to another port.
    pub moved: u64,
    /// Frames of stations that were not to move.
    pub held: u64,
    /// A station that has moved lately, or was not to move.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mover: Option<BridgeMover>,
    /// Frames of stations for which there was no room.
    pub full: u64,
    /// Where it was declared.
    pub origin: String,
}

/// A station that another port had before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct BridgeMover {
    /// Its hardware address.
    pub mac: String,
    /// The interface that its last frame came in by.
    pub interface: String,
}

/// A port of a bridge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct BridgePortRow {
    /// The interface.
    pub interface: String,
    /// Its split-horizon group.
    pub group: Option<u16>,
    /// Frames may leave by it.
    pub up: bool,
}

/// A station of a bridge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct MacRow {
    /// Its hardware address.
    pub mac: String,
    /// The interface that leads to it.
    pub interface: String,
    /// `learned`, `static` or `own`.
    pub kind: String,
    /// Seconds since it was seen; `None` for others than learned ones.
    pub age: Option<u32>,
}
