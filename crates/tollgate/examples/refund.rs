//! `cargo run --package tollgate --example refund`: charge the highest cost, and give back the rest.

use tollgate::{Full, Limiter, Quota};

/// What the largest answer may have.
const MOST: u32 = 400;

fn main() -> Result<(), Full> {
    let limiter = Limiter::new(Quota::per_day(1_000));
    let decision = limiter.check_cost("alice", MOST)?;
    if !decision.is_allowed() {
        println!("denied: {} left", decision.remaining());
        return Ok(());
    }
    println!("{MOST} taken: {} left", decision.remaining());

    let cost = answer().len() as u32;
    // In the window that was charged, or nowhere if it has closed meanwhile.
    let refunded = limiter.refund_units(&mut decision.into_receipt(), MOST - cost);
    println!(
        "it cost {cost}, {} given back: {} left",
        refunded[0].units(),
        limiter.peek("alice")?.remaining()
    );
    Ok(())
}

/// Work whose cost is known once it is done.
fn answer() -> &'static str {
    "the answer"
}
