//! Advice that only the doctor gives.

use tollgate_redis::{Advice, StoreServer};

/// Returns advice on a command that was not answered: to give this right, only if the server says that it is missing.
pub(super) fn on_no_answer(error: &str, right: &'static str) -> Advice {
    if error.contains("NOPERM") {
        right.into()
    } else if error.starts_with("it says") {
        "see the server's log".into()
    } else {
        StoreServer::ADVICE_ON_SILENCE
    }
}

/// Returns advice on a script that the server stopped. The server's text is not shown, because it may contain a key. It
/// probably names a missing right.
pub(super) fn on_refused_script() -> Advice {
    let rights = StoreServer::advice_on_rights();
    format!(
        "see the lines above; if a right is missing, {rights}; with +acl|whoami and +acl|dryrun, `rights` names it"
    )
    .into()
}
