//! Timestamps as people read them.

use std::time::{Duration, SystemTime};

use weir_base::clock::Time;

/// As `2026-11-21T09:46:41.150826000Z`.
pub fn utc(time: Time) -> String {
    humantime::format_rfc3339_nanos(SystemTime::UNIX_EPOCH + Duration::from_nanos(time.0)).to_string()
}

/// Seconds of the Unix epoch, as `2026-11-21T09:46:41Z`.
pub fn utc_seconds(time: u64) -> String {
    // The last second of the year 9999; later times have no representation.
    const LATEST: u64 = 253_402_300_799;
    humantime::format_rfc3339_seconds(SystemTime::UNIX_EPOCH + Duration::from_secs(time.min(LATEST))).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00.000000007Z"),
            (951_782_400, "2000-02-29T00:00:00.000000007Z"),
            (1_763_718_401, "2025-11-21T09:46:41.000000007Z"),
            (u64::MAX / 1_000_000_000, "2554-07-21T23:34:33.000000007Z"),
        ] {
            assert_eq!(utc(Time(seconds * 1_000_000_000 + 7)), expected);
        }
    }
    #[test]
    fn seconds() {
        assert_eq!(utc_seconds(1_763_718_401), "2025-11-21T09:46:41Z");
        assert_eq!(utc_seconds(u64::MAX), "9999-12-31T23:59:59Z");
    }
}
