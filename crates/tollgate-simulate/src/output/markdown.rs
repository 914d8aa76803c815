//! The report for a pull request. It lists no clients: their addresses, paths and user agents are not for everyone who
//! reads the comment.

use std::fmt::Write as _;

use tollgate_policy::Printable;

use super::CheckedReport;
use super::number::{counted, lasting, moment};
use super::read::{formats, lines_read};
use super::section::{Align, Block, Cell, Column, Row, Table};
use super::sections::{CHANGES, sections};
use super::{curve, kinds};
use crate::quoted::code;

/// Limits of a curve that are listed.
const LISTED: usize = 20;

impl CheckedReport {
    /// Returns the report in Markdown, as GitHub and GitLab read it.
    #[must_use]
    pub fn markdown(&self) -> String {
        let Self { report, gates } = self;
        let mut text = String::new();
        let verdict = if gates.is_empty() { String::new() } else { format!(": {}", self.verdict()) };
        // Writing into a string does not fail.
        let _ = writeln!(text, "### Replay of {}{verdict}\n", counted(report.requests, "request"));
        for sentence in self.opening().iter().filter(|sentence| !sentence.is_empty()) {
            let _ = writeln!(text, "{}\n", Printable(sentence));
        }
        if !gates.is_empty() {
            let _ = writeln!(text, "{}", rows(&self.gate_table()));
        }
        // The changes against the baseline come first: they are what the pull request is about.
        let (changes, others): (Vec<_>, Vec<_>) =
            sections(report).into_iter().partition(|section| section.id == CHANGES);
        for block in changes.iter().chain(&others).flat_map(|section| &section.blocks) {
            let _ = match block {
                Block::Table(table) if table.lists_clients => continue,
                Block::Table(table) => writeln!(text, "#### {}\n\n{}", table.caption, rows(table)),
                Block::Sentence(sentence) => writeln!(text, "{}\n", Printable(sentence)),
                Block::Detail(detail) => writeln!(text, "- {}\n", Printable(detail)),
            };
        }
        self.curves(&mut text);
        let _ = writeln!(text, "Caveats:\n");
        for note in &report.notes {
            let _ = writeln!(text, "- {}", Printable(note));
        }
        self.read(&mut text);
        text
    }

    fn gate_table(&self) -> Table {
        let columns = ["gate", "fails if", "measured", "allowed"].map(Column::words).to_vec();
        let mut table = Table::new("Gates", columns);
        for gate in &self.gates {
            table.row(vec![
                Cell::Words(gate.held.words().to_owned()),
                Cell::Name(gate.gate.clone()),
                Cell::Words(gate.measured.to_string()),
                Cell::Words(gate.allowed.clone()),
            ]);
        }
        table
    }

    /// What was read.
    fn read(&self, text: &mut String) {
        let report = &self.report;
        if let Some((first, last)) = report.first.as_ref().zip(report.last.as_ref()) {
            let _ = writeln!(
                text,
                "\nFrom {} to {} ({}): {}.",
                moment(first),
                moment(last),
                report.zone,
                lasting(report.seconds)
            );
        }
        if let Some(read) = &report.read {
            let formats = formats(read).join("; ");
            let formats = if formats.is_empty() { formats } else { format!(": {}", Printable(&formats)) };
            let _ = writeln!(text, "\n{}{formats}.", lines_read(read));
        }
    }

    fn curves(&self, text: &mut String) {
        for policy in &self.report.policies {
            for quota in policy.quotas.iter().filter(|quota| quota.curve.points.len() > 1) {
                let table = curve::table(policy, quota, LISTED);
                let _ = writeln!(text, "<details><summary>{}</summary>\n\n{}", table.caption, rows(&table));
                for said in curve::legend(&quota.curve).into_iter().chain(curve::burst(quota)) {
                    let _ = writeln!(text, "{said}\n");
                }
                let _ = writeln!(text, "</details>\n");
            }
            for quota in policy.quotas.iter().filter(|quota| kinds::has_kinds(quota)) {
                let table = kinds::table(policy, quota);
                let _ = writeln!(text, "<details><summary>{}</summary>\n\n{}", table.caption, rows(&table));
                let _ = writeln!(text, "{}\n\n</details>\n", kinds::BASIS);
            }
        }
    }
}

/// The rows of a table, below its titles.
fn rows(table: &Table) -> String {
    let is_filled =
        |place: usize| table.rows.iter().any(|row| row.cells.get(place).is_some_and(|cell| !cell.is_empty()));
    let columns = || table.columns.iter().enumerate();
    let shown = || columns().filter(|(place, column)| column.only.is_none() && is_filled(*place));
    let titles: Vec<&str> = shown().map(|(_, column)| column.long).collect();
    let rule = |column: &Column| if column.align == Align::Figures { "---:" } else { "---" };
    let rules: Vec<&str> = shown().map(|(_, column)| rule(column)).collect();
    let mut text = format!("| {} |\n|{}|\n", titles.join(" | "), rules.join("|"));
    for Row { cells, notes, .. } in table.rows.iter().take(table.most) {
        let mut cells: Vec<String> =
            shown().map(|(place, _)| cell(cells.get(place).unwrap_or(&Cell::Empty))).collect();
        if let Some(first) = cells.first_mut() {
            for note in notes.iter().filter(|note| !note.is_empty()) {
                *first += &format!("<br>{}", name(note));
            }
        }
        text += &format!("| {} |\n", cells.join(" | "));
    }
    text
}

fn cell(cell: &Cell) -> String {
    match cell {
        Cell::Name(_) | Cell::Client(..) | Cell::Policy(..) => name(&cell.text()),
        Cell::Part(..) => format!("{} ({})", cell.text(), cell.share()),
        cell => cell.text(),
    }
}

/// Text of users in a table.
fn name(text: &str) -> String {
    code(text).replace('|', "\\|")
}
