//! The most that each client asks for in one window, told apart by parts of the period.

use smallvec::SmallVec;
use tollgate::Timestamp;

use crate::Histogram;

/// Parts of the period at most. With a power of two, two parts always become one.
const MOST_PARTS: u32 = 128;

/// The most requests of each client in one window, for each part of the period.
///
/// How long the period is nobody knows before its end. So parts begin short and become twice as long whenever there are
/// too many of them.
#[derive(Debug)]
pub(super) struct Maxima {
    window: i64,
    /// The start of the first part, and the length of each: a multiple of the window's.
    origin: Option<i64>,
    length: i64,
    clients: Vec<Client>,
    /// Requests in each window of each client, by part. If only some clients are followed, each stands for several.
    windows: Vec<Histogram>,
}

#[derive(Debug, Clone, Default)]
struct Client {
    start: i64,
    requests: u32,
    /// The most in each part in which it asked.
    most: SmallVec<[(u8, u32); 2]>,
}

/// What clients did in some parts of the period.
#[derive(Debug, Default)]
pub(super) struct Span {
    /// The most of each client that asked in it.
    pub(super) maxima: Histogram,
    /// Requests in each window of each client. If only some clients are followed, each stands for several.
    pub(super) windows: Histogram,
}

impl Maxima {
    /// For windows of so many milliseconds. Parts are at least so long.
    pub(super) fn new(window: i64, part: i64) -> Self {
        let window = window.max(1);
        let length = window.saturating_mul((part / window).max(1));
        Self { window, origin: None, length, clients: Vec::new(), windows: Vec::new() }
    }

    /// Notes a request of a client that stands for `one_in`. Times never go back.
    pub(super) fn note(&mut self, now: Timestamp, client: u32, one_in: u64) {
        let now = now.as_unix_millis();
        let start = now.saturating_sub(now.rem_euclid(self.window));
        let origin = *self.origin.get_or_insert(start);
        while start.saturating_sub(origin) / self.length >= i64::from(MOST_PARTS) {
            self.double();
        }
        let place = client as usize;
        if place >= self.clients.len() {
            self.clients.resize(place + 1, Client::default());
        }
        let (length, windows) = (self.length, &mut self.windows);
        let Some(client) = self.clients.get_mut(place) else { return };
        if client.requests == 0 || client.start != start {
            client.close(origin, length, one_in, windows);
            client.start = start;
        }
        client.requests = client.requests.saturating_add(1);
    }

    fn double(&mut self) {
        self.length = self.length.saturating_mul(2);
        for client in &mut self.clients {
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
    pub(super) fn close(&mut self, one_in: u64) {
        let (Some(origin), length) = (self.origin, self.length) else { return };
        for client in &mut self.clients {
            client.close(origin, length, one_in, &mut self.windows);
        }
    }

    /// The part that holds this time, and when it starts.
    pub(super) fn part(&self, time: i64) -> (u8, i64) {
        let origin = self.origin.unwrap_or_default();
        let part = time.saturating_sub(origin).div_euclid(self.length).clamp(0, i64::from(MOST_PARTS));
        (part as u8, origin.saturating_add(part.saturating_mul(self.length)))
    }

    /// What clients did in these parts.
    pub(super) fn within(&self, parts: std::ops::Range<u8>) -> Span {
        let mut span = Span::default();
        for (_, most) in self.of_clients(parts.clone()) {
            span.maxima.add(u64::from(most));
        }
        let (from, to) = (usize::from(parts.start), usize::from(parts.end).min(self.windows.len()));
        self.windows.get(from..to).unwrap_or_default().iter().for_each(|part| span.windows.merge(part));
        span
    }

    /// About the days of these parts, in UTC, each with its parts. A part of more than a day is one by itself.
    pub(super) fn days(&self, parts: std::ops::Range<u8>) -> Vec<std::ops::Range<u8>> {
        const DAY: i64 = 86_400_000;
        let day = |part: u8| {
            let start = self.length.saturating_mul(part.into());
            self.origin.unwrap_or_default().saturating_add(start).div_euclid(DAY)
        };
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
    pub(super) fn of_parts(&self, is_counted: &[bool; 256]) -> Histogram {
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
    pub(super) fn of_clients(&self, parts: std::ops::Range<u8>) -> impl Iterator<Item = (u32, u32)> {
        (0..).zip(&self.clients).filter_map(move |(number, client)| {
            let most = client.most.iter().filter(|(part, _)| parts.contains(part)).map(|(_, most)| *most);
            Some((number, most.max()?))
        })
    }

    /// Keeps the clients that had these numbers.
    pub(super) fn keep(&mut self, kept: &[u32]) {
        crate::replay::keep(&mut self.clients, kept);
    }
}

impl Client {
    fn close(&mut self, origin: i64, length: i64, one_in: u64, windows: &mut Vec<Histogram>) {
        if self.requests == 0 {
            return;
        }
        let part = (self.start.saturating_sub(origin) / length.max(1)).clamp(0, i64::from(MOST_PARTS) - 1);
        let (place, part) = (part as usize, part as u8);
        if place >= windows.len() {
            windows.resize_with(place + 1, Histogram::default);
        }
        if let Some(windows) = windows.get_mut(place) {
            windows.add_times(u64::from(self.requests), one_in);
        }
        match self.most.last_mut() {
            Some((last, most)) if *last == part => *most = self.requests.max(*most),
            _ => self.most.push((part, self.requests)),
        }
        self.requests = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

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
                maxima.note(Timestamp::from_unix_millis(now), client, 1);
                *counts.entry((client, now / 50)).or_default() += 1;
            }
            maxima.close(1);
            let span = maxima.within(0..u8::MAX);
            let mut expected = Histogram::default();
            counts.values().for_each(|count| expected.add(u64::from(*count)));
            assert_eq!(span.windows, expected);
            let (split, start) = maxima.part(1_234_567 + (now - 1_234_567) * 7 / 10);
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
