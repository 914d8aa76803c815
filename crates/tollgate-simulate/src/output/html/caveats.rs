//! The limits of the answer.

use std::fmt::Write as _;

use super::prose::Prose;
use crate::output::number::counted;
use crate::report::Report;

/// Bytes of notes, of which a stranger who writes names may make long ones.
const MAX_BYTES: usize = 30_000;

pub(crate) fn section(report: &Report) -> String {
    let mut page = String::from("<ul>\n");
    let mut bytes = 0;
    for (place, note) in report.notes.iter().enumerate() {
        let item = format!("<li>{}</li>\n", Prose(&note.to_string()));
        bytes += item.len();
        if bytes > MAX_BYTES {
            let left = counted((report.notes.len() - place) as u64, "note");
            // Writing into a string does not fail.
            let _ = writeln!(page, "<li>{left} more in the report of <code>--json</code>.</li>");
            break;
        }
        page.push_str(&item);
    }
    page.push_str("</ul>\n");
    page
}
