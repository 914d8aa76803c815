//! How the store is, as `/readyz` tells it: asked at most once in a while, however many want to know.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tollgate::AnswerError;

use crate::stopwatch::Stopwatch;
use crate::store::StoreState;

/// For as long as an answer of the store is told again. Each look writes to every server of the store, so a client could
/// otherwise have the service send as many writes as it likes.
const FRESH: Duration = Duration::from_millis(100);

/// The last look at the store.
#[derive(Default)]
pub(crate) struct Readiness(Mutex<Option<Look>>);

struct Look {
    began: Stopwatch,
    /// None until the store has answered.
    state: watch::Receiver<Option<StoreState>>,
}

impl Readiness {
    /// How the store is, by the last look at it or by another. A look goes on when those who wait for it are gone.
    pub(crate) async fn state(&self, look: impl Future<Output = StoreState> + Send + 'static) -> StoreState {
        let mut state = self.last_or(look);
        let state = state.wait_for(Option::is_some).await.ok().and_then(|state| state.clone());
        // Without an answer only if the look was cut short.
        state.unwrap_or_else(|| StoreState::Fails(AnswerError::Nonsense.into()))
    }

    fn last_or(
        &self,
        look: impl Future<Output = StoreState> + Send + 'static,
    ) -> watch::Receiver<Option<StoreState>> {
        // Nothing that is done under the lock leaves half of it undone.
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = last.as_ref().filter(|last| last.is_fresh()) {
            return last.state.clone();
        }
        let (answered, state) = watch::channel(None);
        *last = Some(Look { began: Stopwatch::start(), state: state.clone() });
        tokio::spawn(async move { answered.send_replace(Some(look.await)) });
        state
    }
}

impl Look {
    /// Whether it is under way, or was just now.
    fn is_fresh(&self) -> bool {
        let is_answered = self.state.borrow().is_some();
        // An error says that the look has ended, which without an answer it does only if it was cut short.
        if is_answered { self.began.elapsed() < FRESH } else { self.state.has_changed().is_ok() }
    }
}
