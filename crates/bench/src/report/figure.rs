//! A measured figure: a median with its spread, and the target it is compared with.

use serde::{Deserialize, Serialize};

/// A median and its spread, over the windows of one measurement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Half of the windows were below.
    pub median: f64,
    /// A tenth of the windows was below.
    pub p10: f64,
    /// A tenth of the windows was above.
    pub p90: f64,
}

impl Figure {
    /// Returns the figure of these samples; without samples it is not a number.
    pub fn of(samples: impl IntoIterator<Item = f64>) -> Figure {
        let mut samples: Vec<f64> = samples.into_iter().collect();
        samples.sort_by(f64::total_cmp);
        let last = samples.len().saturating_sub(1) as f64;
        let at = |share: f64| samples.get((last * share).round() as usize).copied().unwrap_or(f64::NAN);
        Figure { median: at(0.5), p10: at(0.1), p90: at(0.9) }
    }
}

/// A bound that a value is compared with, and whether the value meets it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Target {
    /// An upper bound.
    AtMost {
        /// The bound.
        most: f64,
        /// The value meets it.
        met: bool,
    },
    /// A lower bound.
    AtLeast {
        /// The bound.
        least: f64,
        /// The value meets it.
        met: bool,
    },
}

impl Target {
    /// Compares a value with an upper bound.
    pub fn at_most(most: f64, value: f64) -> Target {
        Target::AtMost { most, met: value <= most }
    }

    /// Compares a value with a lower bound.
    pub fn at_least(least: f64, value: f64) -> Target {
        Target::AtLeast { least, met: value >= least }
    }

    /// Prints the bound, and that it is missed if it is: `≤ 36`, `≥ 86 missed`.
    pub fn text(&self) -> String {
        let (sign, bound, met) = match self {
            Target::AtMost { most, met } => ('≤', most, met),
            Target::AtLeast { least, met } => ('≥', least, met),
        };
        format!("{sign} {bound}{}", if *met { "" } else { " missed" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_the_middle_of_its_samples() {
        let samples = (0..=100).rev().map(f64::from);
        assert_eq!(Figure::of(samples), Figure { median: 50.0, p10: 10.0, p90: 90.0 });
        assert!(Figure::of([]).median.is_nan());
    }

    #[test]
    fn a_missed_target_says_so() {
        assert_eq!(Target::at_most(36.0, 36.0).text(), "≤ 36");
        assert_eq!(Target::at_most(36.0, 36.1).text(), "≤ 36 missed");
        assert_eq!(Target::at_least(86.0, 86.0).text(), "≥ 86");
        assert_eq!(Target::at_least(86.0, 85.9).text(), "≥ 86 missed");
    }
}
