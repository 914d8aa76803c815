//! What to do with a request whose counters lie in several slots of a Cluster.

/// What to do with a request whose counters lie in several slots of a Cluster.
///
/// A Cluster runs a step in one slot at a time, and all counters of one [`Key`](tollgate::Key) lie in one. So only
/// requests that count several keys are concerned, and only on a Cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum AcrossSlots {
    /// They fail with [`StoreError::Uncountable`](tollgate::StoreError::Uncountable): what cannot be one step
    /// is not taken in several unless somebody has asked for that.
    #[default]
    Refuse,
    /// Their units are taken slot by slot, always in the same order, and are given back if a later slot denies,
    /// fails, or nobody waits for the answer any more. In the end all are charged or none; each slot is asked at
    /// the time of its own server, so an answer may hold several times.
    ///
    /// # What it costs
    ///
    /// A round trip for each slot, and one more for a denial. The deadline is one for all.
    ///
    /// # Consistency
    ///
    /// In no window are more units admitted than the limit (G1). But until units are given back they are counted,
    /// and another request may be denied that would have had room (G2): never by more than the costs of the requests
    /// that are under way across slots. A process that saw such a count believes it for a second at most, as it does
    /// every denial. Requests that this process knows to be denied take nothing on the way; nor do peeks.
    ///
    /// Units that cannot be given back stay counted until their windows close. So it is with those of requests under
    /// way when a process ends, with those whose server cannot count for five seconds, and with those of which it
    /// does not say whether it gave them back: to try that twice could make room that there is not. A request that
    /// fails then says that it [may have charged](tollgate::StoreError::may_have_charged). A failover that loses a
    /// charge but hears that it is given back lets in as much more, as with any write that it loses.
    ///
    /// Where denials are counted, a denial charges the quotas that had no room when their slot was asked, and no
    /// others. A `first_hit` window that was opened for units that are given back stays open, with nothing used.
    Reserve,
}
