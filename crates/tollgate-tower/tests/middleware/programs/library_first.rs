use tollgate::{Full, Limiter, Quota};

fn main() -> Result<(), Full> {
    let limiter = Limiter::new(Quota::per_minute(2));
    for _ in 0..3 {
        let decision = limiter.check("alice")?;
        match decision.retry_after() {
            None => println!("allowed, {} left", decision.remaining()),
            Some(wait) => println!("denied, come back in {wait:?}"),
        }
    }
    Ok(())
}
