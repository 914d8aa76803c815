//! The servers of a store, for tools that examine them: any command, to each of them. Nothing here counts.

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tollgate::Key;

use crate::advice::Advice;
use crate::node::Node;
use crate::resp::{FromReply, RespValue, ServerError, command};
use crate::settings::LONGEST;
use crate::store::RedisStore;
use crate::time::instant;
use crate::trouble::Trouble;
use crate::trouble::advice::{
    COUNTING_RIGHTS, MORE_RIGHTS, RECORDS_RIGHTS, SILENT, advice_on, advice_on_rights,
};

/// A server that counts.
#[derive(Clone)]
pub struct StoreServer(Arc<Node>);

/// Why a server gave no usable reply to a command.
///
/// The text may quote the server, whose errors can contain keys: show it to operators alone.
#[derive(Debug, Clone, PartialEq, Error)]
#[error("{0}")]
pub struct CommandError(CommandFailure);

#[derive(Debug, Clone, PartialEq, Error)]
enum CommandFailure {
    #[error("{0}")]
    Silence(Trouble),
    #[error("it says {:?}", .0.text())]
    Refusal(ServerError),
    #[error("the answer makes no sense")]
    Nonsense,
}

impl RedisStore {
    /// Returns the servers that count, once they are known.
    ///
    /// # Errors
    ///
    /// If none is known within this time, at most a day.
    pub async fn servers(&self, time: Duration) -> Result<Vec<StoreServer>, CommandError> {
        let nodes = self.topology().primaries(instant() + time.min(LONGEST)).await;
        let nodes = nodes.map_err(|trouble| CommandError(CommandFailure::Silence(trouble)))?;
        Ok(nodes.into_iter().map(StoreServer).collect())
    }

    /// Returns the beginning that the names of all counters have in common.
    #[must_use]
    pub fn key_prefix(&self) -> Vec<u8> {
        self.names().head().into_owned()
    }

    /// Returns whether the store has holds: not under the layout of another system.
    #[must_use]
    pub fn has_holds(&self) -> bool {
        self.names().of_holds().is_ok()
    }

    /// Returns the part of a counter's name that may be shown: what comes before the identity.
    #[must_use]
    pub fn without_identity<'n>(&self, name: &'n [u8]) -> &'n [u8] {
        self.names().public(name)
    }

    /// Returns the key with this number for probes of the store; no caller uses it.
    #[must_use]
    pub fn probe_key(&self, number: u64) -> Key<'static> {
        self.names().probe(number)
    }
}

impl StoreServer {
    /// The rights that counting needs, as `ACL SETUSER` takes them.
    pub const COUNTING_RIGHTS: &'static str = COUNTING_RIGHTS;

    /// The rights that [shared records](crate::SharedRecords) need beyond those of counting, as `ACL SETUSER` takes
    /// them.
    pub const RECORDS_RIGHTS: &'static str = RECORDS_RIGHTS;

    /// Describes the rights that only some setups need.
    pub const MORE_RIGHTS: &'static str = MORE_RIGHTS;

    /// Returns advice for a user that lacks rights.
    #[must_use]
    pub fn advice_on_rights() -> Advice {
        advice_on_rights()
    }

    /// Advice for a server that does not answer.
    pub const ADVICE_ON_SILENCE: Advice = SILENT;

    /// Returns its address.
    #[must_use]
    pub fn name(&self) -> String {
        self.0.address().to_string()
    }

    /// Returns whether it is a member of a Cluster.
    #[must_use]
    pub fn is_in_cluster(&self) -> bool {
        self.0.is_in_cluster()
    }

    /// Sends `PING`, and interprets an error as a charge would.
    ///
    /// # Errors
    ///
    /// If there is no good reply within this time, at most a day.
    pub async fn ping(&self, time: Duration) -> Result<(), CommandError> {
        match self.ask(&["PING"], time).await {
            Err(CommandError(CommandFailure::Refusal(error))) => {
                Err(CommandError(CommandFailure::Silence(Trouble::of_reply(&error, self.0.address()))))
            }
            answer => answer,
        }
    }

    /// Sends a command, and returns the reply. Waits only for the first attempt to connect.
    ///
    /// # Errors
    ///
    /// If there is no reply of this form within this time, at most a day.
    pub async fn ask<T: FromReply>(
        &self,
        words: &[impl AsRef<[u8]>],
        time: Duration,
    ) -> Result<T, CommandError> {
        let asked = match words.split_first() {
            Some((name, arguments)) => command(name).args(arguments),
            None => command(""),
        };
        match self.0.ask(&asked, instant() + time.min(LONGEST)).await {
            Err(trouble) => Err(CommandError(CommandFailure::Silence(trouble))),
            Ok(RespValue::Error(error)) => Err(CommandError(CommandFailure::Refusal(error))),
            Ok(reply) => T::from_reply(reply).ok_or(CommandError(CommandFailure::Nonsense)),
        }
    }
}

impl CommandError {
    /// Returns advice about a missing reply, if there was none.
    #[must_use]
    pub fn advice(&self) -> Option<Advice> {
        match &self.0 {
            CommandFailure::Silence(trouble) => Some(advice_on(trouble)),
            CommandFailure::Refusal(_) | CommandFailure::Nonsense => None,
        }
    }
}
