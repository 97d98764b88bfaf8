//! Tables whose rows can be sorted by any column and filtered by text.

use std::cmp::Ordering;

use crate::render::number::short;
use crate::render::table::{self, Align};

/// The name of a column, and its alignment.
pub(super) type Column = (&'static str, Align);

/// A cell of a table.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Cell {
    /// Words.
    Text(String),
    /// A number, and how it is written.
    Number { value: f64, text: String },
    /// A number that two readings do not give.
    Unknown,
}

impl Cell {
    /// Makes a cell of words.
    pub(super) fn text(text: impl Into<String>) -> Cell {
        Cell::Text(text.into())
    }

    /// Makes a cell of a counter's value.
    pub(super) fn count(value: u64) -> Cell {
        Cell::Number { value: value as f64, text: value.to_string() }
    }

    /// Makes a cell of a number in three digits and a unit.
    pub(super) fn short(value: Option<f64>) -> Cell {
        value.map_or(Cell::Unknown, |value| Cell::Number { value, text: short(value) })
    }

    /// Makes a cell of a number with one decimal place.
    pub(super) fn tenths(value: Option<f64>) -> Cell {
        value.map_or(Cell::Unknown, |value| Cell::Number { value, text: format!("{value:.1}") })
    }

    /// Returns the cell as it is drawn.
    pub(super) fn as_str(&self) -> &str {
        match self {
            Cell::Text(text) | Cell::Number { text, .. } => text,
            Cell::Unknown => "-",
        }
    }

    /// Compares two cells of a column, unknown ones last in both directions.
    fn compare(&self, other: &Cell, descending: bool) -> Ordering {
        let order = match (self, other) {
            (Cell::Unknown, Cell::Unknown) => Ordering::Equal,
            (Cell::Unknown, _) => return Ordering::Greater,
            (_, Cell::Unknown) => return Ordering::Less,
            (Cell::Number { value: a, .. }, Cell::Number { value: b, .. }) => a.total_cmp(b),
            (a, b) => a.as_str().cmp(b.as_str()),
        };
        if descending { order.reverse() } else { order }
    }
}

/// Compares two cells, the greater first.
pub(super) fn descending(a: &Cell, b: &Cell) -> Ordering {
    a.compare(b, true)
}

/// The order of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sort {
    /// The column that rows are sorted by.
    pub(super) column: usize,
    /// The greatest first.
    pub(super) descending: bool,
}

impl Sort {
    /// Returns the usual order by a column: words from A on, the greatest number first.
    pub(super) fn by(column: usize, align: Align) -> Sort {
        Sort { column, descending: align == Align::Right }
    }
}

/// A table.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Table {
    /// The line above the table.
    pub(super) title: String,
    /// The columns; the last one takes the width that is left.
    pub(super) columns: &'static [Column],
    /// The rows, with a cell for each column.
    pub(super) rows: Vec<Vec<Cell>>,
    /// The text in the place of rows if there are none.
    pub(super) empty: &'static str,
}

impl Table {
    /// Keeps the rows that contain the filter in any cell, upper and lower case alike, and sorts them. Rows that are equal in
    /// the column of the order keep their order.
    #[must_use]
    pub(super) fn arranged(mut self, sort: Option<Sort>, filter: &str) -> Table {
        let filter = filter.to_lowercase();
        if !filter.is_empty() {
            self.rows.retain(|row| row.iter().any(|cell| cell.as_str().to_lowercase().contains(&filter)));
            self.title = format!("{}, {} shown", self.title, self.rows.len());
        }
        if let Some(Sort { column, descending }) = sort.filter(|sort| sort.column < self.columns.len()) {
            self.rows.sort_by(|a, b| a[column].compare(&b[column], descending));
        }
        self
    }

    /// Returns the title and all rows as text.
    pub(super) fn as_text(&self) -> String {
        if self.rows.is_empty() {
            return format!("{}\n{}\n", self.title, self.empty);
        }
        let mut table = table::Table::new(self.columns);
        for row in &self.rows {
            table.cells(row.iter().map(|cell| cell.as_str().to_owned()));
        }
        format!("{}\n{}", self.title, table.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let row = |name: &str, rate: Option<f64>| vec![Cell::text(name), Cell::short(rate)];
        Table {
            title: "Things".to_owned(),
            columns: &[("Name", Align::Left), ("Rate", Align::Right)],
            rows: vec![row("b", Some(2.0)), row("C", None), row("a", Some(1500.0)), row("d", Some(2.0))],
            empty: "none",
        }
    }

    fn names(table: &Table) -> Vec<&str> {
        table.rows.iter().map(|row| row[0].as_str()).collect()
    }

    #[test]
    fn rows_are_sorted_by_any_column_and_unknown_ones_stand_last() {
        let by = |column, descending| table().arranged(Some(Sort { column, descending }), "");
        assert_eq!(names(&by(1, true)), ["a", "b", "d", "C"]);
        assert_eq!(names(&by(1, false)), ["b", "d", "a", "C"], "numbers by their values, not by their text");
        assert_eq!(names(&by(0, true)), ["d", "b", "a", "C"]);
        assert_eq!(names(&table().arranged(None, "")), ["b", "C", "a", "d"]);
        assert_eq!(names(&by(7, true)), ["b", "C", "a", "d"], "there is no such column");
    }

    #[test]
    fn a_filter_looks_into_all_cells() {
        assert_eq!(names(&table().arranged(None, "1.50 K")), ["a"]);
        assert_eq!(names(&table().arranged(None, "c")), ["C"]);
        assert_eq!(table().arranged(None, "zzz").as_text(), "Things, 0 shown\nnone\n");
    }

    #[test]
    fn text_has_all_rows() {
        assert_eq!(table().as_text(), "Things\nName    Rate\nb          2\nC          -\na     1.50 k\nd          2\n");
    }
}
