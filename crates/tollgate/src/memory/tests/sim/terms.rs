//! What the quotas and keys of a world are, and the ledger's own arithmetic of windows.
//!
//! Nothing here is shared with the library: a window that both got wrong in the same way would never be found.

use std::fmt;

/// A quota under the name of its policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Terms {
    pub(in super::super) policy: &'static str,
    pub(in super::super) limit: u64,
    /// Of a bucket, what it holds; of others, nothing.
    pub(in super::super) burst: u64,
    pub(in super::super) cut: Cut,
    pub(in super::super) denials: Denials,
}

/// What a denial charges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Denials {
    Free,
    Counted,
    /// Whatever is asked for is charged, and one unit that is left admits it.
    Overdraft,
}

/// How a quota counts, and how time is cut into its windows; lengths in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Cut {
    Epoch(i64),
    Staggered(i64),
    FirstHit(i64),
    #[cfg(feature = "calendar")]
    Calendar(Unit, Zone),
    /// A bucket, which has no windows.
    Burst(i64),
    Sliding(i64),
    SlidingStaggered(i64),
    /// A log; its length and its step.
    Log(i64, i64),
    /// A block of this length, of a quota that counts so.
    Block(i64, BlockedCut),
}

/// How a quota counts that blocks keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum BlockedCut {
    Epoch(i64),
    Staggered(i64),
    FirstHit(i64),
}

#[cfg(feature = "calendar")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Unit {
    Day,
    Week,
    Month,
    Year,
}

#[cfg(feature = "calendar")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Zone {
    /// Half an hour off, and without summer time.
    Kolkata,
    /// With summer time, since 1980.
    Berlin,
}

/// `[start, end)` in Unix milliseconds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Span {
    pub(super) start: i64,
    pub(super) end: i64,
}

impl Cut {
    /// The window that holds this time; of `first_hit`, the one that would open then. Buckets and logs have none.
    pub(super) fn window_at(self, key: usize, time: i64) -> Span {
        let aligned = |length: i64, offset: i64| {
            let start = time - (time - offset).rem_euclid(length);
            Span { start, end: start + length }
        };
        match self {
            Self::Epoch(length) | Self::Sliding(length) => aligned(length, 0),
            Self::Burst(_) | Self::Log(..) => Span { start: time, end: time },
            Self::Staggered(length) | Self::SlidingStaggered(length) => {
                let offset = xxh64(&canonical(key)) % length.unsigned_abs();
                aligned(length, offset.cast_signed())
            }
            Self::FirstHit(length) | Self::Block(length, _) => Span { start: time, end: time + length },
            #[cfg(feature = "calendar")]
            Self::Calendar(unit, zone) => calendar::window_at(unit, zone, time),
        }
    }

    /// Milliseconds, where all windows are as long.
    pub(super) fn length(self) -> Option<i64> {
        match self {
            Self::Epoch(length)
            | Self::Staggered(length)
            | Self::FirstHit(length)
            | Self::Burst(length)
            | Self::Sliding(length)
            | Self::SlidingStaggered(length)
            | Self::Log(length, _)
            | Self::Block(length, _) => Some(length),
            #[cfg(feature = "calendar")]
            Self::Calendar(..) => None,
        }
    }

    /// The cut of a quota that blocks keys, if this one is among those that do in a world.
    pub(super) fn blocked(self) -> Option<BlockedCut> {
        match self {
            Self::Epoch(length) => Some(BlockedCut::Epoch(length)),
            Self::Staggered(length) => Some(BlockedCut::Staggered(length)),
            Self::FirstHit(length) => Some(BlockedCut::FirstHit(length)),
            _ => None,
        }
    }

    /// Whether it counts in fixed windows.
    pub(super) fn is_fixed(self) -> bool {
        !matches!(self, Self::Burst(_) | Self::Sliding(_) | Self::SlidingStaggered(_) | Self::Log(..))
    }
}

/// Keys that a careless store would confuse: the same bytes as text, as bytes and as a number, and parts that read the
/// same when they are joined. Later ones are numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Name {
    Text(&'static str),
    Bytes(&'static [u8]),
    Number(u64),
    Parts(&'static [&'static str]),
}

pub(super) fn name(key: usize) -> Name {
    match key {
        0 => Name::Text("user0042"),
        1 => Name::Bytes(b"user0042"),
        2 => Name::Number(u64::from_be_bytes(*b"user0042")),
        3 => Name::Parts(&["a:b", "c"]),
        4 => Name::Parts(&["a", "b:c"]),
        _ => Name::Number(key as u64),
    }
}

