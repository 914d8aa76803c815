//! The answer in three sentences: what would be denied, to whom, and whether that is good.

mod in_log;
mod incident;
mod judgement;
mod overview;

pub(crate) use self::in_log::ended_in_log;
use self::incident::incident;
use self::judgement::judgement;
use self::overview::overview;
use super::CheckedReport;
use super::number::{about, counted, grouped};
use crate::output::share::percent;
use crate::quoted::code;
use crate::report::{PolicyReport, QuotaReport, Report};
use crate::role::Role;

/// Policies that the first sentence names.
const NAMED: usize = 2;

/// The policy of `--limit`.
const UNNAMED: &str = "default";

/// Clients from which on their share is said: that of fewer is seen at once.
const MANY: u64 = 100;

impl CheckedReport {
    /// Returns the three sentences that every form of the report opens with: what would be denied, to whom, and
    /// whether that is good. A sentence without anything to say is empty.
    ///
    /// They are plain text, in which names stand between backquotes.
    #[must_use]
    pub fn opening(&self) -> [String; 3] {
        let report = &self.report;
        if report.requests == 0 {
            return [Report::NO_REQUEST.to_owned(), String::new(), String::new()];
        }
        if report.is_overview() {
            return overview(report);
        }
        if !report.has_answer() {
            return unanswered(report);
        }
        let whom = match busiest_trial(report) {
            Some(trial) if report.denied == 0 => format!("If it decided, {}.", denials_of_trial(trial)),
            _ => to_whom(report),
        };
        [what_is_denied(report), whom, judgement(self)]
    }
}

/// Why no policy decides on anything.
fn unanswered(report: &Report) -> [String; 3] {
    let [why, advice] = match report.undecided_reasons.first() {
        Some(reason) => [
            format!(
                "{} cannot be decided, and would be answered with errors.",
                counted(report.undecided, "request")
            ),
            format!("For {}, the reason is: {}.", grouped(reason.requests), reason.reason),
        ],
        None => [
            format!("No condition under `match` fits any of {}.", counted(report.requests, "request")),
            "Compare the conditions with the log; the caveats name what is missing.".to_owned(),
        ],
    };
    [Report::NO_POLICY.to_owned(), why, advice]
}

fn what_is_denied(report: &Report) -> String {
    let Report { requests, denied, undecided, .. } = *report;
    let sample = if report.read.as_ref().is_some_and(|read| read.is_sample) { " of this sample" } else { "" };
    let mut text = format!("Of {}{sample}, ", counted(requests, "request"));
    text += &match denied {
        0 if is_only_on_trial(report) => "none would be denied: every policy is on trial".to_owned(),
        0 => format!("none would be denied{}", by_limit(report)),
        _ => {
            format!("{} would be denied ({}){}", grouped(denied), percent(denied, requests), by_what(report))
        }
    };
    if undecided > 0 {
        text += &format!("; {} ({}) would be errors", grouped(undecided), percent(undecided, requests));
    }
    text + "."
}

/// The policies that deny, the one that denies most first.
fn by_what(report: &Report) -> String {
    let mut policies: Vec<&PolicyReport> =
        report.policies.iter().filter(|policy| policy.role == Role::Enforced && policy.denied > 0).collect();
    policies.sort_by_key(|policy| std::cmp::Reverse(policy.denied));
    let by_policies: u64 = policies.iter().map(|policy| policy.denied).sum();
    let unmatched = report.denied_unmatched;
    if let ([policy], 0) = (&*policies, unmatched) {
        let all = if report.denied > 1 { "all " } else { "" };
        let by = by_limit(report);
        let by = if by.is_empty() { format!(" by {}", code(&policy.title())) } else { by };
        return format!(", {all}{}", by.trim_start());
    }
    let one = |policy: &&PolicyReport| format!("{} by {}", grouped(policy.denied), code(&policy.title()));
    let mut parts: Vec<String> = policies.iter().take(NAMED).map(one).collect();
    if let Some(others) = policies.get(NAMED..).filter(|others| !others.is_empty()) {
        let denied = others.iter().map(|policy| policy.denied).sum();
        parts.push(format!("{} by {}", grouped(denied), counted_policies(others.len())));
    }
    if unmatched > 0 {
        parts.push(format!("{} because no policy matches", grouped(unmatched)));
    }
    // A request may lack room in several policies.
    let several = if by_policies + unmatched > report.denied { ", some by several of them" } else { "" };
    format!(": {}{several}", listed(&parts))
}

