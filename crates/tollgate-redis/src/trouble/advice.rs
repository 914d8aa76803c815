//! Advice for operators whose server cannot be reached or refuses commands.

use super::Trouble;
use super::refusal::{Hint, Refusal};
use super::unconnected::ConnectTrouble;
use crate::advice::{Advice, NEARER, Setting};

pub(crate) fn advice_on(trouble: &Trouble) -> Advice {
    match trouble {
        Trouble::Unconnected(unconnected) => on_unconnected(unconnected),
        Trouble::Refused(refusal) => on_refusal(refusal),
        Trouble::Stopped(_) | Trouble::BadReply => {
            Advice::new("make sure that it is Redis 7.0 or Valkey 7.2, or newer")
        }
        Trouble::Late | Trouble::TimedOut | Trouble::Cut => SILENT,
        Trouble::TooSlow => NEARER,
    }
}

/// Rights for counting and for the doctor. These rights are checked whenever a connection is set up, in `rights.rs`.
pub(crate) const COUNTING_RIGHTS: &str = "+evalsha +script|load +time +get +mget +set +incrby +pexpiretime +pttl +del +pexpireat +zadd +zcard +zcount \
     +zmscore +zpopmin +zrange +zrem +ping +hello +info";

/// Rights for shared records. No connection is refused without them, because counting does not need them. Under the
/// layout of another system, the user has none of those that begin with `z`.
pub(crate) const RECORDS_RIGHTS: &str = "+hget +hset +hdel +hlen +hscan +zadd +zcard +zpopmin +zrange +zrem";

/// Rights that only some setups need.
pub(crate) const MORE_RIGHTS: &str =
    "a database other than 0 also needs +select, a Cluster +cluster|slots +asking";

pub(crate) const SILENT: Advice = Advice::new("check whether it hangs, or the network drops packets");
const LOGIN: Advice =
    Advice::about(Setting::Login, "check the user and the password, in the URL or in a separate setting");
const SENTINEL_LOGIN: Advice = Advice::about(
    Setting::SentinelLogin,
    "Sentinels have their own login, which is not in the URL: check their user and password",
);

pub(crate) fn on_unconnected(trouble: &ConnectTrouble) -> Advice {
    match trouble {
        ConnectTrouble::UnknownHost => {
            Advice::new("check the host in the URL, and whether this machine can resolve it")
        }
        ConnectTrouble::Io(_) => Advice::new(
            "check the host and port or the socket in the URL, and whether the server is running and listens there",
        ),
        ConnectTrouble::TimedOut | ConnectTrouble::HungUp => Advice::new(
            "check the host and port, firewalls, and TLS: use rediss:// for a server with TLS, redis:// for one without",
        ),
        ConnectTrouble::Tls(_) => Advice::about(
            Setting::Tls,
            "configure the certificate that signed the server's (or the server's own), and use a host name in the \
             server's certificate",
        ),
        ConnectTrouble::WrongPassword | ConnectTrouble::PasswordWanted => LOGIN,
        ConnectTrouble::OfOldCredentials { trouble, .. } => on_unconnected(trouble),
        ConnectTrouble::NoRight(_) | ConnectTrouble::MissingRights(_) => advice_on_rights(),
        ConnectTrouble::TooOld { .. } => Advice::new("run a newer one"),
        ConnectTrouble::Unfit(_) => {
            Advice::new("make sure that the URL names the intended server, topology and database")
        }
        ConnectTrouble::Replica => Advice::new(
            "name the primary, or let Sentinels or the Cluster name it: redis+sentinel://, redis+cluster://",
        ),
        ConnectTrouble::NotReady(refusal) => on_refusal(refusal),
        ConnectTrouble::NoPrimary => {
            Advice::new("check the primary's name in the URL, and run SENTINEL MASTERS on the Sentinels")
        }
        ConnectTrouble::OfSentinel(_, trouble) => on_sentinel(trouble),
        ConnectTrouble::SlotUnserved => Advice::new("run `redis-cli --cluster check`"),
        ConnectTrouble::Silent | ConnectTrouble::Untried => SILENT,
    }
}

fn on_sentinel(trouble: &ConnectTrouble) -> Advice {
    match trouble {
        ConnectTrouble::WrongPassword | ConnectTrouble::PasswordWanted => SENTINEL_LOGIN,
        ConnectTrouble::OfOldCredentials { trouble, .. } => on_sentinel(trouble),
        ConnectTrouble::NoRight(_) => {
            Advice::new("allow the user of the Sentinels +hello and +sentinel|get-master-addr-by-name")
        }
        trouble => on_unconnected(trouble),
    }
}

pub(crate) fn advice_on_rights() -> Advice {
    format!(
        "give the user the rights that counting needs, on the keys of the store's prefix or layout: {COUNTING_RIGHTS}; {MORE_RIGHTS}"
    )
    .into()
}

fn on_refusal(refusal: &Refusal) -> Advice {
    match refusal.meaning().advice {
        Hint::Do(text) => text.into(),
        Hint::CheckLogin => LOGIN,
        Hint::GiveRights => advice_on_rights(),
    }
}
