//! The reason why a call got no reply, whether it certainly did not run, and the remedy.
//!
//! Only this module decides whether a call may have run; if so, it is never sent again. Texts of a server are dropped,
//! because they may contain keys.

pub(crate) mod advice;
mod refusal;
mod unconnected;

use thiserror::Error;
use tollgate::StoreError;

use self::refusal::CallerError;
pub(crate) use self::refusal::Refusal;
pub(crate) use self::unconnected::{ConnectTrouble, Flavor};
use crate::address::Address;
use crate::error::RedisError;
use crate::resp::ServerError;
use crate::slot;

/// Why a call got no reply.
#[derive(Debug, Clone, PartialEq, Error)]
pub(crate) enum Trouble {
    /// There is no connection, so nothing was sent.
    #[error("no connection: {0}")]
    Unconnected(#[from] ConnectTrouble),
    /// The deadline passed before there was a connection, so nothing was sent.
    #[error("the deadline passed before anything could be sent")]
    Late,
    /// The server refused the call before it ran.
    #[error("refused: {0}")]
    Refused(Refusal),
    /// No reply came in time.
    #[error("no reply in time")]
    TimedOut,
    /// No reply came in time, and the replies before it came too late.
    #[error("it answered too late")]
    TooSlow,
    /// The connection broke before a reply came.
    #[error("the connection broke before the reply")]
    Cut,
    /// The call was stopped while it ran, or the error is unknown.
    #[error("stopped while it ran: {0}")]
    Stopped(Code),
    /// The reply is not RESP, or makes no sense.
    #[error("the reply makes no sense")]
    BadReply,
}

/// The code with which an error reply begins, if it looks like one.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub(crate) struct Code(Box<str>);

/// The remedy for an error, within the deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Remedy<'a> {
    /// Ask that server from now on.
    Follow(&'a Address),
    /// Ask that server this once.
    FollowOnce(&'a Address),
    /// Ask the same server again a little later.
    Wait,
    /// Ask for fewer keys at a time; if that is impossible, retry the same a little later.
    Divide,
    /// Search for the current server, then ask again.
    Resolve,
    /// Nothing: return the error.
    None,
}

impl Trouble {
    /// Interprets an error reply to a call. `asked` is the server that sent it.
    pub(crate) fn of_reply(error: &ServerError, asked: &Address) -> Self {
        match error.code() {
            code @ ("MOVED" | "ASK") => {
                let redirect = error.details().split_once(' ').filter(|(slot, _)| slot::is_slot(slot));
                match redirect.and_then(|(_slot, address)| asked.redirected_to(address)) {
                    Some(address) if code == "MOVED" => Self::Refused(Refusal::Moved(address)),
                    Some(address) => Self::Refused(Refusal::Ask(address)),
                    None => Self::BadReply,
                }
            }
            // What ran before an error inside a script has been counted, unless it is a refusal nevertheless.
            _ => Refusal::of_reply(error).map_or_else(|| Self::Stopped(Code::of(error)), Self::Refused),
        }
    }

    /// Returns whether the call may have run, or may still run.
    pub(crate) const fn may_have_run(&self) -> bool {
        match self {
            Self::Unconnected(_) | Self::Late | Self::Refused(_) => false,
            Self::TimedOut | Self::TooSlow | Self::Cut | Self::Stopped(_) | Self::BadReply => true,
        }
    }

    /// Returns whether the server may take some of the call's keys although it refuses all of them together.
    pub(crate) const fn may_be_of_some_keys(&self) -> bool {
        matches!(self, Self::Refused(refusal) if refusal.meaning().is_of_some_keys)
    }

    /// Returns whether the call may be retried, whole or in parts, after applying the remedy. A server that does not
    /// have the script is given it.
    pub(crate) fn is_worth_another_try(&self) -> bool {
        self.remedy() != Remedy::None
            || self.may_be_of_some_keys()
            || matches!(self, Self::Refused(Refusal::NoScript))
    }

    /// Returns the remedy; none if the call may have run.
    pub(crate) const fn remedy(&self) -> Remedy<'_> {
        match self {
            Self::Refused(refusal) => refusal.meaning().remedy,
            Self::Unconnected(_) => Remedy::Resolve,
            Self::Late | Self::TimedOut | Self::TooSlow | Self::Cut | Self::Stopped(_) | Self::BadReply => {
                Remedy::None
            }
        }
    }
}

impl Code {
    /// Returns whether a right is missing. Of a command that was refused before it ran, that is a [`Refusal`].
    pub(crate) fn is_missing_right(&self) -> bool {
        &*self.0 == "NOPERM"
    }

