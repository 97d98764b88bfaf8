//! Bursts of stations that move between the ports of a bridge: the sign of a loop, or of a station that uses another one's address.

use std::collections::HashMap;
use std::fmt;
use std::time::{Duration, Instant};

use weir_plane::stats::{BridgeMover, BridgeStats};

/// Moves between two looks, which are a second apart, that are no burst: hosts move one by one, and a virtual machine once.
const USUAL: u64 = 50;

/// The time between two reports of one bridge.
const PAUSE: Duration = Duration::from_secs(60);

/// A burst of moves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Burst {
    /// The bridge.
    pub(crate) bridge: String,
    /// Frames since the last look whose station was at another port before.
    pub(crate) frames: u64,
    /// One of the stations, and the interface of its last frame.
    pub(crate) mover: Option<BridgeMover>,
}

impl fmt::Display for Burst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Burst { bridge, frames, .. } = self;
        write!(f, "bridge {bridge}: {frames} frames in a second came from stations that another port had")?;
        if let Some(BridgeMover { mac, interface }) = &self.mover {
            write!(f, ", the last by {interface} from {mac}")?;
        }
        f.write_str(": look for a loop, or for two stations with one address")
    }
}

/// The bridges, as they were when somebody looked last.
#[derive(Debug, Default)]
pub(crate) struct Moves(HashMap<String, Seen>);

#[derive(Debug)]
struct Seen {
    frames: u64,
    reported: Option<Instant>,
}

impl Moves {
    /// Returns the bursts since the last look. A bridge is reported once a minute at most.
    pub(crate) fn step(&mut self, now: Instant, bridges: &[BridgeStats]) -> Vec<Burst> {
        self.0.retain(|name, _| bridges.iter().any(|bridge| bridge.name == *name));
        bridges.iter().filter_map(|bridge| self.of_bridge(now, bridge)).collect()
    }

    fn of_bridge(&mut self, now: Instant, bridge: &BridgeStats) -> Option<Burst> {
        let frames = bridge.moved + bridge.held;
        let Some(seen) = self.0.get_mut(&bridge.name) else {
            self.0.insert(bridge.name.clone(), Seen { frames, reported: None });
            return None;
        };
        // A bridge that was taken out and is back counts from 0.
        let since = frames.checked_sub(std::mem::replace(&mut seen.frames, frames)).unwrap_or(frames);
        let is_due = seen.reported.is_none_or(|then| now.duration_since(then) >= PAUSE);
        if since <= USUAL || !is_due {
            return None;
        }
        seen.reported = Some(now);
        Some(Burst { bridge: bridge.name.clone(), frames: since, mover: bridge.mover.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::sample;

    fn bridge(moved: u64, held: u64) -> Vec<BridgeStats> {
        sample::bridges().into_iter().map(|own| BridgeStats { moved, held, ..own }).collect()
    }

    #[test]
    fn a_burst_is_reported_once_a_minute() {
        let (begin, mut moves) = (Instant::now(), Moves::default());
        let at = |seconds| begin + Duration::from_secs(seconds);
        let texts = |found: Vec<Burst>| found.iter().map(ToString::to_string).collect::<Vec<_>>();
        // What was counted before is no burst.
        assert!(moves.step(at(0), &bridge(4000, 0)).is_empty());
        assert!(moves.step(at(1), &bridge(4030, 20)).is_empty());
        assert_eq!(
            texts(moves.step(at(2), &bridge(4030, 71))),
            ["bridge lan: 51 frames in a second came from stations that another port had, the last by vx from \
              02:00:00:00:aa:01: look for a loop, or for two stations with one address"]
        );
        assert!(moves.step(at(3), &bridge(9000, 71)).is_empty());
        assert_eq!(moves.step(at(62), &bridge(9051, 71)).len(), 1);
        // The bridge goes and comes back.
        assert!(moves.step(at(63), &[]).is_empty());
        assert!(moves.step(at(64), &bridge(100, 0)).is_empty());
        assert_eq!(moves.step(at(65), &bridge(200, 0)).len(), 1);
    }
}
