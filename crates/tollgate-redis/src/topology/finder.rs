//! A background search for the topology, one attempt at a time.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use crate::backoff::Backoff;
use crate::time::instant;
use crate::trouble::{Trouble, Unconnected};

/// The last result, and a task that searches again on request and periodically.
pub(super) struct Finder<T> {
    shared: Arc<Shared<T>>,
    _task: JoinSet<()>,
}

struct Shared<T> {
    latest: watch::Sender<Latest<T>>,
    again: Arc<Notify>,
}

struct Latest<T> {
    /// Stays when later attempts fail: it may still be right.
    found: Option<T>,
    /// Why the last attempt failed.
    trouble: Option<Unconnected>,
    attempts: u64,
    /// The time before which there is no other attempt.
    due: Instant,
}

/// Searches once.
pub(super) trait Find: Send + Sync + 'static {
    type Found: Clone + Send + Sync;

    /// Returns how long a result is considered valid; `None` until a new search is requested.
    fn keeps(&self) -> Option<Duration>;

    fn find(&self) -> impl Future<Output = Result<Self::Found, Unconnected>> + Send;
}

impl<T: Clone + Send + Sync + 'static> Finder<T> {
    /// Starts to search, and never waits.
    pub(super) fn start(search: Arc<impl Find<Found = T>>) -> Self {
        let none = Latest { found: None, trouble: None, attempts: 0, due: instant() };
        let shared = Arc::new(Shared { latest: watch::Sender::new(none), again: Arc::default() });
        let mut task = JoinSet::new();
        task.spawn(look(shared.clone(), search));
        Self { shared, _task: task }
    }

    /// Returns the result. Waits only for the first attempt.
    pub(super) async fn found(&self, deadline: Instant) -> Result<T, Trouble> {
        match self.found_already() {
            Some(found) => Ok(found),
            // In a box, as all that calls hardly ever wait for: each call is as large as what it may wait for.
            None => Box::pin(self.found_first(deadline)).await,
        }
    }

    async fn found_first(&self, deadline: Instant) -> Result<T, Trouble> {
        let mut latest = self.shared.latest.subscribe();
        let settled = latest.wait_for(|latest| latest.found.is_some() || latest.trouble.is_some());
        let Ok(Ok(latest)) = timeout_at(deadline, settled).await else { return Err(Trouble::Late) };
        match (&latest.found, &latest.trouble) {
            (Some(found), _) => Ok(found.clone()),
            (None, Some(trouble)) => Err(trouble.clone().into()),
            (None, None) => Err(Trouble::Late),
        }
    }

    pub(super) fn found_already(&self) -> Option<T> {
        self.with_found(|found| found.cloned())
    }

    /// Returns the last result, if there is one.
    pub(super) fn with_found<R>(&self, read: impl FnOnce(Option<&T>) -> R) -> R {
        read(self.shared.latest.borrow().found.as_ref())
    }

    /// Why the last attempt failed, if it did.
    pub(super) fn trouble(&self) -> Option<Unconnected> {
        self.shared.latest.borrow().trouble.clone()
    }

    /// Requests another search, soon.
    pub(super) fn look_again(&self) {
        self.shared.again.notify_one();
    }

    /// Has it looked for again when it is notified.
    pub(super) fn again(&self) -> Arc<Notify> {
        Arc::clone(&self.shared.again)
    }

    /// Has it looked for again, and waits for that; not if that does not begin before the deadline. So while nothing
    /// can be found, one call in a while waits, and the others fail immediately.
    pub(super) async fn found_anew(&self, deadline: Instant) -> Option<T> {
        let mut latest = self.shared.latest.subscribe();
        let (attempts, due) = {
            let latest = latest.borrow();
            (latest.attempts, latest.due)
        };
        self.look_again();
        if due >= deadline {
            return None;
        }
        let attempted = latest.wait_for(|latest| latest.attempts > attempts);
        let Ok(Ok(latest)) = timeout_at(deadline, attempted).await else { return None };
        latest.found.clone()
    }
}

async fn look<F: Find>(shared: Arc<Shared<F::Found>>, search: Arc<F>) {
    let mut backoff = Backoff::default();
    loop {
        backoff.begin();
        let found = search.find().await;
        if found.is_ok() {
            backoff.succeeded();
        }
        let (is_lost, due) = (found.is_err(), backoff.due());
        shared.latest.send_modify(|latest| {
            latest.attempts += 1;
            latest.due = due;
            match found {
                Ok(found) => (latest.found, latest.trouble) = (Some(found), None),
                Err(trouble) => latest.trouble = Some(trouble),
            }
        });
        if !is_lost {
            // Whether the time is up or somebody wants to know, it is looked for again.
            match search.keeps() {
                Some(time) => drop(timeout(time, shared.again.notified()).await),
                None => shared.again.notified().await,
            }
        }
        sleep_until(due).await;
    }
}
