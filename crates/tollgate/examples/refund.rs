//! `cargo run --package tollgate --example refund`: take the most it can cost, give back what it did not.

use tollgate::{Limiter, Quota, StoreError};

/// What the largest answer may have.
const MOST: u32 = 400;

fn main() -> Result<(), StoreError> {
    let limiter = Limiter::new(Quota::per_day(1_000));
    let decision = limiter.check_cost("alice", MOST)?;
    if !decision.is_allowed() {
        println!("denied: {} left", decision.remaining());
        return Ok(());
    }
    println!("{MOST} taken: {} left", decision.remaining());

    let cost = answer().len() as u32;
    // In the window that was charged, or nowhere if it has closed meanwhile.
    let refunded = limiter.refund("alice", MOST - cost, &decision)?;
    println!(
        "it cost {cost}, {} given back: {} left",
        refunded[0].given(),
        limiter.peek("alice")?.remaining()
    );
    Ok(())
}

/// Work whose cost is known once it is done.
fn answer() -> &'static str {
    "the answer"
}
