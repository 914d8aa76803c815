//! Waiting for room by the server's clock.

use std::sync::Arc;

use tollgate::{SharedLimiter, Waiters};
use tollgate_testkit::block_on;
use tollgate_testkit::servers::Software;

use crate::servers::{build, shared, store};

/// Each of the two has a queue of its own, and the first of each finds what the other has left.
#[test]
fn waiters_of_two_processes_share_every_window() {
    const WAITERS: usize = 30;
    const LIMIT: usize = 4;
    for software in Software::ALL {
        let store = build(store(&shared(software)));
        let limiter = SharedLimiter::new(format!("{LIMIT}/100ms").parse().unwrap(), store);
        let processes = [(); 2]
            .map(|()| Arc::new(Waiters::new(limiter.clone(), tokio::time::sleep).max_waiters(WAITERS)));
        let mut windows = block_on(async {
            let wait = |number: usize| {
                let waiters = Arc::clone(&processes[number % 2]);
                tokio::spawn(async move {
                    let decision = waiters.until_allowed("alice").await.unwrap();
                    assert!(decision.is_allowed());
                    decision.state().window().unwrap().start()
                })
            };
            let waiting: Vec<_> = (0..WAITERS).map(wait).collect();
            let mut windows = Vec::new();
            for waiter in waiting {
                windows.push(waiter.await.unwrap());
            }
            windows
        });
        windows.sort_unstable();
        assert!(windows.chunk_by(PartialEq::eq).all(|window| window.len() <= LIMIT), "{windows:?}");
        assert_eq!(processes.map(|waiters| waiters.waiting()), [0, 0]);
    }
}
