use tollgate::{Full, Limiter, Quota};

fn main() -> Result<(), Full> {
    let limiter = Limiter::new(Quota::per_day(1_000));

    let decision = limiter.check_cost("alice", 400)?;
    if !decision.is_allowed() {
        println!("denied, {} left", decision.remaining());
        return Ok(());
    }
    let mut receipt = decision.into_receipt();

    let answer = "the work, done";
    limiter.settle(&mut receipt, answer.len() as u32)?;
    println!("{} left", limiter.peek("alice")?.remaining());
    Ok(())
}
