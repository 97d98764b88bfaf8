//! The MTU of the path of an SA or a tunnel, as ICMP errors about its packets report it (RFC 1191, RFC 8201; RFC 4301, 8.2).

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use weir_base::clock::Time;

/// The time for which an MTU counts (RFC 1191, 6.3; RFC 8201, 4).
const LIFETIME: Duration = Duration::from_secs(600);

const LIFETIME_MS: u64 = LIFETIME.as_millis() as u64;

/// Bits of the MTU in the word.
const MTU_BITS: u32 = 16;

/// The learned MTU of a path. All workers share it.
// The millisecond after that of the error, above the MTU; 0: none was learned.
#[derive(Debug, Default)]
pub struct PathMtu(AtomicU64);

/// A learned MTU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Learned {
    /// The MTU, in octets.
    pub mtu: u16,
    /// The time for which it still counts.
    pub left: Duration,
}

impl PathMtu {
    /// Returns what was learned and is not too old.
    #[inline]
    #[must_use]
    pub fn get(&self, now: Time) -> Option<Learned> {
        read(self.0.load(Ordering::Relaxed), now)
    }

    /// Takes over the MTU of an error. An MTU that is not less than a learned one changes nothing, and does not make it younger:
    /// false then.
    pub fn lower(&self, mtu: u16, now: Time) -> bool {
        let word = (milliseconds(now) + 1) << MTU_BITS | u64::from(mtu);
        let lowered = |old: u64| read(old, now).is_none_or(|old| mtu < old.mtu).then_some(word);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, lowered).is_ok()
    }
}

fn milliseconds(time: Time) -> u64 {
    // 2^48 milliseconds are 8,900 years.
    (time.0 / 1_000_000) & ((1 << (64 - MTU_BITS)) - 2)
}

#[inline]
fn read(word: u64, now: Time) -> Option<Learned> {
    let since = (word >> MTU_BITS).checked_sub(1)?;
    // Another worker may have begun its round later.
    let age = milliseconds(now).saturating_sub(since);
    let left = LIFETIME_MS.checked_sub(age).filter(|&left| left > 0)?;
    Some(Learned { mtu: (word & 0xffff) as u16, left: Duration::from_millis(left) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time(seconds * 1_000_000_000)
    }

    #[test]
    fn an_mtu_only_falls_until_it_is_too_old() {
        let path = PathMtu::default();
        assert_eq!(path.get(at(0)), None);
        assert!(path.lower(1400, at(0)));
        assert!(!path.lower(1400, at(300)) && !path.lower(1500, at(300)), "neither falls nor becomes younger");
        assert_eq!(path.get(at(300)), Some(Learned { mtu: 1400, left: Duration::from_secs(300) }));
        assert!(path.lower(1300, at(500)));
        assert_eq!(path.get(at(600)), Some(Learned { mtu: 1300, left: Duration::from_secs(500) }));
        assert_eq!(path.get(at(1100)), None);
        assert!(path.lower(1450, at(1100)), "an old one does not count");
        assert_eq!(path.get(at(1099)).map(|own| own.mtu), Some(1450), "to a worker whose round began before");
    }

    #[test]
    fn reports_only_lower_and_are_forgotten() {
        let get = |path: &PathMtu, now| path.get(now).map(|learned| learned.mtu);
        let path = PathMtu::default();
        assert_eq!(get(&path, at(5)), None);
        assert!(path.lower(1400, at(5)) && !path.lower(1450, at(6)) && !path.lower(1400, at(6)));
        assert_eq!((get(&path, at(7)), get(&path, at(604)), get(&path, at(605))), (Some(1400), Some(1400), None));
        assert!(path.lower(1300, at(10)));
        assert_eq!((get(&path, at(606)), get(&path, at(610))), (Some(1300), None));
        assert!(path.lower(1450, at(611)), "what was forgotten bounds nothing");
    }
}
