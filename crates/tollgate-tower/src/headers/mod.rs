//! The headers that tell a client its limits, allowed or denied.
//!
//! The service and the middleware write them here. A client reads of each quota how much is left, and when it
//! starts anew:
//!
//! | [`HeaderFormat`] | headers | when a window starts anew |
//! |---|---|---|
//! | `draft-11` | `RateLimit-Policy: "search";q=30;w=60`, `RateLimit: "search";r=29;t=42` | in so many seconds |
//! | `draft-06` | `RateLimit-Limit: 30`, `RateLimit-Remaining: 29`, `RateLimit-Reset: 42`, `RateLimit-Policy: 30;w=60` | in so many seconds |
//! | `x-ratelimit` | `X-RateLimit-Limit: 30`, `X-RateLimit-Remaining: 29`, `X-RateLimit-Reset: 1795246962` | at that second of the Unix epoch |
//! | `none` | none | |
//!
//! The first two follow versions of draft-ietf-httpapi-ratelimit-headers, which may still change, so neither is a
//! standard; the third is a convention of many services. Where several quotas hold, `draft-11` lists them all, and
//! the others tell of the one that decided. A denial has `Retry-After` in every format. Whole seconds are rounded up.
//!
//! ```
//! use std::time::Duration;
//! use http::HeaderMap;
//! use tollgate::{Limiter, ManualClock, MemoryStore, Quota};
//! use tollgate_tower::headers::{HeaderFormat, LimitHeaders};
//!
//! let clock = ManualClock::default();
//! let store = MemoryStore::builder().clock(clock.clone()).build();
//! let limiter = Limiter::builder("search").quota(Quota::per_minute(1)).build(store)?;
//! let limit_headers = LimitHeaders::new(HeaderFormat::Draft11, limiter.quotas());
//! clock.advance(Duration::from_millis(17_500));
//!
//! let mut headers = HeaderMap::new();
//! limit_headers.write(limiter.check("alice")?.quotas(), &mut headers);
//! assert_eq!(headers["ratelimit-policy"], r#""search";q=1;w=60"#);
//! assert_eq!(headers["ratelimit"], r#""search";r=0;t=43"#);
//!
//! limit_headers.write(limiter.check("alice")?.quotas(), &mut headers);
//! assert_eq!(headers["retry-after"], "43");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod draft_06;
mod draft_11;
mod limit_headers;
mod name;
#[cfg(feature = "policy")]
mod policies;
mod text;
mod x_ratelimit;

use http::HeaderName;
pub use tollgate::{HeaderFormat, UnknownFormat};

pub use self::limit_headers::LimitHeaders;
pub use self::name::quota_names;
#[cfg(feature = "policy")]
pub use self::policies::PolicyHeaders;

/// Says that a decision did not come from the store: `local` or `fallback`.
pub const TOLLGATE_SOURCE: HeaderName = HeaderName::from_static("tollgate-source");

/// The names of all headers that may come in this format, as `Access-Control-Expose-Headers` lists them: without it, a
/// script of another origin cannot read them.
pub(crate) const fn exposed(format: HeaderFormat) -> &'static str {
    match format {
        HeaderFormat::Draft11 => "RateLimit-Policy, RateLimit, Retry-After",
        HeaderFormat::Draft06 => {
            "RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset, RateLimit-Policy, Retry-After"
        }
        HeaderFormat::XRateLimit => {
            "X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, Retry-After"
        }
        _ => "Retry-After",
    }
}
