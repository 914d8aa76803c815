//! The suggestion on a terminal.

use std::fmt;

use tollgate_policy::Printable;

use super::{Band, KindReport, SuggestedQuota, Suggestion};
use crate::output::number::{DAY, about, counted, grouped, lasting, most_in_a_window};
use crate::output::table::Table;
use crate::output::text::{WIDE, read_report};
use crate::report::Spread;
use crate::shortened::narrowed;
use crate::{percent, percentage, share_of_clients};

impl fmt::Display for Suggestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(read) = &self.read {
            read_report(f, read)?;
        }
        let (first, last) = (self.first.as_deref().unwrap_or("-"), self.last.as_deref().unwrap_or("-"));
        writeln!(
            f,
            "{} of {}{} by {}, from {first} to {last}: {}",
            counted(self.requests, "request"),
            about(self.one_client_in),
            counted(self.clients, self.budget_per.words()),
            Printable(&self.key),
            lasting(self.days * DAY)
        )?;
        quota(f, self, &self.quota)?;
        if let Some(companion) = &self.companion {
            if self.is_limit_idle {
                writeln!(
                    f,
                    "  It would never deny anything, because the limit for {} is lower; the policy leaves it out.",
                    companion.window
                )?;
            }
            quota(f, self, companion)?;
            if self.is_companion_idle {
                writeln!(
                    f,
                    "  It would never deny anything, because the limit for {} is just as low; the policy leaves it out.",
                    self.quota.window
                )?;
            }
        }
        self.kinds(f)?;
        self.greatest(f)?;
        writeln!(f, "\nCaveats")?;
        self.notes.iter().try_for_each(|note| writeln!(f, "  - {}", Printable(note)))?;
        match self.policy() {
            Some(policy) => write!(f, "\nA policy that tries this out without denying anything:\n\n{policy}"),
            None => Ok(()),
        }
    }
}

fn quota(f: &mut fmt::Formatter<'_>, suggestion: &Suggestion, quota: &SuggestedQuota) -> fmt::Result {
    let SuggestedQuota { window, fitted_clients, clients_needed, .. } = quota;
    let client = suggestion.budget_per.words();
    match quota.limit.zip(quota.bound).zip(quota.proven_budget) {
        Some(((limit, bound), proven)) => {
            writeln!(f, "\nLimit {}/{window}", grouped(limit))?;
            if let Some(less) = less_than_asked(suggestion, quota) {
                writeln!(f, "  {less}")?;
                more_clients(f, suggestion, quota)?;
            }
            if let Some(held_out) = quota.held_out {
                writeln!(
                    f,
                    "  on the rest of the period: denies {} of {}{} ({}), and {} of {} ({})",
                    grouped(held_out.denied_clients),
                    about(suggestion.one_client_in),
                    counted(held_out.clients, client),
                    percent(held_out.denied_clients, held_out.clients),
                    grouped(held_out.denied),
                    counted(held_out.requests, "request"),
                    percent(held_out.denied, held_out.requests)
                )?;
            }
            write!(
                f,
                "  found on about the first 70 %, until {}:\n  with a confidence of 95 %, at most {} of {client}s \
                 request more than {} in one window ({})",
                quota.fitted_until.as_deref().unwrap_or_default(),
                share_of_clients(proven),
                grouped(bound),
                counted(*fitted_clients, client)
            )?;
            if limit > bound {
                write!(f, ";\n  rounded up from {}", grouped(bound))?;
            }
            writeln!(f)?;
            if let Some(Band { low, high }) = quota.band {
                writeln!(
                    f,
                    "  without one of the days, the bound would be {} to {}",
                    grouped(low),
                    grouped(high)
                )?;
            }
        }
        None if quota.fitted_until.is_none() => {
            writeln!(f, "\nNo limit for {window}")?;
            match suggestion.requests {
                0 if suggestion.matching.is_some() => {
                    writeln!(f, "  No request meets the conditions of --match.")?
                }
                0 => writeln!(f, "  No request was counted.")?,
                _ => writeln!(f, "  The period is too short: 30 % of it is held out to try a limit on.")?,
            }
        }
        None => {
            writeln!(f, "\nNo limit for {window}")?;
            writeln!(
                f,
                "  About the first 70 % of the period has only {}, too few to prove anything: 5 prove that at most 1 in 2 is \
                 denied, and {} that at most {} are.",
                counted(*fitted_clients, client),
                grouped(*clients_needed),
                percentage(suggestion.budget)
            )?;
            more_clients(f, suggestion, quota)?;
        }
    }
    if let Some(most) = quota.most {
        writeln!(f, "  {}", most_in_a_window(most))?;
    }
    Ok(())
}

