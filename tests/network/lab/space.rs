//! Network namespaces: hosts that share nothing with the machine but its kernel.

use std::fmt;
use std::fs::File;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// The first characters of namespaces' names. The process follows, so that leftovers of other runs can be recognised.
const PREFIX: &str = "wn-";

/// The settings of every namespace. Links are quiet: no duplicate address detection, no router solicitations, no
/// multicast reports. Nothing limits the kernel's ICMP errors, and every user may send echo requests.
const SETTINGS: [&str; 13] = [
    "net.ipv6.conf.all.accept_dad=0",
    "net.ipv6.conf.default.accept_dad=0",
    "net.ipv6.conf.default.accept_ra=0",
    "net.ipv6.conf.default.router_solicitations=0",
    "net.ipv6.conf.all.mldv2_unsolicited_report_interval=0",
    "net.ipv4.conf.all.rp_filter=0",
    "net.ipv4.conf.default.rp_filter=0",
    "net.ipv4.conf.all.send_redirects=0",
    "net.ipv4.conf.default.send_redirects=0",
    "net.ipv4.icmp_ratelimit=0",
    "net.ipv6.icmp.ratelimit=0",
    "net.ipv4.ping_group_range=0 2147483647",
    "net.ipv4.igmp_max_memberships=100",
];

/// A network namespace. It is deleted, with the devices and processes in it, when the last handle to it is dropped.
#[derive(Clone)]
pub(crate) struct Space(Arc<Inner>);

struct Inner {
    name: String,
}

impl Space {
    /// A new, empty namespace whose loopback device is up.
    pub(super) fn new(label: &str) -> Space {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{number}-{label}", std::process::id());
        ip(&format!("netns add {name}"));
        let space = Space(Arc::new(Inner { name }));
        space.sysctl(&SETTINGS);
        space.ip("link set lo up");
        space
    }

    /// Deletes what runs that were killed have left behind.
    pub(super) fn sweep() {
        let list = ip("netns list");
        for name in list.lines().filter_map(|line| line.split_whitespace().next()) {
            let owner = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
            if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
                delete(name);
            }
        }
    }

    /// Its name, as `ip netns` has it.
    pub(crate) fn name(&self) -> &str {
        &self.0.name
    }

    /// Runs `ip` on it: `ip("link set e0 up")`.
    ///
    /// # Panics
    /// When that fails.
    #[track_caller]
    pub(crate) fn ip(&self, words: &str) -> String {
        ip(&format!("-n {} {words}", self.name()))
    }

    /// Sets kernel parameters of it, each as `name=value`.
    #[track_caller]
    pub(crate) fn sysctl(&self, settings: &[&str]) {
        let mut arguments = vec!["-qw"];
        arguments.extend(settings);
        self.run("sysctl", &arguments);
    }

    /// A command that will run in it.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", self.name()]).arg(program);
        command.stdin(Stdio::null());
        command
    }

    /// Runs a program in it, for a minute at most; returns what it printed.
    ///
    /// # Panics
    /// When it fails.
    #[track_caller]
    pub(crate) fn run(&self, program: &str, arguments: &[&str]) -> String {
        let output = self.output(program, arguments);
        assert!(
            output.status.success(),
            "{program} {}: {}\n{}{}",
            arguments.join(" "),
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs a program in it, for a minute at most, whether it succeeds or not.
    #[track_caller]
    pub(crate) fn output(&self, program: &str, arguments: &[&str]) -> Output {
        let mut command = self.command("timeout");
        command.args(["60", program]).args(arguments).output().expect("commands can be started")
    }

    /// Calls a function on a thread of this namespace: sockets it opens are this host's.
    pub(crate) fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| match scope.spawn(|| self.inside(work)).join() {
            Ok(value) => value,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    }

    /// Starts a thread of this namespace.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> std::thread::JoinHandle<T> {
        let space = self.clone();
        std::thread::spawn(move || space.inside(work))
    }

    /// Moves the calling thread here for good, which is why only new threads call this.
    fn inside<T>(&self, work: impl FnOnce() -> T) -> T {
        let file = File::open(Path::new("/run/netns").join(self.name())).expect("the namespace is there");
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).expect("root may enter it");
        work()
    }

    /// How the kernel has a device of it: the words of `ip -o link show`.
    pub(crate) fn device(&self, device: &str) -> Option<String> {
        let output = Command::new("ip").args(["-n", self.name(), "-o", "link", "show", "dev", device]).output();
        let output = output.expect("ip can be started");
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl fmt::Debug for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        delete(&self.name);
    }
}

/// Deletes a namespace and what is in it. Nothing that fails here is worth hiding why a test failed.
fn delete(name: &str) {
    let pids = Command::new("ip").args(["netns", "pids", name]).output();
    let pids = pids.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let ours = std::process::id() as i32;
    for pid in pids.split_whitespace().filter_map(|pid| pid.parse().ok()).filter(|&pid: &i32| pid != ours) {
        if let Some(pid) = Pid::from_raw(pid) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
    let _ = Command::new("ip").args(["netns", "delete", name]).stderr(Stdio::null()).status();
}

/// Runs `ip`.
#[track_caller]
pub(super) fn ip(words: &str) -> String {
    let output = Command::new("ip").args(words.split_whitespace()).output().expect("ip can be started");
    assert!(output.status.success(), "ip {words}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
