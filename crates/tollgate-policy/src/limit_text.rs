//! Limits as texts.

use tollgate::{InFlight, PolicyInFlight, Quota, QuotaError};

/// One limit of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LimitText {
    Quota(Quota),
    InFlight(InFlight),
}

impl LimitText {
    /// Reads one limit, or several with `;`, `,` or `|` between them, as [`Quota::list`] does.
    pub(crate) fn list(text: &str) -> Result<Vec<Self>, QuotaError> {
        let quotas = |text| Ok(Quota::list(text)?.into_iter().map(Self::Quota).collect());
        if !text.contains(PolicyInFlight::SERIES) {
            return quotas(text);
        }
        let mut limits = Vec::new();
        for part in text.split([';', ',', '|']).map(str::trim) {
            // With a window, it is a quota of a kind that does not exist.
            match part.contains(PolicyInFlight::SERIES) && !part.contains('/') {
                true => limits.push(Self::InFlight(part.parse()?)),
                false => limits.extend::<Vec<_>>(quotas(part)?),
            }
        }
        Ok(limits)
    }
}
