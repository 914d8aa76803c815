//! How long a client waits for its call: `grpc-timeout`.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use http::HeaderMap;

use crate::answer::rejection::Rejection;
use crate::answer::rejection_kind::RejectionKind;

const HEADER: &str = "grpc-timeout";

/// Digits of the number, at most.
const MAX_DIGITS: usize = 8;

/// Returns how long the client waits, if it sets a time.
///
/// # Errors
///
/// If the header is not one to eight digits and a unit: `H`, `M`, `S`, `m`, `u` or `n`.
pub(super) fn of(headers: &HeaderMap) -> Result<Option<Duration>, Rejection> {
    let Some(value) = headers.get(HEADER) else { return Ok(None) };
    let invalid = || Rejection::bad_field(HEADER, "expected one to eight digits and a unit, such as `20m`");
    read(value.as_bytes()).map(Some).ok_or_else(invalid)
}

fn read(value: &[u8]) -> Option<Duration> {
    let (unit, digits) = value.split_last()?;
    if !(1..=MAX_DIGITS).contains(&digits.len()) || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = digits.iter().fold(0_u64, |number, digit| number * 10 + u64::from(digit - b'0'));
    Some(match unit {
        b'H' => Duration::from_secs(number * 3_600),
        b'M' => Duration::from_secs(number * 60),
        b'S' => Duration::from_secs(number),
        b'm' => Duration::from_millis(number),
        b'u' => Duration::from_micros(number),
        b'n' => Duration::from_nanos(number),
        _ => return None,
    })
}

/// The knowledge about a call whose time is over.
#[derive(Debug, Clone, Copy)]
pub(super) enum Late {
    /// It had not begun.
    Uncounted,
    /// The result of its step in the store is unknown.
    Unknown,
}

/// Returns the result of the call within this time. The call stays pinned where it is, because passing a future on
/// stores it twice.
///
/// # Errors
///
/// If it takes longer.
pub(super) async fn within<T>(
    limit: Option<Duration>,
    known: Late,
    mut call: Pin<&mut impl Future<Output = Result<T, Rejection>>>,
) -> Result<T, Rejection> {
    let Some(limit) = limit else { return call.await };
    // Most calls need not wait for anything, and none of these needs a timer.
    let at_once = poll_fn(|context| match call.as_mut().poll(context) {
        Poll::Ready(answer) => Poll::Ready(Some(answer)),
        Poll::Pending => Poll::Ready(None),
    });
    if let Some(answer) = at_once.await {
        return answer;
    }
    let late = |_| {
        let detail = match known {
            Late::Uncounted => "the message did not arrive within `grpc-timeout`; nothing was counted",
            Late::Unknown => {
                "there was no answer within `grpc-timeout`; whether the call was counted is unknown"
            }
        };
        Err(Rejection::new(RejectionKind::DeadlinePassed, detail))
    };
    tokio::time::timeout(limit, call).await.unwrap_or_else(late)
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    #[test]
    fn reads_digits_and_a_unit() {
        for (text, nanos) in [
            ("20m", 20_000_000),
            ("1H", 3_600_000_000_000),
            ("2M", 120_000_000_000),
            ("3S", 3_000_000_000),
            ("4u", 4_000),
            ("99999999n", 99_999_999),
            ("0m", 0),
        ] {
            assert_eq!(read(text.as_bytes()).map(|limit| limit.as_nanos()), Some(nanos), "{text}");
        }
        assert_eq!(read(b"99999999H"), Some(Duration::from_secs(99_999_999 * 3_600)));
        for text in ["", "m", "20", "20x", "-1m", "+1m", "1.5S", "123456789m", " 1m", "1 m"] {
            assert_eq!(read(text.as_bytes()), None, "{text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_takes_longer_is_given_up() {
        let call = |millis| async move {
            tokio::time::sleep(Duration::from_millis(millis)).await;
            Ok(millis)
        };
        let limit = Some(Duration::from_millis(20));
        assert_eq!(within(limit, Late::Unknown, pin!(call(10))).await.ok(), Some(10));
        let late = within(limit, Late::Unknown, pin!(call(30))).await.map_err(|rejection| rejection.kind());
        assert_eq!(late, Err(RejectionKind::DeadlinePassed));
        assert_eq!(within(None, Late::Unknown, pin!(call(30))).await.ok(), Some(30));
    }
}
