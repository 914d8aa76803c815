//! The thread that reads: logs, their formats, their lines, the order of requests.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender};

use crate::error::Error;
use crate::format::Parser;
use crate::input::{FIRST_LINES, Log, Stream, read_error};
use crate::known::Known;
use crate::lines::{Line, Lines};
use crate::options::{Options, Order};
use crate::order::{Buckets, Sorter};
use crate::plan::Plan;
use crate::progress::Counts;
use crate::reader::Message;
use crate::reason::{Kind, Reason};
use crate::record::Bucket;
use crate::request::Precision;
use crate::tally::Tally;
use crate::time::Fold;

/// Reads all logs, and sends their requests in the order of time.
pub(crate) struct Reading {
    options: Options,
    plan: Plan,
    counts: Arc<Counts>,
    tally: Tally,
    buckets: Buckets,
    /// How far a request may lie behind, in microseconds.
    window: i64,
    /// For each series, what its last file said of an hour that exists twice.
    folds: HashMap<String, Fold>,
    /// Where requests are put first, if all are sorted.
    sorter: Option<Sorter>,
    sender: SyncSender<Message>,
    /// Batches that have been read.
    to_reuse: Receiver<Vec<Bucket>>,
    /// The next batch to send.
    batch: Vec<Bucket>,
    batch_requests: usize,
    batch_bytes: usize,
}

/// Requests are sent once there are so many, or once they take so many bytes. A replay has threads of its own, which wait
/// for each other at the end of a batch: with this many, that costs little.
const BATCH: usize = 32_768;
const BATCH_BYTES: usize = 8 << 20;

/// How many lines of a file are read before it is looked which file lies back furthest.
const TURN: usize = 512;

/// The most bytes of requests that wait for earlier ones.
const WAITING: usize = 512 << 20;

/// The number of files from which only a hundred lines of each are examined.
const MANY: usize = 100;

/// Why reading ends early.
enum Stop {
    Error(Error),
    /// Nobody takes the requests any more.
    Dropped,
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl From<std::io::Error> for Stop {
    /// While sorting: errors of logs name the log.
    fn from(error: std::io::Error) -> Self {
        Self::Error(Error::Temporary(error))
    }
}

/// A log that is being read.
struct Open {
    name: String,
    series: String,
    lines: Lines<Stream>,
    parser: Option<Parser>,
    precision: Precision,
    file: usize,
    requests: u64,
    /// The latest time that was read, except for one that lies ahead of all others.
    latest: i64,
    /// The time of the request before, if it lay more than the window ahead.
    ahead: Option<i64>,
}

impl Open {
    /// Notes the time of a request. A jump ahead by more than the window needs a second request there: else one wrong
    /// clock reading would make all that follows late.
    fn advance(&mut self, time: i64, window: i64) {
        if time <= self.latest.saturating_add(window) {
            self.latest = self.latest.max(time);
            self.ahead = None;
        } else if let Some(ahead) = self.ahead.replace(time) {
            self.latest = self.latest.max(ahead.min(time));
        }
    }
}

/// The result of reading a line.
enum Read {
    Request,
    Other,
    End,
}

/// Whether a file begins in an hour that exists twice, and one before it in its series is still being read: its end tells
/// which hour is meant.
fn is_continued(open: &[Open], next: &Known) -> bool {
    next.is_ambiguous() && open.iter().any(|open| open.series == next.series())
}

impl Reading {
    pub(crate) fn new(
        options: Options,
        counts: Arc<Counts>,
        sender: SyncSender<Message>,
        to_reuse: Receiver<Vec<Bucket>>,
    ) -> Self {
        let plan = Plan::new(&options);
        let (tally, buckets) = (Tally::default(), Buckets::new(plan.kept()));
        Self {
            options,
            plan,
            counts,
            tally,
            buckets,
            window: 0,
            folds: HashMap::new(),
            sorter: None,
            sender,
            to_reuse,
            batch: Vec::new(),
            batch_requests: 0,
            batch_bytes: 0,
        }
    }

    pub(crate) fn run(mut self, logs: Vec<Log>) {
        let result = self.read_all(logs);
        let result = match result {
            Ok(()) => self.tally.check(&self.options),
            Err(Stop::Error(error)) => Err(error),
            Err(Stop::Dropped) => return,
        };
        // Nobody may be left to hear it.
        let _ = self.sender.send(Message::End(Box::new(self.tally.summary), result));
    }

