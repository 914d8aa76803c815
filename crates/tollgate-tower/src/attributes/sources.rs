//! Extractors as sources of attributes.
//!
//! Addresses are whole here; policies choose their prefix lengths. A value that keys contain as a hash is an attribute
//! as the same hash in hex.

use std::net::IpAddr;

use tollgate_policy::AttributeValue;

use super::{AttributeError, AttributeSource, FoundValue};
use crate::head::Head;
use crate::key::{ClientAddress, Cookie, Header, NO_PEER, Peer, PeerAddress};

/// Made by [`with_fn`](super::AttributeSources::with_fn).
pub(super) struct FromHead<F>(pub(super) F);

impl<F> AttributeSource for FromHead<F>
where
    F: for<'r> Fn(Head<'r>) -> Option<AttributeValue<'r>> + Send + Sync,
{
    fn attribute<'r>(&'r self, head: Head<'r>) -> FoundValue<'r> {
        Ok((self.0)(head))
    }
}

impl AttributeSource for PeerAddress {
    fn attribute<'r>(&'r self, head: Head<'r>) -> FoundValue<'r> {
        address(Peer::of(head))
    }

    fn is_peer_address(&self) -> bool {
        true
    }
}

impl AttributeSource for ClientAddress {
    fn attribute<'r>(&'r self, head: Head<'r>) -> FoundValue<'r> {
        address(self.of(head)?)
    }
}

impl AttributeSource for Header {
    fn attribute<'r>(&'r self, head: Head<'r>) -> FoundValue<'r> {
        Ok(self.text(head)?.map(Into::into))
    }
}

impl AttributeSource for Cookie {
    fn attribute<'r>(&'r self, head: Head<'r>) -> FoundValue<'r> {
        Ok(self.text(head)?.map(Into::into))
    }
}

fn address(address: Option<IpAddr>) -> FoundValue<'static> {
    let address = address.ok_or(AttributeError::Setup(NO_PEER))?;
    Ok(Some(address.to_string().into()))
}
