//! Tables: names to the left, numbers to the right.

use tollgate_policy::Printable;
use unicode_width::UnicodeWidthStr as _;

use super::number::{about, grouped, moment};
use super::section::{Align, Cell, Column, OutputForm, Table};
use super::share::percent;
use super::style::{Paint, Style};
use super::width::{CLIENT_WIDTH, COLUMNS, fitted};
use crate::shortened::narrowed;

/// Characters of the longest bar.
const BAR: usize = 16;

/// Between two columns.
const GAP: &str = "  ";

/// A table in text.
#[derive(Debug)]
pub(crate) struct TextTable {
    titles: Vec<String>,
    rows: Vec<TextRow>,
    /// How many columns stand to the left. They are names, which can be shortened.
    left: usize,
    /// Others that stand to the left, such as bars.
    words: Vec<usize>,
    /// The columns of denials.
    denials: Vec<usize>,
    /// The columns that are left out first if there is no room, in this order.
    spare: Vec<usize>,
    /// Spaces before each line.
    indent: usize,
    /// Columns to which a name is shortened before a whole column is left out.
    least_name: usize,
}

#[derive(Debug)]
struct TextRow {
    cells: Vec<String>,
    /// More about the row, in a line of its own.
    note: Option<String>,
}

impl Column {
    fn has_share_in_text(&self) -> bool {
        !self.share.is_empty() && !self.is_share_left_out
    }
}

impl Cell {
    /// As text, without the share of a part.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Empty => String::new(),
            Self::Words(text) | Self::Name(text) => text.clone(),
            Self::Client(name, _) => narrowed(name, CLIENT_WIDTH),
            Self::Policy(name, role) => role.title(name),
            Self::Count(number) | Self::Part(number, _) => grouped(*number),
            Self::Estimate(number, one_in) => about(*one_in).to_owned() + &grouped(*number),
            Self::Share(part, whole) => percent(*part, *whole),
            Self::Time(time) => moment(time),
            Self::Bar(part, most) => bar(*part, *most),
        }
    }

    /// The share of a part.
    pub(crate) fn share(&self) -> String {
        match self {
            Self::Part(part, whole) => percent(*part, *whole),
            _ => String::new(),
        }
    }
}

/// A bar of up to `BAR` characters, in eighths of one.
fn bar(part: u64, most: u64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = u128::from(part) * BAR as u128 * 8;
    let length = if most == 0 { 0 } else { eighths.div_ceil(u128::from(most)) as usize };
    format!("{}{}", "█".repeat(length / 8), EIGHTHS.get(length % 8).copied().unwrap_or_default())
}

