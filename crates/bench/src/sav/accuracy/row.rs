//! Results by case, stage and mechanism.

use serde::{Deserialize, Serialize};

use super::mechanism::Way;
use super::traffic::{FlowCount, Tally};

/// The results of one stage of a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CaseRow {
    /// The case.
    pub case: String,
    /// The stage; empty where there is but one.
    pub stage: String,
    /// The label of the draft's figure.
    pub figure: String,
    /// The results by mechanism.
    pub cells: Vec<Cell>,
}

/// The results of a mechanism in a stage of a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The mechanism.
    pub mechanism: Way,
    /// By the ratio of spoofed to legitimate packets, 1:9 first.
    pub mixes: Vec<Mix>,
    /// The same packets by what they are.
    pub flows: Vec<FlowCount>,
}

/// The results of a mechanism with a mix of packets.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Mix {
    /// Spoofed packets in ten; the others are legitimate.
    pub spoofed_in_ten: u8,
    /// The counts of packets.
    pub tally: Tally,
}

impl Cell {
    /// All mixes together.
    pub fn tally(&self) -> Tally {
        self.mixes.iter().fold(Tally::default(), |mut all, mix| {
            all.add(&mix.tally);
            all
        })
    }
}
