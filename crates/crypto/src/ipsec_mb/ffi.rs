//! The library's functions and structures. All `unsafe` code of the engine is here.
//!
//! Structures are those of version 1.3.0, and no other version is loaded. A manager belongs to one thread at a time. No
//! job outlives [`run`], which takes all of them out of the manager before it returns.

#![allow(unsafe_code)]

use std::cell::RefCell;
use std::ffi::{c_int, c_uint, c_void};
use std::marker::PhantomPinned;
use std::ptr::{self, NonNull};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;

use super::key::{Expanded, Gcm, Key, Kind, Room, Rounds};
use super::plan::{Plan, Scratch, elsewhere, finish, fits, own, plan, restore};
use crate::algorithm::{AesKey, Hmac};
use crate::engine::Missing;
use crate::job::{Failure, Job};

/// The names under which systems have the library. The last number is that of its binary interface.
const NAMES: [&str; 2] = ["libIPSec_MB.so.1", "libIPSec_MB.so.2"];

/// The version whose structures are declared here: 1.3.0.
const VERSION: u32 = 0x1_03_00;

/// The octets of a manager with all that belongs to it, as version 1.3.0 says.
const MANAGER_OCTETS: usize = 200_744;

/// Features of a manager: it wipes what it knows of keys and text, checks jobs, and has tested itself.
const SAFE_DATA: u64 = 1 << 14;
const SAFE_PARAM: u64 = 1 << 15;
const TESTED: u64 = 1 << 21;

/// The jobs that a manager takes before it gives one back.
const MOST: usize = 256;

/// `IMB_JOB`.
#[repr(C)]
struct ForeignJob {
    enc_keys: *const c_void,
    dec_keys: *const c_void,
    key_len: u64,
    src: *const u8,
    dst: *mut u8,
    cipher_offset: u64,
    cipher_len: u64,
    hash_offset: u64,
    hash_len: u64,
    iv: *const u8,
    iv_len: u64,
    tag: *mut u8,
    tag_len: u64,
    /// Inner and outer state of an HMAC; or authenticated data and their length.
    special: [u64; 3],
    status: c_int,
    cipher_mode: c_int,
    direction: c_int,
    hash: c_int,
    order: c_int,
    /// The scratch of the job.
    user_data: *mut Scratch,
    user_data2: usize,
    cipher_func: usize,
    hash_func: usize,
    sgl_state: c_int,
    cipher_fields: u64,
}

const _: () = assert!(size_of::<ForeignJob>() == 200);

const COMPLETED: c_int = 3;

const CIPHER_CBC: c_int = 1;
const CIPHER_COUNTER: c_int = 2;
const CIPHER_NULL: c_int = 3;
const CIPHER_GCM: c_int = 5;
const CIPHER_CCM: c_int = 9;
const CIPHER_CHACHA20_POLY1305: c_int = 19;

const ENCRYPT: c_int = 1;
const DECRYPT: c_int = 2;

const HASH_GCM: c_int = 9;
const HASH_CCM: c_int = 11;
const HASH_CHACHA20_POLY1305: c_int = 29;

const CIPHER_FIRST: c_int = 1;
const HASH_FIRST: c_int = 2;

type JobCall = unsafe extern "C" fn(*mut Manager) -> *mut ForeignJob;
type Expand = unsafe extern "C" fn(*const c_void, *mut c_void, *mut c_void);
type Block = unsafe extern "C" fn(*const c_void, *mut c_void);

/// The beginning of `IMB_MGR`. Managers are made by the library alone.
#[repr(C)]
struct Manager {
    flags: u64,
    features: u64,
    reserved: [u64; 5],
    used_arch: u32,
    errno: c_int,
    get_next_job: JobCall,
    submit_job: JobCall,
    submit_job_nocheck: JobCall,
    get_completed_job: JobCall,
    flush_job: JobCall,
    queue_size: unsafe extern "C" fn(*mut Manager) -> u32,
    /// Round keys of AES by 128, 192 and 256 bits.
    expand: [Expand; 3],
    cmac: Expand,
    xcbc: usize,
    des: usize,
    /// SHA-1, SHA-224, SHA-256, SHA-384 and SHA-512 of a block.
    hash_block: [Block; 5],
    others: [usize; 31],
    /// Keys of GCM by 128, 192 and 256 bits.
    expand_gcm: [Block; 3],
    _rest: PhantomPinned,
}

const _: () = {
    use std::mem::offset_of;
    assert!(offset_of!(Manager, get_next_job) == 64 && offset_of!(Manager, expand) == 112);
    assert!(offset_of!(Manager, hash_block) == 160 && offset_of!(Manager, expand_gcm) == 448);
};

