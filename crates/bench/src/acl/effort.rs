//! How much is measured.

use std::path::PathBuf;
use std::time::Duration;

/// How much is measured.
#[derive(Debug, Clone)]
pub struct Effort {
    /// Times that versions of a gateway have their turn.
    pub turns: usize,
    /// Windows of a turn.
    pub windows: usize,
    /// Packets that are looked up again and again.
    pub packets: usize,
    /// Times that all of these are looked up.
    pub repeats: usize,
    /// Rules of made sets, at most.
    pub rules: usize,
    /// Rules of sets that are made to be hard, at most.
    pub worst_rules: usize,
    /// Packets of which the slowest are chosen.
    pub candidates: usize,
    /// Rules that come in beside lookups.
    pub adds: usize,
    /// The time in which nothing changes, and the least in which rules come and go, in turns.
    pub pause: Duration,
    /// Directory of built peers, if they are to take part.
    pub peers: Option<PathBuf>,
}

impl Effort {
    /// Takes the whole effort, or a small part of it.
    pub fn new(quick: bool, peers: Option<PathBuf>) -> Effort {
        let whole = Effort {
            turns: 20,
            windows: 8,
            packets: 1 << 16,
            repeats: 15,
            rules: 100_000,
            worst_rules: 500_000,
            candidates: 4096,
            adds: 100_000,
            pause: Duration::from_millis(20),
            peers,
        };
        match quick {
            true => Effort {
                turns: 2,
                windows: 2,
                packets: 4096,
                repeats: 2,
                rules: 1_000,
                worst_rules: 1_000,
                candidates: 1024,
                adds: 500,
                pause: Duration::from_millis(2),
                ..whole
            },
            false => whole,
        }
    }
}
