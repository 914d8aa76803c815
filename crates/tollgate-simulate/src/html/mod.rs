//! The report as one page: no request over the network, readable in light and dark, on paper, and without its script.

mod chart;
mod curves;
mod escape;
mod table;
mod when;

use std::fmt::Write as _;

use self::escape::Text;
use self::table::Table;
use crate::output::number::{about, counted, grouped, lasting, shares};
use crate::output::text::{NEWLY_ALLOWED, ON_TRIAL};
use crate::report::{DeniedClient, PolicyReport, QuotaReport, ReadReport, Report};
use crate::{Answer, Held, percent};

const STYLE: &str = include_str!("style.css");

/// The digest of the style, so that the page's policy allows it alone. A test holds it against the file.
const STYLE_DIGEST: &str = "sha256-AA2P8XR6nRcW8e72HeMcBmD2Cu7d/OC65WduvXPFGQM=";

/// The script sorts tables and slides along curves. What it needs is in the page.
const SCRIPT: &str = include_str!("script.js");

/// The digest of the script, as that of the style.
const SCRIPT_DIGEST: &str = "sha256-z/2jGPKrysZTxh1wmjk/erSFtZoEdvJ0hIaz8vkmaNQ=";

/// Bytes that the rows of tables may take: with all others, less than 1 MB.
const OF_POLICIES: usize = 70_000;
const OF_QUOTAS: usize = 80_000;
const OF_CLASSES: usize = 60_000;
const OF_FILES: usize = 30_000;

/// Bytes of notes.
const MAX_NOTES: usize = 30_000;

impl Answer {
    /// Returns the report as one page of HTML. It is the same for the same report, and smaller than 1 MB.
    #[must_use]
    pub fn html(&self) -> String {
        let report = &self.report;
        let mut page = String::new();
        let title = format!("What these limits would do to {}", counted(report.requests, "request"));
        // Writing into a string does not fail.
        let _ = write!(
            page,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src '{STYLE_DIGEST}'; \
             script-src '{SCRIPT_DIGEST}'; base-uri 'none'; form-action 'none'\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"referrer\" content=\"no-referrer\">\n<title>{0}</title>\n<style>{STYLE}</style>\n</head>\n\
             <body>\n<main>\n<h1>{0}</h1>\n",
            Text(&title)
        );
        summary(&mut page, report);
        self.gates(&mut page);
        if let Some(read) = &report.read {
            read_section(&mut page, read);
        }
        policies(&mut page, report);
        compared(&mut page, report);
        curves::section(&mut page, report);
        when::section(&mut page, report);
        clients(&mut page, report);
        classes(&mut page, report);
        page.push_str("<h2>Caveats</h2>\n<ul>\n");
        notes(&mut page, &report.notes);
        let _ = write!(page, "</ul>\n</main>\n<script>{SCRIPT}</script>\n</body>\n</html>\n");
        page
    }

    fn gates(&self, page: &mut String) {
        if self.gates.is_empty() {
            return;
        }
        let class = if self.held() == Held::Held { "held" } else { "failed" };
        let words = match self.held() {
            Held::Held => "All gates held",
            Held::NoAnswer => "A gate has no answer",
            Held::Failed => "A gate failed",
        };
        let _ = writeln!(page, "<h2>Gates</h2>\n<p class=\"{class}\">{words}.</p>");
        let mut table = Table::new("Gates", &["gate", "fails if", "measured", "allowed"], 4);
        for gate in &self.gates {
            let words = gate.held.words().to_owned();
            table.row(&[words, gate.gate.clone(), gate.measured.clone(), gate.allowed.clone()]);
        }
        page.push_str(&table.html());
    }
}

/// The notes, of which an attacker who writes names may make long ones.
fn notes(page: &mut String, notes: &[String]) {
    let mut bytes = 0;
    for (place, note) in notes.iter().enumerate() {
        let item = format!("<li>{}</li>\n", Text(note));
        bytes += item.len();
        if bytes > MAX_NOTES {
            let left = counted((notes.len() - place) as u64, "note");
            let _ = writeln!(page, "<li>{left} more in the report of <code>--json</code>.</li>");
            return;
        }
        page.push_str(&item);
    }
}

