//! Waiting for what another process does.

use std::thread;
use std::time::{Duration, Instant};

/// Asks again and again until there is an answer.
///
/// # Panics
///
/// If there is none in time; the message says what was waited for.
#[expect(clippy::disallowed_methods, reason = "how long a server may take is no time of a store")]
pub(super) fn wait_for<T>(what: &str, limit: Duration, mut answer: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = answer() {
            return answer;
        }
        assert!(start.elapsed() < limit, "waited {limit:?} in vain: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asks_until_there_is_an_answer() {
        let mut left = 3;
        let answer = wait_for("three", Duration::from_secs(10), || {
            left -= 1;
            (left == 0).then_some("done")
        });
        assert_eq!((answer, left), ("done", 0));
    }

    #[test]
    #[should_panic(expected = "waited 1ms in vain: never")]
    fn gives_up_in_time() {
        wait_for("never", Duration::from_millis(1), || None::<()>);
    }
}
