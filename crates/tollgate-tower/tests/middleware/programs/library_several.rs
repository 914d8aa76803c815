use tollgate::{Limiter, MemoryStore, Quota};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let builder = Limiter::builder("search").quota(Quota::per_second(2)).quota(Quota::per_day(1_000));
    let limiter = builder.build(MemoryStore::new())?;
    let decision = limiter.check("alice")?;
    println!("{} left of {}", decision.remaining(), decision.quota());
    Ok(())
}
