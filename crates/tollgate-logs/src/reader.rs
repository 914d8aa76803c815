//! Reading: a thread that reads and parses, and the requests that it sends.

use std::mem;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::thread;

use crate::error::Error;
use crate::input::{Input, expand};
use crate::options::Options;
use crate::progress::{Counts, Progress, Watch};
use crate::reading::Reading;
use crate::record::Bucket;
use crate::request::Request;
use crate::summary::Summary;

/// The requests of logs, in the order of time.
///
/// A separate thread reads and parses ahead, by a bounded number of requests. It ends soon after the reader is dropped,
/// except while it waits for the standard input.
#[derive(Debug)]
pub struct Reader {
    batches: Receiver<Message>,
    /// Where batches that have been read go back to: fresh memory would cost a tenth of the time.
    read: Sender<Vec<Bucket>>,
    batch: Vec<Bucket>,
    /// Which bucket of the batch, and which request of it, comes next.
    next: (usize, usize),
    counts: Arc<Counts>,
    of: Option<u64>,
    summary: Summary,
    /// Whether the thread has told its end.
    has_ended: bool,
}

/// A message from the reader thread.
pub(crate) enum Message {
    Batch(Vec<Bucket>),
    /// The last one.
    End(Box<Summary>, Result<(), Error>),
}

/// How many batches wait to be taken. A replay is slowest at its start, when its tables get their memory. With this many,
/// reading goes on meanwhile.
const AHEAD: usize = 3;

impl Reader {
    /// Opens logs, and begins to read them.
    ///
    /// # Errors
    ///
    /// If an input does not exist. Errors inside files are found later, and returned by [`Reader::read`].
    pub fn open(inputs: impl IntoIterator<Item = impl Into<Input>>, options: Options) -> Result<Self, Error> {
        let (logs, of) = expand(inputs.into_iter().map(Into::into).collect())?;
        let counts = Arc::new(Counts::default());
        let (sender, batches) = sync_channel(AHEAD);
        // Without a bound: no more batches come back than were sent.
        let (read, to_reuse) = channel();
        let reading = Reading::new(options, Arc::clone(&counts), sender, to_reuse);
        let thread = thread::Builder::new().name("logs".to_owned());
        thread.spawn(move || reading.run(logs)).map_err(Error::Thread)?;
        Ok(Self {
            batches,
            read,
            batch: Vec::new(),
            next: (0, 0),
            counts,
            of,
            summary: Summary::default(),
            has_ended: false,
        })
    }

    /// Returns the next request, or `None` after the last one.
    ///
    /// # Errors
    ///
    /// If the logs cannot be read any further. [`Error::Unparsed`] comes after the last request.
    pub fn read(&mut self) -> Result<Option<Request<'_>>, Error> {
        Ok(self.read_some(1)?.next())
    }

    /// Returns the next requests, as many as have been read ahead together: at least one unless all have been read. This is
    /// faster than one by one.
    ///
    /// # Errors
    ///
    /// The same as [`read`](Self::read).
    pub fn read_batch(&mut self) -> Result<impl Iterator<Item = Request<'_>>, Error> {
        self.read_some(usize::MAX)
    }

    /// Returns at most this many of the next requests of a batch.
    fn read_some(&mut self, most: usize) -> Result<impl Iterator<Item = Request<'_>>, Error> {
        self.receive()?;
        let (bucket, place) = self.next;
        self.skip(most);
        let mut buckets = self.batch.get(bucket..).unwrap_or_default().iter();
        let first = buckets.next().into_iter().flat_map(move |bucket| bucket.requests(place));
        Ok(first.chain(buckets.flat_map(|bucket| bucket.requests(0))).take(most))
    }

    /// Takes the next batch if all requests of this one have been read.
    fn receive(&mut self) -> Result<(), Error> {
        while self.next.0 >= self.batch.len() && !self.has_ended {
            match self.batches.recv() {
                Ok(Message::Batch(batch)) => {
                    // The thread may have read all, and ended.
                    let _ = self.read.send(mem::replace(&mut self.batch, batch));
                    self.next = (0, 0);
                }
                Ok(Message::End(summary, result)) => {
                    self.summary = *summary;
                    self.has_ended = true;
                    result?;
                }
                Err(_) => return Err(Error::Panicked),
            }
        }
        Ok(())
    }

    /// Skips this many requests, or the rest of the batch.
    fn skip(&mut self, mut requests: usize) {
        while let Some(bucket) = self.batch.get(self.next.0) {
            let left = bucket.heads.len() - self.next.1;
            if requests < left {
                self.next.1 += requests;
                return;
            }
            requests -= left;
            self.next = (self.next.0 + 1, 0);
        }
    }

    /// Returns the progress of reading. It is ahead of [`Reader::read`].
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.counts.progress(self.of)
    }

    /// Tells how far reading has come, which is ahead of [`Reader::read`].
    #[must_use]
    pub fn watch(&self) -> Watch {
        Watch { counts: Arc::clone(&self.counts), of: self.of }
    }

    /// Returns the summary of a reading. It is empty until [`Reader::read`] has returned `None` or an error.
    #[must_use]
    pub fn summary(&self) -> &Summary {
        &self.summary
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.counts.drop_reader();
    }
}
