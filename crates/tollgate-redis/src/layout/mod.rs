//! Layouts: keys as another system writes them, so that both share counters.
//!
//! `text` parses templates, `error` has their errors, and [`names`](crate::names) builds the names of counters from
//! them.

mod error;
mod name;
mod text;

use std::borrow::Cow;
use std::time::Duration;

use tollgate::{Anchor, PolicyQuota, Quota, QuotaKind, Timestamp, WindowLength};

pub use self::error::LayoutError;
pub(crate) use self::name::{LayoutNaming, ValueText, values};

/// The format of counters' keys, for sharing them with another system on the same server.
///
/// It is a template of text and names in braces:
///
/// | name | meaning |
/// |---|---|
/// | `{window}` | the number of the window: its start divided by its length |
/// | `{window_start}` | the start of the window, in Unix seconds |
/// | `{window_start_ms}` | the start of the window, in Unix milliseconds |
/// | `{prefix}` | the store's [prefix](crate::RedisStoreBuilder::prefix), as it is |
/// | `{policy}` | the name of the policy |
/// | `{windows}` | the length of windows in its written form, such as `1m` |
/// | `{key}` and any other | the values of the [`Key`](tollgate::Key), the first name for the first value, and so on; nested ones in the order in which they are written |
/// | `{*}` | all values that no earlier name takes, unchanged, with `_` between them |
///
/// `{{` and `}}` are braces. A template begins with text or the prefix, names the window and at least one value, and
/// has text between any two names; only `{prefix}{*}` has none.
///
/// # Values
///
/// The last value is written unchanged. In every other value, `%` and the byte that follows the value in the template
/// are written as `%` and two hexadecimal digits, so different values never make the same key. Systems that do not
/// escape such a value count it under another key. Braces in values are treated in the same way if the template itself has
/// braces, and on a Cluster, where they would choose the slot. In a template with braces, an empty value is written as
/// `%`, because empty braces do not choose a slot.
///
/// The values of `{*}` are the exception: of them, only braces are escaped, and only there. They can make the same key:
/// `a` and `b_c` as `a_b` and `c`. Such counters are one. The service warns about policies whose values may be like
/// that; a library can ask [`values_before_joined`](Self::values_before_joined).
///
/// Texts, numbers and addresses are written as text, without their kind: the number 7 and the text `7` share a counter,
/// as in the other system. Bytes have no text, so such a key fails with
/// [`StoreError::Uncountable`](tollgate::StoreError::Uncountable), and so does one with more or fewer values than the
/// template has names.
///
/// # Shared counters
///
/// Counters are only separated by the names in the template. Without `{policy}`, policies with windows of the same
/// length and the same key values share a counter. Without `{window}` or `{windows}`, so do windows of different
/// lengths whenever they start at the same instant. Two such quotas in one request are charged as one: the sum of their
/// units, within the lesser limit. If one window is shorter and ends while the request is in flight, the request counts
/// only in the longer one. To count quotas separately, use a layout that [distinguishes them](Self::tells_apart).
///
/// # Windows
///
/// The key contains the window. So this process names the window that it believes to be open, and the script refuses it
/// if it is not open by the server's clock; then the process retries with another. Windows must be aligned to the
/// epoch, of 100 ms or more, and of whole seconds for `{window_start}`: see [`validate`](Self::validate).
///
/// [`RLAAS`](Self::RLAAS) also has logs in steps of a millisecond, such as `5/1m~log`: the sorted sets of RLaaS's sliding
/// window, without the window in the key. All logs of one key are one set, so all need windows of the same length. A set
/// has at most 1,024 units.
///
/// The other system may choose a later expiry, so the expiry does not identify the window. A key that would expire less
/// than a second after its window, or never, gets an expiry of a second after it.
///
/// # Consistency
///
/// As without a layout, with one exception: each window has its own counter, which a step back of the server's clock
/// does not move. Requests are counted in the window that holds now, and a refund in the one that it names. After a
/// step back of up to a second the counters of that window are still there, and it admits no more than its limit. After
/// a longer one they may have expired, and the window may be counted twice.
///
/// On a Cluster, every counter is in its own slot, and a request with several quotas needs
/// [`AcrossSlots::Reserve`](crate::AcrossSlots::Reserve). If the clocks of two servers disagree about which window is
/// open, the later one is used, even if it has not begun on its server. Braces around all values and nothing else put
/// the counters of a key into one slot: `limit:{{{user}}}:{windows}:{window}`. [`keeps_to_slot`](Self::keeps_to_slot)
/// checks this.
///
/// # Examples
///
/// ```
/// use tollgate::Quota;
/// use tollgate_redis::KeyLayout;
///
/// let layout: KeyLayout = "user:{user}:{endpoint}:{window}".parse()?;
/// assert_eq!(layout, KeyLayout::LEETDEZINE);
///
/// layout.validate(&Quota::per_minute(5))?;
/// let anchored = "5/1m@first_hit".parse::<Quota>()?;
/// assert!(layout.validate(&anchored).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyLayout {
    pieces: Cow<'static, [TemplatePart]>,
}

