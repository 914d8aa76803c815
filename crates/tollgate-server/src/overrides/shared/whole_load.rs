//! All overrides of the store: one thread compiles pages while the next ones are read.
//!
//! So the records of a million are never in memory at once, and no request waits until as many are compiled or freed.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task;
use tollgate::StoreError;
use tollgate_policy::PolicyLimiter;
use tollgate_redis::{RecordsPage, SharedRecords, WholeRecords};

use crate::overrides::paged_load::PagedLoad;
use crate::overrides::text::UnknownName;
use crate::store::ServedStore;

/// How many pages may wait to be compiled.
const WAITING: usize = 4;

/// All overrides, which are live.
pub(super) struct WholeLoad {
    pub(super) whole: WholeRecords,
    /// A record that is no override, if there is one.
    pub(super) foreign: Option<UnknownName>,
}

impl WholeLoad {
    /// Reads all overrides and makes them live. Each page may take so long.
    pub(super) async fn read(
        records: &SharedRecords,
        limiter: &Arc<PolicyLimiter<ServedStore>>,
        within: Duration,
    ) -> Result<Self, StoreError> {
        let (sender, pages) = mpsc::channel(WAITING);
        let limiter = Arc::clone(limiter);
        let compiling = task::spawn_blocking(move || put_live(&limiter, pages));
        let mut loading = records.loading();
        loop {
            let page = loading.next(within).await?;
            let is_last = matches!(page, RecordsPage::End(_));
            if sender.send(page).await.is_err() || is_last {
                break;
            }
        }
        // A panic there is a bug of ours: nothing has changed, and the next read loads again.
        let live = compiling.await.map_err(StoreError::trouble)?;
        live.ok_or_else(|| StoreError::trouble(io::Error::other("the overrides were not compiled")))
    }
}

/// Compiles the pages, and makes the overrides live after the last one. `None` if it does not come.
fn put_live(
    limiter: &PolicyLimiter<ServedStore>,
    mut pages: mpsc::Receiver<RecordsPage>,
) -> Option<WholeLoad> {
    let live = limiter.live();
    let mut load = PagedLoad::new(live.overrides(), live.policies());
    let whole = loop {
        if let Some(whole) = load.apply(pages.blocking_recv()?) {
            break whole;
        }
    };
    let (overrides, foreign) = load.finish(whole.state.version());
    // Other policies may be live by now.
    limiter.replace_overrides(|_, policies| overrides.for_policies(policies));
    Some(WholeLoad { whole, foreign })
}
