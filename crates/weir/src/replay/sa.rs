//! SAs that encrypted or decrypted a packet.

use std::fmt;

use serde::Serialize;
use weir_plane::harness::{Harness, Outcome, Secured, Verdict};
use weir_plane::model::Place;
use weir_plane::reason::Reason;

use super::quoted::{Line, line};

/// A pair of SAs, and what it did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Association {
    /// Its name.
    pub name: String,
    /// `out`: from the gateway to the peer; `in`: from the peer.
    pub direction: &'static str,
    /// `encrypted`, `decrypted`, or `refused`: the packet belongs to the SA and was not decrypted, or had nothing inside.
    pub effect: &'static str,
    /// The SPI.
    pub spi: Option<u32>,
    /// The line that declares it.
    pub by: Option<Line>,
}

impl Association {
    /// The effect in words.
    pub(super) fn sentence(&self) -> String {
        let Association { name, effect, spi, .. } = self;
        let effect = match *effect {
            "encrypted" => "encrypts it",
            "decrypted" => "decrypts it",
            _ => "does not decrypt it",
        };
        let spi = spi.map_or_else(String::new, |spi| format!(", SPI {spi:#x}"));
        format!("{name} {effect}{spi}")
    }
}

impl fmt::Display for Association {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Association { name, effect, spi, .. } = self;
        write!(f, "{name} {effect}")?;
        spi.map_or(Ok(()), |spi| write!(f, " spi {spi:#x}"))
    }
}

/// The SAs of a packet, in order.
pub(super) fn associations(harness: &Harness, outcome: &Outcome) -> Vec<Association> {
    let of = |(at, &Secured { sa, inbound }): (usize, &Secured)| {
        let sa = harness.model().sas.get(sa.0 as usize)?;
        let (direction, effect, key) = match inbound {
            true if at + 1 == outcome.sas.len() && is_refused(outcome.verdict) => ("in", "refused", &sa.inbound),
            true => ("in", "decrypted", &sa.inbound),
            false => ("out", "encrypted", &sa.outbound),
        };
        let (spi, by) = (key.as_ref().map(|key| key.spi), harness.place(sa.origin).map(line));
        Some(Association { name: sa.name.clone(), direction, effect, spi, by })
    };
    outcome.sas.iter().enumerate().filter_map(of).collect()
}

/// The SA that a packet came to last did not decrypt it.
fn is_refused(verdict: Verdict) -> bool {
    use Reason::{EspAuth, EspDummy, EspEcn, EspMalformed, EspReplay};
    matches!(verdict, Verdict::Drop(EspReplay | EspAuth | EspMalformed | EspDummy | EspEcn))
}

/// The place of the SA that a packet came to last.
pub(super) fn last(harness: &Harness, outcome: &Outcome) -> Option<Place> {
    let Secured { sa, .. } = outcome.sas.last()?;
    harness.place(harness.model().sas.get(sa.0 as usize)?.origin)
}
