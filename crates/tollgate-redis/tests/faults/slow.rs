//! The server answers, but later than the deadline.

use std::ops::Range;
use std::thread::sleep;
use std::time::Duration;

use tollgate_redis::RedisError;
use tollgate_testkit::servers::{ByteDirection, Data, FaultProxy, Server};

use crate::crowd::{Crowd, Noticed};
use crate::fault::{DEADLINE, Fault, Round};

/// Replies take from 15 to 60 ms, where a deadline is 20 ms.
pub(crate) const SLOW: Fault =
    Fault { name: "slow", round: |round| slow(round, DEADLINE, [25..45, 15..60, 15..60]) };

/// Replies take from 90 to 150 ms, where a deadline is 100 ms, as it is unless somebody says otherwise.
pub(crate) const DEFAULT: Fault =
    Fault { name: "slow-default", round: |round| slow(round, USUAL_DEADLINE, [125..150, 110..150, 90..150]) };

const USUAL_DEADLINE: Duration = Duration::from_millis(100);

#[test]
fn a_server_that_is_slow_counts_once_and_is_not_left() {
    SLOW.test(2);
}

#[test]
fn a_server_that_is_slow_for_the_default_deadline_counts_once_and_is_not_left() {
    DEFAULT.test(2);
}

/// Connections that a fault may cost: a machine that stands still for as long as a silence lasts looks like one.
const LOST: u64 = 2;

fn slow(round: &mut Round, deadline: Duration, delays: [Range<u64>; 3]) {
    let server = Server::start(round.software());
    let proxy = FaultProxy::before(server.address());
    let mut crowd = Crowd::start_with(&format!("redis://{}", proxy.address()), Data::Kept, deadline);
    let told = crowd.told();
    let before = proxy.connections();
    for delay in delays {
        crowd.in_trouble(round, |round| {
            proxy.delay(ByteDirection::Reply, round.millis(delay));
            sleep(round.millis(500..1_000));
            proxy.heal();
        });
    }
    let lost = proxy.connections() - before;
    round
        .found
        .expect(lost <= 3 * LOST, || format!("late replies were taken for silence: {lost} new connections"));
    round
        .found
        .expect(told.has(&RedisError::TooSlow), || format!("nobody was told that it is slow: {told:?}"));
    crowd.end(round, &Noticed::As(&RedisError::TimedOut), &[&server]);
}
