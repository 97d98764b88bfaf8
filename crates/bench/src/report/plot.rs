//! Plots of measured figures, as SVG.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use plotters::prelude::*;

use crate::forward::Cost;
use crate::sav::{Sav, Scale, Way};

/// Why a plot was not written.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {reason}")]
pub struct PlotError {
    path: PathBuf,
    reason: String,
}

/// Plots IPv6 forwarding over the size of the table: every node's share, the sum, and VPP's sum. Returns the file's path.
///
/// # Errors
/// When the file can not be written.
pub fn forward(costs: &[Cost], directory: &Path) -> Result<PathBuf, PlotError> {
    write(directory, "forward.svg", |svg| draw_forward(costs, svg))
}

/// Plots what source address validation leaves of the rate, for each family: by mechanism (Figure 8 of the draft) as
/// `sav-mechanisms-ipv6.svg`, and over the number of source prefixes (Figure 10) as `sav-prefixes-ipv6.svg`. Returns the
/// files' paths.
///
/// # Errors
/// When a file can not be written.
pub fn sav(report: &Sav, directory: &Path) -> Result<Vec<PathBuf>, PlotError> {
    let mut paths = Vec::new();
    for scale in &report.figure_8 {
        let name = format!("sav-mechanisms-{}.svg", scale.family);
        paths.push(write(directory, &name, |svg| draw_mechanisms(scale, svg))?);
    }
    for family in ["ipv6", "ipv4"] {
        let scales: Vec<&Scale> = report.figure_10.iter().filter(|scale| scale.family == family).collect();
        if !scales.is_empty() {
            let name = format!("sav-prefixes-{family}.svg");
            paths.push(write(directory, &name, |svg| draw_prefixes(&scales, svg))?);
        }
    }
    Ok(paths)
}

/// Makes the folder if it is not there, and a file in it.
pub(crate) fn write(
    directory: &Path,
    name: &str,
    draw: impl FnOnce(&mut String) -> Result<(), Box<dyn std::error::Error>>,
) -> Result<PathBuf, PlotError> {
    let path = directory.join(name);
    let failed = |error: &dyn std::fmt::Display| PlotError { path: path.clone(), reason: error.to_string() };
    std::fs::create_dir_all(directory).map_err(|error| failed(&error))?;
    let mut svg = String::new();
    draw(&mut svg).map_err(|error| failed(&error))?;
    let written = weir_base::file::replace(&path).and_then(|mut file| file.write_all(svg.as_bytes()));
    written.map_err(|error| failed(&error))?;
    Ok(path)
}

/// A bar for each mechanism, with its spread, and the draft's figure as a line across it.
fn draw_mechanisms(scale: &Scale, svg: &mut String) -> Result<(), Box<dyn std::error::Error>> {
    let rows = &scale.rows;
    let root = SVGBackend::with_string(svg, (720, 60 + 34 * rows.len() as u32)).into_drawing_area();
    root.fill(&WHITE)?;
    let caption = format!(
        "{}, {}-octet frames, {} source prefixes: of forwarding without validation",
        scale.family, scale.size, scale.prefixes
    );
    let mut chart = ChartBuilder::on(&root)
        .caption(caption, ("sans-serif", 16))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(190)
        .build_cartesian_2d(0.0..105.0, 0.0..rows.len() as f64)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .y_label_formatter(&|_| String::new())
        .x_desc("percent; red: the draft's router")
        .draw()?;
    for (place, row) in rows.iter().enumerate() {
        // The first is on top.
        let y = (rows.len() - place) as f64 - 0.5;
        let bar = Rectangle::new([(0.0, y - 0.3), (row.ratio.median, y + 0.3)], BLUE.mix(0.4).filled());
        let spread = PathElement::new([(row.ratio.p10, y), (row.ratio.p90, y)], BLUE.stroke_width(2));
        let at = chart.backend_coord(&(0.0, y));
        let draft = row.draft.map(|draft| PathElement::new([(draft, y - 0.4), (draft, y + 0.4)], RED.stroke_width(2)));
        chart.draw_series(std::iter::once(bar))?;
        chart.draw_series(std::iter::once(spread).chain(draft))?;
        root.draw_text(row.way.name(), &("sans-serif", 13).into_text_style(&root), (12, at.1 - 7))?;
    }
    root.present()?;
    Ok(())
}

