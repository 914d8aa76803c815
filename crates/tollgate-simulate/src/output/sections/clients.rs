//! To whom: the clients that are denied most often, and classes of clients.

use super::policies::FIGURES;
use crate::output::number::grouped;
use crate::output::section::{Block, Cell, Column, Table};
use crate::report::{ClassReport, DeniedClient, Report};

pub(super) fn blocks(report: &Report) -> Vec<Block> {
    let denied = |client: &DeniedClient| client.denied;
    let mut tables = vec![
        list("Clients that are denied most often", &report.most_denied, denied),
        list(
            "Clients whose allowed requests would be denied most often by policies on trial",
            &report.most_denied_on_trial,
            denied,
        ),
    ];
    if let Some(compared) = &report.compared {
        tables.push(list("Clients that are newly denied", &compared.most_newly_denied, denied));
        tables.push(list(
            "Clients that are newly allowed, with what was denied before",
            &compared.most_newly_allowed,
            |client| client.denied_before,
        ));
    }
    tables.push(classes(report));
    tables.into_iter().map(Block::Table).collect()
}

/// A list of clients, with the requests that count as denied.
fn list(caption: &str, clients: &[DeniedClient], denied: fn(&DeniedClient) -> u64) -> Table {
    let columns = vec![
        Column::name("client"),
        Column::figure("requests"),
        Column::part("denied", "share denied").denials(),
        Column::figure("most at once").long("most in one window").spare(0),
        Column::words("first denied path").of_page(),
    ];
    let mut table = Table::new(caption, columns).of_clients();
    for client in clients {
        let fullest = client.fullest.as_ref();
        let fullest = fullest.map(|window| format!("{} of {}", grouped(window.asked), window.quota));
        let notes = [&client.path, &client.user_agent].into_iter().flatten().cloned().collect();
        let cells = vec![
            Cell::Client(client.client.clone(), client.user_agent.clone()),
            Cell::Count(client.requests),
            Cell::Part(denied(client), client.requests),
            fullest.map_or(Cell::Empty, Cell::Words),
            client.path.clone().map_or(Cell::Empty, Cell::Name),
        ];
        table.noted_row(notes, cells);
    }
    table
}

fn classes(report: &Report) -> Table {
    let columns = [Column::name("policy"), Column::name("class")].into_iter().chain(FIGURES).collect();
    let mut table = Table::new("Classes", columns)
        .about("A client may be in several classes, and a request in one.")
        .things("policies and classes", 50_000);
    let mut row = |policy: Cell, class: &ClassReport| {
        let cells = vec![
            policy,
            Cell::Name(class.class.clone()),
            Cell::Count(class.requests),
            Cell::Part(class.denied, class.requests),
            Cell::Count(class.clients),
            Cell::Part(class.denied_clients, class.clients),
        ];
        table.denial_row(class.denied, class.requests, cells);
    };
    report.classes.iter().for_each(|class| row(Cell::Words("all policies".to_owned()), class));
    for policy in &report.policies {
        for class in policy.classes.iter().filter(|class| class.requests > 0) {
            row(Cell::Policy(policy.policy.clone(), policy.role), class);
        }
    }
    if report.classes.is_empty() {
        table.rows.clear();
    }
    table
}
