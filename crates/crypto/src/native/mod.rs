//! The engines `native-avx512` and `native-avx2`: AES-GCM and AES-GMAC in vector instructions of x86-64.
//!
//! [`wide`] has the operations on vectors, [`gcm`] the kernel, [`schedule`] expanded keys. This file finds out what the
//! CPU has, and turns jobs into calls of the kernel.

#![allow(unsafe_code)]

mod block;
mod chunks;
mod gcm;
mod key;
mod message;
mod run;
mod schedule;
mod several;
mod wide;

use std::mem::MaybeUninit;
use std::ptr;

use weir_base::prefetch;
use zeroize::Zeroize as _;

use crate::agreement::agrees;
use crate::algorithm::Algorithm;
use crate::engine::{Engine, Missing};
use crate::job::{Failure, Job};
use crate::key::{self as any, State};
use crate::secret::{KeyError, Secret};
pub(crate) use key::{Key, Native};
use message::{ESP, IV, authenticated_only, counter, settle, with_header, words};
use wide::{Four, Two, Wide};

static AVX512: Native = Native::Avx512;
static AVX2: Native = Native::Avx2;

/// Returns the engine of a width.
pub(crate) fn engine(native: Native) -> &'static Native {
    match native {
        Native::Avx512 => &AVX512,
        Native::Avx2 => &AVX2,
    }
}

/// Returns the engines of both widths, the wider first, whose instructions the CPU has.
pub(crate) fn widths() -> impl Iterator<Item = &'static Native> {
    [&AVX512, &AVX2].into_iter().filter(|native| native.has_instructions())
}