    fn read_all(&mut self, logs: Vec<Log>) -> Result<(), Stop> {
        let mut all = Vec::new();
        // Looking at a thousand lines of each of many files takes longer than reading them.
        let most = if logs.len() > MANY { FIRST_LINES / 10 } else { FIRST_LINES };
        for (file, log) in logs.into_iter().enumerate() {
            let known = Known::new(log, file, most, &self.options, &self.counts)?;
            self.tally.summary.files.push(known.summary());
            all.push(known);
        }
        all.sort_by_key(|known| (known.first(), known.file));
        match self.options.order {
            Order::Nearly { window, requests } => {
                self.window = i64::try_from(window.as_micros()).unwrap_or(i64::MAX);
                self.merge(all, requests)?;
            }
            Order::Sort { memory } => self.sort(all, memory)?,
        }
        while let Some(bucket) = self.buckets.close_first() {
            self.send(bucket)?;
        }
        self.flush()
    }

    fn open(&self, known: Known) -> Result<Open, Error> {
        let series = known.series();
        let Known { mut log, detected, file, .. } = known;
        let parser =
            detected.as_ref().map(|detected| {
                let zone = self.options.zone.as_ref();
                Parser::new(&detected.format, detected.prefix, &self.plan, zone).map_err(|field| {
                    Error::NoField { name: log.name.clone(), format: detected.name(), field }
                })
            });
        let mut parser = parser.transpose()?;
        if let (Some(parser), Some(fold)) = (&mut parser, self.folds.get(&series)) {
            parser.go_on(*fold);
        }
        let lines = log.open(&self.counts)?;
        let precision = detected.and_then(|detected| detected.seen.precision).unwrap_or(Precision::Seconds);
        Ok(Open {
            name: log.name,
            series,
            lines,
            parser,
            precision,
            file,
            requests: 0,
            latest: i64::MIN,
            ahead: None,
        })
    }

    /// Reads all files side by side, always on in the one that lies back furthest.
    fn merge(&mut self, mut ahead: Vec<Known>, most: usize) -> Result<(), Stop> {
        // The earliest is taken first, from the end.
        ahead.reverse();
        let mut open: Vec<Open> = Vec::new();
        loop {
            let back = open.iter().map(|open| open.latest).min();
            while let Some(known) = ahead.pop_if(|next| {
                let is_due = back.is_none_or(|back| next.first() <= back) && !is_continued(&open, next);
                is_due || open.is_empty()
            }) {
                if open.len() == Error::FILES {
                    return Err(Error::Overlap.into());
                }
                let next = self.open(known)?;
                open.push(next);
                if back.is_none() {
                    break;
                }
            }
            let Some(place) = (0..open.len()).min_by_key(|&place| open.get(place).map(|open| open.latest))
            else {
                return Ok(());
            };
            let Some(furthest) = open.get_mut(place) else { return Ok(()) };
            if self.turn(furthest, most)? {
                let ended = open.swap_remove(place);
                self.end(&ended);
            }
            let earliest = open.iter().map(|open| open.latest).chain(ahead.last().map(Known::first)).min();
            if let Some(earliest) = earliest {
                while let Some(bucket) = self.buckets.close_before(earliest.saturating_sub(self.window)) {
                    self.send(bucket)?;
                }
            }
        }
    }

    /// Reads some lines of a file. Returns whether it has ended.
    fn turn(&mut self, open: &mut Open, most: usize) -> Result<bool, Stop> {
        let mut has_ended = false;
        let mut lines = 0;
        while lines < TURN {
            match self.line(open)? {
                Read::End => {
                    has_ended = true;
                    break;
                }
                Read::Other => {}
                Read::Request => {
                    while self.buckets.requests() > most || self.buckets.bytes() > WAITING {
                        if self.buckets.is_one_second() {
                            // It cannot be closed while it is still being read.
                            if self.buckets.bytes() > Error::SECOND {
                                return Err(Error::Dense.into());
                            }
                            break;
                        }
                        match self.buckets.close_first() {
                            Some(bucket) => self.send(bucket)?,
                            None => break,
                        }
                    }
                }
            }
            lines += 1;
        }
        self.counts.add_lines(lines as u64);
        self.is_wanted()?;
        Ok(has_ended)
    }

