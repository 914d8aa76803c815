//! A curve as a table with bars.

use tollgate::QuotaKind;

use super::number::grouped;
use super::section::{Cell, Column, Table};
use super::share::share_of_clients;
use crate::curve::{Basis, Curve, Point};
use crate::report::{PolicyReport, QuotaReport};

/// Returns a table of about so many other limits.
pub(super) fn table(policy: &PolicyReport, quota: &QuotaReport, most: usize) -> Table {
    let curve = &quota.curve;
    let columns = vec![
        Column::figure("limit"),
        Column::part("requests", "share of requests").long("denied").denials().without_bar(),
        Column::part("clients", "share of clients").long("denied clients").denials().without_bar(),
        Column::figure("in total").long("total denied").denials(),
        Column::figure("total denied clients").of_page(),
        Column::words("").of_terminal().spare(0),
        Column::words("").long("mark"),
    ];
    let mut table = Table::new(&format!("Other limits than {} {}", policy.title(), quota.title()), columns);
    let shown = shown(curve, most);
    let greatest = shown.iter().map(|point| point.denied).max().unwrap_or(0);
    // Otherwise the total is what this limit denies.
    let has_others = shown.iter().any(|point| point.total_denied.is_some_and(|total| total != point.denied));
    for point in shown {
        let Point { limit, denied, denied_clients, total_denied, total_denied_clients } = *point;
        table.row(vec![
            Cell::Count(limit),
            Cell::Part(denied, policy.requests),
            Cell::Part(denied_clients, policy.clients),
            total_denied.filter(|_| has_others).map_or(Cell::Empty, Cell::Count),
            total_denied_clients.map_or(Cell::Empty, Cell::Count),
            Cell::Bar(denied, greatest),
            Cell::Words(marks(curve, limit).join(", ")),
        ]);
    }
    table
}

/// Says where the points of a curve are from.
pub(super) fn basis(policy: &PolicyReport, curve: &Curve) -> String {
    match curve.basis {
        Basis::Calculated if policy.one_client_in > 1 => {
            format!("estimated from one client in {}", policy.one_client_in)
        }
        Basis::Calculated => "exact".to_owned(),
        Basis::Tried => "replayed, with all other quotas unchanged".to_owned(),
    }
}

/// Says what other limits of a bucket leave unchanged, by the example of the last one.
pub(super) fn burst(quota: &QuotaReport) -> Option<String> {
    let limit = quota.curve.points.last()?.limit;
    let (_, rest) = quota.quota.split_once('/').filter(|_| quota.kind == QuotaKind::Burst)?;
    let row = grouped(limit);
    Some(match rest.split_once("~burst:") {
        Some((_, burst)) => format!("each limit has a burst of {burst}: {row} is {limit}/{rest}"),
        None => format!("each limit is its own burst: {row} is {limit}/{rest}, a burst of {row}"),
    })
}

/// Returns the marks of a limit on a curve.
pub(crate) fn marks(curve: &Curve, limit: u64) -> Vec<&'static str> {
    let marks = [(Some(curve.replayed), "replayed"), (curve.suggested, "suggested")];
    marks.into_iter().filter(|(mark, _)| *mark == Some(limit)).map(|(_, name)| name).collect()
}

/// Says what the marks of a curve mean, if it has any.
pub(crate) fn legend(curve: &Curve) -> Option<String> {
    let said: Vec<String> =
        replayed([curve]).map(str::to_owned).into_iter().chain(suggested(curve)).collect();
    (!said.is_empty()).then(|| said.join("; "))
}

/// Says what the suggested limit of a curve means. This differs between curves.
pub(super) fn suggested(curve: &Curve) -> Option<String> {
    let share = share_of_clients(curve.suggested_budget.filter(|_| curve.suggested.is_some())?);
    let set_by =
        curve.set_by.as_ref().map_or_else(String::new, |set_by| format!("; {}", set_by.remark("client", "")));
    Some(format!(
        "suggested, found in the whole log and rounded up, denies at most {share} of clients with 95 % confidence{set_by}"
    ))
}

/// Says what the mark of the replayed limit means, if a curve has it.
pub(super) fn replayed<'a>(curves: impl IntoIterator<Item = &'a Curve>) -> Option<&'static str> {
    let is_marked = curves.into_iter().any(|curve| curve.at(curve.replayed).is_some());
    is_marked.then_some("replayed is the limit in the policies")
}

/// The points to show: those with a mark, and others at about equal distances.
fn shown(curve: &Curve, most: usize) -> Vec<&Point> {
    let points = &curve.points;
    let step = points.len().div_ceil(most).max(1);
    let is_last = |place: usize| place + 1 == points.len();
    let shown = points.iter().enumerate().filter(|(place, point)| {
        place.is_multiple_of(step) || is_last(*place) || !marks(curve, point.limit).is_empty()
    });
    shown.map(|(_, point)| point).collect()
}
