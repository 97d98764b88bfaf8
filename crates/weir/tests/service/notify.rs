//! The notifications to the service manager. The test is the service manager.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::process::Signal;
use rustix::time::{ClockId, clock_gettime};

use crate::kit::{Folder, Gateway, PATIENCE, QUIET, wait};

/// One end of the protocol (sd_notify(3)).
struct Manager(UnixDatagram);

/// The assignments of one datagram.
type Message = BTreeMap<String, String>;

impl Manager {
    fn new(folder: &Folder) -> Manager {
        Manager(UnixDatagram::bind(folder.path("notify")).unwrap())
    }

    fn within(&self, time: Duration) -> Option<Message> {
        self.0.set_read_timeout(Some(time)).unwrap();
        let mut buffer = [0; 4096];
        let length = self.0.recv(&mut buffer).ok()?;
        let text = std::str::from_utf8(&buffer[..length]).unwrap();
        assert!(text.ends_with('\n'), "{text:?}");
        let pair = |line: &str| line.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
        Some(text.lines().map(|line| pair(line).unwrap_or_else(|| panic!("{text:?}"))).collect())
    }

    #[track_caller]
    fn hears(&self) -> Message {
        self.within(PATIENCE).expect("nothing was said")
    }

    /// The next message is that it is ready.
    #[track_caller]
    fn hears_ready(&self, status: &str) {
        assert_eq!(self.hears(), message(&[("READY", "1"), ("STATUS", status)]));
    }

    /// The next message is that a reload has begun, since the given time.
    #[track_caller]
    fn hears_reloading(&self, since: u64) {
        let mut heard = self.hears();
        let at: u64 = heard.remove("MONOTONIC_USEC").expect("the time").parse().unwrap();
        assert!((since..=now()).contains(&at), "{since} {at} {}", now());
        assert_eq!(heard, message(&[("RELOADING", "1"), ("STATUS", "reloading")]));
    }
}

fn message(pairs: &[(&str, &str)]) -> Message {
    pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Microseconds of CLOCK_MONOTONIC.
fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000
}

/// `weir run` with a manager to talk to, and perhaps a watchdog.
fn start(folder: Folder, config: &str, watchdog: Option<(Duration, &str)>) -> (Gateway, Manager) {
    let manager = Manager::new(&folder);
    folder.config(config);
    let mut command: Command;
    match watchdog {
        None => command = folder.command(env!("CARGO_BIN_EXE_weir")),
        Some((interval, pid)) => {
            command = folder.command("sh");
            command.args(["-c", &format!("WATCHDOG_PID={pid} exec \"$@\""), "sh", env!("CARGO_BIN_EXE_weir")]);
            command.env("WATCHDOG_USEC", interval.as_micros().to_string());
        }
    }
    command.args(["run", "weir.toml"]).env("NOTIFY_SOCKET", folder.path("notify"));
    (Gateway::start_by(folder, command), manager)
}

#[test]
fn it_is_told_of_the_start_of_reloads_and_of_the_end() {
    let (gateway, manager) = start(Folder::new(), QUIET, None);
    manager.hears_ready("generation 1");

    let since = now();
    gateway.signal(Signal::HUP);
    manager.hears_reloading(since);
    manager.hears_ready("generation 2");

    let since = now();
    gateway.ok(&["reload"]);
    manager.hears_reloading(since);
    manager.hears_ready("generation 3");

    gateway.folder.config("version = 1\n[[interface]]\nname = 'in'\nprot = 'null'\n");
    let invalid = "generation 3; not reloaded: the configuration is invalid; the old one goes on";
    let since = now();
    gateway.signal(Signal::HUP);
    manager.hears_reloading(since);
    manager.hears_ready(invalid);
    let since = now();
    assert_eq!(gateway.folder.weir(&["reload"]).status.code(), Some(3));
    manager.hears_reloading(since);
    manager.hears_ready(invalid);

    gateway.folder.config(&format!("{QUIET}\n[buffers]\nsmall = 4096\n"));
    let since = now();
    assert_eq!(gateway.folder.weir(&["reload"]).status.code(), Some(1));
    manager.hears_reloading(since);
    let said = manager.hears();
    assert_eq!(said["READY"], "1");
    assert!(said["STATUS"].starts_with("generation 3; not reloaded: the number of packet buffers"), "{said:?}");

    gateway.folder.config(QUIET);
    let since = now();
    gateway.ok(&["reload"]);
    manager.hears_reloading(since);
    manager.hears_ready("generation 4");

    // An event is a line of the log, whatever its cause.
    let log = gateway.log();
    let times = |what: &str| log.lines().filter(|line| line.contains(what)).count();
    assert_eq!((times(" reloaded: generation "), times(" not reloaded: ")), (3, 3), "{log}");
    // Findings of SIGHUP go to the log alone.
    assert_eq!(times("weir.toml:4:1"), 1, "{log}");

    gateway.end();
    assert_eq!(manager.hears(), message(&[("STOPPING", "1"), ("STATUS", "ending")]));
    assert_eq!(manager.within(Duration::from_millis(100)), None);
}

