//! One reporter for all measurements: a report is a plain value, printed as JSON, as text made of [tables](table), and as
//! [charts](chart). None of them can disagree with another.

pub mod chart;
pub mod figure;
pub mod table;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::Error;
use chart::Chart;
use figure::Figure;
use table::Table;

/// A measurement that is printed.
pub trait Report: Serialize {
    /// The name and version of its JSON.
    const SCHEMA: &'static str;

    /// Returns its text.
    fn page(&self) -> Page;

    /// Returns its charts, each with the name of its file.
    fn charts(&self) -> Vec<(String, Chart)> {
        Vec::new()
    }

    /// Prints it as one line of JSON, ended.
    fn json(&self) -> String
    where
        Self: Sized,
    {
        #[derive(Serialize)]
        struct Document<'a, T> {
            schema: &'static str,
            #[serde(flatten)]
            report: &'a T,
        }
        // Reports hold strings, numbers, lists and named fields; none of these can fail.
        serde_json::to_string(&Document { schema: Self::SCHEMA, report: self }).expect("a report serialises") + "\n"
    }

    /// Prints it as lines for people.
    fn text(&self) -> String {
        self.page().0
    }

    /// Writes its charts as SVG into a folder, which is made if it is not there. Returns the files' paths.
    ///
    /// # Errors
    /// If a file cannot be written.
    fn plot(&self, folder: &Path) -> Result<Vec<PathBuf>, Error> {
        let write = |(name, chart): (String, Chart)| {
            let path = folder.join(name + ".svg");
            let failed = |reason: String| Error::Plot { path: path.clone(), reason };
            let svg = chart.svg().map_err(|error| failed(error.to_string()))?;
            let written = std::fs::create_dir_all(folder)
                .and_then(|()| weir_base::file::replace(&path))
                .and_then(|mut file| file.write_all(svg.as_bytes()));
            written.map_err(|error| failed(error.to_string()))?;
            Ok(path)
        };
        self.charts().into_iter().map(write).collect()
    }
}

/// The text of a report: lines and tables.
#[derive(Debug, Default)]
pub struct Page(String);

impl Page {
    /// Adds a line, or several. A line break at the beginning leaves an empty line.
    #[must_use]
    pub fn line(mut self, line: impl AsRef<str>) -> Page {
        self.0 += line.as_ref();
        self.0.push('\n');
        self
    }

    /// Adds a table.
    #[must_use]
    pub fn table<T: Copy>(mut self, table: Table<T>) -> Page {
        self.0 += &table.text();
        self
    }

    /// Adds what `add` makes of each item.
    #[must_use]
    pub fn each<T>(self, items: impl IntoIterator<Item = T>, add: impl Fn(Page, T) -> Page) -> Page {
        items.into_iter().fold(self, add)
    }
}

/// Names the machine in a line.
pub(crate) fn machine(cpu: &str, tick_frequency: f64) -> String {
    let frequency = tick_frequency / 1e9;
    format!("{cpu}, {frequency:.2} GHz time-stamp counter; one worker, packets from memory")
}

/// Prints a figure in a sentence: `12.0 (11.5 … 13.0)`.
pub(crate) fn spread(figure: &Figure, digits: usize) -> String {
    format!("{:.digits$} ({:.digits$} … {:.digits$})", figure.median, figure.p10, figure.p90)
}