/// The limits themselves, with their key, if they were given without a file: nobody has chosen the policy's name.
fn by_limit(report: &Report) -> String {
    match &*report.policies {
        [policy] if policy.policy == UNNAMED && policy.role == Role::Enforced => {
            let quotas: Vec<String> = policy.quotas.iter().map(QuotaReport::title).collect();
            format!(" by {} per {}", listed(&quotas), policy.key)
        }
        _ => String::new(),
    }
}

fn counted_policies(policies: usize) -> String {
    if policies == 1 { "another policy".to_owned() } else { format!("{policies} other policies") }
}

fn to_whom(report: &Report) -> String {
    let Report { clients, denied_clients, denied, .. } = *report;
    let about = about(report.one_client_in);
    if denied == 0 {
        return match clients {
            0 => String::new(),
            1 => format!("They come from {about}1 client."),
            _ => {
                format!("They come from {about}{}; none of them would be denied.", counted(clients, "client"))
            }
        };
    }
    let (they, come) = if denied == 1 { ("It", "comes") } else { ("They", "come") };
    if denied_clients == 0 {
        return match report.one_client_in {
            1 => format!(
                "{they} {come} from no client: the log lacks {} there.",
                code(&report.client.to_string())
            ),
            one_in => format!(
                "{they} {come} from none of the clients that are followed, which are one in {one_in}."
            ),
        };
    }
    let share = match clients {
        MANY.. => format!(" ({})", percent(denied_clients, clients)),
        _ => String::new(),
    };
    let clients = counted(clients, "client");
    format!(
        "{they} {come} from {about}{} of {about}{clients}{share}{}{}.",
        grouped(denied_clients),
        incident(report).unwrap_or_default(),
        most(report)
    )
}

/// How the denied requests are spread over clients.
fn most(report: &Report) -> String {
    let clientless = match report.clientless.denied {
        0 => String::new(),
        denied if report.one_client_in > 1 => {
            format!("; {} of them are from clients that are not followed", grouped(denied))
        }
        denied => format!("; {} of them have no client", grouped(denied)),
    };
    // A sample of the clients may lack the one that is denied most.
    let Some(first) = report.most_denied.first().filter(|_| report.one_client_in == 1) else {
        return clientless;
    };
    let spread = match report.denied_clients {
        1 => format!("; that one sent {}", grouped(first.requests)),
        _ => {
            let (denied, share) = (grouped(first.denied), percent(first.denied, report.denied));
            format!("; one of them alone has {denied} ({share})")
        }
    };
    spread + &clientless
}

/// Whether all policies that match a request are on trial.
fn is_only_on_trial(report: &Report) -> bool {
    let is_busy = |policy: &&PolicyReport| policy.requests > 0;
    report.policies.iter().filter(is_busy).all(|policy| policy.role != Role::Enforced)
}

/// The policy on trial that would deny most, if one would deny anything.
fn busiest_trial(report: &Report) -> Option<&PolicyReport> {
    let trials = report.policies.iter().filter(|policy| policy.role != Role::Enforced && policy.denied > 0);
    trials.max_by_key(|policy| policy.denied)
}

/// What a policy on trial would deny.
fn denials_of_trial(trial: &PolicyReport) -> String {
    let about = about(trial.one_client_in);
    format!(
        "{} would deny {} of {} ({}), from {about}{} of {about}{}",
        code(&trial.title()),
        grouped(trial.denied),
        counted(trial.requests, "request"),
        percent(trial.denied, trial.requests),
        grouped(trial.denied_clients),
        counted(trial.clients, "client")
    )
}

/// Parts of a sentence: `a`, `a and b`, `a, b and c`.
fn listed(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}
