//! `weir capture`, as a user runs it: packets of a running gateway in a file, limits, and orders that are refused.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use weir_port::pcap::Reader;

const CONFIG: &str = r#"version = 1

[[interface]]
name = "in"
address = "10.0.0.1/24"
port = { generator = { source = "10.0.0.10-10.0.0.20", destination = "192.0.2.1-192.0.2.250", rate = 2000 } }

[[interface]]
name = "out"
address = "10.0.1.1/24"
port = "null"

[[route]]
prefix = "192.0.2.0/24"
via = { address = "10.0.1.2" }

[[neighbor]]
interface = "out"
address = "10.0.1.2"
mac = "02:00:00:00:00:02"
"#;

/// A gateway that runs, and a folder of its own.
struct Gateway {
    child: Child,
    folder: tempfile::TempDir,
}

impl Gateway {
    fn start() -> Gateway {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weir.toml");
        fs::write(&path, CONFIG).unwrap();
        let child = command(folder.path(), &["run", path.to_str().unwrap()]).spawn().unwrap();
        let gateway = Gateway { child, folder };
        let start = Instant::now();
        while !gateway.output(&["show", "version"]).status.success() {
            assert!(start.elapsed() < Duration::from_secs(120), "the gateway does not answer");
            std::thread::sleep(Duration::from_millis(20));
        }
        gateway
    }

    fn output(&self, arguments: &[&str]) -> Output {
        command(self.folder.path(), arguments).output().unwrap()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The counts of a capture into a file.
    fn capture(&self, file: &Path, arguments: &[&str]) -> Value {
        let mut all = vec!["capture", "--json", "--out", file.to_str().unwrap()];
        all.extend(arguments);
        let output = self.output(&all);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["schema"], "weir.show.captures/1");
        report["captures"][0].clone()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(arguments).env("WEIR_SOCKET", folder.join("control.sock")).env_remove("WEIR_LOG");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The TTLs of the IPv4 packets of a file.
fn ttls(file: &Path) -> Vec<u8> {
    let mut reader = Reader::open(file).unwrap();
    let mut ttls = Vec::new();
    while let Some(record) = reader.read().unwrap() {
        ttls.push(record.frame[14 + 8]);
    }
    ttls
}

#[test]
fn packets_are_in_the_file_as_they_came_and_as_they_left() {
    let gateway = Gateway::start();
    let file = gateway.file("both.pcapng");
    let row = gateway.capture(&file, &["--count", "40", "--match", "udp from 10.0.0.10-10.0.0.20"]);
    assert_eq!((row["packets"].as_u64(), row["state"].as_str()), (Some(40), Some("ended")), "{row}");
    assert!(row["matched"].as_u64() >= Some(40), "{row}");
    let ttls = ttls(&file);
    assert_eq!(ttls.len(), 40);
    let came = ttls.iter().max().unwrap();
    assert!(ttls.iter().any(|ttl| ttl == came) && ttls.iter().any(|ttl| ttl + 1 == *came), "{ttls:?}");

    // One interface and one direction; few octets of each.
    let file = gateway.file("out.pcapng");
    let row = gateway.capture(&file, &["--interface", "out", "--direction", "out", "--count", "10", "--snap", "64"]);
    assert_eq!((row["packets"].as_u64(), row["interface"].as_str()), (Some(10), Some("out")), "{row}");
    assert!(self::ttls(&file).iter().all(|ttl| ttl + 1 == *came));

    // What nothing matches ends with the time, and the file is one without packets.
    let file = gateway.file("none.pcapng");
    let row = gateway.capture(&file, &["--match", "tcp to any port 443", "--duration", "0.2"]);
    assert_eq!((row["packets"].as_u64(), row["matched"].as_u64()), (Some(0), Some(0)));
    assert!(self::ttls(&file).is_empty());

    // A rate below that of the packets leaves some out, and says so.
    let file = gateway.file("slow.pcapng");
    let output = gateway.output(&["capture", "--out", file.to_str().unwrap(), "--rate", "10", "--duration", "0.5"]);
    let said = text(&output.stderr);
    assert!(output.status.success() && said.contains("not copied because of --rate"), "{said}");
    let shown = text(&gateway.output(&["show", "captures"]).stdout);
    assert_eq!(shown.lines().count(), 5, "{shown}");
    assert!(shown.contains("tcp to any port 443"), "{shown}");
}

#[test]
fn an_interrupt_ends_a_capture_and_keeps_the_file() {
    let gateway = Gateway::start();
    let file = gateway.file("long.pcapng");
    let child = command(gateway.folder.path(), &["capture", "--out", file.to_str().unwrap()]).spawn().unwrap();
    let start = Instant::now();
    while fs::metadata(&file).map_or(0, |metadata| metadata.len()) < 4096 {
        assert!(start.elapsed() < Duration::from_secs(60), "no packets");
        std::thread::sleep(Duration::from_millis(20));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stderr).starts_with("captured "), "{}", text(&output.stderr));
    assert!(!ttls(&file).is_empty());
}

#[test]
fn orders_that_make_no_sense_are_refused_and_leave_files_alone() {
    let gateway = Gateway::start();
    let file = gateway.file("kept.pcapng");
    fs::write(&file, "precious").unwrap();
    let out = file.to_str().unwrap();
    for (arguments, code, expected) in [
        (&["--match", "tcp to nowhere"][..], 2, "the filter is not understood: column"),
        (&["--count", "0"], 2, "`count` is a number of packets from 1 to 10000000"),
        (&["--snap", "63"], 2, "`snap` is a number of octets from 64 to 65535"),
        (&["--rate", "0"], 2, "`rate` is a number of packets per second"),
        (&["--duration", "0"], 2, "`duration` is a number of seconds above 0"),
        (&["--interface", "oot"], 1, "there is no interface `oot`; did you mean `out`?"),
        (&["--match", "tcp from @nobody to any"], 1, "nobody"),
    ] {
        let output = gateway.output(&[&["capture", "--out", out], arguments].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
    let nowhere = gateway.output(&["capture", "--out", "/nowhere/a.pcapng", "--count", "1"]);
    assert_eq!((nowhere.status.code(), text(&nowhere.stderr).contains("/nowhere/a.pcapng")), (Some(1), true));
}