fn summary(page: &mut String, report: &Report) {
    if let Some((first, last)) = report.first.as_ref().zip(report.last.as_ref()) {
        let length = lasting(report.seconds);
        let _ = writeln!(page, "<p class=\"soft\">From {} to {}: {length}.</p>", Text(first), Text(last));
    }
    let about = about(report.one_client_in);
    let facts = [
        (grouped(report.denied), format!("requests denied, {}", percent(report.denied, report.requests))),
        (
            format!("{about}{}", grouped(report.denied_clients)),
            format!(
                "of {about}{} denied, {}",
                counted(report.clients, "client"),
                percent(report.denied_clients, report.clients)
            ),
        ),
        (
            grouped(report.undecided),
            format!("requests in error, {}", percent(report.undecided, report.requests)),
        ),
        (
            grouped(report.unlimited),
            format!("requests without a limit, {}", percent(report.unlimited, report.requests)),
        ),
    ];
    page.push_str("<ul class=\"facts\">\n");
    for (number, text) in facts {
        let _ = writeln!(page, "<li><b>{number}</b> {}</li>", Text(text));
    }
    page.push_str("</ul>\n");
    if !report.has_answer() {
        let why = if report.requests == 0 { Report::NO_REQUEST } else { Report::NO_POLICY };
        let _ = writeln!(page, "<p class=\"failed\">{why}</p>");
    }
    if !report.undecided_reasons.is_empty() {
        let mut table = Table::new("Why requests cannot be decided", &["requests", "reason"], 2);
        for reason in &report.undecided_reasons {
            table.row(&[grouped(reason.requests), reason.reason.clone()]);
        }
        page.push_str(&table.html());
    }
}

fn read_section(page: &mut String, read: &ReadReport) {
    page.push_str("<h2>What was read</h2>\n");
    let _ = writeln!(
        page,
        "<p>{} in {}; {} without a request ({}), {} unreadable ({}), {} too late to be replayed.</p>",
        counted(read.lines, "line"),
        counted(read.files.len() as u64, "file"),
        grouped(read.others),
        percent(read.others, read.lines),
        grouped(read.unparsed_lines),
        percent(read.unparsed_lines, read.lines),
        grouped(read.late)
    );
    let titles = ["file", "format", "times", "precision", "lines", "requests"];
    let mut table = Table::new("Files", &titles, 4).of("files", OF_FILES);
    for file in &read.files {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        table.row(&[
            file.name.clone(),
            text(&file.format),
            text(&file.instant),
            text(&file.precision),
            grouped(file.lines),
            grouped(file.requests),
        ]);
    }
    page.push_str(&table.html());
    if !read.unparsed.is_empty() {
        let mut table = Table::new("Lines that could not be read", &["reason", "lines"], 1);
        for unread in &read.unparsed {
            table.row(&[unread.reason.clone(), grouped(unread.lines)]);
        }
        page.push_str(&table.html());
    }
    if !read.gaps.is_empty() {
        let mut table = Table::new("Times without requests", &["from", "to", "length"], 2);
        for gap in &read.gaps {
            table.row(&[gap.from.clone(), gap.to.clone(), lasting(gap.seconds)]);
        }
        page.push_str(&table.html());
    }
}

fn policies(page: &mut String, report: &Report) {
    page.push_str("<h2>What each policy does</h2>\n");
    let titles =
        ["policy", "key", "requests", "denied", "share", "clients", "denied clients", "share of clients"];
    let mut table = Table::new("Policies", &titles, 2).of("policies", OF_POLICIES);
    for policy in &report.policies {
        let requests = shares(policy.denied, policy.requests);
        let clients = shares(policy.denied_clients, policy.clients);
        let cells = [&[policy.title(), policy.key.clone()][..], &requests, &clients].concat();
        table.weighty_row(weight(policy.denied, policy.requests), &cells);
    }
    page.push_str(&table.html());
    let has_above_limit = quotas(report).any(|(_, quota)| quota.above_limit > 0);
    let above_limit = has_above_limit.then_some("above the limit");
    let mut titles = vec!["policy", "quota", "denied"];
    titles.extend(above_limit);
    titles.extend([
        "windows",
        "denied windows",
        "longest wait",
        "p50",
        "p90",
        "p99",
        "p99.9",
        "max",
        "burst",
    ]);
    let caption = "Quotas, and how tight they are. p50 to max: the most that each client requests in one window. \
                   burst: the most admitted in any interval as long as a window, as a multiple of the limit";
    let mut table = Table::new(caption, &titles, 2).of("quotas", OF_QUOTAS);
    for (policy, quota) in quotas(report) {
        let spread = quota.most.map(|most| [most.p50, most.p90, most.p99, most.p999, most.max].map(grouped));
        let [p50, p90, p99, p999, max] = spread.unwrap_or_default();
        let mut cells = vec![policy.title(), quota.title(), grouped(quota.denied)];
        cells.extend(above_limit.map(|_| grouped(quota.above_limit)));
        // Those above the limit wait in vain.
        let wait = (quota.denied > quota.above_limit).then(|| lasting(quota.longest_wait));
        cells.extend([
            grouped(quota.windows),
            grouped(quota.denied_windows),
            wait.unwrap_or_default(),
            p50,
            p90,
            p99,
            p999,
            max,
            quota.burst.map(|burst| format!("{burst:.2}")).unwrap_or_default(),
        ]);
        table.weighty_row(weight(quota.denied, quota.requests), &cells);
    }
    page.push_str(&table.html());
}

