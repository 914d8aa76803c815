//! A server's clock that steps back, where the key of a counter says its window.

use std::time::Duration;

use tollgate::{Charge, Key, Mark, PolicyQuota, Timestamp};
use tollgate_redis::{KeyLayout, RedisStore};
use tollgate_testkit::servers::{Server, Settings, Software};
use tollgate_testkit::{GivenBackUnits, StoreSteps};
use tollgate_testkit::{block_on, instant};

use crate::servers::{build, store};

const MILLISECOND: Duration = Duration::from_millis(1);

/// A server whose clock is set to the start of a window of ten seconds, and a store on it. It remembers no denials: for
/// how long it does is told by this process's clock.
fn at(start: Timestamp) -> (Server, RedisStore) {
    let server = Settings::new(Software::Redis).steered_clock().start();
    server.clock().set(start);
    let builder = store(&server).prefix("back").layout(KeyLayout::SPRING_STARTER).local_denials(0);
    (server, build(builder))
}

fn quota() -> PolicyQuota {
    PolicyQuota::new("any", "5/10s".parse().unwrap())
}

/// The store named the window that held, found that it was not the one of the refund, and gave nothing back.
#[test]
fn a_refund_finds_its_window_through_a_step_back_of_a_second() {
    let start = instant("2030-01-01T00:00:00Z");
    let (server, store) = at(start);
    let (quota, key) = (quota(), Key::from("alice"));
    let one = Charge::new(&quota, &key, 1);
    let refund = |time: Timestamp| {
        server.clock().set(time);
        GivenBackUnits::of(&block_on(store.refund(&one, Mark::at(start))).unwrap(), Mark::at(start))
    };
    assert_eq!(
        block_on(store.charge(&[Charge::new(&quota, &key, 4)])).unwrap()[0].window().unwrap().start(),
        start
    );
    assert_eq!(refund(start - MILLISECOND), Some(GivenBackUnits { units: 1, used: 3 }));
    assert_eq!(refund(start - Duration::from_secs(1)), Some(GivenBackUnits { units: 1, used: 2 }));
    assert_eq!(refund(start - Duration::from_millis(1_001)), None);
    assert_eq!(refund(start + Duration::from_millis(9_999)), Some(GivenBackUnits { units: 1, used: 1 }));
    assert_eq!(refund(start + Duration::from_secs(10)), None);
}

/// The other system let the counter expire as soon as its window was over, so after a step back it was gone, and the
/// window was counted a second time.
#[test]
fn a_window_that_another_system_lets_expire_at_its_end_is_known_for_a_second_more() {
    let start = instant("2030-01-01T00:00:00Z");
    let (server, store) = at(start);
    let (quota, key) = (quota(), Key::from("alice"));
    let end = start + Duration::from_secs(10);
    let (name, expiry) = (format!("back:alice:{}", start.as_unix_millis()), end.as_unix_millis().to_string());
    server.command::<()>(["SET", &name, "4", "PXAT", &expiry]);
    let take = || block_on(store.charge(&[Charge::new(&quota, &key, 1)])).unwrap()[0];
    assert_eq!((take().used(), take().has_room()), (5, false));

    server.clock().set(end + Duration::from_millis(999));
    assert_eq!(server.command::<Option<String>>(["GET", &name]), Some("5".to_owned()));
    server.clock().set(end - MILLISECOND);
    assert_eq!((take().used(), take().has_room()), (5, false));
}
