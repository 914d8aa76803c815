//! The clients that are denied most, in lists.

use super::{NEWLY_ALLOWED, ON_TRIAL};
use crate::output::number::grouped;
use crate::output::screen::Screen;
use crate::output::share::percent;
use crate::output::table::Table;
use crate::output::width::CLIENT_WIDTH;
use crate::report::{DeniedClient, Report};
use crate::shortened::narrowed;

pub(super) fn section(screen: &mut Screen, report: &Report) {
    list(screen, "Clients that are denied most often", &report.most_denied, |client| client.denied);
    list(screen, ON_TRIAL, &report.most_denied_on_trial, |client| client.denied);
    if let Some(compared) = &report.compared {
        list(screen, "Clients that are newly denied", &compared.most_newly_denied, |client| client.denied);
        list(screen, NEWLY_ALLOWED, &compared.most_newly_allowed, |client| client.denied_before);
    }
}

/// A list of clients, with the requests that count as denied.
fn list(screen: &mut Screen, title: &str, clients: &[DeniedClient], denied: fn(&DeniedClient) -> u64) {
    if clients.is_empty() {
        return;
    }
    screen.section(title);
    let mut table =
        Table::new(["client", "requests", "denied", "", "most at once"]).denials([2, 3]).spare([4]);
    for client in clients {
        let fullest = client.fullest.as_ref();
        let fullest = fullest.map(|window| format!("{} of {}", grouped(window.asked), window.quota));
        table.row([
            narrowed(&client.client, CLIENT_WIDTH),
            grouped(client.requests),
            grouped(denied(client)),
            percent(denied(client), client.requests),
            fullest.unwrap_or_default(),
        ]);
        let told = [client.path.as_deref(), client.user_agent.as_deref()];
        let told: Vec<&str> = told.into_iter().flatten().filter(|text| !text.is_empty()).collect();
        if !told.is_empty() {
            table.note(told.join("  "));
        }
    }
    screen.table(&table);
}
