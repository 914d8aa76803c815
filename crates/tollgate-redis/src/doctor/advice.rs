//! Advice that only the doctor gives.

use crate::advice::Advice;
use crate::trouble::advice::{SILENT, on_rights};

/// For a command that was not answered: this right, only if the server says that it is missing.
pub(super) fn on_no_answer(error: &str, right: &'static str) -> Advice {
    if error.contains("NOPERM") {
        Advice::new(right)
    } else if error.starts_with("it says") {
        Advice::new("see the server's log")
    } else {
        SILENT
    }
}

/// The server's text about a script that it stopped is not shown, because it may contain a key. It probably names a
/// missing right.
pub(super) fn on_refused_script() -> Advice {
    let rights = on_rights();
    format!(
        "see the lines above; if a right is missing, {rights}; with +acl|whoami and +acl|dryrun, `rights` names it"
    )
    .into()
}
