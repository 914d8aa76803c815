//! The denials of other limits: a chart and a table for each quota.

use std::fmt::Write as _;
use std::ops::Range;

use super::chart::panel::{LimitMark, Panel, Panels};
use super::chart::{Figure, line_key};
use super::name::HtmlName;
use super::quotas;
use super::table::HtmlTable;
use crate::curve::{Basis, Curve, Point};
use crate::output::curve;
use crate::output::number::{counted, grouped};
use crate::report::{PolicyReport, QuotaReport, Report};

/// Quotas that have a chart, those that deny most first. Others are in the table of policies.
const MAX_CHARTS: usize = 40;

/// Bytes that all charts and their tables may take.
const MAX_BYTES: usize = 260_000;

/// Quotas without a chart that are named.
const MAX_FLAT: usize = 20;

/// The charts, if there are any.
pub(crate) fn section(report: &Report) -> String {
    let with_points = quotas(report)
        .enumerate()
        .filter(|(_, (_, quota))| quota.curve.points.len() > 1 && quota.requests > 0);
    let (flat, mut curved): (Vec<_>, Vec<_>) = with_points.partition(|(_, (_, quota))| is_flat(&quota.curve));
    if flat.is_empty() && curved.is_empty() {
        return String::new();
    }
    curved.sort_by_key(|(place, (_, quota))| (std::cmp::Reverse(quota.denied), *place));
    let all = curved.len();
    curved.truncate(MAX_CHARTS);
    let mut bytes = 0;
    let charts = curved.into_iter().map(|(place, (policy, quota))| (place, chart(place, policy, quota)));
    let charts = charts.take_while(|(_, chart)| {
        bytes += chart.len();
        bytes <= MAX_BYTES
    });
    let mut charts: Vec<(usize, String)> = charts.collect();
    charts.sort_by_key(|(place, _)| *place);
    let mut page = String::new();
    if !charts.is_empty() {
        page += &legend(report);
        let charts: Vec<String> = charts.iter().map(|(_, chart)| chart.clone()).collect();
        // Writing into a string does not fail.
        let _ = writeln!(page, "<div class=\"charts\">\n{}</div>", charts.concat());
    }
    if charts.len() < all {
        let (shown, all) = (grouped(charts.len() as u64), grouped(all as u64));
        let _ = writeln!(
            page,
            "<p class=\"soft\">Shown are {shown} of {all} quotas: those with the most denied requests.</p>"
        );
    }
    level(&mut page, flat.iter().map(|(_, quota)| *quota));
    page
}

/// What the marks mean.
fn legend(report: &Report) -> String {
    let mut text = "<p class=\"legend\"><b>replayed</b> is the limit in the policies.".to_owned();
    if quotas(report).any(|(_, quota)| quota.curve.suggested.is_some()) {
        text +=
            " <b>suggested</b> is found like that of <code>tollgate suggest</code>, but by the whole log.";
    }
    text + "</p>\n"
}

/// Whether no limit that is known makes a difference.
fn is_flat(curve: &Curve) -> bool {
    let denials = |point: &Point| (point.denied, point.denied_clients);
    curve.points.windows(2).all(|pair| matches!(pair, [a, b] if denials(a) == denials(b)))
}

/// Names the quotas of which a chart would be a level line.
fn level<'a>(page: &mut String, mut flat: impl Iterator<Item = (&'a PolicyReport, &'a QuotaReport)>) {
    for (policy, quota) in flat.by_ref().take(MAX_FLAT) {
        let (Some(first), Some(last)) = (quota.curve.points.first(), quota.curve.points.last()) else {
            continue;
        };
        let denied = match first.denied {
            0 => "denies nothing".to_owned(),
            _ => format!("denies {}", counted(first.denied, "request")),
        };
        let _ = writeln!(
            page,
            "<p class=\"soft\"><code>{} {}</code> {denied} with any limit from {} to {}. {}</p>",
            HtmlName(&policy.title()),
            HtmlName(&quota.title()),
            grouped(first.limit),
            grouped(last.limit),
            basis(policy, &quota.curve)
        );
    }
    match flat.count() as u64 {
        0 => {}
        left => {
            let _ =
                writeln!(page, "<p class=\"soft\">The same holds for {}.</p>", counted(left, "other quota"));
        }
    }
}

