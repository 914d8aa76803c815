//! Requests that wait for earlier ones: a bucket for each second.

use std::collections::BTreeMap;

use crate::field::Precision;
use crate::record::{Bucket, KeptSlots, Record};
use crate::time::SECOND;

/// The most memory of a bucket that is used again: one that is larger would mostly stay empty.
const SPARE: usize = 4 << 20;

/// Requests that wait for earlier ones, by the second in which they began.
///
/// Within its second, a request finds its place when the second is closed. So what is logged in whole seconds is spread
/// over its second then, in the order of files and lines.
#[derive(Debug, Default)]
pub(crate) struct Buckets {
    waiting: BTreeMap<i64, Bucket>,
    /// The second that the last request was put in: the next one mostly goes there too.
    current: Option<(i64, Bucket)>,
    requests: usize,
    bytes: usize,
    /// Seconds before this one are closed.
    open_from: Option<i64>,
    kept: KeptSlots,
    /// Empty ones, whose memory is used for the next seconds.
    spare: Vec<Bucket>,
}

/// The second of a request is closed: it comes too late.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ClosedSecond;

impl Buckets {
    /// Without requests, of which these slots will be kept.
    pub(crate) fn new(kept: KeptSlots) -> Self {
        Self { kept, ..Self::default() }
    }

    pub(crate) fn push(&mut self, record: &Record) -> Result<(), ClosedSecond> {
        let second = record.head.time.div_euclid(SECOND);
        if self.open_from.is_some_and(|open| second < open) {
            return Err(ClosedSecond);
        }
        if self.current.as_ref().is_none_or(|(current, _)| *current != second) {
            self.put_away();
            let new = || self.spare.pop().unwrap_or_else(|| Bucket::new(self.kept.clone()));
            self.current = Some((second, self.waiting.remove(&second).unwrap_or_else(new)));
        }
        if let Some((_, bucket)) = &mut self.current {
            self.bytes -= bucket.size();
            bucket.push(record);
            self.bytes += bucket.size();
            self.requests += 1;
        }
        Ok(())
    }

    /// Takes back buckets that have been read, perhaps of another reader. Large ones are freed, and so are those of
    /// earlier calls that were not needed.
    pub(crate) fn reuse(&mut self, mut read: Vec<Bucket>) {
        read.retain(|bucket| bucket.capacity() <= SPARE);
        read.iter_mut().for_each(|bucket| bucket.clear(&self.kept));
        self.spare = read;
    }

    /// Returns how many requests wait.
    pub(crate) fn requests(&self) -> usize {
        self.requests
    }

    /// Returns how many bytes they take.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns whether all requests that wait are of one second.
    pub(crate) fn is_one_second(&self) -> bool {
        self.waiting.len() + usize::from(self.current.is_some()) == 1
    }

    /// Closes all seconds before this point in time, and takes the first that has requests. To be called until there is
    /// none.
    pub(crate) fn close_before(&mut self, micros: i64) -> Option<Bucket> {
        let second = micros.div_euclid(SECOND);
        if self.open_from.is_none_or(|open| open < second) {
            self.open_from = Some(second);
        }
        if self.current.as_ref().is_some_and(|(current, _)| *current < second) {
            self.put_away();
        }
        match self.waiting.first_key_value() {
            Some((first, _)) if *first < second => self.take_first(),
            _ => None,
        }
    }

    /// Closes the earliest second that has requests.
    pub(crate) fn close_first(&mut self) -> Option<Bucket> {
        self.put_away();
        let (first, _) = self.waiting.first_key_value()?;
        self.open_from = self.open_from.max(Some(first + 1));
        self.take_first()
    }

    fn put_away(&mut self) {
        if let Some((second, bucket)) = self.current.take() {
            self.waiting.insert(second, bucket);
        }
    }

    fn take_first(&mut self) -> Option<Bucket> {
        let (second, mut bucket) = self.waiting.pop_first()?;
        self.requests -= bucket.heads.len();
        self.bytes -= bucket.size();
        put_in_order(second, &mut bucket);
        Some(bucket)
    }
}

