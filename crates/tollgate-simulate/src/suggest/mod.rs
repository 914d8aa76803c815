//! From traffic to a limit.

pub(crate) mod bound;

pub use self::bound::{BUDGET, RISK, clients_needed, rank};
