//! Network namespaces for tests, and common parts of tests against the kernel.

#![allow(dead_code, reason = "each test uses some of it")]

use std::fs::File;
use std::os::fd::AsFd;
use std::panic;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use weir_packet::offload::{Checksum, Gso, Offload};

/// Longest time for any step, on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Returns whether tests that need root are skipped: only with `WEIR_TEST_UNPRIVILEGED=1`.
fn is_left_out() -> bool {
    if rustix::process::getuid().is_root() {
        return false;
    }
    let left_out = std::env::var("WEIR_TEST_UNPRIVILEGED").is_ok_and(|value| value == "1");
    assert!(left_out, "this test needs root; WEIR_TEST_UNPRIVILEGED=1 leaves it out");
    true
}

/// Runs a test on a thread in a network namespace of its own, with the loopback device up. Threads and programs of the
/// test share the namespace, which ends with them.
pub(crate) fn in_namespace(test: impl FnOnce() + Send + 'static) {
    if is_left_out() {
        return;
    }
    let thread = std::thread::spawn(move || {
        enter_new();
        ip("link set lo up");
        test();
    });
    if let Err(panic) = thread.join() {
        panic::resume_unwind(panic);
    }
}

/// Moves this thread into a new network namespace. A short-lived child creates it, because safe code cannot.
pub(crate) fn enter_new() {
    let own = std::fs::read_link("/proc/thread-self/ns/net").unwrap();
    let mut child = Command::new("unshare").args(["--net", "sleep", "600"]).stdin(Stdio::null()).spawn().unwrap();
    let path = format!("/proc/{}/ns/net", child.id());
    eventually("a new namespace", || std::fs::read_link(&path).is_ok_and(|its| its != own));
    let namespace = File::open(&path).unwrap();
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Disables IPv6 on devices that are created later in this namespace, so that they send no packets on their own.
pub(crate) fn without_ipv6() {
    std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").unwrap();
}

/// Runs `ip` with these arguments, separated by blanks, and returns what it prints.
pub(crate) fn ip(arguments: &str) -> String {
    let output = Command::new("ip").args(arguments.split_whitespace()).output().unwrap();
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Waits until a condition holds. Panics after [`PATIENCE`].
pub(crate) fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Returns a datagram over IPv4 with a partial checksum, and its offload state. `link` octets precede the IPv4 header.
pub(crate) fn partial(link: usize, frame: &[u8], gso: Gso, segment: u16) -> (Vec<u8>, Offload) {
    let (mut frame, length) = (frame.to_vec(), (frame.len() - link - 20) as u32);
    let words = frame[link + 12..link + 20].chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let sum = words.sum::<u32>() + 17 + length;
    let sum = (sum & 0xffff) + (sum >> 16);
    frame[link + 26..link + 28].copy_from_slice(&(sum as u16).to_be_bytes());
    let start = (link + 20) as u16;
    (frame, Offload { checksum: Checksum::Partial, gso, segment, start, offset: 6 })
}
