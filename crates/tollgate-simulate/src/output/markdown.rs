//! The report for a pull request.

use std::fmt::Write as _;

use tollgate_policy::Printable;

use super::CheckedReport;
use super::curve::{legend, marks};
use super::number::{counted, grouped, lasting, moment};
use super::read::{formats, lines_read};
use super::routes::title;
use super::table::Table;
use crate::output::share::percent;
use crate::quoted::code;
use crate::report::RouteSuggestion;

/// Limits of a curve that are listed, and routes.
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
            let mut table = Table::new(["gate", "fails if", "measured", "allowed"]).left(4);
            for gate in gates {
                table.row([
                    gate.held.words().to_owned(),
                    cell(&gate.gate),
                    gate.measured.to_string(),
                    gate.allowed.clone(),
                ]);
            }
            let _ = writeln!(text, "{}", table.markdown());
        }
        if let Some(compared) = &report.compared {
            let mut table = Table::new(["against the baseline", "requests", "clients"]);
            let (denied, allowed) = (compared.newly_denied, compared.newly_allowed);
            table.row(["newly denied".into(), grouped(denied), grouped(compared.newly_denied_clients)]);
            table.row(["newly allowed".into(), grouped(allowed), grouped(compared.newly_allowed_clients)]);
            table.row(["the same".into(), grouped(compared.same), String::new()]);
            if compared.incomparable > 0 {
                table.row(["only one can decide".into(), grouped(compared.incomparable), String::new()]);
            }
            let _ = writeln!(text, "{}", table.markdown());
        }
        if !report.policies.is_empty() {
            self.policies(&mut text);
        }
        self.routes(&mut text);
        self.classes(&mut text);
        self.curves(&mut text);
        let _ = writeln!(text, "Caveats:\n");
        for note in &report.notes {
            let _ = writeln!(text, "- {}", Printable(note));
        }
        self.read(&mut text);
        text
    }

    fn policies(&self, text: &mut String) {
        let mut table =
            Table::new(["policy", "key", "requests", "denied", "clients", "denied clients"]).left(2);
        for policy in &self.report.policies {
            table.row([
                cell(&policy.title()),
                cell(&policy.key),
                grouped(policy.requests),
                share(policy.denied, policy.requests),
                grouped(policy.clients),
                share(policy.denied_clients, policy.clients),
            ]);
        }
        let _ = writeln!(text, "{}", table.markdown());
    }

    /// The busiest routes, with limits for some of them.
    fn routes(&self, text: &mut String) {
        if self.report.routes.is_empty() {
            return;
        }
        let titles = ["route", "requests", "denied", "clients", "suggested limit", "for 1 client in"];
        let mut table = Table::new(titles);
        for route in self.report.routes.iter().take(LISTED) {
            let suggested = route.suggested.as_ref();
            table.row([
                cell(&title(route)),
                share(route.requests, self.report.requests),
                share(route.denied, route.requests),
                grouped(route.clients),
                suggested.map_or_else(String::new, limit),
                suggested.map_or_else(String::new, |limit| grouped((1.0 / limit.budget).round() as u64)),
            ]);
        }
        let _ = writeln!(text, "{}", table.markdown());
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

    fn classes(&self, text: &mut String) {
        if self.report.classes.is_empty() {
            return;
        }
        let titles = ["policy", "class", "requests", "denied", "clients", "denied clients"];
        let mut table = Table::new(titles).left(2);
        for (policy, class) in self.report.by_class() {
            table.row([
                cell(&policy),
                cell(&class.class),
                grouped(class.requests),
                share(class.denied, class.requests),
                grouped(class.clients),
                share(class.denied_clients, class.clients),
            ]);
        }
        let _ = writeln!(text, "{}", table.markdown());
    }

    fn curves(&self, text: &mut String) {
        for policy in &self.report.policies {
            for quota in policy.quotas.iter().filter(|quota| quota.curve.points.len() > 1) {
                let title = format!("{} {}", policy.title(), quota.title());
                let _ = writeln!(text, "<details><summary>Other limits than {title}</summary>\n");
                let mut table = Table::new(["limit", "denied", "denied clients", "mark"]).left(0);
                let points = &quota.curve.points;
                let step = points.len().div_ceil(LISTED).max(1);
                for (place, point) in points.iter().enumerate() {
                    let marks = marks(&quota.curve, point.limit);
                    if place.is_multiple_of(step) || place + 1 == points.len() || !marks.is_empty() {
                        table.row([
                            grouped(point.limit),
                            share(point.denied, policy.requests),
                            grouped(point.denied_clients),
                            marks.join(", "),
                        ]);
                    }
                }
                let _ = writeln!(text, "{}", table.markdown());
                if let Some(legend) = legend(&quota.curve) {
                    let _ = writeln!(text, "{legend}\n");
                }
                let _ = writeln!(text, "</details>\n");
            }
        }
    }
}

/// A suggested limit, with what set it.
fn limit(suggested: &RouteSuggestion) -> String {
    let RouteSuggestion { limit, window, set_by, .. } = suggested;
    let set_by =
        set_by.as_ref().map_or_else(String::new, |set_by| format!(", {}", set_by.remark("client", window)));
    format!("{limit}/{window}{set_by}")
}

/// A part of a whole, with its share.
fn share(part: u64, whole: u64) -> String {
    format!("{} ({})", grouped(part), percent(part, whole))
}

/// Text of users in a table.
fn cell(text: &str) -> String {
    code(text).replace('|', "\\|")
}
