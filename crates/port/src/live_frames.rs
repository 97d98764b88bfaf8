//! Frames from memory by XDP, as a network card delivers them: in batches, without a socket.
//!
//! A sender for measurements. The kernel copies one frame and passes the copies to a bpf(2) program
//! (`BPF_PROG_TEST_RUN` with live frames, Linux 5.18). The program rewrites the headers, sets a source port and
//! redirects the copy to a device. The kernel reuses the pages, which may hold changes of earlier receivers.
//!
//! The other end of a veth accepts such frames only while it runs a program itself or has GRO on: [`Taking`] runs one.

use std::io;
use std::os::fd::OwnedFd;

use crate::links::{Device, LinksError};
use crate::sys::bpf::Program;

/// Octets at the start of a frame that the program rewrites: Ethernet, IPv4 and the UDP ports.
const HEADERS: usize = 40;
/// Offset of the source port.
const SOURCE_PORT: usize = 34;
const FIRST_PORT: u32 = 1024;

/// Reason why no frames can be sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LiveFramesError {
    /// The device does not exist.
    #[error("there is no network device {name:?} in this network namespace")]
    NoDevice {
        /// Its name.
        name: String,
    },
    /// The devices cannot be read.
    #[error(transparent)]
    Links(#[from] LinksError),
    /// The kernel refused.
    #[error("{what}: {error} (this needs Linux 5.18 with bpf(2), CAP_NET_ADMIN and CAP_BPF)")]
    System {
        /// The refused operation.
        what: &'static str,
        /// The error.
        error: io::Error,
    },
}

fn refused(what: &'static str) -> impl Fn(io::Error) -> LiveFramesError {
    move |error| LiveFramesError::System { what, error }
}

/// Sends copies of a frame through a device.
#[derive(Debug)]
pub struct LiveFrames {
    program: Program,
    frame: Vec<u8>,
}

impl LiveFrames {
    /// Prepares copies of a UDP frame over IPv4 in `flows` flows, through a device of the calling thread's network
    /// namespace. The frame has no IP options and a UDP checksum of 0.
    ///
    /// # Errors
    /// If the device does not exist, or the kernel refuses the program.
    ///
    /// # Panics
    /// If the frame is shorter than its headers.
    pub fn open(device: &str, frame: &[u8], flows: u16) -> Result<LiveFrames, LiveFramesError> {
        let program = program(index(device)?, frame, flows);
        let program = Program::load(&program).map_err(refused("loading a program for XDP"))?;
        Ok(LiveFrames { program, frame: frame.to_vec() })
    }

    /// Sends `copies` copies.
    ///
    /// # Errors
    /// If the kernel does not support live frames.
    pub fn send(&self, copies: u32) -> Result<(), LiveFramesError> {
        match self.program.run(&self.frame, copies) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(refused("sending XDP frames")(error)),
            _ => Ok(()),
        }
    }
}

/// Makes a veth accept XDP frames from its other end until dropped.
#[derive(Debug)]
pub struct Taking(#[expect(dead_code, reason = "closed when dropped")] OwnedFd);

impl Taking {
    /// Starts for a device of the calling thread's network namespace.
    ///
    /// # Errors
    /// If the device does not exist, or refuses the program.
    pub fn by(device: &str) -> Result<Taking, LiveFramesError> {
        let program = Program::load(&[set(0, PASS), EXIT]).map_err(refused("loading a program for XDP"))?;
        program.attach(index(device)?).map(Taking).map_err(refused("attaching a program for XDP"))
    }
}

fn index(device: &str) -> Result<u32, LiveFramesError> {
    let found = Device::named(device)?;
    found.map(|device| device.index).ok_or_else(|| LiveFramesError::NoDevice { name: device.to_owned() })
}

/// Results of a program.
const DROP: i32 = 1;
const PASS: i32 = 2;
/// Functions that a program calls.
const RANDOM: i32 = 7;
const REDIRECT: i32 = 23;

/// The end of a program, which returns register 0.
const EXIT: u64 = 0x95;

/// Encodes an instruction: operation, destination and source register, offset, number.
const fn instruction(code: u8, to: u8, from: u8, offset: i16, number: i32) -> u64 {
    code as u64 | (to as u64) << 8 | (from as u64) << 12 | (offset as u16 as u64) << 16 | (number as u32 as u64) << 32
}

/// Register `to` = number.
const fn set(to: u8, number: i32) -> u64 {
    instruction(0xb7, to, 0, 0, number)
}

/// Returns the program: frame[0 .. HEADERS] = headers; source port = FIRST_PORT + random % flows; redirect to the
/// device.
fn program(device: u32, frame: &[u8], flows: u16) -> Vec<u64> {
    let mut program = vec![
        // r6 = start of the frame, r2 = its end; r3 = r6 + HEADERS.
        instruction(0x61, 6, 1, 0, 0),
        instruction(0x61, 2, 1, 4, 0),
        instruction(0xbf, 3, 6, 0, 0),
        instruction(0x07, 3, 0, 0, HEADERS as i32),
    ];
    let check = program.len();
    let (words, _) = frame[..HEADERS].as_chunks::<8>();
    for (number, &octets) in words.iter().enumerate() {
        let word = u64::from_ne_bytes(octets);
        // r1 = eight octets, in two parts; written at r6.
        program.push(instruction(0x18, 1, 0, 0, word as i32));
        program.push(instruction(0, 0, 0, 0, (word >> 32) as i32));
        program.push(instruction(0x7b, 6, 1, 8 * number as i16, 0));
    }
    program.extend([
        instruction(0x85, 0, 0, 0, RANDOM),
        // r0 %= flows; r0 += FIRST_PORT; in network order.
        instruction(0x97, 0, 0, 0, i32::from(flows.max(1))),
        instruction(0x07, 0, 0, 0, FIRST_PORT as i32),
        instruction(0xdc, 0, 0, 0, 16),
        instruction(0x6b, 6, 0, SOURCE_PORT as i16, 0),
        set(1, device as i32),
        set(2, 0),
        instruction(0x85, 0, 0, 0, REDIRECT),
        EXIT,
    ]);
    // If r3 > r2, the frame has no room for headers; the verifier requires this check.
    let rest = program.len() - check;
    program.insert(check, instruction(0x2d, 3, 2, rest as i16, 0));
    program.extend([set(0, DROP), EXIT]);
    program
}
