//! The most that each client requests in one window, by parts of the period.

use smallvec::SmallVec;
use tollgate::Timestamp;

use super::setters::{Suspect, is_failing};
use crate::histogram::Histogram;

/// Parts of the period at most. With a power of two, two parts always become one.
const MOST_PARTS: usize = 128;

/// The most requests of each client in one window, for each part of the period.
///
/// Time is cut into slots, and only those with requests count: a long gap, or one clock that is years off, is no part
/// of the period. How many slots it has is known only at its end. So parts begin with one slot, and have twice as
/// many whenever there are too many parts.
#[derive(Debug)]
pub(crate) struct Maxima {
    window: i64,
    /// The length of a slot: a multiple of the window's.
    length: i64,
    /// The start of the current slot.
    slot: Option<i64>,
    /// The start of each part.
    starts: Vec<i64>,
    /// The slots of each part but the last one, and those of the last one.
    slots: (u64, u64),
    clients: Vec<ClientMaxima>,
    /// Requests in each window of each client, by part. If only some clients are followed, each stands for several.
    windows: Vec<Histogram>,
}

#[derive(Debug, Clone, Default)]
struct ClientMaxima {
    start: i64,
    requests: u32,
    /// The part that has the window.
    part: u8,
    /// The most in each part in which it asked.
    most: SmallVec<[(u8, u32); 2]>,
    /// All requests, and those that were noted as failed.
    all: u32,
    failed: u32,
}

/// The activity of clients in some parts of the period.
#[derive(Debug, Default)]
pub(crate) struct PeriodActivity {
    /// The most of each client that asked in it.
    pub(crate) maxima: Histogram,
    /// Requests in each window of each client. If only some clients are followed, each stands for several.
    pub(crate) windows: Histogram,
}

impl Maxima {
    /// For windows of so many milliseconds. Slots are at least as long as `slot`.
    pub(crate) fn new(window: i64, slot: i64) -> Self {
        let window = window.max(1);
        let length = window.saturating_mul((slot / window).max(1));
        let (clients, windows) = (Vec::new(), Vec::new());
        Self { window, length, slot: None, starts: Vec::new(), slots: (1, 0), clients, windows }
    }

    /// Notes that there was a request, of a client that is followed or not. Times never go back.
    pub(crate) fn pass(&mut self, now: Timestamp) {
        let now = now.as_unix_millis();
        if self.slot.is_some_and(|start| now < start.saturating_add(self.length)) {
            return;
        }
        let start = now.saturating_sub(now.rem_euclid(self.length));
        self.slot = Some(start);
        if !self.starts.is_empty() && self.slots.1 < self.slots.0 {
            self.slots.1 += 1;
            return;
        }
        if self.starts.len() == MOST_PARTS {
            self.double();
        }
        self.starts.push(start);
        self.slots.1 = 1;
    }

    /// Notes a request of a client that stands for `one_in`, at the time of the last pass.
    pub(crate) fn note(&mut self, now: Timestamp, client: u32, one_in: u64) {
        let now = now.as_unix_millis();
        let start = now.saturating_sub(now.rem_euclid(self.window));
        let place = client as usize;
        if place >= self.clients.len() {
            self.clients.resize(place + 1, ClientMaxima::default());
        }
        let (part, windows) = (self.starts.len().saturating_sub(1) as u8, &mut self.windows);
        let Some(client) = self.clients.get_mut(place) else { return };
        if client.requests == 0 || client.start != start {
            client.close(one_in, windows);
            (client.start, client.part) = (start, part);
        }
        client.requests = client.requests.saturating_add(1);
        client.all = client.all.saturating_add(1);
    }

    /// Notes that the last request of a client failed.
    pub(crate) fn fail(&mut self, client: u32) {
        if let Some(client) = self.clients.get_mut(client as usize) {
            client.failed = client.failed.saturating_add(1);
        }
    }

    fn double(&mut self) {
        self.slots = (self.slots.0.saturating_mul(2), self.slots.0.saturating_mul(2));
        self.starts = self.starts.iter().copied().step_by(2).collect();
        for client in &mut self.clients {
            client.part /= 2;
            let mut merged = SmallVec::<[(u8, u32); 2]>::new();
            for (part, most) in client.most.drain(..) {
                match merged.last_mut() {
                    Some((last, greatest)) if *last == part / 2 => *greatest = most.max(*greatest),
                    _ => merged.push((part / 2, most)),
                }
            }
            client.most = merged;
        }
        let mut parts = std::mem::take(&mut self.windows).into_iter();
        while let Some(mut first) = parts.next() {
            if let Some(second) = parts.next() {
                first.merge(&second);
            }
            self.windows.push(first);
        }
    }

    /// Counts the windows that are still open.
    pub(crate) fn close(&mut self, one_in: u64) {
        self.clients.iter_mut().for_each(|client| client.close(one_in, &mut self.windows));
    }

    /// The part that holds the end of this share of the slots, and when it starts. `None` if it is the first part.
    pub(crate) fn split(&self, share: f64) -> Option<(u8, i64)> {
        let (each, last) = self.slots;
        let slots = (self.starts.len() as u64).saturating_sub(1) * each + last;
        let part = (slots as f64 * share) as u64 / each;
        let start = self.starts.get(part as usize).filter(|_| part > 0)?;
        Some((part as u8, *start))
    }

