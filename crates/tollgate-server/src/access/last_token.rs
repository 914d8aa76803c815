//! The last token of a connection, so that its SHA-256 is not computed for every request.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use crate::access::token::is_equal;

/// The last token that a connection presented, if it was known.
#[derive(Default)]
pub(crate) struct LastToken(Mutex<Option<KnownToken>>);

/// A token, and the index of its principal in one version of the principals.
struct KnownToken {
    version: u64,
    token: Box<[u8]>,
    place: usize,
}

impl LastToken {
    /// Returns the index of this token's principal in this version of the principals. It only looks the token up if the
    /// connection's last one was another, or was found in another version.
    pub(crate) fn place(
        &self,
        version: u64,
        token: &[u8],
        look_up: impl FnOnce() -> Option<usize>,
    ) -> Option<usize> {
        // Nothing under the lock can panic.
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*known
            && known.version == version
            && is_equal(&known.token, token)
        {
            return Some(known.place);
        }
        let place = look_up()?;
        *known = Some(KnownToken { version, token: token.into(), place });
        Some(place)
    }
}

/// Leaves out the token.
impl fmt::Debug for LastToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LastToken").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_looked_up_again_where_it_or_the_version_is_another() {
        let last = LastToken::default();
        let mut looked_up = 0;
        let mut ask = |version, token: &[u8], found| {
            let look_up = || {
                looked_up += 1;
                found
            };
            (last.place(version, token, look_up), looked_up)
        };
        assert_eq!(ask(1, b"tg_a", Some(7)), (Some(7), 1));
        assert_eq!(ask(1, b"tg_a", Some(8)), (Some(7), 1), "it is remembered");
        assert_eq!(ask(1, b"tg_b", None), (None, 2), "an unknown token is not remembered");
        assert_eq!(ask(1, b"tg_ab", None), (None, 3), "a token is not its beginning");
        assert_eq!(ask(1, b"tg_a", None), (Some(7), 3));
        assert_eq!(ask(2, b"tg_a", None), (None, 4), "it has been taken away");
        assert_eq!(ask(2, b"tg_a", Some(9)), (Some(9), 5));
    }
}