/// The loaded library. It is never unloaded.
pub(super) struct Library {
    allocate: unsafe extern "C" fn(u64) -> *mut Manager,
    init: unsafe extern "C" fn(*mut Manager, *mut c_int),
    expand: [Expand; 3],
    hash_block: [Block; 5],
    expand_gcm: [Block; 3],
}

/// A manager with its scratch, for one thread at a time.
struct Lane {
    manager: NonNull<Manager>,
    scratch: Box<[Scratch; MOST]>,
    plans: Box<[Option<Plan>; MOST]>,
}

// SAFETY: The library keeps no state by thread; a manager may go from a thread to another one between its jobs.
unsafe impl Send for Lane {}

/// Loads the library once. Returns it, or why it is not used.
pub(super) fn library() -> &'static Result<Library, Missing> {
    static LIBRARY: OnceLock<Result<Library, Missing>> = OnceLock::new();
    LIBRARY.get_or_init(load)
}

fn load() -> Result<Library, Missing> {
    if cfg!(miri) {
        return Err(Missing::NotInstalled);
    }
    // SAFETY: The initialisers of this library look at the CPU alone.
    let found = NAMES.iter().find_map(|name| unsafe { libloading::Library::new(*name) }.ok());
    let library = Box::leak(Box::new(found.ok_or(Missing::NotInstalled)?));
    // SAFETY: The types are those of the library's header in version 1.3.0. The version is checked before any other
    // function is called; `imb_get_version` has had this type in all versions that have it.
    unsafe {
        let version =
            library.get::<unsafe extern "C" fn() -> c_uint>(b"imb_get_version\0").map_err(|_| Missing::Version(0))?;
        let version = version();
        if version != VERSION {
            return Err(Missing::Version(version));
        }
        let unknown = |_| Missing::Version(version);
        let size = library.get::<unsafe extern "C" fn() -> usize>(b"imb_get_mb_mgr_size\0").map_err(unknown)?;
        if size() != MANAGER_OCTETS {
            return Err(Missing::Layout);
        }
        let allocate = *library.get(b"alloc_mb_mgr\0").map_err(unknown)?;
        let init = *library.get(b"init_mb_mgr_auto\0").map_err(unknown)?;
        let first = make(allocate, init).ok_or(Missing::Layout)?;
        let manager = first.manager.as_ptr();
        let wanted = SAFE_DATA | SAFE_PARAM | TESTED;
        if (*manager).features & wanted != wanted {
            return Err(Missing::Unsafe);
        }
        let (expand, hash_block, expand_gcm) = ((*manager).expand, (*manager).hash_block, (*manager).expand_gcm);
        give_back(first);
        Ok(Library { allocate, init, expand, hash_block, expand_gcm })
    }
}

/// Makes a manager. `None` if there is no memory, or the library refuses.
///
/// # Safety
/// The functions are those of version 1.3.0.
unsafe fn make(
    allocate: unsafe extern "C" fn(u64) -> *mut Manager,
    init: unsafe extern "C" fn(*mut Manager, *mut c_int),
) -> Option<Lane> {
    let mut architecture = 0;
    // SAFETY: `init` gets a manager that `allocate` made. A structure of version 1.3.0 begins as `Manager` does.
    let manager = unsafe {
        let manager = NonNull::new(allocate(0))?;
        init(manager.as_ptr(), &raw mut architecture);
        if (*manager.as_ptr()).errno != 0 {
            return None;
        }
        manager
    };
    Some(Lane { manager, scratch: Box::new([const { Scratch::EMPTY }; MOST]), plans: Box::new([None; MOST]) })
}

/// The managers that no thread has.
static FREE: Mutex<Vec<Lane>> = Mutex::new(Vec::new());

fn give_back(lane: Lane) {
    FREE.lock().unwrap_or_else(PoisonError::into_inner).push(lane);
}

/// Makes a manager for each CPU, so that workers need not make one at their first batch.
pub(super) fn reserve(library: &Library) {
    static RESERVED: OnceLock<()> = OnceLock::new();
    RESERVED.get_or_init(|| {
        let count = thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..count {
            // SAFETY: The library has version 1.3.0.
            if let Some(lane) = unsafe { make(library.allocate, library.init) } {
                give_back(lane);
            }
        }
    });
}

/// The manager of a thread, which others get when the thread has ended.
struct Claim(Option<Lane>);

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(lane) = self.0.take() {
            give_back(lane);
        }
    }
}

thread_local! {
    static OWN: RefCell<Claim> = const { RefCell::new(Claim(None)) };
}

