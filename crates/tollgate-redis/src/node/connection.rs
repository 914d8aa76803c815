//! A connection that many calls share: senders write, and one task reads.
//!
//! Replies come in the order of the calls. So each call has a place in a queue, and keeps it even if its caller
//! disconnects; its reply is dropped then. Unexpected data closes the connection, because replies could no longer be
//! matched to calls.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::mem::{self, MaybeUninit};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::breaker::Breaker;
use crate::calls::{Calls, InFlightGuard};
use crate::resp::{Reader, RespValue};
use crate::time::instant;
use crate::trouble::{ConnectTrouble, Trouble};

/// The size of one read: the replies to a few batches.
const READ: usize = 16 * 1024;

/// The size of the buffer that is kept for the next writes: a few batches.
const KEPT: usize = 64 * 1024;

/// The sending side of a connection. Clones share it.
#[derive(Clone)]
pub(super) struct Connection {
    wire: Arc<Mutex<Wire>>,
    breaker: Arc<Breaker>,
}

/// The reading side, which must be polled for replies. When it ends, the connection has broken, and all waiting callers
/// have an error. Dropping it closes the connection.
pub(super) struct Pump(Arc<Mutex<Wire>>);

/// The replies to calls that were sent together, in order, including errors of the server. Dropping it drops the
/// replies that are still to come.
pub(super) struct Replies(Arc<Mutex<Inbox>>);

/// A stream under a connection.
pub(super) trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for S {}

struct Wire {
    /// `None` once it is over.
    stream: Option<Box<dyn ByteStream>>,
    /// Bytes that the system has not accepted yet.
    unwritten: Vec<u8>,
    /// Whether a buffering stream must be flushed.
    is_unflushed: bool,
    /// The number of bytes written to the stream.
    written: u64,
    /// Received bytes that the reader has not read yet.
    unread: Vec<u8>,
    reader: Reader,
    /// The waiting callers, in the order of the replies.
    waiting: VecDeque<WaitingCall>,
    /// The pump's.
    waker: Waker,
    breaker: Arc<Breaker>,
}

struct WaitingCall {
    /// `None` if the reply is ignored.
    inbox: Option<Arc<Mutex<Inbox>>>,
    /// Bytes that were written before the call.
    from: u64,
}

/// Replies that have arrived and were not taken yet.
#[derive(Default)]
struct Inbox {
    replies: VecDeque<Result<RespValue, Trouble>>,
    waker: Option<Waker>,
    /// Whether no caller waits.
    is_given_up: bool,
    /// Kept until the last call that replies here is answered.
    guard: Option<InFlightGuard>,
}

impl Connection {
    /// Creates a connection that reports replies to the breaker.
    pub(super) fn new(stream: impl ByteStream + 'static, breaker: Breaker) -> (Self, Pump) {
        let breaker = Arc::new(breaker);
        let wire = Arc::new(Mutex::new(Wire {
            stream: Some(Box::new(stream)),
            unwritten: Vec::new(),
            is_unflushed: false,
            written: 0,
            unread: Vec::new(),
            reader: Reader::default(),
            waiting: VecDeque::new(),
            waker: Waker::noop().clone(),
            breaker: Arc::clone(&breaker),
        }));
        (Self { wire: Arc::clone(&wire), breaker }, Pump(wire))
    }

    /// Returns whether the server answers.
    pub(super) fn breaker(&self) -> &Breaker {
        &self.breaker
    }

    /// Sends calls immediately, and returns their replies to await.
    ///
    /// # Errors
    ///
    /// If the connection is over. Then nothing was sent.
    pub(super) fn send(&self, calls: &Calls) -> Result<Replies, Trouble> {
        let mut wire = lock(&self.wire);
        if wire.stream.is_none() {
            return Err(ConnectTrouble::HungUp.into());
        }
        let inbox = Arc::new(Mutex::new(Inbox { guard: calls.guard().cloned(), ..Inbox::default() }));
        let before = wire.written + wire.unwritten.len() as u64;
        wire.waiting.extend(calls.starts().map(|(start, is_wanted)| WaitingCall {
            inbox: is_wanted.then(|| Arc::clone(&inbox)),
            from: before + start as u64,
        }));
        wire.unwritten.extend_from_slice(calls.bytes());
        // The pump writes the rest and registers for the wake-up.
        match wire.write(&mut Context::from_waker(Waker::noop())) {
            Ok(()) if wire.unwritten.is_empty() && !wire.is_unflushed => {}
            Ok(()) => wire.waker.wake_by_ref(),
            Err(_) => wire.close(&Trouble::Cut),
        }
        Ok(Replies(inbox))
    }

