//! What is asked for: routes, with a limit for each of the busiest, and the busiest clients.

use crate::output::number::grouped;
use crate::output::section::{Block, Cell, Column, Table};
use crate::output::share::share_of_clients;
use crate::report::{Peak, Report};

/// Routes that a terminal shows.
const ROUTES: usize = 20;

/// Clients that a terminal shows.
const CLIENTS: usize = 10;

/// Columns of a terminal for a route, as long as others can be left out.
const LEAST_ROUTE: usize = 32;

/// Bytes of a page that the rows of either table may take.
const MAX_BYTES: usize = 40_000;

pub(super) fn blocks(report: &Report) -> Vec<Block> {
    if report.routes.is_empty() {
        return Vec::new();
    }
    [routes(report), suggestions(report), busiest_clients(report)].map(Block::Table).into()
}

fn routes(report: &Report) -> Table {
    let mut columns = vec![Column::name("route"), Column::part("requests", "share of all").spare_share(1)];
    let is_limited = !report.is_overview();
    columns.extend(is_limited.then_some(Column::part("denied", "share denied").denials().without_share()));
    columns.extend([
        Column::figure("clients"),
        Column::figure("4xx"),
        Column::figure("5xx"),
        Column::figure("in one second").of_page(),
        Column::figure("in one minute").spare(0),
    ]);
    let all = report.routes.len();
    let caption = match all > ROUTES {
        true => format!("Routes (the {ROUTES} busiest of {})", grouped(all as u64)),
        false => "Routes".to_owned(),
    };
    let mut table = Table::new(&caption, columns)
        .about("Paths of one form are one route. The busiest second and minute: the most requests in one.")
        .things("routes", MAX_BYTES);
    (table.most, table.least_name) = (ROUTES, LEAST_ROUTE);
    for route in &report.routes {
        let peak = |peak: &Option<Peak>| peak.as_ref().map_or(Cell::Empty, |peak| Cell::Count(peak.requests));
        let class = |name: &str| {
            let class = route.statuses.iter().find(|class| class.class == name);
            class.map_or(Cell::Empty, |class| Cell::Share(class.requests, route.requests))
        };
        let mut cells = vec![Cell::Name(route.title()), Cell::Part(route.requests, report.requests)];
        cells.extend(is_limited.then_some(Cell::Part(route.denied, route.requests)));
        cells.extend([
            Cell::Estimate(route.clients, route.one_client_in),
            class("4xx"),
            class("5xx"),
            peak(&route.busiest_second),
            peak(&route.busiest_minute),
        ]);
        table.row(cells);
    }
    table
}

/// The limits that `suggest` would give.
fn suggestions(report: &Report) -> Table {
    let columns = vec![
        Column::name("route"),
        Column::figure("limit"),
        Column::figure("1 in"),
        Column::figure("denies at most").of_page(),
        Column::part("requests", "share of requests").long("would have denied").denials(),
        Column::part("clients", "share of clients").long("denied clients").denials(),
        Column::words("remark").of_page(),
    ];
    let mut table = Table::new("Limits for the busiest routes", columns)
        .about(
            "`suggest` finds each limit in about the first 70 % of the route's time. With 95 % confidence, the limit \
             denies at most one client in the number under `1 in`. The other columns show what it would have denied in \
             this log.",
        )
        .things("routes", MAX_BYTES);
    table.is_explained = true;
    for route in &report.routes {
        let Some(suggested) = &route.suggested else { continue };
        let remark = suggested.set_by.as_ref().map(|set_by| set_by.remark("client", &suggested.window));
        let cells = vec![
            Cell::Name(route.title()),
            Cell::Words(format!("{}/{}", suggested.limit, suggested.window)),
            Cell::Count((1.0 / suggested.budget).round() as u64),
            Cell::Words(share_of_clients(suggested.budget)),
            Cell::Part(suggested.denied, route.requests),
            Cell::Part(suggested.denied_clients, route.clients),
            remark.clone().map_or(Cell::Empty, Cell::Words),
        ];
        table.noted_row(remark.into_iter().collect(), cells);
    }
    table
}

fn busiest_clients(report: &Report) -> Table {
    let mut columns = vec![Column::name("client"), Column::part("requests", "share of all")];
    let is_limited = !report.is_overview();
    columns.extend(is_limited.then_some(Column::part("denied", "share denied").denials().without_share()));
    columns.extend([Column::words("from").of_page(), Column::words("to").of_page()]);
    let mut table = Table::new("Busiest clients", columns);
    table.most = CLIENTS;
    for client in &report.busiest_clients {
        let mut cells = vec![
            Cell::Client(client.client.clone(), client.user_agent.clone()),
            Cell::Part(client.requests, report.requests),
        ];
        cells.extend(is_limited.then_some(Cell::Part(client.denied, client.requests)));
        cells.extend([&client.first, &client.last].map(|time| Cell::Time(time.clone())));
        table.noted_row(client.user_agent.iter().cloned().collect(), cells);
    }
    table
}
