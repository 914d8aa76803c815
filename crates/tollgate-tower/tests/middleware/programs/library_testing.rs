use std::time::Duration;

use tollgate::testing::{assert_allowed, assert_denied, limiter};
use tollgate::{Full, Quota};

#[test]
fn the_second_of_one_a_minute_waits() -> Result<(), Full> {
    let (limiter, clock) = limiter(Quota::per_minute(1));
    assert_allowed(&limiter.check("alice")?);
    assert_denied(&limiter.check("alice")?);
    clock.advance(Duration::from_secs(60));
    assert_allowed(&limiter.check("alice")?);
    Ok(())
}
