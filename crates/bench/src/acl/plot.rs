//! Plots of `weir bench acl`, as SVG.

use std::path::{Path, PathBuf};

use plotters::prelude::*;

use super::{Acl, Guide, SetCost};
use crate::report::plot::{PlotError, write};

type Failed = Box<dyn std::error::Error>;

/// Plots what the guide's cases add, ours beside the guide's (`acl-guide.svg`); ticks of lookups over the number of rules,
/// beside those of rte_acl, for each family (`acl-rules-ipv4.svg`); and the ratio of the two where there is a peer
/// (`acl-ratio.svg`). Returns the files' paths.
///
/// # Errors
/// When a file can not be written.
pub fn plot(report: &Acl, directory: &Path) -> Result<Vec<PathBuf>, PlotError> {
    let mut paths = Vec::new();
    if let Some(guide) = report.guide.iter().find(|guide| guide.family == "ipv4") {
        paths.push(write(directory, "acl-guide.svg", |svg| draw_guide(guide, svg))?);
    }
    for family in ["ipv4", "ipv6"] {
        let sets: Vec<&SetCost> = report.sets.iter().filter(|set| set.family == family).collect();
        if !sets.is_empty() {
            paths.push(write(directory, &format!("acl-rules-{family}.svg"), |svg| draw_rules(&sets, svg))?);
        }
    }
    let compared: Vec<&SetCost> = report.sets.iter().filter(|set| set.peer_load_ms.is_some()).collect();
    if !compared.is_empty() {
        paths.push(write(directory, "acl-ratio.svg", |svg| draw_ratio(&compared, svg))?);
    }
    Ok(paths)
}

