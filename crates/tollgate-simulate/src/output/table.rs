//! Tables: names to the left, numbers to the right.

use tollgate_policy::Printable;
use unicode_width::UnicodeWidthStr as _;

use super::style::{Paint, Style};
use super::width::{COLUMNS, fitted};

/// Columns to which a name is shortened before a whole column is left out.
const NARROWEST: usize = 14;

/// Between two columns.
const GAP: &str = "  ";

/// Rows of cells.
#[derive(Debug, Default)]
pub(crate) struct Table {
    titles: Vec<String>,
    rows: Vec<Row>,
    /// How many columns stand to the left. They are names, which can be shortened.
    left: usize,
    /// Others that stand to the left, such as bars.
    bars: Vec<usize>,
    /// The columns of denials.
    denials: Vec<usize>,
    /// The columns that are left out first if there is no room, in this order.
    spare: Vec<usize>,
    /// Spaces before each line.
    indent: usize,
}

#[derive(Debug)]
struct Row {
    cells: Vec<String>,
    /// More about the row, in a line of its own.
    note: Option<String>,
}

impl Table {
    pub(crate) fn new<const N: usize>(titles: [&str; N]) -> Self {
        Self { titles: titles.map(str::to_owned).to_vec(), left: 1, indent: 2, ..Self::default() }
    }

    /// So many columns stand to the left.
    pub(crate) fn left(self, left: usize) -> Self {
        Self { left, ..self }
    }

    /// These columns stand to the left as well, but are never shortened.
    pub(crate) fn bars<const N: usize>(self, columns: [usize; N]) -> Self {
        Self { bars: columns.to_vec(), ..self }
    }

    /// So many spaces stand before each line.
    pub(crate) fn indent(self, indent: usize) -> Self {
        Self { indent, ..self }
    }

    /// These columns are about denials.
    pub(crate) fn denials<const N: usize>(self, columns: [usize; N]) -> Self {
        Self { denials: columns.to_vec(), ..self }
    }

    /// These columns are left out if there is no room, the first one first.
    pub(crate) fn spare<const N: usize>(self, columns: [usize; N]) -> Self {
        Self { spare: columns.to_vec(), ..self }
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(Row { cells: cells.map(|cell| Printable(cell).to_string()).to_vec(), note: None });
    }

    /// Says more about the last row.
    pub(crate) fn note(&mut self, note: String) {
        let note = Printable(note).to_string().trim().to_owned();
        if let Some(row) = self.rows.last_mut().filter(|_| !note.is_empty()) {
            row.note = Some(note);
        }
    }

    /// As a table of Markdown.
    pub(crate) fn markdown(&self) -> String {
        let rule = |place: usize| if place < self.left { "---" } else { "---:" };
        let rules: Vec<&str> = (0..self.titles.len()).map(rule).collect();
        let mut text = format!("| {} |\n|{}|\n", self.titles.join(" | "), rules.join("|"));
        self.rows.iter().for_each(|row| text += &format!("| {} |\n", row.cells.join(" | ")));
        text
    }

    /// As lines that fit a terminal.
    pub(crate) fn lines(&self, style: Style) -> impl Iterator<Item = String> {
        let columns = self.columns();
        let mut lines: Vec<String> = self.title_lines(&columns, style);
        for row in &self.rows {
            let cells =
                columns.iter().map(|column| (column, row.cells.get(column.place).map_or("", |cell| cell)));
            let cells = cells.map(|(column, cell)| {
                let is_denial =
                    self.denials.contains(&column.place) && !matches!(cell, "" | "0" | "0 %" | "-");
                (column, cell, is_denial.then_some(Paint::Red))
            });
            lines.push(self.line(cells, style));
            if let Some(note) = &row.note {
                let note = fitted(note, COLUMNS - self.indent - GAP.len());
                lines.push(" ".repeat(self.indent + GAP.len()) + &style.paint(Paint::Dim, &note));
            }
        }
        lines.into_iter()
    }

    /// The titles, in two or more lines if one is wider than its column.
    fn title_lines(&self, columns: &[Column], style: Style) -> Vec<String> {
        let titles: Vec<Vec<String>> =
            columns.iter().map(|column| folded(self.title(column.place), column.width)).collect();
        let height = titles.iter().map(Vec::len).max().unwrap_or(0);
        let line = |number: usize| {
            let cells = columns.iter().zip(&titles).map(|(column, lines)| {
                let above = height - lines.len();
                let title = number.checked_sub(above).and_then(|number| lines.get(number));
                (column, title.map_or("", |title| title), Some(Paint::Dim))
            });
            self.line(cells, style)
        };
        (0..height).map(line).filter(|line| !line.trim().is_empty()).collect()
    }

