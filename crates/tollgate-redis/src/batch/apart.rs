//! Requests that are retried apart from their batch, because the server certainly did not run their call.
//!
//! The slot may have moved, or its server may not be known yet. Or the server may accept some of a call's keys but not
//! all of them together: while a slot of a Cluster moves, its keys are on two servers; a proxy in front of many shards
//! refuses calls for two of them; a user may lack the right to some keys. Then each set of keys gets its own call.

use std::collections::BTreeMap;
use std::sync::Arc;

use tollgate::StoreError;

use super::{CommitterInner, Deadlines, MergedRequests};
use crate::calls::Calls;
use crate::lane::{ApartCounters, Driver};
use crate::node::Node;
use crate::slot::ClusterSlot;
use crate::time::instant;
use crate::topology::Divisible;
use crate::trouble::{Refusal, Trouble};
use crate::waiter::WaitingRequest;

/// Requests of one call that are sent again: of one slot, and all of them steps on holds or none.
struct Retry {
    slot: ClusterSlot,
    entries: Vec<WaitingRequest>,
    /// The server that did not take them, and the reason.
    refused: Option<(Arc<Node>, Trouble)>,
}

/// Sends these requests again, those of each call separately. They stay in flight until they are answered, and for as
/// long as a server may have their calls.
pub(super) fn ask_apart(
    inner: &Arc<CommitterInner>,
    entries: Vec<WaitingRequest>,
    refused: Option<(&Arc<Node>, &Trouble)>,
    driver: &mut Driver,
) {
    let mut calls = BTreeMap::<(ClusterSlot, bool), Vec<WaitingRequest>>::new();
    for entry in entries {
        calls.entry((entry.slot, entry.request.hold.is_some())).or_default().push(entry);
    }
    for ((slot, _), entries) in calls {
        let under_way = driver.set_apart(entries.iter().map(WaitingRequest::counters).sum());
        let refused = refused.map(|(server, trouble)| (Arc::clone(server), trouble.clone()));
        tokio::spawn(take(Arc::clone(inner), Retry { slot, entries, refused }, Arc::new(under_way)));
    }
}

async fn take(inner: Arc<CommitterInner>, retry: Retry, under_way: Arc<ApartCounters>) {
    for retry in inner.take_retry(retry, &under_way).await {
        let (inner, under_way) = (Arc::clone(&inner), Arc::clone(&under_way));
        // A retry with one set of keys cannot be divided further.
        tokio::spawn(async move { inner.take_retry(retry, &under_way).await });
    }
}

impl CommitterInner {
    /// Makes one call of the requests and answers all their callers. If the server refuses the keys together but may
    /// accept some alone, it answers none of them and returns what to send separately.
    async fn take_retry(&self, retry: Retry, under_way: &Arc<ApartCounters>) -> Vec<Retry> {
        let Retry { slot, mut entries, refused } = retry;
        let Some(mut deadlines) = Deadlines::of(&entries, self.timeout) else { return vec![] };
        let (merged, sent) = (MergedRequests::new(&entries), instant());
        debug_assert_eq!(merged.parts(), 1, "what is not sent here would never be answered");
        let divisible = if merged.has_one_set_of_keys(&entries) { Divisible::No } else { Divisible::Yes };
        let mut call = Calls::default();
        call.hold(under_way.clone());
        merged.encode(0, &entries, None, &mut call);
        let (topology, last) = (&self.topology, deadlines.last());
        let replied = async {
            match refused {
                // If the server has lost the script, it is loaded again.
                None | Some((_, Trouble::Refused(Refusal::NoScript))) => {
                    topology.call(slot, &call, divisible, last).await
                }
                Some((server, trouble)) => {
                    topology.call_again(slot, &call, divisible, last, server, trouble).await
                }
            }
        };
        match deadlines.in_time(&mut entries, replied, || Trouble::TimedOut).await {
            None => {}
            Some(Ok((reply, server))) => merged.answer(0, &mut entries, reply, &server, sent),
            Some(Err(trouble)) if divisible == Divisible::Yes && trouble.may_be_of_some_keys() => {
                return divide(slot, entries);
            }
            Some(Err(trouble)) => {
                let error = StoreError::from(trouble);
                entries.iter_mut().for_each(|entry| entry.waiter.answer(Err(error.clone())));
            }
        }
        vec![]
    }
}

/// One retry for each set of keys.
fn divide(slot: ClusterSlot, entries: Vec<WaitingRequest>) -> Vec<Retry> {
    let mut sets = BTreeMap::<_, Vec<WaitingRequest>>::new();
    for entry in entries {
        sets.entry(entry.request.keys.clone()).or_default().push(entry);
    }
    sets.into_values().map(|entries| Retry { slot, entries, refused: None }).collect()
}
