//! Ends connections that hold a place without making progress: slow heads, unread answers, long silence, and idleness
//! during a drain.
//!
//! hyper's own timer for heads treats an idle connection as a slow head, and needs a timer for each request. Here a
//! connection records its own events, and the watchdog looks once a [`TICK`], for the first time after one tick to two.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::metrics::Cut;
use crate::net::drain::{Phase, Pressure};
use crate::net::lingering_close::LingeringClose;

/// The interval at which the watchdog checks a connection. The limits below count ticks, so they are exact to one tick.
const TICK: Duration = Duration::from_secs(1);

/// A head must be complete this long after its first byte. The first head must be complete this long after the
/// connection was accepted.
const HEAD_TICKS: u32 = 5;

/// Longer than the usual client pools keep a connection, so that the server rarely closes it first.
const IDLE_TICKS: u32 = 120;

/// How long a client may leave an answer unread while room is needed.
const STALLED_TICKS: u32 = 10;

/// How long a connection of interleaved requests may last after it was asked to close.
const CLOSING_TICKS: u32 = 5;

/// How long a connection may be idle while nearly all connections are taken.
const CROWDED_TICKS: u32 = 2;

/// The events of a connection. Clones share them.
///
/// Every access is relaxed: the figures guard no other memory, and a look between two of them only sees a slightly
/// older state.
#[derive(Clone, Default)]
pub(crate) struct Activity(Arc<RecordedEvents>);

#[derive(Default)]
struct RecordedEvents {
    begun: AtomicU32,
    /// Requests without an answer, in two generations.
    pending: [AtomicU32; 2],
    /// The generation of new requests. The other one only shrinks, and when it is empty they change places. If it stays
    /// non-empty, one request has been waiting all that time, whichever others begin and end.
    young: AtomicUsize,
    /// Bytes came since a request last began or was answered: in HTTP/1, a piece of the next head.
    bytes: AtomicBool,
    interleaved: AtomicBool,
    /// Whether the client was informed that the connection is about to close.
    closing: AtomicBool,
    /// Whether a request was answered before its body was read, and is the last one.
    unread: AtomicBool,
    /// How many times bytes started and stopped waiting for the client to read. Odd while they wait.
    writes: AtomicU32,
}

/// The order of requests on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// The next request begins after the answer to the previous one, or waits for it. Nothing is sent between requests.
    OneByOne,
    /// Several at once. The protocol announces the end of the connection, and sends bytes of its own.
    Interleaved,
}

impl Activity {
    /// Creates the activity of a connection whose requests are interleaved from the start.
    pub(crate) fn interleaved() -> Self {
        let activity = Self::default();
        activity.0.interleaved.store(true, Ordering::Relaxed);
        activity
    }

    /// Notes a request with a complete head. It is in flight until the guard is dropped.
    pub(crate) fn begin(&self, order: Order) -> PendingAnswer {
        let RecordedEvents { begun, pending, young, bytes, interleaved, .. } = &*self.0;
        begun.fetch_add(1, Ordering::Relaxed);
        bytes.store(false, Ordering::Relaxed);
        if order == Order::Interleaved {
            interleaved.store(true, Ordering::Relaxed);
        }
        let generation = young.load(Ordering::Relaxed);
        pending[generation].fetch_add(1, Ordering::Relaxed);
        PendingAnswer { activity: self.clone(), generation }
    }

    /// Returns the number of requests without an answer.
    pub(crate) fn pending(&self) -> u32 {
        self.0.pending.iter().map(|pending| pending.load(Ordering::Relaxed)).sum()
    }

    /// Returns whether the connection accepts no further request, so that streams must end.
    pub(crate) fn is_closing(&self) -> bool {
        self.0.closing.load(Ordering::Relaxed)
    }

    /// Returns whether the client may still be sending when the connection ends: the rest of a body, or of a head that
    /// was answered before its end.
    fn may_be_receiving(&self) -> bool {
        let RecordedEvents { bytes, unread, interleaved, .. } = &*self.0;
        let is_in_head = bytes.load(Ordering::Relaxed) && !interleaved.load(Ordering::Relaxed);
        is_in_head || unread.load(Ordering::Relaxed)
    }

    pub(crate) fn note_closing(&self) {
        self.0.closing.store(true, Ordering::Relaxed);
    }