/// Rows about more denied requests come first, then those about more requests.
fn weight(denied: u64, requests: u64) -> u64 {
    // Of one denied request, more than of any number that are not.
    if denied > 0 { denied.saturating_add(u64::MAX / 2) } else { requests.min(u64::MAX / 2) }
}

fn quotas(report: &Report) -> impl Iterator<Item = (&PolicyReport, &QuotaReport)> {
    report.policies.iter().flat_map(|policy| policy.quotas.iter().map(move |quota| (policy, quota)))
}

fn compared(page: &mut String, report: &Report) {
    let Some(compared) = &report.compared else { return };
    page.push_str("<h2>Compared with the policies before</h2>\n");
    let mut table = Table::new("Differences", &["difference", "requests", "clients"], 1);
    let (denied, allowed) = (compared.newly_denied, compared.newly_allowed);
    table.row(&["newly denied".to_owned(), grouped(denied), grouped(compared.newly_denied_clients)]);
    table.row(&["newly allowed".to_owned(), grouped(allowed), grouped(compared.newly_allowed_clients)]);
    table.row(&["the same".to_owned(), grouped(compared.same), String::new()]);
    table.row(&["denied before".to_owned(), grouped(compared.denied_before), String::new()]);
    if compared.incomparable > 0 {
        table.row(&["only one can decide".to_owned(), grouped(compared.incomparable), String::new()]);
    }
    page.push_str(&table.html());
    client_table(page, "Clients that are newly denied", &compared.most_newly_denied, |client| client.denied);
    client_table(page, NEWLY_ALLOWED, &compared.most_newly_allowed, |client| client.denied_before);
}

fn clients(page: &mut String, report: &Report) {
    let (denied, on_trial) = (&report.most_denied, &report.most_denied_on_trial);
    if !denied.is_empty() || !on_trial.is_empty() {
        page.push_str("<h2>To whom</h2>\n");
        client_table(page, "Clients that are denied most often", denied, |client| client.denied);
        client_table(page, ON_TRIAL, on_trial, |client| client.denied);
    }
}

fn client_table(
    page: &mut String,
    caption: &str,
    clients: &[DeniedClient],
    denied: fn(&DeniedClient) -> u64,
) {
    if clients.is_empty() {
        return;
    }
    let titles =
        ["client", "program", "first denied path", "requests", "denied", "share", "most in one window"];
    let mut table = Table::new(caption, &titles, 3);
    for client in clients {
        let fullest = client.fullest.as_ref();
        let fullest = fullest.map(|window| format!("{} of {}", grouped(window.asked), window.quota));
        table.row(&[
            client.client.clone(),
            client.user_agent.clone().unwrap_or_default(),
            client.path.clone().unwrap_or_default(),
            grouped(client.requests),
            grouped(denied(client)),
            percent(denied(client), client.requests),
            fullest.unwrap_or_default(),
        ]);
    }
    page.push_str(&table.html());
}

fn classes(page: &mut String, report: &Report) {
    if report.classes.is_empty() {
        return;
    }
    page.push_str("<h2>Who they are</h2>\n");
    let titles =
        ["policy", "class", "requests", "denied", "share", "clients", "denied clients", "share of clients"];
    let mut table = Table::new("Classes", &titles, 2).of("policies and classes", OF_CLASSES);
    for (policy, class) in report.by_class() {
        let requests = shares(class.denied, class.requests);
        let clients = shares(class.denied_clients, class.clients);
        let cells = [&[policy, class.class.clone()][..], &requests, &clients].concat();
        table.weighty_row(weight(class.denied, class.requests), &cells);
    }
    page.push_str(&table.html());
}

#[cfg(test)]
mod tests {
    use base64ct::{Base64, Encoding as _};
    use sha2::{Digest as _, Sha256};

    use super::*;

    /// With other digests, browsers would show the page without its style, or without its script.
    #[test]
    fn the_policy_of_the_page_allows_its_style_and_its_script() {
        let digest = |text| format!("sha256-{}", Base64::encode_string(&Sha256::digest(text)));
        assert_eq!((STYLE_DIGEST, SCRIPT_DIGEST), (&*digest(STYLE), &*digest(SCRIPT)));
    }
}
