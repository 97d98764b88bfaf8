//! How many of the packets a rule permits.

use std::fmt;

use weir_plane::model::{AclLimit, RateUnit};

use super::super::findings::Kind;
use super::super::quantity;
use super::super::words::{Problem, shown};

/// Bits of the longest packet of IP: it passes at once, however low the rate.
const LONGEST_PACKET: u64 = 65_535 * 8;

/// More than any machine makes in a second, and in a year.
const MOST: u64 = 1_000_000_000_000_000;

/// How many of its packets a rule permits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// The unit of the rate.
    pub unit: RateUnit,
    /// So much in a second, 1 to 10¹⁵.
    pub rate: u64,
    /// So much at once; `None`: a tenth of the rate, but at least a packet, or the bits of the longest one.
    pub burst: Option<u64>,
}

/// Returns the burst of a rate without `burst`.
pub(crate) fn default_burst(unit: RateUnit, rate: u64) -> u64 {
    (rate / 10).max(least_burst(unit))
}

/// Returns the least burst by which any packet can pass.
fn least_burst(unit: RateUnit) -> u64 {
    match unit {
        RateUnit::Packets => 1,
        RateUnit::Bits => LONGEST_PACKET,
    }
}

impl Limit {
    /// As the gateway wants it.
    pub(crate) fn model(self) -> AclLimit {
        let Limit { unit, rate, burst } = self;
        AclLimit { unit, rate, burst: burst.unwrap_or_else(|| default_burst(unit, rate)) }
    }

    /// Returns the limit of the model in the form of a rule.
    pub(crate) fn of(limit: AclLimit) -> Limit {
        let AclLimit { unit, rate, burst } = limit;
        Limit { unit, rate, burst: Some(burst).filter(|&burst| burst != default_burst(unit, rate)) }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.unit {
            RateUnit::Packets => write!(f, "{}pps", quantity::print(self.rate))?,
            RateUnit::Bits => write!(f, "{}bps", quantity::print(self.rate))?,
        }
        match self.burst {
            Some(burst) => write!(f, " burst {}", quantity::print(burst)),
            None => Ok(()),
        }
    }
}

/// A rate: its unit, and so much in a second.
pub(in crate::rules) fn rate(word: &str) -> Result<(RateUnit, u64), Problem> {
    const SHAPE: &str = "it looks like `1000pps`, packets in a second, or `10Mbps`, bits in a second";
    let wrong = || Problem::new(Kind::Rule, format!("`{}` is no rate", shown(word))).help(SHAPE);
    let (number, unit) = match (word.strip_suffix("pps"), word.strip_suffix("bps")) {
        (Some(number), _) => (number, RateUnit::Packets),
        (_, Some(number)) => (number, RateUnit::Bits),
        _ => return Err(wrong()),
    };
    let rate = quantity::parse(number).ok_or_else(wrong)?;
    within(word, rate, 1, "a rate").map(|()| (unit, rate))
}

/// Parses a burst in packets or bits.
pub(in crate::rules) fn burst(word: &str, unit: RateUnit) -> Result<u64, Problem> {
    let Some(burst) = quantity::parse(word) else {
        let wrong = Problem::new(Kind::Rule, format!("`{}` is no burst", shown(word)));
        return Err(wrong.help("write a whole number, or one with k, M or G, as in `2.5M`"));
    };
    let (least, what) = match unit {
        RateUnit::Packets => (1, "a burst of packets"),
        RateUnit::Bits => (LONGEST_PACKET, "a burst of bits, which has room for the longest packet"),
    };
    within(word, burst, least, what).map(|()| burst)
}

fn within(word: &str, number: u64, least: u64, what: &str) -> Result<(), Problem> {
    if (least..=MOST).contains(&number) {
        return Ok(());
    }
    Err(Problem::new(Kind::Rule, format!("{} is not within {least} to {MOST}, the range of {what}", shown(word))))
}
