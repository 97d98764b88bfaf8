//! Runs of the program under test, in a folder of their own.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use weir_tests::{Scratch, program};

use crate::frame::{self, Timed};

/// A configuration, `gate.toml`, and what is made of it.
pub(crate) struct Bench {
    folder: Scratch,
}

/// A finding of `weir check`.
#[derive(Debug, Clone)]
pub(crate) struct Finding {
    pub(crate) severity: String,
    pub(crate) code: String,
    pub(crate) message: String,
    /// The line of the configuration, from 1.
    pub(crate) line: usize,
}

impl Bench {
    pub(crate) fn new(config: &str) -> Bench {
        let bench = Bench { folder: Scratch::new() };
        bench.write("gate.toml", config.as_bytes());
        bench
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: &[u8]) {
        fs::write(self.path(name), content).expect("the folder can be written to");
    }

    /// Runs a command in the folder.
    pub(crate) fn weir(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(program());
        command.args(arguments).current_dir(self.folder.path()).env("NO_COLOR", "1").env_remove("WEIR_LOG");
        command.env("WEIR_SOCKET", self.path("control.sock")).stdin(Stdio::null());
        command.output().expect("weir can be started")
    }

    /// Returns the exit code of `weir check` and its findings.
    #[track_caller]
    pub(crate) fn check(&self) -> (i32, Vec<Finding>) {
        let output = self.weir(&["check", "--json", "gate.toml"]);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
            panic!("check prints no JSON: {error}\n{}", String::from_utf8_lossy(&output.stderr))
        });
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let findings = report["diagnostics"].as_array().expect("a list of findings").iter().map(|finding| Finding {
            severity: text(&finding["severity"]),
            code: text(&finding["code"]),
            message: text(&finding["message"]),
            line: finding["line"].as_u64().unwrap_or(0) as usize,
        });
        (output.status.code().unwrap_or(-1), findings.collect())
    }

    /// Returns the warnings of `weir check` about a valid configuration.
    #[track_caller]
    pub(crate) fn warnings(&self) -> Vec<Finding> {
        let (code, findings) = self.check();
        let errors = findings.iter().filter(|finding| finding.severity == "error");
        let errors: Vec<String> = errors.map(|error| format!("{}: {}", error.line, error.message)).collect();
        assert!(code == 0 && errors.is_empty(), "exit code {code}: {errors:#?}");
        findings
    }

    /// Replays frames that arrive on ports; returns the line of each, in their order.
    #[track_caller]
    pub(crate) fn replay(&self, inputs: &[(&str, &[Timed])]) -> Vec<Value> {
        let mut arguments = vec!["replay", "gate.toml", "--json", "--out-dir", "out"];
        let names: Vec<String> = inputs.iter().map(|(name, _)| format!("{name}={name}.pcap")).collect();
        for ((name, packets), argument) in inputs.iter().zip(&names) {
            self.write(&format!("{name}.pcap"), &frame::capture(frame::ETHERNET, packets));
            arguments.extend(["--in", argument]);
        }
        let output = self.weir(&arguments);
        let summary = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "replay: {}\n{summary}", output.status);
        assert!(summary.contains("every packet is accounted for"), "{summary}");
        let text = String::from_utf8(output.stdout).expect("lines are UTF-8");
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line is JSON"));
        let ordered: BTreeMap<u64, Value> = lines.map(|line| (line["n"].as_u64().expect("a number"), line)).collect();
        let sent: usize = inputs.iter().map(|(_, packets)| packets.len()).sum();
        assert_eq!(ordered.len(), sent, "each packet has one line");
        ordered.into_values().collect()
    }

    /// Returns the frames that left by an interface in the last replay.
    pub(crate) fn sent(&self, interface: &str) -> Vec<Vec<u8>> {
        let path = self.path("out").join(format!("{interface}.pcap"));
        frame::frames(&fs::read(path).expect("a replay writes a capture of each interface"))
    }
}

/// Returns verdict and reason of a line of a replay: `forward`, `drop acl-deny`.
pub(crate) fn fate(line: &Value) -> String {
    match line["reason"].as_str() {
        Some(reason) => format!("{} {reason}", line["verdict"].as_str().unwrap_or_default()),
        None => line["verdict"].as_str().unwrap_or_default().to_owned(),
    }
}

/// Returns what a command printed, for messages.
pub(crate) fn printed(output: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    format!("{}\n{out}{err}", output.status)
}

/// Returns the first few of many texts: five, or as many as `WEIR_ORACLE_SHOW` says.
pub(crate) fn some(texts: &[String]) -> String {
    let shown = std::env::var("WEIR_ORACLE_SHOW").ok().and_then(|text| text.parse().ok()).unwrap_or(5);
    texts.iter().take(shown).map(String::as_str).collect::<Vec<_>>().join("\n")
}