/// Two bars for each case: what it adds in ticks, and what the guide's adds in cycles, or its node's clocks where there is no
/// such figure.
fn draw_guide(guide: &Guide, svg: &mut String) -> Result<(), Failed> {
    let rows: Vec<_> = guide.rows.iter().filter_map(|row| Some((row, row.theirs?))).collect();
    let bars = |theirs: &super::Theirs| match (theirs.base, theirs.with) {
        (Some(base), Some(with)) => f64::from(with - base),
        _ => theirs.node,
    };
    let most = rows.iter().map(|(row, theirs)| bars(theirs).max(row.added.p90)).fold(10.0, f64::max);
    let root = SVGBackend::with_string(svg, (720, 80 + 60 * rows.len() as u32)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(format!("{}, {} flows: added to forwarding", guide.family, guide.flows), ("sans-serif", 16))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(190)
        .build_cartesian_2d(0.0..most * 1.1, 0.0..rows.len() as f64)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .y_label_formatter(&|_| String::new())
        .x_desc("blue: weir, ticks; red: the guide's VPP, cycles of its machine")
        .draw()?;
    for (place, (row, theirs)) in rows.iter().enumerate() {
        // The first is on top.
        let y = (rows.len() - place) as f64 - 0.5;
        let ours = Rectangle::new([(0.0, y + 0.02), (row.added.median.max(0.0), y + 0.32)], BLUE.mix(0.4).filled());
        let guides = Rectangle::new([(0.0, y - 0.32), (bars(theirs), y - 0.02)], RED.mix(0.4).filled());
        let at = chart.backend_coord(&(0.0, y));
        chart.draw_series([ours, guides])?;
        chart.draw_series(std::iter::once(PathElement::new(
            [(row.added.p10.max(0.0), y + 0.17), (row.added.p90.max(0.0), y + 0.17)],
            BLUE.stroke_width(2),
        )))?;
        root.draw_text(&row.case, &("sans-serif", 13).into_text_style(&root), (12, at.1 - 7))?;
    }
    root.present()?;
    Ok(())
}

/// What a point of a plot is, by set and traffic.
type Value = fn(&super::TrafficCost) -> Option<f64>;

/// Points of sets over the number of their rules.
fn points(sets: &[&SetCost], traffic: &str, value: Value) -> Vec<(f64, f64)> {
    let of = |set: &&SetCost| {
        let cost = set.traffic.iter().find(|cost| cost.traffic == traffic)?;
        Some((set.rules as f64, value(cost)?))
    };
    sets.iter().filter_map(of).collect()
}

/// The least and the largest number of rules, with room on both sides.
fn sizes(sets: &[&SetCost]) -> std::ops::Range<f64> {
    let sizes = sets.iter().map(|set| set.rules as f64);
    let (least, largest) = sizes.fold((f64::MAX, 1.0), |(a, b), size| (f64::min(a, size), f64::max(b, size)));
    least * 0.8..largest * 1.25
}

/// The fastest of the peer's functions.
fn fastest(cost: &super::TrafficCost) -> Option<f64> {
    cost.peers.iter().map(|peer| peer.median).reduce(f64::min)
}

fn draw_rules(sets: &[&SetCost], svg: &mut String) -> Result<(), Failed> {
    const SERIES: [(&str, &str, Value, RGBColor); 6] = [
        ("lookup, spread", "spread", |cost| Some(cost.lookup.median), BLUE),
        ("lookup, local", "local", |cost| Some(cost.lookup.median), CYAN),
        ("node, spread", "spread", |cost| Some(cost.node.median), BLACK),
        ("node, local", "local", |cost| Some(cost.node.median), RGBColor(150, 150, 150)),
        ("rte_acl, spread", "spread", fastest, RED),
        ("rte_acl, local", "local", fastest, MAGENTA),
    ];
    let all = SERIES.iter().flat_map(|(_, traffic, value, _)| points(sets, traffic, *value));
    let most = all.map(|(_, ticks)| ticks).fold(10.0, f64::max);
    let root = SVGBackend::with_string(svg, (720, 460)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(format!("{}: first match in rule sets", sets[0].family), ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d(sizes(sets).log_scale(), (10.0..most * 1.15).log_scale())?;
    chart
        .configure_mesh()
        .x_desc("rules")
        .y_desc("ticks per packet")
        .x_label_formatter(&|size| format!("{size:.0}"))
        .y_label_formatter(&|ticks| format!("{ticks:.0}"))
        .draw()?;
    for (name, traffic, value, color) in SERIES {
        let points = points(sets, traffic, value);
        if points.is_empty() {
            continue;
        }
        chart
            .draw_series(points.into_iter().map(|point| Circle::new(point, 4, color.mix(0.7).filled())))?
            .label(name)
            .legend(move |(x, y)| Circle::new((x + 8, y), 4, color.mix(0.7).filled()));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .border_style(BLACK)
        .background_style(WHITE)
        .draw()?;
    root.present()?;
    Ok(())
}

/// Our ticks by theirs: below the line we are faster.
fn draw_ratio(sets: &[&SetCost], svg: &mut String) -> Result<(), Failed> {
    const SERIES: [(&str, RGBColor); 2] = [("spread", BLUE), ("local", CYAN)];
    let ratio: Value = |cost| cost.ratio;
    let most = SERIES.iter().flat_map(|(traffic, _)| points(sets, traffic, ratio)).map(|(_, ratio)| ratio);
    let most = most.fold(1.0, f64::max);
    let root = SVGBackend::with_string(svg, (720, 380)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption("lookups: ticks to those of rte_acl in the same run", ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(52)
        .build_cartesian_2d(sizes(sets).log_scale(), 0.0..most * 1.2)?;
    chart
        .configure_mesh()
        .x_desc("rules; red: as fast as rte_acl, dashes: 0.8 of its ticks")
        .y_desc("ratio")
        .x_label_formatter(&|size| format!("{size:.0}"))
        .draw()?;
    let sizes = sizes(sets);
    chart.draw_series(LineSeries::new([(sizes.start, 1.0), (sizes.end, 1.0)], RED.stroke_width(1)))?;
    chart.draw_series(DashedLineSeries::new([(sizes.start, 0.8), (sizes.end, 0.8)], 5, 5, RED.stroke_width(1)))?;
    for (traffic, color) in SERIES {
        chart
            .draw_series(
                points(sets, traffic, ratio).into_iter().map(|point| Circle::new(point, 4, color.mix(0.7).filled())),
            )?
            .label(traffic)
            .legend(move |(x, y)| Circle::new((x + 8, y), 4, color.mix(0.7).filled()));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .border_style(BLACK)
        .background_style(WHITE)
        .draw()?;
    root.present()?;
    Ok(())
}
