//! The common parts of the tests of weir as a whole: the recorded captures, replays of them, and the program under
//! test.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

use weir::config;
use weir::replay::{Input, Options, Replay, Summary};
use weir_plane::model::Gateway;
use weir_port::pcap::Reader;

/// The recorded scenarios: see `tests/capture/record.sh`.
pub const SCENARIOS: [&str; 5] = ["plain", "narrow", "vlan", "jumbo", "crafted"];

/// The links of the recorded gateway.
pub const LINKS: [&str; 2] = ["left", "right"];

/// A file or folder of the recordings.
pub fn captures(name: impl AsRef<Path>) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("captures").join(name)
}

/// The gateway that stands in the recorded one's place.
///
/// # Panics
/// When its configuration is invalid.
pub fn gateway(scenario: &str) -> Gateway {
    let loaded = config::load(&captures(format!("{scenario}.toml")));
    let text = loaded.text(false);
    loaded.gateway.unwrap_or_else(|| panic!("{text}"))
}

/// Returns the packets that the recorded gateway received.
pub fn inputs(scenario: &str) -> Vec<Input> {
    let input = |link: &str| Input {
        interface: link.to_owned(),
        path: captures(scenario).join(format!("{link}-in.pcap")),
        captured_on: None,
    };
    LINKS.map(input).into()
}

/// A packet of a capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// Nanoseconds since 1970.
    pub time: u64,
    /// Its octets.
    pub frame: Vec<u8>,
}

/// All packets of a capture.
///
/// # Panics
/// When it cannot be read to its end.
pub fn packets(path: &Path) -> Vec<Packet> {
    let mut reader = Reader::open(path).expect("the capture opens");
    let mut packets = Vec::new();
    while let Some(record) = reader.read().expect("the capture is whole") {
        assert_eq!(record.frame.len(), record.original as usize, "whole packets were captured");
        packets.push(Packet { time: record.time.0, frame: record.frame.to_vec() });
    }
    packets
}

/// A packet's fate, without what differs from recording to recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fate {
    /// The interface it came in by.
    pub input: String,
    /// The packet, on one line.
    pub packet: String,
    /// `forward`, `drop`, `local` or `held`.
    pub verdict: &'static str,
    /// Why it was dropped; empty if it was not.
    pub reason: &'static str,
    /// The interfaces it left by.
    pub out: Vec<String>,
    /// The interfaces that answers left by.
    pub answer: Vec<String>,
    /// The line that decided, without the folder.
    pub by: Option<String>,
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} -> {}", self.input, self.packet, self.verdict)?;
        if !self.reason.is_empty() {
            write!(f, " {}", self.reason)?;
        }
        if !self.out.is_empty() {
            write!(f, " {}", self.out.join(","))?;
        }
        if !self.answer.is_empty() {
            write!(f, "  answer {}", self.answer.join(","))?;
        }
        match &self.by {
            Some(by) => write!(f, "  by {by}"),
            None => Ok(()),
        }
    }
}

/// The result of a replay.
#[derive(Debug)]
pub struct Replayed {
    /// Each packet's fate.
    pub fates: Vec<Fate>,
    /// Every line, as `weir replay --json` writes it.
    pub lines: String,
    /// The summary.
    pub summary: Summary,
    /// Where the captures of what came out are.
    pub folder: Scratch,
}

impl Replayed {
    /// Returns the packets that left by an interface.
    pub fn sent(&self, interface: &str) -> Vec<Packet> {
        packets(&self.folder.path().join(format!("{interface}.pcap")))
    }

    /// Packets by verdict and reason.
    pub fn tally(&self) -> BTreeMap<String, usize> {
        let mut tally = BTreeMap::new();
        for fate in &self.fates {
            let key = if fate.reason.is_empty() { fate.verdict.to_owned() } else { fate.reason.to_owned() };
            *tally.entry(key).or_default() += 1;
        }
        tally
    }
}

/// Replays a scenario; nothing may go wrong.
///
/// # Panics
/// When something does.
pub fn replay(scenario: &str, options: Options) -> Replayed {
    let folder = Scratch::new();
    let mut replay =
        Replay::new(gateway(scenario), &inputs(scenario), Some(folder.path()), options).expect("it starts");
    let (mut fates, mut lines) = (Vec::new(), String::new());
    let done = replay.run(|line| {
        let own = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        fates.push(Fate {
            input: line.input.to_owned(),
            packet: line.packet.to_owned(),
            verdict: line.verdict,
            reason: line.reason.unwrap_or_default(),
            out: own(&line.out),
            answer: own(&line.answer),
            by: line.by.as_ref().map(|by| by.rsplit('/').next().unwrap_or_default().to_owned()),
        });
        lines += &serde_json::to_string(line).expect("a line serialises");
        lines.push('\n');
        Ok(())
    });
    done.expect("everything is replayed");
    let summary = replay.summary();
    assert_eq!(summary.conservation.imbalance(), 0);
    assert_eq!(summary.packets, summary.conservation.received);
    let dropped: u64 = summary.drops.iter().map(|drop| drop.packets).sum();
    assert_eq!(dropped, summary.conservation.dropped);
    Replayed { fates, lines, summary, folder }
}

/// A folder that is gone when the test is over.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// A new, empty folder.
    ///
    /// # Panics
    /// When it cannot be made.
    #[expect(clippy::new_without_default, reason = "a folder is no default value")]
    pub fn new() -> Scratch {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("weir-tests-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder can be made");
        Scratch(path)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The program under test: `WEIR_BIN`, or the one that was built beside this test.
///
/// # Panics
/// When it is missing or older than its sources.
pub fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        if let Some(path) = std::env::var_os("WEIR_BIN") {
            return path.into();
        }
        let own = std::env::current_exe().expect("a running program has a path");
        let path = own.ancestors().nth(2).expect("tests stand in PROFILE/deps").join("weir");
        let built = fs::metadata(&path).and_then(|file| file.modified());
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
        // Cargo does not build another package's program for a test of this one.
        let newest = newest(&sources).expect("the sources are there");
        assert!(
            built.is_ok_and(|built| built >= newest),
            "{} is missing or older than its sources: run `cargo build --workspace` first, or name another by WEIR_BIN",
            path.display()
        );
        path
    })
}

/// When the newest source of a folder of crates was written.
fn newest(folder: &Path) -> std::io::Result<SystemTime> {
    let mut newest = SystemTime::UNIX_EPOCH;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name());
        if entry.file_type()?.is_dir() {
            // Tests and examples of a crate are no part of the program.
            if !["tests", "examples"].iter().any(|&other| name == other) {
                newest = newest.max(self::newest(&path)?);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs" || extension == "toml") {
            newest = newest.max(entry.metadata()?.modified()?);
        }
    }
    Ok(newest)
}
