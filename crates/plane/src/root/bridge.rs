//! Bridges, as workers read them. A bridge has an immutable part, which belongs to a version of the root, and parts that outlive
//! versions: the MAC table, the limits and the counters.

use std::sync::Arc;

use weir_base::clock::Time;
use weir_table::mac::MacTable;

use crate::model::Floods;
use crate::root::NONE;
use crate::root::counters::Counter;
use crate::root::sav::Meters;

/// No bridge.
pub const NO_BRIDGE: u16 = u16::MAX;

/// The part of an interface in a bridge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OfInterface {
    /// The bridge whose port the interface is; [`NO_BRIDGE`] without one.
    pub bridge: u16,
    /// The port, by place in [`Bridge::ports`].
    pub port: u16,
    /// The bridge whose own station the interface is; [`NO_BRIDGE`] without one.
    pub station: u16,
}

impl OfInterface {
    /// The interface has to do with no bridge.
    pub const NONE: OfInterface = OfInterface { bridge: NO_BRIDGE, port: 0, station: NO_BRIDGE };

    /// The interface is a port of a bridge.
    #[inline(always)]
    pub fn is_port(&self) -> bool {
        self.bridge != NO_BRIDGE
    }

    /// The interface is the own station of a bridge.
    #[inline(always)]
    pub fn is_station(&self) -> bool {
        self.station != NO_BRIDGE
    }
}

/// The bridges in force, by place in the model.
#[derive(Clone, Default)]
pub struct Bridges {
    /// Each bridge.
    pub list: Arc<[Bridge]>,
}

impl Bridges {
    /// There are bridges.
    #[inline(always)]
    pub fn is_active(&self) -> bool {
        !self.list.is_empty()
    }

    /// The bridge of a number.
    #[inline(always)]
    pub fn get(&self, number: u16) -> Option<&Bridge> {
        self.list.get(usize::from(number))
    }
}

/// A bridge.
#[derive(Clone)]
pub struct Bridge {
    /// Its name.
    pub name: Arc<str>,
    /// Its ports.
    pub ports: Arc<[Port]>,
    /// The number of the interface that is the gateway's own station; [`NONE`] without one.
    pub station: u32,
    /// The hardware address of that station, as a number; 0 without one.
    pub own_mac: u64,
    /// Stations are learned.
    pub learns: bool,
    /// The frames that are flooded.
    pub floods: Floods,
    /// Frames are parsed: some port has lists, or is a tunnel.
    pub parses: bool,
    /// Some port has lists.
    pub is_strict: bool,
    /// The limit of frames that are flooded.
    pub storm: Option<Arc<Meters>>,
    /// The limit of stations that move.
    pub moves: Option<Arc<Meters>>,
    /// The stations.
    pub macs: Arc<MacTable>,
    /// Its counters, by worker.
    pub counters: Arc<[BridgeCounters]>,
}

/// A port of a bridge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Port {
    /// The number of its interface.
    pub interface: u32,
    /// Its split-horizon group and 1; 0 without one.
    pub group: u32,
}

impl Port {
    /// A frame from one port may go to another: they are not the same, and not of one split-horizon group.
    #[inline(always)]
    pub fn may_reach(&self, other: &Port) -> bool {
        self.interface != other.interface && (self.group == 0 || self.group != other.group)
    }
}

impl Bridge {
    /// A number of a port, or of none.
    #[inline(always)]
    pub fn port(&self, port: u16) -> Option<&Port> {
        self.ports.get(usize::from(port))
    }

    /// The gateway has a station of its own on the bridge.
    #[inline(always)]
    pub fn has_station(&self) -> bool {
        self.station != NONE
    }
}

/// The counters of a bridge on one worker.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct BridgeCounters {
    /// Frames to stations that are known.
    pub known: Counter,
    /// Frames that were flooded, as their station was not known.
    pub unknown: Counter,
    /// Broadcasts that were flooded.
    pub broadcast: Counter,
    /// Multicasts that were flooded.
    pub multicast: Counter,
    /// Frames to the gateway's own station.
    pub own: Counter,
    /// Copies that flooding made.
    pub copies: Counter,
    /// Stations that were learned.
    pub learned: Counter,
    /// Stations that moved to another port.
    pub moved: Counter,
    /// Frames of stations that were not to move.
    pub held: Counter,
    /// The last frame that either counts: its source address in the upper 48 bits, and the place of the port that it came in by.
    pub mover: Counter,
    /// Frames of stations for which there was no room.
    pub full: Counter,
    /// Copies that were not made: they exceed the MTU of a port, or buffers had run out.
    pub lost: Counter,
    /// Frames that the storm limit dropped.
    pub storm: Counter,
}

/// The second of a time, in which MAC tables count.
#[inline(always)]
pub fn second(now: Time) -> u32 {
    // It wraps after 136 years.
    (now.0 / 1_000_000_000) as u32
}

/// A hardware address as a number.
#[inline(always)]
pub fn number([a, b, c, d, e, f]: [u8; 6]) -> u64 {
    u64::from_be_bytes([0, 0, a, b, c, d, e, f])
}
