//! Whether the denials are good: by gates, by the policies before, and by what the log says of the denied requests.

use tollgate::QuotaKind;

use super::in_log::{ended_in_log, in_log};
use super::{NAMED, busiest_trial, denials_of_trial, listed};
use crate::gate::{GateResult, GateVerdict};
use crate::output::CheckedReport;
use crate::output::number::{about, counted, grouped};
use crate::quoted::code;
use crate::report::{BaselineComparison, QuotaReport, Report};
use crate::role::Role;

pub(super) fn judgement(answer: &CheckedReport) -> String {
    let report = &answer.report;
    let mut parts = Vec::new();
    parts.extend(gates(&answer.gates));
    parts.extend(dead(report));
    parts.extend(report.compared.as_ref().map(|compared| compared_with_baseline(report, compared)));
    let trial = busiest_trial(report);
    match (report.denied, trial) {
        (0, None) => parts.extend(room(report)),
        (0, Some(trial)) => {
            let denied = trial.denied_by_status.iter().map(|status| (status.status, status.denied));
            parts.extend(in_log(&denied.collect::<Vec<_>>()));
        }
        (_, trial) => {
            parts.extend(ended_in_log(report));
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
        (GateVerdict::Held, 1) => format!("The gate {gate} held."),
        (GateVerdict::Held, _) => format!("All {all} gates held."),
        (GateVerdict::Failed, 1) => format!("The gate {gate} failed: {measured}."),
        (GateVerdict::Failed, _) => format!("{count} of {all} gates failed: {gate} measured {measured}."),
        (GateVerdict::NoAnswer, 1) => format!("The gate {gate} has no answer: {measured}."),
        (GateVerdict::NoAnswer, _) => format!("{count} of {all} gates have no answer."),
    })
}

/// Policies that no request meets: their figures look like those of a limit that nobody exceeds.
fn dead(report: &Report) -> Option<String> {
    let dead = report
        .policies
        .iter()
        .filter(|policy| policy.requests == 0 && policy.role != Role::Candidate && !policy.quotas.is_empty());
    let names: Vec<String> = dead.map(|policy| code(&policy.title())).collect();
    match &*names {
        [] => None,
        [one] => Some(format!("{one} counts no request, so check its conditions.")),
        [..] if names.len() <= NAMED => {
            Some(format!("{} count no request, so check their conditions.", listed(&names)))
        }
        [first, others @ ..] => Some(format!(
            "{first} and {} other policies count no request, so check their conditions.",
            others.len()
        )),
    }
}

fn compared_with_baseline(report: &Report, compared: &BaselineComparison) -> String {
    let BaselineComparison {
        newly_denied, newly_allowed, newly_denied_clients, newly_allowed_clients, ..
    } = *compared;
    let about = about(report.one_client_in);
    if (newly_denied, newly_allowed) == (0, 0) {
        return "Compared with the baseline, nothing changes.".to_owned();
    }
    let and_clients = |clients| match clients {
        0 => String::new(),
        _ => format!(" and {about}{}", counted(clients, "client")),
    };
    let changed = |requests: u64, clients: u64, how: &str| {
        let are = if requests == 1 && clients == 0 { "is" } else { "are" };
        format!("{}{} {are} newly {how}", counted(requests, "request"), and_clients(clients))
    };
    let mut parts = Vec::new();
    if newly_denied > 0 {
        let mut denied = changed(newly_denied, newly_denied_clients, "denied");
        let is_known = report.one_client_in == 1 && report.clientless.newly_denied == 0;
        if newly_denied_clients == 0 && is_known {
            denied += ", only of clients that were denied already";
        }
        parts.push(denied);
    }
    if newly_allowed > 0 {
        parts.push(changed(newly_allowed, newly_allowed_clients, "allowed"));
    }
    format!("Compared with the baseline, {}.", parts.join("; "))
}

/// How much room the limits leave, if they deny nothing.
fn room(report: &Report) -> Option<String> {
    let policies = report.policies.iter().filter(|policy| policy.role == Role::Enforced);
    let quotas = policies.flat_map(|policy| policy.quotas.iter().map(move |quota| (policy, quota)));
    let used = quotas.filter_map(|(policy, quota)| Some((policy, quota, share_used(quota)?)));
    let (policy, quota, _) = used.max_by(|(.., a), (.., b)| a.total_cmp(b))?;
    let burst = if quota.kind == QuotaKind::Burst { "a burst of " } else { "" };
    Some(format!(
        "The limit that comes closest is {} of {}: a client used {} of {burst}{}.",
        quota.quota,
        code(&policy.title()),
        grouped(quota.most_used),
        grouped(quota.capacity)
    ))
}

/// The share of a limit, or of a burst, that a client had in use at once.
fn share_used(quota: &QuotaReport) -> Option<f64> {
    let (used, capacity) = (quota.most_used, quota.capacity);
    let is_known = quota.limit_attribute.is_none() && used > 0 && used <= capacity;
    is_known.then(|| used as f64 / capacity as f64)
}
