//! To whom: the clients that are denied most often, and classes of clients.

use super::cell::Cell;
use super::table::HtmlTable;
use super::weight;
use crate::output::number::{grouped, moment};
use crate::output::text::ON_TRIAL;
use crate::report::{DeniedClient, Report};

/// Bytes that the rows of classes may take.
const MAX_BYTES: usize = 50_000;

pub(crate) fn section(report: &Report) -> String {
    client_table("Clients that are denied most often", &report.most_denied, |client| client.denied)
        + &client_table(ON_TRIAL, &report.most_denied_on_trial, |client| client.denied)
        + &classes(report)
        + &busiest(report)
}

fn busiest(report: &Report) -> String {
    if report.busiest_clients.is_empty() {
        return String::new();
    }
    let mut titles = vec!["client", "requests", "share of all"];
    let is_limited = !report.is_overview();
    titles.extend(is_limited.then_some(["denied", "share denied"]).into_iter().flatten());
    titles.extend(["from", "to"]);
    let mut table = HtmlTable::new("Busiest clients", &titles, 1).words_at_end(2);
    for client in &report.busiest_clients {
        let mut cells = vec![
            Cell::client(&client.client, client.user_agent.as_deref()),
            Cell::number(client.requests),
            Cell::part(client.requests, report.requests),
        ];
        let denied = [Cell::number(client.denied), Cell::denied(client.denied, client.requests)];
        cells.extend(is_limited.then_some(denied).into_iter().flatten());
        cells.extend([&client.first, &client.last].map(|time| Cell::whole(&moment(time))));
        table.row(&cells);
    }
    table.html()
}

pub(crate) fn client_table(
    caption: &str,
    clients: &[DeniedClient],
    denied: fn(&DeniedClient) -> u64,
) -> String {
    if clients.is_empty() {
        return String::new();
    }
    let titles = ["client", "denied", "share denied", "requests", "most in one window", "first denied path"];
    let mut table = HtmlTable::new(caption, &titles, 1).words_at_end(1);
    for client in clients {
        let fullest = client.fullest.as_ref();
        let fullest = fullest.map(|window| format!("{} of {}", grouped(window.asked), window.quota));
        table.row(&[
            Cell::client(&client.client, client.user_agent.as_deref()),
            Cell::number(denied(client)),
            Cell::denied(denied(client), client.requests),
            Cell::number(client.requests),
            Cell::text(fullest.unwrap_or_default()),
            Cell::name(client.path.as_deref().unwrap_or_default()),
        ]);
    }
    table.html()
}

fn classes(report: &Report) -> String {
    if report.classes.is_empty() {
        return String::new();
    }
    let titles = [
        "policy",
        "class",
        "requests",
        "denied",
        "share denied",
        "clients",
        "denied clients",
        "share of clients",
    ];
    let mut table = HtmlTable::new("Classes", &titles, 2)
        .about("A client may be in several classes, and a request in one. Policies that deny nothing in a class are left out.")
        .of("policies and classes", MAX_BYTES);
    let all = report.classes.iter().map(|class| (Cell::text("all policies"), class));
    let each =
        report.policies.iter().flat_map(|policy| policy.classes.iter().map(move |class| (policy, class)));
    let each =
        each.filter(|(_, class)| class.denied > 0).map(|(policy, class)| (Cell::policy(policy), class));
    for (policy, class) in all.chain(each) {
        let cells = [
            policy,
            Cell::name(&class.class),
            Cell::number(class.requests),
            Cell::number(class.denied),
            Cell::denied(class.denied, class.requests),
            Cell::number(class.clients),
            Cell::number(class.denied_clients),
            Cell::denied(class.denied_clients, class.clients),
        ];
        table.weighty_row(weight(class.denied, class.requests), &cells);
    }
    table.html()
}
