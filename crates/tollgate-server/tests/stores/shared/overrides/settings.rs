//! Overrides of a user with few rights, and under a layout of keys.

use serde_json::json;
use tollgate_redis::StoreServer;

use super::{Fleet, redis, url};
use crate::support::until;

#[test]
fn a_user_without_the_rights_counts_and_is_told_what_to_grant() {
    let (store, fleet) = (redis(), Fleet::new());
    let grant = |first: &[&'static str], rights: &'static str| {
        let user = ["ACL", "SETUSER", "app"].into_iter().chain(first.iter().copied());
        let _: () = store.command(user.chain(rights.split(' ')));
    };
    grant(&["on", ">secret", "~*", "&*"], StoreServer::COUNTING_RIGHTS);
    let url = format!("redis://app@{}", store.address());
    let password = fleet.folder.write("password", "secret");
    let server = fleet.start_logging(&url, &["--store-password-file", &password]);
    assert_eq!(fleet.limit(&server, "alice"), 5);
    fleet.put(&server, "alice", "", &json!("denied")).assert_problem(503, None);
    // Several reads have failed when this is logged.
    until("it is logged", || fleet.log().contains("the overrides could not be read yet"));
    let told = format!(
        "the user of the store may not read overrides: grant it `{}`, or start with `--max-overrides 0`",
        StoreServer::RECORDS_RIGHTS
    );
    assert_eq!(fleet.log().matches(&told).count(), 1, "{}", fleet.log());
    // The service need not start again.
    grant(&[], StoreServer::RECORDS_RIGHTS);
    until("it has read them", || fleet.log().contains("the overrides are read from the store again"));
    assert_eq!(fleet.put(&server, "alice", "", &json!(["7/1d"])).status, 200);
    assert_eq!(fleet.limit(&server, "alice"), 7);
}

#[test]
fn limits_that_a_key_layout_cannot_count_are_refused_in_the_words_of_a_file() {
    let (store, fleet) = (redis(), Fleet::new());
    let server = fleet.start(&url(&store), &["--store-layout", "{prefix}:{user}:{window}"]);
    for (quotas, reason) in [
        (json!(["20~in_flight"]), "it limits units in flight, and the key layout"),
        (json!(["7/1h~sliding"]), "7/1h~sliding: "),
        (json!(["7/90ms"]), "7/90ms: "),
    ] {
        let refused = fleet.put(&server, "alice", "", &quotas);
        refused.assert_problem(400, Some("quotas"));
        let detail = refused.json()["detail"].as_str().unwrap_or_default().to_owned();
        assert!(detail.contains(reason), "{detail}");
    }
    assert_eq!(fleet.put(&server, "alice", "", &json!(["7/1d"])).status, 200);
    assert_eq!(fleet.limit(&server, "alice"), 7);
}
