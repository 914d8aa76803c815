//! What the log says of the denied requests: successes that would be lost, or failures anyway.

use super::listed;
use crate::output::number::grouped;
use crate::report::Report;

/// Statuses that are named one by one. Of more, the classes are named.
const NAMED: usize = 2;

/// What a request had come to when the log was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Succeeded,
    Failed,
    Refused,
    Unknown,
}

impl Ending {
    const fn of(status: Option<u16>) -> Self {
        match status {
            None => Self::Unknown,
            Some(429 | 503) => Self::Refused,
            Some(..400) => Self::Succeeded,
            Some(_) => Self::Failed,
        }
    }

    /// In words, with the statuses.
    fn words(self, statuses: &str) -> String {
        match self {
            Self::Succeeded => format!("had succeeded ({statuses}) and would be lost"),
            Self::Failed => format!("had failed anyway ({statuses})"),
            Self::Refused => format!("had been refused already ({statuses})"),
            Self::Unknown => "have no status".to_owned(),
        }
    }
}

/// Says how all denied requests of a report had ended.
pub(crate) fn ended_in_log(report: &Report) -> Option<String> {
    let denied = report.statuses.iter().map(|status| (status.status, status.denied));
    in_log(&denied.collect::<Vec<_>>())
}

/// Says how the denied requests had ended, by their statuses. `None` if nothing is denied.
pub(super) fn in_log(denied: &[(Option<u16>, u64)]) -> Option<String> {
    let all: u64 = denied.iter().map(|(_, denied)| denied).sum();
    let endings = [Ending::Succeeded, Ending::Failed, Ending::Refused, Ending::Unknown];
    let endings: Vec<(Ending, u64, String)> = endings
        .into_iter()
        .filter_map(|ending| {
            let ended_so =
                denied.iter().filter(|(status, denied)| Ending::of(*status) == ending && *denied > 0);
            let requests: u64 = ended_so.clone().map(|(_, denied)| denied).sum();
            let statuses: Vec<u16> = ended_so.filter_map(|(status, _)| *status).collect();
            (requests > 0).then(|| (ending, requests, ending.words(&named(&statuses))))
        })
        .collect();
    let subject = if all == 1 { "it".to_owned() } else { format!("all {}", grouped(all)) };
    Some(match &*endings {
        [] => return None,
        [(Ending::Unknown, ..)] => {
            "The log has no status of denied requests, so it does not show whether they were any good."
                .to_owned()
        }
        [(Ending::Failed, _, words)] => {
            format!("In the log, {subject} {words}; no successful request would be lost.")
        }
        [(.., words)] => format!("In the log, {subject} {words}."),
        [(_, first, words), others @ ..] => {
            let others: Vec<String> =
                others.iter().map(|(_, requests, words)| format!("{} {words}", grouped(*requests))).collect();
            let first = format!("{} of the denied requests {words}", grouped(*first));
            format!("In the log, {first}; {}.", listed(&others))
        }
    })
}

/// The statuses, or their classes if they are many.
fn named(statuses: &[u16]) -> String {
    let names: Vec<String> = if statuses.len() <= NAMED {
        statuses.iter().map(u16::to_string).collect()
    } else {
        let mut classes: Vec<String> = statuses.iter().map(|status| format!("{}xx", status / 100)).collect();
        classes.dedup();
        classes
    };
    listed(&names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn successes_come_first_and_failures_after_them() {
        for (denied, said) in [
            (
                &[(Some(200), 353), (Some(404), 38)][..],
                "353 of the denied requests had succeeded (200) and would be lost; 38 had failed anyway (404).",
            ),
            (&[(Some(401), 30)], "all 30 had failed anyway (401); no successful request would be lost."),
            (&[(Some(401), 1)], "it had failed anyway (401); no successful request would be lost."),
            (
                &[(Some(101), 1), (Some(200), 4), (Some(302), 5)],
                "all 10 had succeeded (1xx, 2xx and 3xx) and would be lost.",
            ),
            (&[(Some(429), 2_000), (Some(503), 0)], "all 2,000 had been refused already (429)."),
            (
                &[(Some(200), 0), (Some(401), 3), (Some(403), 4), (Some(500), 5), (Some(503), 6), (None, 7)],
                "12 of the denied requests had failed anyway (4xx and 5xx); 6 had been refused already (503) and 7 have no \
                 status.",
            ),
        ] {
            assert_eq!(in_log(denied), Some(format!("In the log, {said}")));
        }
        assert!(in_log(&[(None, 3)]).unwrap().starts_with("The log has no status"));
        assert_eq!((in_log(&[]), in_log(&[(Some(200), 0)])), (None, None));
    }
}
