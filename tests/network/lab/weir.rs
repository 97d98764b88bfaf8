//! The gateway under test: the real program, in a namespace, with a configuration of the test's.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use weir_tests::{Scratch, program};

use super::{Space, wait};

/// How long it may take to start, to reload, to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running gateway. When it is dropped it is ended, and held to [`ended_well`].
pub(crate) struct Weir {
    child: Option<Child>,
    folder: Scratch,
}

impl Weir {
    /// Starts it in a namespace and waits until it answers on its control socket, and to all of its addresses.
    ///
    /// # Panics
    /// When it does not.
    #[track_caller]
    pub(crate) fn start(space: &Space, config: &str) -> Weir {
        let folder = Scratch::new();
        fs::write(folder.path().join("weir.toml"), config).expect("the folder can be written to");
        let create = |name| fs::File::create(folder.path().join(name)).expect("the folder can be written to");
        let mut command = space.command(program());
        command.args(["run", "--json", "--socket"]).arg(folder.path().join("control.sock"));
        command.arg(folder.path().join("weir.toml")).env_remove("WEIR_LOG");
        // The control socket and the configuration belong to root, as all that the test makes: it stays root, too.
        let child = command.stdout(create("summary.json")).stderr(create("weir.log")).spawn();
        let mut weir = Weir { child: Some(child.expect("it can be started")), folder };
        let start = Instant::now();
        while !weir.weir(&["show", "version"]).status.success() {
            let ended = weir.child.as_mut().and_then(|child| child.try_wait().expect("it is our child"));
            if let Some(status) = ended {
                weir.child = None;
                panic!("weir ended at once, {status}:\n{}\n{config}", weir.log());
            }
            assert!(start.elapsed() < PATIENCE, "weir does not answer:\n{}", weir.log());
            std::thread::sleep(Duration::from_millis(10));
        }
        // Duplicate address detection takes a second (RFC 4862, 5.4).
        wait("weir's addresses are used", PATIENCE, || {
            let interfaces = weir.show("interfaces");
            let list = interfaces["interfaces"].as_array().expect("a list");
            let used = |interface: &Value| interface["tentative"].as_array().is_some_and(Vec::is_empty);
            list.iter().all(|interface| interface["state"] == "down" || used(interface))
        });
        weir
    }

    /// Runs a command that talks to it.
    pub(crate) fn weir(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("weir can be started")
    }