#[test]
fn a_manager_that_is_not_there_changes_nothing() {
    let folder = Folder::new();
    folder.config(QUIET);
    let mut command = folder.command(env!("CARGO_BIN_EXE_weir"));
    command.args(["run", "weir.toml"]).env("NOTIFY_SOCKET", folder.path("nobody"));
    let gateway = Gateway::start_by(folder, command);
    gateway.ok(&["reload"]);
    assert!(gateway.log().contains("cannot reach the service manager: No such file"), "{}", gateway.log());
    gateway.end();
}

/// How often the tests' watchdog wants to hear of the gateway.
const WATCHDOG: Duration = Duration::from_secs(2);

#[test]
fn the_watchdog_hears_twice_as_often_as_it_must() {
    let begin = Instant::now();
    let (gateway, manager) = start(Folder::new(), QUIET, Some((WATCHDOG, "$$")));
    manager.hears_ready("generation 1");
    let (mut last, mut in_time) = (Instant::now(), 0);
    // Four notifications in a row arrive in time. On a busy machine, either side may be late now and then.
    for count in 1.. {
        // An idle worker sleeps, and is well.
        assert_eq!(manager.hears(), message(&[("WATCHDOG", "1")]));
        assert!(begin.elapsed() >= WATCHDOG / 2 * count, "{count} times in {:?}", begin.elapsed());
        in_time = if last.elapsed() < WATCHDOG { in_time + 1 } else { 0 };
        last = Instant::now();
        if in_time == 4 {
            break;
        }
        assert!(count < 40, "{in_time} times in a row");
    }
    gateway.end();
}

#[test]
fn a_watchdog_for_another_process_hears_nothing() {
    let (gateway, manager) = start(Folder::new(), QUIET, Some((WATCHDOG / 4, "1")));
    manager.hears_ready("generation 1");
    assert_eq!(manager.within(WATCHDOG), None);
    gateway.end();
}

/// A worker that waits for ever: for a full pipe without a reader.
#[test]
fn the_watchdog_hears_nothing_while_a_worker_is_stuck() {
    let folder = Folder::new();
    let pipe = folder.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut options = File::options();
    // The gateway could not open it without a process at this end.
    let nonblock = OFlags::NONBLOCK.bits().cast_signed();
    let mut reader = options.read(true).custom_flags(nonblock).open(&pipe).unwrap();
    let config = format!(
        "{QUIET}
[[interface]]
name = 'source'
address = '10.0.1.1/24'
port = {{ generator = {{ source = '10.0.1.10', destination = '10.0.2.2', rate = 20000 }} }}
[[interface]]
name = 'out'
address = '10.0.2.1/24'
port = {{ pcap = {{ output = '{}' }} }}
[[neighbor]]
interface = 'out'
address = '10.0.2.2'
mac = '02:00:00:00:00:02'
",
        pipe.display()
    );
    let (gateway, manager) = start(folder, &config, Some((WATCHDOG, "$$")));
    manager.hears_ready("generation 1");
    // The worker may have made progress since the first look, and is reported then; not again.
    let stuck = || gateway.log().contains("worker 0 does not go on: the watchdog is not answered");
    wait("the worker is stuck", stuck);
    while manager.within(Duration::from_millis(1)).is_some() {}
    assert_eq!(manager.within(WATCHDOG * 2), None);
    assert_eq!(gateway.log().matches("does not go on").count(), 1, "{}", gateway.log());
    // The pipe is read: the worker goes on, and so does the watchdog.
    let draining = std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        let start = Instant::now();
        loop {
            match reader.read(&mut buffer) {
                Ok(0) => break,
                Ok(_) => {}
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
            assert!(start.elapsed() < PATIENCE * 2, "it is written for ever");
        }
    });
    assert_eq!(manager.hears(), message(&[("WATCHDOG", "1")]));
    let (_, folder) = gateway.end();
    draining.join().unwrap();
    assert!(fs::read_to_string(folder.path("summary")).unwrap().ends_with("every packet is accounted for\n"));
}
