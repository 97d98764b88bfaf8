//! Timestamps as people read them.

use weir_base::clock::Time;

/// As `2026-11-21T09:46:41.150826000Z`.
pub(super) fn utc(time: Time) -> String {
    let (seconds, nanoseconds) = (time.0 / 1_000_000_000, time.0 % 1_000_000_000);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{nanoseconds:09}Z")
}

/// The date so many days after 1970-01-01. Years begin in March here, so that the odd day comes last.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468; // from 0000-03-01
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + next, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00.000000007Z"),
            (951_782_399, "2000-02-28T23:59:59.000000007Z"),
            (951_782_400, "2000-02-29T00:00:00.000000007Z"),
            (951_868_800, "2000-03-01T00:00:00.000000007Z"),
            (1_763_718_401, "2025-11-21T09:46:41.000000007Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000000007Z"),
            (u64::MAX / 1_000_000_000, "2554-07-21T23:34:33.000000007Z"),
        ] {
            assert_eq!(utc(Time(seconds * 1_000_000_000 + 7)), expected);
        }
    }

    #[test]
    fn every_day_follows_the_day_before() {
        let mut last = date(0);
        for day in 1..200_000 {
            let next = date(day);
            let (year, month, day) = last;
            let follows = next == (year, month, day + 1) || next == (year, month + 1, 1) || next == (year + 1, 1, 1);
            assert!(follows, "{last:?} {next:?}");
            last = next;
        }
        assert_eq!(last, (2517, 7, 31));
    }
}
