//! From the most that each client requests in one window to a limit that few of them exceed.

pub(crate) mod bound;
pub(crate) mod fit;
pub(crate) mod maxima;
pub(crate) mod per;
pub(crate) mod setters;
