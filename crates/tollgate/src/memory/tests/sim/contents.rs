//! What a counter holds, and what it comes to at a time: the arithmetic of the ledger, by kind.
//!
//! A bucket is one instant, as a fraction; a sliding window two counts; a log a list of charges. The instants at which
//! units are free again are not calculated: they are searched for, among the times at which less is used.

use super::terms::{Cut, Span, Terms};

/// How far a clock may step back without a counter leaving its window (rule 12), in milliseconds.
pub(super) const STEP: i64 = 1_000;

/// The largest count (rule 6).
pub(super) const LARGEST: u64 = (1 << 40) - 1;

/// The largest count of a log.
const LARGEST_LOG: u64 = (1 << 24) - 1;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Contents {
    Window {
        used: u64,
        window: Span,
    },
    /// All units are back so many milliseconds, and `part` of `parts` of one, after 1970.
    Bucket {
        millis: i64,
        part: i64,
        parts: i64,
    },
    Sliding {
        window: Span,
        current: u64,
        previous: u64,
    },
    /// By the number of their step, the oldest first.
    Log(Vec<(i64, u64)>),
}

/// What a counter comes to at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Standing {
    pub(super) contents: Contents,
    pub(super) used: u64,
    /// Whether it is written even by a step that takes nothing, because the clock has stepped back (rule 12).
    pub(super) has_moved: bool,
}

/// A unit comes back in `unit / parts` milliseconds, in lowest terms.
struct Rate {
    unit: i128,
    parts: i128,
}

impl Contents {
    /// Nothing; in the window that holds this time, if there are windows.
    pub(super) fn nothing(terms: &Terms, key: usize, time: i64) -> Self {
        let window = terms.cut.window_at(key, time);
        match terms.cut {
            Cut::Burst(_) => Rate::of(terms).bucket(time, 0),
            Cut::Sliding(_) | Cut::SlidingStaggered(_) => Self::Sliding { window, current: 0, previous: 0 },
            Cut::Log(..) => Self::Log(Vec::new()),
            _ => Self::Window { used: 0, window },
        }
    }

    /// What a counter that is held comes to at this time, if it need not open another fixed window. More than one
    /// standing if so little of a part is left, because the limit of a bucket has changed, that a store may not know it.
    pub(super) fn placed(&self, terms: &Terms, key: usize, now: i64) -> Vec<Standing> {
        let standing = |contents: Self, has_moved| {
            let used = contents.used_now(terms, now);
            Standing { contents, used, has_moved }
        };
        match self {
            Self::Window { used, window } if window.start - now > STEP => {
                vec![standing(Self::Window { used: *used, window: terms.cut.window_at(key, now) }, true)]
            }
            Self::Window { .. } => vec![standing(self.clone(), false)],
            Self::Bucket { millis, part, parts } => {
                let rate = Rate::of(terms);
                let (highest, kept) = (rate.highest(terms), rate.kept(terms));
                let scaled = i128::from(*part) * rate.parts;
                let (least, rest) =
                    (scaled.div_euclid(i128::from(*parts)), scaled.rem_euclid(i128::from(*parts)));
                let most = least + i128::from(rest > 0);
                // Rounded up, but not for less than the last digit that is stored.
                let is_small = (rest << 22) < rate.parts * i128::from(*parts);
                let least = if is_small { least } else { most };
                let with_part = |part: i128| {
                    let level = (i128::from(millis - now) * rate.parts + part).max(0);
                    let level = if *millis < now { 0 } else { level };
                    standing(rate.bucket(now, if level > kept { highest } else { level }), level > kept)
                };
                (least..=most).map(with_part).collect()
            }
            Self::Sliding { window, current, previous } => {
                let present = terms.cut.window_at(key, now);
                let (contents, has_moved) = if now < window.end && window.start - now <= STEP {
                    (self.clone(), false)
                } else if now < window.end {
                    let all = (current + previous).min(largest_sliding(terms));
                    (Self::Sliding { window: present, current: all, previous: 0 }, true)
                } else if present.start == window.end {
                    (Self::Sliding { window: present, current: 0, previous: *current }, false)
                } else {
                    (Self::Sliding { window: present, current: 0, previous: 0 }, false)
                };
                vec![standing(contents, has_moved)]
            }
            Self::Log(charges) => {
                let Cut::Log(length, step) = terms.cut else { unreachable!("a log is one") };
                let present = now.div_euclid(step);
                let counted = charges.iter().filter(|(at, _)| now < leaves(*at, length, step));
                let (past, ahead): (Vec<_>, Vec<_>) = counted.copied().partition(|(at, _)| *at <= present);
                let mut log = Self::Log(past);
                log.charge(present, ahead.iter().map(|(_, units)| units).sum());
                vec![standing(log, !ahead.is_empty())]
            }
        }
    }

