//! A server's clock, moved by the test.

use std::time::Duration;

use tollgate::{Clock, SystemClock, Timestamp};
use tollgate_testkit::servers::{Server, Settings, Software};

fn steered(software: Software) -> Server {
    Settings::new(software).steered_clock().start()
}

/// How far the server is ahead of us, in milliseconds.
fn ahead(server: &Server) -> i64 {
    server.time().as_unix_millis() - SystemClock.now().as_unix_millis()
}

#[test]
fn time_follows_steps_both_ways() {
    for software in Software::ALL {
        let server = steered(software);
        for (step, total) in [(0, 0), (3_600_000, 3_600_000), (-7_200_000, -3_600_000)] {
            server.clock().step(step);
            let ahead = ahead(&server);
            // Another reading lies between the two; how far between depends on how busy the machine is.
            assert!((total - 2000..total + 2000).contains(&ahead), "{ahead} instead of {total}");
        }
        server.clock().follow_the_system();
        assert!(ahead(&server).abs() < 2000);
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
    server.restart(tollgate_testkit::servers::Data::Lost);
    assert_eq!(server.time(), time);
}
