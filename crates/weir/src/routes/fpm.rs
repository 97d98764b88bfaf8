//! A server of forwarding plane managers. One connection is served at a time: a new one takes the place of the one before.

use std::io::{self, ErrorKind, Read as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use weir_base::wake::Sleeper;
use weir_plane::rib::By;
use weir_port::routes::{Frames, Monitor, Update, dump, updates};

use super::feed::Feed;
use super::orders::Orders;
use crate::config::Routes;
use crate::control::running::Running;
use crate::events::Kind;

/// How often the generation of the configuration is looked at.
const LOOK: Duration = Duration::from_millis(500);
/// The pause after the system refused a connection.
const PAUSE: Duration = Duration::from_millis(100);
/// Octets that are read at a time.
const CHUNK: usize = 256 * 1024;
/// Chunks between two looks at everything else.
const CHUNKS: usize = 16;

/// Listens at an address.
///
/// # Errors
/// If the system refuses the address. The message names it.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let place = |error: io::Error| {
        io::Error::new(error.kind(), format!("cannot serve forwarding plane managers at {address}: {error}"))
    };
    let listener = TcpListener::bind(address).map_err(place)?;
    listener.set_nonblocking(true).map_err(place)?;
    Ok(listener)
}

/// A connection.
struct Peer {
    stream: TcpStream,
    address: SocketAddr,
    frames: Frames,
    /// Messages that could not be read.
    defects: u64,
}

/// Serves connections until it is over.
pub(super) fn serve(
    running: Arc<Running>,
    mut settings: Routes,
    mut listener: TcpListener,
    mut sleeper: Sleeper,
    orders: &Orders,
) {
    let mut feed = Feed::new(running, By::Fpm, &settings);
    let mut devices = Monitor::open().ok();
    list_devices(&mut feed);
    let mut peer: Option<Peer> = None;
    // When routes go that were not repeated.
    let mut sweep: Option<Instant> = None;
    let mut buffer = vec![0; CHUNK];
    while !orders.is_over() {
        follow_devices(&mut feed, devices.as_mut());
        if let Some(next) = orders.next() {
            let is_elsewhere = next.listener.is_some();
            listener = next.listener.unwrap_or(listener);
            if (feed.set(&settings, &next.settings) || is_elsewhere) && peer.take().is_some() {
                // What was left out is not known: the peer connects again, and repeats its routes.
                tracing::info!(
                    kind = Kind::Route.name(),
                    source = By::Fpm.name(),
                    "the settings of forwarding plane managers changed: their connection is closed"
                );
                feed.note(|own| "waiting".clone_into(&mut own.state));
                sweep = Some(Instant::now() + next.settings.stale_time);
                feed.fib.begin();
            }
            settings = next.settings;
        }
        if let Some(new) = accept(&listener) {
            tracing::info!(
                kind = Kind::Route.name(),
                source = By::Fpm.name(),
                "forwarding plane manager {} connected",
                new.address
            );
            feed.fib.begin();
            feed.note(|own| {
                "following".clone_into(&mut own.state);
                own.lists += 1;
            });
            sweep = Some(Instant::now() + settings.stale_time);
            peer = Some(new);
        }
        let (mut more, mut ended) = (false, false);
        if let Some(open) = &mut peer {
            match open.read(&mut buffer, &mut feed) {
                Ok(Read { is_more, is_end }) => {
                    more = is_more;
                    ended = is_end;
                    if is_end {
                        sweep = Some(Instant::now());
                    }
                }
                Err(error) => {
                    tracing::warn!(
                        kind = Kind::Route.name(),
                        source = By::Fpm.name(),
                        "forwarding plane manager {}: {error}: its routes stay for a while",
                        open.address
                    );
                    feed.note(|own| "waiting".clone_into(&mut own.state));
                    // Routes stay for a new connection, which repeats them.
                    sweep = Some(Instant::now() + settings.stale_time);
                    feed.fib.begin();
                    peer = None;
                }
            }
        }
        if sweep.is_some_and(|sweep| sweep <= Instant::now()) {
            sweep = None;
            let gone = feed.fib.end();
            if gone > 0 {
                tracing::info!(
                    kind = Kind::Route.name(),
                    source = By::Fpm.name(),
                    "{gone} routes of forwarding plane managers were not repeated: they are gone"
                );
            }
        }
        feed.flush();
        feed.answer(orders);
        if ended {
            tracing::info!(
                kind = Kind::Route.name(),
                source = By::Fpm.name(),
                "all routes of the forwarding plane manager are in force: {}",
                feed.fib.counts().routes
            );
        }
        if more {
            continue;
        }
        sleeper.announce();
        if orders.is_due() {
            sleeper.stay_up();
            continue;
        }
        let pause = sweep.map_or(LOOK, |sweep| sweep.saturating_duration_since(Instant::now()).min(LOOK));
        let stream = peer.as_ref().map(|peer| peer.stream.as_fd());
        let links = devices.as_ref().map(Monitor::descriptor);
        let descriptors: Vec<_> = [listener.as_fd()].into_iter().chain(stream).chain(links).collect();
        sleeper.sleep(&descriptors, Some(pause));
    }
    if orders.withdraws() {
        feed.withdraw();
    }
}

