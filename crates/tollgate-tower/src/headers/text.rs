//! A header's value while it is written: no allocation but the value's own.

use http::HeaderValue;
use smallvec::SmallVec;

/// A number as a value. `HeaderValue::from` would allocate twice.
pub(super) fn number(number: u64) -> HeaderValue {
    // Digits are always a value.
    HeaderValue::from_str(itoa::Buffer::new().format(number)).unwrap_or(HeaderValue::from_static("0"))
}

/// Grows on the stack up to what three quotas take.
#[derive(Default)]
pub(super) struct Text(SmallVec<[u8; 128]>);

impl Text {
    pub(super) fn push(&mut self, text: &str) -> &mut Self {
        self.0.extend_from_slice(text.as_bytes());
        self
    }

    pub(super) fn push_number(&mut self, number: u64) -> &mut Self {
        self.push(itoa::Buffer::new().format(number))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `None` only for a byte that no value may have.
    pub(super) fn value(&self) -> Option<HeaderValue> {
        HeaderValue::from_bytes(&self.0).ok()
    }
}
