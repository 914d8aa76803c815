//! Limit headers, for allowed and denied requests.
//!
//! The service and the middleware write them here; `Tollgate-Trials`, which is for proxies, comes from the service
//! alone. Limit headers tell clients how much is left, and when the next window starts:
//!
//! | [`HeaderFormat`] | headers | start of the next window |
//! |---|---|---|
//! | `draft-11` | `RateLimit-Policy: "search";q=30;w=60`, `RateLimit: "search";r=29;t=42` | in this many seconds |
//! | `draft-06` | `RateLimit-Limit: 30`, `RateLimit-Remaining: 29`, `RateLimit-Reset: 42`, `RateLimit-Policy: 30;w=60` | in this many seconds |
//! | `x-ratelimit` | `X-RateLimit-Limit: 30`, `X-RateLimit-Remaining: 29`, `X-RateLimit-Reset: 1795246962` | at that second of the Unix epoch |
//! | `github` | as `x-ratelimit`, `X-RateLimit-Used: 1`, `X-RateLimit-Resource: search` | at that second of the Unix epoch |
//! | `kong` | `X-RateLimit-Limit-Minute: 30`, `X-RateLimit-Remaining-Minute: 29`, and so on for each unit; `RateLimit-Limit: 30`, `RateLimit-Remaining: 29`, `RateLimit-Reset: 42` | in this many seconds |
//! | `envoy` | `X-RateLimit-Limit: 30, 30;w=60;name="search"`, `X-RateLimit-Remaining: 29`, `X-RateLimit-Reset: 42`; with a denial `X-Envoy-RateLimited: true` | in this many seconds |
//! | `none` | none | |
//!
//! The first two follow versions of draft-ietf-httpapi-ratelimit-headers, which may still change, so neither is a
//! standard; `x-ratelimit` is a convention of many services, and the formats below it are those of these systems. If
//! several quotas apply, `draft-11` lists them all, and the others describe the one that decided; `envoy` also lists
//! all limits, and `kong` has headers for each quota of a second, minute, hour, day, month or year. A denial has
//! `Retry-After` in every format. Whole seconds are rounded up.
//!
//! [Several formats](HeaderFormats) can be sent together while clients migrate, unless a header of the same name
//! differs between them.
//!
//! ```
//! use std::time::Duration;
//! use http::HeaderMap;
//! use tollgate::{Limiter, ManualClock, MemoryStore, Quota};
//! use tollgate_wire::headers::{HeaderFormat, LimitHeaders};
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
mod envoy;
mod github;
mod kong;
mod limit_headers;
mod name;
#[cfg(feature = "policy")]
mod policies;
mod quota_policy;
mod text;
mod x_ratelimit;

use http::{HeaderName, HeaderValue};
pub use tollgate_http::{HeaderFormat, HeaderFormats, HeaderFormatsError, UnknownFormat};

pub use self::limit_headers::LimitHeaders;
pub use self::name::quota_names;
#[cfg(feature = "policy")]
pub use self::policies::PolicyHeaders;
pub use self::quota_policy::window_length;

/// The header of a decision that did not come from the store: `local` or `fallback`.
pub const TOLLGATE_SOURCE: HeaderName = HeaderName::from_static("tollgate-source");

/// The names of all headers that may come in these formats, as `Access-Control-Expose-Headers` lists them: without it,
/// a script of another origin cannot read them.
#[must_use]
pub fn exposed(formats: HeaderFormats) -> HeaderValue {
    let mut names = String::new();
    for name in formats.headers() {
        text::push_item(&mut names, [name]);
    }
    text::push_item(&mut names, ["Retry-After"]);
    text::value(names).unwrap_or(HeaderValue::from_static("Retry-After"))
}
