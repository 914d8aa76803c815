//! Reads logs: finds their formats, parses their lines, and puts requests in order.

use std::collections::HashMap;
use std::sync::Arc;
use std::{fmt, mem};

use crate::batch::Batch;
use crate::error::Error;
use crate::format::Parser;
use crate::input::{FIRST_LINES, Input, Log, expand, read_error};
use crate::known::KnownLog;
use crate::lines::Line;
use crate::open::OpenLog;
use crate::options::{Options, Order};
use crate::order::{Buckets, SortedRequests, Sorter};
use crate::plan::Plan;
use crate::progress::{Counts, Progress, Watch};
use crate::reason::{Kind, Reason};
use crate::record::Bucket;
use crate::summary::Summary;
use crate::tally::ReadTally;
use crate::time::Fold;

/// Reads the requests of logs, in the order of time.
pub struct Reader {
    options: Options,
    plan: Plan,
    counts: Arc<Counts>,
    /// The bytes of all files, if they are known.
    of: Option<u64>,
    tally: ReadTally,
    stage: Stage,
    buckets: Buckets,
    /// How late a request may be, in microseconds.
    window: i64,
    /// For each series, what its last file said of an hour that exists twice.
    folds: HashMap<String, Fold>,
    /// Where requests are put first, if all are sorted.
    sorter: Option<Sorter>,
}

/// How far reading has come.
enum Stage {
    /// No file has been opened.
    Found(Vec<Log>),
    /// Files are read side by side.
    Merging(Merge),
    /// All files have been read, and requests are taken from the sorter.
    Sorted(Box<SortedRequests>),
    /// All requests are in the buckets.
    Draining,
    /// All requests have been passed on, or reading has failed.
    Ended,
}

/// Files that are read side by side.
struct Merge {
    /// Those that are not open yet. The earliest is taken first, from the end.
    ahead: Vec<KnownLog>,
    open: Vec<OpenLog>,
    /// The most requests that wait for earlier ones.
    most: usize,
}

/// Lines that are read of a file before the file with the earliest time is looked for again.
const TURN: usize = 512;

/// The most bytes of requests that wait for earlier ones.
const WAITING: usize = 512 << 20;

/// The number of files from which only a hundred lines of each are examined.
const MANY: usize = 100;

/// The result of reading a line.
enum LineOutcome {
    Request,
    Other,
    End,
}

impl Reader {
    /// Opens logs.
    ///
    /// # Errors
    ///
    /// If an input does not exist. Errors inside files are found later, and returned by [`Reader::read`].
    pub fn open(inputs: impl IntoIterator<Item = impl Into<Input>>, options: Options) -> Result<Self, Error> {
        let (logs, of) = expand(inputs.into_iter().map(Into::into).collect())?;
        let plan = options.plan();
        let buckets = Buckets::new(plan.kept());
        Ok(Self {
            options,
            plan,
            counts: Arc::default(),
            of,
            tally: ReadTally::default(),
            stage: Stage::Found(logs),
            buckets,
            window: 0,
            folds: HashMap::new(),
            sorter: None,
        })
    }

    /// Reads the next requests, in place of those in the batch. Returns whether there were any.
    ///
    /// While one batch is processed, another thread can read the next one. If all requests are sorted, the first call
    /// reads all logs.
    ///
    /// # Errors
    ///
    /// If the logs cannot be read any further; the batch is empty then. [`Error::Unparsed`] and [`Error::Late`] come
    /// after the last request.
    pub fn read(&mut self, batch: &mut Batch) -> Result<bool, Error> {
        self.buckets.reuse(batch.take());
        let filled = self.fill(batch);
        if filled.is_err() {
            batch.take();
        }
        filled.map(|()| !batch.is_empty())
    }

