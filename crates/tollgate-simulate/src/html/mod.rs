//! The report as one page: no script, no request over the network, readable in light and dark and on paper.

mod chart;
mod escape;
mod table;

use std::fmt::Write as _;

use self::escape::Text;
use self::table::Table;
use crate::output::number::{counted, grouped, lasting, shares};
use crate::output::text::marks;
use crate::report::{DeniedClient, PolicyReport, QuotaReport, ReadReport, Report, TimeShare};
use crate::{Answer, Basis, Held, percent};

const STYLE: &str = include_str!("style.css");

/// The digest of the style, so that the page's policy allows it alone. A test holds it against the file.
const STYLE_DIGEST: &str = "sha256-wMVv3n0B/dK2t8hKGIM/vDKaR4OpLz+iilYS3pligmw=";

/// Quotas that have a chart, those that deny most first. Others are in the table of policies.
const MAX_CHARTS: usize = 40;

/// Policies and days that are listed.
const MAX_ROWS: usize = 500;

const WEEKDAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

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
             base-uri 'none'; form-action 'none'\">\n\
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
        curves(&mut page, report);
        when(&mut page, report);
        clients(&mut page, report);
        classes(&mut page, report);
        page.push_str("<h2>Limits of this answer</h2>\n<ul>\n");
        for note in &report.notes {
            let _ = writeln!(page, "<li>{}</li>", Text(note));
        }
        page.push_str("</ul>\n</main>\n</body>\n</html>\n");
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

