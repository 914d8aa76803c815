//! How tight each quota is, and what other limits and kinds would deny.

use crate::output::number::{counted, grouped, lasting, most_in_one};
use crate::output::screen::Screen;
use crate::output::text_table::TextTable;
use crate::output::{curve, kinds};
use crate::report::{PolicyReport, QuotaReport, Report};

/// Limits of a curve that are shown.
const LIMITS: usize = 12;

pub(super) fn sections(screen: &mut Screen, report: &Report) {
    let quotas =
        report.policies.iter().flat_map(|policy| policy.quotas.iter().map(move |quota| (policy, quota)));
    let counted = quotas.filter(|(_, quota)| quota.requests > 0);
    counted.clone().for_each(|(policy, quota)| tightness(screen, policy, quota));
    let shown = counted.filter(|(_, quota)| quota.curve.points.len() > 1 || kinds::has_kinds(quota));
    if let Some(legend) = curve::replayed(shown.map(|(_, quota)| &quota.curve)) {
        screen.gap();
        screen.line(2, legend);
    }
}

fn tightness(screen: &mut Screen, policy: &PolicyReport, quota: &QuotaReport) {
    screen.section(format_args!("{} {}", policy.title(), quota.title()));
    if let Some(most) = quota.most {
        let interval = if quota.has_windows() { "window" } else { "interval of its length by the clock" };
        screen.line(2, most_in_one(interval, most));
        if quota.is_spared() {
            screen.line(2, "other quotas denied everything that it would have denied");
        }
    }
    denials(screen, policy, quota);
    if let Some(burst) = quota.burst {
        screen.line(
            2,
            format_args!(
                "the most admitted in any interval of a window's length: {burst:.2} times the limit"
            ),
        );
    }
    other_limits(screen, policy, quota);
    other_kinds(screen, policy, quota);
}

fn other_kinds(screen: &mut Screen, policy: &PolicyReport, quota: &QuotaReport) {
    if kinds::has_kinds(quota) {
        screen.line(2, format_args!("what other kinds would deny ({}):", kinds::BASIS));
        screen.table(&TextTable::of(&kinds::table(policy, quota), 4));
    }
}

fn other_limits(screen: &mut Screen, policy: &PolicyReport, quota: &QuotaReport) {
    let curve = &quota.curve;
    if curve.points.len() < 2 {
        return;
    }
    screen.line(2, format_args!("what other limits would deny ({}):", curve::basis(policy, curve)));
    screen.table(&TextTable::of(&curve::table(policy, quota, LIMITS), 4));
    curve::suggested(curve).into_iter().chain(curve::burst(quota)).for_each(|said| screen.line(4, said));
}

/// In how many windows it denies, how long clients wait, and whether waiting helps.
fn denials(screen: &mut Screen, policy: &PolicyReport, quota: &QuotaReport) {
    let QuotaReport { denied, above_limit, denied_windows, windows, longest_wait, .. } = *quota;
    let waiting = denied.saturating_sub(above_limit);
    let wait = format!("; the longest wait is {}", lasting(longest_wait));
    if denied_windows > 0 {
        let wait = if waiting == 0 { "" } else { &wait };
        let windows = match quota.has_windows() {
            true => counted(windows, "window"),
            false => counted(windows, "interval") + " of its length",
        };
        screen.line(2, format_args!("denies in {} of {windows}{wait}", grouped(denied_windows)));
    } else if waiting > 0 {
        let whose = match policy.one_client_in {
            1 => "",
            // Without a client there is no window.
            _ => " of clients that are not followed",
        };
        screen.line(2, format_args!("denies {}{whose}{wait}", counted(waiting, "request")));
    }
    if above_limit > 0 {
        let requests = counted(above_limit, "request");
        screen.line(
            2,
            format_args!(
                "denies {requests} that cost more than it ever admits at once; waiting does not help"
            ),
        );
    }
}
