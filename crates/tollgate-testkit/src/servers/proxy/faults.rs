//! What the proxy is to do, and what has passed it.

use std::net::SocketAddr;
use std::time::Duration;

/// Which way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByteDirection {
    /// From the client to the server.
    Request,
    /// From the server to the client.
    Reply,
}

/// How the client's end of a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionEnd {
    /// It is closed: readers find the end.
    Close,
    /// It is reset: readers and writers get an error.
    Reset,
}

/// Shared by all connections of a proxy.
#[derive(Debug, Default)]
pub(super) struct Faults {
    request: Direction,
    reply: Direction,
    pub(super) refuses: bool,
    pub(super) is_listening: bool,
    pub(super) is_over: bool,
    pub(super) connections: u64,
    /// Where new connections lead instead.
    pub(super) leads_to: Option<SocketAddr>,
    severed: Option<ConnectionEnd>,
    /// How often all connections were severed; those that are older than the last time are over.
    pub(super) severings: u64,
}

#[derive(Debug, Default)]
pub(super) struct Direction {
    pub(super) delay: Duration,
    pub(super) is_held: bool,
    pub(super) bytes_per_second: Option<u64>,
    pub(super) cut: Option<Cut>,
    pub(super) arrived: u64,
    pub(super) passed: u64,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Cut {
    pub(super) left: u64,
    pub(super) ending: ConnectionEnd,
}

/// What may pass now.
#[derive(Debug)]
pub(super) struct Pass {
    pub(super) bytes: usize,
    /// After these bytes the connection ends.
    pub(super) ending: Option<ConnectionEnd>,
    /// After these bytes nothing passes for so long.
    pub(super) pause: Duration,
}

impl Faults {
    pub(super) const fn way(&self, way: ByteDirection) -> &Direction {
        match way {
            ByteDirection::Request => &self.request,
            ByteDirection::Reply => &self.reply,
        }
    }

    pub(super) const fn way_mut(&mut self, way: ByteDirection) -> &mut Direction {
        match way {
            ByteDirection::Request => &mut self.request,
            ByteDirection::Reply => &mut self.reply,
        }
    }

    pub(super) const fn sever(&mut self, ending: ConnectionEnd) {
        self.severed = Some(ending);
        self.severings += 1;
    }

    /// How a connection ends that was made after so many severings, if it does.
    pub(super) fn severed_since(&self, severings: u64) -> Option<ConnectionEnd> {
        self.severed.filter(|_| self.severings > severings)
    }
}

impl Direction {
    /// Takes from what may pass, for one connection on which so many bytes wait.
    pub(super) fn pass(&mut self, waiting: usize) -> Pass {
        let mut bytes = waiting;
        let mut pause = Duration::ZERO;
        if let Some(rate) = self.bytes_per_second {
            bytes = bytes.min(usize::try_from(rate / 100).unwrap_or(usize::MAX).max(1));
            pause = Duration::from_secs_f64(bytes as f64 / rate as f64);
        }
        let mut ending = None;
        if let Some(cut) = &mut self.cut {
            bytes = bytes.min(usize::try_from(cut.left).unwrap_or(usize::MAX));
            cut.left -= bytes as u64;
            if cut.left == 0 {
                ending = Some(cut.ending);
                self.cut = None;
            }
        }
        Pass { bytes, ending, pause }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passes(direction: &mut Direction, waiting: usize) -> (usize, Option<ConnectionEnd>) {
        let pass = direction.pass(waiting);
        (pass.bytes, pass.ending)
    }

    #[test]
    fn a_cut_counts_over_several_pieces_and_happens_once() {
        let cut = Some(Cut { left: 5, ending: ConnectionEnd::Reset });
        let mut direction = Direction { cut, ..Direction::default() };
        assert_eq!(passes(&mut direction, 3), (3, None));
        assert_eq!(passes(&mut direction, 3), (2, Some(ConnectionEnd::Reset)));
        assert_eq!(passes(&mut direction, 3), (3, None));
    }

    #[test]
    fn a_cut_after_nothing_lets_nothing_pass() {
        let cut = Some(Cut { left: 0, ending: ConnectionEnd::Close });
        let mut direction = Direction { cut, ..Direction::default() };
        assert_eq!(passes(&mut direction, 3), (0, Some(ConnectionEnd::Close)));
    }

    #[test]
    fn a_throttled_way_pauses_for_what_it_lets_pass() {
        let mut direction = Direction { bytes_per_second: Some(1000), ..Direction::default() };
        let pass = direction.pass(64);
        assert_eq!((pass.bytes, pass.pause), (10, Duration::from_millis(10)));
        direction.bytes_per_second = Some(1);
        let pass = direction.pass(64);
        assert_eq!((pass.bytes, pass.pause), (1, Duration::from_secs(1)));
    }
}
