//! What a driver knows of an override, and the conditions under which it changes one.

use crate::moment::Moment;
use crate::versions::Version;

/// What is known of an override.
#[derive(Debug, Clone, Copy)]
pub(crate) enum KnownOverride {
    /// It is there, unless the services have removed it, which they do some time after its end.
    There { version: Version, until: Option<i64> },
    /// A change of it has no answer. It is left alone until nothing can be in flight any more.
    Unsure { since: Moment },
}

/// The condition of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Condition {
    Always,
    Seen(Version),
    Absent,
}

impl KnownOverride {
    /// Whether the services may have removed it by now.
    pub(crate) fn may_be_gone(self) -> bool {
        match self {
            Self::There { until, .. } => until.is_some_and(|until| Moment::now().millis() >= until),
            Self::Unsure { .. } => true,
        }
    }
}

impl Condition {
    /// Whether a change under this condition may be made.
    pub(crate) fn may_hold(self, known: Option<KnownOverride>) -> bool {
        match (self, known) {
            (_, Some(KnownOverride::Unsure { .. })) | (Self::Always, _) => true,
            (Self::Absent, known) => known.is_none_or(KnownOverride::may_be_gone),
            (Self::Seen(seen), Some(KnownOverride::There { version, .. })) => seen == version,
            (Self::Seen(_), None) => false,
        }
    }

    /// Whether a change under this condition may be refused.
    pub(crate) fn may_fail(self, known: Option<KnownOverride>, is_delete: bool) -> bool {
        let may_be_gone = known.is_none_or(KnownOverride::may_be_gone);
        match self {
            Self::Always => is_delete && may_be_gone,
            Self::Absent => known.is_some(),
            Self::Seen(seen) => {
                let is_seen = matches!(known, Some(KnownOverride::There { version, .. }) if version == seen);
                !is_seen || may_be_gone
            }
        }
    }
}
