//! Sockets on ports that tests choose.
//!
//! A process that another test begins has copies of all sockets until it executes its program: a port that is closed stays taken
//! until then.

use std::io::{self, ErrorKind};
use std::net::{TcpListener, ToSocketAddrs, UdpSocket};
use std::time::{Duration, Instant};

/// Binds a datagram socket of the host whose thread calls this.
///
/// # Panics
/// When the address is not the host's, or the port stays taken.
#[track_caller]
pub(crate) fn bound(on: impl ToSocketAddrs) -> UdpSocket {
    when_free(|| UdpSocket::bind(&on))
}

/// Listens for TCP on the host whose thread calls this.
///
/// # Panics
/// As [`bound`].
#[track_caller]
pub(crate) fn listening(on: impl ToSocketAddrs) -> TcpListener {
    when_free(|| TcpListener::bind(&on))
}

#[track_caller]
fn when_free<T>(bind: impl Fn() -> io::Result<T>) -> T {
    let last = Instant::now() + Duration::from_secs(5);
    loop {
        match bind() {
            Err(error) if error.kind() == ErrorKind::AddrInUse && Instant::now() < last => {
                std::thread::sleep(Duration::from_millis(20));
            }
            bound => break bound.expect("the address is there, and the port free"),
        }
    }
}
