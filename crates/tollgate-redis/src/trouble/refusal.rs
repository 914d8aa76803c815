//! Why a server did not run a call, and all that this means: to the store, to callers and to operators.

use thiserror::Error;

use super::Remedy;
use crate::address::Address;
use crate::error::RedisError;
use crate::resp::ServerError;

/// Why a server did not run a call.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum Refusal {
    #[error("it does not have the script")]
    NoScript,
    #[error("the slot has moved to {0}")]
    Moved(Address),
    #[error("the key may be at {0}")]
    Ask(Address),
    #[error("the slot is being moved to another server")]
    TryAgain,
    #[error("the cluster is down, or no server has the slot")]
    ClusterDown,
    #[error("it is loading its data")]
    Loading,
    #[error("it is running a slow script")]
    Busy,
    #[error("it is a replica")]
    ReadOnly,
    #[error("it is a replica without its primary")]
    MasterDown,
    #[error("it cannot save, and refuses writes")]
    NotSaving,
    #[error("it has too few replicas to accept writes")]
    NoReplicas,
    #[error("it is out of memory")]
    OutOfMemory,
    #[error("it has too many clients")]
    MaxClients,
    #[error("it requires a password")]
    NoAuth,
    #[error("a right is missing")]
    NoPermission,
    #[error("the right to a key is missing")]
    KeyDenied,
    #[error("a key does not hold a count")]
    WrongType,
    #[error("the keys are in several slots")]
    CrossSlot,
    #[error("it does not know the command")]
    UnknownCommand,
    #[error("it is in protected mode")]
    ProtectedMode,
}

/// All that a refusal means.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Meaning<'a> {
    said: ReplyPattern,
    /// What the store may do about it, within the deadline.
    pub(super) remedy: Remedy<'a>,
    /// Whether the server may take some of the call's keys although it refuses all of them together.
    pub(super) is_of_some_keys: bool,
    /// Whether the server is no primary, and refuses until it is one.
    pub(crate) is_replica: bool,
    /// The error of a decision.
    pub(super) caller_error: CallerError,
    /// Why there is no connection, if it comes while one is set up.
    pub(super) unconnected: NoConnection,
    /// What an operator can do about it.
    pub(crate) advice: Hint,
}

/// How an error reply says it. It is the first refusal of [`PLAIN`] that fits.
#[derive(Debug, Clone, Copy)]
struct ReplyPattern {
    code: &'static str,
    /// How the text after the code begins, if there are several with the code.
    begins: &'static str,
    /// What is in the text after the code, if there are several with the code.
    contains: &'static str,
    /// Whether it is a refusal only outside of scripts. A script that came upon it may have counted before.
    only_outside: bool,
}

/// What a caller is told.
#[derive(Debug, Clone, Copy)]
pub(super) enum CallerError {
    Error(RedisError),
    /// The request can never be counted, for this reason.
    Uncountable(&'static str),
}

/// A reason why there is no connection.
#[derive(Debug, Clone, Copy)]
pub(super) enum NoConnection {
    NotReady,
    PasswordWanted,
    /// To what was done.
    NoRight,
    Unfit(&'static str),
}

/// What an operator can do.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Hint {
    Do(&'static str),
    CheckLogin,
    GiveRights,
}

/// All refusals without an address.
const PLAIN: [Refusal; 18] = [
    Refusal::NoScript,
    Refusal::TryAgain,
    Refusal::ClusterDown,
    Refusal::Loading,
    Refusal::Busy,
    Refusal::ReadOnly,
    Refusal::MasterDown,
    Refusal::NotSaving,
    Refusal::NoReplicas,
    Refusal::OutOfMemory,
    Refusal::MaxClients,
    Refusal::NoAuth,
    // Before the one that is about commands, and has the same code.
    Refusal::KeyDenied,
    Refusal::NoPermission,
    Refusal::WrongType,
    Refusal::CrossSlot,
    Refusal::UnknownCommand,
    Refusal::ProtectedMode,
];

impl Refusal {
    /// The refusal of an error reply, if it is one without an address.
    pub(super) fn of_reply(error: &ServerError) -> Option<Self> {
        PLAIN.into_iter().find(|refusal| refusal.meaning().said.is(error))
    }

