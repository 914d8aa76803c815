//! Tables of text: the first column to the left, the others to the right.

use std::fmt;

use tollgate_policy::Printable;

/// Rows of cells.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    /// How many columns stand to the left.
    left: usize,
}

impl Table {
    pub(crate) fn new<const N: usize>(titles: [&str; N]) -> Self {
        Self { rows: vec![titles.map(str::to_owned).to_vec()], left: 1 }
    }

    /// So many columns stand to the left.
    pub(crate) fn left(self, left: usize) -> Self {
        Self { left, ..self }
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.to_vec());
    }

    /// As a table of Markdown.
    pub(crate) fn markdown(&self) -> String {
        let mut text = String::new();
        for (number, row) in self.rows.iter().enumerate() {
            text += &format!("| {} |\n", row.join(" | "));
            if number == 0 {
                let rule = |place: usize| if place < self.left { "---" } else { "---:" };
                let rules: Vec<&str> = (0..row.len()).map(rule).collect();
                text += &format!("|{}|\n", rules.join("|"));
            }
        }
        text
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
        };
        let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let gap = if column == 0 { "" } else { "  " };
                line += &if column < self.left {
                    format!("{gap}{cell:<width$}")
                } else {
                    format!("{gap}{cell:>width$}")
                };
            }
            writeln!(f, "  {}", Printable(line.trim_end()))?;
        }
        Ok(())
    }
}