/// Returns a free manager, or a new one.
#[cold]
fn claim() -> Option<Lane> {
    let free = FREE.lock().unwrap_or_else(PoisonError::into_inner).pop();
    free.or_else(|| {
        let library = library().as_ref().ok()?;
        // SAFETY: The library has version 1.3.0.
        unsafe { make(library.allocate, library.init) }
    })
}

impl Library {
    /// Expands a key of AES for both directions.
    pub(super) fn expand_aes(&self, size: AesKey, key: &[u8], encrypt: &mut Rounds, decrypt: &mut Rounds) {
        assert_eq!(key.len(), size.octets(), "a key of this size");
        let expand = self.expand[place(size)];
        // SAFETY: The function reads the key, and writes at most 15 blocks into each place, both of which are aligned.
        unsafe { expand(key.as_ptr().cast(), encrypt.0.as_mut_ptr().cast(), decrypt.0.as_mut_ptr().cast()) }
    }

    /// Expands a key of AES-GCM.
    pub(super) fn expand_gcm(&self, size: AesKey, key: &[u8], room: &mut Gcm) {
        assert_eq!(key.len(), size.octets(), "a key of this size");
        let expand = self.expand_gcm[place(size)];
        // SAFETY: The function reads the key, and writes a `gcm_key_data` of 1008 octets, which is aligned to 64.
        unsafe { expand(key.as_ptr().cast(), room.0.as_mut_ptr().cast()) }
    }

    /// Hashes the first block of an HMAC.
    pub(super) fn hash_block(&self, hmac: Hmac, block: &[u8; 128], state: &mut Room<64>) {
        let hash = match hmac {
            Hmac::Sha1 => 0,
            Hmac::Sha256 => 2,
            Hmac::Sha384 => 3,
            Hmac::Sha512 => 4,
        };
        // SAFETY: The function reads a block of at most 128 octets, and writes a state of at most 64.
        unsafe { (self.hash_block[hash])(block.as_ptr().cast(), state.0.as_mut_ptr().cast()) }
    }
}

fn place(size: AesKey) -> usize {
    match size {
        AesKey::Aes128 => 0,
        AesKey::Aes192 => 1,
        AesKey::Aes256 => 2,
    }
}

