//! Rows in columns, by the width that characters take on a terminal.

use crate::terminal::{cut, line, width};

/// Between two columns.
const GAP: &str = "  ";

/// Rows under a heading. Cells are cleaned here; nothing else of them reaches the terminal.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(heading: &[&str]) -> Self {
        Self { rows: vec![heading.iter().map(|it| (*it).to_owned()).collect()] }
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.map(|cell| line(&cell)).into());
    }

    /// Whether there is nothing under the heading.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.len() < 2
    }

    /// The lines. The last column is cut to `columns`, where there is a terminal.
    pub(crate) fn render(&self, columns: Option<usize>) -> String {
        let count = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..count)
            .map(|at| {
                self.rows
                    .iter()
                    .filter_map(|row| row.get(at))
                    .map(|it| width(it))
                    .max()
                    .unwrap_or(0)
            })
            .collect();
        let mut out = String::new();
        for row in &self.rows {
            let mut text = String::new();
            for (at, cell) in row.iter().enumerate() {
                let is_last = at + 1 == row.len();
                let wide = widths.get(at).copied().unwrap_or(0);
                if is_last {
                    let room =
                        columns.map_or(usize::MAX, |all| all.saturating_sub(width(&text)).max(8));
                    text.push_str(&cut(cell, room));
                } else {
                    text.push_str(cell);
                    text.push_str(&" ".repeat(wide.saturating_sub(width(cell))));
                    text.push_str(GAP);
                }
            }
            out.push_str(text.trim_end());
            out.push('\n');
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_by_width_and_cells_are_cleaned() {
        let mut table = Table::new(&["NAME", "STATE", "DOING"]);
        table.row(["日本".into(), "idle".into(), "x\u{1b}[2Jy\nz".into()]);
        table.row(["a".into(), "waits for you".into(), String::new()]);
        assert_eq!(
            table.render(None),
            "NAME  STATE          DOING\n日本  idle           xy z\na     waits for you\n"
        );
    }

    #[test]
    fn the_last_column_is_cut_to_the_terminal() {
        let mut table = Table::new(&["A", "B"]);
        table.row(["1".into(), "a long text".into()]);
        assert_eq!(table.render(Some(12)), "A  B\n1  a long t…\n");
    }
}
