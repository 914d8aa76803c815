//! Denials that a process remembers of quotas that are not fixed windows.

use std::time::Duration;

use tollgate::{Charge, Key, Source};
use tollgate_testkit::kinds::AdmissionLedger;
use tollgate_testkit::servers::Software;
use tollgate_testkit::{StoreSteps, block_on};

use super::quota;
use crate::servers::{build, shared, store};

/// How long each quota is asked.
const TIME: Duration = Duration::from_millis(700);

/// Many units come back while a denial is remembered. The server's own clock says when.
#[test]
fn a_remembered_denial_is_one_that_the_server_would_give_and_its_wait_is_exact() {
    for (software, text) in [
        (Software::Redis, "20/1s~burst:2"),
        (Software::Valkey, "30/1s~burst:7"),
        (Software::Redis, "8/200ms~sliding"),
        (Software::Valkey, "5/300ms~log"),
        (Software::Redis, "40/1s~log:20ms"),
    ] {
        let server = shared(software);
        let store = build(store(&server));
        let (quota, key) = (quota(text), Key::from("alice"));
        let (mut ledger, mut sources) = (AdmissionLedger::new(quota.quota()), [0; 3]);
        let end = server.time() + TIME;
        for cost in [1, 2, 1, 1, 2].into_iter().cycle() {
            // The server decides no earlier than this.
            let before = server.time();
            let state = block_on(store.charge(&[Charge::new(&quota, &key, cost)])).unwrap()[0];
            let (now, cost, case) =
                (state.now(), u64::from(cost), format!("{text}, after {before:?}: {state:?}"));
            if state.has_room() {
                assert!(ledger.admits(now, cost), "{case}");
                ledger.admit(now, cost);
                sources[0] += 1;
            } else {
                let decided = if state.source() == Source::Local { before.max(now) } else { now };
                assert!(!ledger.admits(decided, cost), "{case}");
                let retry_at = state.retry_at().unwrap();
                assert!(ledger.admits(retry_at, cost), "{case}");
                assert!(!ledger.admits(retry_at - Duration::from_millis(1), cost), "{case}");
                sources[1 + usize::from(state.source() == Source::Local)] += 1;
            }
            if now > end {
                break;
            }
        }
        let [admitted, by_store, remembered] = sources;
        assert!(admitted >= 5 && by_store > 0 && remembered > by_store, "{text}: {sources:?}");
    }
}

/// All counters of a request are remembered, and units of one come back before those of the other.
#[test]
fn a_remembered_denial_of_several_kinds_lasts_until_all_have_room() {
    let server = shared(Software::Redis);
    let store = build(store(&server));
    let (quotas, key) = (["40/1s~burst:1", "2/400ms~log", "1000/1h"].map(quota), Key::from("alice"));
    let charges = quotas.each_ref().map(|quota| Charge::new(quota, &key, 1));
    let mut ledgers = [&quotas[0], &quotas[1]].map(|quota| AdmissionLedger::new(quota.quota()));
    let (end, mut remembered, mut admitted) = (server.time() + TIME, 0, 0);
    loop {
        let before = server.time();
        let counted = block_on(store.charge(&charges)).unwrap();
        let now = counted[0].now();
        let fits = |at| ledgers.iter().all(|ledger| ledger.admits(at, 1));
        if counted.is_admitted() {
            assert!(fits(now), "{counted:?}");
            ledgers.iter_mut().for_each(|ledger| ledger.admit(now, 1));
            admitted += 1;
        } else {
            let is_local = counted[0].source() == Source::Local;
            assert!(!fits(if is_local { before.max(now) } else { now }), "after {before:?}: {counted:?}");
            let wait = counted.iter().filter_map(tollgate::QuotaState::retry_at).max().unwrap();
            assert!(fits(wait) && !fits(wait - Duration::from_millis(1)), "{counted:?}");
            remembered += u32::from(is_local);
        }
        if now > end {
            break;
        }
    }
    assert!(admitted >= 3 && remembered > 0, "{admitted} admitted, {remembered} remembered");
}
