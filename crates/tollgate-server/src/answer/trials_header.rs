//! `Tollgate-Trials`: the policies on trial that would have denied an admitted request.
//!
//! Metrics count such requests but cannot say whose they are. A proxy can: it logs this header next to the client.

use http::{HeaderName, HeaderValue};
use tollgate::Verdict;
use tollgate_policy::{PolicyDecision, TrialKind};

/// The name of the header.
pub(crate) const TOLLGATE_TRIALS: HeaderName = HeaderName::from_static("tollgate-trials");

/// Bounds the list, so that the headers of an answer fit into a proxy's buffer of 4 KiB.
const MAX_BYTES: usize = 1_000;

/// The last item of a list that leaves names out. It is a token, and names are strings.
const MORE: &str = "more";

/// Whether answers have the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TrialsHeader {
    Sent,
    Omitted,
}

impl TrialsHeader {
    /// Returns the header's value; `None` if it is omitted, a request is denied, or no trial would have denied it.
    ///
    /// A denial has none: proxies pass it on to the client, and a trial changes nothing about it.
    pub(crate) fn value(self, decisions: &[PolicyDecision]) -> Option<HeaderValue> {
        if self == Self::Omitted || !decisions.iter().all(PolicyDecision::is_allowed) {
            return None;
        }
        let trials = decisions.iter().flat_map(PolicyDecision::trials);
        let denying = trials.filter(|trial| trial.answer.verdict() == Some(Verdict::Denied));
        let items = denying.map(|trial| match trial.kind {
            TrialKind::Candidate => format!("\"{}\";candidate", trial.policy.name()),
            TrialKind::Shadow => format!("\"{}\"", trial.policy.name()),
        });
        list(items)
    }
}

/// Returns the items as a list of structured fields (RFC 9651), each once; `None` if there are none.
fn list(items: impl Iterator<Item = String>) -> Option<HeaderValue> {
    let (mut kept, mut length) = (Vec::<String>::new(), 0);
    for item in items {
        if kept.contains(&item) {
            continue;
        }
        length += item.len() + ", ".len();
        // Room for "more" is kept, because the next name may not fit.
        if length + MORE.len() > MAX_BYTES {
            kept.push(MORE.to_owned());
            break;
        }
        kept.push(item);
    }
    if kept.is_empty() {
        return None;
    }
    HeaderValue::try_from(kept.join(", ")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_says_that_there_is_more() {
        let names = |count: usize| (0..count).map(|number| format!("\"{number:064}\""));
        let short = list(names(14)).unwrap();
        assert_eq!(short.to_str().unwrap().split(", ").collect::<Vec<_>>(), names(14).collect::<Vec<_>>());
        for count in [15, 100_000] {
            let long = list(names(count)).unwrap();
            let items: Vec<&str> = long.to_str().unwrap().split(", ").collect();
            assert_eq!((items.len(), items[14]), (15, "more"), "{count}");
            assert!(long.len() <= MAX_BYTES, "{}", long.len());
        }
    }

    /// With names of these lengths, the list was up to 1,004 bytes long.
    #[test]
    fn names_that_end_at_the_bound_leave_room_for_more() {
        for length in 1..=64 {
            let fitting = [format!("\"{}\"", "l".repeat(length))].into_iter();
            let names = (0..99).map(|number| format!("\"{number:063}\""));
            let list = list(fitting.chain(names)).unwrap();
            assert!(list.len() <= MAX_BYTES, "{length}: {}", list.len());
            assert!(list.to_str().unwrap().ends_with(", more"), "{length}");
        }
    }

    #[test]
    fn each_name_is_there_once() {
        let items = ["\"a\"", "\"a\";candidate", "\"a\""].map(str::to_owned);
        assert_eq!(list(items.into_iter()).unwrap(), "\"a\", \"a\";candidate");
        assert_eq!(list(std::iter::empty()), None);
    }
}
