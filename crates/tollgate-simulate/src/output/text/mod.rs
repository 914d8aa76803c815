//! The report on a terminal: the answer first, then why, and at last what was read.

mod clients;
mod quota;
mod statuses;
mod when;

use std::fmt;

use super::CheckedReport;
use super::number::{counted, grouped, lasting, moment, shares};
use super::read::read_section;
use super::routes::routes;
use super::screen::Screen;
use super::style::{Paint, Style};
use super::table::Table;
use crate::gate::{GateResult, GateVerdict};
use crate::output::share::percent;
use crate::quoted::code;
use crate::report::{PolicyReport, Report};

/// The title of a table.
pub(crate) const ON_TRIAL: &str =
    "Clients whose allowed requests would be denied most often by policies on trial";

/// The title of a table.
pub(crate) const NEWLY_ALLOWED: &str = "Clients that are newly allowed, with what was denied before";

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
        routes(&mut screen, report);
        policies(&mut screen, report);
        statuses::section(&mut screen, report);
        compared(&mut screen, report);
        clients::section(&mut screen, report);
        classes(&mut screen, report);
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

fn policies(screen: &mut Screen, report: &Report) {
    if !report.policies.is_empty() {
        screen.section("Policies");
        let titles = ["policy", "key", "requests", "denied", "", "clients", "denied", ""];
        let mut table = Table::new(titles).left(2).denials([3, 4, 6, 7]);
        for policy in &report.policies {
            let PolicyReport { requests, denied, clients, denied_clients, .. } = policy;
            let has_clients = *clients > 0;
            table.row([
                policy.title(),
                policy.key.clone(),
                grouped(*requests),
                grouped(*denied),
                percent(*denied, *requests),
                if has_clients { grouped(*clients) } else { String::new() },
                if has_clients { grouped(*denied_clients) } else { String::new() },
                if has_clients { percent(*denied_clients, *clients) } else { String::new() },
            ]);
        }
        screen.table(&table);
    }
    let Report { requests, undecided, unlimited, .. } = *report;
    if unlimited > 0 && !report.is_overview() {
        let share = percent(unlimited, requests);
        screen.line(2, format_args!("No policy limits {} ({share}).", counted(unlimited, "request")));
    }
    if undecided > 0 {
        let share = percent(undecided, requests);
        let requests = counted(undecided, "request");
        screen.line(
            2,
            format_args!("{requests} ({share}) cannot be decided, and would be answered with errors:"),
        );
        for reason in &report.undecided_reasons {
            screen.line(4, format_args!("{}: {}", grouped(reason.requests), reason.reason));
        }
    }
}

fn classes(screen: &mut Screen, report: &Report) {
    if report.classes.is_empty() {
        return;
    }
    screen.section("Classes");
    let titles = ["policy", "class", "requests", "denied", "", "clients", "denied", ""];
    let mut table = Table::new(titles).left(2).denials([3, 4, 6, 7]);
    for (policy, class) in report.by_class() {
        let [requests, denied, share] = shares(class.denied, class.requests);
        let [clients, denied_clients, of_clients] = shares(class.denied_clients, class.clients);
        let class = class.class.clone();
        table.row([policy, class, requests, denied, share, clients, denied_clients, of_clients]);
    }
    screen.table(&table);
}

fn compared(screen: &mut Screen, report: &Report) {
    let Some(compared) = &report.compared else { return };
    screen.section("Compared with the policies of --baseline");
    let mut table = Table::new(["", "requests", "clients"]);
    let (denied, allowed) = (compared.newly_denied, compared.newly_allowed);
    table.row(["newly denied".into(), grouped(denied), grouped(compared.newly_denied_clients)]);
    table.row(["newly allowed".into(), grouped(allowed), grouped(compared.newly_allowed_clients)]);
    table.row(["the same".into(), grouped(compared.same), String::new()]);
    table.row(["denied before".into(), grouped(compared.denied_before), String::new()]);
    if compared.incomparable > 0 {
        table.row(["only one can decide".into(), grouped(compared.incomparable), String::new()]);
    }
    screen.table(&table);
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
