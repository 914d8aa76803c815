//! The method of a request.

/// Methods that are told apart.
const KNOWN: [&str; 16] = [
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "PATCH",
    "DELETE",
    "OPTIONS",
    "CONNECT",
    "TRACE",
    "PROPFIND",
    "PROPPATCH",
    "MKCOL",
    "COPY",
    "MOVE",
    "LOCK",
    "UNLOCK",
];

/// The method of a request, in one byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Method(u8);

impl Method {
    /// The log has none.
    pub(super) const NONE: Self = Self(u8::MAX);
    /// It is not one of those that are told apart.
    const OTHER: Self = Self(KNOWN.len() as u8);

    pub(super) fn of(method: Option<&[u8]>) -> Self {
        let Some(method) = method else { return Self::NONE };
        let known = KNOWN.iter().position(|known| known.as_bytes() == method);
        known.and_then(|place| u8::try_from(place).ok()).map_or(Self::OTHER, Self)
    }

    /// `None` if the log has none.
    pub(super) fn name(self) -> Option<&'static str> {
        match self {
            Self::NONE => None,
            Self(place) => Some(KNOWN.get(usize::from(place)).copied().unwrap_or("other")),
        }
    }
}
