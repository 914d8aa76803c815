//! The network delivers late, also what nobody waits for any more.

use std::thread::sleep;

use tollgate_redis::RedisError;
use tollgate_testkit::servers::{ByteDirection, ConnectionEnd, Data, FaultProxy, Server};

use crate::crowd::{Crowd, Noticed};
use crate::fault::{Fault, Round};

/// Requests or replies are held and then delivered; sometimes the connections have ended meanwhile.
pub(crate) const LATE: Fault = Fault { name: "late", round: late };

#[test]
fn late_replies_count_once_and_reach_no_other_caller() {
    LATE.test(2);
}

fn late(round: &mut Round) {
    let server = Server::start(round.software());
    let proxy = FaultProxy::before(server.address());
    let mut crowd = Crowd::start(&format!("redis://{}", proxy.address()), Data::Kept);
    let told = crowd.told();
    for way in [ByteDirection::Request, ByteDirection::Reply, ByteDirection::Request, ByteDirection::Reply] {
        crowd.in_trouble(round, |round| {
            proxy.hold(way);
            // From less than a deadline to more than the breaker waits.
            sleep(round.millis(5..250));
            proxy.release(way);
        });
    }
    for way in [ByteDirection::Request, ByteDirection::Reply] {
        crowd.in_trouble(round, |round| {
            proxy.delay(way, round.millis(5..60));
            sleep(round.millis(20..150));
            proxy.heal();
        });
    }
    crowd.in_trouble(round, |round| {
        proxy.hold(ByteDirection::Reply);
        sleep(round.millis(5..30));
        told.wait_for(&RedisError::TimedOut);
        // What was counted is never told.
        proxy.sever(ConnectionEnd::Reset);
        proxy.release(ByteDirection::Reply);
    });
    crowd.end(round, &Noticed::As(&RedisError::TimedOut), &[&server]);
}
