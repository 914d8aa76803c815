//! What to do where a server that counts cannot be reached.

use crate::trouble::{Refusal, Trouble, Unconnected};

pub(super) fn on(trouble: &Trouble) -> &'static str {
    match trouble {
        Trouble::Unconnected(unconnected) => on_unconnected(unconnected),
        Trouble::Refused(refusal) => on_refusal(refusal),
        Trouble::Stopped(_) | Trouble::BadReply => "see that it is Redis 7.0 or Valkey 7.2, or newer",
        Trouble::Overloaded | Trouble::Late | Trouble::TimedOut | Trouble::Cut => SILENT,
    }
}

const SILENT: &str = "see whether it hangs, or the network drops packets";
const LOGIN: &str = "check the user in the URL, and the password there, in --store-password-file or in TOLLGATE_STORE_PASSWORD";
const SENTINEL_LOGIN: &str = "Sentinels have a login of their own: check --store-sentinel-user, and --store-sentinel-password-file or TOLLGATE_STORE_SENTINEL_PASSWORD";
const RIGHTS: &str = "give the user the rights that the README names under \"A shared store\"";
const WAIT: &str = "wait until it is ready; if it stays so, see its log";

pub(crate) fn on_unconnected(trouble: &Unconnected) -> &'static str {
    match trouble {
        Unconnected::UnknownHost => "check the host in the URL, and that this machine can look it up",
        Unconnected::Io(_) => {
            "check host and port or socket in the URL, and that the server runs and listens there"
        }
        Unconnected::TimedOut | Unconnected::HungUp => {
            "check host and port, that no firewall is between, and TLS: a server that wants it is rediss://, one without it redis://"
        }
        Unconnected::Tls(_) => {
            "give the certificate that signed the server's, and name the host as the server's certificate does"
        }
        Unconnected::WrongPassword | Unconnected::PasswordWanted => LOGIN,
        Unconnected::NoRight(_) => RIGHTS,
        Unconnected::TooOld { .. } => "run a newer one",
        Unconnected::Unfit(_) => "see that the URL names the server, topology and database that is meant",
        Unconnected::Replica => {
            "name the primary, or let Sentinels or the Cluster name it: redis+sentinel://, redis+cluster://"
        }
        Unconnected::NotReady(refusal) => on_refusal(refusal),
        Unconnected::NoPrimary => {
            "check the primary's name in the URL, and SENTINEL MASTERS on the Sentinels"
        }
        Unconnected::OfSentinel(_, trouble) => match **trouble {
            Unconnected::WrongPassword | Unconnected::PasswordWanted => SENTINEL_LOGIN,
            Unconnected::NoRight(_) => {
                "allow the user of the Sentinels +hello and +sentinel|get-master-addr-by-name"
            }
            ref trouble => on_unconnected(trouble),
        },
        Unconnected::SlotUnserved => "see `redis-cli --cluster check`",
        Unconnected::Silent | Unconnected::Untried => SILENT,
    }
}

fn on_refusal(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::NoAuth => LOGIN,
        Refusal::NoPermission => RIGHTS,
        Refusal::ClusterDown => "see CLUSTER INFO, and `redis-cli --cluster check`",
        Refusal::MaxClients => "raise maxclients, or close connections of others",
        _ => WAIT,
    }
}
