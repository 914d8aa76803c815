//! Stand-in: one server, one connection.

pub(crate) mod slot;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Value};
use tokio::sync::OnceCell;
use tollgate::StoreError;

use crate::keys::Slot;
use crate::script;
use crate::time::Instant;

#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) url: String,
    pub(crate) timeout: std::time::Duration,
}

impl Settings {
    pub(crate) fn new(url: String) -> Self {
        Self { url, timeout: std::time::Duration::from_millis(20) }
    }
}

pub(crate) struct Topology {
    url: String,
    connection: OnceCell<MultiplexedConnection>,
}

impl std::fmt::Debug for Topology {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Topology")
    }
}

pub(crate) struct Trouble(redis::RedisError);

impl From<Trouble> for StoreError {
    fn from(trouble: Trouble) -> Self {
        eprintln!("{}", trouble.0);
        if trouble.0.code() == Some("OOM") { StoreError::OutOfMemory } else { StoreError::Unreachable }
    }
}

impl Topology {
    pub(crate) fn start(settings: Settings) -> Self {
        Self { url: settings.url, connection: OnceCell::new() }
    }

    pub(crate) fn is_cluster(&self) -> bool {
        false
    }

    pub(crate) async fn call(&self, _slot: Slot, call: &Cmd, _deadline: Instant) -> Result<Value, Trouble> {
        let connect = || async {
            let client = redis::Client::open(self.url.as_str())?;
            let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
            client.get_multiplexed_async_connection_with_config(&config).await
        };
        let mut connection = self.connection.get_or_try_init(connect).await.map_err(Trouble)?.clone();
        match connection.send_packed_command(call).await {
            Ok(Value::ServerError(error)) if error.code() == "NOSCRIPT" => {}
            Err(error) if error.code() == Some("NOSCRIPT") => {}
            Ok(Value::ServerError(error)) => return Err(Trouble(error.into())),
            other => return other.map_err(Trouble),
        }
        let _: String = redis::cmd("SCRIPT")
            .arg("LOAD")
            .arg(script::TEXT)
            .query_async(&mut connection)
            .await
            .map_err(Trouble)?;
        let reply: Value = call.query_async(&mut connection).await.map_err(Trouble)?;
        Ok(reply)
    }
}
