//! To whom: the clients that are denied most often, and classes of clients.

use super::cell::Cell;
use super::moment::moment;
use super::table::Table;
use super::weight;
use crate::output::number::grouped;
use crate::output::text::ON_TRIAL;
use crate::report::{DeniedClient, Report};

/// Bytes that the rows of classes may take.
const MAX_BYTES: usize = 50_000;

pub(super) fn section(report: &Report) -> String {
    client_table("Clients that are denied most often", &report.most_denied, |client| client.denied)
        + &client_table(ON_TRIAL, &report.most_denied_on_trial, |client| client.denied)
        + &classes(report)
        + &busiest(report)
}

pub(super) const fn title(report: &Report) -> &'static str {
    if report.is_overview() { "Who asks" } else { "To whom" }
}

fn busiest(report: &Report) -> String {
    if report.busiest_clients.is_empty() {
        return String::new();
    }
    let titles = ["client", "program", "from", "to", "requests", "share"];
    let mut table = Table::new("Busiest clients", &titles, 4);
    for client in &report.busiest_clients {
        table.row(&[
            Cell::name(&client.client),
            Cell::name(client.user_agent.as_deref().unwrap_or_default()),
            Cell::text(moment(&client.first)),
            Cell::text(moment(&client.last)),
            Cell::number(client.requests),
            Cell::part(client.requests, report.requests),
        ]);
    }
    table.html()
}

pub(super) fn client_table(
    caption: &str,
    clients: &[DeniedClient],
    denied: fn(&DeniedClient) -> u64,
) -> String {
    if clients.is_empty() {
        return String::new();
    }
    let titles =
        ["client", "program", "first denied path", "requests", "denied", "share", "most in one window"];
    let mut table = Table::new(caption, &titles, 3);
    for client in clients {
        let fullest = client.fullest.as_ref();
        let fullest = fullest.map(|window| format!("{} of {}", grouped(window.asked), window.quota));
        table.row(&[
            Cell::name(&client.client),
            Cell::name(client.user_agent.as_deref().unwrap_or_default()),
            Cell::name(client.path.as_deref().unwrap_or_default()),
            Cell::number(client.requests),
            Cell::number(denied(client)),
            Cell::denied(denied(client), client.requests),
            Cell::text(fullest.unwrap_or_default()),
        ]);
    }
    table.html()
}

fn classes(report: &Report) -> String {
    if report.classes.is_empty() {
        return String::new();
    }
    let titles =
        ["policy", "class", "requests", "denied", "share", "clients", "denied clients", "share of clients"];
    let mut table = Table::new("Classes", &titles, 2)
        .about("A client may be in several classes, and a request in one.")
        .of("policies and classes", MAX_BYTES);
    for (policy, class) in report.by_class() {
        let cells = [
            Cell::name(&policy),
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
