//! A background search for the topology, one attempt at a time.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use crate::backoff::Backoff;
use crate::time::instant;
use crate::trouble::{ConnectTrouble, Trouble};

/// The last result, and a task that searches again on request and periodically.
pub(super) struct Finder<T> {
    shared: Arc<FinderState<T>>,
    _task: JoinSet<()>,
}

struct FinderState<T> {
    latest: watch::Sender<Latest<T>>,
    again: Arc<Notify>,
}

struct Latest<T> {
    /// Stays when later attempts fail: it may still be right.
    found: Option<T>,
    /// Why the last attempt failed.
    trouble: Option<ConnectTrouble>,
    /// How many searches have begun.
    begun: u64,
    /// How many have ended.
    ended: u64,
    /// Before then no other search begins.
    due: Instant,
}

/// Searches once.
pub(super) trait Find: Send + Sync + 'static {
    type Found: Clone + Send + Sync;

    /// Returns how long a result is considered valid; `None` until a new search is requested.
    fn keeps(&self) -> Option<Duration>;

    fn find(&self) -> impl Future<Output = Result<Self::Found, ConnectTrouble>> + Send;
}

impl<T: Clone + Send + Sync + 'static> Finder<T> {
    /// Starts to search, and never waits.
    pub(super) fn start(search: Arc<impl Find<Found = T>>) -> Self {
        let none = Latest { found: None, trouble: None, begun: 0, ended: 0, due: instant() };
        let shared = Arc::new(FinderState { latest: watch::Sender::new(none), again: Arc::default() });
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
    pub(super) fn trouble(&self) -> Option<ConnectTrouble> {
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

    /// Requests another search, and returns what `pick` finds in its result. A running search may have the
    /// answer as well. But that it has none says nothing, because it may have been answered before the change.
    ///
    /// Waits for no search that does not begin before the deadline. So while nothing is to be found, one call in a
    /// while waits, and the others fail at once.
    pub(super) async fn found_anew<R>(&self, deadline: Instant, pick: impl Fn(&T) -> Option<R>) -> Option<R> {
        let (begun, ended) = {
            let latest = self.shared.latest.borrow();
            (latest.begun, latest.ended)
        };
        self.look_again();
        if begun > ended
            && let Some(picked) = self.after(begun, deadline, &pick).await
        {
            return Some(picked);
        }
        if self.shared.latest.borrow().due >= deadline {
            return None;
        }
        self.after(begun + 1, deadline, &pick).await
    }

    /// Waits for the end of this search, and returns what `pick` finds in the result that there is then.
    async fn after<R>(&self, search: u64, deadline: Instant, pick: &impl Fn(&T) -> Option<R>) -> Option<R> {
        let mut latest = self.shared.latest.subscribe();
        let ended = latest.wait_for(|latest| latest.ended >= search);
        let Ok(Ok(latest)) = timeout_at(deadline, ended).await else { return None };
        latest.found.as_ref().and_then(pick)
    }
}

async fn look<F: Find>(shared: Arc<FinderState<F::Found>>, search: Arc<F>) {
    let mut backoff = Backoff::default();
    loop {
        backoff.begin();
        // No caller waits for the first search.
        shared.latest.send_if_modified(|latest| {
            latest.begun += 1;
            false
        });
        let found = search.find().await;
        if found.is_ok() {
            backoff.succeeded();
        }
        let (is_lost, due) = (found.is_err(), backoff.due());
        shared.latest.send_modify(|latest| {
            latest.ended += 1;
            latest.due = due;
            match found {
                Ok(found) => (latest.found, latest.trouble) = (Some(found), None),
                Err(trouble) => latest.trouble = Some(trouble),
            }
        });
        if !is_lost {
            // It is looked for again if the time is up or a caller waits.
            match search.keeps() {
                Some(time) => drop(timeout(time, shared.again.notified()).await),
                None => shared.again.notified().await,
            }
        }
        sleep_until(due).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use tokio::time::sleep;

    use super::*;

    /// Searches that take a while. Whatever holds when a search begins is what it finds.
    #[derive(Default)]
    struct Slow {
        holds: AtomicU64,
    }

    /// Longer than there is between two of them.
    const TAKES: Duration = Duration::from_millis(200);

    impl Find for Slow {
        type Found = u64;

        fn keeps(&self) -> Option<Duration> {
            None
        }

        async fn find(&self) -> Result<u64, ConnectTrouble> {
            let found = self.holds.load(Relaxed);
            sleep(TAKES).await;
            Ok(found)
        }
    }

    async fn anew(finder: &Finder<u64>, old: u64, patience: Duration) -> Option<u64> {
        finder.found_anew(instant() + patience, |found| Some(*found).filter(|found| *found != old)).await
    }

    /// A caller whose server refused as a replica was satisfied by a search that had begun before the switch.
    #[tokio::test(start_paused = true)]
    async fn a_search_that_began_before_the_refusal_does_not_answer_it() {
        let search = Arc::new(Slow::default());
        let finder = Finder::start(search.clone());
        assert_eq!(finder.found(instant() + TAKES * 2).await, Ok(0));
        finder.look_again();
        // The second search is running.
        sleep(TAKES / 2).await;
        search.holds.store(1, Relaxed);
        assert_eq!(anew(&finder, 0, Duration::from_secs(1)).await, Some(1));
    }
}
