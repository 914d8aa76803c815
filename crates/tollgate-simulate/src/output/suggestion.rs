//! The suggestion on a terminal.

use std::fmt;

use super::number::{DAY, about, counted, grouped, lasting, moment, most_in_a_window};
use super::read::read_section;
use super::screen::Screen;
use super::style::{Paint, Style};
use super::table::Table;
use super::width::CLIENT_WIDTH;
use crate::report::Quantiles;
use crate::shortened::narrowed;
use crate::suggest::{Band, KindReport, SuggestedQuota, Suggestion};
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
            "A limit of {}/{window} denies at most {} of {client}s, with a confidence of 95 %.",
            grouped(limit),
            share_of_clients(proven)
        ),
        None => format!("No limit for {window} can be suggested from this log."),
    }
}

fn quota(screen: &mut Screen, suggestion: &Suggestion, quota: &SuggestedQuota) {
    let SuggestedQuota { window, fitted_clients, clients_needed, .. } = quota;
    let client = suggestion.budget_per.words();
    match quota.limit.zip(quota.bound).zip(quota.proven_budget) {
        Some(((limit, bound), proven)) => {
            screen.section(format_args!("Limit {}/{window}", grouped(limit)));
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
            let rounded =
                if limit > bound { format!("; rounded up from {}", grouped(bound)) } else { String::new() };
            screen.line(
                2,
                format_args!(
                    "found on about the first 70 %, until {}: with a confidence of 95 %, at most {} of {client}s request \
                     more than {} in one window ({}){rounded}",
                    moment(quota.fitted_until.as_deref().unwrap_or_default()),
                    share_of_clients(proven),
                    grouped(bound),
                    counted(*fitted_clients, client)
                ),
            );
            if let Some(set_by) = &quota.set_by {
                screen.line(2, set_by.remark(client, window));
            }
            if let Some(Band { low, high }) = quota.band {
                screen.line(
                    2,
                    format_args!(
                        "without one of the days, the bound would be {} to {}",
                        grouped(low),
                        grouped(high)
                    ),
                );
            }
        }
        None if quota.fitted_until.is_none() => {
            screen.section(format_args!("No limit for {window}"));
            screen.line(
                2,
                match suggestion.requests {
                    0 if suggestion.matching.is_some() => "No request meets the conditions of --match.",
                    0 => "No request was counted.",
                    _ => "The period is too short: 30 % of it is held out to try a limit on.",
                },
            );
        }
        None => {
            screen.section(format_args!("No limit for {window}"));
            screen.line(2, format_args!("About the first 70 % of the period has only {}, too few to prove anything: 5 prove that at most 1 in 2 is \
                 denied, and {} that at most {} are.",
                counted(*fitted_clients, client),
                grouped(*clients_needed),
                percentage(suggestion.budget)));
            more_clients(screen, suggestion, quota, 2);
        }
    }
    if let Some(most) = quota.most {
        screen.line(2, most_in_a_window(most));
    }
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
                format_args!("With {flag}, enough of them are followed, if the log has so many."),
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
        let clients = format!("{client}s");
        let titles =
            ["kind", &clients, "requests", "above the limit", "half at most", "99 % at most", "all at most"];
        let mut table = Table::new(titles);
        let mut row = |name: &str, clients, requests, above: Option<u64>, most: Option<Quantiles>| {
            let above = above.map_or("-".to_owned(), grouped);
            let most = most.map(|most| [most.p50, most.p99, most.max].map(grouped));
            let [p50, p99, max] = most.unwrap_or_default();
            table.row([name.to_owned(), grouped(clients), grouped(requests), above, p50, p99, max]);
        };
        for KindReport { kind, clients, requests, above_limit, most } in &self.kinds {
            let name = if *clients == 1 { kind.word() } else { kind.words() };
            row(name, *clients, *requests, *above_limit, *most);
        }
        let requests = self.kinds.iter().map(|kind| kind.requests).sum();
        let above = self.kinds.iter().map(|kind| kind.above_limit).sum();
        row("together", self.clients, requests, above, self.quota.most);
        screen.table(&table);
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
        let mut table = Table::new(["client", "kind", "requests", "most at once"]).left(2);
        for client in &self.greatest {
            table.row([
                narrowed(&client.client, CLIENT_WIDTH),
                client.kind.word().to_owned(),
                grouped(client.requests),
                grouped(client.most),
            ]);
        }
        screen.table(&table);
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
