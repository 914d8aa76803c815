//! The canonical spelling of paths.

use std::borrow::Cow;

/// Returns the canonical form of a path: percent-decoded once, without empty and dot segments.
///
/// Services treat many spellings of a path as the same, and each would be a way around a limit that names another one.
/// Anything but a path from the root, such as `*`, is unchanged, and so is a `%` that begins no escape. Bytes that are
/// not UTF-8 stay escaped. A slash at the end is kept, because services distinguish `/a` from `/a/`.
///
/// # Examples
///
/// ```
/// use tollgate_http::canonical_path;
///
/// assert_eq!(canonical_path("/login"), "/login");
/// assert_eq!(canonical_path("//x/../%6Cogin"), "/login");
/// assert_eq!(canonical_path("/a/./b/"), "/a/b/");
/// assert_eq!(canonical_path("/%256Cogin"), "/%6Cogin", "decoded once");
/// ```
#[must_use]
pub fn canonical_path(path: &str) -> Cow<'_, str> {
    if !path.starts_with('/') || is_canonical(path.as_bytes()) {
        return path.into();
    }
    let decoded = decoded(path);
    let mut segments = Vec::new();
    for segment in decoded.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    let mut canonical = String::with_capacity(decoded.len());
    for segment in &segments {
        canonical.push('/');
        canonical.push_str(segment);
    }
    // A dot segment at the end stands for a folder (RFC 3986, section 5.2.4).
    let is_folder = matches!(decoded.rsplit('/').next(), Some("" | "." | ".."));
    if is_folder || segments.is_empty() {
        canonical.push('/');
    }
    canonical.into()
}

/// Returns whether the path is canonical already, as most are. Segments that begin with a dot need the slow way.
///
/// It reads every byte in any case, so that the compiler can vectorize it.
fn is_canonical(path: &[u8]) -> bool {
    let behind = path.get(1..).unwrap_or_default();
    let is_other = |(first, second): (&u8, &u8)| {
        (*second == b'%') | ((*first == b'/') & ((*second == b'/') | (*second == b'.')))
    };
    !path.iter().zip(behind).map(is_other).fold(false, |any, is_other| any | is_other)
}

fn decoded(path: &str) -> String {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let [first, after @ ..] = rest {
        match after {
            [high, low, behind @ ..] if *first == b'%' && digit(*high).is_some() && digit(*low).is_some() => {
                bytes.push(digit(*high).unwrap_or(0) << 4 | digit(*low).unwrap_or(0));
                rest = behind;
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|byte| format!("%{byte:02X}")));
    }
    text
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_one_spelling() {
        for (path, canonical) in [
            ("/", "/"),
            ("/login", "/login"),
            ("/login/", "/login/"),
            ("//login", "/login"),
            ("/%2e%2E/login", "/login"),
            ("/a/b/../../login", "/login"),
            ("/../../login", "/login"),
            ("/a%2F..%2flogin", "/login"),
            ("/a/..", "/"),
            ("/a/b/.", "/a/b/"),
            ("/a/b/..", "/a/"),
            ("//", "/"),
            ("/.well-known/x", "/.well-known/x"),
            ("/a/...", "/a/..."),
            ("/caf%C3%A9", "/café"),
            ("/%ff%41", "/%FFA"),
            ("/100%", "/100%"),
            ("/%4", "/%4"),
            ("/%zz%+1", "/%zz%+1"),
            ("/users/{id}", "/users/{id}"),
            ("*", "*"),
            ("", ""),
            ("a//b", "a//b"),
        ] {
            assert_eq!(canonical_path(path), canonical, "{path}");
        }
    }

    #[test]
    fn a_usual_path_is_not_copied() {
        assert!(matches!(canonical_path("/api/v1.2/users-7/~x"), Cow::Borrowed(_)));
    }
}