/// Kind, length and value, as the documentation of keys says.
fn canonical(key: usize) -> Vec<u8> {
    let with_head = |kind: u8, value: &[u8]| {
        assert!(value.len() < 0x80, "longer lengths take more than one byte");
        [&[kind, value.len() as u8], value].concat()
    };
    match name(key) {
        Name::Text(text) => with_head(1, text.as_bytes()),
        Name::Bytes(bytes) => with_head(2, bytes),
        Name::Number(number) => with_head(3, &number.to_be_bytes()),
        Name::Parts(parts) => {
            let parts: Vec<u8> = parts.iter().flat_map(|part| with_head(1, part.as_bytes())).collect();
            with_head(5, &parts)
        }
    }
}

/// XXH64 (Collet, 2012) with seed 0, of fewer than 32 bytes.
fn xxh64(bytes: &[u8]) -> u64 {
    const PRIMES: [u64; 5] = [
        0x9e37_79b1_85eb_ca87,
        0xc2b2_ae3d_27d4_eb4f,
        0x1656_67b1_9e37_79f9,
        0x85eb_ca77_c2b2_ae63,
        0x27d4_eb2f_1656_67c5,
    ];
    assert!(bytes.len() < 32, "longer inputs are hashed in four lanes");
    let mut hash = PRIMES[4].wrapping_add(bytes.len() as u64);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let lane = u64::from_le_bytes(*word).wrapping_mul(PRIMES[1]).rotate_left(31).wrapping_mul(PRIMES[0]);
        hash = (hash ^ lane).rotate_left(27).wrapping_mul(PRIMES[0]).wrapping_add(PRIMES[3]);
    }
    let (halves, rest) = rest.as_chunks::<4>();
    for half in halves {
        let lane = u64::from(u32::from_le_bytes(*half)).wrapping_mul(PRIMES[0]);
        hash = (hash ^ lane).rotate_left(23).wrapping_mul(PRIMES[1]).wrapping_add(PRIMES[2]);
    }
    for byte in rest {
        hash = (hash ^ u64::from(*byte).wrapping_mul(PRIMES[4])).rotate_left(11).wrapping_mul(PRIMES[0]);
    }
    hash = (hash ^ hash >> 33).wrapping_mul(PRIMES[1]);
    hash = (hash ^ hash >> 29).wrapping_mul(PRIMES[2]);
    hash ^ hash >> 32
}

#[cfg(feature = "calendar")]
mod calendar {
    //! Days, weeks, months and years of two zones, by the days of the civil calendar.

    use super::{Span, Unit, Zone};

    const HOUR: i64 = 3_600_000;
    const DAY: i64 = 24 * HOUR;

    pub(super) fn window_at(unit: Unit, zone: Zone, time: i64) -> Span {
        let first = first_day(unit, (time + offset(zone, time)).div_euclid(DAY));
        Span { start: midnight(zone, first), end: midnight(zone, next_first_day(unit, first)) }
    }

    /// When this day since 1970 begins. In neither zone do the clocks change at midnight.
    fn midnight(zone: Zone, day: i64) -> i64 {
        let local = day * DAY;
        let guess = local - offset(zone, local - HOUR);
        local - offset(zone, guess)
    }

    /// What the zone is ahead of UTC.
    fn offset(zone: Zone, time: i64) -> i64 {
        match zone {
            Zone::Kolkata => 5 * HOUR + HOUR / 2,
            Zone::Berlin => {
                let (year, ..) = date(time.div_euclid(DAY));
                let changes = match year {
                    ..=1979 => return HOUR,
                    1980 => [day_number(1980, 4, 6), last_sunday(1980, 9)],
                    1981..=1995 => [last_sunday(year, 3), last_sunday(year, 9)],
                    // The rule of the European Union.
                    _ => [last_sunday(year, 3), last_sunday(year, 10)],
                };
                let [first, last] = changes.map(|day| day * DAY + HOUR);
                if (first..last).contains(&time) { 2 * HOUR } else { HOUR }
            }
        }
    }

    fn first_day(unit: Unit, day: i64) -> i64 {
        let (year, month, _) = date(day);
        match unit {
            Unit::Day => day,
            // 1970 began on a Thursday.
            Unit::Week => day - (day + 3).rem_euclid(7),
            Unit::Month => day_number(year, month, 1),
            Unit::Year => day_number(year, 1, 1),
        }
    }