    /// Returns whether the older generation is fully answered. If so, the generations change places.
    fn turns(&self) -> bool {
        let RecordedEvents { pending, young, .. } = &*self.0;
        let old = 1 - young.load(Ordering::Relaxed);
        let is_empty = pending[old].load(Ordering::Relaxed) == 0;
        if is_empty {
            young.store(old, Ordering::Relaxed);
        }
        is_empty
    }

    fn bytes_came(&self) {
        self.0.bytes.store(true, Ordering::Relaxed);
    }

    /// Notes whether bytes are waiting for the client to read.
    fn write_waits(&self, waits: bool) {
        let writes = &self.0.writes;
        if is_odd(writes.load(Ordering::Relaxed)) != waits {
            writes.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A request in flight.
pub(crate) struct PendingAnswer {
    activity: Activity,
    generation: usize,
}

impl PendingAnswer {
    /// Notes that the connection ends with the answer to this request, whose body was not read.
    pub(crate) fn note_unread(&self) {
        self.activity.0.unread.store(true, Ordering::Relaxed);
    }
}

impl Drop for PendingAnswer {
    fn drop(&mut self) {
        let RecordedEvents { pending, bytes, .. } = &*self.activity.0;
        pending[self.generation].fetch_sub(1, Ordering::Relaxed);
        bytes.store(false, Ordering::Relaxed);
    }
}

const fn is_odd(number: u32) -> bool {
    number % 2 == 1
}

/// How long a connection may last, however busy it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lifetime {
    max_age: Option<Duration>,
}

impl Lifetime {
    pub(crate) const UNLIMITED: Self = Self { max_age: None };

    pub(crate) const fn new(max_age: Option<Duration>) -> Self {
        Self { max_age }
    }

    /// Returns the number of ticks, up to a tenth more than the age, so that clients that connected together do not
    /// disconnect together.
    fn ticks(self) -> Option<u64> {
        let max_age = self.max_age?;
        Some(max_age.mul_f64(1.0 + fastrand::f64() / 10.0).as_secs())
    }
}

/// The fate of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Judgement {
    Keep,
    /// Let it finish its requests, and accept no further ones.
    Close,
    /// Drop it now.
    Cut(Cut),
}

/// Drives a connection until it ends or is cut. `close` lets it finish its requests and accept no further ones.
pub(crate) async fn watch<C: Future>(
    connection: C,
    close: impl Fn(Pin<&mut C>),
    activity: &Activity,
    phase: &Phase,
    lifetime: Lifetime,
) -> Result<C::Output, Cut> {
    let mut connection = pin!(connection);
    // Spread out, because looking at all clients that connected together would hold up the others once a tick.
    let mut tick = pin!(tokio::time::sleep(TICK + TICK.mul_f64(fastrand::f64())));
    let mut watchdog = Watchdog { lifetime: lifetime.ticks(), ..Watchdog::default() };
    loop {
        tokio::select! {
            biased;
            served = connection.as_mut() => return Ok(served),
            () = tick.as_mut() => match watchdog.tick(activity, phase.pressure()) {
                Judgement::Keep => {}
                Judgement::Close => {
                    activity.note_closing();
                    close(connection.as_mut());
                }
                Judgement::Cut(cut) => return Err(cut),
            }
        }
        #[expect(clippy::disallowed_methods, reason = "a timer is set again; no decision depends on it")]
        tick.as_mut().reset(tokio::time::Instant::now() + TICK);
    }
}

/// Looks at a connection once a tick.
#[derive(Default)]
struct Watchdog {
    begun: u32,
    pending: u32,
    writes: u32,
    /// Ticks during which the same request, or several, had no answer.
    unanswered: u32,
    /// Ticks during which bytes waited for the client to read.
    unwritten: u32,
    /// Ticks without a new request.
    quiet: u32,
    /// Ticks with an incomplete head.
    head: u32,
    /// All ticks.
    age: u64,
    /// Ticks after which it is to end.
    lifetime: Option<u64>,
}

impl Watchdog {
    fn tick(&mut self, activity: &Activity, pressure: Pressure) -> Judgement {
        let happened = &*activity.0;
        let begun = happened.begun.load(Ordering::Relaxed);
        let interleaved = happened.interleaved.load(Ordering::Relaxed);
        if pressure == Pressure::Drain && interleaved {
            // At once, even on a busy connection: the protocol announces the end and still answers earlier requests,
            // while no answer can announce that it is the last.
            return Judgement::Close;
        }
        if self.is_stalled(activity, pressure) {
            return Judgement::Cut(Cut::Stalled);
        }
        self.age += 1;
        if let Some(beyond) = self.lifetime.and_then(|lifetime| self.age.checked_sub(lifetime)) {
            // What lasts, such as a stream of health, ends with it.
            let is_over = beyond >= u64::from(CLOSING_TICKS) && activity.pending() == 0;
            return if is_over { Judgement::Cut(Cut::Expired) } else { Judgement::Close };
        }
        let pending = activity.pending();
        // A drain asks even a connection with unread bytes to close: its answers may not have announced the end.
        let is_busy = pending > 0 || (is_odd(self.writes) && pressure != Pressure::Drain);
        if is_busy || (begun, pending) != (self.begun, self.pending) {
            *self = Self { begun, pending, quiet: 0, head: 0, ..*self };
            return Judgement::Keep;
        }
        self.quiet += 1;
        // Between interleaved requests, bytes are normal: pings, settings, windows.
        let in_head = happened.bytes.load(Ordering::Relaxed) && !interleaved;
        // A client that speaks such a protocol from the start may connect before it has something to ask.
        let is_waiting = interleaved && happened.bytes.load(Ordering::Relaxed);
        self.head = if in_head || (begun == 0 && !is_waiting) { self.head + 1 } else { 0 };
        let is_unwanted = match pressure {
            Pressure::None => false,
            Pressure::Crowd => (begun > 0 || is_waiting) && self.quiet >= CROWDED_TICKS,
            Pressure::Drain => true,
        };
        if self.head >= HEAD_TICKS {
            Judgement::Cut(Cut::SlowHead)
        } else if interleaved && (IDLE_TICKS..IDLE_TICKS + CLOSING_TICKS).contains(&self.quiet) {
            // The client may ask just now, and is told that this comes too late.
            Judgement::Close
        } else if self.quiet >= IDLE_TICKS {
            Judgement::Cut(Cut::Idle)
        } else if is_unwanted && !in_head {
            Judgement::Close
        } else {
            Judgement::Keep
        }
    }

