//! Logs when the store of a rule stops answering, and when it answers again.
//!
//! The lines name the rule and no key. They are those of the service.

use std::error::Error;
use std::iter;

use tollgate::{HoldPlace, QuotaState, QuotaStates, Source, StoreError};
use tollgate_wire::outage::{OutageLine, Outages};
use tracing::warn;

use crate::outcome::RequestOutcome;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct OutageLog {
    rule: Box<str>,
    outages: Outages,
}

impl OutageLog {
    /// Creates a log that names the rule so.
    pub(crate) fn new(rule: impl Into<Box<str>>) -> Self {
        Self { rule: rule.into(), outages: Outages::default() }
    }

    /// Notes the outcome for a request.
    pub(crate) fn note(&self, decided: &RequestOutcome) {
        match decided {
            RequestOutcome::Failed(error) => self.note_error(error),
            decided => self.counted_by(decided.source()),
        }
    }

    /// Notes an error of the store.
    pub(crate) fn note_error(&self, error: &StoreError) {
        if error.is_outage() {
            self.failed(Some(error));
        }
    }

    /// Notes the answer to a request for a hold, which is counted there.
    pub(crate) fn answered(&self, place: HoldPlace) {
        match place {
            HoldPlace::Store => {
                self.outages.answered(|line| line.log(Some(&self.rule), None));
            }
            HoldPlace::Process | HoldPlace::Nowhere => self.failed(None),
        }
    }

    /// Notes a decision. All its states have one source, because they come from one step.
    #[inline]
    pub(crate) fn decided(&self, counted: &QuotaStates) {
        self.counted_by(counted.first().map(QuotaState::source));
    }

    #[inline]
    fn counted_by(&self, source: Option<Source>) {
        match source {
            Some(Source::Store) => {
                self.outages.answered(|line| line.log(Some(&self.rule), None));
            }
            Some(Source::Fallback) => self.failed(None),
            // A denial from this process's memory tells nothing about the store.
            _ => {}
        }
    }

    /// The error is unknown if a fallback has decided.
    #[cold]
    fn failed(&self, error: Option<&StoreError>) {
        let rule = &*self.rule;
        self.outages.failed(|line| match (line, error) {
            (OutageLine::Gone, Some(error)) => {
                let error = with_causes(error);
                warn!(rule, error, "the store does not answer: `Rule::on_store_error` decides");
            }
            (OutageLine::Gone, None) => warn!(rule, "the fallback decided on a request"),
            (line, _) => line.log(Some(rule), None),
        });
    }
}

fn with_causes(error: &StoreError) -> String {
    let causes = iter::successors(Some(error as &dyn Error), |&error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