    fn next_first_day(unit: Unit, first: i64) -> i64 {
        let longest = match unit {
            Unit::Day => 1,
            Unit::Week => 7,
            Unit::Month => 31,
            Unit::Year => 366,
        };
        first_day(unit, first + longest)
    }

    fn last_sunday(year: i64, month: i64) -> i64 {
        let last = day_number(year, month, month_length(year, month));
        last - (last + 4).rem_euclid(7)
    }

    /// Days since 1970 of a date: whole years, then whole months, then days.
    fn day_number(year: i64, month: i64, day: i64) -> i64 {
        let before = year - 1;
        let leap_days = |year: i64| year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
        let days = (year - 1970) * 365 + leap_days(before) - leap_days(1969);
        days + (1..month).map(|month| month_length(year, month)).sum::<i64>() + day - 1
    }

    fn date(day: i64) -> (i64, i64, i64) {
        // No later than it is.
        let mut year = 1970 + day.div_euclid(if day < 0 { 365 } else { 366 });
        while day_number(year + 1, 1, 1) <= day {
            year += 1;
        }
        let mut month = 1;
        while month < 12 && day_number(year, month + 1, 1) <= day {
            month += 1;
        }
        (year, month, day - day_number(year, month, 1) + 1)
    }

    fn month_length(year: i64, month: i64) -> i64 {
        let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        match month {
            2 => 28 + i64::from(is_leap),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        }
    }

    #[test]
    fn days_begin_where_the_almanac_says() {
        assert_eq!(date(0), (1970, 1, 1));
        assert_eq!(date(11_016), (2000, 2, 29));
        assert_eq!(day_number(2024, 12, 31), 20_088);
        let berlin = |unit, time| {
            let Span { start, end } = window_at(unit, Zone::Berlin, time);
            (start / 1_000, end / 1_000)
        };
        // 2024-03-31 has 23 hours, 2024-10-27 has 25.
        assert_eq!(berlin(Unit::Day, 1_711_843_200_000), (1_711_839_600, 1_711_922_400));
        assert_eq!(berlin(Unit::Day, 1_730_030_400_000), (1_729_980_000, 1_730_070_000));
        assert_eq!(berlin(Unit::Year, 1_711_843_200_000), (1_704_063_600, 1_735_686_000));
    }
}

impl Terms {
    /// The most units at once.
    pub(super) fn capacity(&self) -> u64 {
        match self.cut {
            Cut::Block(..) => (1 << 40) - 1,
            Cut::Burst(_) if self.limit == 0 => 0,
            Cut::Burst(_) => self.burst,
            _ => self.limit,
        }
    }

    /// Units that must be left for charges of so many units together.
    pub(super) fn needed(&self, cost: u64) -> u64 {
        if self.denials == Denials::Overdraft { 1 } else { cost.max(1) }
    }
}

impl fmt::Display for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{} of policy {:?}", self.limit, self.cut, self.policy)?;
        if let Cut::Burst(_) = self.cut {
            write!(f, ", burst {}", self.burst)?;
        }
        match self.denials {
            Denials::Free => Ok(()),
            Denials::Counted => f.write_str(", counting denials"),
            Denials::Overdraft => f.write_str(", with overdraft"),
        }
    }
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Epoch(length) => write!(f, "{length}ms"),
            Self::Staggered(length) => write!(f, "{length}ms@staggered"),
            Self::FirstHit(length) => write!(f, "{length}ms@first_hit"),
            #[cfg(feature = "calendar")]
            Self::Calendar(unit, zone) => write!(f, "{unit:?}@{zone:?}"),
            Self::Burst(length) => write!(f, "{length}ms~burst"),
            Self::Sliding(length) => write!(f, "{length}ms~sliding"),
            Self::SlidingStaggered(length) => write!(f, "{length}ms~sliding@staggered"),
            Self::Log(length, step) => write!(f, "{length}ms~log:{step}ms"),
            Self::Block(length, of) => write!(f, "{length}ms after {of:?}"),
        }
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}, {})", self.start, self.end)
    }
}

#[test]
fn hashes_as_the_specification_does() {
    assert_eq!(xxh64(b""), 0xef46_db37_51d8_e999);
    assert_eq!(xxh64(b"abc"), 0x44bc_2cf5_ad77_0999);
    // From the golden vectors of windows.
    assert_eq!(xxh64(b"xxhash"), 0x32dd_3895_2c4b_c720);
}