/// Spreads requests that are told to the second over it, and sorts all by time, file and line.
fn put_in_order(second: i64, bucket: &mut Bucket) {
    let heads = &mut bucket.heads;
    heads.sort_by_key(|head| (head.file, head.line));
    let count = heads.iter().filter(|head| head.precision == Precision::Seconds).count();
    let parts = 2 * count as i64;
    let spread = heads.iter_mut().filter(|head| head.precision == Precision::Seconds);
    for (place, head) in spread.enumerate() {
        head.time = second * SECOND + (2 * place as i64 + 1) * SECOND / parts;
    }
    if count < heads.len() {
        // The sort is stable, so equal times stay in the order of files and lines.
        heads.sort_by_key(|head| head.time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Span;

    fn record(time: i64, line: u64, precision: Precision) -> Record {
        let mut record = Record::default();
        record.clear(1);
        (record.head.time, record.head.line, record.head.precision) = (time, line, precision);
        record
    }

    fn of(bucket: Option<Bucket>) -> Vec<(i64, u64)> {
        bucket
            .map_or_else(Vec::new, |bucket| bucket.heads.iter().map(|head| (head.time, head.line)).collect())
    }

    #[test]
    fn whole_seconds_are_spread_by_the_order_of_lines() {
        let mut buckets = Buckets::default();
        for line in 1..=4 {
            buckets.push(&record(7 * SECOND + 999, line, Precision::Seconds)).unwrap();
        }
        buckets.push(&record(7 * SECOND + 600_000, 5, Precision::Millis)).unwrap();
        assert_eq!(of(buckets.close_before(7 * SECOND + 1)), []);
        let expected = [(7_125_000, 1), (7_375_000, 2), (7_600_000, 5), (7_625_000, 3), (7_875_000, 4)];
        assert_eq!(of(buckets.close_before(8 * SECOND)), expected);
        assert_eq!((buckets.requests(), buckets.bytes()), (0, 0));
    }

    #[test]
    fn a_bucket_that_is_used_again_has_nothing_of_before() {
        let mut buckets = Buckets::new([0].into());
        let mut read = Vec::new();
        for (second, text) in [(1, "first"), (2, "second"), (3, "third")] {
            buckets.reuse(read);
            let mut record = record(second * SECOND, 1, Precision::Millis);
            record.bytes.extend_from_slice(text.as_bytes());
            record.spans = vec![Span::new(0, text.len())];
            buckets.push(&record).unwrap();
            let bucket = buckets.close_first().unwrap();
            let texts: Vec<_> = bucket.heads.iter().map(|head| bucket.text(head, 0)).collect();
            assert_eq!(texts, [Some(text.as_bytes())]);
            read = vec![bucket];
        }
        buckets.reuse(read);
        assert_eq!((buckets.requests(), buckets.bytes()), (0, 0));
    }

    #[test]
    fn a_large_bucket_is_not_used_again() {
        let mut buckets = Buckets::default();
        for (bytes, kept) in [(SPARE / 8, 1), (SPARE + 1, 0)] {
            let mut record = record(SECOND, 1, Precision::Millis);
            record.bytes = vec![0; bytes];
            let mut bucket = Bucket::default();
            bucket.push(&record);
            buckets.reuse(vec![bucket]);
            assert_eq!(buckets.spare.len(), kept, "{bytes}");
        }
    }

    #[test]
    fn a_closed_second_takes_nothing_more() {
        let mut buckets = Buckets::default();
        for (line, time) in [(1, 9), (2, -3), (3, 5), (4, 9)] {
            buckets.push(&record(time * SECOND, line, Precision::Millis)).unwrap();
        }
        assert_eq!(of(buckets.close_first()), [(-3 * SECOND, 2)]);
        assert_eq!(buckets.push(&record(-3 * SECOND, 5, Precision::Millis)), Err(ClosedSecond));
        assert_eq!(buckets.push(&record(-2 * SECOND, 6, Precision::Millis)), Ok(()));
        assert_eq!(of(buckets.close_before(9 * SECOND)), [(-2 * SECOND, 6)]);
        assert_eq!(of(buckets.close_before(9 * SECOND)), [(5 * SECOND, 3)]);
        assert_eq!(of(buckets.close_before(9 * SECOND)), []);
        assert_eq!(buckets.push(&record(8 * SECOND, 7, Precision::Millis)), Err(ClosedSecond));
        assert!(buckets.is_one_second());
        assert_eq!(of(buckets.close_first()), [(9 * SECOND, 1), (9 * SECOND, 4)]);
        assert_eq!(of(buckets.close_first()), []);
    }
}
