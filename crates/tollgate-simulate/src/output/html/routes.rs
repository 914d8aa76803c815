//! What is asked for: routes, with a limit for each of the busiest.

use super::cell::Cell;
use super::name::HtmlName;
use super::table::HtmlTable;
use crate::output::number::{about, grouped};
use crate::report::{Report, RouteReport, RouteSuggestion};
use crate::{output, share_of_clients};

/// Bytes that the rows of either table may take.
const MAX_BYTES: usize = 40_000;

pub(crate) fn section(report: &Report) -> String {
    if report.routes.is_empty() {
        return String::new();
    }
    suggestions(report) + &routes(report)
}

fn routes(report: &Report) -> String {
    let mut titles = vec!["route", "requests", "share of all"];
    let is_limited = !report.is_overview();
    titles.extend(is_limited.then_some(["denied", "share denied"]).into_iter().flatten());
    titles.extend(["clients", "4xx", "5xx", "busiest second", "busiest minute"]);
    let mut table = HtmlTable::new("All routes", &titles, 1)
        .about("Paths of one form are one route. The busiest second and minute: the most requests in one.")
        .of("routes", MAX_BYTES);
    for route in &report.routes {
        let clients = format!("{}{}", about(route.one_client_in), grouped(route.clients));
        let busiest = [&route.busiest_second, &route.busiest_minute];
        let [second, minute] =
            busiest.map(|peak| peak.as_ref().map(|peak| Cell::number(peak.requests)).unwrap_or_default());
        let mut cells =
            vec![title(route), Cell::number(route.requests), Cell::part(route.requests, report.requests)];
        let denied = [Cell::number(route.denied), Cell::denied(route.denied, route.requests)];
        cells.extend(is_limited.then_some(denied).into_iter().flatten());
        cells.extend([Cell::text(clients), of_class(route, "4xx"), of_class(route, "5xx"), second, minute]);
        table.row(&cells);
    }
    table.html()
}

/// `GET /users/{id}`.
fn title(route: &RouteReport) -> Cell {
    match &route.method {
        Some(method) => Cell::name(&format!("{method} {}", route.route)),
        None => Cell::name(&route.route),
    }
}

fn of_class(route: &RouteReport, class: &str) -> Cell {
    let requests = route.statuses.iter().find(|of_class| of_class.class == class);
    Cell::part(requests.map_or(0, |of_class| of_class.requests), route.requests)
}

/// The limits that `suggest` would give.
fn suggestions(report: &Report) -> String {
    if report.routes.iter().all(|route| route.suggested.is_none()) {
        return String::new();
    }
    let titles = [
        "route",
        "limit",
        "denies at most",
        "would have denied",
        "share of requests",
        "denied clients",
        "share of clients",
    ];
    let mut table = HtmlTable::new("Limits for the busiest routes", &titles, 1)
        .about(
            "With 95 % confidence, each limit denies at most this share of clients. Beside it is what it would have denied in \
             this log.",
        )
        .of("routes", MAX_BYTES);
    for route in &report.routes {
        let Some(RouteSuggestion { limit, window, budget, denied, denied_clients, .. }) = &route.suggested
        else {
            continue;
        };
        table.row(&[
            title(route),
            Cell::text(format!("{limit}/{window}")),
            Cell::text(share_of_clients(*budget)),
            Cell::number(*denied),
            Cell::denied(*denied, route.requests),
            Cell::number(*denied_clients),
            Cell::denied(*denied_clients, route.clients),
        ]);
    }
    let remarks = report.routes.iter().filter_map(|route| {
        let RouteSuggestion { limit, window, set_by, .. } = route.suggested.as_ref()?;
        let (route, remark) = (output::routes::title(route), set_by.as_ref()?.remark("client", window));
        Some(format!("<p class=\"soft\">{}: {limit}/{window} is {remark}.</p>\n", HtmlName(&route)))
    });
    table.html() + &remarks.collect::<String>()
}
