//! The source of a change.

use std::fmt;
use std::time::{Duration, UNIX_EPOCH};

/// The source of a change, and its time in seconds of the Unix epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) source: String,
    pub(crate) time: u64,
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(self.time));
        write!(f, "{} {time}", self.source)
    }
}
