//! Where windows lie, computed independently of the library.
//!
//! The reference model and the conformance suite must not share the arithmetic that they judge, so nothing here calls
//! the library's. Aligned windows are counted from 1970, the shift of staggered ones comes from a separate XXH64, and a
//! calendar window is searched for among the dates that a wall clock shows.

use std::time::Duration;

use jiff::civil::{Date, date};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Unit};
use tollgate::{Anchor, CalendarUnit, Key, Quota, Timestamp, Window, WindowLength};

/// Returns the window of this key that holds `now`. For a `first_hit` quota, it is the one that would open now.
///
/// # Panics
///
/// If a calendar window lies outside the years with known dates.
#[must_use]
pub fn holding(quota: &Quota, key: &Key<'_>, now: Timestamp) -> Window {
    match (quota.anchor(), quota.window()) {
        (Anchor::Epoch, WindowLength::Fixed(length)) => aligned(now, length, 0),
        (Anchor::Staggered, WindowLength::Fixed(length)) => {
            aligned(now, length, xxh64(&key.canonical_bytes()))
        }
        (Anchor::FirstHit, WindowLength::Fixed(length)) => Window::new(now, now + length),
        (Anchor::Calendar, WindowLength::Calendar(unit)) => {
            let zone = TimeZone::get(quota.zone().expect("a calendar has a zone")).expect("a known zone");
            of_calendar(unit, &zone, now)
        }
        other => panic!("a new kind of window: {other:?}"),
    }
}

fn aligned(now: Timestamp, length: Duration, shift: u64) -> Window {
    let (now, length) = (i128::from(now.as_unix_millis()), i128::try_from(length.as_millis()).unwrap());
    let shift = i128::from(shift) % length;
    let number = (now - shift).div_euclid(length);
    let at = |number| Timestamp::from_unix_millis(i64::try_from(number * length + shift).unwrap());
    Window::new(at(number), at(number + 1))
}

/// Runs from the first second with the same number to the first with a higher one.
fn of_calendar(unit: CalendarUnit, zone: &TimeZone, now: Timestamp) -> Window {
    /// Longer than any unit and any clock change.
    const FAR: i64 = 370 * 86_400;
    let second = now.as_unix_millis().div_euclid(1_000);
    let number = number_at(unit, zone, second);
    let first = |number| {
        let (mut before, mut reached) = (second - FAR, second + FAR);
        while reached - before > 1 {
            let middle = before.midpoint(reached);
            if number_at(unit, zone, middle) < number { before = middle } else { reached = middle }
        }
        Timestamp::from_unix_millis(reached * 1_000)
    };
    Window::new(first(number), first(number + 1))
}

/// Returns the number of the latest day, week, month or year that a wall clock has shown until this second. A clock
/// that was put back across midnight has already shown the later date.
fn number_at(unit: CalendarUnit, zone: &TimeZone, second: i64) -> i64 {
    let instant = jiff::Timestamp::from_second(second).expect("a year that dates are known for");
    let recent = instant - SignedDuration::from_hours(72);
    let just_before = |jump: jiff::Timestamp| jump - SignedDuration::from_secs(1);
    let jumps = zone.preceding(instant).map(|jump| jump.timestamp()).take_while(|jump| *jump > recent);
    let shown = jumps.map(just_before).chain([instant]).map(|instant| zone.to_datetime(instant).date());
    shown.map(|date| number_of(unit, date)).max().expect("at least one date")
}

fn number_of(unit: CalendarUnit, day: Date) -> i64 {
    let days =
        || i64::from(day.since((Unit::Day, date(1970, 1, 1))).expect("dates can be told apart").get_days());
    match unit {
        CalendarUnit::Day => days(),
        // 1970 began on a Thursday, three days after a Monday.
        CalendarUnit::Week => (days() + 3).div_euclid(7),
        CalendarUnit::Month => i64::from(day.year()) * 12 + i64::from(day.month()),
        CalendarUnit::Year => i64::from(day.year()),
        other => panic!("a new unit: {other:?}"),
    }
}

