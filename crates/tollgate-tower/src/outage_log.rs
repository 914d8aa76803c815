//! Logs when the store of a rule stops answering, and when it answers again.
//!
//! The lines name no key. They are those of the service.

use std::error::Error;
use std::iter;

use tollgate::{Counted, QuotaState, Source, StoreError};
use tracing::{info, warn};

use crate::engine::Decided;
use crate::outage::{OutageLine, Outages};

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct OutageLog(Outages);

impl OutageLog {
    /// Notes the outcome for a request.
    pub(crate) fn note(&self, decided: &Decided) {
        match decided {
            Decided::Failed(error) if error.is_outage() => self.failed(Some(error)),
            decided => {
                if let Some(counted) = decided.counted() {
                    self.decided(counted);
                }
            }
        }
    }

    /// Notes a decision. All its states have one source, because they come from one step.
    #[inline]
    pub(crate) fn decided(&self, counted: &Counted) {
        match counted.first().map(QuotaState::source) {
            Some(Source::Store) => {
                if let Some(line) = self.0.answered() {
                    log(line, None);
                }
            }
            Some(Source::Fallback) => self.failed(None),
            // A denial from this process's memory tells nothing about the store.
            _ => {}
        }
    }

    /// The error is unknown if a fallback has decided.
    #[cold]
    fn failed(&self, error: Option<&StoreError>) {
        if let Some(line) = self.0.failed() {
            log(line, error);
        }
    }
}

#[cold]
fn log(line: OutageLine, error: Option<&StoreError>) {
    match line {
        OutageLine::Gone => match error {
            Some(error) => {
                let error = with_causes(error);
                warn!(error, "the store does not answer: `Rule::on_store_error` decides");
            }
            None => warn!("the fallback decided on a request"),
        },
        OutageLine::Back { failed } => info!(failed, "the store answers again"),
        OutageLine::Again { outages, failed, is_away } => {
            let store = if is_away { "is away" } else { "answers" };
            warn!(outages, failed, store, "the store was away again since the last line about it");
        }
    }
}

fn with_causes(error: &StoreError) -> String {
    let causes = iter::successors(Some(error as &dyn Error), |&error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