/// Returns the engines of both widths, the wider first, and why the CPU does not have one: a width counts once it has sealed and
/// opened packets as `aws-lc` does.
pub(crate) fn detected() -> [(&'static Native, Option<Missing>); 2] {
    [&AVX512, &AVX2].map(|native| {
        let missing = if !native.has_instructions() {
            Some(Missing::Instructions)
        } else if !agrees(native, |algorithm, secret| native.key(algorithm, secret)) {
            Some(Missing::Agreement)
        } else {
            None
        };
        (native, missing)
    })
}

impl Engine for Native {
    fn name(&self) -> &'static str {
        Native::name(*self)
    }

    fn about(&self) -> &'static str {
        match self {
            Native::Avx512 => "AES-GCM in AVX-512, VAES and VPCLMULQDQ",
            Native::Avx2 => "AES-GCM in AVX2, VAES and VPCLMULQDQ",
        }
    }

    fn supports(&self, algorithm: Algorithm) -> bool {
        matches!(algorithm, Algorithm::AesGcm(..) | Algorithm::AesGmac(_))
    }

    fn key(&self, algorithm: Algorithm, secret: &Secret) -> Result<any::Key, KeyError> {
        if !self.supports(algorithm) {
            return Err(KeyError::Unsupported { engine: self.name(), algorithm });
        }
        let key = Key::new(*self, algorithm, secret)?;
        Ok(any::Key::with(algorithm, State::Native(key)))
    }

    fn seal(&self, jobs: &mut [Job<'_>]) {
        // SAFETY: A value of `Native` proves that the CPU has the instructions.
        unsafe {
            match self {
                Native::Avx512 => seal_avx512(jobs),
                Native::Avx2 => seal_avx2(jobs),
            }
        }
    }

    fn open(&self, jobs: &mut [Job<'_>]) {
        // SAFETY: A value of `Native` proves that the CPU has the instructions.
        unsafe {
            match self {
                Native::Avx512 => open_avx512(jobs),
                Native::Avx2 => open_avx2(jobs),
            }
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2,vaes,vpclmulqdq,aes,pclmulqdq,sse4.1")]
fn seal_avx512(jobs: &mut [Job<'_>]) {
    // SAFETY: The function has the instructions.
    unsafe { batch::<Four, true>(Native::Avx512, jobs) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2,vaes,vpclmulqdq,aes,pclmulqdq,sse4.1")]
fn open_avx512(jobs: &mut [Job<'_>]) {
    // SAFETY: The function has the instructions.
    unsafe { batch::<Four, false>(Native::Avx512, jobs) }
}

#[target_feature(enable = "avx2,vaes,vpclmulqdq,aes,pclmulqdq,sse4.1")]
fn seal_avx2(jobs: &mut [Job<'_>]) {
    // SAFETY: The function has the instructions.
    unsafe { batch::<Two, true>(Native::Avx2, jobs) }
}

#[target_feature(enable = "avx2,vaes,vpclmulqdq,aes,pclmulqdq,sse4.1")]
fn open_avx2(jobs: &mut [Job<'_>]) {
    // SAFETY: The function has the instructions.
    unsafe { batch::<Two, false>(Native::Avx2, jobs) }
}

/// The number of jobs by which schedules are prefetched ahead; keys, which point to them, twice as many.
const AHEAD: usize = 4;

/// Works on all jobs. Jobs that are alike and follow each other form a run.
///
/// # Safety
/// The CPU has the instructions of `native`, which are those of `W`.
#[inline(always)]
unsafe fn batch<W: Wide, const SEAL: bool>(native: Native, mut jobs: &mut [Job<'_>]) {
    while let Some(first) = jobs.first() {
        let key = match &first.key.state {
            State::Native(key) if W::BLOCKS == 4 && is_usual(native, key, first) => Some(key),
            _ => None,
        };
        let count = key.map_or(1, |_| alike(jobs));
        prefetch_behind(jobs, count - 1);
        let (these, rest) = jobs.split_at_mut(count);
        // SAFETY: As above.
        unsafe {
            let done = key.map_or(0, |key| run::all::<SEAL>(key, these));
            for job in &mut these[done..] {
                job.result = one::<W, SEAL>(native, job);
            }
        }
        jobs = rest;
    }
}

/// Prefetches keys of jobs behind one.
#[inline(always)]
fn prefetch_behind(jobs: &[Job<'_>], number: usize) {
    if let Some(next) = jobs.get(number + 2 * AHEAD) {
        prefetch::read(next.key);
    }
    if let Some(next) = jobs.get(number + AHEAD)
        && !ptr::eq(next.key, jobs[number].key)
        && let State::Native(key) = &next.key.state
    {
        key.prefetch(next.packet.len());
    }
}

/// A packet of ESP is encrypted, and has room for all of its parts.
#[inline(always)]
fn is_usual(native: Native, key: &Key, job: &Job<'_>) -> bool {
    let is_whole = job.text(IV, usize::from(key.icv), 1).is_ok();
    is_whole && key.native == native && !key.gmac && job.header as usize == ESP
}

/// Returns how many of the first jobs have the key and the lengths of the first one.
#[inline(always)]
fn alike(jobs: &[Job<'_>]) -> usize {
    let is_alike = |one: &Job<'_>, other: &Job<'_>| {
        ptr::eq(one.key, other.key)
            && one.packet.len() == other.packet.len()
            && one.header == other.header
            && one.high.is_some() == other.high.is_some()
    };
    jobs.iter().position(|job| !is_alike(&jobs[0], job)).unwrap_or(jobs.len())
}

/// Works on a job.
///
/// # Safety
/// As in [`batch`].
#[inline(always)]
unsafe fn one<W: Wide, const SEAL: bool>(native: Native, job: &mut Job<'_>) -> Result<(), Failure> {
    let State::Native(key) = &job.key.state else { return Err(Failure::NotDone) };
    if key.native != native {
        return Err(Failure::NotDone);
    }
    let (begin, end) = job.text(IV, usize::from(key.icv), 1)?;
    let mut room = Room::new();
    // SAFETY: The CPU has the instructions. The kernel gets text that lies within the packet. If the 16 octets before
    // its end do not, the text is in the room.
    let tag = unsafe {
        let counter = counter(key, job, begin);
        let is_short = !key.gmac && end < 16;
        // One call, as the kernel is large.
        let (message, text, n) = if key.gmac {
            (authenticated_only(key, counter, job, end), ptr::null_mut(), 0)
        } else if is_short {
            (with_header(key, counter, job), room.enter(&job.packet[begin..end]), end - begin)
        } else {
            (with_header(key, counter, job), job.packet.as_mut_ptr().add(begin), end - begin)
        };
        let tag = gcm::crypt::<W, SEAL>(&key.schedule, usize::from(key.rounds), message, text, n);
        if is_short {
            room.leave(&mut job.packet[begin..end]);
        }
        words(tag)
    };
    settle::<SEAL>(key, job, (begin, end), tag)
}

/// Room for text that has no 16 octets before its end, as its header is shorter than that of ESP.
struct Room(MaybeUninit<[u8; 32]>);

impl Room {
    /// A room that nothing was written to: most packets do not need it.
    #[inline(always)]
    fn new() -> Room {
        Room(MaybeUninit::uninit())
    }

    /// Copies text of fewer than 16 octets, and returns its place, which has 16 octets before it.
    #[cold]
    fn enter(&mut self, text: &[u8]) -> *mut u8 {
        let room = self.0.write([0; 32]);
        room[16..16 + text.len()].copy_from_slice(text);
        room[16..].as_mut_ptr()
    }

    /// Copies the text back, and wipes it here.
    ///
    /// # Safety
    /// Text of this length has entered.
    #[cold]
    unsafe fn leave(&mut self, text: &mut [u8]) {
        // SAFETY: `enter` has written the room.
        let room = unsafe { self.0.assume_init_mut() };
        text.copy_from_slice(&room[16..16 + text.len()]);
        room.zeroize();
    }
}