    /// Ends the connection at once. Callers that still wait are told that it was cut.
    pub(super) fn cut(&self) {
        lock(&self.wire).close(&Trouble::Cut);
    }
}

impl Pump {
    /// Waits until no call is in flight, or the connection has broken, and closes it.
    pub(super) async fn finish(mut self) {
        poll_fn(|context| {
            let pump = Pin::new(&mut self);
            if pump.poll(context).is_ready() || lock(&self.0).waiting.is_empty() {
                return Poll::Ready(());
            }
            Poll::Pending
        })
        .await;
    }
}

impl Replies {
    /// Returns the next reply. Every call gets one, which may be that the connection has broken.
    ///
    /// # Cancel safety
    ///
    /// No reply is lost.
    pub(super) async fn next(&mut self) -> Result<RespValue, Trouble> {
        poll_fn(|context| {
            let mut inbox = lock(&self.0);
            match inbox.replies.pop_front() {
                Some(reply) => Poll::Ready(reply),
                None => {
                    inbox.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Keeps the guard until all replies have come or the connection ends, also if this is dropped.
    pub(super) fn hold(&self, guard: InFlightGuard) {
        lock(&self.0).guard = Some(guard);
    }

    /// Returns whether the next reply has arrived.
    pub(super) fn is_there(&self) -> bool {
        !lock(&self.0).replies.is_empty()
    }
}

impl Drop for Replies {
    fn drop(&mut self) {
        let mut inbox = lock(&self.0);
        inbox.is_given_up = true;
        inbox.replies.clear();
    }
}

impl WaitingCall {
    /// Passes the reply to its caller. Returns whether the caller has given up.
    fn answer(self, reply: Result<RespValue, Trouble>) -> bool {
        let Some(inbox) = self.inbox else { return false };
        let mut inbox = lock(&inbox);
        if inbox.is_given_up {
            return true;
        }
        inbox.replies.push_back(reply);
        if let Some(waker) = inbox.waker.take() {
            waker.wake();
        }
        false
    }
}

impl Future for Pump {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut wire = lock(&self.0);
        wire.waker.clone_from(context.waker());
        // Reads and writes each time; otherwise a server that waits for us to read would block our writes for ever.
        if wire.write(context).is_err() {
            wire.close(&Trouble::Cut);
        }
        let trouble = ready!(wire.read(context));
        wire.close(&trouble);
        Poll::Ready(())
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        lock(&self.0).close(&Trouble::Cut);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic never leaves it half changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Wire {
    /// Writes as much as the system accepts immediately.
    fn write(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        while !self.unwritten.is_empty() {
            let Poll::Ready(written) = Pin::new(&mut *stream).poll_write(context, &self.unwritten) else {
                break;
            };
            // A failed write may have been sent in part, as with TLS.
            let count = *written.as_ref().unwrap_or(&self.unwritten.len());
            self.written += count as u64;
            self.unwritten.drain(..count);
            self.is_unflushed = true;
            if written? == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
        // After a pause of the server, the buffer may have megabytes.
        self.unwritten.shrink_to(KEPT);
        if self.is_unflushed {
            self.is_unflushed = Pin::new(stream).poll_flush(context)?.is_pending();
        }
        Ok(())
    }

    /// Reads and hands out replies while there are any. Returns why there will be no more.
    fn read(&mut self, context: &mut Context<'_>) -> Poll<Trouble> {
        let mut space = [const { MaybeUninit::uninit() }; READ];
        while let Some(stream) = &mut self.stream {
            let mut chunk = ReadBuf::uninit(&mut space);
            let read = ready!(Pin::new(stream).poll_read(context, &mut chunk));
            if read.is_err() || chunk.filled().is_empty() {
                break;
            }
            self.unread.extend_from_slice(chunk.filled());
            if self.hand_out().is_none() {
                return Poll::Ready(Trouble::BadReply);
            }
        }
        Poll::Ready(Trouble::Cut)
    }

    /// Hands out all whole replies; `None` if the data is not a reply, or no call waits for it.
    fn hand_out(&mut self) -> Option<()> {
        let (mut end, mut late, mut is_answered) = (0, 0, false);
        loop {
            let (length, reply) = self.reader.read(self.unread.get(end..)?).ok()?;
            end += length;
            let Some(reply) = reply else { break };
            late += u64::from(self.waiting.pop_front()?.answer(Ok(reply)));
            is_answered = true;
        }
        if is_answered {
            self.breaker.answered(instant(), late);
        }
        self.unread.drain(..end);
        Some(())
    }

    /// Ends the connection. All waiting callers get the reason or, if no part of their call was written, that it was
    /// not sent.
    fn close(&mut self, trouble: &Trouble) {
        self.stream = None;
        for waiting in mem::take(&mut self.waiting) {
            let is_unsent = waiting.from >= self.written;
            waiting.answer(Err(if is_unsent { ConnectTrouble::HungUp.into() } else { trouble.clone() }));
        }
        self.waker.wake_by_ref();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use smallvec::smallvec;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::timeout;

    use super::*;
    use crate::lane::{Bounds, Lane, Next};
    use crate::script::Request;
    use crate::slot::ClusterSlot;
    use crate::waiter::{Waiter, WaitingRequest};

    /// A connection whose system keeps so many bytes, and its other end.
    fn connection(bytes: usize) -> (Connection, Pump, DuplexStream) {
        let (near, far) = duplex(bytes);
        let breaker = Breaker::new(Duration::from_secs(20), instant(), Arc::default());
        let (connection, pump) = Connection::new(near, breaker);
        (connection, pump, far)
    }

    fn calls(texts: &[&str]) -> Calls {
        let mut calls = Calls::default();
        for text in texts {
            calls.begin(0).extend_from_slice(text.as_bytes());
        }
        calls
    }

    fn send(connection: &Connection, command: &str) -> Replies {
        connection.send(&calls(&[command])).unwrap()
    }

    async fn next(replies: &mut Replies) -> Result<RespValue, Trouble> {
        timeout(Duration::from_secs(20), replies.next()).await.expect("nobody was told")
    }

    async fn reply(mut replies: Replies) -> Result<RespValue, Trouble> {
        next(&mut replies).await
    }

    const HUNG_UP: Trouble = Trouble::Unconnected(ConnectTrouble::HungUp);

    #[tokio::test]
    async fn each_gets_the_reply_to_its_own_call_however_slowly_bytes_pass() {
        let (connection, pump, mut far) = connection(3);
        tokio::spawn(pump);
        // It waits for replies by now, and has to be told that there is something to write.
        tokio::task::yield_now().await;
        let awaited = [send(&connection, "first"), send(&connection, "second"), send(&connection, "third")];
        let mut written = [0; 16];
        far.read_exact(&mut written).await.unwrap();
        assert_eq!(&written, b"firstsecondthird");
        far.write_all(b":1\r\n$5\r\ntwo\r\n\r\n*2\r\n:3\r\n+x\r\n").await.unwrap();
        let [first, second, third] = awaited.map(reply);
        assert_eq!(first.await, Ok(RespValue::Int(1)));
        assert_eq!(second.await, Ok(RespValue::Bulk(b"two\r\n".to_vec())));
        assert_eq!(third.await, Ok(RespValue::Array(vec![RespValue::Int(3), RespValue::Simple("x".into())])));
    }

    #[tokio::test]
    async fn dropped_callers_keep_their_place_in_the_queue() {
        let (connection, pump, mut far) = connection(99);
        tokio::spawn(pump);
        drop(send(&connection, "gone"));
        let last = connection.send(&calls(&["two"]).asking()).unwrap();
        far.write_all(b":1\r\n:2\r\n:3\r\n").await.unwrap();
        assert_eq!(reply(last).await, Ok(RespValue::Int(3)));
    }

    #[tokio::test]
    async fn calls_that_go_together_are_answered_as_their_replies_come() {
        let (connection, pump, mut far) = connection(99);
        let pump = tokio::spawn(pump);
        let mut replies = connection.send(&calls(&["first", "second", "third"])).unwrap();
        let mut written = [0; 16];
        far.read_exact(&mut written).await.unwrap();
        assert_eq!(&written, b"firstsecondthird");
        far.write_all(b":1\r\n").await.unwrap();
        assert_eq!(next(&mut replies).await, Ok(RespValue::Int(1)));
        far.write_all(b":2\r\n").await.unwrap();
        assert_eq!(next(&mut replies).await, Ok(RespValue::Int(2)));
        drop(far);
        assert_eq!(next(&mut replies).await, Err(Trouble::Cut));
        timeout(Duration::from_secs(20), pump).await.expect("it goes on").unwrap();
    }

    #[tokio::test]
    async fn a_reply_for_which_nobody_waits_any_more_is_late() {
        let (connection, pump, mut far) = connection(99);
        tokio::spawn(pump);
        drop(send(&connection, "gone"));
        let asking = connection.send(&calls(&["call"]).asking()).unwrap();
        far.write_all(b":1\r\n").await.unwrap();
        while !connection.breaker().is_late() {
            tokio::task::yield_now().await;
        }
        far.write_all(b"+OK\r\n:2\r\n").await.unwrap();
        assert_eq!(reply(asking).await, Ok(RespValue::Int(2)));
        assert!(!connection.breaker().is_late());
    }

    /// Calls without a reply in time were no longer in flight although the server still had them, so a server that was
    /// too slow got ever more of them.
    #[tokio::test]
    async fn calls_that_are_given_up_stay_under_way_until_they_are_answered_or_the_connection_ends() {
        let (connection, pump, mut far) = connection(99);
        tokio::spawn(pump);
        let lane = Arc::new(Lane::new(Bounds { under_way: 1, prompt: Duration::ZERO }));
        let until = instant() + Duration::from_secs(20);
        let push = || {
            let request = Request { keys: smallvec![b"key".as_slice().into()], ..Request::default() };
            let (waiter, _) = Waiter::new(until);
            lane.push(WaitingRequest { slot: ClusterSlot(0), request, waiter }).unwrap()
        };
        let mut driver = push().unwrap();
        for last in [false, true] {
            assert!(matches!(driver.next(), Next::Take(_)));
            send(&connection, "call").hold(Arc::new(driver.give_up()));
            assert!(push().is_none());
            assert!(matches!(driver.next(), Next::Wait { .. }));
            if last {
                far.shutdown().await.unwrap();
            } else {
                far.write_all(b":1\r\n").await.unwrap();
            }
            driver.room(until).await;
        }
        assert!(matches!(driver.next(), Next::Take(_)));
    }

    #[tokio::test]
    async fn a_reply_that_nobody_asked_for_ends_it() {
        let (connection, pump, mut far) = connection(99);
        let pump = tokio::spawn(pump);
        let first = send(&connection, "call");
        far.write_all(b":1\r\n:2\r\n").await.unwrap();
        assert_eq!(reply(first).await, Ok(RespValue::Int(1)));
        timeout(Duration::from_secs(20), pump).await.expect("it goes on").unwrap();
        assert_eq!(connection.send(&calls(&["call"])).err(), Some(HUNG_UP));
        assert_eq!(far.read_to_end(&mut Vec::new()).await.unwrap(), 4, "it was not closed");
    }

    #[tokio::test]
    async fn an_invalid_reply_closes_the_connection_for_all_callers() {
        let (connection, pump, mut far) = connection(99);
        tokio::spawn(pump);
        let awaited = [send(&connection, "first"), send(&connection, "second")];
        far.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        for awaited in awaited {
            assert_eq!(reply(awaited).await, Err(Trouble::BadReply));
        }
    }

    /// Only what was not sent may be sent again.
    #[tokio::test]
    async fn partly_sent_calls_may_have_run_and_unsent_ones_have_not() {
        let (connection, pump, far) = connection(8);
        let awaited = [send(&connection, "whole"), send(&connection, "parted"), send(&connection, "unsent")];
        drop((pump, far));
        let [whole, parted, unsent] = awaited.map(reply);
        assert_eq!(whole.await, Err(Trouble::Cut));
        assert_eq!(parted.await, Err(Trouble::Cut));
        assert_eq!(unsent.await, Err(HUNG_UP));
    }

    /// A server refused one batch for a missing right. The connection was closed at once, and the callers of the next
    /// batch, which it refused as well, were told that no answer had come.
    #[tokio::test]
    async fn calls_in_flight_get_their_own_replies_before_it_is_closed() {
        let (connection, pump, mut far) = connection(1_000);
        let (first, second) = (send(&connection, "1"), send(&connection, "2"));
        let finishing = tokio::spawn(pump.finish());
        for replies in [first, second] {
            far.write_all(b"+OK\r\n").await.unwrap();
            assert!(reply(replies).await.is_ok());
        }
        timeout(Duration::from_secs(20), finishing).await.expect("nothing is in flight").unwrap();
        assert!(connection.send(&calls(&["3"])).is_err());
    }

    #[tokio::test]
    async fn a_peer_that_goes_away_ends_it() {
        let (connection, pump, far) = connection(99);
        let pump = tokio::spawn(pump);
        let awaited = send(&connection, "call");
        drop(far);
        assert_eq!(reply(awaited).await, Err(Trouble::Cut));
        timeout(Duration::from_secs(20), pump).await.expect("it goes on").unwrap();
    }

    /// A connection that broke with the very step that brought the last reply of its login was taken for one that
    /// works, and polled once more.
    #[tokio::test]
    async fn a_pump_that_has_ended_stays_ended() {
        let (_connection, mut pump, far) = connection(99);
        drop(far);
        for _ in 0..3 {
            (&mut pump).await;
        }
    }
}