/// XXH64 with seed 0, as its specification describes it:
/// <https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md>.
fn xxh64(bytes: &[u8]) -> u64 {
    const P1: u64 = 0x9E37_79B1_85EB_CA87;
    const P2: u64 = 0xC2B2_AE3D_27D4_EB4F;
    const P3: u64 = 0x1656_67B1_9E37_79F9;
    const P4: u64 = 0x85EB_CA77_C2B2_AE63;
    const P5: u64 = 0x27D4_EB2F_1656_67C5;
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
    let round =
        |lane: u64, input: u64| lane.wrapping_add(input.wrapping_mul(P2)).rotate_left(31).wrapping_mul(P1);
    let mut stripes = bytes.chunks_exact(32);
    let mut hash = if bytes.len() < 32 {
        P5
    } else {
        let mut lanes = [P1.wrapping_add(P2), P2, 0, 0_u64.wrapping_sub(P1)];
        for stripe in &mut stripes {
            for (lane, input) in lanes.iter_mut().zip(stripe.chunks(8)) {
                *lane = round(*lane, number(input));
            }
        }
        let turned = lanes.iter().zip([1, 7, 12, 18]).map(|(lane, bits)| lane.rotate_left(bits));
        let hash = turned.fold(0, u64::wrapping_add);
        lanes.iter().fold(hash, |hash, lane| (hash ^ round(0, *lane)).wrapping_mul(P1).wrapping_add(P4))
    };
    hash = hash.wrapping_add(bytes.len() as u64);
    let rest = if bytes.len() < 32 { bytes } else { stripes.remainder() };
    let mut eights = rest.chunks_exact(8);
    for eight in &mut eights {
        hash = (hash ^ round(0, number(eight))).rotate_left(27).wrapping_mul(P1).wrapping_add(P4);
    }
    let mut fours = eights.remainder().chunks_exact(4);
    for four in &mut fours {
        hash = (hash ^ number(four).wrapping_mul(P1)).rotate_left(23).wrapping_mul(P2).wrapping_add(P3);
    }
    for byte in fours.remainder() {
        hash = (hash ^ u64::from(*byte).wrapping_mul(P5)).rotate_left(11).wrapping_mul(P1);
    }
    hash = (hash ^ hash >> 33).wrapping_mul(P2);
    hash = (hash ^ hash >> 29).wrapping_mul(P3);
    hash ^ hash >> 32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{instant, quota};

    #[test]
    fn the_hash_is_the_published_one() {
        for (text, hash) in [
            ("", 0xEF46_DB37_51D8_E999),
            ("a", 0xD24E_C4F1_A98C_6E5B),
            ("abc", 0x44BC_2CF5_AD77_0999),
            ("Nobody inspects the spammish repetition", 0xFBCE_A83C_8A37_8BF1),
        ] {
            assert_eq!(xxh64(text.as_bytes()), hash, "{text}");
        }
    }

    #[test]
    fn days_that_clocks_make_odd_are_found() {
        for (zone, within, start, end) in [
            // 23 hours, and a midnight that was put back a minute later.
            ("Europe/Berlin", "2026-03-29T12:00:00Z", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"),
            ("America/St_Johns", "2010-11-07T02:45:00Z", "2010-11-07T02:30:00Z", "2010-11-08T03:30:00Z"),
            // No midnight, and a date that never existed.
            ("America/Sao_Paulo", "2018-11-04T03:00:00Z", "2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"),
            ("Pacific/Apia", "2011-12-30T09:59:59Z", "2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z"),
        ] {
            let quota = Quota::calendar(1, CalendarUnit::Day, zone).unwrap();
            let found = holding(&quota, &"".into(), instant(within));
            assert_eq!(found, Window::new(instant(start), instant(end)), "{zone}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        /// Computes the same windows in two ways, so that an error in either one shows.
        #[test]
        fn the_library_finds_the_same_windows(quota in quota(), key in ".{0,40}", now in 0..4_102_444_800_000_i64) {
            let (key, now) = (Key::from(key), Timestamp::from_unix_millis(now));
            prop_assert_eq!(holding(&quota, &key, now), quota.window_at(&key, now));
        }
    }
}
