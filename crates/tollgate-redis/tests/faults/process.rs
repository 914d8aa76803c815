//! The server's process: it hangs, or is killed and started again.

use std::thread::sleep;
use std::time::Duration;

use tollgate_redis::RedisError;
use tollgate_testkit::servers::{Data, Persistence, Server, Settings};

use crate::crowd::{Crowd, Noticed};
use crate::fault::{Fault, Round};

/// Stopped (`SIGSTOP`), and later it goes on with whatever was sent to it meanwhile.
pub(crate) const HANG: Fault = Fault { name: "hang", round: hang };

/// Killed, and started again with what it had acknowledged.
pub(crate) const KILL_KEPT: Fault = Fault { name: "kill-kept", round: |round| kill(round, Data::Kept) };

/// Killed, and started again with nothing.
pub(crate) const KILL_LOST: Fault = Fault { name: "kill-lost", round: |round| kill(round, Data::Lost) };

#[test]
fn requests_to_a_hanging_server_count_once_and_delay_nobody() {
    HANG.test(2);
}

#[test]
fn a_server_that_was_killed_goes_on_where_it_was() {
    KILL_KEPT.test(2);
}

#[test]
fn a_server_that_lost_its_data_admits_one_limit_more_for_each_time() {
    KILL_LOST.test(2);
}

pub(crate) fn url(server: &Server) -> String {
    format!("redis://{}", server.address())
}

fn hang(round: &mut Round) {
    let server = Server::start(round.software());
    let mut crowd = Crowd::start(&url(&server), Data::Kept);
    let told = crowd.told();
    // One that is longer than anybody waits who has no deadline, then some of about a deadline or a few.
    for time in [1_500, round.rng.u64(5..30), round.rng.u64(20..300)].map(Duration::from_millis) {
        crowd.in_trouble(round, |_| {
            server.pause();
            sleep(time);
            told.wait_for(&RedisError::TimedOut);
            server.resume();
        });
    }
    crowd.end(round, &Noticed::As(&RedisError::TimedOut), &[&server]);
}

fn kill(round: &mut Round, data: Data) {
    let persistence = match data {
        Data::Kept => Persistence::EveryWrite,
        Data::Lost => Persistence::None,
    };
    let server = Settings::new(round.software()).persistence(persistence).start();
    let mut crowd = Crowd::start(&url(&server), data);
    let told = crowd.told();
    for _ in 0..3 {
        crowd.in_trouble(round, |round| {
            server.kill();
            sleep(round.millis(20..200));
            told.wait_for(&RedisError::Unreachable);
            server.start_again(data);
        });
    }
    crowd.end(round, &Noticed::As(&RedisError::Unreachable), &[&server]);
}
