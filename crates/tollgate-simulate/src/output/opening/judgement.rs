//! Whether the denials are good: by gates, by the policies before, and by what the log says of the denied requests.

use super::in_log::in_log;
use super::{busiest_trial, denials_of_trial};
use crate::output::number::{about, counted, grouped};
use crate::report::{Compared, QuotaReport, Report};
use crate::{Answer, GateResult, Held, Role, code};

pub(super) fn judgement(answer: &Answer) -> String {
    let report = &answer.report;
    let mut parts = Vec::new();
    parts.extend(gates(&answer.gates));
    parts.extend(report.compared.as_ref().map(|compared| compared_with_baseline(report, compared)));
    let trial = busiest_trial(report);
    match (report.denied, trial) {
        (0, None) => parts.extend(room(report)),
        (0, Some(trial)) => {
            let denied = trial.denied_by_status.iter().map(|status| (status.status, status.denied));
            parts.extend(in_log(&denied.collect::<Vec<_>>()));
        }
        (_, trial) => {
            let denied = report.statuses.iter().map(|status| (status.status, status.denied));
            parts.extend(in_log(&denied.collect::<Vec<_>>()));
            parts.extend(trial.map(|trial| format!("On trial, {}.", denials_of_trial(trial))));
        }
    }
    parts.join(" ")
}

fn gates(gates: &[GateResult]) -> Option<String> {
    let held = gates.iter().map(|gate| gate.held).max()?;
    let worst = gates.iter().filter(|gate| gate.held == held);
    let (count, all) = (worst.clone().count(), gates.len());
    let GateResult { gate, measured, .. } = worst.clone().next()?;
    let gate = code(gate);
    Some(match (held, count) {
        (Held::Held, 1) => format!("The gate {gate} held."),
        (Held::Held, _) => format!("All {all} gates held."),
        (Held::Failed, 1) => format!("The gate {gate} failed: {measured}."),
        (Held::Failed, _) => format!("{count} of {all} gates failed, the first by {measured}."),
        (Held::NoAnswer, 1) => format!("The gate {gate} has no answer: {measured}."),
        (Held::NoAnswer, _) => format!("{count} of {all} gates have no answer."),
    })
}

fn compared_with_baseline(report: &Report, compared: &Compared) -> String {
    let Compared { newly_denied, newly_allowed, newly_denied_clients, newly_allowed_clients, .. } = *compared;
    let about = about(report.one_client_in);
    if (newly_denied, newly_allowed) == (0, 0) {
        return "Compared with the baseline, nothing changes.".to_owned();
    }
    let denied = match newly_denied_clients {
        0 => "no client is newly denied".to_owned(),
        1 => format!("{about}1 client is newly denied"),
        clients => format!("{about}{} are newly denied", counted(clients, "client")),
    };
    let allowed = match newly_allowed_clients {
        0 => String::new(),
        1 => format!(" and {about}1 no longer is"),
        clients => format!(" and {about}{} no longer are", grouped(clients)),
    };
    let requests =
        format!("{} newly denied, {} allowed", counted(newly_denied, "request"), grouped(newly_allowed));
    format!("Compared with the baseline, {denied}{allowed} ({requests}).")
}

/// How much room the limits leave, if they deny nothing.
fn room(report: &Report) -> Option<String> {
    let policies = report.policies.iter().filter(|policy| policy.role == Role::Enforced);
    let quotas = policies.flat_map(|policy| policy.quotas.iter().map(move |quota| (policy, quota)));
    let used = quotas.filter_map(|(policy, quota)| Some((policy, quota, share_used(quota)?)));
    let (policy, quota, _) = used.max_by(|(.., a), (.., b)| a.total_cmp(b))?;
    Some(format!(
        "The limit that comes closest is {} of {}: a client used {} of {}.",
        quota.quota,
        code(&policy.title()),
        grouped(quota.most?.max),
        grouped(quota.curve.today)
    ))
}

/// The share of a limit that the busiest client asks for in one window.
fn share_used(quota: &QuotaReport) -> Option<f64> {
    let (most, limit) = (quota.most?.max, quota.curve.today);
    (quota.limit_attribute.is_none() && most <= limit && limit > 0).then(|| most as f64 / limit as f64)
}
