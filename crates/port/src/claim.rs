//! Claims on kernel devices: one gateway for each device.
//!
//! Two gateways on one device would both receive and forward every packet. The kernel allows it, as it allows
//! `tcpdump`. So a gateway claims a device by a listening socket with an abstract name (unix(7)), derived from the
//! device's name. Abstract names belong to the network namespace, as devices do. The kernel closes the socket however
//! the process ends, and no folder has to be writable.
//!
//! Any user of the namespace can take such a name and prevent a gateway from starting. The error names the process that
//! holds the claim. A running gateway is not affected.

use std::io::{self, ErrorKind};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustix::net::sockopt::socket_peercred;

/// A claim. Ends when its last copy is dropped, or with the process.
#[derive(Debug)]
pub(crate) struct Claim(#[expect(dead_code, reason = "it is held, not used")] Arc<UnixListener>);

/// The claims of this process: network namespace, device, socket. Two ports share a claim while a reload replaces one
/// by the other on the same device.
static OURS: Mutex<Vec<(u64, String, Weak<UnixListener>)>> = Mutex::new(Vec::new());

/// Reason why a device cannot be claimed.
#[derive(Debug)]
pub(crate) enum Unclaimed {
    /// Another process holds the claim; `None` if it is not known.
    Held(Option<Holder>),
    /// The system refused.
    System(io::Error),
}

/// A process that holds a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Process ID.
    pub process: i32,
    /// Name of its program; empty if unknown.
    pub program: String,
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "process {}", self.process)?;
        if self.program.is_empty() { Ok(()) } else { write!(f, ", {}", self.program) }
    }
}

impl Claim {
    /// Claims a device by its kernel name.
    pub(crate) fn device(name: &str) -> Result<Claim, Unclaimed> {
        let namespace = std::fs::metadata("/proc/thread-self/ns/net").map_or(0, |namespace| namespace.ino());
        // The list is consistent after a panic.
        let mut ours = OURS.lock().unwrap_or_else(PoisonError::into_inner);
        ours.retain(|(_, _, socket)| socket.strong_count() > 0);
        let known = ours.iter().find(|(space, device, _)| *space == namespace && device == name);
        if let Some(socket) = known.and_then(|(_, _, socket)| socket.upgrade()) {
            return Ok(Claim(socket));
        }
        let address = SocketAddr::from_abstract_name(format!("weir/device/{name}")).map_err(Unclaimed::System)?;
        match UnixListener::bind_addr(&address) {
            Ok(socket) => {
                let socket = Arc::new(socket);
                ours.push((namespace, name.to_owned(), Arc::downgrade(&socket)));
                Ok(Claim(socket))
            }
            Err(error) if error.kind() == ErrorKind::AddrInUse => Err(Unclaimed::Held(listener(&address))),
            Err(error) => Err(Unclaimed::System(error)),
        }
    }
}

/// Returns the process that holds the claim on a device; `None` if no other process is known to.
#[must_use]
pub fn holder(device: &str) -> Option<Holder> {
    let address = SocketAddr::from_abstract_name(format!("weir/device/{device}")).ok()?;
    listener(&address)
}

/// Returns the process that listens on an address. It accepts no connection: once its queue is full, its number is not
/// reported.
fn listener(address: &SocketAddr) -> Option<Holder> {
    let socket = rustix::net::socket_with(
        rustix::net::AddressFamily::UNIX,
        rustix::net::SocketType::STREAM,
        rustix::net::SocketFlags::CLOEXEC | rustix::net::SocketFlags::NONBLOCK,
        None,
    )
    .ok()?;
    let name = rustix::net::SocketAddrUnix::new_abstract_name(address.as_abstract_name()?).ok()?;
    rustix::net::connect(&socket, &name).ok()?;
    let process = socket_peercred(socket).ok()?.pid.as_raw_nonzero().get();
    let program = std::fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    Some(Holder { process, program: program.trim().escape_debug().to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Abstract names belong to the namespace: those of tests are of no device.
    fn name(test: &str) -> String {
        format!("{test}-{}", std::process::id())
    }

    #[test]
    fn a_claim_ends_with_its_last_copy() {
        let name = name("copies");
        let first = Claim::device(&name).unwrap();
        let second = Claim::device(&name).unwrap();
        let other = Claim::device(&format!("{name}-other")).unwrap();
        drop((first, other));
        let address = SocketAddr::from_abstract_name(format!("weir/device/{name}")).unwrap();
        assert_eq!(UnixListener::bind_addr(&address).unwrap_err().kind(), ErrorKind::AddrInUse);
        drop(second);
        assert!(UnixListener::bind_addr(&address).is_ok());
    }

    #[test]
    fn the_holder_of_a_claim_is_named() {
        let name = name("holder");
        // A socket that this module knows nothing of, as one of another process.
        let address = SocketAddr::from_abstract_name(format!("weir/device/{name}")).unwrap();
        let _other = UnixListener::bind_addr(&address).unwrap();
        for _ in 0..3 {
            let Err(Unclaimed::Held(Some(holder))) = Claim::device(&name) else { panic!("it is held") };
            assert_eq!(holder.process, std::process::id() as i32);
            assert!(!holder.program.is_empty());
            assert!(holder.to_string().starts_with(&format!("process {}, ", holder.process)));
        }
    }
}