    /// Units used at a time that is not before the one that it was placed at.
    pub(super) fn used_now(&self, terms: &Terms, now: i64) -> u64 {
        match self {
            Self::Window { used, window } => {
                if now < window.end {
                    *used
                } else {
                    0
                }
            }
            Self::Bucket { millis, part, .. } => {
                let rate = Rate::of(terms);
                let level = (i128::from(millis - now) * rate.parts + i128::from(*part)).max(0);
                u64::try_from((level + rate.unit - 1) / rate.unit).unwrap()
            }
            Self::Sliding { window, current, previous } => {
                let length = window.end - window.start;
                let (current, previous, start) = match now {
                    now if now < window.end => (*current, *previous, window.start),
                    now if now < window.end + length => (0, *current, window.end),
                    _ => return 0,
                };
                let covered = u128::try_from((length - (now - start)).min(length)).unwrap();
                let weighted = (u128::from(previous) * covered).div_ceil(u128::try_from(length).unwrap());
                current + u64::try_from(weighted).unwrap()
            }
            Self::Log(charges) => {
                let Cut::Log(length, step) = terms.cut else { unreachable!("a log is one") };
                let counted = charges.iter().filter(|(at, _)| now < leaves(*at, length, step));
                counted.map(|(_, units)| units).sum()
            }
        }
    }

    /// The first time, from now on, at which no more than this is used if nothing is charged.
    pub(super) fn when(&self, terms: &Terms, now: i64, target: u64) -> i64 {
        if let Self::Window { window, .. } = self {
            return window.end;
        }
        if self.used_now(terms, now) <= target {
            return now;
        }
        // What is used only falls.
        let (mut more, mut enough) = (now, self.end(terms).max(now + 1));
        while enough - more > 1 {
            let middle = more + (enough - more) / 2;
            if self.used_now(terms, middle) <= target { enough = middle } else { more = middle }
        }
        enough
    }

    /// From when on its place may go to another counter. The place of a bucket stays its own until the next second.
    pub(super) fn end(&self, terms: &Terms) -> i64 {
        match self {
            Self::Window { window, .. } => window.end,
            Self::Bucket { millis, part, .. } => {
                let end = millis + i64::from(*part > 0);
                end + (-end).rem_euclid(1_000)
            }
            Self::Sliding { window, .. } => window.end + (window.end - window.start),
            Self::Log(charges) => {
                let Cut::Log(length, step) = terms.cut else { unreachable!("a log is one") };
                charges.last().map_or(i64::MIN, |(at, _)| leaves(*at, length, step))
            }
        }
    }

    /// What names a charge that was just made.
    pub(super) fn mark(&self, terms: &Terms, now: i64) -> i64 {
        match self {
            Self::Window { window, .. } | Self::Sliding { window, .. } => window.start,
            Self::Bucket { .. } => self.when(terms, now, 0),
            Self::Log(_) => now,
        }
    }

    pub(super) fn with_more(&self, terms: &Terms, now: i64, units: u64) -> Self {
        let mut after = self.clone();
        match &mut after {
            Self::Window { used, .. } => *used = used.saturating_add(units).min(LARGEST),
            Self::Bucket { .. } => {
                let rate = Rate::of(terms);
                let before = self.level(&rate, now);
                let most = before.max(rate.highest(terms));
                let units = units.min(LARGEST.saturating_sub(self.used_now(terms, now)));
                return rate.bucket(now, (before + i128::from(units) * rate.unit).min(most));
            }
            Self::Sliding { current, .. } => {
                *current = current.saturating_add(units).min(largest_sliding(terms));
            }
            Self::Log(charges) => {
                let Cut::Log(_, step) = terms.cut else { unreachable!("a log is one") };
                let used: u64 = charges.iter().map(|(_, units)| units).sum();
                after.charge(now.div_euclid(step), units.min(LARGEST_LOG - used));
            }
        }
        after
    }

    pub(super) fn with_only(&self, terms: &Terms, now: i64, units: u64) -> Self {
        let nothing = match self {
            Self::Window { window, .. } => Self::Window { used: 0, window: *window },
            Self::Bucket { .. } => Rate::of(terms).bucket(now, 0),
            Self::Sliding { window, .. } => Self::Sliding { window: *window, current: 0, previous: 0 },
            Self::Log(_) => Self::Log(Vec::new()),
        };
        nothing.with_more(terms, now, units)
    }

