//! Sorts requests that do not fit in memory: sorted runs in temporary files, merged.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Seek, Write};
use std::vec;

use crate::record::Record;
use crate::time::SECOND;

/// Requests in the order of their seconds; within one, in the order in which they came.
pub(crate) struct Sorter {
    /// The most bytes of memory.
    memory: usize,
    /// Records, one behind the other.
    bytes: Vec<u8>,
    /// The second of each record, and where it begins and ends.
    keys: Vec<(i64, usize, usize)>,
    /// Sorted ones that did not fit. A system removes such files when they are closed.
    runs: Vec<File>,
}

impl Sorter {
    pub(crate) fn new(memory: usize) -> Self {
        Self { memory, bytes: Vec::new(), keys: Vec::new(), runs: Vec::new() }
    }

    pub(crate) fn push(&mut self, record: &Record) -> io::Result<()> {
        let start = self.bytes.len();
        record.encode(&mut self.bytes);
        self.keys.push((record.head.time.div_euclid(SECOND), start, self.bytes.len()));
        if self.bytes.len() + size_of_val(&*self.keys) > self.memory { self.spill() } else { Ok(()) }
    }

    /// Writes what is in memory as a sorted run.
    fn spill(&mut self) -> io::Result<()> {
        self.keys.sort_by_key(|key| key.0);
        let mut run = BufWriter::with_capacity(1 << 20, tempfile::tempfile()?);
        for (second, start, end) in self.keys.drain(..) {
            let record = self.bytes.get(start..end).unwrap_or_default();
            run.write_all(&second.to_le_bytes())?;
            run.write_all(&(record.len() as u64).to_le_bytes())?;
            run.write_all(record)?;
        }
        self.bytes.clear();
        let mut file = run.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.rewind()?;
        self.runs.push(file);
        Ok(())
    }

    /// Sorts the records.
    pub(crate) fn sorted(mut self) -> io::Result<SortedRequests> {
        if self.runs.is_empty() {
            self.keys.sort_by_key(|key| key.0);
            let source = SortedPlace::Memory { bytes: self.bytes, keys: self.keys.into_iter() };
            return Ok(SortedRequests { record: Record::default(), source });
        }
        self.spill()?;
        let mut runs = Vec::new();
        let mut next = BinaryHeap::new();
        for (place, file) in self.runs.into_iter().enumerate() {
            let mut run = Run { file: BufReader::with_capacity(256 << 10, file), record: Vec::new() };
            if let Some(second) = run.next()? {
                next.push(Reverse((second, place)));
            }
            runs.push(run);
        }
        Ok(SortedRequests { record: Record::default(), source: SortedPlace::Runs { runs, next } })
    }
}

/// Requests in their order.
pub(crate) struct SortedRequests {
    record: Record,
    source: SortedPlace,
}

/// Where sorted records are kept.
enum SortedPlace {
    Memory {
        bytes: Vec<u8>,
        /// The second of each record that is left, and where it begins and ends.
        keys: vec::IntoIter<(i64, usize, usize)>,
    },
    Runs {
        runs: Vec<Run>,
        /// The second of each run's next record, and the run.
        next: BinaryHeap<Reverse<(i64, usize)>>,
    },
}

impl SortedRequests {
    pub(crate) fn next(&mut self) -> io::Result<Option<&Record>> {
        let record = &mut self.record;
        match &mut self.source {
            SortedPlace::Memory { bytes, keys } => {
                let Some((_, start, end)) = keys.next() else { return Ok(None) };
                record.decode(bytes.get(start..end).unwrap_or_default()).ok_or_else(damaged)?;
            }
            SortedPlace::Runs { runs, next } => {
                let Some(Reverse((_, place))) = next.pop() else { return Ok(None) };
                let Some(run) = runs.get_mut(place) else { return Ok(None) };
                record.decode(&run.record).ok_or_else(damaged)?;
                if let Some(second) = run.next()? {
                    next.push(Reverse((second, place)));
                }
            }
        }
        Ok(Some(record))
    }
}

fn damaged() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "it does not hold what was written")
}

/// A sorted run while it is read.
struct Run {
    file: BufReader<File>,
    record: Vec<u8>,
}

impl Run {
    /// Reads the next record, and returns its second.
    fn next(&mut self) -> io::Result<Option<i64>> {
        let mut head = [0; 8];
        match self.file.read_exact(&mut head) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            other => other?,
        }
        let second = i64::from_le_bytes(head);
        self.file.read_exact(&mut head)?;
        self.record.clear();
        let length = u64::from_le_bytes(head);
        let read = (&mut self.file).take(length).read_to_end(&mut self.record)?;
        if read as u64 == length { Ok(Some(second)) } else { Err(damaged()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_merged_as_if_all_had_been_in_memory() {
        let records = (0..5_000_u64).map(|line| {
            let mut record = Record::default();
            record.clear(2);
            record.head.time = (line * 7919 % 100) as i64 * SECOND - 50 * SECOND + 1;
            record.head.line = line;
            record.head.status = (line % 2 == 0).then_some(200);
            record.bytes.extend_from_slice(line.to_string().as_bytes());
            record.spans[1] = crate::record::Span::new(0, record.bytes.len());
            record
        });
        let records: Vec<Record> = records.collect();
        let sorted = |memory| {
            let mut sorter = Sorter::new(memory);
            records.iter().for_each(|record| sorter.push(record).unwrap());
            let runs = sorter.runs.len();
            let mut all = Vec::new();
            let mut sorted = sorter.sorted().unwrap();
            while let Some(record) = sorted.next().unwrap() {
                let text = record.spans[1].of(&record.bytes).map(<[u8]>::to_vec);
                all.push((record.head.time, record.head.line, record.head.status, text));
            }
            (runs, all)
        };
        let (none, in_memory) = sorted(usize::MAX);
        let (some, in_files) = sorted(50_000);
        assert!(none == 0 && some > 3, "{none} {some}");
        assert_eq!(in_memory, in_files);
        let mut expected: Vec<_> =
            records.iter().map(|record| (record.head.time, record.head.line)).collect();
        expected.sort_unstable();
        assert!(in_memory.iter().map(|(time, line, ..)| (*time, *line)).eq(expected));
        assert!(in_memory.iter().all(|(_, line, status, text)| {
            *text == Some(line.to_string().into_bytes()) && *status == (line % 2 == 0).then_some(200)
        }));
    }
}
