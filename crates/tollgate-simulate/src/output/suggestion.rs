//! The suggestion on a terminal.

use std::fmt;

use super::number::{DAY, about, counted, grouped, lasting, moment, most_in_one};
use super::read::read_section;
use super::screen::Screen;
use super::section::{Cell, Column, Table};
use super::style::{Paint, Style};
use super::text_table::TextTable;
use crate::report::Quantiles;
use crate::suggest::{Band, KindReport, Per, SuggestedQuota, Suggestion};
use crate::{percent, percentage, share_of_clients};

impl Suggestion {
    /// Returns the suggestion for a terminal of 80 columns.
    #[must_use]
    pub fn text(&self, style: Style) -> String {
        let mut screen = Screen::new(style);
        screen.painted(Paint::Bold, 0, answer(self));
        if let Some(set_by) = &self.quota.set_by {
            screen.painted(Paint::Bold, 0, set_by.sentence(self.budget_per.words(), &self.quota.window));
        }
        screen.line(
            0,
            format_args!(
                "It is based on {} of {}{} by {}, in {}.",
                counted(self.requests, "request"),
                about(self.one_client_in),
                counted(self.clients, self.budget_per.words()),
                self.key,
                lasting(self.days * DAY)
            ),
        );
        if let Some(less) = less_than_asked(self) {
            screen.line(0, less);
            more_clients(&mut screen, self, &self.quota, 0);
        }
        quota(&mut screen, self, &self.quota);
        if let Some(companion) = &self.companion {
            if self.is_limit_idle {
                screen.line(
                    2,
                    format_args!(
                        "It would never deny anything, because the limit for {} is lower; the policy leaves it out.",
                        companion.window
                    ),
                );
            }
            quota(&mut screen, self, companion);
            if self.is_companion_idle {
                screen.line(
                    2,
                    format_args!(
                        "It would never deny anything, because the limit for {} is just as low; the policy leaves it out.",
                        self.quota.window
                    ),
                );
            }
        }
        self.kinds(&mut screen);
        self.greatest(&mut screen);
        if let Some(policy) = self.policy() {
            screen.section("A policy that tries this out without denying anything");
            screen.gap();
            screen.verbatim(&policy);
        }
        screen.section("Caveats");
        self.notes.iter().for_each(|note| screen.line(2, format_args!("- {note}")));
        screen.section("What was read");
        if let Some(read) = &self.read {
            read_section(&mut screen, read);
        }
        if let Some((first, last)) = self.first.as_ref().zip(self.last.as_ref()) {
            screen.painted(
                Paint::Dim,
                2,
                format_args!("From {} to {} ({})", moment(first), moment(last), self.zone),
            );
        }
        screen.finish()
    }
}

/// Writes the text without colour.
impl fmt::Display for Suggestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(Style::Plain))
    }
}

fn answer(suggestion: &Suggestion) -> String {
    let SuggestedQuota { limit, window, proven_budget, .. } = &suggestion.quota;
    let client = suggestion.budget_per.words();
    match limit.zip(*proven_budget) {
        Some((limit, proven)) => format!(
            "A limit of {}/{window} denies at most {} of {client}s with 95 % confidence.",
            grouped(limit),
            share_of_clients(proven)
        ),
        None => format!("No limit for {window} can be suggested from this log."),
    }
}

fn quota(screen: &mut Screen, suggestion: &Suggestion, quota: &SuggestedQuota) {
    match quota.limit.zip(quota.bound).zip(quota.proven_budget) {
        Some(((limit, bound), proven)) => {
            screen.section(format_args!("Limit {}/{}", grouped(limit), quota.window));
            proof(screen, suggestion, quota, limit, bound, proven);
        }
        None => {
            screen.section(format_args!("No limit for {}", quota.window));
            no_limit(screen, suggestion, quota);
        }
    }
    if let Some(most) = quota.most {
        screen.line(2, most_in_one("window", most));
    }
}

/// How a limit was found, and what it does on the rest of the period.
fn proof(
    screen: &mut Screen,
    suggestion: &Suggestion,
    quota: &SuggestedQuota,
    limit: u64,
    bound: u64,
    proven: f64,
) {
    let client = suggestion.budget_per.words();
    if let Some(held_out) = quota.held_out {
        screen.line(
            2,
            format_args!(
                "on the rest of the period: denies {} of {}{} ({}), and {} of {} ({})",
                grouped(held_out.denied_clients),
                about(suggestion.one_client_in),
                counted(held_out.clients, client),
                percent(held_out.denied_clients, held_out.clients),
                grouped(held_out.denied),
                counted(held_out.requests, "request"),
                percent(held_out.denied, held_out.requests)
            ),
        );
    }
    let rounded = if limit > bound { format!("; rounded up from {}", grouped(bound)) } else { String::new() };
    screen.line(
        2,
        format_args!(
            "found on about the first 70 %, until {}: with 95 % confidence, at most {} of {client}s request more \
             than {} in one window ({}){rounded}",
            moment(quota.fitted_until.as_deref().unwrap_or_default()),
            share_of_clients(proven),
            grouped(bound),
            counted(quota.fitted_clients, client)
        ),
    );
    if let Some(set_by) = &quota.set_by {
        screen.line(2, set_by.remark(client, &quota.window));
    }
    if let Some(Band { low, high }) = quota.band {
        let (low, high) = (grouped(low), grouped(high));
        screen.line(2, format_args!("without one of the days, the bound would be {low} to {high}"));
    }
}

