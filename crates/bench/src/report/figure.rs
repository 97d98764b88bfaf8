//! A measured figure: a median with its spread, and the target it is held against.

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
    /// The figure of these samples; `None` of none.
    pub fn of(samples: &mut [f64]) -> Option<Figure> {
        samples.sort_by(f64::total_cmp);
        let at = |share: f64| samples.get(((samples.len() as f64 - 1.0) * share).round() as usize).copied();
        Some(Figure { median: at(0.5)?, p10: at(0.1)?, p90: at(0.9)? })
    }

    /// The figure of samples of which there is one at least; of none it is no number.
    pub fn of_all(samples: &mut [f64]) -> Figure {
        Figure::of(samples).unwrap_or(Figure { median: f64::NAN, p10: f64::NAN, p90: f64::NAN })
    }
}

/// A target of TARGETS and whether it was met.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// At most this.
    pub most: f64,
    /// It was met.
    pub met: bool,
}

impl Target {
    /// Holds a value against its target.
    pub fn at_most(most: f64, value: f64) -> Target {
        Target { most, met: value <= most }
    }

    /// As a table shows it: `≤ 36`, or `≤ 36 missed`.
    pub fn text(&self) -> String {
        format!("≤ {}{}", self.most, if self.met { "" } else { " missed" })
    }
}

/// A target that is a least value, and whether it was met.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Floor {
    /// At least this.
    pub least: f64,
    /// It was met.
    pub met: bool,
}

impl Floor {
    /// Holds a value against its target.
    pub fn at_least(least: f64, value: f64) -> Floor {
        Floor { least, met: value >= least }
    }

    /// As a table shows it: `≥ 86`, or `≥ 86 missed`.
    pub fn text(&self) -> String {
        format!("≥ {}{}", self.least, if self.met { "" } else { " missed" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_the_middle_of_its_samples() {
        let mut samples: Vec<f64> = (0..=100).rev().map(f64::from).collect();
        assert_eq!(Figure::of(&mut samples), Some(Figure { median: 50.0, p10: 10.0, p90: 90.0 }));
        assert_eq!(Figure::of(&mut []), None);
    }

    #[test]
    fn a_missed_target_says_so() {
        assert_eq!(Target::at_most(36.0, 36.0).text(), "≤ 36");
        assert_eq!(Target::at_most(36.0, 36.1).text(), "≤ 36 missed");
        assert_eq!(Floor::at_least(86.0, 86.0).text(), "≥ 86");
        assert_eq!(Floor::at_least(86.0, 85.9).text(), "≥ 86 missed");
    }
}