/// Says what a limit is proven for, if that is less than what was asked for.
pub(super) fn less_than_asked(suggestion: &Suggestion, quota: &SuggestedQuota) -> Option<String> {
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
fn more_clients(f: &mut fmt::Formatter<'_>, suggestion: &Suggestion, quota: &SuggestedQuota) -> fmt::Result {
    let client = suggestion.budget_per.words();
    let max_clients = quota.max_clients.map(|max_clients| format!("--max-clients {max_clients}"));
    match (quota.more_days, max_clients) {
        (Some(days), max_clients) => {
            let with = max_clients.map_or(String::new(), |flag| format!(", with {flag}"));
            let days = counted(days, "day");
            writeln!(f, "  If new {client}s keep coming at this rate, {days} more would be enough{with}.")
        }
        (None, Some(flag)) => {
            writeln!(f, "  With {flag}, enough of them are followed, if the log has so many.")
        }
        (None, None) => Ok(()),
    }
}

impl Suggestion {
    fn kinds(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let client = self.budget_per.words();
        writeln!(
            f,
            "\nKinds of {client}s, with the most that each {client} requests in one window; all are counted"
        )?;
        let clients = format!("{client}s");
        let titles =
            ["kind", &clients, "requests", "above the limit", "half at most", "99 % at most", "all at most"];
        let mut table = Table::new(titles);
        let mut row = |name: &str, clients, requests, above: Option<u64>, most: Option<Spread>| {
            let above = above.map_or("-".to_owned(), grouped);
            let most = most.map(|most| [most.p50, most.p99, most.max].map(grouped));
            let [p50, p99, max] = most.unwrap_or_default();
            table.row([name.to_owned(), grouped(clients), grouped(requests), above, p50, p99, max]);
        };
        for KindReport { kind, clients, requests, above_limit, most } in &self.kinds {
            row(kind.words(), *clients, *requests, *above_limit, *most);
        }
        let requests = self.kinds.iter().map(|kind| kind.requests).sum();
        let above = self.kinds.iter().map(|kind| kind.above_limit).sum();
        row("together", self.clients, requests, above, self.quota.most);
        write!(f, "{table}")?;
        if let Some(without) =
            self.bound_without_suspects.filter(|without| Some(*without) != self.quota.bound)
        {
            writeln!(
                f,
                "  Without robots and clients with mostly errors, the bound would be {} instead of {}. --match can \
                 exclude robots by user_agent.",
                grouped(without),
                self.quota.bound.map_or_else(|| "none".to_owned(), grouped)
            )?;
        }
        Ok(())
    }

    fn greatest(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.greatest.is_empty() {
            return Ok(());
        }
        writeln!(f, "\nClients that request the most in {}", self.quota.window)?;
        let mut table = Table::new(["client", "kind", "requests", "most at once"]).left(2);
        for client in &self.greatest {
            table.row([
                Printable(narrowed(&client.client, WIDE)).to_string(),
                client.kind.words().to_owned(),
                grouped(client.requests),
                grouped(client.most),
            ]);
        }
        write!(f, "{table}")?;
        if let Some(outliers) = self.outliers {
            writeln!(
                f,
                "  Far above all others: {}, with at least {} at once; others have at most {}. Look at them before you enforce \
                 a limit.",
                counted(outliers.clients, "client"),
                grouped(outliers.from),
                grouped(outliers.others_up_to)
            )?;
        }
        Ok(())
    }
}
