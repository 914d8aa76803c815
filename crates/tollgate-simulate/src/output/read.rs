//! The summary of the logs, in words.

use std::fmt::{self, Write as _};

use tollgate_policy::Printable;

use super::number::{counted, grouped, lasting};
use crate::percent;
use crate::report::ReadReport;

/// Times without requests that are shown, the longest ones.
const GAPS: usize = 3;

/// Writes the summary of the logs, in words.
pub(crate) fn read_report(f: &mut fmt::Formatter<'_>, read: &ReadReport) -> fmt::Result {
    writeln!(f, "{}", lines_read(read))?;
    for text in formats(read) {
        writeln!(f, "  {}", Printable(&text))?;
    }
    for unread in &read.unparsed {
        writeln!(f, "  {}: {}", counted(unread.lines, "unreadable line"), Printable(&unread.reason))?;
        unread.examples.iter().try_for_each(|example| writeln!(f, "    {}", Printable(example)))?;
    }
    if !read.late_examples.is_empty() {
        writeln!(f, "  {}, too far behind those before them:", counted(read.late, "late line"))?;
        read.late_examples.iter().try_for_each(|example| writeln!(f, "    {}", Printable(example)))?;
    }
    let mut gaps: Vec<_> = read.gaps.iter().collect();
    gaps.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    for gap in gaps.into_iter().take(GAPS) {
        writeln!(f, "  no requests for {}, from {} to {}", lasting(gap.seconds), gap.from, gap.to)?;
    }
    Ok(())
}

/// How many lines were read.
pub(crate) fn lines_read(read: &ReadReport) -> String {
    let ReadReport { files, lines, others, unparsed_lines, late, .. } = read;
    let mut text = format!("Read {} in {}", counted(*lines, "line"), counted(files.len() as u64, "file"));
    // Writing into a string does not fail.
    if *others > 0 {
        let _ = write!(text, ", {} without a request ({})", grouped(*others), percent(*others, *lines));
    }
    if *unparsed_lines > 0 {
        let _ =
            write!(text, ", {} unreadable ({})", grouped(*unparsed_lines), percent(*unparsed_lines, *lines));
    }
    if *late > 0 {
        let late = (grouped(*late), percent(*late, *lines));
        let _ = write!(text, ", {} too late to be replayed ({}); --sort replays them", late.0, late.1);
    }
    text
}

/// The formats of the files, each once, and what they say of times.
pub(crate) fn formats(read: &ReadReport) -> Vec<String> {
    let mut said: Vec<String> = Vec::new();
    for file in &read.files {
        let parts = [file.format.as_deref(), file.instant.as_deref(), file.precision.as_deref()];
        let text = parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
        if !text.is_empty() && !said.contains(&text) {
            said.push(text);
        }
    }
    said
}
