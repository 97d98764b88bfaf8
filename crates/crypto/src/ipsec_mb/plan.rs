//! The work on a packet before and behind that of the library.

use zeroize::Zeroize as _;

use super::key::{Key, Kind};
use crate::aws_lc::{AwsLc, equal};
use crate::engine::Engine as _;
use crate::job::{Failure, Job};
use crate::key::{self as any, State};

/// The longest packet that the library gets, in octets. Its lanes count in 16 bits.
const LONGEST: usize = 32_768;

/// The longest header of AES-CCM that the library takes, in octets.
const LONGEST_CCM_HEADER: usize = 46;

/// The octets of a job that the library reads or writes beside the packet.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub(super) struct Scratch {
    /// Salt and IV, or the first counter block.
    pub(super) nonce: [u8; 16],
    /// SPI and sequence number, extended.
    pub(super) header: [u8; 12],
    /// The octets of the packet in whose place the high half of the sequence number is hashed.
    pub(super) displaced: [u8; 4],
    /// The ICV as the library computes it.
    pub(super) icv: [u8; 32],
    /// Whether the library has done the job.
    pub(super) done: bool,
}

impl Scratch {
    pub(super) const EMPTY: Scratch =
        Scratch { nonce: [0; 16], header: [0; 12], displaced: [0; 4], icv: [0; 32], done: false };
}

/// The work of the library on a packet. All offsets lie within the packet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    /// The first octet of the text.
    pub(super) begin: usize,
    /// The octet behind the text.
    pub(super) end: usize,
    /// With an HMAC: the octets that are hashed, from the first of the packet on.
    pub(super) hashed: usize,
    /// The octets of the nonce.
    pub(super) nonce: usize,
    /// Whether the extended header in the scratch is authenticated, rather than the packet's.
    pub(super) extended: bool,
}

/// Plans a job of this engine, and writes the scratch. A failure leaves the packet as it is.
pub(super) fn plan(job: &mut Job<'_>, key: &Key, scratch: &mut Scratch) -> Result<Plan, Failure> {
    let algorithm = job.key.algorithm();
    let (begin, end) = job.text(algorithm.iv_octets(), algorithm.icv_octets(), algorithm.block_octets())?;
    let iv = &job.packet[begin - algorithm.iv_octets()..begin];
    let salt = key.salt();
    let nonce = salt.len() + iv.len();
    scratch.nonce[..salt.len()].copy_from_slice(salt);
    scratch.nonce[salt.len()..nonce].copy_from_slice(iv);
    let mut plan = Plan { begin, end, hashed: 0, nonce, extended: false };
    if algorithm.hmac().is_some() {
        plan.hashed = end;
        if let Some(high) = job.high {
            // The high half is hashed behind the text (RFC 4303, 2.2.1), where the ICV belongs.
            let place = &mut job.packet[end..end + 4];
            scratch.displaced.copy_from_slice(place);
            place.copy_from_slice(&high.to_be_bytes());
            plan.hashed += 4;
        }
    } else if let Some(high) = job.high {
        scratch.header[..4].copy_from_slice(&job.packet[..4]);
        scratch.header[4..8].copy_from_slice(&high.to_be_bytes());
        scratch.header[8..].copy_from_slice(&job.packet[4..8]);
        plan.extended = true;
    }
    Ok(plan)
}

/// Returns true if the library takes a packet of this length and header.
pub(super) fn fits(job: &Job<'_>, key: &Key) -> bool {
    let ccm = key.kind() == Kind::Ccm;
    job.packet.len() <= LONGEST && (!ccm || job.header as usize <= LONGEST_CCM_HEADER)
}

/// Ends a job on which the library has worked: writes or compares the ICV.
pub(super) fn finish<const SEAL: bool>(job: &mut Job<'_>, plan: Plan, scratch: &Scratch) -> Result<(), Failure> {
    let algorithm = job.key.algorithm();
    restore(job, plan, scratch);
    let computed = &scratch.icv[..algorithm.icv_octets()];
    let (text, icv) = job.packet[plan.begin..].split_at_mut(plan.end - plan.begin);
    if SEAL {
        icv.copy_from_slice(computed);
        return Ok(());
    }
    if equal(computed, icv) {
        return Ok(());
    }
    if algorithm.is_confidential() {
        text.zeroize();
    }
    Err(Failure::Forged)
}

/// Puts the octets back in whose place the high half of the sequence number was hashed.
pub(super) fn restore(job: &mut Job<'_>, plan: Plan, scratch: &Scratch) {
    if plan.hashed > plan.end {
        job.packet[plan.end..plan.hashed].copy_from_slice(&scratch.displaced);
    }
}

/// Works on a job by `aws-lc`, as the library does not take it.
#[cold]
pub(super) fn elsewhere<const SEAL: bool>(job: &mut Job<'_>, key: &Key) {
    let own = any::Key::with(job.key.algorithm(), State::AwsLc(key.elsewhere()));
    let mut other = [Job { key: &own, packet: job.packet, ..*job }];
    if SEAL {
        AwsLc.seal(&mut other);
    } else {
        AwsLc.open(&mut other);
    }
    job.result = other[0].result;
}

/// Returns the job's key, if it is one of this engine.
pub(super) fn own<'a>(job: &Job<'a>) -> Option<&'a Key> {
    match &job.key.state {
        State::IpsecMb(key) => Some(key),
        _ => None,
    }
}
