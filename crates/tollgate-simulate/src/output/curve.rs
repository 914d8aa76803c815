//! A curve as a table with bars.

use super::number::grouped;
use super::screen::Screen;
use super::table::Table;
use crate::report::PolicyReport;
use crate::{Basis, Curve, Point, percent, share_of_clients};

/// Limits of a curve that are shown.
const SHOWN: usize = 12;

/// Characters of the longest bar.
const BAR: usize = 16;

/// Writes a table of other limits.
pub(super) fn table(screen: &mut Screen, curve: &Curve, policy: &PolicyReport) {
    if curve.points.len() < 2 {
        return;
    }
    let (requests, clients) = (policy.requests, policy.clients);
    let basis = match curve.basis {
        Basis::Calculated if policy.one_client_in > 1 => {
            format!("estimated from one client in {}", policy.one_client_in)
        }
        Basis::Calculated => "exact".to_owned(),
        Basis::Tried => "replayed, with all other quotas unchanged".to_owned(),
    };
    screen.line(2, format_args!("what other limits would deny ({basis}):"));
    let titles = ["limit", "requests", "", "clients", "", "in total", "", ""];
    let mut table = Table::new(titles).left(0).bars([6, 7]).indent(4).denials([1, 2, 3, 4, 5]).spare([6]);
    let shown = shown(curve);
    let most = shown.iter().map(|point| point.denied).max().unwrap_or(0);
    // Otherwise the total is what this limit denies.
    let has_others = shown.iter().any(|point| point.total_denied.is_some_and(|total| total != point.denied));
    for point in shown {
        let Point { limit, denied, denied_clients, total_denied, .. } = *point;
        table.row([
            grouped(limit),
            grouped(denied),
            percent(denied, requests),
            grouped(denied_clients),
            percent(denied_clients, clients),
            total_denied.filter(|_| has_others).map(grouped).unwrap_or_default(),
            bar(denied, most),
            marks(curve, limit).join(", "),
        ]);
    }
    screen.table(&table);
    if let Some(suggested) = suggested(curve) {
        screen.line(4, suggested);
    }
}

/// Returns the marks of a limit on a curve.
pub(crate) fn marks(curve: &Curve, limit: u64) -> Vec<&'static str> {
    let marks = [(Some(curve.replayed), "replayed"), (curve.suggested, "suggested"), (curve.knee, "knee")];
    marks.into_iter().filter(|(mark, _)| *mark == Some(limit)).map(|(_, name)| name).collect()
}

/// Says what the marks of a curve mean, if it has any.
pub(crate) fn legend(curve: &Curve) -> Option<String> {
    let said: Vec<String> = legend_of(std::iter::once(curve)).into_iter().chain(suggested(curve)).collect();
    (!said.is_empty()).then(|| said.join("; "))
}

/// Says what the suggested limit of a curve means. This differs between curves.
fn suggested(curve: &Curve) -> Option<String> {
    let share = share_of_clients(curve.suggested_budget.filter(|_| curve.suggested.is_some())?);
    let set_by =
        curve.set_by.as_ref().map_or_else(String::new, |set_by| format!("; {}", set_by.remark("client", "")));
    Some(format!(
        "suggested, by the whole log, denies at most {share} of clients, with a confidence of 95 %, and is rounded up{set_by}"
    ))
}

/// Says what the other marks of curves mean, if they have any.
pub(super) fn legend_of<'a>(curves: impl Iterator<Item = &'a Curve> + Clone) -> Option<String> {
    let has_replayed = curves.clone().any(|curve| curve.at(curve.replayed).is_some());
    let has_knee = curves.clone().any(|curve| curve.knee.is_some());
    let said = [
        (has_replayed, "replayed is the limit in the policies"),
        (has_knee, "knee is where the curve bends most; it is not a recommendation"),
    ];
    let said: Vec<&str> = said.into_iter().filter(|(is_said, _)| *is_said).map(|(_, text)| text).collect();
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

/// A bar of up to `BAR` characters, in eighths of one.
fn bar(part: u64, all: u64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = u128::from(part) * BAR as u128 * 8;
    let length = if all == 0 { 0 } else { eighths.div_ceil(u128::from(all)) as usize };
    format!("{}{}", "█".repeat(length / 8), EIGHTHS.get(length % 8).copied().unwrap_or_default())
}
