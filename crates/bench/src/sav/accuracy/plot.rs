//! The figures, as SVG.

use std::path::{Path, PathBuf};

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::report::{Accuracy, percent};
use super::{Tally, Way};
use crate::report::plot::{PlotError, write};

/// Plots false positives and false negatives of every case and mechanism as `sav-accuracy.svg`, and what is wrong while
/// prefixes move as `sav-accuracy-moves.svg`. Returns the files' paths.
///
/// # Errors
/// When a file can not be written.
pub fn plot(report: &Accuracy, directory: &Path) -> Result<Vec<PathBuf>, PlotError> {
    Ok(vec![
        write(directory, "sav-accuracy.svg", |svg| draw_cases(report, svg))?,
        write(directory, "sav-accuracy-moves.svg", |svg| draw_moves(report, svg))?,
    ])
}

const CELL: (i32, i32) = (46, 22);
const NAMES: i32 = 210;
const HEAD: i32 = 112;
const GAP: i32 = 24;

type Rate = fn(&Tally) -> Option<f64>;
type Failed = Box<dyn std::error::Error>;

/// A map for each of the two rates, side by side: a row for each stage of a case, a column for each mechanism.
fn draw_cases(report: &Accuracy, svg: &mut String) -> Result<(), Failed> {
    let rows: Vec<Row> =
        report.cases.iter().map(|row| Row { name: row.title(), tallies: Way::ALL.map(|way| row.tally(way)) }).collect();
    draw_maps(&rows, ["false positives, percent", "false negatives, percent"], svg)
}

/// While a tenth, half and all of the prefixes move, and after.
fn draw_moves(report: &Accuracy, svg: &mut String) -> Result<(), Failed> {
    let mut rows: Vec<Row> = Vec::new();
    for scenario in ["between domains", "inside a domain"] {
        for percent in [10, 50, 100] {
            for (phase, of) in [("during", 0), ("after", 1)] {
                let tally = |way| {
                    let mut all = report.withdrawals.iter();
                    let found = all.find(|found| {
                        (found.scenario.as_str(), found.mechanism, found.percent) == (scenario, way, percent)
                    })?;
                    Some([found.during, found.after][of])
                };
                rows.push(Row { name: format!("{scenario}, {percent} %, {phase}"), tallies: Way::ALL.map(tally) });
            }
        }
    }
    draw_maps(&rows, ["false positives, percent", "false negatives, percent"], svg)
}

struct Row {
    name: String,
    tallies: [Option<Tally>; Way::ALL.len()],
}

fn draw_maps(rows: &[Row], titles: [&str; 2], svg: &mut String) -> Result<(), Failed> {
    let columns = Way::ALL.len() as i32;
    let width = NAMES + 2 * columns * CELL.0 + 2 * GAP;
    let height = HEAD + rows.len() as i32 * CELL.1 + GAP;
    let root = SVGBackend::with_string(svg, (width as u32, height as u32)).into_drawing_area();
    root.fill(&WHITE)?;
    let small = ("sans-serif", 12).into_text_style(&root);
    for (number, row) in (0..).zip(rows) {
        root.draw_text(&row.name, &small, (8, HEAD + number * CELL.1 + 5))?;
    }
    let rates: [Rate; 2] = [Tally::false_positives, Tally::false_negatives];
    for (map, (title, rate)) in (0..).zip(titles.into_iter().zip(rates)) {
        let left = NAMES + map * (columns * CELL.0 + GAP);
        root.draw_text(title, &("sans-serif", 15).into_text_style(&root), (left, 8))?;
        for (column, way) in (0..).zip(Way::ALL) {
            let upright = small.transform(FontTransform::Rotate270).pos(Pos::new(HPos::Left, VPos::Center));
            root.draw_text(way.name(), &upright, (left + column * CELL.0 + CELL.0 / 2, HEAD - 6))?;
        }
        for (number, row) in (0..).zip(rows) {
            for (column, tally) in (0..).zip(&row.tallies) {
                let corner = (left + column * CELL.0, HEAD + number * CELL.1);
                let found = tally.as_ref().and_then(rate);
                draw_cell(&root, corner, found)?;
            }
        }
    }
    root.present()?;
    Ok(())
}

/// White is none, red is all; grey: the mechanism says nothing here.
fn draw_cell<B: DrawingBackend>(
    root: &DrawingArea<B, plotters::coord::Shift>,
    (x, y): (i32, i32),
    rate: Option<f64>,
) -> Result<(), Failed>
where
    B::ErrorType: 'static,
{
    let fade = |of: f64, rate: f64| (255.0 - of * rate / 100.0) as u8;
    let colour = rate.map_or(RGBColor(225, 225, 225), |rate| {
        let others = fade(200.0, rate);
        RGBColor(fade(20.0, rate), others, others)
    });
    let corners = [(x, y), (x + CELL.0 - 2, y + CELL.1 - 2)];
    root.draw(&Rectangle::new(corners, colour.filled()))?;
    root.draw(&Rectangle::new(corners, RGBColor(200, 200, 200).stroke_width(1)))?;
    let style = ("sans-serif", 11).into_text_style(root).pos(Pos::new(HPos::Center, VPos::Center));
    let text = if rate.is_some() { percent(rate) } else { "–".to_owned() };
    root.draw_text(&text, &style, (x + CELL.0 / 2 - 1, y + CELL.1 / 2 - 1))?;
    Ok(())
}