fn summary(page: &mut String, report: &Report) {
    if let Some((first, last)) = report.first.as_ref().zip(report.last.as_ref()) {
        let length = lasting(report.seconds);
        let _ = writeln!(page, "<p class=\"soft\">From {} to {}: {length}.</p>", Text(first), Text(last));
    }
    let facts = [
        (grouped(report.denied), format!("requests denied, {}", percent(report.denied, report.requests))),
        (
            grouped(report.denied_clients),
            format!(
                "of {} denied, {}",
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
    for (number, about) in facts {
        let _ = writeln!(page, "<li><b>{number}</b> {}</li>", Text(about));
    }
    page.push_str("</ul>\n");
    if !report.undecided_reasons.is_empty() {
        let mut table = Table::new("Why requests cannot be decided on", &["requests", "reason"], 2);
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
    let mut table = Table::new("Files", &titles, 4);
    for file in read.files.iter().take(MAX_ROWS) {
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
    let mut table = Table::new("Policies", &titles, 2);
    for policy in report.policies.iter().take(MAX_ROWS) {
        let requests = shares(policy.denied, policy.requests);
        let clients = shares(policy.denied_clients, policy.clients);
        table.row(&[&[policy.title(), policy.key.clone()][..], &requests, &clients].concat());
    }
    page.push_str(&table.html());
    let titles = [
        "policy",
        "quota",
        "denied",
        "windows",
        "denied windows",
        "longest wait",
        "p50",
        "p90",
        "p99",
        "p99.9",
        "max",
        "burst",
    ];
    let caption = "Quotas: how tight they are. p50 to max are the most that each client asks for in one window; burst is \
                   the most admitted in any interval as long as a window, as a multiple of the limit";
    let mut table = Table::new(caption, &titles, 2);
    for (policy, quota) in quotas(report).take(MAX_ROWS) {
        let spread = quota.most.map(|most| [most.p50, most.p90, most.p99, most.p999, most.max].map(grouped));
        let [p50, p90, p99, p999, max] = spread.unwrap_or_default();
        table.row(&[
            policy.title(),
            quota.quota.clone(),
            grouped(quota.denied),
            grouped(quota.windows),
            grouped(quota.denied_windows),
            lasting(quota.longest_wait),
            p50,
            p90,
            p99,
            p999,
            max,
            quota.burst.map(|burst| format!("{burst:.2}")).unwrap_or_default(),
        ]);
    }
    page.push_str(&table.html());
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
    table.row(&["denied before".to_owned(), grouped(compared.denied_before), String::new()]);
    page.push_str(&table.html());
    client_table(page, "Clients that are newly denied", &compared.most_newly_denied);
}

fn curves(page: &mut String, report: &Report) {
    let mut charts: Vec<(usize, (&PolicyReport, &QuotaReport))> = quotas(report)
        .enumerate()
        .filter(|(_, (_, quota))| quota.curve.points.len() > 1 && quota.requests > 0)
        .collect();
    if charts.is_empty() {
        return;
    }
    charts.sort_by_key(|(place, (_, quota))| (std::cmp::Reverse(quota.denied), *place));
    charts.truncate(MAX_CHARTS);
    charts.sort_by_key(|(place, _)| *place);
    page.push_str("<h2>What other limits would deny</h2>\n");
    for (place, (policy, quota)) in charts {
        let title = format!("{} {}", policy.title(), quota.quota);
        let basis = match quota.curve.basis {
            Basis::Calculated if policy.one_client_in > 1 => {
                format!("Estimated from one client in {}.", policy.one_client_in)
            }
            Basis::Calculated => "Exact for every limit.".to_owned(),
            Basis::Tried => "Tried by the engine, with all other quotas as they are.".to_owned(),
        };
        let _ = writeln!(page, "<h3>{}</h3>\n<p class=\"soft\">{basis}</p>", Text(&title));
        page.push_str(&chart::curve(
            &format!("curve{place}"),
            &format!("Other limits than {title}"),
            &quota.curve,
        ));
        let titles = ["limit", "denied", "share", "denied clients", "share of clients", "mark"];
        let caption = format!("Other limits than {title}");
        let mut table = Table::new(&caption, &titles, 0);
        for point in &quota.curve.points {
            table.row(&[
                grouped(point.limit),
                grouped(point.denied),
                percent(point.denied, policy.requests),
                grouped(point.denied_clients),
                percent(point.denied_clients, policy.clients),
                marks(&quota.curve, point.limit).join(", "),
            ]);
        }
        page.push_str(&table.folded());
    }
}

fn when(page: &mut String, report: &Report) {
    if report.days.is_empty() {
        return;
    }
    let (what, value): (&str, fn(&TimeShare) -> u64) = if report.denied > 0 {
        ("Denied requests by the hour of the week", |share| share.denied)
    } else {
        ("Requests by the hour of the week", |share| share.requests)
    };
    let _ = writeln!(
        page,
        "<h2>When</h2>\n<p class=\"soft\">Hours and days are those of {}.</p>",
        Text(&report.zone)
    );
    page.push_str(&chart::week("week", what, &report.week, value));
    let hours: Vec<String> = (0..24).map(|hour: u8| hour.to_string()).collect();
    let titles: Vec<&str> = ["day"].into_iter().chain(hours.iter().map(String::as_str)).collect();
    let mut table = Table::new(what, &titles, 1);
    for (name, day) in WEEKDAYS.iter().zip(&report.week) {
        let cells: Vec<String> =
            [(*name).to_owned()].into_iter().chain(day.iter().map(|share| grouped(value(share)))).collect();
        table.row(&cells);
    }
    page.push_str(&table.folded());
    page.push_str(&chart::days("days", &report.days));
    page.push_str("<p class=\"soft\">The lower part of a bar are denied requests.</p>\n");
    let mut table = Table::new("Requests by day", &["day", "requests", "denied", "share"], 1);
    let listed = report.days.get(report.days.len().saturating_sub(chart::MAX_DAYS)..).unwrap_or_default();
    for day in listed {
        let share = percent(day.denied, day.requests);
        table.row(&[day.day.clone(), grouped(day.requests), grouped(day.denied), share]);
    }
    page.push_str(&table.folded());
}

fn clients(page: &mut String, report: &Report) {
    if !report.most_denied.is_empty() {
        page.push_str("<h2>To whom</h2>\n");
        client_table(page, "Clients that are denied most often", &report.most_denied);
    }
}

fn client_table(page: &mut String, caption: &str, clients: &[DeniedClient]) {
    if clients.is_empty() {
        return;
    }
    let titles = ["client", "program", "path", "requests", "denied", "share", "most in one window"];
    let mut table = Table::new(caption, &titles, 3);
    for client in clients {
        let fullest = client.fullest.as_ref();
        let fullest = fullest.map(|window| format!("{} of {}", grouped(window.asked), window.quota));
        table.row(&[
            client.client.clone(),
            client.user_agent.clone().unwrap_or_default(),
            client.path.clone().unwrap_or_default(),
            grouped(client.requests),
            grouped(client.denied),
            percent(client.denied, client.requests),
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
    let titles = ["class", "requests", "denied", "share", "clients", "denied clients", "share of clients"];
    let mut table = Table::new("Classes", &titles, 1);
    for class in &report.classes {
        let requests = shares(class.denied, class.requests);
        let clients = shares(class.denied_clients, class.clients);
        table.row(&[&[class.class.clone()][..], &requests, &clients].concat());
    }
    page.push_str(&table.html());
}

#[cfg(test)]
mod tests {
    use base64ct::{Base64, Encoding as _};
    use sha2::{Digest as _, Sha256};

    use super::*;

    /// With another digest, browsers would show the page without its style.
    #[test]
    fn the_policy_of_the_page_allows_its_style() {
        assert_eq!(STYLE_DIGEST, format!("sha256-{}", Base64::encode_string(&Sha256::digest(STYLE))));
    }
}