/// A part of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
enum TemplatePart {
    Text(Cow<'static, str>),
    Prefix,
    Policy,
    Windows,
    /// A value of the key, and its name.
    Value(Cow<'static, str>),
    /// The remaining values.
    Rest,
    Window(WindowForm),
}

/// The format of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WindowForm {
    Index,
    StartSeconds,
    StartMillis,
}

/// A shorter window could be over before its key has reached the server.
const SHORTEST: Duration = Duration::from_millis(100);

/// 2020-01-01. A server's clock with an earlier time is wrong.
const EARLIEST: Timestamp = Timestamp::from_unix_millis(1_577_836_800_000);

/// The largest limit of a log. Every step reads all its units.
const MOST_LOGGED: u64 = 256;

/// The maximum life of a key in windows, even if another system sets its expiry.
const LIFE: u128 = 4;

const fn text(text: &'static str) -> TemplatePart {
    TemplatePart::Text(Cow::Borrowed(text))
}

const fn value(name: &'static str) -> TemplatePart {
    TemplatePart::Value(Cow::Borrowed(name))
}

static RLAAS: [TemplatePart; 4] =
    [text("rlaas:rate_limit:"), value("userId"), text(":"), TemplatePart::Window(WindowForm::Index)];
static LEETDEZINE: [TemplatePart; 6] = [
    text("user:"),
    value("user"),
    text(":"),
    value("endpoint"),
    text(":"),
    TemplatePart::Window(WindowForm::Index),
];
static SPRING_STARTER: [TemplatePart; 5] =
    [TemplatePart::Prefix, text(":"), value("key"), text(":"), TemplatePart::Window(WindowForm::StartMillis)];
static ENVOY_RATELIMIT: [TemplatePart; 4] =
    [TemplatePart::Prefix, TemplatePart::Rest, text("_"), TemplatePart::Window(WindowForm::StartSeconds)];
static USER_RATE_LIMIT: [TemplatePart; 4] =
    [text("rate_limit:"), value("user"), text(":"), TemplatePart::Window(WindowForm::Index)];

impl KeyLayout {
    /// `rlaas:rate_limit:{userId}:{window}`, of the [RLaaS Users
    /// Service](https://github.com/amitsaxena098/rlaas-users-service).
    pub const RLAAS: Self = Self::new(&RLAAS);

    /// `user:{user}:{endpoint}:{window}`, of the [LeetDezine case study](https://leetdezine.com/rate-limiter).
    pub const LEETDEZINE: Self = Self::new(&LEETDEZINE);

    /// `{prefix}:{key}:{window_start_ms}`, of the [Spring Boot Redis rate limiter
    /// starter](https://github.com/V4run-Sharma/spring-boot-starter-redis-rate-limiter). Its prefix is `ratelimiter` by
    /// default.
    pub const SPRING_STARTER: Self = Self::new(&SPRING_STARTER);

    /// `rate_limit:{user}:{window}`, of the Valkey server
    /// [user-rate-limit](https://github.com/arjunraghurama/user-rate-limit).
    pub const USER_RATE_LIMIT: Self = Self::new(&USER_RATE_LIMIT);

    /// `{prefix}{*}_{window_start}`, of [Envoy's rate-limit service](https://github.com/envoyproxy/ratelimit). The
    /// values are the domain, then the key and the value of each entry. Its prefix is empty by default.
    pub const ENVOY_RATELIMIT: Self = Self::new(&ENVOY_RATELIMIT);