/// Seals or opens packets.
pub(super) fn run<const SEAL: bool>(jobs: &mut [Job<'_>]) {
    OWN.with_borrow_mut(|own| {
        if own.0.is_none() {
            own.0 = claim();
        }
        for part in jobs.chunks_mut(MOST) {
            match &mut own.0 {
                Some(lane) => lane.run::<SEAL>(part),
                None => part.iter_mut().for_each(|job| otherwise::<SEAL>(job)),
            }
        }
    });
}

/// Works on a job without the library.
fn otherwise<const SEAL: bool>(job: &mut Job<'_>) {
    match own(job) {
        Some(key) => elsewhere::<SEAL>(job, key),
        None => job.result = Err(Failure::NotDone),
    }
}

/// Notes whether the library has done a job that it gives back. False if it gives none back.
///
/// # Safety
/// The job is one of a manager, and its scratch is alive.
unsafe fn note(job: *mut ForeignJob) -> bool {
    // SAFETY: As above.
    unsafe {
        let Some(job) = job.as_ref() else { return false };
        (*job.user_data).done = job.status == COMPLETED;
    }
    true
}

/// Hands a packet to the library.
///
/// # Safety
/// Packet, key and scratch are alive until the job is taken out of the manager, and nothing else touches packet and scratch.
/// The plan's offsets lie within the packet. The manager belongs to this thread.
unsafe fn submit<const SEAL: bool>(
    manager: NonNull<Manager>,
    job: &mut Job<'_>,
    key: &Key,
    plan: Plan,
    scratch: &mut Scratch,
) {
    let scratch = ptr::from_mut(scratch);
    let packet = job.packet.as_mut_ptr();
    let manager = manager.as_ptr();
    let (text, header) = (plan.end - plan.begin, job.header as usize);
    // SAFETY: As above. A manager always has a free job, as it gives one back when it is full.
    unsafe {
        let own = &mut *((*manager).get_next_job)(manager);
        own.user_data = scratch;
        own.src = packet;
        own.cipher_offset = plan.begin as u64;
        own.dst = packet.add(plan.begin);
        own.cipher_len = text as u64;
        own.hash_offset = plan.begin as u64;
        own.hash_len = text as u64;
        own.iv = (&raw const (*scratch).nonce).cast();
        own.iv_len = plan.nonce as u64;
        own.tag = (&raw mut (*scratch).icv).cast();
        own.tag_len = job.key.algorithm().icv_octets() as u64;
        own.key_len = key.octets() as u64;
        own.direction = if SEAL { ENCRYPT } else { DECRYPT };
        own.order = if SEAL { CIPHER_FIRST } else { HASH_FIRST };
        let authenticated = if plan.extended { (&raw const (*scratch).header).cast() } else { packet.cast_const() };
        let extended = if plan.extended { 12 } else { header };
        own.special = [authenticated as u64, extended as u64, 0];
        let schedules = match &key.expanded {
            Expanded::Gcm(room) => {
                own.enc_keys = room.0.as_ptr().cast();
                own.dec_keys = own.enc_keys;
                (own.cipher_mode, own.hash) = (CIPHER_GCM, HASH_GCM);
                note(((*manager).submit_job)(manager));
                return;
            }
            Expanded::Other(schedules) => schedules,
        };
        own.enc_keys = schedules.encrypt.0.as_ptr().cast();
        own.dec_keys = schedules.decrypt.0.as_ptr().cast();
        let hmac = match key.kind() {
            Kind::Ccm => {
                (own.cipher_mode, own.hash) = (CIPHER_CCM, HASH_CCM);
                // The text in clear is authenticated.
                own.order = if SEAL { HASH_FIRST } else { CIPHER_FIRST };
                None
            }
            Kind::Cbc(hmac) => {
                // The library takes no empty text, and nothing is to be encrypted then.
                own.cipher_mode = if text == 0 { CIPHER_NULL } else { CIPHER_CBC };
                Some(hmac)
            }
            Kind::Counter(hmac) => {
                own.cipher_mode = if text == 0 { CIPHER_NULL } else { CIPHER_COUNTER };
                Some(hmac)
            }
            Kind::Null(hmac) => {
                own.cipher_mode = CIPHER_NULL;
                Some(hmac)
            }
            Kind::ChaCha20Poly1305 | Kind::Gcm => {
                (own.cipher_mode, own.hash) = (CIPHER_CHACHA20_POLY1305, HASH_CHACHA20_POLY1305);
                None
            }
        };
        if let Some(hmac) = hmac {
            own.hash = match hmac {
                Hmac::Sha1 => 1,
                Hmac::Sha256 => 3,
                Hmac::Sha384 => 4,
                Hmac::Sha512 => 5,
            };
            own.hash_offset = 0;
            own.hash_len = plan.hashed as u64;
            let pads = &schedules.pads;
            own.special = [pads.inner.0.as_ptr() as u64, pads.outer.0.as_ptr() as u64, 0];
        }
        note(((*manager).submit_job)(manager));
    }
}

/// Takes all jobs out of a manager when it is dropped, so that the manager never has one whose packet is gone.
struct Emptied(NonNull<Manager>);

impl Drop for Emptied {
    fn drop(&mut self) {
        let manager = self.0.as_ptr();
        // SAFETY: The manager is one of version 1.3.0 and belongs to this thread. Packets, keys and scratch of its jobs
        // are alive.
        unsafe { while note(((*manager).flush_job)(manager)) {} }
    }
}

impl Lane {
    /// Seals or opens at most [`MOST`] packets.
    fn run<const SEAL: bool>(&mut self, jobs: &mut [Job<'_>]) {
        let Lane { manager, scratch, plans } = self;
        let emptied = Emptied(*manager);
        for ((job, scratch), planned) in jobs.iter_mut().zip(&mut **scratch).zip(&mut **plans) {
            *planned = None;
            let Some(key) = own(job) else {
                job.result = Err(Failure::NotDone);
                continue;
            };
            if !fits(job, key) {
                elsewhere::<SEAL>(job, key);
                continue;
            }
            match plan(job, key, scratch) {
                Err(failure) => job.result = Err(failure),
                Ok(plan) => {
                    *planned = Some(plan);
                    scratch.done = false;
                    // SAFETY: Packet, key and scratch stay where they are, and nothing else touches packet and scratch
                    // until `emptied` is dropped. The plan's offsets lie within the packet.
                    unsafe { submit::<SEAL>(*manager, job, key, plan, scratch) };
                }
            }
        }
        drop(emptied);
        for ((job, scratch), plan) in jobs.iter_mut().zip(&**scratch).zip(&**plans) {
            let Some(plan) = *plan else { continue };
            if scratch.done {
                job.result = finish::<SEAL>(job, plan, scratch);
            } else {
                // The library has refused the job, and left the packet as it is.
                restore(job, plan, scratch);
                otherwise::<SEAL>(job);
            }
        }
    }
}
