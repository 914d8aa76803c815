//! What was read, and what was not.

use std::fmt::Write as _;

use super::cell::HtmlCell;
use super::moment::length;
use super::table::HtmlTable;
use crate::output::number::{counted, grouped, moment};
use crate::output::share::percent;
use crate::report::{ReadReport, Report};

/// Bytes that the rows of files may take.
const MAX_BYTES: usize = 25_000;

/// Times without requests that are listed without being asked for: many are ordinary nights.
const FEW_GAPS: usize = 3;

/// Files that are listed without being asked for.
const FEW_FILES: usize = 8;

pub(crate) fn section(report: &Report) -> String {
    let mut page = String::new();
    let Some(read) = &report.read else { return page };
    let _ = writeln!(page, "<p>{}.</p>", lines(read));
    page.push_str(&files(read));
    if !read.unparsed.is_empty() {
        let mut table = HtmlTable::new("Lines that could not be read", &["reason", "lines"], 1);
        for unread in &read.unparsed {
            table.row(&[HtmlCell::name(&unread.reason), HtmlCell::number(unread.lines)]);
        }
        page.push_str(&table.html());
    }
    if !read.gaps.is_empty() {
        let mut table = HtmlTable::new("Times without requests", &["from", "to", "length"], 2);
        for gap in &read.gaps {
            table.row(&[
                HtmlCell::whole(&moment(&gap.from)),
                HtmlCell::whole(&moment(&gap.to)),
                HtmlCell::text(length(gap.seconds)),
            ]);
        }
        let is_short = read.gaps.len() <= FEW_GAPS;
        page.push_str(&if is_short { table.html() } else { table.folded("Times without requests") });
    }
    page
}

/// The lines of all kinds, without those of which there are none.
fn lines(read: &ReadReport) -> String {
    let mut text = format!("{} in {}", counted(read.lines, "line"), counted(read.files.len() as u64, "file"));
    let kinds = [
        (read.others, "without a request"),
        (read.unparsed_lines, "unreadable"),
        (read.late, "too late to be replayed"),
    ];
    for (number, kind) in kinds.into_iter().filter(|(number, _)| *number > 0) {
        text += &format!(", {} {kind} ({})", grouped(number), percent(number, read.lines));
    }
    text
}

fn files(read: &ReadReport) -> String {
    let titles = ["file", "format", "times", "precision", "lines", "requests"];
    let mut table = HtmlTable::new("Files", &titles, 4).things("files", MAX_BYTES);
    for file in &read.files {
        let text = |text: &Option<String>| HtmlCell::text(text.as_deref().unwrap_or_default());
        table.row(&[
            HtmlCell::name(&file.name),
            text(&file.format),
            text(&file.instant),
            text(&file.precision),
            HtmlCell::number(file.lines),
            HtmlCell::number(file.requests),
        ]);
    }
    if read.files.len() > FEW_FILES { table.folded("The files") } else { table.html() }
}
