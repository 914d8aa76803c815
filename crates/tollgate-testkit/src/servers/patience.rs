//! Waiting for what another process does, and not without end.

use std::fmt::Display;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// How long another process may take for anything: some seconds are usual for a failover or a start, and a machine that
/// is busy with other tests now and then stands still for fifteen.
pub(super) const LIMIT: Duration = Duration::from_secs(60);

/// The most that one pause of this process (`SIGSTOP`, a busy machine) counts as waiting; the other process may have been
/// paused too.
const ONE_WAIT: Duration = Duration::from_millis(500);

/// Asks again and again until there is an answer.
///
/// # Panics
///
/// If there is none within the limit; the message says what was waited for.
pub(super) fn wait_for<T>(what: impl Display, answer: impl FnMut() -> Option<T>) -> T {
    wait_within(LIMIT, what, answer)
}

#[expect(clippy::disallowed_methods, reason = "how long a server may take is no time of a store")]
fn wait_within<T>(limit: Duration, what: impl Display, mut answer: impl FnMut() -> Option<T>) -> T {
    let mut waited = Duration::ZERO;
    loop {
        let start = Instant::now();
        if let Some(answer) = answer() {
            return answer;
        }
        assert!(waited < limit, "waited {limit:?} in vain: {what}");
        thread::sleep(Duration::from_millis(5));
        waited += start.elapsed().min(ONE_WAIT);
    }
}

/// A stream on which nothing is waited for longer than the limit; then it fails with [`ErrorKind::TimedOut`].
#[derive(Debug)]
pub(super) struct PatientStream {
    stream: UnixStream,
    waits: u32,
}

impl PatientStream {
    pub(super) fn connect(socket: &Path, limit: Duration) -> io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(ONE_WAIT))?;
        stream.set_write_timeout(Some(ONE_WAIT))?;
        Ok(Self { stream, waits: limit.div_duration_f64(ONE_WAIT) as u32 })
    }

    fn within_limit(
        &mut self,
        mut step: impl FnMut(&mut UnixStream) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let mut waits = 0;
        while waits < self.waits {
            match step(&mut self.stream) {
                // So ends a wait with a timeout during which this process was stopped.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => waits += 1,
                done => return done,
            }
        }
        Err(ErrorKind::TimedOut.into())
    }
}

impl Read for PatientStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.within_limit(|stream| stream.read(buffer))
    }
}

impl Write for PatientStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.within_limit(|stream| stream.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn asks_until_there_is_an_answer() {
        let mut left = 3;
        let answer = wait_for("three", || {
            left -= 1;
            (left == 0).then_some("done")
        });
        assert_eq!((answer, left), ("done", 0));
    }

    #[test]
    #[should_panic(expected = "waited 1ms in vain: never")]
    fn gives_up_in_time() {
        wait_within(Duration::from_millis(1), "never", || None::<()>);
    }

    #[test]
    fn a_stream_waits_for_who_is_late_and_not_for_who_is_silent() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let listener = UnixListener::bind(&socket).unwrap();
        let mut stream = PatientStream::connect(&socket, LIMIT).unwrap();
        let (mut other, _) = listener.accept().unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                // Real time: the answer is late.
                thread::sleep(ONE_WAIT * 2);
                other.write_all(b"late").unwrap();
            });
            let mut read = [0; 4];
            stream.read_exact(&mut read).unwrap();
            assert_eq!(&read, b"late");
        });

        let mut hasty = PatientStream::connect(&socket, ONE_WAIT).unwrap();
        assert_eq!(hasty.read(&mut [0]).unwrap_err().kind(), ErrorKind::TimedOut);
        // The other side reads nothing, so the buffers fill up.
        let all = hasty.write_all(&vec![0; 16 << 20]).unwrap_err();
        assert_eq!(all.kind(), ErrorKind::TimedOut);
    }
}