    /// Returns the activity of clients in these parts.
    pub(crate) fn within(&self, parts: std::ops::Range<u8>) -> PeriodActivity {
        let mut span = PeriodActivity::default();
        for (_, most) in self.of_clients(parts.clone()) {
            span.maxima.add(u64::from(most));
        }
        let (from, to) = (usize::from(parts.start), usize::from(parts.end).min(self.windows.len()));
        self.windows.get(from..to).unwrap_or_default().iter().for_each(|part| span.windows.merge(part));
        span
    }

    /// About the days of these parts, in UTC, each with its parts. A part of more than a day is one by itself.
    pub(crate) fn days(&self, parts: std::ops::Range<u8>) -> Vec<std::ops::Range<u8>> {
        const DAY: i64 = 86_400_000;
        let day = |part: u8| self.starts.get(usize::from(part)).map(|start| start.div_euclid(DAY));
        let mut days: Vec<std::ops::Range<u8>> = Vec::new();
        for part in parts {
            match days.last_mut() {
                Some(last) if day(last.start) == day(part) => last.end = part + 1,
                _ => days.push(part..part + 1),
            }
        }
        days
    }

    /// The most of each client that asked in one of the parts that count.
    pub(crate) fn of_parts(&self, is_counted: &[bool; 256]) -> Histogram {
        let mut maxima = Histogram::default();
        for client in &self.clients {
            let counted = client.most.iter().filter(|(part, _)| is_counted[usize::from(*part)]);
            if let Some(most) = counted.map(|(_, most)| *most).max() {
                maxima.add(u64::from(most));
            }
        }
        maxima
    }

    /// The most of each client that asked in these parts, with its number.
    pub(crate) fn of_clients(&self, parts: std::ops::Range<u8>) -> impl Iterator<Item = (u32, u32)> {
        (0..).zip(&self.clients).filter_map(move |(number, client)| {
            let most = client.most.iter().filter(|(part, _)| parts.contains(part)).map(|(_, most)| *most);
            Some((number, most.max()?))
        })
    }

    /// The clients with mostly errors that asked in these parts, and the most of each other one.
    pub(crate) fn suspects(&self, parts: std::ops::Range<u8>) -> (Vec<Suspect>, Histogram) {
        let (mut suspects, mut others) = (Vec::new(), Histogram::default());
        for (number, most) in self.of_clients(parts) {
            let all =
                self.clients.get(number as usize).map(|client| (client.all.into(), client.failed.into()));
            let (requests, failed) = all.unwrap_or_default();
            let most = u64::from(most);
            if is_failing(requests, failed) {
                suspects.push(Suspect { most, requests, failed, is_robot: false });
            } else {
                others.add(most);
            }
        }
        (suspects, others)
    }

    /// Keeps the clients that had these numbers.
    pub(crate) fn keep(&mut self, kept: &[u32]) {
        crate::followed::keep(&mut self.clients, kept);
    }
}

impl ClientMaxima {
    fn close(&mut self, one_in: u64, windows: &mut Vec<Histogram>) {
        if self.requests == 0 {
            return;
        }
        let place = usize::from(self.part);
        if place >= windows.len() {
            windows.resize_with(place + 1, Histogram::default);
        }
        if let Some(windows) = windows.get_mut(place) {
            windows.add_times(u64::from(self.requests), one_in);
        }
        match self.most.last_mut() {
            Some((last, most)) if *last == self.part => *most = self.requests.max(*most),
            _ => self.most.push((self.part, self.requests)),
        }
        self.requests = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    /// Whatever the length of the period is, and so however often parts were merged, the most of each client and the
    /// windows are those that a map of all windows gives.
    #[test]
    fn merged_parts_lose_nothing() {
        let mut random = fastrand::Rng::with_seed(3);
        for longest in [10, 1_000, 400_000] {
            let mut maxima = Maxima::new(50, 100);
            let mut counts: BTreeMap<(u32, i64), u32> = BTreeMap::new();
            let mut now = 1_234_567;
            for _ in 0..3_000 {
                now += random.i64(0..longest);
                let client = random.u32(0..20);
                maxima.pass(Timestamp::from_unix_millis(now));
                maxima.note(Timestamp::from_unix_millis(now), client, 1);
                *counts.entry((client, now / 50)).or_default() += 1;
            }
            maxima.close(1);
            let span = maxima.within(0..u8::MAX);
            let mut expected = Histogram::default();
            counts.values().for_each(|count| expected.add(u64::from(*count)));
            assert_eq!(span.windows, expected);
            let (split, start) = maxima.split(0.7).unwrap();
            // Of 100 slots, the part that holds the 70th begins at most a part before it, and parts are 64 at least.
            let slots: BTreeSet<i64> = counts.keys().map(|(_, window)| window * 50 / 100).collect();
            let before = slots.iter().filter(|slot| **slot * 100 < start).count();
            let share = before as f64 / slots.len() as f64;
            assert!((0.68..=0.7).contains(&share), "{longest} {share}");
            for (parts, is_within) in [(0..split, true), (split..u8::MAX, false)] {
                let mut most: BTreeMap<u32, u32> = BTreeMap::new();
                for ((client, window), count) in &counts {
                    if (*window * 50 < start) == is_within {
                        let most = most.entry(*client).or_default();
                        *most = (*most).max(*count);
                    }
                }
                assert_eq!(maxima.of_clients(parts).collect::<BTreeMap<_, _>>(), most, "{longest}");
            }
        }
    }
}
