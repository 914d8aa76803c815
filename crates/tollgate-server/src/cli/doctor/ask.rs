//! Single commands to a server.

use std::time::Duration;

use tollgate_redis::{FromReply, StoreServer};

/// The time for the answer to one command.
pub(super) const ANSWER_LIMIT: Duration = Duration::from_secs(1);

/// Returns a server's answer, or a readable reason why there is none.
pub(super) async fn ask<T: FromReply>(
    server: &StoreServer,
    command: &[impl AsRef<[u8]>],
) -> Result<T, String> {
    server.ask(command, ANSWER_LIMIT).await.map_err(|error| error.to_string())
}
