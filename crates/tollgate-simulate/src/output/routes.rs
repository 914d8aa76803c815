//! Routes and the busiest clients, in 80 columns.

use std::fmt;

use tollgate_policy::Printable;

use super::number::{about, counted, grouped};
use super::table::Table;
use crate::percent;
use crate::report::{Report, RouteReport};
use crate::shortened::narrowed;

/// Routes that are shown.
const ROUTES: usize = 20;

/// Clients that are shown.
const CLIENTS: usize = 10;

/// Characters of a route, a client or a program, besides the figures in the same row.
const WIDE: usize = 36;

pub(super) fn routes(f: &mut fmt::Formatter<'_>, report: &Report) -> fmt::Result {
    if report.routes.is_empty() {
        return Ok(());
    }
    let all = counted(report.routes.len() as u64, "route");
    let shown = if report.routes.len() > ROUTES { format!(", the {ROUTES} busiest") } else { String::new() };
    writeln!(f, "\nRoutes ({all}{shown})")?;
    let mut table = Table::new(["route", "requests", "", "denied", "clients", "4xx", "5xx"]);
    for route in report.routes.iter().take(ROUTES) {
        table.row([
            title(route),
            grouped(route.requests),
            percent(route.requests, report.requests),
            grouped(route.denied),
            about(route.one_client_in).to_owned() + &grouped(route.clients),
            of_class(route, "4xx"),
            of_class(route, "5xx"),
        ]);
    }
    write!(f, "{table}")?;
    suggestions(f, report)?;
    clients(f, report)
}

/// `GET /users/{id}`.
fn title(route: &RouteReport) -> String {
    let title = match &route.method {
        Some(method) => format!("{method} {}", route.route),
        None => route.route.clone(),
    };
    let title = Printable(&title).to_string();
    // The end of a path tells more than its begin.
    match title.char_indices().rev().nth(WIDE - 3) {
        Some((start, _)) if start > 0 => format!("...{}", title.get(start..).unwrap_or_default()),
        _ => title,
    }
}

fn of_class(route: &RouteReport, class: &str) -> String {
    let of_class = route.statuses.iter().find(|of_class| of_class.class == class);
    of_class.map_or_else(String::new, |of_class| percent(of_class.requests, route.requests))
}

fn suggestions(f: &mut fmt::Formatter<'_>, report: &Report) -> fmt::Result {
    if report.routes.iter().all(|route| route.suggested.is_none()) {
        return Ok(());
    }
    writeln!(
        f,
        "\nLimits for the busiest routes, with a confidence of 95 %: each denies at most\n1 client in so many, and would have \
         denied in this log"
    )?;
    let mut table = Table::new(["route", "limit", "1 in", "requests", "", "clients", ""]);
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
    }
    write!(f, "{table}")
}

fn clients(f: &mut fmt::Formatter<'_>, report: &Report) -> fmt::Result {
    if report.busiest_clients.is_empty() {
        return Ok(());
    }
    writeln!(f, "\nBusiest clients")?;
    let mut table = Table::new(["client", "program", "requests", "", "denied"]).left(2);
    for client in report.busiest_clients.iter().take(CLIENTS) {
        let program = Printable(client.user_agent.as_deref().unwrap_or_default()).to_string();
        table.row([
            Printable(narrowed(&client.client, 24)).to_string(),
            program.chars().take(WIDE - 10).collect(),
            grouped(client.requests),
            percent(client.requests, report.requests),
            grouped(client.denied),
        ]);
    }
    write!(f, "{table}")
}
