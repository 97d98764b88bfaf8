//! The path MTU of a tunnel, by reports about its packets (RFC 1191, RFC 8201). A learned MTU is forgotten after ten
//! minutes, as the path may carry more by then.

use std::sync::atomic::{AtomicU64, Ordering};

use weir_base::clock::Time;

/// Seconds after which a path MTU is forgotten (RFC 1191, 6.3; RFC 8201, 4).
const FORGET: u64 = 600;

/// A path MTU that any worker may lower. One word: the second at which it is forgotten, and the MTU.
#[derive(Debug, Default)]
pub struct PathMtu(AtomicU64);

impl PathMtu {
    /// The largest outer packet in octets that was learned; `None`: nothing was.
    #[inline]
    pub fn get(&self, now: Time) -> Option<u16> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            word => (word >> 16 > seconds(now)).then_some(word as u16),
        }
    }

    /// Takes in a report. Returns whether it lowers the MTU: a report of a larger one changes nothing.
    pub fn lower(&self, mtu: u16, now: Time) -> bool {
        let word = (seconds(now) + FORGET) << 16 | u64::from(mtu);
        let lowered = |before: u64| {
            let known = (before >> 16 > seconds(now)).then_some(before as u16);
            known.is_none_or(|known| mtu < known).then_some(word)
        };
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, lowered).is_ok()
    }
}

/// Whole seconds of a time: below 2^48.
fn seconds(now: Time) -> u64 {
    now.0 / 1_000_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_only_lower_and_are_forgotten() {
        let at = |seconds: u64| Time(seconds * 1_000_000_000);
        let path = PathMtu::default();
        assert_eq!(path.get(at(5)), None);
        assert!(path.lower(1400, at(5)) && !path.lower(1450, at(6)) && !path.lower(1400, at(6)));
        assert_eq!((path.get(at(7)), path.get(at(604)), path.get(at(605))), (Some(1400), Some(1400), None));
        assert!(path.lower(1300, at(10)));
        assert_eq!((path.get(at(606)), path.get(at(610))), (Some(1300), None));
        assert!(path.lower(1450, at(611)), "what was forgotten bounds nothing");
    }
}
