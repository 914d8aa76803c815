//! The handling of requests whose counters are in several slots of a Cluster.

pub(super) mod reserve;

/// The handling of requests whose counters are in several slots of a Cluster.
///
/// A Cluster runs a step in one slot, and all counters of one [`Key`](tollgate::Key) are in one. So this only concerns
/// requests with several keys, and only on a Cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum AcrossSlots {
    /// They fail with [`StoreError::Uncountable`](tollgate::StoreError::Uncountable): a request is not split into
    /// several steps without permission.
    #[default]
    Refuse,
    /// They are charged slot by slot, always in the same order, and the units are given back if a later slot denies or
    /// fails, or if the caller disconnects. In the end, all are charged or none. Each slot uses the time of its own
    /// server, so an answer may contain several times.
    ///
    /// # What it costs
    ///
    /// It takes a round trip for each slot, and one more for a denial, within one deadline.
    ///
    /// # Consistency
    ///
    /// No window admits more units than its limit (G1). But units count until they are given back, so another request
    /// may be denied that would have had room (G2). The excess is never more than the costs of the requests in flight
    /// across slots. A process that saw such a count uses it for at most a second, like every denial. Requests whose
    /// denial this process can foresee charge nothing, and neither do peeks.
    ///
    /// A denial by one slot is the answer even if another slot fails. The quotas of that slot are shown as remembered,
    /// or else as unused with the source [`Fallback`](tollgate::Source::Fallback).
    ///
    /// Units that cannot be given back stay counted until their windows close. This concerns requests in flight when a
    /// process ends, units whose server cannot count for five seconds, and refunds with an unknown outcome, because a
    /// second attempt could create room that does not exist. A request that fails this way [may have
    /// charged](tollgate::StoreError::may_have_charged). A failover that loses a charge but applies its refund admits
    /// that much more, as with any lost write.
    ///
    /// If denials are counted, a denial charges only the quotas that had no room when their slot was asked. An
    /// [overdraft](tollgate::CountDenied::Overdraft) is not given back after a denial, only after a failure. A
    /// `first_hit` window that was opened for units that are given back stays open, with nothing used.
    Reserve,
}