    /// The table of all refusals. What is not written in a row is as in [`Meaning::of`].
    pub(crate) const fn meaning(&self) -> Meaning<'_> {
        match self {
            // `Node::call` loads the script; a batch is set apart for that.
            Self::NoScript => Meaning::of("NOSCRIPT"),
            Self::Moved(address) => Meaning { remedy: Remedy::Follow(address), ..Meaning::of("MOVED") },
            Self::Ask(address) => Meaning { remedy: Remedy::FollowOnce(address), ..Meaning::of("ASK") },
            Self::TryAgain => {
                Meaning { remedy: Remedy::Divide, is_of_some_keys: true, ..Meaning::of("TRYAGAIN") }
            }
            Self::ClusterDown => Meaning {
                remedy: Remedy::Resolve,
                advice: Hint::Do("run CLUSTER INFO, and `redis-cli --cluster check`"),
                ..Meaning::of("CLUSTERDOWN")
            },
            Self::Loading => Meaning { remedy: Remedy::Wait, ..Meaning::of("LOADING") },
            Self::Busy => Meaning { remedy: Remedy::Wait, ..Meaning::of("BUSY") },
            Self::ReadOnly => {
                Meaning { remedy: Remedy::Resolve, is_replica: true, ..Meaning::of("READONLY") }
            }
            Self::MasterDown => {
                Meaning { remedy: Remedy::Resolve, is_replica: true, ..Meaning::of("MASTERDOWN") }
            }
            Self::NotSaving => Meaning::of("MISCONF"),
            Self::NoReplicas => Meaning::of("NOREPLICAS"),
            Self::OutOfMemory => {
                Meaning { caller_error: CallerError::Error(RedisError::OutOfMemory), ..Meaning::of("OOM") }
            }
            Self::MaxClients => Meaning {
                said: ReplyPattern { begins: "max number of clients", ..ReplyPattern::code("ERR") },
                advice: Hint::Do("raise maxclients, or close other connections"),
                ..Meaning::of("ERR")
            },
            Self::NoAuth => Meaning {
                caller_error: CallerError::Error(RedisError::AccessDenied),
                unconnected: NoConnection::PasswordWanted,
                advice: Hint::CheckLogin,
                ..Meaning::of("NOAUTH")
            },
            Self::NoPermission => Meaning {
                said: ReplyPattern { only_outside: true, ..ReplyPattern::code("NOPERM") },
                caller_error: CallerError::Error(RedisError::AccessDenied),
                unconnected: NoConnection::NoRight,
                advice: Hint::GiveRights,
                ..Meaning::of("NOPERM")
            },
            Self::KeyDenied => Meaning {
                said: ReplyPattern {
                    contains: " access ",
                    only_outside: true,
                    ..ReplyPattern::code("NOPERM")
                },
                is_of_some_keys: true,
                caller_error: CallerError::Error(RedisError::AccessDenied),
                advice: Hint::GiveRights,
                ..Meaning::of("NOPERM")
            },
            Self::WrongType => Meaning {
                said: ReplyPattern { only_outside: true, ..ReplyPattern::code("WRONGTYPE") },
                caller_error: CallerError::Error(RedisError::WrongType),
                ..Meaning::of("WRONGTYPE")
            },
            Self::CrossSlot => Meaning {
                is_of_some_keys: true,
                caller_error: CallerError::Uncountable("its keys are in several slots of a cluster"),
                ..Meaning::of("CROSSSLOT")
            },
            Self::UnknownCommand => Meaning {
                said: ReplyPattern { begins: "unknown command", ..ReplyPattern::code("ERR") },
                caller_error: CallerError::Error(RedisError::Misconfigured(
                    "it does not know EVALSHA or SCRIPT",
                )),
                unconnected: NoConnection::Unfit(
                    "the server does not know the commands of Redis 7.0 or Valkey 7.2",
                ),
                ..Meaning::of("ERR")
            },
            Self::ProtectedMode => Meaning {
                caller_error: CallerError::Error(RedisError::Misconfigured(
                    "it refuses clients from other hosts",
                )),
                unconnected: NoConnection::Unfit(
                    "the server is in protected mode and refuses clients from other hosts",
                ),
                ..Meaning::of("DENIED")
            },
        }
    }
}

impl Meaning<'_> {
    /// The usual meaning: the server is not ready, and nothing but time helps.
    const fn of(code: &'static str) -> Self {
        Self {
            said: ReplyPattern::code(code),
            remedy: Remedy::None,
            is_of_some_keys: false,
            is_replica: false,
            caller_error: CallerError::Error(RedisError::NotReady),
            unconnected: NoConnection::NotReady,
            advice: Hint::Do("wait until it is ready; if it does not become ready, see its log"),
        }
    }
}

impl ReplyPattern {
    /// Any error with this code, also in a script: had the script written before, it could still write.
    const fn code(code: &'static str) -> Self {
        Self { code, begins: "", contains: "", only_outside: false }
    }

    fn is(&self, error: &ServerError) -> bool {
        let details = error.details();
        // An error raised inside a script carries the script's name.
        error.code() == self.code
            && details.starts_with(self.begins)
            && details.contains(self.contains)
            && !(self.only_outside && details.contains("script: "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_is_read_from_what_its_row_says() {
        for refusal in PLAIN {
            let ReplyPattern { code, begins, contains, .. } = refusal.meaning().said;
            let error = ServerError::new(format!("{code} {begins}{contains}"));
            assert_eq!(Refusal::of_reply(&error), Some(refusal));
        }
    }

    /// The advice on a right to a key that is missing was to wait.
    #[test]
    fn an_operator_is_advised_to_give_every_right_that_is_missing() {
        for refusal in [Refusal::NoPermission, Refusal::KeyDenied] {
            assert!(matches!(refusal.meaning().advice, Hint::GiveRights), "{refusal}");
        }
    }
}
