use tollgate::{HoldKeeper, Limiter, Quota};
use tollgate_redis::RedisStore;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (keeper, task) = HoldKeeper::new(tokio::time::sleep);
    tokio::spawn(task);
    let store = RedisStore::builder("redis://127.0.0.1".parse()?).prefix("shop").build()?;
    let tokens = Limiter::builder("tokens").quota(Quota::per_day(1_000));
    let tokens = tokens.build_shared_in_flight("2~in_flight:30s".parse()?, store, &keeper)?;

    let decision = tokens.hold_cost("alice", 400).await?;
    if !decision.is_allowed() {
        println!("denied, because {:?}", decision.reason());
        return Ok(());
    }
    let hold = decision.into_hold().ok_or("an allowed request has a hold")?;

    let answer = "the work, done";
    hold.settle(answer.len() as u32).await?;
    println!("{:?} left", tokens.peek("alice", 1).await?.quotas().map(|quotas| quotas.remaining()));
    Ok(())
}
