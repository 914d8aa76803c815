//! Notes for the log on defaults that open the service to its callers, or charge more.

use tracing::{info, warn};

use crate::args::{OriginalEnvironment, ServeArgs};

/// Notes on defaults that open the service to its callers, or charge more, one a line.
#[derive(Debug)]
pub(crate) struct DefaultNotes {
    notes: Vec<String>,
    /// Whether the flags stand for the environment of another program, so that nobody has typed them.
    are_flags_translated: bool,
}

impl DefaultNotes {
    /// `by_default` says whether requests may bring limits although no flag says so.
    pub(super) fn new(args: &ServeArgs, is_xds: bool, by_default: bool) -> Self {
        let mut notes: Vec<String> = args.original.iter().map(OriginalEnvironment::note).collect();
        if is_xds && args.count_denied.is_none() {
            notes.push(
                "limits come over xDS, where none can have `overdraft`, so denied requests count, as in \
                 envoyproxy/ratelimit: `--count-denied=false` turns this off"
                    .to_owned(),
            );
        }
        if by_default {
            notes.push(
                "limits come over xDS and clients show certificates, so they may send limits in descriptors: \
                 `--caller-quotas=false` refuses them"
                    .to_owned(),
            );
        }
        Self { notes, are_flags_translated: args.original.is_some() }
    }

    /// Logs them: as warnings if nobody has typed the flags, because the log may have no lines of a lower level.
    pub(crate) fn log(&self, source: &str) {
        for note in &self.notes {
            if self.are_flags_translated {
                warn!(source, "{note}");
            } else {
                info!(source, "{note}");
            }
        }
    }
}
