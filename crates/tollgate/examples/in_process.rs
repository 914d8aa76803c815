//! `cargo run --package tollgate --example in_process`: five a minute, and how the sixth is denied.

use tollgate::{Full, Limiter, Quota, whole_seconds};

fn main() -> Result<(), Full> {
    let limiter = Limiter::new(Quota::per_minute(5));
    for request in 1..=6 {
        let decision = limiter.check("alice")?;
        match decision.retry_after() {
            None => println!("request {request}: allowed, {} left", decision.remaining()),
            Some(wait) => println!("request {request}: denied, retry in {} s", whole_seconds(wait)),
        }
    }
    println!("bob has {} left", limiter.peek("bob")?.remaining());
    Ok(())
}
