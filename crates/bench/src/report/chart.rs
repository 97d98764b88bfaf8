//! A chart as a value, and its drawing as SVG.

use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::figure::Figure;

/// A chart.
#[derive(Debug)]
pub struct Chart {
    /// Its title.
    pub title: String,
    /// Its contents.
    pub shape: Shape,
}

/// The contents of a chart.
#[derive(Debug)]
pub enum Shape {
    /// A row for each name.
    Bars {
        /// The unit of the lengths.
        unit: String,
        /// The end of the axis.
        most: f64,
        /// The rows, from the top.
        rows: Vec<Bar>,
    },
    /// Series over sizes, whose axis is logarithmic.
    Series {
        /// The name of the sizes.
        x: String,
        /// The name of the values.
        y: String,
        /// The values' axis.
        axis: Axis,
        /// Values that are drawn as lines across.
        marks: Vec<f64>,
        /// The series.
        series: Vec<Series>,
    },
    /// Maps of percents side by side: a row for each name, a column for each head.
    Maps {
        /// The titles of the maps.
        titles: [String; 2],
        /// The heads of the columns.
        heads: Vec<&'static str>,
        /// The rows: their names, and for each map a value for each column, `None` where there is none.
        rows: Vec<(String, [Vec<Option<f64>>; 2])>,
    },
}

/// A row of bars.
#[derive(Debug)]
pub struct Bar {
    /// Its name.
    pub name: String,
    /// The bar, with its spread.
    pub own: Figure,
    /// The length of a bar to compare with.
    pub other: Option<f64>,
    /// A value to compare with, as a line across the bar.
    pub mark: Option<f64>,
}

/// An axis of values.
#[derive(Debug, Clone, Copy)]
pub enum Axis {
    /// From 0 to the largest value or this one.
    Linear(f64),
    /// Logarithmic, from this value on.
    Logarithmic(f64),
}

/// A series of values.
#[derive(Debug)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// Its colour; a palette has one for each number.
    pub color: RGBAColor,
    /// The width of its line; 0 for points alone.
    pub line: u32,
    /// The radius of its points.
    pub point: u32,
    /// Size and value.
    pub points: Vec<(f64, f64)>,
}

/// Returns a colour of the palette.
pub fn palette(number: usize) -> RGBAColor {
    Palette99::pick(number + 2).to_rgba()
}

type Failed = Box<dyn std::error::Error>;

const CELL: (i32, i32) = (46, 22);
const NAMES: i32 = 210;
const HEAD: i32 = 112;
const GAP: i32 = 24;

impl Chart {
    fn size(&self) -> (u32, u32) {
        match &self.shape {
            Shape::Bars { rows, .. } => {
                let height = if rows.iter().any(|row| row.other.is_some()) { 60 } else { 34 };
                (720, 70 + height * rows.len() as u32)
            }
            Shape::Series { .. } => (720, 440),
            Shape::Maps { heads, rows, .. } => {
                let width = NAMES + 2 * heads.len() as i32 * CELL.0 + 2 * GAP;
                (width as u32, (HEAD + rows.len() as i32 * CELL.1 + GAP) as u32)
            }
        }
    }

