//! Normalizes paths, by rewriting them until nothing changes.

pub(crate) fn rewritten(path: &str) -> String {
    if !path.starts_with('/') {
        return path.to_owned();
    }
    let mut path = decoded(path);
    while path.contains("//") {
        path = path.replace("//", "/");
    }
    while let Some(at) = path.find("/./") {
        path.replace_range(at..at + 2, "");
    }
    // From the left, because the segment that a `..` removes may be part of another match.
    while let Some(at) = path.find("/../").or_else(|| path.ends_with("/..").then(|| path.len() - 3)) {
        let start = path[..at].rfind('/').unwrap_or(0);
        path.replace_range(start..at + 3, "");
        if path.is_empty() {
            path.push('/');
        }
    }
    if path.ends_with("/.") {
        path.pop();
    }
    path
}

/// Replaces each `%` and two digits by their byte, unless the result is not UTF-8.
fn decoded(path: &str) -> String {
    let (mut bytes, mut at) = (Vec::new(), 0);
    while at < path.len() {
        let escaped =
            path.get(at + 1..at + 3).filter(|digits| digits.chars().all(|it| it.is_ascii_hexdigit()));
        match escaped.filter(|_| path.as_bytes()[at] == b'%') {
            Some(digits) => {
                bytes.extend(u8::from_str_radix(digits, 16));
                at += 3;
            }
            None => {
                bytes.push(path.as_bytes()[at]);
                at += 1;
            }
        }
    }
    let mut text = String::new();
    let mut rest = bytes.as_slice();
    while let Err(error) = std::str::from_utf8(rest) {
        let (valid, after) = rest.split_at(error.valid_up_to());
        let (wrong, after) = after.split_at(error.error_len().unwrap_or(after.len()));
        text += std::str::from_utf8(valid).expect("it is valid up to there");
        wrong.iter().for_each(|byte| text += &format!("%{byte:02X}"));
        rest = after;
    }
    text + std::str::from_utf8(rest).expect("it is valid")
}
