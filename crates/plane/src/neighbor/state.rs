//! State of each neighbour, of each of our own addresses, and of each link that advertises.

use std::net::IpAddr;

use weir_base::clock::Time;
use weir_packet::wire::MacAddress;

use super::eviction::{Class, Place};

/// Which neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    /// Number of the interface.
    pub(super) interface: u32,
    /// Its address.
    pub(super) address: IpAddr,
}

/// The state of a neighbour (RFC 4861, 7.3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// A solicitation for the hardware address was sent and not answered yet.
    Incomplete,
    /// It answered a question of ours lately.
    Reachable,
    /// It has not been confirmed for long, and is not in use.
    Stale,
    /// The neighbour is in use and was not confirmed for long: a solicitation follows unless upper layers confirm it
    /// first.
    Delay,
    /// A solicitation to the known hardware address was sent.
    Probe,
}

impl State {
    /// As `show neighbors` names it.
    pub const fn name(self) -> &'static str {
        match self {
            State::Incomplete => "incomplete",
            State::Reachable => "reachable",
            State::Stale => "stale",
            State::Delay => "delay",
            State::Probe => "probe",
        }
    }
}

/// A neighbour as others see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// Number of the interface.
    pub interface: u32,
    /// Its address.
    pub address: IpAddr,
    /// Its hardware address, unless it is incomplete.
    pub mac: Option<MacAddress>,
    /// The state of the neighbour.
    pub state: State,
    /// Since when it is in this state.
    pub since: Time,
    /// When it last answered a question of ours.
    pub confirmed: Option<Time>,
}

/// A neighbour, as the table holds it.
pub(super) struct Entry {
    pub(super) key: Key,
    pub(super) mac: MacAddress,
    pub(super) state: State,
    pub(super) since: Time,
    pub(super) confirmed: Option<Time>,
    /// Questions in this state.
    pub(super) asked: u8,
    /// Until when an answer is one to a question of ours.
    pub(super) answerable: Time,
    pub(super) deadline: Option<Time>,
    pub(super) place: Place,
    /// The hardware address and staleness that were published to workers. A neighbour to which no packet was sent is
    /// not published: learning a million stations changes no table of the workers.
    pub(super) told: Option<(MacAddress, bool)>,
}

impl Entry {
    pub(super) fn class(&self) -> Class {
        match (self.state, self.confirmed) {
            (State::Incomplete, _) | (State::Delay | State::Probe, None) => Class::Incomplete,
            (_, None) => Class::Unconfirmed,
            (State::Stale, Some(_)) => Class::Idle,
            (_, Some(_)) => Class::Busy,
        }
    }
}

/// The phase of an address of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Not tested yet.
    Tentative,
    /// No other station has claimed the address yet.
    Probed,
    /// Ours.
    Usable,
    /// Another station has the address.
    Duplicate,
}

/// One of our addresses.
#[derive(Debug)]
pub(super) struct Own {
    pub(super) phase: Phase,
    /// Announcements still to be made.
    pub(super) announcements: u8,
    pub(super) defended: Option<Time>,
    pub(super) deadline: Option<Time>,
}

/// The state of the advertisements on an interface.
#[derive(Debug, Default)]
pub(super) struct Router {
    pub(super) deadline: Option<Time>,
    /// Of the first few, how many are still to come.
    pub(super) initial: u8,
    pub(super) last: Option<Time>,
}