impl TextTable {
    /// The columns and rows of a table that a terminal shows.
    pub(crate) fn of(table: &Table, indent: usize) -> Self {
        let shown =
            || table.columns.iter().enumerate().filter(|(_, column)| column.is_in(OutputForm::Terminal));
        let names = shown().take_while(|(_, column)| column.align == Align::Names).count();
        let mut text = Self {
            titles: Vec::new(),
            rows: Vec::new(),
            left: names,
            words: Vec::new(),
            denials: Vec::new(),
            spare: Vec::new(),
            indent,
            least_name: table.least_name,
        };
        let mut spare = Vec::new();
        for (_, column) in shown() {
            let place = text.titles.len();
            text.titles.push(column.title.to_owned());
            spare.extend(column.spare.map(|order| (order, place)));
            if column.align == Align::Words {
                text.words.push(place);
            }
            if column.has_share_in_text() {
                text.titles.push(String::new());
                spare.extend(column.spare_share.map(|order| (order, place + 1)));
            }
            if column.is_denial {
                text.denials.extend(place..text.titles.len());
            }
        }
        spare.sort_unstable();
        text.spare = spare.into_iter().map(|(_, place)| place).collect();
        for row in table.rows.iter().take(table.most) {
            let cells = shown().flat_map(|(place, column)| {
                let cell = row.cells.get(place).unwrap_or(&Cell::Empty);
                [Some(cell.text()), column.has_share_in_text().then(|| cell.share())].into_iter().flatten()
            });
            let cells = cells.map(|cell| Printable(cell).to_string()).collect();
            let notes: Vec<&str> =
                row.notes.iter().map(|note| &**note).filter(|note| !note.is_empty()).collect();
            let note = Printable(notes.join("  ")).to_string().trim().to_owned();
            text.rows.push(TextRow { cells, note: Some(note).filter(|note| !note.is_empty()) });
        }
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
    fn title_lines(&self, columns: &[TextColumn], style: Style) -> Vec<String> {
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
        cells: impl Iterator<Item = (&'a TextColumn, &'a str, Option<Paint>)>,
        style: Style,
    ) -> String {
        let mut line = " ".repeat(self.indent);
        // Spaces at the end of a line are not written.
        let mut spaces = 0;
        for (place, (column, cell, paint)) in cells.enumerate() {
            let cell = fitted(cell, column.width);
            let rest = column.width.saturating_sub(cell.width());
            spaces += if place == 0 { 0 } else { GAP.len() };
            let is_left = column.place < self.left || self.words.contains(&column.place);
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

    /// The columns that are shown, and their widths. If there is no room, titles fold, names are shortened, and then
    /// columns are left out.
    fn columns(&self) -> Vec<TextColumn> {
        let all = (0..self.titles.len()).map(|place| self.column(place));
        let mut columns: Vec<TextColumn> =
            all.filter(|column| column.cells > 0 || self.rows.is_empty()).collect();
        let natural = columns.clone();
        let mut spare = self.spare.iter();
        loop {
            let is_folded =
                self.shrink(&mut columns, |column| (column.width > column.least).then_some(column.width));
            let is_name = |column: &TextColumn| column.place < self.left && column.width > self.least_name;
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
    fn shrink(&self, columns: &mut [TextColumn], yielded: impl Fn(&TextColumn) -> Option<usize>) -> bool {
        while !self.fits(columns) {
            let yielding = columns.iter_mut().filter_map(|column| Some((yielded(column)?, column)));
            match yielding.max_by_key(|(width, _)| *width) {
                Some((_, column)) => column.width -= 1,
                None => return false,
            }
        }
        true
    }

    fn column(&self, place: usize) -> TextColumn {
        let cells = self.rows.iter().filter_map(|row| row.cells.get(place));
        let cells = cells.map(|cell| cell.width()).max().unwrap_or(0);
        let title = self.title(place);
        let word = title.split(' ').map(|word| word.width()).max().unwrap_or(0);
        TextColumn { place, cells, width: cells.max(title.width()), least: cells.max(word) }
    }

    fn title(&self, place: usize) -> &str {
        self.titles.get(place).map_or("", |title| title)
    }

    fn fits(&self, columns: &[TextColumn]) -> bool {
        let widths: usize = columns.iter().map(|column| column.width).sum();
        self.indent + widths + GAP.len() * columns.len().saturating_sub(1) <= COLUMNS
    }
}

#[derive(Debug, Clone, Copy)]
struct TextColumn {
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
        TextTable::of(table, 2).lines(Style::Plain).collect()
    }

    fn words(texts: &[&str]) -> Vec<Cell> {
        texts.iter().map(|text| Cell::Words((*text).to_owned())).collect()
    }

    #[test]
    fn a_table_that_fits_is_as_wide_as_its_cells() {
        let mut table = Table::new("", vec![Column::name("name"), Column::figure("denied")]);
        table.noted_row(vec!["more".to_owned()], words(&["a", "1,000"]));
        assert_eq!(lines(&table), ["  name  denied", "  a      1,000", "    more"]);
    }

    #[test]
    fn titles_fold_then_names_shrink_then_columns_go() {
        let mut table = Table::new(
            "",
            vec![
                Column::name("name"),
                Column::figure("a rather long title"),
                Column::figure("spare").spare(0),
            ],
        );
        table.row(words(&[&"n".repeat(60), "1", "2"]));
        let folded = lines(&table);
        assert!(folded.iter().all(|line| line.width() <= COLUMNS) && folded.len() > 2, "{folded:#?}");
        assert!(folded.last().unwrap().contains(&"n".repeat(60)), "{folded:#?}");
        table.row(words(&[&"n".repeat(90), &"1".repeat(40), "2"]));
        let shrunk = lines(&table);
        assert!(shrunk.iter().all(|line| line.width() <= COLUMNS), "{shrunk:#?}");
        assert!(
            shrunk.last().unwrap().contains('…') && shrunk.last().unwrap().ends_with(" 2"),
            "{shrunk:#?}"
        );
        table.row(words(&[&"n".repeat(90), &"1".repeat(62), "2"]));
        let dropped = lines(&table);
        assert!(dropped.iter().all(|line| line.width() <= COLUMNS), "{dropped:#?}");
        assert!(dropped.last().unwrap().ends_with('1'), "{dropped:#?}");
    }

    /// Widths were counted in characters, and half of the names of programs are wider than that.
    #[test]
    fn wide_characters_take_two_columns() {
        let mut table = Table::new("", vec![Column::name("name"), Column::figure("denied")]);
        table.row(words(&["日本語", "1"]));
        table.row(words(&["abcdef", "2"]));
        let lines = lines(&table);
        assert_eq!(lines[1].width(), lines[2].width(), "{lines:#?}");
    }

    #[test]
    fn denials_are_red_on_a_terminal_alone() {
        let mut table = Table::new("", vec![Column::name("name"), Column::figure("denied").denials()]);
        table.row(words(&["a", "3"]));
        table.row(words(&["b", "0"]));
        let colored: Vec<String> = TextTable::of(&table, 2).lines(Style::Colored).collect();
        assert_eq!(colored[1], "  a          \u{1b}[31m3\u{1b}[0m");
        assert_eq!(colored[2], "  b          0");
        assert!(!lines(&table).concat().contains('\u{1b}'));
    }
}
