//! A table as a value: rows, and columns that say which cell each row has. Columns stand apart by two spaces, without
//! lines, so that `awk` and `grep` read the table too.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ContentArrangement};

use super::figure::{Figure, Target};

/// A value that prints itself in a cell with so many decimals, if it has any. An empty text is an empty cell.
pub trait Cell {
    /// Prints the value.
    fn text(&self, digits: usize) -> String;
}

macro_rules! cells {
    ($($kind:ty),*) => { $(impl Cell for $kind {
        fn text(&self, digits: usize) -> String {
            format!("{self:.digits$}")
        }
    })* };
}

cells!(f64);

macro_rules! whole_cells {
    ($($kind:ty),*) => { $(impl Cell for $kind {
        fn text(&self, _: usize) -> String {
            self.to_string()
        }
    })* };
}

whole_cells!(u32, u64, usize, &str, String);

impl Cell for Target {
    fn text(&self, _: usize) -> String {
        Target::text(self)
    }
}

impl<C: Cell> Cell for Option<C> {
    fn text(&self, digits: usize) -> String {
        self.as_ref().map_or(String::new(), |cell| cell.text(digits))
    }
}

/// Rows, and the columns that have been made of them so far.
#[derive(Debug)]
pub struct Table<T> {
    rows: Vec<T>,
    columns: Vec<(String, CellAlignment, Vec<String>)>,
}

impl<T: Copy> Table<T> {
    /// Makes a table without columns.
    pub fn of(rows: impl IntoIterator<Item = T>) -> Table<T> {
        Table { rows: rows.into_iter().collect(), columns: Vec::new() }
    }

    fn column(mut self, name: &str, align: CellAlignment, cell: impl Fn(T) -> String) -> Self {
        // Every row has all its fields.
        let dash = |cell: String| if cell.is_empty() { "-".to_owned() } else { cell };
        self.columns.push((name.to_owned(), align, self.rows.iter().map(|&row| dash(cell(row))).collect()));
        self
    }

    /// Adds a column of words.
    pub fn words<C: Cell>(self, name: &str, cell: impl Fn(T) -> C) -> Self {
        self.column(name, CellAlignment::Left, |row| cell(row).text(0))
    }

    /// Adds a column of numbers with so many decimals.
    pub fn number<C: Cell>(self, name: &str, digits: usize, cell: impl Fn(T) -> C) -> Self {
        self.column(name, CellAlignment::Right, |row| cell(row).text(digits))
    }

    /// Adds three columns: the median, the 10th and the 90th percentile.
    pub fn figure(self, name: &str, digits: usize, figure: impl Fn(T) -> Figure) -> Self {
        self.figure_in("", name, digits, figure)
    }

    /// The same, with a unit behind the median.
    pub fn figure_in(self, unit: &str, name: &str, digits: usize, figure: impl Fn(T) -> Figure) -> Self {
        self.number(name, 0, |row| format!("{:.digits$}{unit}", figure(row).median))
            .number("p10", digits, |row| figure(row).p10)
            .number("p90", digits, |row| figure(row).p90)
    }

    /// Adds a column of targets.
    pub fn target(self, target: impl Fn(T) -> Option<Target>) -> Self {
        self.words("Target", target)
    }

    /// Prints the lines of the table, each ended; nothing but the header without rows.
    pub fn text(&self) -> String {
        let mut table = comfy_table::Table::new();
        table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(self.columns.iter().map(|(name, ..)| name));
        for row in 0..self.rows.len() {
            table.add_row(self.columns.iter().map(|(.., cells)| &cells[row]));
        }
        for (column, (_, align, _)) in table.column_iter_mut().zip(&self.columns) {
            column.set_padding((0, 2));
            column.set_cell_alignment(*align);
        }
        table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_no_cell_is_empty() {
        let rows = [("a", 1u32, None), ("longer", 1_000_000, Some(2.25))];
        let spread = Figure { median: 96.64, p10: 1.0, p90: 2.0 };
        let table = Table::of(rows)
            .words("Name", |row| row.0)
            .number("Count", 0, |row| row.1)
            .number("By", 1, |row| row.2)
            .figure_in("%", "Ratio", 1, |_| spread)
            .target(|row| row.2.map(|by| Target::at_most(2.0, by)));
        let lines = [
            "Name      Count   By  Ratio  p10  p90  Target",
            "a             1    -  96.6%  1.0  2.0  -",
            "longer  1000000  2.2  96.6%  1.0  2.0  ≤ 2 missed",
        ];
        assert_eq!(table.text(), lines.join("\n") + "\n");
    }
}
