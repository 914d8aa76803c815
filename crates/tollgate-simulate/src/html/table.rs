//! Tables of a page.

use std::fmt::Write as _;

use super::escape::Text;

/// Rows of texts, with a caption. Wide ones scroll by themselves, also by the keyboard.
pub(super) struct Table<'a> {
    caption: &'a str,
    titles: &'a [&'a str],
    /// How many columns stand to the left.
    left: usize,
    rows: String,
}

impl<'a> Table<'a> {
    pub(super) const fn new(caption: &'a str, titles: &'a [&'a str], left: usize) -> Self {
        Self { caption, titles, left, rows: String::new() }
    }

    pub(super) fn row(&mut self, cells: &[String]) {
        self.rows.push_str("<tr>");
        for (column, cell) in cells.iter().enumerate() {
            let class = if column < self.left { " class=\"left\"" } else { "" };
            let (tag, scope) = if column == 0 { ("th", " scope=\"row\"") } else { ("td", "") };
            // Writing into a string does not fail.
            let _ = write!(self.rows, "<{tag}{scope}{class}>{}</{tag}>", Text(cell));
        }
        self.rows.push_str("</tr>\n");
    }

    pub(super) fn html(&self) -> String {
        let caption = Text(self.caption);
        let mut titles = String::new();
        for (column, title) in self.titles.iter().enumerate() {
            let class = if column < self.left { " class=\"left\"" } else { "" };
            let _ = write!(titles, "<th scope=\"col\"{class}>{}</th>", Text(title));
        }
        format!(
            "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"{caption}\"><table><caption>{caption}</caption>\
             <thead><tr>{titles}</tr></thead>\n<tbody>\n{}</tbody></table></div>\n",
            self.rows
        )
    }

    /// The same, shown on request: a chart is above it.
    pub(super) fn folded(&self) -> String {
        format!("<details><summary>The same as a table</summary>\n{}</details>\n", self.html())
    }
}