    /// Draws it.
    ///
    /// # Errors
    /// If the drawing library refuses a value.
    pub fn svg(&self) -> Result<String, Failed> {
        let mut svg = String::new();
        {
            let root = SVGBackend::with_string(&mut svg, self.size()).into_drawing_area();
            root.fill(&WHITE)?;
            match &self.shape {
                Shape::Bars { unit, most, rows } => bars(&root, &self.title, unit, *most, rows)?,
                Shape::Series { x, y, axis, marks, series } => {
                    let values = || series.iter().flat_map(|one| &one.points).map(|point| point.1);
                    let top = values().fold(0.0, f64::max) * 1.15;
                    // The legend stands where no line is.
                    let legend = match values().all(|value| value > top / 3.0) {
                        true => SeriesLabelPosition::LowerLeft,
                        false => SeriesLabelPosition::UpperLeft,
                    };
                    match *axis {
                        Axis::Linear(most) => {
                            lines(&root, &self.title, [x, y], 0.0..top.max(most), marks, (&series[..], legend))?;
                        }
                        Axis::Logarithmic(least) => {
                            let values = (least..top.max(least * 10.0)).log_scale();
                            lines(&root, &self.title, [x, y], values, marks, (&series[..], legend))?;
                        }
                    }
                }
                Shape::Maps { titles, heads, rows } => maps(&root, titles, heads, rows)?,
            }
            root.present()?;
        }
        Ok(svg)
    }
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn bars(root: &Area<'_>, title: &str, unit: &str, most: f64, rows: &[Bar]) -> Result<(), Failed> {
    let mut chart = ChartBuilder::on(root)
        .caption(title, ("sans-serif", 16))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(190)
        .build_cartesian_2d(0.0..most, 0.0..rows.len() as f64)?;
    chart.configure_mesh().disable_y_mesh().y_label_formatter(&|_| String::new()).x_desc(unit).draw()?;
    for (place, row) in rows.iter().enumerate() {
        // The first is on top. Two bars share a row's height.
        let y = (rows.len() - place) as f64 - 0.5;
        let low = if row.other.is_some() { y + 0.02 } else { y - 0.3 };
        let middle = (low + y + 0.3) / 2.0;
        let end = |value: f64| value.max(0.0);
        let own = Rectangle::new([(0.0, low), (end(row.own.median), y + 0.3)], BLUE.mix(0.4).filled());
        let other = row.other.map(|other| Rectangle::new([(0.0, y - 0.32), (other, y - 0.02)], RED.mix(0.4).filled()));
        let spread = [(end(row.own.p10), middle), (end(row.own.p90), middle)];
        let spread = PathElement::new(spread, BLUE.stroke_width(2));
        let mark = row.mark.map(|mark| PathElement::new([(mark, y - 0.4), (mark, y + 0.4)], RED.stroke_width(2)));
        let at = chart.backend_coord(&(0.0, y));
        chart.draw_series(std::iter::once(own).chain(other))?;
        chart.draw_series(std::iter::once(spread).chain(mark))?;
        root.draw_text(&row.name, &("sans-serif", 13).into_text_style(root), (12, at.1 - 7))?;
    }
    Ok(())
}

fn lines<Y>(
    root: &Area<'_>,
    title: &str,
    [x, y]: [&String; 2],
    values: Y,
    marks: &[f64],
    (series, legend): (&[Series], SeriesLabelPosition),
) -> Result<(), Failed>
where
    Y: AsRangedCoord<Value = f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    let sizes = series.iter().flat_map(|one| &one.points).map(|point| point.0);
    let (least, largest) = sizes.fold((f64::MAX, 1.0), |(a, b), size| (f64::min(a, size), f64::max(b, size)));
    let (least, largest) = (least.min(largest) * 0.8, largest * 1.25);
    let mut chart = ChartBuilder::on(root)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d((least..largest).log_scale(), values)?;
    chart.configure_mesh().x_desc(x).y_desc(y).x_label_formatter(&|size| format!("{size:.0}")).draw()?;
    for &mark in marks {
        let across = [(least, mark), (largest, mark)];
        chart.draw_series(DashedLineSeries::new(across, 5, 5, RED.stroke_width(1)))?;
    }
    for one in series.iter().filter(|one| !one.points.is_empty()) {
        let (color, line) = (one.color, one.line);
        if line > 0 {
            chart.draw_series(LineSeries::new(one.points.iter().copied(), color.stroke_width(line)))?;
        }
        let point = |place| Circle::new(place, one.point, color.mix(0.7).filled());
        chart
            .draw_series(one.points.iter().copied().map(point))?
            .label(&one.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color.stroke_width(line.max(4))));
    }
    let mut labels = chart.configure_series_labels();
    labels.position(legend).border_style(BLACK).background_style(WHITE).draw()?;
    Ok(())
}

type MapRow = (String, [Vec<Option<f64>>; 2]);

fn maps(root: &Area<'_>, titles: &[String; 2], heads: &[&str], rows: &[MapRow]) -> Result<(), Failed> {
    let small = ("sans-serif", 12).into_text_style(root);
    for (number, (name, _)) in (0..).zip(rows) {
        root.draw_text(name, &small, (8, HEAD + number * CELL.1 + 5))?;
    }
    for (map, title) in titles.iter().enumerate() {
        let left = NAMES + map as i32 * (heads.len() as i32 * CELL.0 + GAP);
        root.draw_text(title, &("sans-serif", 15).into_text_style(root), (left, 8))?;
        for (column, head) in (0..).zip(heads) {
            let upright = small.transform(FontTransform::Rotate270).pos(Pos::new(HPos::Left, VPos::Center));
            root.draw_text(head, &upright, (left + column * CELL.0 + CELL.0 / 2, HEAD - 6))?;
        }
        for (number, (_, maps)) in (0..).zip(rows) {
            for (column, value) in (0..).zip(&maps[map]) {
                cell(root, (left + column * CELL.0, HEAD + number * CELL.1), *value)?;
            }
        }
    }
    Ok(())
}

/// Draws a cell: white is 0, red is 100, and grey is no value.
fn cell(root: &Area<'_>, (x, y): (i32, i32), value: Option<f64>) -> Result<(), Failed> {
    let fade = |of: f64, value: f64| (255.0 - of * value / 100.0) as u8;
    let color = value.map_or(RGBColor(225, 225, 225), |value| {
        let others = fade(200.0, value);
        RGBColor(fade(20.0, value), others, others)
    });
    let corners = [(x, y), (x + CELL.0 - 2, y + CELL.1 - 2)];
    root.draw(&Rectangle::new(corners, color.filled()))?;
    root.draw(&Rectangle::new(corners, RGBColor(200, 200, 200).stroke_width(1)))?;
    let style = ("sans-serif", 11).into_text_style(root).pos(Pos::new(HPos::Center, VPos::Center));
    let text = value.map_or_else(|| "–".to_owned(), |value| percent(Some(value)));
    root.draw_text(&text, &style, (x + CELL.0 / 2 - 1, y + CELL.1 / 2 - 1))?;
    Ok(())
}

/// Prints a percentage: without decimals where there are none, and nothing for no value.
pub(crate) fn percent(value: Option<f64>) -> String {
    match value {
        None => String::new(),
        Some(value) if (value - value.round()).abs() < 0.05 => format!("{value:.0}"),
        Some(value) => format!("{value:.1}"),
    }
}
