//! Echo requests of any size, many a second, each answer compared octet by octet.
//!
//! The kernel's ping sockets (`net.ipv4.ping_group_range`) do the ICMP: they number the sockets, make checksums and
//! hand us our answers only. `ping` itself is run where its own behaviour is of interest.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketType, ipproto, socket, sockopt};

use super::Space;

/// The largest echo payload that IPv4 carries: 65,535 octets less 20 of IPv4 and 8 of ICMP.
pub(crate) const MOST_ECHO: usize = 65_507;

/// A sender of echo requests to one address.
pub(crate) struct Echo {
    socket: UdpSocket,
    request: u8,
    reply: u8,
    sequence: u16,
    buffer: Vec<u8>,
}

impl Echo {
    /// Opens its socket, on the calling thread's host.
    ///
    /// # Errors
    /// As the kernel has them.
    pub(crate) fn new(target: IpAddr) -> io::Result<Echo> {
        let (family, protocol, request, reply) = match target {
            IpAddr::V4(_) => (AddressFamily::INET, ipproto::ICMP, 8, 0),
            IpAddr::V6(_) => (AddressFamily::INET6, ipproto::ICMPV6, 128, 129),
        };
        let socket = socket(family, SocketType::DGRAM, Some(protocol))?;
        sockopt::set_socket_send_buffer_size(&socket, 1 << 20)?;
        sockopt::set_socket_recv_buffer_size(&socket, 1 << 20)?;
        let socket = UdpSocket::from(socket);
        socket.connect(SocketAddr::new(target, 0))?;
        Ok(Echo { socket, request, reply, sequence: 0, buffer: vec![0; MOST_ECHO + 100] })
    }

    /// Sends one request with so many octets of payload and waits for its answer; returns the time it took.
    ///
    /// # Errors
    /// If there is no answer in time, or it differs from the request. Errors that the network reports are the kernel's:
    /// `EMSGSIZE` and so on.
    pub(crate) fn exchange(&mut self, size: usize, patience: Duration) -> io::Result<Duration> {
        self.sequence = self.sequence.wrapping_add(1);
        let sequence = self.sequence.to_be_bytes();
        let mut message = vec![self.request, 0, 0, 0, 0, 0, sequence[0], sequence[1]];
        // A prime period, so that fragments in the wrong place show.
        message.extend((0..size).map(|place| (place % 251) as u8));
        let start = Instant::now();
        self.socket.send(&message)?;
        loop {
            let left = patience.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.socket.set_read_timeout(Some(left))?;
            let length = match self.socket.recv(&mut self.buffer) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) => return Err(error),
            };
            let answer = &self.buffer[..length];
            if answer.len() < 8 || answer[0] != self.reply || answer[6..8] != sequence {
                continue;
            }
            let time = start.elapsed();
            if answer[8..] == message[8..] {
                return Ok(time);
            }
            return Err(io::Error::other(format!("{} octets came back of {size}, or others", answer.len() - 8)));
        }
    }
}

/// How long an answer may take, on a machine that has much else to do.
const PATIENCE: Duration = Duration::from_secs(20);

/// Sends an echo request of each size from a host; every one must be answered.
///
/// # Panics
/// When one is not.
#[track_caller]
pub(crate) fn echo(space: &Space, target: &str, sizes: impl IntoIterator<Item = usize> + Send) {
    let address: IpAddr = target.parse().expect("an address");
    let failed = space.enter(|| {
        let mut echo = Echo::new(address).expect("a ping socket");
        let exchange = |size| echo.exchange(size, PATIENCE).err().map(|error| format!("{size}: {error}"));
        // Enough to see what they have in common.
        sizes.into_iter().filter_map(exchange).take(10).collect::<Vec<_>>()
    });
    assert!(failed.is_empty(), "echo requests from {space:?} to {target}: {failed:#?}");
}

/// Runs `ping` on a host with these arguments: three requests, all of which are answered. If an answer takes longer
/// than the interval of requests, as it may on a busy machine, `ping` sends another request and counts the unanswered
/// one as lost. So it has some tries.
///
/// # Panics
/// When it is content at none of them.
#[track_caller]
pub(crate) fn ping(space: &Space, arguments: &[&str]) {
    let mut text = String::new();
    let content = ["0.01", "0.1", "1", "2", "5"].into_iter().any(|interval| {
        let quiet = ["-n", "-q", "-c", "3", "-i", interval, "-w", "30"];
        text = space.run("ping", &[&quiet, arguments].concat());
        text.contains(" received, 0% packet loss")
    });
    assert!(content, "{text}");
}
