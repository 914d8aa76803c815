//! The look of Tollgate's pages: colours, type, spacing, tables and charts, and the scripts that read and sort them.
//!
//! Each file is about one thing. A page includes all of them, and allows them alone by their digests.

/// The style of a page.
pub const STYLE: &str = concat!(
    include_str!("tokens.css"),
    include_str!("page.css"),
    include_str!("table.css"),
    include_str!("chart.css"),
    include_str!("print.css"),
);

/// The digest of the style. A test holds it against the files.
pub const STYLE_DIGEST: &str = "sha256-vNTMxM3SpXc86jLk85QLoS4FqsN7RJfilt1Nvyj094o=";

/// Scripts that sort tables and read charts. A page shows the same without them.
pub const SCRIPT: &str = concat!(include_str!("table.js"), include_str!("chart.js"));

/// The digest of the scripts, as that of the style.
pub const SCRIPT_DIGEST: &str = "sha256-NSTyTMkaty3DthdGlSthb1O6rWs90Pxc9Y9bdhBefQM=";

#[cfg(test)]
mod tests {
    use base64ct::{Base64, Encoding as _};
    use sha2::{Digest as _, Sha256};

    use super::*;

    /// With other digests, browsers would show a page without its style, or without its scripts.
    #[test]
    fn the_digests_are_those_of_the_files() {
        let digest = |text| format!("sha256-{}", Base64::encode_string(&Sha256::digest(text)));
        assert_eq!((STYLE_DIGEST, SCRIPT_DIGEST), (&*digest(STYLE), &*digest(SCRIPT)));
    }

    /// The live page of the service is of one family with reports. It has a copy, because a package holds its own files.
    #[test]
    fn the_live_page_has_the_same_tokens() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../tollgate-server/page/tokens.css");
        assert_eq!(std::fs::read_to_string(page).unwrap(), include_str!("tokens.css"));
    }

    /// Every reader of a report loads them.
    #[test]
    fn the_style_and_the_scripts_stay_small() {
        assert!(SCRIPT.len() < 8_000, "{}", SCRIPT.len());
        assert!(STYLE.len() < 16_000, "{}", STYLE.len());
    }
}
