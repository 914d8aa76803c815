//! The report on a terminal.

use std::fmt;

use tollgate_policy::Printable;

use super::Answer;
use super::curve::curve;
use super::number::{about, counted, grouped, lasting, most_in_a_window, shares};
pub(crate) use super::read::read_report;
use super::routes;
use super::table::Table;
use crate::report::{DeniedClient, PolicyReport, QuotaReport, Report, TimeShare};
use crate::shortened::narrowed;
use crate::{GateResult, Held, percent};

/// Characters of a text of a client that are shown.
pub(crate) const WIDE: usize = 48;

/// The title of a table.
pub(crate) const ON_TRIAL: &str =
    "Clients whose allowed requests would be denied most often by policies on trial";

/// The title of a table.
pub(crate) const NEWLY_ALLOWED: &str = "Clients that are newly allowed, with what was denied before";

const WEEKDAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { report, gates } = self;
        if let Some(read) = &report.read {
            read_report(f, read)?;
        }
        span(f, report)?;
        outcome(f, report)?;
        routes::routes(f, report)?;
        policies(f, report)?;
        for policy in &report.policies {
            for quota in &policy.quotas {
                tightness(f, policy, quota)?;
            }
        }
        week(f, report)?;
        clients(f, "Clients that are denied most often", &report.most_denied, |client| client.denied)?;
        clients(f, ON_TRIAL, &report.most_denied_on_trial, |client| client.denied)?;
        classes(f, report)?;
        compared(f, report)?;
        writeln!(f, "\nCaveats")?;
        report.notes.iter().try_for_each(|note| writeln!(f, "  - {}", Printable(note)))?;
        gate_results(f, gates)
    }
}

fn span(f: &mut fmt::Formatter<'_>, report: &Report) -> fmt::Result {
    match report.first.as_ref().zip(report.last.as_ref()) {
        Some((first, last)) => writeln!(f, "  from {first} to {last}: {}", lasting(report.seconds)),
        None => writeln!(f, "  no request"),
    }
}

fn outcome(f: &mut fmt::Formatter<'_>, report: &Report) -> fmt::Result {
    let Report { requests, denied, clients, denied_clients, undecided, .. } = report;
    let about = about(report.one_client_in);
    if *requests == 0 {
        return writeln!(f, "\n{}", Report::NO_REQUEST);
    }
    if report.is_overview() {
        return writeln!(
            f,
            "\n{} from {about}{}, on {}.",
            counted(*requests, "request"),
            counted(*clients, "client"),
            counted(report.routes.len() as u64, "route")
        );
    }
    writeln!(
        f,
        "\nOf {}, {} would be denied ({}).",
        counted(*requests, "request"),
        grouped(*denied),
        percent(*denied, *requests)
    )?;
    writeln!(
        f,
        "Of {about}{}, {about}{} would be denied at least once ({}).",
        counted(*clients, "client"),
        grouped(*denied_clients),
        percent(*denied_clients, *clients)
    )?;
    if *undecided > 0 {
        writeln!(
            f,
            "{} cannot be decided ({}), and would be answered with errors:",
            counted(*undecided, "request"),
            percent(*undecided, *requests)
        )?;
        for reason in &report.undecided_reasons {
            writeln!(f, "  {} {}", grouped(reason.requests), Printable(&reason.reason))?;
        }
    }
    if report.unlimited > 0 {
        writeln!(
            f,
            "No policy limits {} ({}).",
            counted(report.unlimited, "request"),
            percent(report.unlimited, *requests)
        )?;
    }
    if !report.has_answer() {
        writeln!(f, "{}", Report::NO_POLICY)?;
    }
    Ok(())
}

fn policies(f: &mut fmt::Formatter<'_>, report: &Report) -> fmt::Result {
    if report.policies.is_empty() {
        return Ok(());
    }
    writeln!(f, "\nPolicies")?;
    let titles = ["policy", "key", "requests", "denied", "", "clients", "denied", ""];
    let mut table = Table::new(titles).left(2);
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
    write!(f, "{table}")
}

fn tightness(f: &mut fmt::Formatter<'_>, policy: &PolicyReport, quota: &QuotaReport) -> fmt::Result {
    if quota.requests == 0 {
        return Ok(());
    }
    writeln!(f, "\n{} {}", policy.title(), quota.title())?;
    if let Some(most) = quota.most {
        writeln!(f, "  {}", most_in_a_window(most))?;
        if quota.is_spared() {
            writeln!(f, "  other quotas denied everything that it would have denied")?;
        }
    }
    denials(f, policy, quota)?;
    if let Some(burst) = quota.burst {
        writeln!(f, "  the most admitted in any interval of a window's length: {burst:.2} times the limit")?;
    }
    curve(f, &quota.curve, policy)
}

/// In how many windows it denies, how long clients wait, and whether waiting helps.
fn denials(f: &mut fmt::Formatter<'_>, policy: &PolicyReport, quota: &QuotaReport) -> fmt::Result {
    let QuotaReport { denied, above_limit, denied_windows, windows, longest_wait, .. } = *quota;
    let waiting = denied.saturating_sub(above_limit);
    if denied_windows > 0 {
        write!(f, "  denies in {} of {}", grouped(denied_windows), counted(windows, "window"))?;
        match waiting {
            0 => writeln!(f)?,
            _ => writeln!(f, "; the longest wait is {}", lasting(longest_wait))?,
        }
    } else if waiting > 0 {
        let whose = match policy.one_client_in {
            1 => "",
            // Without a client there is no window.
            _ => " of clients that are not followed",
        };
        let (waiting, wait) = (counted(waiting, "request"), lasting(longest_wait));
        writeln!(f, "  denies {waiting}{whose}; the longest wait is {wait}")?;
    }
    if above_limit > 0 {
        let requests = counted(above_limit, "request");
        writeln!(f, "  denies {requests} that cost more than the whole limit; waiting does not help")?;
    }
    Ok(())
}

