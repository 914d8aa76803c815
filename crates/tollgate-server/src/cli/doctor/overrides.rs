//! What overrides need of a store, and counting does not.

use tollgate_redis::{RedisStore, StoreServer};

use super::ask::ask;
use super::finding::Finding;
use crate::overrides::RECORDS;

/// The commands that a user may not run, and those that the server does not have.
pub(super) struct Rights<'a> {
    pub(super) missing: Vec<&'a str>,
    pub(super) unknown: Vec<&'a str>,
}

impl<'a> Rights<'a> {
    /// Asks the server for each of these commands, without running it. Returns `None` if the server does not tell.
    pub(super) async fn of(
        server: &StoreServer,
        user: &str,
        commands: impl Iterator<Item = &'a [&'a str]>,
    ) -> Option<Self> {
        let (mut missing, mut unknown): (Vec<&str>, Vec<&str>) = Default::default();
        for needed in commands {
            let dry_run = [&["ACL", "DRYRUN", user], needed].concat();
            match ask::<String>(server, &dry_run).await {
                Ok(answer) if answer == "OK" => {}
                Ok(_) => missing.extend(needed.first()),
                Err(error) if error.contains("not found") => unknown.extend(needed.first()),
                Err(_) => return None,
            }
        }
        Some(Self { missing, unknown })
    }
}

/// Judges the rights of a user that may count.
pub(super) async fn rights_to_overrides(server: &StoreServer, user: &str, store: &RedisStore) -> Finding {
    let records = store.records(RECORDS);
    let key = records.keys().next().map(String::from_utf8_lossy).unwrap_or_default();
    let commands: [&[&str]; 11] = [
        &["HGET", &key, "a"],
        &["HSET", &key, "a", "b"],
        &["HDEL", &key, "a"],
        &["HLEN", &key],
        &["HSCAN", &key, "0"],
        // Holds need these as well, but the layout of another system has no holds.
        &["ZADD", &key, "1", "1"],
        &["ZCARD", &key],
        &["ZPOPMIN", &key, "1"],
        &["ZRANGE", &key, "0", "0"],
        &["ZREM", &key, "1"],
        &["GET", &key],
    ];
    let counts = format!("user {user} has the rights that counting needs");
    let lacking = match Rights::of(server, user, commands.into_iter()).await {
        Some(Rights { missing, unknown }) => [missing, unknown].concat(),
        None => Vec::new(),
    };
    if lacking.is_empty() {
        return Finding::pass("rights", counts);
    }
    let beginning = key.rsplit_once("head:{").map_or(&*key, |(beginning, _)| beginning);
    Finding::warn(
        "rights",
        format!("{counts}, but overrides do not work: it may not {} under {beginning}*", lacking.join(", ")),
        format!(
            "ACL SETUSER {user} ~{beginning}* {}; or run the service with --max-overrides 0",
            StoreServer::RECORDS_RIGHTS
        ),
    )
}