    /// The layouts of published systems, by the names under which configuration has them.
    pub const NAMED: [(&'static str, Self); 5] = [
        ("rlaas", Self::RLAAS),
        ("leetdezine", Self::LEETDEZINE),
        ("spring-starter", Self::SPRING_STARTER),
        ("user-rate-limit", Self::USER_RATE_LIMIT),
        ("envoy-ratelimit", Self::ENVOY_RATELIMIT),
    ];

    const fn new(pieces: &'static [TemplatePart]) -> Self {
        Self { pieces: Cow::Borrowed(pieces) }
    }

    /// Returns whether it is [`RLAAS`](Self::RLAAS), which also has logs: sorted sets.
    #[must_use]
    pub fn has_logs(&self) -> bool {
        self.pieces[..] == RLAAS
    }

    /// Returns the number of values that a key must have; `None` if it may have any number from one on. A store refuses
    /// every request whose key has more or fewer.
    #[must_use]
    pub fn values(&self) -> Option<usize> {
        let named = self.pieces.iter().filter(|piece| matches!(piece, TemplatePart::Value(_))).count();
        (!self.pieces.contains(&TemplatePart::Rest)).then_some(named)
    }

    /// Returns the number of values with names of their own, if `{*}` joins all others; `None` without `{*}`. Of two
    /// joined values that contain `_`, nobody can tell where the first one ends.
    #[must_use]
    pub fn values_before_joined(&self) -> Option<usize> {
        let named = self.pieces.iter().filter(|piece| matches!(piece, TemplatePart::Value(_))).count();
        self.pieces.contains(&TemplatePart::Rest).then_some(named)
    }

    /// Returns whether keys contain the store's [prefix](crate::RedisStoreBuilder::prefix); otherwise, the prefix has
    /// no effect.
    #[must_use]
    pub fn names_prefix(&self) -> bool {
        self.pieces.contains(&TemplatePart::Prefix)
    }

    /// Returns whether the windows of this quota can be part of such keys. A store refuses every request with other
    /// quotas.
    ///
    /// # Errors
    ///
    /// If the quota counts in no fixed windows, or if these are not aligned to the epoch, are shorter than 100 ms, or are
    /// not a whole number of seconds in keys that contain their start in seconds. A log fits only in
    /// [`RLAAS`](Self::RLAAS), in steps of a millisecond and with a limit of at most 256.
    pub fn validate(&self, quota: &Quota) -> Result<(), LayoutError> {
        match quota.log_step() {
            Some(_) if !self.has_logs() => return Err(LayoutError::NotFixedWindows),
            Some(step) if step != Duration::from_millis(1) => return Err(LayoutError::LogStep),
            Some(_) if quota.limit() > MOST_LOGGED => return Err(LayoutError::LogLimit),
            Some(_) => return Ok(()),
            None if quota.kind() != QuotaKind::Window => return Err(LayoutError::NotFixedWindows),
            None => {}
        }
        let (Anchor::Epoch, WindowLength::Fixed(length)) = (quota.anchor(), quota.window()) else {
            return Err(LayoutError::NotAligned);
        };
        if length < SHORTEST {
            return Err(LayoutError::TooShort);
        }
        let says_seconds = self.pieces.contains(&TemplatePart::Window(WindowForm::StartSeconds));
        if says_seconds && length.subsec_nanos() != 0 {
            return Err(LayoutError::FractionOfSecond);
        }
        Ok(())
    }

    /// Returns whether the counters that one key has under these two quotas never have the same name. In a request in
    /// which they have, a store charges them as one.
    ///
    /// `{policy}` distinguishes them if their policies have different names, `{windows}` if their windows have
    /// different lengths. By the number of the window, if that is never the same for both: almost equal windows, such
    /// as those of nine and of ten years, have the same numbers for a while. By the start of the window they are not:
    /// in the first minute of an hour, both start at the same instant.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{PolicyQuota, Quota};
    /// use tollgate_redis::KeyLayout;
    ///
    /// let minute = PolicyQuota::new("search", Quota::per_minute(5));
    /// let hour = PolicyQuota::new("search", Quota::per_hour(100));
    /// assert!(KeyLayout::RLAAS.tells_apart(&minute, &hour));
    /// assert!(!KeyLayout::SPRING_STARTER.tells_apart(&minute, &hour));
    /// ```
    #[must_use]
    pub fn tells_apart(&self, quota: &PolicyQuota, other: &PolicyQuota) -> bool {
        let kinds = (quota.quota().kind(), other.quota().kind());
        if kinds.0 == QuotaKind::Log || kinds.1 == QuotaKind::Log {
            // All logs of one key are one sorted set, whose name has no window.
            return kinds.0 != kinds.1;
        }
        self.pieces.iter().any(|piece| match piece {
            TemplatePart::Policy => quota.policy() != other.policy(),
            TemplatePart::Windows => quota.windows() != other.windows(),
            TemplatePart::Window(WindowForm::Index) => have_different_numbers(quota.quota(), other.quota()),
            _ => false,
        })
    }
}

/// Returns whether no window of one quota has the number of a window of the other while a key of the latter may exist.
fn have_different_numbers(quota: &Quota, other: &Quota) -> bool {
    let (WindowLength::Fixed(one), WindowLength::Fixed(other)) = (quota.window(), other.window()) else {
        return false;
    };
    let (one, other) = (one.as_millis(), other.as_millis());
    // At a time t the numbers are t / one and t / other, and the longer t, the farther they are from each other.
    let earliest = u128::from(EARLIEST.as_unix_millis().unsigned_abs());
    earliest * one.abs_diff(other) >= LIFE * one * other
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layouts_of_published_systems_are_their_templates() {
        for (layout, template) in [
            (KeyLayout::RLAAS, "rlaas:rate_limit:{userId}:{window}"),
            (KeyLayout::LEETDEZINE, "user:{user}:{endpoint}:{window}"),
            (KeyLayout::SPRING_STARTER, "{prefix}:{key}:{window_start_ms}"),
            (KeyLayout::USER_RATE_LIMIT, "rate_limit:{user}:{window}"),
            (KeyLayout::ENVOY_RATELIMIT, "{prefix}{*}_{window_start}"),
        ] {
            assert_eq!(template.parse(), Ok(layout.clone()));
            assert_eq!(layout.to_string(), template);
            assert!(KeyLayout::NAMED.iter().any(|(_, named)| *named == layout));
        }
        assert_eq!(
            KeyLayout::NAMED.map(|(_, layout)| layout.values()),
            [Some(1), Some(2), Some(1), Some(1), None]
        );
        let names_prefix = [false, false, true, false, true];
        assert_eq!(KeyLayout::NAMED.map(|(_, layout)| layout.names_prefix()), names_prefix);
        assert!(!"l{{prefix}}:{key}:{window}".parse::<KeyLayout>().unwrap().names_prefix());
    }

    #[test]
    fn only_aligned_windows_that_keys_can_say_are_taken() {
        let validate = |template: &str, quota: &str| {
            template.parse::<KeyLayout>().unwrap().validate(&quota.parse().unwrap())
        };
        for (quota, expected) in [
            ("5/1m", Ok(())),
            ("5/100ms", Ok(())),
            ("5/99ms", Err(LayoutError::TooShort)),
            ("5/1m@first_hit", Err(LayoutError::NotAligned)),
            ("5/1m@staggered", Err(LayoutError::NotAligned)),
            ("5/day@UTC", Err(LayoutError::NotAligned)),
        ] {
            assert_eq!(validate("a:{key}:{window}", quota), expected, "{quota}");
        }
        assert_eq!(validate("a:{key}:{window_start_ms}", "5/1500ms"), Ok(()));
        assert_eq!(validate("a:{key}:{window_start}", "5/1500ms"), Err(LayoutError::FractionOfSecond));
        assert_eq!(validate("a:{key}:{window_start}", "5/2s"), Ok(()));
    }

    /// Quotas of one policy whose windows started at the same instant were one counter, and were refused only then.
    #[test]
    fn quotas_are_told_apart_by_what_differs_whenever_they_are_charged() {
        let apart = |template: &str, one: (&str, &str), other: (&str, &str)| {
            let quota = |(policy, quota): (&str, &str)| PolicyQuota::new(policy, quota.parse().unwrap());
            let layout: KeyLayout = template.parse().unwrap();
            let told = layout.tells_apart(&quota(one), &quota(other));
            assert_eq!(layout.tells_apart(&quota(other), &quota(one)), told, "{template}");
            told
        };
        for (form, one, other, expected) in [
            ("{window}", "5/1m", "100/1h", true),
            ("{window}", "5/1m", "7/1m", false),
            ("{window}", "5/100ms", "5/101ms", true),
            ("{window}", "5/1825d", "5/3650d", true),
            ("{window}", "5/3285d", "5/3650d", false),
            ("{window}", "5/86400s", "5/86404s", false),
            ("{window_start}", "5/1m", "100/1h", false),
            ("{window_start_ms}", "5/1m", "5/61s", false),
            ("{windows}:{window_start}", "5/1m", "100/1h", true),
            ("{windows}:{window_start}", "5/1m", "7/60s", false),
            ("{policy}:{window}", "5/1m", "7/1m", false),
        ] {
            let template = format!("a:{{key}}:{form}");
            assert_eq!(apart(&template, ("p", one), ("p", other)), expected, "{template} {one} {other}");
        }
        assert!(apart("a:{policy}:{key}:{window_start}", ("p", "5/1m"), ("q", "5/1m")));
        assert!(!apart("a:{key}:{window}", ("p", "5/1m"), ("q", "5/1m")));
    }
}
