//! `cargo run --package tollgate --example hammer`: Hammer's calls, each with the call that replaces it.

use std::error::Error;
use std::fmt;
use std::thread::sleep;
use std::time::Duration;

use tollgate::{Clock, CountDenied, Decision, Full, Limiter, MemoryStore, NamedCounter, PolicyQuota, Quota};

/// As `use Hammer, backend: :atomic` and `start_link(before_clean: ..)`.
fn main() -> Result<(), Box<dyn Error>> {
    let store =
        MemoryStore::builder().build_with_hook(1_000, |counter| println!("{}", before_clean(counter)))?;
    for line in calls(store.clone())? {
        println!("{line}");
    }
    // The hook is told within a second or two of the window's end, unless the store is dropped before.
    sleep(Duration::from_secs(5));
    drop(store);
    Ok(())
}

/// Each call, and what it answers.
pub(crate) fn calls<C: Clock>(store: MemoryStore<C>) -> Result<Vec<String>, Box<dyn Error>> {
    let per_second = PolicyQuota::new("called", Quota::new(2, Duration::from_secs(1))?);
    // It counts what it denies; without this, a denial takes nothing.
    let quota = Quota::new(10, Duration::from_secs(2))?;
    let api = Limiter::builder("api").quota(quota).count_denied(CountDenied::Yes).build(store)?;
    Ok(vec![
        format!("hit(alice, 2_000, 10)         {}", hit(&api, 1)?),
        format!("hit(alice, 2_000, 10, 8)      {}", hit(&api, 8)?),
        format!("get(alice, 2_000)             {}", api.peek("alice")?.used()),
        format!("hit(alice, 2_000, 10, 3)      {}", hit(&api, 3)?),
        format!("get(alice, 2_000)             {}", api.peek("alice")?.used()),
        format!("set(alice, 2_000, 4)          {}", api.set("alice", 4)?[0].used()),
        format!("inc(alice, 2_000, 5)          {}", api.record("alice", 5)?[0].used()),
        format!("hit(alice, 2_000, 10, 0)      {}", hit(&api, 0)?),
        format!("expires_at(alice, 2_000)      {}", expires_at(&api)),
        // Limit and scale in the call, on a counter of their own.
        format!("hit(bob, 1_000, 2)            {}", Hit::of(&api.under(&per_second).check("bob")?)),
        format!("set(alice, 2_000, 0)          {}", api.set("alice", 0)?[0].used()),
        format!("expires_at(alice, 2_000)      {}", expires_at(&api)),
        format!("hit(alice, 2_000, 10, 7)      {}", hit(&api, 7)?),
    ])
}

/// What `hit` answers.
enum Hit {
    Allow(u64),
    Deny(u128),
}

fn hit<C: Clock>(limiter: &Limiter<C>, increment: u32) -> Result<Hit, Full> {
    Ok(Hit::of(&limiter.check_cost("alice", increment)?))
}

/// In milliseconds of the Unix epoch; 0 where nothing counts.
fn expires_at<C: Clock>(limiter: &Limiter<C>) -> i64 {
    limiter.window_end("alice").map_or(0, |end| end.as_unix_millis())
}

/// Its hook gets a list; this one gets each counter. One that fails is called for the next all the same.
pub(crate) fn before_clean(NamedCounter { policy, used, reset_at, .. }: NamedCounter) -> String {
    format!("before_clean: a key of `{policy}` had {used} until {}", reset_at.as_unix_millis())
}

impl Hit {
    fn of(decision: &Decision<'_>) -> Self {
        if decision.is_allowed() {
            return Self::Allow(decision.used());
        }
        // An increment above the limit can never pass, and has no time to wait; Hammer says to wait all the same.
        Self::Deny(decision.retry_after().unwrap_or(decision.reset_after()).as_millis())
    }
}

impl fmt::Display for Hit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Allow(count) => write!(f, "{{:allow, {count}}}"),
            Self::Deny(wait) => write!(f, "{{:deny, {wait}}}"),
        }
    }
}
