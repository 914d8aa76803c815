//! Versions of overrides, and the eras in which their numbers mean one thing.

use crate::moment::Moment;

/// A version as answers name it: `EPOCH.NUMBER`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version {
    pub(crate) epoch: u64,
    pub(crate) number: u64,
}

/// A stretch of a round in which no change is lost. A failover that loses changes begins another: its numbers may be
/// given again.
#[derive(Debug, Clone)]
pub(crate) struct Era {
    /// The last change of the era before that is still there.
    pub(crate) kept: u64,
    /// When the store began to fail over, and when both services had read the rest. Answers in between may belong
    /// to either era.
    pub(crate) begun: Moment,
    pub(crate) settled: Moment,
}

/// One process of a service: which of the two, and how often it was started before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Process {
    pub(crate) service: usize,
    pub(crate) start: u32,
}

/// Whether a failover after this era has taken back the change of this number.
pub(crate) fn is_lost(era: usize, number: u64, eras: &[Era]) -> bool {
    eras.iter().skip(era + 1).any(|later| number > later.kept)
}

impl Version {
    pub(crate) fn read(text: &str) -> Option<Self> {
        let (epoch, number) = text.split_once('.')?;
        let is_epoch = epoch.len() == 16 && !epoch.bytes().any(|byte| byte.is_ascii_uppercase());
        let epoch = u64::from_str_radix(epoch, 16).ok().filter(|_| is_epoch)?;
        Some(Self { epoch, number: number.parse().ok()? })
    }

    pub(crate) fn tag(self) -> String {
        format!("\"{:016x}.{}\"", self.epoch, self.number)
    }
}
