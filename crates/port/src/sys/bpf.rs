//! XDP programs (bpf(2)): system calls without a safe wrapper.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const PROG_LOAD: i32 = 5;
const PROG_TEST_RUN: i32 = 10;
const LINK_CREATE: i32 = 28;

const PROG_TYPE_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
/// Flag: a test run sends real frames, as the program directs.
const LIVE_FRAMES: u32 = 1 << 1;
/// Frames per batch of a test run.
const BATCH: u32 = 64;

/// Fields of `union bpf_attr` that the calls read; missing ones count as zeros.
#[repr(C)]
struct Load {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
}

#[repr(C)]
struct Attach {
    prog_fd: u32,
    target_ifindex: u32,
    attach_type: u32,
    flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct TestRun {
    prog_fd: u32,
    retval: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    ctx_size_in: u32,
    ctx_size_out: u32,
    ctx_in: u64,
    ctx_out: u64,
    flags: u32,
    cpu: u32,
    batch_size: u32,
    padding: u32,
}

const _: () = assert!(size_of::<Load>() == 24 && size_of::<Attach>() == 16 && size_of::<TestRun>() == 80);

/// A program that the kernel has verified.
#[derive(Debug)]
pub(crate) struct Program(OwnedFd);

impl Program {
    /// Loads a program of instructions (`struct bpf_insn`, in the byte order of the machine).
    ///
    /// # Errors
    /// If the process lacks the privilege (`EPERM`), or the verifier refuses the program.
    pub(crate) fn load(instructions: &[u64]) -> io::Result<Program> {
        let attributes = Load {
            prog_type: PROG_TYPE_XDP,
            insn_cnt: instructions.len() as u32,
            insns: instructions.as_ptr() as u64,
            license: c"GPL".as_ptr() as u64,
        };
        // SAFETY: instructions and license live for the call, and the kernel reads no more of them than there is.
        let descriptor = unsafe { bpf(PROG_LOAD, &attributes) }?;
        // SAFETY: a new descriptor without another owner.
        Ok(Program(unsafe { OwnedFd::from_raw_fd(descriptor) }))
    }

    /// Makes a device run the program for every received frame until the descriptor is closed.
    ///
    /// # Errors
    /// If the device does not exist or has a program.
    pub(crate) fn attach(&self, device: u32) -> io::Result<OwnedFd> {
        let prog_fd = self.0.as_raw_fd() as u32;
        let attributes = Attach { prog_fd, target_ifindex: device, attach_type: ATTACH_XDP, flags: 0 };
        // SAFETY: plain numbers.
        let descriptor = unsafe { bpf(LINK_CREATE, &attributes) }?;
        // SAFETY: a new descriptor without another owner.
        Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
    }

    /// Runs the program on `copies` copies of a frame and sends them as it directs.
    ///
    /// # Errors
    /// If the kernel does not support it (before Linux 5.18), or a signal arrived.
    pub(crate) fn run(&self, frame: &[u8], copies: u32) -> io::Result<()> {
        let attributes = TestRun {
            prog_fd: self.0.as_raw_fd() as u32,
            data_size_in: frame.len() as u32,
            data_in: frame.as_ptr() as u64,
            repeat: copies,
            flags: LIVE_FRAMES,
            batch_size: BATCH,
            ..TestRun::default()
        };
        // SAFETY: the kernel reads the frame, within its length, during the call and writes nothing.
        unsafe { bpf(PROG_TEST_RUN, &attributes) }.map(drop)
    }
}

/// Calls bpf(2).
///
/// # Safety
/// The attributes are those of the command, and their pointers are valid for the call.
unsafe fn bpf<T>(command: i32, attributes: &T) -> io::Result<i32> {
    let attributes: *const T = attributes;
    // SAFETY: the attributes live for the call with their own length; the caller is responsible for their content.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attributes, size_of::<T>()) };
    // A descriptor, or a small number.
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}
