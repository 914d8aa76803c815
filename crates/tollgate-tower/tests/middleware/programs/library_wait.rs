use tollgate::{Limiter, Quota, Waiters};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let waiters = Waiters::new(Limiter::new(Quota::per_second(2)), tokio::time::sleep);
    for _ in 0..5 {
        let decision = waiters.until_allowed("alice").await?;
        println!("allowed: {}", decision.is_allowed());
    }
    Ok(())
}