    /// Returns the progress of reading.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.counts.progress(self.of)
    }

    /// Returns a handle that any thread can ask for the progress.
    #[must_use]
    pub fn watch(&self) -> Watch {
        Watch { counts: Arc::clone(&self.counts), of: self.of }
    }

    /// Returns the summary of what has been read.
    #[must_use]
    pub fn summary(&self) -> &Summary {
        &self.tally.summary
    }

    fn fill(&mut self, batch: &mut Batch) -> Result<(), Error> {
        while !batch.is_full() {
            // If a stage fails, reading has ended.
            self.stage = match mem::replace(&mut self.stage, Stage::Ended) {
                Stage::Found(logs) => self.start(logs)?,
                Stage::Merging(merge) => self.merge(merge, batch)?,
                Stage::Sorted(sorted) => self.take_sorted(sorted, batch)?,
                Stage::Draining => match self.buckets.close_first() {
                    Some(bucket) => {
                        self.pass_on(bucket, batch);
                        Stage::Draining
                    }
                    None if batch.is_empty() => return self.tally.check(&self.options),
                    None => {
                        self.stage = Stage::Draining;
                        return Ok(());
                    }
                },
                Stage::Ended => return Ok(()),
            };
        }
        Ok(())
    }

    /// Looks at the first lines of all logs. If all requests are sorted, this is done here as well.
    fn start(&mut self, logs: Vec<Log>) -> Result<Stage, Error> {
        let mut all = Vec::new();
        // Looking at a thousand lines of each of many files takes longer than reading them.
        let most = if logs.len() > MANY { FIRST_LINES / 10 } else { FIRST_LINES };
        for log in logs {
            all.push(KnownLog::new(log, most, &self.options, &self.counts)?);
        }
        // As they were written: in the second of its rotation, `access.log.1` comes before `access.log`.
        all.sort_by_key(KnownLog::last);
        for (file, known) in all.iter_mut().enumerate() {
            known.file = file;
            self.tally.summary.files.push(known.summary());
        }
        match self.options.order {
            Order::Nearly { window, requests } => {
                self.window = i64::try_from(window.as_micros()).unwrap_or(i64::MAX);
                all.sort_by_key(KnownLog::first);
                all.reverse();
                Ok(Stage::Merging(Merge { ahead: all, open: Vec::new(), most: requests }))
            }
            Order::Sort { memory } => self.sort(all, memory),
        }
    }

    /// Reads on in the file that lies back furthest.
    fn merge(&mut self, mut merge: Merge, batch: &mut Batch) -> Result<Stage, Error> {
        let Merge { ahead, open, most } = &mut merge;
        let back = open.iter().map(|open| open.latest).min();
        while let Some(known) = ahead.pop_if(|next| {
            let is_due = back.is_none_or(|back| next.first() <= back)
                && !open.iter().any(|open| open.continues_in(next));
            is_due || open.is_empty()
        }) {
            if open.len() == Error::FILES {
                return Err(Error::Overlap);
            }
            open.push(OpenLog::new(known, &self.options, &self.plan, &self.counts, &self.folds)?);
            if back.is_none() {
                break;
            }
        }
        let Some(place) = (0..open.len()).min_by_key(|&place| open.get(place).map(|open| open.latest)) else {
            return Ok(Stage::Draining);
        };
        let Some(furthest) = open.get_mut(place) else { return Ok(Stage::Draining) };
        if self.turn(furthest, *most, batch)? {
            let ended = open.swap_remove(place);
            self.end(&ended);
        }
        let earliest = open.iter().map(|open| open.latest).chain(ahead.last().map(KnownLog::first)).min();
        if let Some(earliest) = earliest {
            // The first call closes all these seconds, so the batch does not decide which requests are late. Seconds
            // that do not fit go into the next one.
            while let Some(bucket) = self.buckets.close_before(earliest.saturating_sub(self.window)) {
                self.pass_on(bucket, batch);
                if batch.is_full() {
                    break;
                }
            }
        }
        Ok(Stage::Merging(merge))
    }

    /// Reads some lines of a file. Returns whether it has ended.
    fn turn(&mut self, open: &mut OpenLog, most: usize, batch: &mut Batch) -> Result<bool, Error> {
        let mut has_ended = false;
        let mut lines = 0;
        while lines < TURN {
            match self.line(open)? {
                LineOutcome::End => {
                    has_ended = true;
                    break;
                }
                LineOutcome::Other => {}
                LineOutcome::Request => {
                    while self.buckets.requests() > most || self.buckets.bytes() > WAITING {
                        if self.buckets.is_one_second() {
                            // It cannot be closed while it is still being read.
                            if self.buckets.bytes() > Error::SECOND {
                                return Err(Error::Dense);
                            }
                            break;
                        }
                        match self.buckets.close_first() {
                            Some(bucket) => self.pass_on(bucket, batch),
                            None => break,
                        }
                    }
                }
            }
            lines += 1;
        }
        self.counts.add_lines(lines as u64);
        Ok(has_ended)
    }

    /// Reads one file after the other, and puts all requests in order.
    fn sort(&mut self, all: Vec<KnownLog>, memory: usize) -> Result<Stage, Error> {
        self.sorter = Some(Sorter::new(memory));
        for known in all {
            let mut open = OpenLog::new(known, &self.options, &self.plan, &self.counts, &self.folds)?;
            let mut lines = 0;
            loop {
                match self.line(&mut open)? {
                    LineOutcome::End => break,
                    LineOutcome::Other | LineOutcome::Request => lines += 1,
                }
                if lines == TURN as u64 {
                    self.counts.add_lines(lines);
                    lines = 0;
                }
            }
            self.counts.add_lines(lines);
            self.end(&open);
        }
        let Some(sorter) = self.sorter.take() else { return Ok(Stage::Draining) };
        Ok(Stage::Sorted(Box::new(sorter.sorted().map_err(Error::Temporary)?)))
    }

    /// Takes the next request from the sorter.
    fn take_sorted(&mut self, mut sorted: Box<SortedRequests>, batch: &mut Batch) -> Result<Stage, Error> {
        let Some(record) = sorted.next().map_err(Error::Temporary)? else { return Ok(Stage::Draining) };
        while let Some(bucket) = self.buckets.close_before(record.head.time) {
            self.pass_on(bucket, batch);
        }
        if self.buckets.bytes() > Error::SECOND {
            return Err(Error::Dense);
        }
        // Records come in the order of seconds, so none is late.
        let _ = self.buckets.push(record);
        Ok(Stage::Sorted(sorted))
    }

    /// Reads a line of a file, and puts its request with the others.
    fn line(&mut self, open: &mut OpenLog) -> Result<LineOutcome, Error> {
        let number = open.lines.number() + 1;
        let line = open.lines.next().map_err(|error| read_error(&open.name, error))?;
        let Some(line) = line else { return Ok(LineOutcome::End) };
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
                    Some(sorter) => sorter.push(record).map_err(Error::Temporary)?,
                    None if self.buckets.push(record).is_err() => self.tally.late(open.file, number, text),
                    None => {}
                }
                open.advance(time, self.window);
                Ok(LineOutcome::Request)
            }
            (Ok(_), _) => {
                self.tally.summary.others += 1;
                Ok(LineOutcome::Other)
            }
            (Err(Reason::NoZone), _) => Err(Error::NoZone { name: open.name.clone() }),
            (Err(Reason::NoField), _) => Err(self.no_field(open)),
            (Err(reason), _) => {
                self.tally.unparsed(reason, open.file, number, text);
                Ok(LineOutcome::Other)
            }
        }
    }

    fn no_field(&self, open: &OpenLog) -> Error {
        let file = self.tally.summary.files.get(open.file);
        let format = file.and_then(|file| file.format.clone()).unwrap_or_default();
        let field = open.parser.as_ref().map_or(String::new(), |parser| parser.missing().to_owned());
        Error::NoField { name: open.name.clone(), format, field }
    }

    /// Notes what is known of a file at its end.
    fn end(&mut self, open: &OpenLog) {
        if let Some(file) = self.tally.summary.files.get_mut(open.file) {
            (file.lines, file.requests) = (open.lines.number(), open.requests);
            file.span.1 = open.latest;
        }
        if let Some(fold) = open.parser.as_ref().and_then(Parser::fold) {
            self.folds.insert(open.series.clone(), fold);
        }
        self.tally.summary.ambiguous += open.parser.as_ref().map_or(0, Parser::ambiguous);
        for _ in 0..open.parser.as_ref().map_or(0, Parser::begun) {
            self.tally.unparsed(Reason::Part, open.file, open.lines.number(), b"");
        }
        let (hidden, unnamed) = open.parser.as_ref().map_or((0, 0), Parser::hidden_clients);
        self.tally.summary.hidden_clients += hidden;
        self.tally.summary.unnamed_clients += unnamed;
        self.tally.summary.has_forwarded |= open.parser.as_ref().is_some_and(Parser::has_forwarded);
    }

    fn pass_on(&mut self, bucket: Bucket, batch: &mut Batch) {
        self.tally.replayed(&bucket);
        batch.push(bucket);
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("options", &self.options).finish_non_exhaustive()
    }
}
