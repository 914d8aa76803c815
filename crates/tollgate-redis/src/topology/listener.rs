//! Listens to a sentinel for a new primary.
//!
//! Announcements are not read: an unsolicited message ends the connection. It is set up again, and the sentinel is
//! asked for the primary, as after any other end. So no announcement is missed in between either.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::sleep;

use super::primary_search::PrimarySearch;
use crate::address::Address;
use crate::backoff::Backoff;
use crate::node::Subscription;
use crate::trouble::ConnectTrouble;

/// The channels on which a sentinel announces a new primary, after a failover or a change of its configuration.
const CHANNELS: [&str; 2] = ["+switch-master", "+monitor"];

/// The time between a failed attempt to listen and the next one.
const RETRY: Duration = Duration::from_secs(1);

/// The same if the sentinel refuses.
const RETRY_REFUSED: Duration = Duration::from_secs(30);

/// Listens to a sentinel for ever. Whenever it may have another primary, it is looked for `again`, there first.
pub(super) async fn listen(sentinel: Address, search: Arc<PrimarySearch>, again: Arc<Notify>) {
    let mut backoff = Backoff::default();
    loop {
        backoff.wait().await;
        let mut subscription = match Subscription::open(&sentinel, &search.checked, &CHANNELS).await {
            Ok(subscription) => subscription,
            Err(trouble) => {
                let refused = matches!(trouble, ConnectTrouble::NoRight(_) | ConnectTrouble::NotReady(_));
                sleep(if refused { RETRY_REFUSED } else { RETRY }).await;
                continue;
            }
        };
        backoff.succeeded();
        let listening = search.listens();
        // What was announced before is not announced again. But this sentinel is not asked before the others: it may
        // have been cut off together with an old primary.
        again.notify_one();
        subscription.ended(search.checked.settings.connect_timeout).await;
        drop(listening);
        search.ask_first(&sentinel);
        again.notify_one();
    }
}
