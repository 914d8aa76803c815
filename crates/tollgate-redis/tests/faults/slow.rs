//! The server answers, but later than the deadline.

use std::thread::sleep;

use tollgate_redis::RedisError;
use tollgate_testkit::servers::{Data, FaultProxy, Server, Way};

use crate::crowd::{Crowd, Noticed};
use crate::fault::{Fault, Round};

/// Replies take from 15 to 60 ms, where a deadline is 20 ms.
pub(crate) const SLOW: Fault = Fault { name: "slow", round: slow };

#[test]
fn a_server_that_is_slow_counts_once_and_is_not_left() {
    SLOW.test(2);
}

/// Connections that a fault may cost: a machine that stands still for as long as a silence lasts looks like one.
const LOST: u64 = 2;

fn slow(round: &mut Round) {
    let server = Server::start(round.software());
    let proxy = FaultProxy::before(server.address());
    let mut crowd = Crowd::start(&format!("redis://{}", proxy.address()), Data::Kept);
    let before = proxy.connections();
    for time in [25..45, 15..60, 15..60] {
        crowd.in_trouble(round, |round| {
            proxy.delay(Way::Reply, round.millis(time));
            sleep(round.millis(500..1_000));
            proxy.heal();
        });
    }
    let lost = proxy.connections() - before;
    round
        .found
        .expect(lost <= 3 * LOST, || format!("late replies were taken for silence: {lost} new connections"));
    crowd.end(round, &Noticed::As(&RedisError::TimedOut), &[&server]);
}
