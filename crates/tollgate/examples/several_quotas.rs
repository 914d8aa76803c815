//! `cargo run --package tollgate --example several_quotas`: a short quota and a long one, all or nothing.

use std::error::Error;
use std::time::Duration;

use tollgate::{Limiter, ManualClock, MemoryStore, Quota};

fn main() -> Result<(), Box<dyn Error>> {
    // A clock that stands still until it is moved, so that the example need not wait.
    let clock = ManualClock::default();
    let limiter = Limiter::builder("search")
        .quota(Quota::per_second(2))
        .quota(Quota::per_minute(3))
        .build(MemoryStore::builder().clock(clock.clone()).build())?;

    for second in 0..2 {
        println!("second {second}");
        for _ in 0..3 {
            let decision = limiter.check("alice")?;
            let verdict = if decision.is_allowed() { "allowed" } else { "denied" };
            let [short, long] = &**decision.quotas() else { continue };
            println!(
                "  {verdict}: {} left in the second, {} in the minute",
                short.remaining(),
                long.remaining()
            );
        }
        clock.advance(Duration::from_secs(1));
    }
    Ok(())
}
