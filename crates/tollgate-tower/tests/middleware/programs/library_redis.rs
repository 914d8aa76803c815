use tollgate::{Quota, SharedLimiter};
use tollgate_redis::RedisStore;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = RedisStore::builder("redis://127.0.0.1".parse()?).prefix("shop").build()?;
    let limiter = SharedLimiter::new(Quota::per_minute(2), store);
    println!("allowed: {}", limiter.check("alice").await?.is_allowed());
    Ok(())
}