fn accept(listener: &TcpListener) -> Option<Peer> {
    let (stream, address) = match listener.accept() {
        Ok(accepted) => accepted,
        Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
        Err(_) => {
            // Most likely there is no descriptor left: the connection waits.
            thread::sleep(PAUSE);
            return None;
        }
    };
    stream.set_nonblocking(true).ok()?;
    Some(Peer { stream, address, frames: Frames::default(), defects: 0 })
}

/// The result of a read.
struct Read {
    /// There may be more.
    is_more: bool,
    /// The end of all routes was among the messages.
    is_end: bool,
}

impl Peer {
    /// Reads messages, as many as there are or some.
    fn read(&mut self, buffer: &mut [u8], feed: &mut Feed) -> io::Result<Read> {
        let mut is_end = false;
        for _ in 0..CHUNKS {
            let count = match self.stream.read(buffer) {
                Ok(0) => return Err(io::Error::new(ErrorKind::UnexpectedEof, "it closed the connection")),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Read { is_more: false, is_end }),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            self.frames.push(&buffer[..count]);
            while let Some(message) = self.frames.next_message().map_err(io::Error::other)? {
                for update in updates(message) {
                    match update {
                        Ok(Update::Done) => is_end = true,
                        // The kernel alone knows its devices.
                        Ok(Update::Device(..) | Update::DeviceGone(_) | Update::AddressGone) => {}
                        Ok(update) => drop(feed.apply(update)),
                        Err(defect) => {
                            self.defects += 1;
                            if self.defects == 1 {
                                tracing::warn!(
                                    kind = Kind::Route.name(),
                                    source = By::Fpm.name(),
                                    "forwarding plane manager {}: a message was skipped: {defect}",
                                    self.address
                                );
                            }
                        }
                    }
                }
            }
        }
        Ok(Read { is_more: true, is_end })
    }
}

fn list_devices(feed: &mut Feed) {
    let listed = dump(|update| {
        if let Update::Device(..) = update {
            feed.apply(update);
        }
    });
    if let Err(error) = listed {
        tracing::warn!(
            kind = Kind::Route.name(),
            source = By::Fpm.name(),
            "cannot list the network devices that routes name: {error}"
        );
    }
}

fn follow_devices(feed: &mut Feed, monitor: Option<&mut Monitor>) {
    let Some(monitor) = monitor else { return };
    let seen = monitor.read(|update| {
        if let Update::Device(..) | Update::DeviceGone(_) = update {
            feed.apply(update);
        }
    });
    if seen == weir_port::routes::Seen::Lost {
        list_devices(feed);
    }
}