    /// Reads one file after the other, and puts all requests in order at the end.
    fn sort(&mut self, all: Vec<Known>, memory: usize) -> Result<(), Stop> {
        self.sorter = Some(Sorter::new(memory));
        for known in all {
            let mut open = self.open(known)?;
            let mut lines = 0;
            loop {
                match self.line(&mut open)? {
                    Read::End => break,
                    Read::Other | Read::Request => lines += 1,
                }
                if lines == TURN as u64 {
                    self.counts.add_lines(lines);
                    lines = 0;
                    self.is_wanted()?;
                }
            }
            self.counts.add_lines(lines);
            self.end(&open);
        }
        let Some(sorter) = self.sorter.take() else { return Ok(()) };
        sorter.drain(|record| {
            while let Some(bucket) = self.buckets.close_before(record.head.time) {
                self.send(bucket)?;
            }
            if self.buckets.bytes() > Error::SECOND {
                return Err(Error::Dense.into());
            }
            // Records come in the order of seconds, so none is late.
            let _ = self.buckets.push(record);
            Ok(())
        })
    }

    /// Reads a line of a file, and puts its request with the others.
    fn line(&mut self, open: &mut Open) -> Result<Read, Stop> {
        let number = open.lines.number() + 1;
        let line = open.lines.next().map_err(|error| read_error(&open.name, error))?;
        let Some(line) = line else { return Ok(Read::End) };
        self.tally.summary.lines += 1;
        let (text, result) = match (line, &mut open.parser) {
            (Line::TooLong(text), _) => (text, Err(Reason::TooLong)),
            (Line::Whole(text), Some(parser)) => (text, parser.read(&self.plan, text)),
            // The first lines were all empty, so there is no format.
            (Line::Whole(text), None) if text.trim_ascii().is_empty() => (text, Ok(Kind::Other)),
            (Line::Whole(text), None) => (text, Err(Reason::Shape)),
        };
        match (result, &mut open.parser) {
            (Ok(Kind::Request), Some(parser)) => {
                let record = parser.record();
                let head = &mut record.head;
                head.file = u32::try_from(open.file).unwrap_or(u32::MAX);
                head.line = number;
                head.precision = head.precision.min(open.precision);
                open.precision = head.precision;
                let time = head.time;
                open.requests += 1;
                match &mut self.sorter {
                    Some(sorter) => sorter.push(record)?,
                    None if self.buckets.push(record).is_err() => self.tally.late(open.file, number, text),
                    None => {}
                }
                open.advance(time, self.window);
                Ok(Read::Request)
            }
            (Ok(_), _) => {
                self.tally.summary.others += 1;
                Ok(Read::Other)
            }
            (Err(Reason::NoZone), _) => Err(Error::NoZone { name: open.name.clone() }.into()),
            (Err(Reason::NoField), _) => Err(self.no_field(open).into()),
            (Err(reason), _) => {
                self.tally.unparsed(reason, open.file, number, text);
                Ok(Read::Other)
            }
        }
    }

    fn no_field(&self, open: &Open) -> Error {
        let file = self.tally.summary.files.get(open.file);
        let format = file.and_then(|file| file.format.clone()).unwrap_or_default();
        let field = open.parser.as_ref().map_or(String::new(), |parser| parser.missing().to_owned());
        Error::NoField { name: open.name.clone(), format, field }
    }

    /// Notes what is known of a file at its end.
    fn end(&mut self, open: &Open) {
        if let Some(file) = self.tally.summary.files.get_mut(open.file) {
            (file.lines, file.requests) = (open.lines.number(), open.requests);
        }
        if let Some(fold) = open.parser.as_ref().and_then(Parser::fold) {
            self.folds.insert(open.series.clone(), fold);
        }
        self.tally.summary.ambiguous += open.parser.as_ref().map_or(0, Parser::ambiguous);
    }

    fn send(&mut self, bucket: Bucket) -> Result<(), Stop> {
        self.tally.replayed(&bucket);
        self.batch_requests += bucket.heads.len();
        self.batch_bytes += bucket.size();
        self.batch.push(bucket);
        let is_full = self.batch_requests >= BATCH || self.batch_bytes >= BATCH_BYTES;
        if is_full { self.flush() } else { Ok(()) }
    }

    fn is_wanted(&self) -> Result<(), Stop> {
        if self.counts.is_dropped() { Err(Stop::Dropped) } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Stop> {
        (self.batch_requests, self.batch_bytes) = (0, 0);
        let batch = std::mem::take(&mut self.batch);
        if let Some(read) = self.to_reuse.try_iter().last() {
            self.buckets.reuse(read);
        }
        self.sender.send(Message::Batch(batch)).map_err(|_| Stop::Dropped)
    }
}
