//! A curve as a table with bars.

use std::fmt;

use super::number::grouped;
use super::table::Table;
use crate::report::PolicyReport;
use crate::{Basis, Curve, Point, percent, share_of_clients};

/// Limits of a curve that are shown.
const SHOWN: usize = 12;

/// The characters of all marks together.
const MARKS: usize = "today, suggested, knee".len();

pub(super) fn curve(f: &mut fmt::Formatter<'_>, curve: &Curve, policy: &PolicyReport) -> fmt::Result {
    if curve.points.len() < 2 {
        return Ok(());
    }
    let (requests, clients) = (policy.requests, policy.clients);
    let basis = match curve.basis {
        Basis::Calculated if policy.one_client_in > 1 => {
            format!("estimated from one client in {}", policy.one_client_in)
        }
        Basis::Calculated => "exact".to_owned(),
        Basis::Tried => "replayed by the engine, with all other quotas unchanged".to_owned(),
    };
    writeln!(f, "  what other limits would deny ({basis}):")?;
    let mut table = Table::new(["limit", "requests", "", "clients", "", "", ""]);
    let shown = shown(curve);
    let most = shown.iter().map(|point| point.denied).max().unwrap_or(0);
    for point in shown {
        let Point { limit, denied, denied_clients, .. } = *point;
        table.row([
            grouped(limit),
            grouped(denied),
            percent(denied, requests),
            grouped(denied_clients),
            percent(denied_clients, clients),
            format!("{:<20}", bar(denied, most)),
            format!("{:<MARKS$}", marks(curve, limit).join(", ")),
        ]);
    }
    let text = table.left(0).to_string();
    text.lines().try_for_each(|line| writeln!(f, "  {line}"))?;
    match legend(curve) {
        Some(legend) => writeln!(f, "    {legend}"),
        None => Ok(()),
    }
}

/// Returns the marks of a limit on a curve.
pub(crate) fn marks(curve: &Curve, limit: u64) -> Vec<&'static str> {
    let marks = [(Some(curve.today), "today"), (curve.suggested, "suggested"), (curve.knee, "knee")];
    marks.into_iter().filter(|(mark, _)| *mark == Some(limit)).map(|(_, name)| name).collect()
}

/// Says what the marks of a curve mean, if it has any that do not say it themselves.
pub(crate) fn legend(curve: &Curve) -> Option<String> {
    let today = curve.at(curve.today).map(|_| "today is the limit in the replayed policies");
    let knee = curve.knee.map(|_| "knee is where the curve bends most; it is not a recommendation");
    let suggested = curve.suggested_budget.filter(|_| curve.suggested.is_some()).map(|budget| {
        format!(
            "suggested denies at most {} of clients, with a confidence of 95 %, and is rounded up",
            share_of_clients(budget)
        )
    });
    let said: Vec<&str> = today.into_iter().chain(suggested.as_deref()).chain(knee).collect();
    (!said.is_empty()).then(|| said.join("; "))
}

/// The points to show: those with a mark, and others at about equal distances.
fn shown(curve: &Curve) -> Vec<&Point> {
    let points = &curve.points;
    let step = points.len().div_ceil(SHOWN).max(1);
    let is_last = |place: usize| place + 1 == points.len();
    let shown = points.iter().enumerate().filter(|(place, point)| {
        place.is_multiple_of(step) || is_last(*place) || !marks(curve, point.limit).is_empty()
    });
    shown.map(|(_, point)| point).collect()
}

/// A bar of up to 20 characters, in eighths of one.
fn bar(part: u64, all: u64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let length = if all == 0 { 0 } else { (u128::from(part) * 160).div_ceil(u128::from(all)) as usize };
    format!("{}{}", "█".repeat(length / 8), EIGHTHS.get(length % 8).copied().unwrap_or_default())
}