    /// Returns whether the client has left an answer unread for too long, whatever else it sends and reads.
    fn is_stalled(&mut self, activity: &Activity, pressure: Pressure) -> bool {
        let writes = activity.0.writes.load(Ordering::Relaxed);
        let goes_on = is_odd(writes) && writes == self.writes;
        self.unwritten = if goes_on { self.unwritten + 1 } else { 0 };
        self.writes = writes;
        self.unanswered = if activity.turns() { 0 } else { self.unanswered + 1 };
        // Longer than a store may take, unless room is wanted.
        let most = if pressure == Pressure::Crowd { STALLED_TICKS } else { IDLE_TICKS };
        self.unwritten.max(self.unanswered) >= most
    }
}

/// The bytes of a connection: notes when they come, and when they are blocked. At its end, it reads what its client is
/// still sending.
pub(crate) struct WatchedStream<I> {
    io: I,
    activity: Activity,
    lingering: Option<LingeringClose>,
}

impl<I> WatchedStream<I> {
    pub(crate) fn new(io: I, activity: Activity) -> Self {
        Self { io, activity, lingering: None }
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for WatchedStream<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.io).poll_read(context, buffer);
        if read.is_ready() {
            self.activity.bytes_came();
        }
        match read {
            // Many clients end TLS without a close alert. HTTP itself tells whether a request is complete (RFC 9112,
            // section 9.8).
            Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => Poll::Ready(Ok(())),
            read => read,
        }
    }
}

