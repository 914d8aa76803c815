//! Header values from text, without extra allocations.

use bytes::Bytes;
use http::HeaderValue;

/// A number as a value. `HeaderValue::from` would allocate twice.
pub(super) fn number(number: u64) -> HeaderValue {
    // Digits are always a value.
    value(itoa::Buffer::new().format(number).to_owned()).unwrap_or(HeaderValue::from_static("0"))
}

/// Adds an item to a list. A list of one, the usual case, has no spare room, so it becomes a value without a copy.
#[inline]
pub(super) fn push_item<const N: usize>(list: &mut String, pieces: [&str; N]) {
    if list.is_empty() {
        *list = pieces.concat();
    } else {
        list.push_str(", ");
        list.extend(pieces);
    }
}

/// Returns the text as a value; `None` if it is empty or has an invalid byte.
pub(super) fn value(text: String) -> Option<HeaderValue> {
    let bytes = Bytes::from(text.into_bytes().into_boxed_slice());
    HeaderValue::from_maybe_shared(bytes).ok().filter(|value| !value.is_empty())
}
