//! What was found, as text and as JSON.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::mechanism::Way;
use super::withdrawal::Withdrawal;
use super::{CaseRow, Tally};
use crate::report::Report;
use crate::report::table::Align::{Left, Right};
use crate::report::table::Table;

/// What `weir bench sav --accuracy` found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Accuracy {
    /// The CPU, as it names itself.
    pub cpu: String,
    /// What everything random was seeded with.
    pub seed: u64,
    /// Prefixes of each group, in the cases.
    pub prefixes: u16,
    /// Packets for each case, mechanism and ratio.
    pub packets: usize,
    /// The cases and their stages.
    pub cases: Vec<CaseRow>,
    /// Prefixes of each group where some move.
    pub moving: u16,
    /// How often each share of them moved: what medians are of.
    pub turns: usize,
    /// What was found when prefixes moved.
    pub withdrawals: Vec<Withdrawal>,
}

impl CaseRow {
    /// The case, and the stage if it has several.
    pub(super) fn title(&self) -> String {
        match self.stage.as_str() {
            "" => self.case.clone(),
            stage => format!("{}, {stage}", self.case),
        }
    }

    /// What a mechanism did; `None` where it says nothing.
    pub(super) fn tally(&self, way: Way) -> Option<Tally> {
        self.cells.iter().find(|cell| cell.mechanism == way).map(|cell| cell.tally())
    }
}

impl Report for Accuracy {
    const SCHEMA: &'static str = "weir.bench.sav-accuracy/1";

    fn text(&self) -> String {
        // Writing to a string does not fail.
        let mut text = String::new();
        let _ = writeln!(text, "{}; seed {}", self.cpu, self.seed);
        let _ = writeln!(
            text,
            "{} prefixes in each group; {} packets for each case, mechanism and ratio of spoofed to legitimate ones, 1:9 to 9:1",
            self.prefixes, self.packets
        );
        text.push_str("\nfalse positives / false negatives, percent of packets, over all ratios\n");
        text.push_str(&self.matrix());
        if let Some(lost) = Some(self.lost()).filter(|lost| *lost > 0) {
            let _ = writeln!(text, "{lost} packets came to no end that says anything of validation");
        }
        if let Some(spread) = self.spread() {
            let _ = writeln!(
                text,
                "between the ratios of one case and mechanism rates differ by at most {spread:.1} points"
            );
        }
        let _ = writeln!(
            text,
            "\na share of {} prefixes moves; false positives and false negatives in percent before, during and after; medians of {} turns",
            self.moving, self.turns
        );
        text.push_str(&self.moves());
        text
    }
}

impl Accuracy {
    fn matrix(&self) -> String {
        let mut columns = vec![("Case", Left)];
        columns.extend(Way::ALL.map(|way| (way.name(), Right)));
        let mut table = Table::new(&columns);
        for row in &self.cases {
            let cell = |way| match row.tally(way) {
                Some(tally) => format!("{}/{}", percent(tally.false_positives()), percent(tally.false_negatives())),
                None => String::new(),
            };
            let [a, b, c, d, e, f, g, h, i] = Way::ALL.map(cell);
            table.row([row.title(), a, b, c, d, e, f, g, h, i]);
        }
        table.text()
    }

    fn moves(&self) -> String {
        let mut table = Table::new(&[
            ("Scenario", Left),
            ("Mechanism", Left),
            ("Moved", Right),
            ("FP_before", Right),
            ("FP_during", Right),
            ("FP_after", Right),
            ("FN_before", Right),
            ("FN_during", Right),
            ("FN_after", Right),
            ("Right_after_ms", Right),
            ("p10", Right),
            ("p90", Right),
            ("Updates", Right),
            ("Updates/s", Right),
        ]);
        for moved in &self.withdrawals {
            let Withdrawal { before, during, after, .. } = moved;
            let [ms, least, most] = match moved.convergence {
                Some(found) => [found.seconds.median, found.seconds.p10, found.seconds.p90]
                    .map(|seconds| format!("{:.2}", seconds * 1e3)),
                None => ["never".to_owned(), String::new(), String::new()],
            };
            let [p_before, p_during, p_after] = [before, during, after].map(|tally| percent(tally.false_positives()));
            let [n_before, n_during, n_after] = [before, during, after].map(|tally| percent(tally.false_negatives()));
            table.row([
                moved.scenario.replace(' ', "-"),
                moved.mechanism.name().to_owned(),
                format!("{}%", moved.percent),
                p_before,
                p_during,
                p_after,
                n_before,
                n_during,
                n_after,
                ms,
                least,
                most,
                moved.updates.to_string(),
                format!("{:.0}", moved.rate.median),
            ]);
        }
        table.text()
    }

    fn lost(&self) -> u64 {
        let cells = self.cases.iter().flat_map(|row| &row.cells);
        cells.map(|cell| cell.tally()).map(|tally| tally.legitimate.lost + tally.spoofed.lost).sum()
    }

    /// By how many points a rate differs between ratios at most.
    fn spread(&self) -> Option<f64> {
        let cells = self.cases.iter().flat_map(|row| &row.cells);
        let spreads = cells.flat_map(|cell| {
            [Tally::false_positives, Tally::false_negatives].map(|rate| {
                let rates: Vec<f64> = cell.mixes.iter().filter_map(|mix| rate(&mix.tally)).collect();
                rates.iter().copied().fold(0.0, f64::max) - rates.iter().copied().fold(100.0, f64::min)
            })
        });
        spreads.max_by(f64::total_cmp)
    }
}

/// Without decimals where there are none.
pub(super) fn percent(rate: Option<f64>) -> String {
    match rate {
        None => String::new(),
        Some(rate) if (rate - rate.round()).abs() < 0.05 => format!("{rate:.0}"),
        Some(rate) => format!("{rate:.1}"),
    }
}
