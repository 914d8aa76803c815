//! The end of a connection whose client may still be sending (RFC 9112, section 9.6).
//!
//! If a socket is closed while bytes are unread, the system resets the connection, and its client finds a broken pipe
//! in place of the answer. So the bytes are read and discarded until the client has read the answer and closes, within
//! bounds of size and time.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::{self, Sleep};

/// Shorter than the time after which the watchdog cuts a slow head.
const TIME_LIMIT: Duration = Duration::from_secs(2);

/// How much is read and discarded.
const MAX_DISCARDED: usize = 16 * 1024 * 1024;

/// See the [module](self).
pub(crate) struct LingeringClose {
    time_is_up: Pin<Box<Sleep>>,
    discarded: usize,
}

impl LingeringClose {
    pub(crate) fn start() -> Self {
        Self { time_is_up: Box::pin(time::sleep(TIME_LIMIT)), discarded: 0 }
    }

    /// Discards what the client sends. Ready once the client has closed, or a bound is reached.
    pub(crate) fn poll<I: AsyncRead + Unpin>(&mut self, io: &mut I, context: &mut Context<'_>) -> Poll<()> {
        while self.discarded < MAX_DISCARDED && self.time_is_up.as_mut().poll(context).is_pending() {
            let mut piece = [0; 4096];
            let mut buffer = ReadBuf::new(&mut piece);
            match Pin::new(&mut *io).poll_read(context, &mut buffer) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => self.discarded += buffer.filled().len(),
                Poll::Ready(_) => break,
            }
        }
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncWriteExt, duplex};

    use super::*;

    async fn lingers(mut io: impl AsyncRead + Unpin) -> usize {
        let mut lingering = LingeringClose::start();
        poll_fn(|context| lingering.poll(&mut io, context)).await;
        lingering.discarded
    }

    #[tokio::test(start_paused = true)]
    async fn discards_input_until_the_client_closes() {
        let (near, mut far) = duplex(1024);
        let client = async move {
            far.write_all(&[0; 100_000]).await.unwrap();
        };
        assert_eq!(tokio::join!(lingers(near), client).0, 100_000);
    }

    #[tokio::test(start_paused = true)]
    async fn neither_silence_nor_an_endless_body_keeps_a_connection() {
        let (near, far) = duplex(1024);
        assert_eq!(lingers(near).await, 0);
        drop(far);
        let endless = lingers(tokio::io::repeat(0)).await;
        assert!((MAX_DISCARDED..MAX_DISCARDED + 4096).contains(&endless), "{endless}");
    }
}
