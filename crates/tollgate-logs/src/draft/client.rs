//! The client of a line: its address, and what proxies say of it.

use std::io::Write;
use std::mem;
use std::net::IpAddr;

use memchr::memchr;
use tollgate_http::{Hop, TrustedProxies};

use super::Draft;
use crate::attribute::AttributeSource;
use crate::client::{holds_address, is_address, is_client_as_host, is_one_client};
use crate::escape::{Escape, closing_quote};
use crate::field::Field;
use crate::forwarded::{self, Client};
use crate::plan::Plan;
use crate::reason::Reason;
use crate::record::Span;
use crate::value::{is_absent, without_brackets, without_port};

impl Draft {
    /// Stores the client, which is one address. A list is `X-Forwarded-For` for the attribute that reads it.
    pub(super) fn client_field(&mut self, plan: &Plan, text: &[u8]) {
        if !plan.wants(Field::Ip) {
            return;
        }
        let mut slot = Field::Ip as usize;
        if !is_one_client(text, !self.has_only_addresses) && !is_absent(text) {
            match plan.client() {
                Some(AttributeSource::Xff(_)) if memchr(b',', text).is_some() => slot = plan.forwarded(),
                Some(AttributeSource::Xff(_)) | None => self.doubt = Some(Reason::Client),
                Some(_) => {}
            }
        }
        self.text(slot, text, Escape::None);
    }

    /// Looks for an address in a field that is not the client's. Nearly all have no value.
    #[cold]
    pub(crate) fn watch(&mut self, text: &[u8], escape: Escape) {
        let span = self.append(text, escape);
        if span.of(&self.record.bytes).is_some_and(holds_address) {
            self.doubt.get_or_insert(Reason::Clients);
        }
        self.record.bytes.truncate(span.start());
    }

    /// Looks whether a virtual host with its port is a client in truth.
    pub(crate) fn watch_host(&mut self, text: &[u8]) {
        if is_client_as_host(text) {
            self.doubt.get_or_insert(Reason::Clients);
        }
    }

    /// Keeps the address of another field for the client. All of them have to be the same.
    pub(crate) fn watch_client(&mut self, text: &[u8], escape: Escape) {
        let span = self.append(text, escape);
        let whole = span.of(&self.record.bytes).filter(|text| is_address(text)).unwrap_or_default();
        let address = without_brackets(without_port(whole));
        if address.is_empty() {
            return;
        }
        let skipped = usize::from(whole.starts_with(b"["));
        let address = span.part(skipped..skipped + address.len());
        let bytes = &self.record.bytes;
        if self.other_client != Span::NONE && self.other_client.of(bytes) != address.of(bytes) {
            self.doubt.get_or_insert(Reason::Clients);
        }
        self.other_client = address;
    }

    /// Compares the client with that of another field, which is taken where the first has none.
    pub(super) fn compare_clients(&mut self) {
        let client = self.span(Field::Ip as usize);
        if client == Span::NONE {
            self.set(Field::Ip as usize, self.other_client);
        } else if client.of(&self.record.bytes) != self.other_client.of(&self.record.bytes) {
            self.doubt.get_or_insert(Reason::Clients);
        }
    }

    /// The lines of a header, of which JSON has an array: they are one list.
    pub(super) fn lines(&mut self, slot: usize, array: &[u8]) {
        let start = self.record.bytes.len();
        let (mut rest, mut is_first) = (array, true);
        while let Some(quote) = memchr(b'"', rest) {
            let text = rest.get(quote + 1..).unwrap_or_default();
            let Some(end) = closing_quote(text, Escape::Json) else { break };
            if !mem::take(&mut is_first) {
                self.record.bytes.push(b',');
            }
            Escape::Json.undo(text.get(..end).unwrap_or_default(), &mut self.record.bytes);
            rest = text.get(end + 1..).unwrap_or_default();
        }
        self.set(slot, Span::new(start, self.record.bytes.len()));
    }

    /// Where a line has no address but `X-Forwarded-For`, the server's proxy stands between the two: the last entry
    /// is the address that it has heard from.
    pub(super) fn peer(&mut self, plan: &Plan) {
        if !plan.wants(Field::Ip) || self.span(Field::Ip as usize) != Span::NONE {
            return;
        }
        let Some(forwarded) = self.span(plan.forwarded()).of(&self.record.bytes) else { return };
        let last = forwarded::hops(forwarded).next();
        match last {
            Some(Hop::Address(address)) => self.address(Field::Ip as usize, address),
            Some(Hop::Hidden) => self.hidden += 1,
            Some(Hop::Invalid(_)) | None => self.unnamed += 1,
        }
    }

    /// The client behind these trusted proxies.
    pub(super) fn client(&mut self, plan: &Plan, slot: usize, trusted: &TrustedProxies) {
        let bytes = &self.record.bytes;
        let forwarded = self.span(plan.forwarded()).of(bytes);
        self.has_forwarded |= forwarded.is_some();
        let peer = self.span(Field::Ip as usize);
        let Some(text) = peer.of(bytes) else { return };
        let Some(forwarded) = forwarded else { return self.set(slot, peer) };
        match forwarded::client(text, forwarded, trusted) {
            Client::Peer => self.set(slot, peer),
            Client::Address(address) => self.address(slot, address),
            Client::Behind(proxy) => {
                self.hidden += 1;
                match proxy {
                    Some(proxy) => self.address(slot, proxy),
                    None => self.set(slot, peer),
                }
            }
            Client::Unnamed => self.unnamed += 1,
        }
    }

    fn address(&mut self, slot: usize, address: IpAddr) {
        let start = self.record.bytes.len();
        // Writing to memory does not fail.
        let _ = write!(self.record.bytes, "{address}");
        self.set(slot, Span::new(start, self.record.bytes.len()));
    }
}
