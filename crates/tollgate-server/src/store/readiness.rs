//! The state of the store for `/readyz`: checked at most once in a while, however many clients ask.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tollgate::AnswerError;

use crate::observe::stopwatch::Stopwatch;
use crate::store::StoreState;

/// How long a state is reused. Each check writes to every server of the store, so clients could otherwise cause any
/// number of writes.
const FRESH: Duration = Duration::from_millis(100);

/// The last check of the store.
#[derive(Default)]
pub(crate) struct Readiness(Mutex<Option<LastLook>>);

struct LastLook {
    began: Stopwatch,
    /// `None` until the store has answered.
    state: watch::Receiver<Option<StoreState>>,
}

impl Readiness {
    /// Returns the state of the store, from the last check or a new one. A check continues even if the clients that
    /// wait for it disconnect.
    pub(crate) async fn state(&self, look: impl Future<Output = StoreState> + Send + 'static) -> StoreState {
        let mut state = self.last_or(look);
        let state = state.wait_for(Option::is_some).await.ok().and_then(|state| state.clone());
        // There is no answer only if the check was cut short.
        state.unwrap_or_else(|| StoreState::Fails(AnswerError::Nonsense.into()))
    }

    fn last_or(
        &self,
        look: impl Future<Output = StoreState> + Send + 'static,
    ) -> watch::Receiver<Option<StoreState>> {
        // No change under this lock can be left half made.
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = last.as_ref().filter(|last| last.is_fresh()) {
            return last.state.clone();
        }
        let (answered, state) = watch::channel(None);
        *last = Some(LastLook { began: Stopwatch::start(), state: state.clone() });
        tokio::spawn(async move { answered.send_replace(Some(look.await)) });
        state
    }
}

impl LastLook {
    /// Returns whether the check is running, or recent.
    fn is_fresh(&self) -> bool {
        let is_answered = self.state.borrow().is_some();
        // An error means that the check has ended; without an answer, it was cut short.
        if is_answered { self.began.elapsed() < FRESH } else { self.state.has_changed().is_ok() }
    }
}
