//! The top of the page: the answer in three sentences, its proportions, and the gates.

use std::fmt::Write as _;

use super::chart::square;
use super::moment::span;
use super::name::HtmlName;
use super::prose::{Prose, Sentence};
use crate::gate::GateVerdict;
use crate::output::CheckedReport;
use crate::output::number::{about, counted, grouped};
use crate::output::share::percent;
use crate::report::{Report, StatusReport};

/// Bytes of gates.
const MAX_GATES: usize = 20_000;

pub(crate) fn header(page: &mut String, answer: &CheckedReport) {
    let report = &answer.report;
    let [first, others @ ..] = answer.opening();
    // Writing into a string does not fail.
    let _ = writeln!(
        page,
        "<header class=\"answer\">\n<p class=\"kicker\">{}</p>\n<div>\n<h1>{}</h1>",
        kicker(report),
        Prose(&first)
    );
    for sentence in others.iter().filter(|sentence| !sentence.is_empty()) {
        let _ = writeln!(page, "<p class=\"lead\">{}</p>", Prose(sentence));
    }
    page.push_str("</div>\n<div>\n");
    proportions(page, report);
    gates(page, answer);
    page.push_str("</div>\n</header>\n");
}

/// What was replayed, in one line of HTML.
fn kicker(report: &Report) -> String {
    let about = about(report.one_client_in);
    let mut text = format!(
        "Replay of {} from {about}{}",
        counted(report.requests, "request"),
        counted(report.clients, "client")
    );
    if let Some(span) = span(report) {
        text += &format!(", {span}");
    }
    text
}

/// Two bars: all requests and all clients, each in its parts. Without policies, requests by what the log answered.
fn proportions(page: &mut String, report: &Report) {
    if report.is_overview() {
        let classes =
            [("admitted", "2xx", 2), ("unlimited", "3xx", 3), ("error", "4xx", 4), ("denied", "5xx", 5)];
        let parts = classes.map(|(class, name, digit)| (class, name, answered(report, digit)));
        split(page, "Answers in the log", "", parts.iter().map(|(.., number)| number).sum(), &parts);
    } else if report.has_answer() {
        limited(page, report);
    }
}

/// Requests whose status begins with this digit.
fn answered(report: &Report, digit: u16) -> u64 {
    let is_in_class = |status: &&StatusReport| status.status.is_some_and(|status| status / 100 == digit);
    report.statuses.iter().filter(is_in_class).map(|status| status.requests).sum()
}

fn limited(page: &mut String, report: &Report) {
    let Report { requests, denied, undecided, unlimited, clients, denied_clients, .. } = *report;
    let admitted = report.decided().saturating_sub(denied);
    let parts = [
        ("denied", "denied", denied),
        ("error", "errors", undecided),
        ("admitted", "admitted", admitted),
        ("unlimited", "without a limit", unlimited),
    ];
    split(page, "Requests", "", requests, &parts);
    let about = about(report.one_client_in);
    let spared = clients.saturating_sub(denied_clients);
    let parts = [("denied", "denied at least once", denied_clients), ("admitted", "never denied", spared)];
    split(page, "Clients", about, clients, &parts);
}

fn split(page: &mut String, title: &str, about: &str, whole: u64, parts: &[(&str, &str, u64)]) {
    if whole == 0 {
        return;
    }
    let parts = || parts.iter().filter(|(.., number)| *number > 0);
    let _ = write!(
        page,
        "<div class=\"split\"><p>{title}</p>\n\
         <svg viewBox=\"0 0 1000 1\" preserveAspectRatio=\"none\" aria-hidden=\"true\">"
    );
    let mut left = 0.0;
    for (class, _, number) in parts() {
        let wide = *number as f64 / whole as f64 * 1_000.0;
        // A little is seen as well.
        let shown = wide.max(3.0);
        let _ = write!(page, "<rect class=\"{class}\" x=\"{left:.1}\" width=\"{shown:.1}\" height=\"1\"/>");
        left += wide.max(3.0);
    }
    page.push_str("</svg>\n<ul>\n");
    for (class, name, number) in parts() {
        let share = Sentence(percent(*number, whole));
        let _ = writeln!(page, "<li>{}{about}{} {name}, {share}</li>", square(class), grouped(*number));
    }
    page.push_str("</ul></div>\n");
}

fn gates(page: &mut String, answer: &CheckedReport) {
    if answer.gates.is_empty() {
        return;
    }
    let (class, sign) = match answer.held() {
        GateVerdict::Held => ("good", "\u{2713}"),
        GateVerdict::NoAnswer => ("bad", "?"),
        GateVerdict::Failed => ("bad", "\u{2717}"),
    };
    let words = answer.verdict();
    let _ = writeln!(page, "<div class=\"gates\">\n<h2 class=\"{class}\">{sign} {words}</h2>\n<ul>");
    let mut bytes = 0;
    for gate in &answer.gates {
        let class = if gate.held == GateVerdict::Held { "good" } else { "bad" };
        let item = format!(
            "<li><b class=\"{class}\">{}</b> <code>{}</code><br><span class=\"soft\">measured {}; allowed {}</span></li>\n",
            gate.held.words(),
            HtmlName(&gate.gate),
            Sentence(gate.measured),
            Sentence(&gate.allowed)
        );
        bytes += item.len();
        if bytes > MAX_GATES {
            page.push_str("<li>All gates are in the report of <code>--json</code>.</li>\n");
            break;
        }
        page.push_str(&item);
    }
    page.push_str("</ul>\n</div>\n");
}
