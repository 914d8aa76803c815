//! Text for a terminal of 80 columns.

use std::fmt::Display;

use tollgate_policy::Printable;
use unicode_width::UnicodeWidthStr as _;

use super::style::{Paint, Style};
use super::text_table::TextTable;
use super::width::{COLUMNS, wrapped};

/// Sections, one below the other.
#[derive(Debug)]
pub(crate) struct Screen {
    text: String,
    style: Style,
}

impl Screen {
    pub(crate) const fn new(style: Style) -> Self {
        Self { text: String::new(), style }
    }

    pub(crate) fn finish(self) -> String {
        self.text
    }

    /// Begins a section.
    pub(crate) fn section(&mut self, title: impl Display) {
        self.gap();
        self.painted(Paint::Bold, 0, title);
    }

    /// Leaves a line empty, except at the top.
    pub(crate) fn gap(&mut self) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
    }

    /// Writes a sentence in as many lines as it needs.
    pub(crate) fn line(&mut self, indent: usize, text: impl Display) {
        for line in wrapped(&Printable(text).to_string(), indent, COLUMNS) {
            self.text += &(line + "\n");
        }
    }

    /// Writes a sentence that is set off.
    pub(crate) fn painted(&mut self, paint: Paint, indent: usize, text: impl Display) {
        for line in wrapped(&Printable(text).to_string(), indent, COLUMNS) {
            self.text += &(self.style.paint(paint, &line) + "\n");
        }
    }

    /// Writes a sentence after a word that is set off, in a column of this width.
    pub(crate) fn beside(&mut self, paint: Paint, word: &str, width: usize, text: impl Display) {
        let mut lines = wrapped(&Printable(text).to_string(), width + 4, COLUMNS).into_iter();
        if let Some(first) = lines.next() {
            let space = " ".repeat(width.saturating_sub(word.width()));
            let word = self.style.paint(paint, word);
            self.text += &format!("  {word}{space}  {}\n", first.trim_start());
        }
        lines.for_each(|line| self.text += &(line + "\n"));
    }

    /// Writes a table, in as many of its columns as fit.
    pub(crate) fn table(&mut self, table: &TextTable) {
        table.lines(self.style).for_each(|line| self.text += &(line + "\n"));
    }

    /// Writes a line of a chart after its label. Spaces at its end are left out.
    pub(crate) fn chart(&mut self, paint: Option<Paint>, label: &str, line: &str) {
        let line = line.trim_end();
        let painted = paint.map_or_else(|| line.to_owned(), |paint| self.style.paint(paint, line));
        let label = if line.is_empty() { label.trim_end() } else { label };
        self.text += &format!("{label}{painted}\n");
    }

    /// Writes a text as it is, such as a file.
    pub(crate) fn verbatim(&mut self, text: &str) {
        self.text += text;
    }
}