    /// A command that talks to it.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.args(arguments).env("WEIR_SOCKET", self.folder.path().join("control.sock")).env_remove("WEIR_LOG");
        command.stdin(Stdio::null());
        command
    }

    /// Returns the output of `weir show WHAT --json`.
    ///
    /// # Panics
    /// When it fails.
    #[track_caller]
    pub(crate) fn show(&self, what: &str) -> Value {
        let output = self.weir(&["show", what, "--json"]);
        assert!(output.status.success(), "show {what}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("it is JSON")
    }

    /// An interface, as `show interfaces` has it.
    ///
    /// # Panics
    /// When there is none of this name.
    #[track_caller]
    pub(crate) fn interface(&self, name: &str) -> Value {
        let interfaces = self.show("interfaces");
        let list = interfaces["interfaces"].as_array().expect("a list");
        list.iter().find(|interface| interface["name"] == name).cloned().unwrap_or_else(|| panic!("no {name}"))
    }

    /// Packets dropped, by reason.
    pub(crate) fn drops(&self) -> BTreeMap<String, u64> {
        reasons(&self.show("errors"))
    }

    /// Replaces the configuration, which the next reload reads.
    pub(crate) fn write(&self, config: &str) {
        fs::write(self.folder.path().join("weir.toml"), config).expect("the folder can be written to");
    }

    /// Replaces the configuration and puts it into force by `weir reload`.
    ///
    /// # Panics
    /// When that fails.
    #[track_caller]
    pub(crate) fn reload(&self, config: &str) {
        self.write(config);
        let output = self.weir(&["reload"]);
        assert!(output.status.success(), "reload: {}\n{config}", String::from_utf8_lossy(&output.stderr));
    }

    /// Replaces the configuration by one that cannot be put into force; gives what `weir reload` says of it.
    ///
    /// # Panics
    /// When it is put into force.
    #[track_caller]
    pub(crate) fn refuses(&self, config: &str) -> String {
        fs::write(self.folder.path().join("weir.toml"), config).expect("the folder can be written to");
        let output = self.weir(&["reload"]);
        assert!(!output.status.success(), "put into force:\n{config}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// Returns its log.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("weir.log")).unwrap_or_default()
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    /// CPU time that it has used, all threads together.
    pub(crate) fn cpu_time(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid())).expect("it runs");
        // The second field, in parentheses, may hold anything; utime and stime are the 14th and 15th of all.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks: u64 = fields[11..13].iter().map(|ticks| ticks.parse::<u64>().expect("a number")).sum();
        Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
    }

    /// Memory that is resident, in KiB.
    pub(crate) fn resident(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it has memory");
        line.split_whitespace().next().and_then(|number| number.parse().ok()).expect("a number")
    }

    /// Ends it by SIGTERM, as an operator would; returns its summary.
    ///
    /// # Panics
    /// When it does not end well: see [`ended_well`].
    #[track_caller]
    pub(crate) fn end(mut self) -> Value {
        self.stop()
    }

    /// Kills it, as a machine does that has no memory left.
    pub(crate) fn kill(mut self) {
        let mut child = self.child.take().expect("it runs");
        child.kill().expect("it is our child");
        child.wait().expect("it is our child");
    }

    #[track_caller]
    fn stop(&mut self) -> Value {
        let mut child = self.child.take().expect("it runs");
        kill_process(Pid::from_child(&child), Signal::TERM).expect("it is our child");
        let mut status = None;
        let start = Instant::now();
        while status.is_none() && start.elapsed() < PATIENCE {
            status = child.try_wait().expect("it is our child");
            std::thread::sleep(Duration::from_millis(5));
        }
        let Some(status) = status else {
            let _ = child.kill();
            let _ = child.wait();
            panic!("weir does not end by SIGTERM:\n{}", self.log());
        };
        let text = fs::read_to_string(self.folder.path().join("summary.json")).unwrap_or_default();
        assert!(status.success(), "weir ended with {status}:\n{}\n{text}", self.log());
        let summary = serde_json::from_str(&text).unwrap_or_else(|error| panic!("no summary: {error}:\n{text}"));
        ended_well(&summary);
        summary
    }
}

impl Drop for Weir {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            if self.child.is_some() {
                self.stop();
            }
        } else if let Some(mut child) = self.child.take() {
            eprintln!("{}", String::from_utf8_lossy(&self.weir(&["show", "errors"]).stdout));
            eprintln!("{}", String::from_utf8_lossy(&self.weir(&["show", "interfaces"]).stdout));
            let _ = child.kill();
            let _ = child.wait();
            eprintln!("weir logged:\n{}", self.log());
        }
    }
}

/// Every packet is accounted for, no port failed, and what the reasons count is what was dropped.
///
/// # Panics
/// When it is not so.
#[track_caller]
pub(crate) fn ended_well(summary: &Value) {
    assert_eq!(summary["conservation"]["imbalance"], 0, "{summary:#}");
    assert_eq!(summary["failures"].as_array().map(Vec::len), Some(0), "{summary:#}");
    let dropped: u64 = reasons(summary).values().sum();
    assert_eq!(summary["conservation"]["dropped"], dropped, "{summary:#}");
}

/// Packets dropped by reason, of a summary or of `show errors`.
fn reasons(report: &Value) -> BTreeMap<String, u64> {
    let errors = report["errors"].as_array().expect("a list");
    let pair = |drop: &Value| Some((drop["reason"].as_str()?.to_owned(), drop["count"].as_u64()?));
    errors.iter().map(|drop| pair(drop).expect("a reason and its count")).collect()
}

/// Waits until `show` of a running gateway satisfies a condition.
impl Weir {
    /// Waits until an interface is in this state, `up` or `down`.
    #[track_caller]
    pub(crate) fn wait_for_state(&self, interface: &str, state: &str) {
        wait(&format!("{interface} {state}"), PATIENCE, || self.interface(interface)["state"] == state);
    }
}
