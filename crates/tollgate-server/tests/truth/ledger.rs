//! What clients saw: each request with its names, its time and its answer. Nothing of it comes from the service's
//! windows, from a log or from a replay.

use std::collections::{BTreeMap, BTreeSet};

use crate::client::Answer;

/// A request, as its client knows it.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) answer: Answer,
    /// What it is counted by: the client's address, the path, the user.
    pub(crate) names: BTreeMap<&'static str, String>,
}

/// All requests to one server.
#[derive(Debug, Default)]
pub(crate) struct Ledger(Vec<Entry>);

/// What a replay of some requests has to say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    pub(crate) requests: u64,
    pub(crate) denied: u64,
    /// Answered with an error, and not counted.
    pub(crate) refused: u64,
    /// Denied requests by name.
    pub(crate) of: BTreeMap<String, u64>,
}

impl Entry {
    pub(crate) fn is_denied(&self) -> bool {
        self.answer.status == Some(429)
    }

    fn is_refused(&self) -> bool {
        !matches!(self.answer.status, None | Some(200 | 429))
    }
}

impl Ledger {
    pub(crate) fn push(&mut self, entry: Entry) {
        self.0.push(entry);
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.0.iter()
    }

    /// The windows of so many microseconds that have requests, and none so near an end that a log of whole seconds could
    /// put it into another window.
    pub(crate) fn windows(&self, length: i64, margin: i64) -> Vec<i64> {
        let (mut all, mut doubtful) = (BTreeSet::new(), BTreeSet::new());
        for Entry { answer, .. } in &self.0 {
            let window = answer.began.div_euclid(length);
            all.insert(window);
            let (from, to) = (window * length + margin, (window + 1) * length - margin);
            if answer.began < from || answer.decided >= to {
                doubtful.extend([window, answer.decided.div_euclid(length)]);
            }
        }
        all.difference(&doubtful).copied().collect()
    }

    /// What was denied from one instant to another, by names of this kind.
    pub(crate) fn figures(&self, from: i64, to: i64, kind: &str) -> Figures {
        let mut figures = Figures::default();
        for entry in self.0.iter().filter(|entry| (from..to).contains(&entry.answer.began)) {
            figures.requests += 1;
            figures.refused += u64::from(entry.is_refused());
            if entry.is_denied() {
                figures.denied += 1;
                if let Some(name) = entry.names.get(kind) {
                    *figures.of.entry(name.clone()).or_default() += 1;
                }
            }
        }
        figures
    }
}
