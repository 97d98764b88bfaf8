//! A copy of the first octets of a packet, and what was decided about the packet.

use weir_base::clock::Time;
use weir_packet::parse::Parsed;

use crate::root::sampler::SNAP;
use crate::root::sav::By;

/// A packet, as far as it was kept, and what was decided about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// When the packet came, by the gateway's clock.
    pub time: Time,
    /// Number of the sampler that it was taken for.
    pub sampler: u32,
    /// Of how many packets one was taken.
    pub one_in: u32,
    /// Number of the interface that it came in by.
    pub interface: u32,
    /// Octets of its frame without padding.
    pub length: u32,
    /// Why it was taken.
    pub cause: Cause,
    /// The treatment of the packet.
    pub treatment: Treatment,
    /// Where its headers are, which may be behind what was kept.
    pub parsed: Parsed,
    pub(super) kept: u16,
    pub(super) octets: [u8; SNAP],
}

impl Sample {
    /// The first `snap` octets of a frame, [`SNAP`] at most, of which the parser said this. All else is for the caller to
    /// fill in.
    pub fn new(frame: &[u8], snap: u16, parsed: Parsed) -> Sample {
        let kept = frame.len().min(usize::from(snap)).min(SNAP);
        let mut octets = [0; SNAP];
        octets[..kept].copy_from_slice(&frame[..kept]);
        Sample {
            time: Time(0),
            sampler: 0,
            one_in: 1,
            interface: 0,
            length: frame.len() as u32,
            cause: Cause::Invalid { policy: 0, by: By::Table },
            treatment: Treatment::Passed,
            parsed,
            kept: kept as u16,
            octets,
        }
    }

    /// The first octets of its frame, from the link-layer header on.
    pub fn frame(&self) -> &[u8] {
        &self.octets[..usize::from(self.kept)]
    }
}

/// Why a packet is sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// It was not valid.
    Invalid {
        /// The place in the model of the policy that found so.
        policy: u16,
        /// The check that found it invalid.
        by: By,
    },
    /// A rule of an access list logs it.
    Logged {
        /// The number of the rule.
        rule: u32,
        /// It was leaving, not coming in.
        output: bool,
    },
    /// A session of a classifier table samples it.
    Classified {
        /// The place of the table in the model.
        table: u16,
        /// The number of the session.
        session: u32,
        /// It was leaving, not coming in.
        output: bool,
    },
}

/// The treatment of a sampled packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Treatment {
    /// It went on its way.
    Passed,
    /// It was dropped.
    Dropped,
    /// It was sent elsewhere.
    Redirected,
    /// It was dropped, as too many others had passed.
    RateLimited,
}

impl Treatment {
    /// In one word, as commands have it.
    pub const fn name(self) -> &'static str {
        match self {
            Treatment::Passed => "passed",
            Treatment::Dropped => "dropped",
            Treatment::Redirected => "redirected",
            Treatment::RateLimited => "rate-limited",
        }
    }
}