fn week(f: &mut fmt::Formatter<'_>, report: &Report) -> fmt::Result {
    let shares = || report.week.iter().flatten();
    let is_denied = report.denied > 0;
    let value = |share: &TimeShare| if is_denied { share.denied } else { share.requests };
    let Some(most) = shares().map(value).max().filter(|most| *most > 0) else { return Ok(()) };
    let what = if is_denied { "denied requests" } else { "requests" };
    writeln!(f, "\nWhen: {what} by hour of the week, in {}; {} in the busiest", report.zone, grouped(most))?;
    writeln!(f, "       0     6     12    18")?;
    for (name, day) in WEEKDAYS.iter().zip(&report.week) {
        let hours: String = day.iter().map(|share| shade(value(share), most)).collect();
        writeln!(f, "  {name}  {hours}")?;
    }
    Ok(())
}

fn shade(part: u64, all: u64) -> char {
    const SHADES: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    if part == 0 {
        return '·';
    }
    let place = (u128::from(part) * 8).div_ceil(u128::from(all.max(1))) as usize;
    SHADES.get(place.saturating_sub(1)).copied().unwrap_or('█')
}

/// A table of clients, with the requests that count as denied.
fn clients(
    f: &mut fmt::Formatter<'_>,
    title: &str,
    clients: &[DeniedClient],
    denied: fn(&DeniedClient) -> u64,
) -> fmt::Result {
    if clients.is_empty() {
        return Ok(());
    }
    writeln!(f, "\n{title}")?;
    let mut table =
        Table::new(["client", "program", "first denied path", "requests", "denied", "", "most at once"])
            .left(3);
    for client in clients {
        let fullest = client.fullest.as_ref();
        let fullest = fullest.map(|window| format!("{} of {}", grouped(window.asked), window.quota));
        table.row([
            Printable(narrowed(&client.client, WIDE)).to_string(),
            cut(client.user_agent.as_deref().unwrap_or_default()),
            cut(client.path.as_deref().unwrap_or_default()),
            grouped(client.requests),
            grouped(denied(client)),
            percent(denied(client), client.requests),
            fullest.unwrap_or_default(),
        ]);
    }
    write!(f, "{table}")
}

fn cut(text: &str) -> String {
    let text = Printable(text).to_string();
    match text.char_indices().nth(WIDE) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

fn classes(f: &mut fmt::Formatter<'_>, report: &Report) -> fmt::Result {
    if report.classes.is_empty() {
        return Ok(());
    }
    writeln!(f, "\nClasses")?;
    let titles = ["policy", "class", "requests", "denied", "", "clients", "denied", ""];
    let mut table = Table::new(titles).left(2);
    for (policy, class) in report.by_class() {
        let [requests, denied, share] = shares(class.denied, class.requests);
        let [clients, denied_clients, of_clients] = shares(class.denied_clients, class.clients);
        let class = class.class.clone();
        table.row([policy, class, requests, denied, share, clients, denied_clients, of_clients]);
    }
    write!(f, "{table}")
}

fn compared(f: &mut fmt::Formatter<'_>, report: &Report) -> fmt::Result {
    let Some(compared) = &report.compared else { return Ok(()) };
    writeln!(f, "\nCompared with the policies of --baseline")?;
    let mut table = Table::new(["", "requests", "clients"]);
    table.row([
        "newly denied".to_owned(),
        grouped(compared.newly_denied),
        grouped(compared.newly_denied_clients),
    ]);
    table.row([
        "newly allowed".to_owned(),
        grouped(compared.newly_allowed),
        grouped(compared.newly_allowed_clients),
    ]);
    table.row(["the same".to_owned(), grouped(compared.same), String::new()]);
    table.row(["denied before".to_owned(), grouped(compared.denied_before), String::new()]);
    if compared.incomparable > 0 {
        table.row(["only one can decide".to_owned(), grouped(compared.incomparable), String::new()]);
    }
    write!(f, "{table}")?;
    clients(f, "Clients that are newly denied", &compared.most_newly_denied, |client| client.denied)?;
    clients(f, NEWLY_ALLOWED, &compared.most_newly_allowed, |client| client.denied_before)
}

fn gate_results(f: &mut fmt::Formatter<'_>, gates: &[GateResult]) -> fmt::Result {
    if gates.is_empty() {
        return Ok(());
    }
    writeln!(f, "\nGates")?;
    let mut table = Table::new(["", "fails if", "measured", "allowed"]).left(4);
    for gate in gates {
        table.row([
            gate.held.words().to_owned(),
            gate.gate.clone(),
            gate.measured.clone(),
            gate.allowed.clone(),
        ]);
    }
    write!(f, "{table}")
}

impl Held {
    /// In words.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::NoAnswer => "no answer",
            Self::Failed => "FAILED",
        }
    }
}