impl<I: AsyncRead + AsyncWrite + Unpin> AsyncWrite for WatchedStream<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(context, bytes);
        if written.is_pending() {
            self.activity.write_waits(true);
        }
        written
    }

    /// Called once everything is written, so it ends a wait; a trickle of bytes does not.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.io).poll_flush(context);
        self.activity.write_waits(flushed.is_pending());
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { io, activity, lingering } = &mut *self;
        if lingering.is_none() {
            let shut_down = Pin::new(&mut *io).poll_shutdown(context);
            activity.write_waits(shut_down.is_pending());
            if !matches!(shut_down, Poll::Ready(Ok(()))) || !activity.may_be_receiving() {
                return shut_down;
            }
        }
        lingering.get_or_insert_with(LingeringClose::start).poll(io, context).map(Ok)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(context, slices);
        if written.is_pending() {
            self.activity.write_waits(true);
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(watchdog: &mut Watchdog, activity: &Activity, count: u32) -> Vec<Judgement> {
        (0..count).map(|_| watchdog.tick(activity, Pressure::None)).collect()
    }

    #[test]
    fn cuts_a_connection_without_a_request_after_five_ticks() {
        let (activity, mut watchdog) = (Activity::default(), Watchdog::default());
        assert_eq!(ticks(&mut watchdog, &activity, 4), [Judgement::Keep; 4]);
        assert_eq!(watchdog.tick(&activity, Pressure::None), Judgement::Cut(Cut::SlowHead));
    }

    #[test]
    fn cuts_a_slow_head_on_a_kept_connection_but_not_an_idle_one() {
        let (activity, mut watchdog) = (Activity::default(), Watchdog::default());
        drop(activity.begin(Order::OneByOne));
        assert_eq!(ticks(&mut watchdog, &activity, 60), [Judgement::Keep; 60]);
        activity.bytes_came();
        assert_eq!(ticks(&mut watchdog, &activity, 4), [Judgement::Keep; 4]);
        assert_eq!(watchdog.tick(&activity, Pressure::None), Judgement::Cut(Cut::SlowHead));
    }

    /// Proxies connect before they have something to ask.
    #[test]
    fn a_client_that_speaks_http2_from_the_start_may_wait() {
        let (activity, mut watchdog) = (Activity::interleaved(), Watchdog::default());
        activity.bytes_came();
        assert_eq!(ticks(&mut watchdog, &activity, 60), [Judgement::Keep; 60]);
        assert_eq!(watchdog.tick(&activity, Pressure::Crowd), Judgement::Close);

        let (silent, mut watchdog) = (Activity::interleaved(), Watchdog::default());
        assert_eq!(ticks(&mut watchdog, &silent, 4), [Judgement::Keep; 4]);
        assert_eq!(watchdog.tick(&silent, Pressure::None), Judgement::Cut(Cut::SlowHead));
    }

    #[test]
    fn an_idle_connection_of_interleaved_requests_is_told_to_close_first() {
        let (activity, mut watchdog) = (Activity::default(), Watchdog::default());
        drop(activity.begin(Order::Interleaved));
        assert_eq!(ticks(&mut watchdog, &activity, 120), [Judgement::Keep; 120]);
        assert_eq!(ticks(&mut watchdog, &activity, 5), [Judgement::Close; 5]);
        assert_eq!(watchdog.tick(&activity, Pressure::None), Judgement::Cut(Cut::Idle));
    }

    #[test]
    fn a_connection_that_is_too_old_is_told_to_close_and_answers_what_was_asked() {
        let activity = Activity::default();
        let mut watchdog = Watchdog { lifetime: Some(3), ..Watchdog::default() };
        let answering = activity.begin(Order::Interleaved);
        assert_eq!(ticks(&mut watchdog, &activity, 2), [Judgement::Keep; 2]);
        assert_eq!(ticks(&mut watchdog, &activity, 9), [Judgement::Close; 9]);
        drop(answering);
        assert_eq!(watchdog.tick(&activity, Pressure::None), Judgement::Cut(Cut::Expired));
    }

    #[test]
    fn pings_between_interleaved_requests_are_no_slow_head() {
        let (activity, mut watchdog) = (Activity::default(), Watchdog::default());
        drop(activity.begin(Order::Interleaved));
        activity.bytes_came();
        assert_eq!(ticks(&mut watchdog, &activity, 60), [Judgement::Keep; 60]);
    }

    #[test]
    fn a_drain_closes_interleaved_requests_also_while_it_answers() {
        let (activity, mut watchdog) = (Activity::default(), Watchdog::default());
        let _answering = activity.begin(Order::Interleaved);
        assert_eq!(watchdog.tick(&activity, Pressure::None), Judgement::Keep);
        assert_eq!(watchdog.tick(&activity, Pressure::Drain), Judgement::Close);
    }

    #[test]
    fn a_drain_closes_what_is_idle_and_keeps_what_is_answered_or_arriving() {
        let (activity, mut watchdog) = (Activity::default(), Watchdog::default());
        let answering = activity.begin(Order::OneByOne);
        assert_eq!(watchdog.tick(&activity, Pressure::Drain), Judgement::Keep);
        drop(answering);
        activity.bytes_came();
        assert_eq!(watchdog.tick(&activity, Pressure::Drain), Judgement::Keep);
        drop(activity.begin(Order::OneByOne));
        assert_eq!(watchdog.tick(&activity, Pressure::Drain), Judgement::Keep);
        assert_eq!(watchdog.tick(&activity, Pressure::Drain), Judgement::Close);
    }

    #[test]
    fn a_crowd_closes_what_is_idle_for_two_ticks_and_no_slow_head() {
        let (activity, mut watchdog) = (Activity::default(), Watchdog::default());
        let crowd = |watchdog: &mut Watchdog| watchdog.tick(&activity, Pressure::Crowd);
        let answering = activity.begin(Order::OneByOne);
        assert_eq!([crowd(&mut watchdog), crowd(&mut watchdog), crowd(&mut watchdog)], [Judgement::Keep; 3]);
        drop(answering);
        assert_eq!(crowd(&mut watchdog), Judgement::Keep);
        activity.bytes_came();
        assert_eq!(crowd(&mut watchdog), Judgement::Keep, "the next request is on its way");
        drop(activity.begin(Order::OneByOne));
        assert_eq!([crowd(&mut watchdog), crowd(&mut watchdog)], [Judgement::Keep; 2]);
        assert_eq!(crowd(&mut watchdog), Judgement::Close);
    }

    #[test]
    fn an_idle_connection_is_cut_after_two_minutes() {
        let (activity, mut watchdog) = (Activity::default(), Watchdog::default());
        drop(activity.begin(Order::OneByOne));
        assert_eq!(
            ticks(&mut watchdog, &activity, 120),
            [Judgement::Keep; 120],
            "the first sees the request"
        );
        assert_eq!(watchdog.tick(&activity, Pressure::None), Judgement::Cut(Cut::Idle));
    }

    #[test]
    fn a_client_that_reads_no_answer_is_cut_sooner_where_room_is_wanted() {
        let (activity, mut watchdog) = (Activity::default(), Watchdog::default());
        let _unread = activity.begin(Order::Interleaved);
        assert_eq!(ticks(&mut watchdog, &activity, 120), [Judgement::Keep; 120]);
        assert_eq!(watchdog.tick(&activity, Pressure::None), Judgement::Cut(Cut::Stalled));

        let (activity, mut watchdog) = (Activity::default(), Watchdog::default());
        let _unread = activity.begin(Order::Interleaved);
        let crowd = |watchdog: &mut Watchdog| watchdog.tick(&activity, Pressure::Crowd);
        assert!((0..10).all(|_| crowd(&mut watchdog) == Judgement::Keep));
        assert_eq!(crowd(&mut watchdog), Judgement::Cut(Cut::Stalled));
    }

    /// A request each second that was answered at once kept the connection, with all its unread answers.
    #[test]
    fn other_requests_give_an_unread_answer_no_more_time() {
        let (activity, mut watchdog) = (Activity::default(), Watchdog::default());
        let _unread = activity.begin(Order::Interleaved);
        let mut others = (0..11).map(|_| {
            drop(activity.begin(Order::Interleaved));
            watchdog.tick(&activity, Pressure::Crowd)
        });
        assert!(others.by_ref().take(10).all(|judgement| judgement == Judgement::Keep));
        assert_eq!(others.next(), Some(Judgement::Cut(Cut::Stalled)));
    }

    #[test]
    fn a_client_that_reads_each_answer_in_time_is_kept() {
        let (activity, mut watchdog) = (Activity::default(), Watchdog::default());
        let mut unread = activity.begin(Order::Interleaved);
        for _ in 0..100 {
            // There is always an answer that the client has not read.
            assert!((0..5).all(|_| watchdog.tick(&activity, Pressure::Crowd) == Judgement::Keep));
            let next = activity.begin(Order::Interleaved);
            drop(std::mem::replace(&mut unread, next));
        }
        drop(unread);
        assert_eq!(activity.pending(), 0);
    }

    /// Over HTTP/1.1 the answer was complete, and the connection counted as idle while its bytes waited.
    #[test]
    fn a_client_that_takes_no_bytes_is_stalled_and_not_idle() {
        let (activity, mut watchdog) = (Activity::default(), Watchdog::default());
        drop(activity.begin(Order::OneByOne));
        activity.write_waits(true);
        assert!((0..10).all(|_| watchdog.tick(&activity, Pressure::Crowd) == Judgement::Keep));
        assert_eq!(watchdog.tick(&activity, Pressure::Drain), Judgement::Close);
        assert_eq!(watchdog.tick(&activity, Pressure::Crowd), Judgement::Cut(Cut::Stalled));

        let mut watchdog = Watchdog::default();
        assert_eq!(ticks(&mut watchdog, &activity, 120), [Judgement::Keep; 120]);
        assert_eq!(watchdog.tick(&activity, Pressure::None), Judgement::Cut(Cut::Stalled));
    }

    /// Each wait that ends resets the time; a trickle of bytes ends no wait.
    #[test]
    fn a_client_that_takes_all_bytes_in_time_is_kept() {
        let (activity, mut watchdog) = (Activity::default(), Watchdog::default());
        for _ in 0..10 {
            drop(activity.begin(Order::OneByOne));
            activity.write_waits(true);
            assert!((0..8).all(|_| watchdog.tick(&activity, Pressure::Crowd) == Judgement::Keep));
            activity.write_waits(false);
        }
    }

    /// The watchdog checks a connection once a second, whatever happens on it.
    #[tokio::test(start_paused = true)]
    #[expect(clippy::disallowed_methods, reason = "this is tokio's clock, which stands still")]
    async fn a_connection_is_looked_at_every_second() {
        let (activity, phase) = (Activity::default(), Phase::default());
        let began = tokio::time::Instant::now();
        let silent =
            watch(std::future::pending::<()>(), |_| {}, &activity, &phase, Lifetime::UNLIMITED).await;
        assert_eq!(silent, Err(Cut::SlowHead));
        // The clock advances by whole milliseconds.
        let latest = (HEAD_TICKS + 1) * TICK + TICK / 10;
        assert!((HEAD_TICKS * TICK..latest).contains(&began.elapsed()), "{:?}", began.elapsed());

        let ends = tokio::time::sleep(3 * TICK);
        assert_eq!(watch(ends, |_| {}, &activity, &phase, Lifetime::UNLIMITED).await, Ok(()));

        // Each look but the first, which sees a new request, tells it to close; it then ends by itself.
        drop(activity.begin(Order::OneByOne));
        let closed = std::cell::Cell::new(0);
        let ends = tokio::time::sleep(TICK * 7 / 2);
        phase.drain();
        assert_eq!(
            watch(ends, |_| closed.set(closed.get() + 1), &activity, &phase, Lifetime::UNLIMITED).await,
            Ok(())
        );
        assert!((1..=2).contains(&closed.get()), "{closed:?}");
    }

    /// Ten thousand clients that connected together were checked, and cut, in the same millisecond.
    #[tokio::test(start_paused = true)]
    #[expect(clippy::disallowed_methods, reason = "this is tokio's clock, which stands still")]
    async fn connections_that_begin_together_are_not_looked_at_together() {
        let phase = Phase::default();
        let began = tokio::time::Instant::now();
        let mut clients: tokio::task::JoinSet<_> = (0..1000)
            .map(|_| {
                let (activity, phase) = (Activity::default(), phase.clone());
                async move {
                    let _ =
                        watch(std::future::pending::<()>(), |_| {}, &activity, &phase, Lifetime::UNLIMITED)
                            .await;
                    began.elapsed().as_millis() / 10
                }
            })
            .collect();
        let mut cut = Vec::new();
        while let Some(at) = clients.join_next().await {
            cut.push(at.unwrap());
        }
        let most = cut.iter().map(|at| cut.iter().filter(|other| *other == at).count()).max().unwrap();
        assert!(most < 100, "{most} of 1,000 were cut within 10 ms");
    }
}