fn chart(place: usize, policy: &PolicyReport, quota: &QuotaReport) -> String {
    let curve = &quota.curve;
    let title = format!("{} {}", policy.title(), quota.title());
    let shown = shown(curve);
    let points = curve.points.get(shown.clone()).unwrap_or_default();
    let limits: Vec<u64> = points.iter().map(|point| point.limit).collect();
    let value = |value: fn(&Point) -> u64| -> Vec<u64> { points.iter().map(value).collect() };
    // Totals that are the same would hide the line.
    let totals = |total: fn(&Point) -> Option<u64>, own: fn(&Point) -> u64| -> Option<Vec<u64>> {
        let totals: Vec<u64> = points.iter().map(total).collect::<Option<_>>()?;
        points.iter().map(own).ne(totals.iter().copied()).then_some(totals)
    };
    let requests = Panel {
        unit: "denied requests",
        values: value(|point| point.denied),
        totals: totals(|point| point.total_denied, |point| point.denied),
    };
    let clients = Panel {
        unit: "clients denied at least once",
        values: value(|point| point.denied_clients),
        totals: totals(|point| point.total_denied_clients, |point| point.denied_clients),
    };
    let marks = [
        Some((curve.replayed, "replayed", "replayed")),
        curve.suggested.map(|limit| (limit, "suggested", "suggested")),
    ];
    let within = |limit: &u64| limits.first() <= Some(limit) && Some(limit) <= limits.last();
    let marks: Vec<LimitMark> = marks
        .into_iter()
        .flatten()
        .filter(|(limit, ..)| within(limit))
        .map(|(limit, name, class)| LimitMark { limit, name, class })
        .collect();
    let has_totals = requests.totals.is_some() || clients.totals.is_some();
    let says = says(&quota.quota, has_totals);
    let panels = Panels {
        id: &format!("curve{place}"),
        title: &title,
        limits: &limits,
        panels: &[requests, clients],
        marks: &marks,
        unit: &unit(&quota.quota),
        has_dots: curve.basis == Basis::Tried,
        says: &says,
        skipped: shown.start,
    };
    let table = curve::table(policy, quota, usize::MAX);
    let mut about = explained(policy, curve, &marks);
    if let Some(burst) = curve::burst(quota) {
        about += &format!(" For a bucket, {burst}.");
    }
    if has_totals {
        about +=
            &format!(" {} and {}.", line_key("line", "This limit"), line_key("all", "all policies together"));
    }
    Figure { title: &title, about, chart: panels.html(), table: HtmlTable::of(&table) }.html()
}

/// Says where the points are from.
fn basis(policy: &PolicyReport, curve: &Curve) -> String {
    match curve.basis {
        Basis::Calculated if policy.one_client_in > 1 => {
            format!("Estimated from one client in {}.", grouped(policy.one_client_in))
        }
        Basis::Calculated => "Exact for every limit.".to_owned(),
        Basis::Tried => "Replayed by the engine, with all other quotas unchanged.".to_owned(),
    }
}

/// Says where the points are from, and what the marks mean.
fn explained(policy: &PolicyReport, curve: &Curve, shown: &[LimitMark]) -> String {
    let mut text = basis(policy, curve);
    if !shown.iter().any(|mark| mark.name == "replayed") {
        text += &format!(" The limit that was replayed is {}.", grouped(curve.replayed));
    }
    if let Some((limit, budget)) = curve.suggested.zip(curve.suggested_budget) {
        text += &format!(
            " With 95 % confidence, {} denies at most {} of clients.",
            grouped(limit),
            crate::output::share::share_of_clients(budget)
        );
    }
    if let Some(set_by) = &curve.set_by {
        text += &format!(" It is {}.", set_by.remark("client", ""));
    }
    text
}

/// How a point is read out, by the columns of the table.
fn says(quota: &str, has_totals: bool) -> String {
    let limit = quota.split_once('/').map_or("{0}".to_owned(), |(_, per)| format!("{{0}}/{per}"));
    let own = format!("{limit} denies {{1}} requests ({{2}}) of {{3}} clients ({{4}})");
    match has_totals {
        true => own + "; all policies together deny {5} requests of {6} clients",
        false => own,
    }
}

/// What limits count: the part of a quota after its number.
fn unit(quota: &str) -> String {
    let per = quota.split_once('/').map(|(_, per)| per);
    let length = per.and_then(|per| per.split(|end: char| !end.is_ascii_alphanumeric()).next());
    length
        .filter(|length| !length.is_empty())
        .map_or("limit".to_owned(), |length| format!("limit per {length}"))
}

/// The points that are drawn. Far below the replayed limit nearly everything is denied, and above the first limit
/// that denies nothing there is nothing to see.
fn shown(curve: &Curve) -> Range<usize> {
    let points = &curve.points;
    let none = points.iter().find(|point| (point.denied, point.denied_clients) == (0, 0));
    let none = none.map_or(u64::MAX, |point| point.limit);
    // A limit that is far above all that clients ask for would leave the picture empty.
    let marks = [Some(curve.replayed), curve.suggested];
    let marks = || marks.into_iter().flatten().filter(|limit| *limit <= none.saturating_mul(2));
    let first = marks().min().map_or(0, |limit| limit / 4);
    let last = marks().max().unwrap_or(0).max(none);
    // What was tried begins near the replayed limit.
    let first = if curve.basis == Basis::Tried { 0 } else { first };
    let start = points.iter().position(|point| point.limit >= first).unwrap_or(0);
    let end = points.iter().position(|point| point.limit >= last).map_or(points.len(), |place| place + 1);
    start.min(end.saturating_sub(3))..end
}
