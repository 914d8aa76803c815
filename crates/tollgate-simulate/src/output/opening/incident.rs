//! When most denials happen, if that is a short part of the period: an incident, to be looked at by itself.

use jiff::fmt::temporal::Pieces;
use jiff::{SignedDuration, Timestamp};

use crate::output::number::lasting;
use crate::output::share::percent;
use crate::quoted::code;
use crate::report::{Report, Timeline};

/// An incident lasts at most one in this many of the period.
const SHORT: usize = 8;

/// The share of denials that makes an incident, in percent.
const MOST: u64 = 90;

/// Says that all or most denials are within a short time, with the flags that replay it alone. `None` if they are not.
pub(super) fn incident(report: &Report) -> Option<String> {
    let timeline = report.timeline.as_ref()?;
    let denied: Vec<u64> = timeline.bars.iter().map(|bar| bar.denied).collect();
    let all: u64 = denied.iter().sum();
    if all < 2 {
        return None;
    }
    let is_short = |run: &Run| run.length() * SHORT <= denied.len();
    let run = shortest(&denied, all)
        .filter(is_short)
        .or_else(|| shortest(&denied, (all * MOST).div_ceil(100)).filter(is_short))?;
    let how_many = if run.sum == all { "all".to_owned() } else { percent(run.sum, all) + " of them" };
    let [from, to] = [edge(timeline, run.first)?, edge(timeline, run.end)?];
    let length = lasting(timeline.step_seconds as f64 * run.length() as f64);
    Some(format!(", {how_many} within {length} ({})", code(&format!("--from {from} --to {to}"))))
}

/// Adjacent bars.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    first: usize,
    /// The bar after the last one.
    end: usize,
    sum: u64,
}

impl Run {
    const fn length(&self) -> usize {
        self.end - self.first
    }
}

/// The fewest adjacent bars that hold this much; of equally many, those that hold most.
fn shortest(bars: &[u64], needed: u64) -> Option<Run> {
    let mut best: Option<Run> = None;
    let (mut first, mut sum) = (0, 0);
    for (place, bar) in bars.iter().enumerate() {
        sum += bar;
        while let Some(left) = bars.get(first).filter(|left| first <= place && sum - **left >= needed) {
            sum -= left;
            first += 1;
        }
        let run = Run { first, end: place + 1, sum };
        let is_better = |best: &Run| {
            (run.length(), std::cmp::Reverse(run.sum)) < (best.length(), std::cmp::Reverse(best.sum))
        };
        if sum >= needed && best.as_ref().is_none_or(is_better) {
            best = Some(run);
        }
    }
    best
}

/// The start of a bar, as short as `--from` reads it, at the offset of the first one.
fn edge(timeline: &Timeline, bar: usize) -> Option<String> {
    let start: Timestamp = timeline.start.parse().ok()?;
    let offset = Pieces::parse(&timeline.start).ok()?.to_numeric_offset()?;
    let seconds = i64::try_from(timeline.step_seconds).ok()?.checked_mul(i64::try_from(bar).ok()?)?;
    let time = start.checked_add(SignedDuration::from_secs(seconds)).ok()?;
    let text = time.display_with_offset(offset).to_string();
    let (clock, zone) = text.split_at_checked("2026-11-16T09:45:00".len())?;
    let clock = clock.strip_suffix(":00").unwrap_or(clock);
    Some(format!("{clock}{}", if zone == "+00:00" { "Z" } else { zone }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::TimeShare;

    #[test]
    fn the_shortest_run_is_found() {
        for (bars, needed, run) in [
            (&[0, 5, 0, 1, 9, 0][..], 9, (4, 5)),
            (&[0, 5, 0, 1, 9, 0], 10, (3, 5)),
            (&[0, 5, 0, 1, 9, 0], 15, (1, 5)),
            (&[3, 3, 3], 3, (0, 1)),
            (&[3, 4, 3], 3, (1, 2)),
        ] {
            let found = shortest(bars, needed).map(|run| (run.first, run.end));
            assert_eq!(found, Some(run), "{bars:?} {needed}");
        }
        assert_eq!(shortest(&[1, 2], 4), None);
    }

    #[test]
    fn edges_are_short_and_have_the_offset() {
        for (start, bar, said) in [
            ("2026-11-16T09:00:00+00:00", 0, "2026-11-16T09:00Z"),
            ("2026-11-16T23:00:00+01:00", 2, "2026-11-17T01:00+01:00"),
            ("2026-11-16T09:00:05+00:00", 1, "2026-11-16T10:00:05Z"),
        ] {
            let timeline =
                Timeline { start: start.into(), step_seconds: 3_600, bars: vec![TimeShare::default()] };
            assert_eq!(edge(&timeline, bar).as_deref(), Some(said));
        }
    }
}