/// A line for each kind of table over the number of prefixes, and the draft's.
fn draw_prefixes(scales: &[&Scale], svg: &mut String) -> Result<(), Box<dyn std::error::Error>> {
    let sizes = scales.iter().map(|scale| scale.prefixes as f64);
    let (least, largest) = sizes.fold((f64::MAX, 1.0), |(a, b), size| (f64::min(a, size), f64::max(b, size)));
    let root = SVGBackend::with_string(svg, (720, 420)).into_drawing_area();
    root.fill(&WHITE)?;
    let (family, size) = (&scales[0].family, scales[0].size);
    let mut chart = ChartBuilder::on(&root)
        .caption(format!("{family}, {size}-octet frames: of forwarding without validation"), ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(52)
        .build_cartesian_2d((least * 0.8..largest * 1.25).log_scale(), 0.0..105.0)?;
    chart
        .configure_mesh()
        .x_desc("source prefixes")
        .y_desc("percent")
        .x_label_formatter(&|size| format!("{size:.0}"))
        .draw()?;
    let ways: Vec<Way> = scales[0].rows.iter().map(|row| row.way).collect();
    for (index, way) in ways.into_iter().enumerate() {
        let color = Palette99::pick(index + 2).to_rgba();
        let points = scales.iter().filter_map(|scale| {
            let row = scale.rows.iter().find(|row| row.way == way)?;
            Some((scale.prefixes as f64, row.ratio.median))
        });
        chart
            .draw_series(LineSeries::new(points, color.stroke_width(2)).point_size(3))?
            .label(way.name())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color.stroke_width(2)));
    }
    let draft = scales.iter().filter_map(|scale| {
        let draft = scale.rows.iter().find_map(|row| row.draft)?;
        Some((scale.prefixes as f64, draft))
    });
    chart
        .draw_series(LineSeries::new(draft, RED.stroke_width(2)).point_size(3))?
        .label("the draft's router")
        .legend(|(x, y)| PathElement::new([(x, y), (x + 16, y)], RED.stroke_width(2)));
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerLeft)
        .border_style(BLACK)
        .background_style(WHITE)
        .draw()?;
    root.present()?;
    Ok(())
}

fn draw_forward(costs: &[Cost], svg: &mut String) -> Result<(), Box<dyn std::error::Error>> {
    let costs: Vec<&Cost> = costs.iter().filter(|cost| cost.family == "ipv6").collect();
    let most = costs.iter().map(|cost| cost.total.p90.max(cost.vpp.unwrap_or(0).into())).fold(10.0, f64::max);
    let sizes = costs.iter().map(|cost| f64::from(cost.prefixes));
    let (least, largest) = sizes.fold((f64::MAX, 1.0), |(a, b), size| (f64::min(a, size), f64::max(b, size)));
    let root = SVGBackend::with_string(svg, (720, 420)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption("IPv6 forwarding, 78-byte frames, one worker", ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(52)
        .build_cartesian_2d((least * 0.8..largest * 1.25).log_scale(), 0.0..most * 1.15)?;
    chart
        .configure_mesh()
        .x_desc("prefixes")
        .y_desc("ticks per packet")
        .x_label_formatter(&|size| format!("{size:.0}"))
        .draw()?;
    let names: Vec<&str> =
        costs.first().map_or(Vec::new(), |cost| cost.nodes.iter().map(|node| node.name.as_str()).collect());
    for (index, name) in names.into_iter().enumerate() {
        let color = Palette99::pick(index + 2).to_rgba();
        let points = costs.iter().filter_map(|cost| {
            let node = cost.nodes.iter().find(|node| node.name == name)?;
            Some((f64::from(cost.prefixes), node.ticks.median))
        });
        chart
            .draw_series(LineSeries::new(points, color.stroke_width(1)))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color.stroke_width(1)));
    }
    let total = costs.iter().map(|cost| (f64::from(cost.prefixes), cost.total.median));
    chart
        .draw_series(LineSeries::new(total, BLUE.stroke_width(3)).point_size(4))?
        .label("weir, sum")
        .legend(|(x, y)| PathElement::new([(x, y), (x + 16, y)], BLUE.stroke_width(3)));
    let vpp = costs.iter().filter_map(|cost| Some((f64::from(cost.prefixes), f64::from(cost.vpp?))));
    chart
        .draw_series(LineSeries::new(vpp, RED.stroke_width(2)).point_size(4))?
        .label("VPP, sum (another machine)")
        .legend(|(x, y)| PathElement::new([(x, y), (x + 16, y)], RED.stroke_width(2)));
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .border_style(BLACK)
        .background_style(WHITE)
        .draw()?;
    root.present()?;
    Ok(())
}