    fn line<'a>(
        &self,
        cells: impl Iterator<Item = (&'a Column, &'a str, Option<Paint>)>,
        style: Style,
    ) -> String {
        let mut line = " ".repeat(self.indent);
        // Spaces at the end of a line are not written.
        let mut spaces = 0;
        for (place, (column, cell, paint)) in cells.enumerate() {
            let cell = fitted(cell, column.width);
            let rest = column.width.saturating_sub(cell.width());
            spaces += if place == 0 { 0 } else { GAP.len() };
            let is_left = column.place < self.left || self.bars.contains(&column.place);
            let (before, after) = if is_left { (0, rest) } else { (rest, 0) };
            spaces += before;
            if !cell.is_empty() {
                line += &" ".repeat(std::mem::take(&mut spaces));
                line += &paint.map_or_else(|| cell.clone(), |paint| style.paint(paint, &cell));
            }
            spaces += after;
        }
        line
    }

    /// The columns that are shown, and their widths. If there is no room, titles fold, names are shortened, and then columns
    /// are left out.
    fn columns(&self) -> Vec<Column> {
        let all = (0..self.titles.len()).map(|place| self.column(place));
        let mut columns: Vec<Column> =
            all.filter(|column| column.cells > 0 || self.rows.is_empty()).collect();
        let natural = columns.clone();
        let mut spare = self.spare.iter();
        loop {
            let is_folded =
                self.shrink(&mut columns, |column| (column.width > column.least).then_some(column.width));
            let is_name = |column: &Column| column.place < self.left && column.width > NARROWEST;
            if is_folded || self.shrink(&mut columns, |column| is_name(column).then_some(column.width)) {
                return columns;
            }
            let Some(left_out) = spare.next() else { break };
            let left: Vec<usize> =
                columns.iter().map(|column| column.place).filter(|place| place != left_out).collect();
            columns = natural.iter().copied().filter(|column| left.contains(&column.place)).collect();
        }
        // Numbers that are too wide for a terminal lose their middle.
        self.shrink(&mut columns, |column| (column.width > 1).then_some(column.width));
        columns
    }

    /// Takes from the columns that yield most, until all fit or none yields.
    fn shrink(&self, columns: &mut [Column], yielded: impl Fn(&Column) -> Option<usize>) -> bool {
        while !self.fits(columns) {
            let yielding = columns.iter_mut().filter_map(|column| Some((yielded(column)?, column)));
            match yielding.max_by_key(|(width, _)| *width) {
                Some((_, column)) => column.width -= 1,
                None => return false,
            }
        }
        true
    }

    fn column(&self, place: usize) -> Column {
        let cells = self.rows.iter().filter_map(|row| row.cells.get(place));
        let cells = cells.map(|cell| cell.width()).max().unwrap_or(0);
        let title = self.title(place);
        let word = title.split(' ').map(|word| word.width()).max().unwrap_or(0);
        Column { place, cells, width: cells.max(title.width()), least: cells.max(word) }
    }

    fn title(&self, place: usize) -> &str {
        self.titles.get(place).map_or("", |title| title)
    }

    fn fits(&self, columns: &[Column]) -> bool {
        let widths: usize = columns.iter().map(|column| column.width).sum();
        self.indent + widths + GAP.len() * columns.len().saturating_sub(1) <= COLUMNS
    }
}

#[derive(Debug, Clone, Copy)]
struct Column {
    place: usize,
    width: usize,
    /// The width of its widest cell.
    cells: usize,
    /// The width that it needs if its title is folded.
    least: usize,
}

/// A title in lines of this width.
fn folded(title: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in title.split(' ') {
        match lines.last_mut().filter(|line| line.width() + 1 + word.width() <= width) {
            Some(line) => *line += &format!(" {word}"),
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(table: &Table) -> Vec<String> {
        table.lines(Style::Plain).collect()
    }

    #[test]
    fn a_table_that_fits_is_as_wide_as_its_cells() {
        let mut table = Table::new(["name", "denied"]);
        table.row(["a".to_owned(), "1,000".to_owned()]);
        table.note("more".to_owned());
        assert_eq!(lines(&table), ["  name  denied", "  a      1,000", "    more"]);
    }

    #[test]
    fn titles_fold_then_names_shrink_then_columns_go() {
        let mut table = Table::new(["name", "a rather long title", "spare"]).spare([2]);
        table.row(["n".repeat(60), "1".to_owned(), "2".to_owned()]);
        let folded = lines(&table);
        assert!(folded.iter().all(|line| line.width() <= COLUMNS) && folded.len() > 2, "{folded:#?}");
        assert!(folded.last().unwrap().contains(&"n".repeat(60)), "{folded:#?}");
        table.row(["n".repeat(90), "1".repeat(40), "2".to_owned()]);
        let shrunk = lines(&table);
        assert!(shrunk.iter().all(|line| line.width() <= COLUMNS), "{shrunk:#?}");
        assert!(
            shrunk.last().unwrap().contains('…') && shrunk.last().unwrap().ends_with(" 2"),
            "{shrunk:#?}"
        );
        table.row(["n".repeat(90), "1".repeat(62), "2".to_owned()]);
        let dropped = lines(&table);
        assert!(dropped.iter().all(|line| line.width() <= COLUMNS), "{dropped:#?}");
        assert!(dropped.last().unwrap().ends_with('1'), "{dropped:#?}");
    }

    /// Widths were counted in characters, and half of the names of programs are wider than that.
    #[test]
    fn wide_characters_take_two_columns() {
        let mut table = Table::new(["name", "denied"]);
        table.row(["日本語".to_owned(), "1".to_owned()]);
        table.row(["abcdef".to_owned(), "2".to_owned()]);
        let lines = lines(&table);
        assert_eq!(lines[1].width(), lines[2].width(), "{lines:#?}");
    }

    #[test]
    fn denials_are_red_on_a_terminal_alone() {
        let mut table = Table::new(["name", "denied"]).denials([1]);
        table.row(["a".to_owned(), "3".to_owned()]);
        table.row(["b".to_owned(), "0".to_owned()]);
        let colored: Vec<String> = table.lines(Style::Colored).collect();
        assert_eq!(colored[1], "  a          \u{1b}[31m3\u{1b}[0m");
        assert_eq!(colored[2], "  b          0");
        assert!(!lines(&table).concat().contains('\u{1b}'));
    }
}
