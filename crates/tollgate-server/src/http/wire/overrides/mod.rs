//! Overrides: requests, and their answers.

mod fields;
mod replies;
mod requests;
mod target;

pub(in crate::http) use self::fields::OverrideId;
pub(in crate::http) use self::replies::{
    DeletedOverrideReply, GotOverrideReply, OverrideListReply, SetOverrideReply,
};
pub(in crate::http) use self::requests::{NamedOverrideRequest, SetOverrideRequest};
pub(in crate::http) use self::target::TargetAttributes;
