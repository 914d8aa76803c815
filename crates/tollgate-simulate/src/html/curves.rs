//! The denials of other limits: a chart and a table for each quota.

use std::fmt::Write as _;

use super::escape::Text;
use super::quotas;
use super::table::Table;
use crate::output::curve::marks;
use crate::output::number::grouped;
use crate::report::{PolicyReport, QuotaReport, Report};
use crate::{Basis, percent};

/// Quotas that have a chart, those that deny most first. Others are in the table of policies.
const MAX_CHARTS: usize = 40;

/// Bytes that all charts and their tables may take.
const MAX_BYTES: usize = 300_000;

/// The section, if there is anything to show. The script adds a slider to each chart.
pub(super) fn section(page: &mut String, report: &Report) {
    let mut charts: Vec<(usize, (&PolicyReport, &QuotaReport))> = quotas(report)
        .enumerate()
        .filter(|(_, (_, quota))| quota.curve.points.len() > 1 && quota.requests > 0)
        .collect();
    if charts.is_empty() {
        return;
    }
    charts.sort_by_key(|(place, (_, quota))| (std::cmp::Reverse(quota.denied), *place));
    let all = charts.len();
    charts.truncate(MAX_CHARTS);
    let mut bytes = 0;
    let fitting = charts.into_iter().map(|(place, (policy, quota))| (place, chart(place, policy, quota)));
    let fitting = fitting.take_while(|(_, chart)| {
        bytes += chart.len();
        bytes <= MAX_BYTES
    });
    let mut charts: Vec<(usize, String)> = fitting.collect();
    charts.sort_by_key(|(place, _)| *place);
    page.push_str("<h2>What other limits would deny</h2>\n");
    charts.iter().for_each(|(_, chart)| page.push_str(chart));
    if charts.len() < all {
        let (shown, all) = (grouped(charts.len() as u64), grouped(all as u64));
        // Writing into a string does not fail.
        let _ = writeln!(
            page,
            "<p class=\"soft\">Shown are {shown} of {all} quotas: those with the most denied requests.</p>"
        );
    }
}

fn chart(place: usize, policy: &PolicyReport, quota: &QuotaReport) -> String {
    let title = format!("{} {}", policy.title(), quota.title());
    let basis = match quota.curve.basis {
        Basis::Calculated if policy.one_client_in > 1 => {
            format!("Estimated from one client in {}.", policy.one_client_in)
        }
        Basis::Calculated => "Exact for every limit.".to_owned(),
        Basis::Tried => "Replayed, with all other quotas unchanged.".to_owned(),
    };
    let mut page = String::new();
    let _ =
        writeln!(page, "<section class=\"curve\">\n<h3>{}</h3>\n<p class=\"soft\">{basis}</p>", Text(&title));
    page.push_str(&super::chart::curve(
        &format!("curve{place}"),
        &format!("Other limits than {title}"),
        &quota.curve,
    ));
    let titles = ["limit", "denied", "share", "denied clients", "share of clients", "mark"];
    let caption = format!("Other limits than {title}");
    let mut table = Table::new(&caption, &titles, 0);
    for point in &quota.curve.points {
        table.row(&[
            grouped(point.limit),
            grouped(point.denied),
            percent(point.denied, policy.requests),
            grouped(point.denied_clients),
            percent(point.denied_clients, policy.clients),
            marks(&quota.curve, point.limit).join(", "),
        ]);
    }
    page.push_str(&table.folded());
    page.push_str("</section>\n");
    page
}