    fn of(error: &ServerError) -> Self {
        // Servers report a right that a script misses as any other error of a script: Redis 7.0, and newer ones.
        let right_errors = ["The user executing the script can't ", "ACL failure in script"];
        if right_errors.iter().any(|begins| error.details().starts_with(begins)) {
            return Self("NOPERM".into());
        }
        let code = error.code();
        let is_code = code.len() <= 20 && code.bytes().all(|byte| byte.is_ascii_uppercase());
        Self(if is_code { code } else { "an error without a code" }.into())
    }
}

impl From<Trouble> for StoreError {
    fn from(trouble: Trouble) -> Self {
        let error = match &trouble {
            Trouble::Unconnected(unconnected) => unconnected.into(),
            Trouble::Late => RedisError::Unreachable,
            Trouble::TimedOut | Trouble::Cut => RedisError::TimedOut,
            Trouble::TooSlow => RedisError::TooSlow,
            Trouble::Stopped(code) if code.is_missing_right() => {
                return Self::unknown(RedisError::AccessDenied);
            }
            Trouble::Stopped(_) => RedisError::ScriptRefused,
            Trouble::BadReply => RedisError::BadReply,
            Trouble::Refused(refusal) => match refusal.meaning().caller_error {
                CallerError::Error(error) => error,
                CallerError::Uncountable(reason) => return Self::Uncountable(reason),
            },
        };
        error.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked() -> Address {
        Address::Tcp("10.0.0.1".into(), 7000)
    }

    fn trouble_of(line: &str) -> Trouble {
        Trouble::of_reply(&ServerError::new(line), &asked())
    }

    fn tcp(host: &str) -> Address {
        Address::Tcp(host.into(), 7001)
    }

    #[test]
    fn refused_calls_did_not_run() {
        let there = tcp("10.0.0.2");
        let same = tcp("10.0.0.1");
        for (line, refusal, remedy, error) in [
            (
                "NOSCRIPT No matching script. Please use EVAL.",
                Refusal::NoScript,
                Remedy::None,
                Some(RedisError::NotReady),
            ),
            (
                "MOVED 3999 10.0.0.2:7001",
                Refusal::Moved(there.clone()),
                Remedy::Follow(&there),
                Some(RedisError::NotReady),
            ),
            (
                "MOVED 3999 :7001",
                Refusal::Moved(same.clone()),
                Remedy::Follow(&same),
                Some(RedisError::NotReady),
            ),
            (
                "ASK 3999 10.0.0.2:7001",
                Refusal::Ask(there.clone()),
                Remedy::FollowOnce(&there),
                Some(RedisError::NotReady),
            ),
            (
                "ASK 3999 ?:7001",
                Refusal::Ask(same.clone()),
                Remedy::FollowOnce(&same),
                Some(RedisError::NotReady),
            ),
            (
                "TRYAGAIN Multiple keys request during rehashing of slot",
                Refusal::TryAgain,
                Remedy::Divide,
                Some(RedisError::NotReady),
            ),
            (
                "CLUSTERDOWN The cluster is down",
                Refusal::ClusterDown,
                Remedy::Resolve,
                Some(RedisError::NotReady),
            ),
            (
                "CLUSTERDOWN Hash slot not served",
                Refusal::ClusterDown,
                Remedy::Resolve,
                Some(RedisError::NotReady),
            ),
            (
                "LOADING Redis is loading the dataset in memory",
                Refusal::Loading,
                Remedy::Wait,
                Some(RedisError::NotReady),
            ),
            (
                "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
                Refusal::Busy,
                Remedy::Wait,
                Some(RedisError::NotReady),
            ),
            (
                "READONLY You can't write against a read only replica.",
                Refusal::ReadOnly,
                Remedy::Resolve,
                Some(RedisError::NotReady),
            ),
            (
                "READONLY You can't write against a read only replica. script: 5b1f, on @user_script:9.",
                Refusal::ReadOnly,
                Remedy::Resolve,
                Some(RedisError::NotReady),
            ),
            (
                "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
                Refusal::MasterDown,
                Remedy::Resolve,
                Some(RedisError::NotReady),
            ),
            (
                "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
                Refusal::NotSaving,
                Remedy::None,
                Some(RedisError::NotReady),
            ),
            (
                "NOREPLICAS Not enough good replicas to write.",
                Refusal::NoReplicas,
                Remedy::None,
                Some(RedisError::NotReady),
            ),
            (
                "OOM command not allowed when used memory > 'maxmemory'.",
                Refusal::OutOfMemory,
                Remedy::None,
                Some(RedisError::OutOfMemory),
            ),
            (
                "OOM command not allowed when used memory > 'maxmemory'. script: 5b1f, on @user_script:9.",
                Refusal::OutOfMemory,
                Remedy::None,
                Some(RedisError::OutOfMemory),
            ),
            (
                "ERR max number of clients reached",
                Refusal::MaxClients,
                Remedy::None,
                Some(RedisError::NotReady),
            ),
            (
                "NOAUTH Authentication required.",
                Refusal::NoAuth,
                Remedy::None,
                Some(RedisError::AccessDenied),
            ),
            (
                "NOPERM User tollgate has no permissions to run the 'evalsha' command",
                Refusal::NoPermission,
                Remedy::None,
                Some(RedisError::AccessDenied),
            ),
            (
                "NOPERM No permissions to access a key",
                Refusal::KeyDenied,
                Remedy::None,
                Some(RedisError::AccessDenied),
            ),
            (
                "NOPERM User tollgate has no permissions to access the 'secret-key' key",
                Refusal::KeyDenied,
                Remedy::None,
                Some(RedisError::AccessDenied),
            ),
            (
                "WRONGTYPE Operation against a key holding the wrong kind of value",
                Refusal::WrongType,
                Remedy::None,
                Some(RedisError::WrongType),
            ),
            ("CROSSSLOT Keys in request don't hash to the same slot", Refusal::CrossSlot, Remedy::None, None),
            (
                "ERR unknown command 'EVALSHA', with args beginning with: 'secret-key'",
                Refusal::UnknownCommand,
                Remedy::None,
                Some(RedisError::Misconfigured("it does not know EVALSHA or SCRIPT")),
            ),
            (
                "DENIED Redis is running in protected mode because protected mode is enabled",
                Refusal::ProtectedMode,
                Remedy::None,
                Some(RedisError::Misconfigured("it refuses clients from other hosts")),
            ),
        ] {
            let trouble = trouble_of(line);
            assert_eq!(trouble, Trouble::Refused(refusal), "{line}");
            assert!(!trouble.may_have_run(), "{line}");
            assert_eq!(trouble.remedy(), remedy, "{line}");
            assert!(!trouble.to_string().contains("secret"), "{line}");
            let store_error = StoreError::from(trouble);
            assert_eq!(RedisError::of(&store_error), error.as_ref(), "{line}");
            let is_uncountable = matches!(store_error, StoreError::Uncountable(_));
            assert_eq!(is_uncountable, error.is_none(), "{line}");
            assert!(!store_error.may_have_charged(), "{line}");
        }
    }

    #[test]
    fn stopped_calls_may_have_run_and_are_not_sent_again() {
        for line in [
            "ERR user_script:7: attempt to index a nil value (local 'secret-key') script: 5b1f, on @user_script:7.",
            "WRONGTYPE Operation against a key holding the wrong kind of value script: 5b1f, on @user_script:3.",
            "NOPERM User tollgate has no permissions to run the 'incrby' command script: 5b1f, on @user_script:3.",
            "ERR Error running script, call to secret-key",
            "ERR",
            "secret-key",
            "UNHEARDOF of",
            "EXECABORT Transaction discarded because of previous errors.",
            "",
        ] {
            let trouble = trouble_of(line);
            assert!(matches!(trouble, Trouble::Stopped(_)), "{line}: {trouble:?}");
            assert!(trouble.may_have_run() && trouble.remedy() == Remedy::None, "{line}");
            assert!(!format!("{trouble} {trouble:?}").contains("secret"), "{line}");
            assert!(StoreError::from(trouble).may_have_charged(), "{line}");
        }
    }

    #[test]
    fn a_right_that_the_script_misses_is_told_from_other_errors_of_scripts() {
        for line in [
            "ERR The user executing the script can't run this command or subcommand script: 5b1f, on @user_script:97.",
            "ERR ACL failure in script: User counter has no permissions to run the 'time' command script: 5b1f, on @user_script:97.",
            "NOPERM User counter has no permissions to run the 'time' command script: 5b1f, on @user_script:97.",
        ] {
            let error = StoreError::from(trouble_of(line));
            assert_eq!(RedisError::of(&error), Some(&RedisError::AccessDenied), "{line}");
            assert!(error.may_have_charged(), "{line}");
        }
        let other = StoreError::from(trouble_of("ERR Error running script, call to f_5b1f"));
        assert_eq!(RedisError::of(&other), Some(&RedisError::ScriptRefused));
    }

    #[test]
    fn a_redirect_to_nowhere_is_a_bad_reply() {
        for line in [
            "MOVED",
            "MOVED 1",
            "MOVED 1 10.0.0.2",
            "ASK 1 10.0.0.2:0",
            "ASK 1 10.0.0.2:x",
            "MOVED 16384 10.0.0.2:1",
            "ASK -1 10.0.0.2:1",
        ] {
            assert_eq!(trouble_of(line), Trouble::BadReply, "{line}");
        }
    }

    #[test]
    fn unanswered_calls_may_have_run_and_are_not_sent_again() {
        for trouble in [Trouble::Cut, Trouble::TimedOut, Trouble::TooSlow, Trouble::BadReply] {
            assert!(trouble.may_have_run() && trouble.remedy() == Remedy::None);
            assert!(StoreError::from(trouble).may_have_charged());
        }
    }

    #[test]
    fn unsent_calls_have_not_charged() {
        for trouble in [Trouble::Late, ConnectTrouble::Silent.into()] {
            assert!(!trouble.may_have_run());
            assert!(!StoreError::from(trouble).may_have_charged());
        }
    }
}