/// Why there is no limit.
fn no_limit(screen: &mut Screen, suggestion: &Suggestion, quota: &SuggestedQuota) {
    if quota.fitted_until.is_none() {
        let why = match suggestion.requests {
            0 if suggestion.matching.is_some() => "No request meets the conditions of --match.",
            0 => "No request was counted.",
            _ => "The period is too short: 30 % of it is held out to try a limit on.",
        };
        screen.line(2, why);
        return;
    }
    screen.line(
        2,
        format_args!(
            "About the first 70 % of the period has only {}, too few to prove anything: 5 prove that at most 1 in 2 is \
             denied, and {} that at most {} are.",
            counted(quota.fitted_clients, suggestion.budget_per.words()),
            grouped(quota.clients_needed),
            percentage(suggestion.budget)
        ),
    );
    more_clients(screen, suggestion, quota, 2);
}

/// Says what a limit is proven for, if that is less than what was asked for.
pub(crate) fn less_than_asked(suggestion: &Suggestion) -> Option<String> {
    let quota = &suggestion.quota;
    let proven = quota.proven_budget.filter(|proven| *proven != suggestion.budget)?;
    let client = suggestion.budget_per.words();
    Some(format!(
        "This log can prove a limit for 1 {client} in {:.0}, not for {}: that needs {}, and about the first 70 % of the period \
         has {}.",
        1.0 / proven,
        percentage(suggestion.budget),
        counted(quota.clients_needed, client),
        grouped(quota.fitted_clients)
    ))
}

/// Says how there would be enough clients for the budget that was asked for.
fn more_clients(screen: &mut Screen, suggestion: &Suggestion, quota: &SuggestedQuota, indent: usize) {
    let client = suggestion.budget_per.words();
    let max_clients = quota.max_clients.map(|max_clients| format!("--max-clients {max_clients}"));
    match (quota.more_days, max_clients) {
        (Some(days), max_clients) => {
            let with = max_clients.map_or(String::new(), |flag| format!(", with {flag}"));
            let days = counted(days, "day");
            screen.line(
                indent,
                format_args!("If new {client}s keep coming at this rate, {days} more would be enough{with}."),
            );
        }
        (None, Some(flag)) => {
            screen.line(
                indent,
                format_args!("With {flag}, enough of them are followed, if the log has that many."),
            );
        }
        (None, None) => {}
    }
}

impl Suggestion {
    fn kinds(&self, screen: &mut Screen) {
        let client = self.budget_per.words();
        screen.section(format_args!(
            "Kinds of {client}s, with the most that each {client} requests in one window; all are counted"
        ));
        let clients = if self.budget_per == Per::Client { "clients" } else { "client-days" };
        let titles = [clients, "requests", "above the limit", "half at most", "99 % at most", "all at most"];
        let columns = [Column::name("kind")].into_iter().chain(titles.map(Column::figure));
        let mut table = Table::new("", columns.collect());
        let mut row = |name: &str, clients, requests, above: Option<u64>, most: Option<Quantiles>| {
            let mut cells = vec![Cell::Words(name.to_owned()), Cell::Count(clients), Cell::Count(requests)];
            cells.push(above.map_or(Cell::Words("-".to_owned()), Cell::Count));
            cells.extend(most.into_iter().flat_map(|most| [most.p50, most.p99, most.max].map(Cell::Count)));
            table.row(cells);
        };
        for KindReport { kind, clients, requests, above_limit, most } in &self.kinds {
            let name = if *clients == 1 { kind.word() } else { kind.words() };
            row(name, *clients, *requests, *above_limit, *most);
        }
        let requests = self.kinds.iter().map(|kind| kind.requests).sum();
        let above = self.kinds.iter().map(|kind| kind.above_limit).sum();
        row("together", self.clients, requests, above, self.quota.most);
        screen.table(&TextTable::of(&table, 2));
        if let Some(without) =
            self.bound_without_suspects.filter(|without| Some(*without) != self.quota.bound)
            && self.quota.set_by.is_none()
        {
            screen.line(2, format_args!("Without robots and clients with mostly errors, the bound would be {} instead of {}. --match can \
                 exclude robots by user_agent.",
                grouped(without),
                self.quota.bound.map_or_else(|| "none".to_owned(), grouped)));
        }
    }

    fn greatest(&self, screen: &mut Screen) {
        if self.greatest.is_empty() {
            return;
        }
        screen.section(format_args!("Clients that request the most in {}", self.quota.window));
        let columns = ["client", "kind"].map(Column::name).into_iter();
        let columns = columns.chain(["requests", "most at once"].map(Column::figure)).collect();
        let mut table = Table::new("", columns);
        for client in &self.greatest {
            table.row(vec![
                Cell::Client(client.client.clone(), None),
                Cell::Words(client.kind.word().to_owned()),
                Cell::Count(client.requests),
                Cell::Count(client.most),
            ]);
        }
        screen.table(&TextTable::of(&table, 2));
        if let Some(outliers) = self.outliers {
            screen.line(
                2,
                format_args!(
                    "Far above all others: {}, with at least {} at once; others have at most {}. Look at them before you \
                     enforce a limit.",
                    counted(outliers.clients, "client"),
                    grouped(outliers.from),
                    grouped(outliers.others_up_to)
                ),
            );
        }
    }
}
