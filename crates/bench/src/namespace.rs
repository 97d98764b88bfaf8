//! Network namespaces of this process, made by `ip` (iproute2): measuring between hosts needs hosts.

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::Command;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// A network namespace, deleted with its devices when dropped.
#[derive(Debug)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// Makes an empty one. Its name is made of the process and `label`.
    ///
    /// # Errors
    /// When `ip` is missing or refuses, as it does without root.
    pub fn new(label: &str) -> io::Result<Namespace> {
        let name = format!("weir-bench-{}-{label}", std::process::id());
        ip(&format!("netns add {name}"))?;
        Ok(Namespace { name })
    }

    /// Returns the name for `ip netns`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `ip` on it, with these words.
    ///
    /// # Errors
    /// When `ip` fails: what it says.
    pub fn ip(&self, words: &str) -> io::Result<()> {
        ip(&format!("-n {} {words}", self.name))
    }

    /// Calls a function on a new thread of this namespace: sockets and devices that it opens, and threads that it starts,
    /// belong there.
    ///
    /// # Errors
    /// When the namespace cannot be entered.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        let file = File::open(Path::new("/run/netns").join(&self.name))?;
        let inside = || {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
            Ok(work())
        };
        match std::thread::scope(|scope| scope.spawn(inside).join()) {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // A failure cannot be reported any more.
        let _ = ip(&format!("netns delete {}", self.name));
    }
}

/// Runs `ip` with these words.
///
/// # Errors
/// When it cannot be started or fails: what it says.
pub fn ip(words: &str) -> io::Result<()> {
    let output = Command::new("ip")
        .args(words.split_whitespace())
        .output()
        .map_err(|error| io::Error::new(error.kind(), format!("cannot run `ip` (iproute2): {error}")))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(io::Error::other(format!("ip {words}: {}", String::from_utf8_lossy(&output.stderr).trim()))),
    }
}
