//! `weir bench sav`: what source address validation costs, as section 3 of draft-li-savnet-dataplane-performance-00 measures
//! it.
//!
//! All policies are measured in one gateway, with one forwarding table, one worker and one stream of packets; from one to
//! the next only the version of the root changes. So they differ by nothing but validation. Forwarding without validation
//! is one of the versions and has the same full tables.

mod cost;
mod family;
mod flood;
mod network;
mod report;
mod traffic;
mod update;

use std::io;

use weir_plane::bench::BenchError;
use weir_plane::engine::EngineError;
use weir_port::pcap::CaptureError;
use weir_table::lpm::Prefix;

use super::prefixes::Prefixes;
use family::Ip;

pub use cost::{Effort, Memory, Row, Scale};
pub use flood::{Deep, Flood, Floods};
pub use network::Way;
pub use report::Sav;
pub use update::{Latency, Updates};

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SavError {
    /// The gateway could not be set up.
    #[error(transparent)]
    Bench(#[from] BenchError),
    /// The running gateway could not be started.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Entries could not be changed.
    #[error(transparent)]
    Edit(#[from] weir_plane::compile::SavError),
    /// There is no folder to put the frames in.
    #[error("no folder for the frames: {0}")]
    Scratch(#[source] io::Error),
    /// The frames could not be written.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// Packets did not go where the policy has them go.
    #[error(
        "of {expected} packets, {received} came, {validated} were validated, {transmitted} left and {dropped} were dropped"
    )]
    Packets {
        /// Packets of the window.
        expected: u64,
        /// Those that came.
        received: u64,
        /// Those that were validated.
        validated: u64,
        /// Those that left.
        transmitted: u64,
        /// Those that were dropped.
        dropped: u64,
    },
    /// The running gateway did something else with packets than was expected.
    #[error("the running gateway {0}")]
    Running(String),
}

/// Figure 8: all mechanisms with 1,000 source prefixes, IPv6 first.
///
/// # Errors
/// When there is no room, or packets do not go where they should.
pub fn mechanisms(real: &Prefixes, effort: &Effort) -> Result<Vec<Scale>, SavError> {
    const WAYS: [Way; 8] = [
        Way::Acl,
        Way::UrpfStrict,
        Way::UrpfLoose,
        Way::TableMostSpecific,
        Way::UrpfFeasible,
        Way::TableAnyCovering,
        Way::CardsSerial,
        Way::CardsParallel,
    ];
    let draft = |way| match way {
        Way::Acl => Some(96.6),
        Way::UrpfStrict | Way::UrpfLoose => Some(94.4),
        Way::TableMostSpecific => Some(94.5),
        _ => None,
    };
    Ok(vec![
        cost::scale::<u128>(1000, &WAYS, draft, u128::of(real), effort)?,
        cost::scale::<u32>(1000, &WAYS, draft, u32::of(real), effort)?,
    ])
}

/// Figure 10: tables, and strict uRPF beside them, with 1,000 to 1,000,000 source prefixes, IPv6 first.
///
/// # Errors
/// When there is no room, or packets do not go where they should.
pub fn scales(real: &Prefixes, effort: &Effort) -> Result<Vec<Scale>, SavError> {
    fn family<K: Ip>(real: &[Prefix<K>], effort: &Effort) -> Result<Vec<Scale>, SavError> {
        const WAYS: [Way; 6] = [
            Way::CardsSerial,
            Way::CardsParallel,
            Way::TableAnyCovering,
            Way::TableMostSpecific,
            Way::TableHits,
            Way::UrpfStrict,
        ];
        let counts = [1_000, 10_000, 100_000, 1_000_000].into_iter().filter(|&count| count <= effort.prefixes);
        counts
            .map(|count| {
                let drafts = |way| matches!(way, Way::CardsSerial | Way::CardsParallel) && count <= 100_000;
                cost::scale::<K>(count, &WAYS, |way| drafts(way).then_some(94.5), real, effort)
            })
            .collect()
    }
    let mut all = family(u128::of(real), effort)?;
    all.extend(family(u32::of(real), effort)?);
    Ok(all)
}

pub use flood::measure as floods;
pub use update::measure as updates;
