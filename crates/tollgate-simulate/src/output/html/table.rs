//! Tables of a page.

use std::cmp::Reverse;
use std::fmt::Write as _;

use super::cell::HtmlCell;
use super::escape::HtmlText;
use super::prose::Prose;
use crate::output::number::grouped;
use crate::output::section::{Align, Cell, Column, OutputForm, Table};

/// Rows that are listed at most, and the bytes that they take, unless a table is told otherwise. All tables of a page
/// together leave it below 1 MB.
const MAX_ROWS: usize = 500;
const MAX_BYTES: usize = 25_000;

/// Columns that are no wider than text.
const FEW_COLUMNS: usize = 4;

/// Bytes from which on words may take several lines.
const LONG: usize = 30;

/// Rows of cells, with a caption. Wide ones scroll by themselves, also by the keyboard.
pub(crate) struct HtmlTable<'a> {
    caption: &'a str,
    /// A sentence below the caption.
    about: &'a str,
    titles: Vec<&'a str>,
    /// How many columns stand to the left.
    left: usize,
    /// How many at the end are words as well.
    words_at_end: usize,
    /// What the rows are, in plural.
    things: &'a str,
    max_bytes: usize,
    /// Each with its weight.
    rows: Vec<(u64, String)>,
}

impl<'a> HtmlTable<'a> {
    pub(crate) fn new(caption: &'a str, titles: &[&'a str], left: usize) -> Self {
        Self {
            caption,
            about: "",
            titles: titles.to_vec(),
            left,
            words_at_end: 0,
            things: "rows",
            max_bytes: MAX_BYTES,
            rows: Vec::new(),
        }
    }

    /// The columns and rows of a table that a page shows.
    pub(crate) fn of(table: &'a Table) -> Self {
        let shown = || table.columns.iter().enumerate().filter(|(_, column)| column.is_in(OutputForm::Page));
        let is_left = |column: &&(usize, &Column)| column.1.align != Align::Figures;
        let columns: Vec<(usize, &Column)> = shown().collect();
        let titles = shown().flat_map(|(_, column)| {
            let share = Some(column.share).filter(|share| !share.is_empty());
            [Some(column.long), share].into_iter().flatten()
        });
        let mut html = Self {
            about: &table.about,
            titles: titles.collect(),
            words_at_end: columns.iter().rev().take_while(is_left).count(),
            things: table.things.0,
            max_bytes: table.things.1,
            ..Self::new(&table.caption, &[], columns.iter().take_while(is_left).count())
        };
        for row in &table.rows {
            let cells = shown().flat_map(|(place, column)| {
                let cell = row.cells.get(place).unwrap_or(&Cell::Empty);
                let (cell, share) = HtmlCell::of(cell, column);
                let share = (!column.share.is_empty()).then(|| share.unwrap_or_default());
                [Some(cell), share].into_iter().flatten()
            });
            html.weighty_row(row.weight, &cells.collect::<Vec<_>>());
        }
        html
    }

    /// Explains its columns.
    pub(crate) fn about(self, about: &'a str) -> Self {
        Self { about, ..self }
    }

    /// Says what its rows are, in plural, and how many bytes they may take.
    pub(crate) fn things(self, things: &'a str, max_bytes: usize) -> Self {
        Self { things, max_bytes, ..self }
    }

    fn is_left(&self, column: usize) -> bool {
        column < self.left || column + self.words_at_end >= self.titles.len()
    }

    pub(crate) fn row(&mut self, cells: &[HtmlCell]) {
        self.weighty_row(0, cells);
    }

    /// A row that is listed before those of less weight, if not all are.
    pub(crate) fn weighty_row(&mut self, weight: u64, cells: &[HtmlCell]) {
        let mut row = "<tr>".to_owned();
        for (column, HtmlCell { html, is_zero }) in cells.iter().enumerate() {
            let class = match self.is_left(column) {
                true if column > 0 && html.len() > LONG => " class=\"left long\"",
                true => " class=\"left\"",
                false if *is_zero => " class=\"zero\"",
                false => "",
            };
            let (tag, scope) = if column == 0 { ("th", " scope=\"row\"") } else { ("td", "") };
            // Writing into a string does not fail.
            let _ = write!(row, "<{tag}{scope}{class}>{html}</{tag}>");
        }
        row.push_str("</tr>\n");
        self.rows.push((weight, row));
    }

    pub(crate) fn html(&self) -> String {
        let about = match self.about {
            "" => String::new(),
            about => format!("<p class=\"soft\">{}</p>\n", Prose(about)),
        };
        let body = self.body();
        format!(
            "<div class=\"table{}\"><h3>{}</h3>\n{about}{body}</div>\n",
            self.few(),
            HtmlText(self.caption)
        )
    }

    /// Keeps a small table from being stretched.
    fn few(&self) -> &'static str {
        if self.titles.len() <= FEW_COLUMNS { " few" } else { "" }
    }

    fn body(&self) -> String {
        let caption = HtmlText(self.caption);
        let mut titles = String::new();
        for (column, title) in self.titles.iter().enumerate() {
            let class = if self.is_left(column) { " class=\"left\"" } else { "" };
            let _ = write!(titles, "<th scope=\"col\"{class}>{}</th>", HtmlText(title));
        }
        let listed = self.listed();
        let rows: String = listed.iter().map(|(_, row)| row.as_str()).collect();
        let mut html = format!(
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{caption}\"><table aria-label=\"{caption}\">\
             <thead><tr>{titles}</tr></thead>
<tbody>\n{rows}</tbody></table></div>\n"
        );
        if listed.len() < self.rows.len() {
            let (listed, all) = (grouped(listed.len() as u64), grouped(self.rows.len() as u64));
            let which = match self.rows.iter().any(|(weight, _)| *weight > 0) {
                true => "those with the most denied requests",
                false => "the first ones",
            };
            let _ = writeln!(
                html,
                "<p class=\"soft\">Listed are {listed} of {all} {}: {which}.</p>",
                self.things
            );
        }
        html
    }

    /// The rows with most weight, as many as there is room for, in their order.
    fn listed(&self) -> Vec<&(u64, String)> {
        let mut places: Vec<(usize, &(u64, String))> = self.rows.iter().enumerate().collect();
        places.sort_by_key(|(place, (weight, _))| (Reverse(*weight), *place));
        let mut bytes = 0;
        let fitting = places.iter().take(MAX_ROWS).take_while(|(_, (_, row))| {
            bytes += row.len();
            bytes <= self.max_bytes
        });
        let fitting = fitting.count();
        places.truncate(fitting);
        places.sort_by_key(|(place, _)| *place);
        places.into_iter().map(|(_, row)| row).collect()
    }

    /// The same, shown on request.
    pub(crate) fn folded(&self, summary: &str) -> String {
        let (few, body) = (self.few(), self.body());
        format!("<details><summary>{summary}</summary>\n<div class=\"table{few}\">{body}</div></details>\n")
    }
}
