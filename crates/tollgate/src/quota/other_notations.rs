//! Buckets in the notations of nginx and redis-cell.
//!
//! Both count the burst beyond the first request: a bucket of theirs holds one unit more than they write.

use super::{MINUTE, Quota, QuotaError, QuotaErrorKind, SECOND};

/// Reads `10r/s`, `rate=10r/s` or `rate=10r/s burst=20 nodelay` of nginx's `limit_req`.
///
/// Without a burst, nginx admits one request in each tenth of a second here. Without `nodelay`, it delays the requests of
/// a burst, which Tollgate does not.
pub(super) fn nginx(text: &str) -> Option<Result<Quota, QuotaError>> {
    let (rate, options) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
    let (limit, unit) = rate.strip_prefix("rate=").unwrap_or(rate).split_once("r/")?;
    let limit = number(limit)?;
    let window = match unit {
        "s" => SECOND,
        "m" => MINUTE,
        _ => return None,
    };
    let (mut burst, mut is_undelayed) = (None, false);
    for option in options.split_whitespace() {
        match option.split_once('=') {
            Some(("burst", written)) => burst = Some(number(written)?),
            None if option == "nodelay" => is_undelayed = true,
            _ => return None,
        }
    }
    if burst.is_some_and(|burst| burst > 0) && !is_undelayed {
        return Some(Err(QuotaError::in_text(QuotaErrorKind::Delayed, text, 0..text.len())));
    }
    Some(bucket(limit, window, burst.unwrap_or(0)))
}

/// Reads `CL.THROTTLE key max_burst count period` of redis-cell, with or without a quantity of 1.
pub(super) fn cl_throttle(text: &str) -> Option<Result<Quota, QuotaError>> {
    let mut words = text.split_whitespace();
    words.next().filter(|name| name.eq_ignore_ascii_case("cl.throttle"))?;
    let (_key, max_burst, count, seconds) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let quantity = words.next().unwrap_or("1");
    if quantity != "1" || words.next().is_some() {
        return None;
    }
    Some(bucket(number(count)?, number(seconds)?.saturating_mul(SECOND), number(max_burst)?))
}

/// A bucket of theirs, which holds one unit more than their burst.
fn bucket(limit: u64, window: u64, burst: u64) -> Result<Quota, QuotaError> {
    Quota::from_millis(limit, window)?.with_burst(Some(burst.saturating_add(1)))
}

fn number(digits: &str) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().unwrap_or(u64::MAX))
}
