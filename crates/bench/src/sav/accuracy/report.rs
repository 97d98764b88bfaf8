//! The report of `weir bench sav --accuracy`.

use serde::{Deserialize, Serialize};

use super::mechanism::Way;
use super::withdrawal::Withdrawal;
use super::{CaseRow, Tally};
use crate::report::chart::{Chart, Shape, percent};
use crate::report::figure::Figure;
use crate::report::table::Table;
use crate::report::{Page, Report};

/// A phase of a withdrawal.
type PhaseOf = fn(&Withdrawal) -> &Tally;
/// A rate of a tally.
type RateOf = fn(&Tally) -> Option<f64>;

/// The measurement of `weir bench sav --accuracy`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Accuracy {
    /// The CPU, as it names itself.
    pub cpu: String,
    /// The seed of everything random.
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
    /// The results while prefixes move.
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

    /// Returns the results of a mechanism; `None` where it says nothing.
    pub(super) fn tally(&self, way: Way) -> Option<Tally> {
        self.cells.iter().find(|cell| cell.mechanism == way).map(|cell| cell.tally())
    }
}

impl Report for Accuracy {
    const SCHEMA: &'static str = "weir.bench.sav-accuracy/1";

    fn page(&self) -> Page {
        let matrix = Way::ALL.into_iter().fold(Table::of(&self.cases).words("Case", CaseRow::title), |table, way| {
            table.number(way.name(), 0, |row| {
                let tally = row.tally(way)?;
                Some(format!("{}/{}", percent(tally.false_positives()), percent(tally.false_negatives())))
            })
        });
        let lost = Some(self.lost()).filter(|lost| *lost > 0);
        Page::default()
            .line(format!("{}; seed {}", self.cpu, self.seed))
            .line(format!(
                "{} prefixes in each group; {} packets for each case, mechanism and ratio of spoofed to legitimate ones, 1:9 \
                 to 9:1",
                self.prefixes, self.packets
            ))
            .line("\nfalse positives / false negatives, percent of packets, over all ratios")
            .table(matrix)
            .each(lost, |page, lost| page.line(format!("{lost} packets came to no end that shows a verdict")))
            .each(self.spread(), |page, spread| {
                page.line(format!(
                    "between the ratios of one case and mechanism rates differ by at most {spread:.1} points"
                ))
            })
            .line(format!(
                "\na share of {} prefixes moves; false positives and false negatives in percent before, during and after; \
                 medians of {} turns",
                self.moving, self.turns
            ))
            .table(self.moves())
    }

    /// False positives and false negatives of every case and mechanism, and while prefixes move.
    fn charts(&self) -> Vec<(String, Chart)> {
        let cases = self.cases.iter().map(|row| (row.title(), Way::ALL.map(|way| row.tally(way)))).collect();
        vec![("sav-accuracy".to_owned(), maps(cases)), ("sav-accuracy-moves".to_owned(), maps(self.while_moving()))]
    }
}

type MapRow = (String, [Option<Tally>; Way::ALL.len()]);

fn maps(rows: Vec<MapRow>) -> Chart {
    let rates = |rate: fn(&Tally) -> Option<f64>, tallies: &[Option<Tally>]| {
        tallies.iter().map(|tally| tally.as_ref().and_then(rate)).collect()
    };
    let both =
        |tallies: &[Option<Tally>]| [rates(Tally::false_positives, tallies), rates(Tally::false_negatives, tallies)];
    let titles = ["false positives, percent", "false negatives, percent"].map(str::to_owned);
    let heads = Way::ALL.map(Way::name).to_vec();
    let rows = rows.into_iter().map(|(name, tallies)| (name, both(&tallies))).collect();
    Chart { title: String::new(), shape: Shape::Maps { titles, heads, rows } }
}

impl Accuracy {
    /// Returns tallies while a tenth, half and all of the prefixes move, and after.
    fn while_moving(&self) -> Vec<MapRow> {
        let mut rows = Vec::new();
        for scenario in ["between domains", "inside a domain"] {
            for percent in [10, 50, 100] {
                for (phase, of) in [("during", 0), ("after", 1)] {
                    let tally = |way| {
                        let mut all = self.withdrawals.iter();
                        let found = all.find(|found| {
                            (found.scenario.as_str(), found.mechanism, found.percent) == (scenario, way, percent)
                        })?;
                        Some([found.during, found.after][of])
                    };
                    rows.push((format!("{scenario}, {percent} %, {phase}"), Way::ALL.map(tally)));
                }
            }
        }
        rows
    }

    fn moves(&self) -> Table<&Withdrawal> {
        let phases: [(&str, PhaseOf); 3] =
            [("before", |moved| &moved.before), ("during", |moved| &moved.during), ("after", |moved| &moved.after)];
        let rates: [(&str, RateOf); 2] = [("FP", Tally::false_positives), ("FN", Tally::false_negatives)];
        let mut table = Table::of(&self.withdrawals)
            .words("Scenario", |moved| moved.scenario.replace(' ', "-"))
            .words("Mechanism", |moved| moved.mechanism.name())
            .number("Moved", 0, |moved| format!("{}%", moved.percent));
        for (rate, of) in rates {
            for (phase, tally) in phases {
                table = table.number(&format!("{rate}_{phase}"), 0, |moved| percent(of(tally(moved))));
            }
        }
        let ms = |moved: &Withdrawal, of: fn(&Figure) -> f64| {
            moved.convergence.map(|found| format!("{:.2}", of(&found.seconds) * 1e3))
        };
        table
            .number("Right_after_ms", 0, |moved| ms(moved, |of| of.median).unwrap_or_else(|| "never".to_owned()))
            .number("p10", 0, |moved| ms(moved, |of| of.p10))
            .number("p90", 0, |moved| ms(moved, |of| of.p90))
            .number("Updates", 0, |moved| moved.updates)
            .number("Updates/s", 0, |moved| moved.rate.median)
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
