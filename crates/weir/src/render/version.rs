//! `show version`: which gateway answers, and what it runs.

use serde::{Deserialize, Serialize};

use super::Report;

/// A running gateway.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Version {
    /// Version of the program.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// The configuration it runs, as it was named.
    pub configuration: String,
    /// Which generation of it: 1 at start, one more with each reload.
    pub generation: u64,
    /// Seconds since it started.
    pub uptime: f64,
}

impl Report for Version {
    const SCHEMA: &'static str = "weir.show.version/1";

    fn text(&self) -> String {
        let Version { version, pid, configuration, generation, uptime } = self;
        format!(
            "weir {version}, process {pid}, up {uptime:.1} s\nconfiguration {configuration}, generation {generation}\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::{json, read};
    use super::*;

    #[test]
    fn two_lines() {
        let version = Version {
            version: "0.1.0".into(),
            pid: 7,
            configuration: "edge.toml".into(),
            generation: 3,
            uptime: 12.34,
        };
        assert_eq!(version.text(), "weir 0.1.0, process 7, up 12.3 s\nconfiguration edge.toml, generation 3\n");
        assert_eq!(read::<Version>(&json(&version)).unwrap(), version);
    }
}
