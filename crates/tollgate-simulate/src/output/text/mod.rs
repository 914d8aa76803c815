//! The report on a terminal: the answer first, then why, and at last what was read.

mod quota;
mod when;

use std::fmt;

use super::CheckedReport;
use super::number::{lasting, moment};
use super::read::read_section;
use super::screen::Screen;
use super::section::Block;
use super::sections::sections;
use super::style::{Paint, Style};
use super::text_table::TextTable;
use crate::gate::{GateResult, GateVerdict};
use crate::quoted::code;
use crate::report::Report;

impl CheckedReport {
    /// Returns the report for a terminal of 80 columns.
    #[must_use]
    pub fn text(&self, style: Style) -> String {
        let Self { report, gates } = self;
        let mut screen = Screen::new(style);
        let [what, whom, judgement] = self.opening();
        screen.painted(Paint::Bold, 0, what);
        [whom, judgement]
            .iter()
            .filter(|sentence| !sentence.is_empty())
            .for_each(|sentence| screen.line(0, sentence));
        gate_results(&mut screen, gates);
        sections(report).iter().flat_map(|section| &section.blocks).for_each(|part| block(&mut screen, part));
        when::section(&mut screen, report);
        quota::sections(&mut screen, report);
        screen.section("Caveats");
        report.notes.iter().for_each(|note| screen.line(2, format_args!("- {note}")));
        read(&mut screen, report);
        screen.finish()
    }
}

/// Writes the text without colour.
impl fmt::Display for CheckedReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(Style::Plain))
    }
}

fn gate_results(screen: &mut Screen, gates: &[GateResult]) {
    if gates.is_empty() {
        return;
    }
    screen.section("Gates");
    let widest = gates.iter().map(|gate| gate.held.words().len()).max().unwrap_or(0);
    for GateResult { gate, held, measured, allowed, .. } in gates {
        let paint = match held {
            GateVerdict::Held => Paint::Green,
            GateVerdict::NoAnswer => Paint::Yellow,
            GateVerdict::Failed => Paint::Red,
        };
        let text = format!("{}: {measured}; allowed: {allowed}", code(gate));
        screen.beside(paint, held.words(), widest, text);
    }
}

fn block(screen: &mut Screen, block: &Block) {
    match block {
        Block::Table(table) => {
            screen.section(&table.caption);
            if table.is_explained {
                screen.line(2, &table.about);
            }
            screen.table(&TextTable::of(table, 2));
        }
        Block::Sentence(sentence) => screen.line(2, sentence),
        Block::Detail(detail) => screen.line(4, detail),
    }
}

fn read(screen: &mut Screen, report: &Report) {
    screen.section("What was read");
    if let Some(read) = &report.read {
        read_section(screen, read);
    }
    match report.first.as_ref().zip(report.last.as_ref()) {
        Some((first, last)) => {
            screen.painted(
                Paint::Dim,
                2,
                format_args!(
                    "From {} to {} ({}): {}",
                    moment(first),
                    moment(last),
                    report.zone,
                    lasting(report.seconds)
                ),
            );
        }
        None => screen.painted(Paint::Dim, 2, "No request"),
    }
}

impl GateVerdict {
    /// In words.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::NoAnswer => "no answer",
            Self::Failed => "FAILED",
        }
    }
}
