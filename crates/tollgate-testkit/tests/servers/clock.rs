//! A server's clock, moved by the test.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tollgate::{Clock, MemoryStore, SystemClock, Timestamp};
use tollgate_testkit::servers::{Data, Server, ServerStore, Settings, Software, SteeredServer};
use tollgate_testkit::{SettableClock, StoreUnderTest, block_on};

fn steered(software: Software) -> Server {
    Settings::new(software).steered_clock().start()
}

/// That the server is ahead of us by so many milliseconds: its time lies between two of ours, however far apart they
/// are on a machine that is busy. Ours follow the system's clock within a second.
#[track_caller]
fn expect_ahead(server: &Server, millis: i64) {
    let ours = || SystemClock.now().as_unix_millis() + millis;
    let (before, time, after) = (ours(), server.time().as_unix_millis(), ours());
    assert!((before - 1_000..after + 1_000).contains(&time), "{time}, between {before} and {after}");
}

#[test]
fn time_follows_steps_both_ways() {
    for software in Software::ALL {
        let server = steered(software);
        for (step, total) in [(0, 0), (3_600_000, 3_600_000), (-7_200_000, -3_600_000)] {
            server.clock().step(step);
            expect_ahead(&server, total);
        }
        server.clock().follow_the_system();
        expect_ahead(&server, 0);
    }
}

#[test]
fn a_stopped_clock_stands_at_its_millisecond_and_the_server_answers() {
    for software in Software::ALL {
        let server = steered(software);
        for millis in [1_700_000_000_999, 4_102_444_800_000, 1_000_000_000_000] {
            let time = Timestamp::from_unix_millis(millis);
            server.clock().set(time);
            for _ in 0..3 {
                assert_eq!(server.time(), time);
            }
        }
        server.clock().step(-1);
        assert_eq!(server.time().as_unix_millis(), 999_999_999_999);
    }
}

#[test]
fn expiry_and_scripts_follow_the_clock() {
    for software in Software::ALL {
        let server = steered(software);
        let start = Timestamp::from_unix_millis(1_700_000_000_000);
        server.clock().set(start);
        server.command::<()>(["SET", "key", "1", "PXAT", "1700000001000"]);
        server.clock().set(start + Duration::from_millis(999));
        assert_eq!(server.command::<u64>(["PTTL", "key"]), 1);
        let (seconds, micros): (u64, u64) = server.command(["EVAL", "return redis.call('TIME')", "0"]);
        assert_eq!((seconds, micros), (1_700_000_000, 999_000));
        server.clock().set(start + Duration::from_millis(1001));
        assert_eq!(server.command::<Option<u64>>(["GET", "key"]), None);
    }
}

#[test]
fn a_restarted_server_keeps_its_clock() {
    let server = steered(Software::Redis);
    let time = Timestamp::from_unix_millis(1_700_000_000_000);
    server.clock().set(time);
    server.restart(Data::Lost);
    assert_eq!(server.time(), time);
    // The start counts as the last save, and is read by `time` and not by `gettimeofday`.
    assert_eq!(server.command::<u64>(["LASTSAVE"]), 1_700_000_000);
}

#[test]
fn a_store_in_the_suite_has_its_servers_time() {
    let subject = SteeredServer::new(MemoryStore::new(), steered(Software::Redis));
    let start = block_on(subject.now());
    // Real time: it moves on, other than the steered clock.
    thread::sleep(Duration::from_millis(2));
    assert_eq!(block_on(subject.now()), start, "the clock stands still until it is set");
    let later = start + Duration::from_secs(3600);
    block_on(subject.reach(later));
    assert_eq!(block_on(subject.now()), later);
    block_on(subject.reach(start));
    assert_eq!(block_on(subject.now()), later, "nobody waits for what is over");
    subject.set_time(start);
    assert_eq!(subject.server().time(), start);
}

#[test]
fn a_store_in_the_suite_waits_for_its_servers_time() {
    let server = Arc::new(Server::start(Software::Redis));
    let subject = ServerStore::new(MemoryStore::new(), Arc::clone(&server));
    let soon = server.time() + Duration::from_millis(50);
    block_on(subject.reach(soon));
    assert!(server.time() >= soon);
}
