//! Plain text tables: columns apart by two spaces, no lines, no wrapping, so that `awk` and `grep` read them too.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ContentArrangement};

/// How a column stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// A table in the making.
#[derive(Debug)]
pub struct Table {
    inner: comfy_table::Table,
    indent: usize,
}

impl Table {
    /// A table with these columns.
    pub fn new(columns: &[(&str, Align)]) -> Self {
        let mut inner = comfy_table::Table::new();
        inner.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        inner.set_header(columns.iter().map(|&(name, _)| name));
        for (column, &(_, align)) in inner.column_iter_mut().zip(columns) {
            column.set_padding((0, 2));
            column.set_cell_alignment(match align {
                Align::Left => CellAlignment::Left,
                Align::Right => CellAlignment::Right,
            });
        }
        Table { inner, indent: 0 }
    }

    /// Sets every line off by so many spaces.
    pub fn indent(mut self, spaces: usize) -> Self {
        self.indent = spaces;
        self
    }

    /// Adds a row, which has as many cells as there are columns. An empty cell is written `-`, so that every row has all
    /// its fields.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.cells(cells);
    }

    /// Adds a row of as many cells as there are columns.
    pub fn cells(&mut self, cells: impl IntoIterator<Item = String>) {
        let dash = |cell: String| if cell.is_empty() { "-".to_owned() } else { cell };
        self.inner.add_row(cells.into_iter().map(dash));
    }

    /// The lines of the table, each ended; nothing but the header when it has no rows.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for line in self.inner.lines() {
            let line = line.trim_end();
            text.extend(std::iter::repeat_n(' ', self.indent));
            text.push_str(line);
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_no_cell_is_empty() {
        let mut table = Table::new(&[("Name", Align::Left), ("Count", Align::Right), ("By", Align::Left)]).indent(2);
        table.row(["a".into(), "1".into(), String::new()]);
        table.row(["longer".into(), "1000000".into(), "me".into()]);
        assert_eq!(table.text(), "  Name      Count  By\n  a             1  -\n  longer  1000000  me\n");
    }
}
