//! Holds in simulated worlds, and a ledger of its own that checks every answer.
//!
//! A [`HoldWorld`](world::HoldWorld) has limits in flight, quotas in windows, a few ids that everybody uses, and threads
//! that reserve, renew, settle and reset, take and drop guards, and make checks. Owners forget what they hold. Two clocks
//! move: the wall's, and the steady one, which may step back in worlds of one thread. The [`HoldLedger`](ledger::HoldLedger)
//! keeps a list of live units, and adds up only when it is asked. After every step on holds, the live units of the store
//! equal the ledger's.
//!
//! In crowded worlds, [`explain`](explain::explain) looks for an order of the steps in which the ledger agrees with all
//! answers.

mod explain;
mod generate;
mod happened;
mod ledger;
mod system;
pub(super) mod tiers;
mod two_clocks;
mod world;
