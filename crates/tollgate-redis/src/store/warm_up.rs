//! A store that is warm before it is used.

use std::sync::Arc;
use std::time::Duration;

use smallvec::smallvec;
use tokio::time::sleep;
use tollgate::{Charge, PolicyQuota, Quota, StoreError};

use super::RedisStore;
use crate::calls::Calls;
use crate::error::RedisError;
use crate::named_charges::{CounterOperation, NamedCharges};
use crate::script::{self, Group};
use crate::settings::LONGEST;
use crate::time::{Instant, instant};

/// How soon a store that has not answered is tried again.
const AGAIN: Duration = Duration::from_millis(10);

impl RedisStore {
    /// Waits until each server has answered a step over each of its connections, or this time is up; at most a day.
    ///
    /// A store connects in the background. Until its first attempt has succeeded or failed, decisions wait for that,
    /// each for its own deadline. A service that waits here before it says that it is ready has no such decisions. The
    /// step is a look at a counter that nobody uses, and writes nothing.
    ///
    /// # Errors
    ///
    /// What was in the way last, once the time is up. The store goes on to connect.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use tollgate_redis::RedisStore;
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let store = RedisStore::builder("redis://127.0.0.1".parse()?).build()?;
    /// if let Err(error) = store.warm_up(Duration::from_millis(500)).await {
    ///     eprintln!("the store does not answer yet: {error}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn warm_up(&self, time: Duration) -> Result<(), StoreError> {
        let deadline = instant() + time.min(LONGEST);
        loop {
            match self.step_on_each_connection(deadline).await {
                Ok(()) => return Ok(()),
                Err(error) if instant() + AGAIN >= deadline => {
                    return Err(error.at(Arc::clone(&self.0.place)));
                }
                Err(_) => sleep(AGAIN).await,
            }
        }
    }

    async fn step_on_each_connection(&self, deadline: Instant) -> Result<(), StoreError> {
        let (topology, names) = (self.topology(), &self.0.names);
        topology.primaries(deadline).await?;
        // A name that no policy of a user's can have.
        let quota = PolicyQuota::new("tollgate warm-up", Quota::per_second(u32::MAX));
        for key in self.key_on_each_server(&quota) {
            let charges = [Charge::new(&quota, &key, 0)];
            let named = NamedCharges::new(&charges, names);
            let (request, _) =
                named.request(CounterOperation::Look, names, || topology.time_at(instant()))?;
            let server = topology.server(self.0.slots.slot(&request)?).ok_or(RedisError::NotReady)?;
            let (shapes, requests) = (&request.shapes[..], smallvec![&request.keys[..]]);
            let group = Group { shapes, before: None, times: 1, requests };
            let mut call = Calls::default();
            script::encode(&[group], None, &mut call);
            server.warm_up(&call, deadline).await?;
        }
        Ok(())
    }
}
