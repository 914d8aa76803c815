//! Routes and the busiest clients, on a terminal.

use super::number::{about, grouped};
use super::screen::Screen;
use super::table::Table;
use super::width::CLIENT_WIDTH;
use crate::output::share::percent;
use crate::report::{Peak, Report, RouteReport};
use crate::shortened::narrowed;

/// Routes that are shown.
const ROUTES: usize = 20;

/// Clients that are shown.
const CLIENTS: usize = 10;

pub(super) fn routes(screen: &mut Screen, report: &Report) {
    if report.routes.is_empty() {
        return;
    }
    let all = grouped(report.routes.len() as u64);
    let shown = if report.routes.len() > ROUTES {
        format!(" (the {ROUTES} busiest of {all})")
    } else {
        String::new()
    };
    screen.section(format_args!("Routes{shown}"));
    let titles = ["route", "requests", "", "denied", "clients", "4xx", "5xx", "in one minute"];
    let mut table = Table::new(titles).denials([3]).spare([7, 2]);
    for route in report.routes.iter().take(ROUTES) {
        table.row([
            title(route),
            grouped(route.requests),
            percent(route.requests, report.requests),
            if report.is_overview() { String::new() } else { grouped(route.denied) },
            about(route.one_client_in).to_owned() + &grouped(route.clients),
            of_class(route, "4xx"),
            of_class(route, "5xx"),
            peak(route.busiest_minute.as_ref()),
        ]);
    }
    screen.table(&table);
    suggestions(screen, report);
    clients(screen, report);
}

/// `GET /users/{id}`.
pub(crate) fn title(route: &RouteReport) -> String {
    match &route.method {
        Some(method) => format!("{method} {}", route.route),
        None => route.route.clone(),
    }
}

fn of_class(route: &RouteReport, class: &str) -> String {
    let of_class = route.statuses.iter().find(|of_class| of_class.class == class);
    of_class.map_or_else(String::new, |of_class| percent(of_class.requests, route.requests))
}

fn peak(peak: Option<&Peak>) -> String {
    peak.map_or_else(String::new, |peak| grouped(peak.requests))
}

fn suggestions(screen: &mut Screen, report: &Report) {
    if report.routes.iter().all(|route| route.suggested.is_none()) {
        return;
    }
    screen.section("Limits for the busiest routes");
    screen.line(
        2,
        "Each is found as by `suggest`, in about the first 70 % of its requests' time: it denies at most 1 client in so many, \
         with a confidence of 95 %. Beside it is what it would have denied in this log.",
    );
    let titles = ["route", "limit", "1 in", "requests", "", "clients", ""];
    let mut table = Table::new(titles).denials([3, 4, 5, 6]);
    for route in &report.routes {
        let Some(suggested) = &route.suggested else { continue };
        table.row([
            title(route),
            format!("{}/{}", suggested.limit, suggested.window),
            grouped((1.0 / suggested.budget).round() as u64),
            grouped(suggested.denied),
            percent(suggested.denied, route.requests),
            grouped(suggested.denied_clients),
            percent(suggested.denied_clients, route.clients),
        ]);
        if let Some(set_by) = &suggested.set_by {
            table.note(set_by.remark("client", &suggested.window));
        }
    }
    screen.table(&table);
}

fn clients(screen: &mut Screen, report: &Report) {
    if report.busiest_clients.is_empty() {
        return;
    }
    screen.section("Busiest clients");
    let mut table = Table::new(["client", "requests", "", "denied"]).denials([3]);
    for client in report.busiest_clients.iter().take(CLIENTS) {
        table.row([
            narrowed(&client.client, CLIENT_WIDTH),
            grouped(client.requests),
            percent(client.requests, report.requests),
            if report.is_overview() { String::new() } else { grouped(client.denied) },
        ]);
        client.user_agent.iter().for_each(|program| table.note(program.clone()));
    }
    screen.table(&table);
}
