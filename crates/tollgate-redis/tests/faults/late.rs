//! The network delivers late, also what nobody waits for any more.

use std::thread::sleep;

use tollgate_redis::RedisError;
use tollgate_testkit::servers::{Data, Ending, FaultProxy, Server, Way};

use crate::crowd::{Crowd, Noticed};
use crate::fault::{Fault, Round};

/// Requests or replies are held and then delivered; sometimes the connections have ended meanwhile.
pub(crate) const LATE: Fault = Fault { name: "late", round: late };

#[test]
fn what_is_delivered_late_counts_once_and_reaches_nobody_else() {
    LATE.test(2);
}

fn late(round: &mut Round) {
    let server = Server::start(round.software());
    let proxy = FaultProxy::before(server.address());
    let mut crowd = Crowd::start(&format!("redis://{}", proxy.address()), Data::Kept);
    let told = crowd.told();
    for way in [Way::Request, Way::Reply, Way::Request, Way::Reply] {
        crowd.in_trouble(round, |round| {
            proxy.hold(way);
            // From less than a deadline to more than the breaker waits.
            sleep(round.millis(5..250));
            proxy.release(way);
        });
    }
    for way in [Way::Request, Way::Reply] {
        crowd.in_trouble(round, |round| {
            proxy.delay(way, round.millis(5..60));
            sleep(round.millis(20..150));
            proxy.heal();
        });
    }
    crowd.in_trouble(round, |round| {
        proxy.hold(Way::Reply);
        sleep(round.millis(5..30));
        told.wait_for(&RedisError::TimedOut);
        // What was counted is never told.
        proxy.sever(Ending::Reset);
        proxy.release(Way::Reply);
    });
    crowd.end(round, &Noticed::As(&RedisError::TimedOut), &[&server]);
}
