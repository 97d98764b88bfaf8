//! The laboratory: hosts in network namespaces, links between them, and weir in the middle.
//!
//! [`Lab::open`] begins a test. What is made in it goes when its handles are dropped, also when the test fails: spaces
//! with their devices and processes, gateways, captures. Most tests wait most of the time, so [`PLACES`] labs may be open at
//! a time. A test that measures times or losses under load begins with [`Lab::alone`].

mod capture;
mod echo;
mod inject;
mod line;
mod socket;
mod space;
mod stream;
mod tcp;
mod weir;

use std::process::Command;
use std::sync::{Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};

pub(crate) use capture::Capture;
pub(crate) use echo::{Echo, MOST_ECHO, echo, ping};
pub(crate) use inject::inject;
pub(crate) use line::{Line, LineOptions};
pub(crate) use socket::{bound, listening};
pub(crate) use space::Space;
pub(crate) use stream::{Sender, Sink, StreamSpec};
pub(crate) use tcp::transfer;
pub(crate) use weir::Weir;

/// The programs that tests run, and the Debian packages that they are in.
const TOOLS: [(&str, &str); 10] = [
    ("ip", "iproute2"),
    ("ping", "iputils-ping"),
    ("traceroute", "traceroute"),
    ("iperf3", "iperf3"),
    ("curl", "curl"),
    ("python3", "python3"),
    ("ethtool", "ethtool"),
    ("tcpdump", "tcpdump"),
    ("sysctl", "procps"),
    ("nft", "nftables"),
];

/// Labs that may be open at a time.
const PLACES: usize = 3;

/// The turns of tests. Tests get places in the order in which they come, so that a test that needs all places does not wait for
/// ever.
struct Turns {
    /// Places of open labs.
    taken: usize,
    /// The number that the next test draws.
    drawn: u64,
    /// The number of the test that is next.
    next: u64,
}

static TURNS: Mutex<Turns> = Mutex::new(Turns { taken: 0, drawn: 0, next: 0 });
static CHANGED: Condvar = Condvar::new();

/// So many of the places of the machine.
struct Share(usize);

impl Share {
    /// Waits until there are so many.
    fn take(places: usize) -> Share {
        let mut turns = turns();
        let number = turns.drawn;
        turns.drawn += 1;
        while turns.next != number || turns.taken + places > PLACES {
            turns = CHANGED.wait(turns).unwrap_or_else(PoisonError::into_inner);
        }
        turns.taken += places;
        turns.next += 1;
        CHANGED.notify_all();
        Share(places)
    }
}

/// A test that failed has reported it: its panic says nothing about the turns.
fn turns() -> MutexGuard<'static, Turns> {
    TURNS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Share {
    fn drop(&mut self) {
        turns().taken -= self.0;
        CHANGED.notify_all();
    }
}

/// A test's share of the machine, while it is open.
pub(crate) struct Lab {
    links: u8,
    // Dropped last: spaces that a test still holds are gone before the next one begins.
    _share: Share,
}

impl Lab {
    /// Waits for a place beside other labs; `None` when these tests are not to be run.
    ///
    /// # Panics
    /// When they are to be run and cannot.
    pub(crate) fn open() -> Option<Lab> {
        Lab::with(1)
    }

    /// As [`Lab::open`], for a test that measures: no other lab is open beside it.
    pub(crate) fn alone() -> Option<Lab> {
        Lab::with(PLACES)
    }

    fn with(places: usize) -> Option<Lab> {
        static ONCE: Once = Once::new();
        if !rustix::process::geteuid().is_root() {
            let waived = std::env::var_os("WEIR_TEST_UNPRIVILEGED").is_some_and(|value| value == "1");
            assert!(
                waived,
                "network tests make network namespaces: run them as root, or set WEIR_TEST_UNPRIVILEGED=1 to leave them out"
            );
            eprintln!("not run: needs root (WEIR_TEST_UNPRIVILEGED=1)");
            return None;
        }
        let share = Share::take(places);
        ONCE.call_once(|| {
            for (tool, package) in TOOLS {
                let found = Command::new("sh").args(["-c", &format!("command -v {tool}")]).output();
                let found = found.is_ok_and(|output| output.status.success());
                assert!(found, "there is no `{tool}`: scripts/setup installs it (Debian: {package})");
            }
            Space::sweep();
        });
        Some(Lab { links: 0, _share: share })
    }

    /// A new host without links. The label is for people who look while a test runs.
    pub(crate) fn space(&self, label: &str) -> Space {
        Space::new(label)
    }

    /// A link between two hosts: a veth device in each, of these names, both up. Returns what makes it again.
    pub(crate) fn link(&mut self, a: (&Space, &str), b: (&Space, &str), mtu: u32) -> Link {
        self.links += 1;
        let link = Link { number: self.links, mtu };
        link.make(a, b);
        link
    }
}

/// A link. The MAC addresses of its devices are `02:00:00:00:N:01` and `02:00:00:00:N:02`, where N is its number in its
/// lab, from 1 on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Link {
    number: u8,
    mtu: u32,
}

impl Link {
    /// Makes its devices.
    pub(crate) fn make(&self, a: (&Space, &str), b: (&Space, &str)) {
        let Link { number, mtu } = self;
        let end = |(space, device): (&Space, &str), end: u8| {
            format!("{device} netns {} address 02:00:00:00:{number:02x}:{end:02x} mtu {mtu}", space.name())
        };
        space::ip(&format!("link add {} type veth peer name {}", end(a, 1), end(b, 2)));
        for (space, device) in [a, b] {
            space.ip(&format!("link set {device} up"));
        }
    }
}

/// Waits until a condition holds, looking every 10 ms.
///
/// # Panics
/// When it does not in time.
#[track_caller]
pub(crate) fn wait(what: &str, most: Duration, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < most, "{what}: not within {most:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
