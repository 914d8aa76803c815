//! The summary of the logs, in words.

use std::fmt::{Display, Write as _};

use super::number::{counted, grouped, lasting, moment};
use super::screen::Screen;
use super::style::Paint;
use crate::output::share::percent;
use crate::report::ReadReport;

/// Times without requests that are shown, the longest ones.
const GAPS: usize = 3;

/// Writes the summary of the logs, in words.
pub(crate) fn read_section(screen: &mut Screen, read: &ReadReport) {
    let mut dim = |indent, text: &dyn Display| screen.painted(Paint::Dim, indent, text);
    dim(2, &lines_read(read));
    formats(read).iter().for_each(|text| dim(4, text));
    for unread in &read.unparsed {
        dim(4, &format_args!("{}: {}", counted(unread.lines, "unreadable line"), unread.reason));
        unread.examples.iter().for_each(|example| dim(6, example));
    }
    if !read.late_examples.is_empty() {
        dim(4, &format_args!("{}, too far behind those before them:", counted(read.late, "late line")));
        read.late_examples.iter().for_each(|example| dim(6, example));
    }
    let mut gaps: Vec<_> = read.gaps.iter().collect();
    gaps.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    for gap in gaps.into_iter().take(GAPS) {
        let (from, to) = (moment(&gap.from), moment(&gap.to));
        dim(4, &format_args!("no requests for {}, from {from} to {to}", lasting(gap.seconds)));
    }
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
        let format = file.format.as_ref().map(|format| format!("{format} format"));
        let precision = file.precision.as_ref().map(|precision| format!("times {precision}"));
        let read: Vec<String> = format.into_iter().chain(precision).collect();
        let parts = [Some(read.join(", ")).filter(|read| !read.is_empty()), file.instant.clone()];
        let text = parts.into_iter().flatten().collect::<Vec<_>>().join("; ");
        if !text.is_empty() && !said.contains(&text) {
            said.push(text);
        }
    }
    said
}
