//! Plots of measured figures, as SVG.

use std::path::{Path, PathBuf};

use plotters::prelude::*;

use super::forward::Cost;

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
    let path = directory.join("forward.svg");
    let failed = |error: &dyn std::fmt::Display| PlotError { path: path.clone(), reason: error.to_string() };
    std::fs::create_dir_all(directory).map_err(|error| failed(&error))?;
    draw(costs, &path).map_err(|error| failed(&error))?;
    Ok(path)
}

fn draw(costs: &[Cost], path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let costs: Vec<&Cost> = costs.iter().filter(|cost| cost.family == "ipv6").collect();
    let most = costs.iter().map(|cost| cost.total.p90.max(cost.vpp.unwrap_or(0).into())).fold(10.0, f64::max);
    let sizes = costs.iter().map(|cost| f64::from(cost.prefixes));
    let (least, largest) = sizes.fold((f64::MAX, 1.0), |(a, b), size| (f64::min(a, size), f64::max(b, size)));
    let root = SVGBackend::new(path, (720, 420)).into_drawing_area();
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