    /// The units that a refund of the charge with this mark gives back, and the contents after it. `None` if it is of
    /// another fixed window.
    pub(super) fn with_less(&self, terms: &Terms, now: i64, mark: i64, units: u64) -> Option<(u64, Self)> {
        let mut after = self.clone();
        let given = match &mut after {
            Self::Window { used, window } => {
                if window.start != mark {
                    return None;
                }
                take(used, units)
            }
            Self::Bucket { .. } => {
                let rate = Rate::of(terms);
                let outstanding = i128::from((mark - now).max(0)) * rate.parts / rate.unit;
                let outstanding = u64::try_from(outstanding).unwrap_or(u64::MAX);
                let given = units.min(outstanding).min(self.used_now(terms, now));
                let level = self.level(&rate, now) - i128::from(given) * rate.unit;
                after = rate.bucket(now, level.max(0));
                given
            }
            Self::Sliding { window, current, previous } => {
                let length = window.end - window.start;
                match mark {
                    mark if mark == window.start => take(current, units),
                    mark if mark == window.start - length => take(previous, units),
                    _ => 0,
                }
            }
            Self::Log(charges) => {
                let Cut::Log(_, step) = terms.cut else { unreachable!("a log is one") };
                let charge = charges.iter_mut().find(|(at, _)| *at == mark.div_euclid(step));
                let given = charge.map_or(0, |(_, charged)| take(charged, units));
                charges.retain(|(_, units)| *units > 0);
                given
            }
        };
        Some((given, after))
    }

    /// How many places of the cap it takes, if it has counted nothing since this time (G8).
    pub(super) fn places_at(&self, terms: &Terms, time: i64) -> usize {
        match self {
            Self::Log(charges) => {
                let Cut::Log(length, step) = terms.cut else { unreachable!("a log is one") };
                places(charges.iter().filter(|(at, _)| time < leaves(*at, length, step)).count())
            }
            _ => 1,
        }
    }

    /// How many places of the cap it takes at most, with another charge at one of these times.
    pub(super) fn places_with_more(&self, terms: &Terms, times: impl Iterator<Item = i64>) -> usize {
        match self {
            Self::Log(charges) => {
                let Cut::Log(_, step) = terms.cut else { unreachable!("a log is one") };
                let has_step =
                    |time: i64| charges.last().is_some_and(|(last, _)| time.div_euclid(step) <= *last);
                let more = times.map(|time| charges.len() + usize::from(!has_step(time)));
                places(more.max().unwrap_or_default())
            }
            _ => 1,
        }
    }

    fn level(&self, rate: &Rate, now: i64) -> i128 {
        let Self::Bucket { millis, part, .. } = self else { unreachable!("a bucket is one") };
        i128::from(millis - now) * rate.parts + i128::from(*part)
    }

    fn charge(&mut self, step: i64, units: u64) {
        let Self::Log(charges) = self else { unreachable!("a log is one") };
        match charges.last_mut() {
            _ if units == 0 => {}
            Some((last, charged)) if *last == step => *charged += units,
            _ => charges.push((step, units)),
        }
    }
}

impl Rate {
    fn of(terms: &Terms) -> Self {
        let length = i128::from(terms.cut.length().unwrap_or(1));
        // What an earlier limit admitted drains from a bucket for nothing too.
        let limit = i128::from(terms.limit.max(1));
        let (mut divisor, mut rest) = (length, limit);
        while rest > 0 {
            (divisor, rest) = (rest, divisor % rest);
        }
        Self { unit: length / divisor, parts: limit / divisor }
    }

    fn highest(&self, terms: &Terms) -> i128 {
        self.unit * i128::from((2 * terms.capacity().max(1)).min(LARGEST))
    }

    /// Above this, only a clock that has stepped back explains a level.
    fn kept(&self, terms: &Terms) -> i128 {
        let in_a_window = i128::from(terms.cut.length().unwrap_or(1)) * self.parts;
        self.highest(terms).max(in_a_window)
    }

    /// A bucket of which so many parts are missing now.
    fn bucket(&self, now: i64, level: i128) -> Contents {
        let parts = i64::try_from(self.parts).unwrap();
        let millis = now + i64::try_from(level / self.parts).unwrap();
        Contents::Bucket { millis, part: i64::try_from(level % self.parts).unwrap(), parts }
    }
}

/// A charge of a log counts until a length after the last millisecond of its step.
fn leaves(at: i64, length: i64, step: i64) -> i64 {
    (at + 1) * step - 1 + length
}

fn places(charges: usize) -> usize {
    if charges == 0 { 0 } else { 5 + charges.div_ceil(3) }
}

fn largest_sliding(terms: &Terms) -> u64 {
    let length = terms.cut.length().unwrap_or(1).unsigned_abs();
    1_000_000.min((1 << 52) / length)
}

fn take(from: &mut u64, units: u64) -> u64 {
    let taken = units.min(*from);
    *from -= taken;
    taken
}
