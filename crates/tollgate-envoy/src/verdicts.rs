//! Verdicts on the requests of a domain.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::Code;

/// The numbers of decided requests of a domain, by verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DomainVerdicts {
    /// Allowed requests.
    pub allowed: u64,
    /// Requests that a limit denied.
    pub denied: u64,
}

/// The same while it counts. Every access is relaxed: the counts are independent and guard no other memory.
#[derive(Debug, Default)]
pub(crate) struct Verdicts {
    allowed: AtomicU64,
    denied: AtomicU64,
}

impl Verdicts {
    pub(crate) fn count(&self, overall: Code) {
        let counter = match overall {
            Code::Ok => &self.allowed,
            Code::OverLimit => &self.denied,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn counts(&self) -> DomainVerdicts {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        DomainVerdicts { allowed: of(&self.allowed), denied: of(&self.denied) }
    }
}
