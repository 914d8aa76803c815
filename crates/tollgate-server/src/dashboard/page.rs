//! The files of the page, which are part of the program.

use std::fmt;
use std::io::Write as _;
use std::sync::OnceLock;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use ring::digest::{SHA256, digest};
use tokio::task::block_in_place;

include!(concat!(env!("OUT_DIR"), "/page_files.rs"));

/// All files of the page.
#[derive(Debug)]
pub(crate) struct PageFiles(Box<[PageFile]>);

/// A file of the page.
pub(crate) struct PageFile {
    /// Its path below `/ui/`.
    name: &'static str,
    pub(crate) media_type: &'static str,
    pub(crate) content: PackedBody,
}

/// A body that is there in both forms in which clients take it.
#[derive(Debug)]
pub(crate) struct PackedBody {
    plain: Bytes,
    /// Made for the first client that takes it.
    gzip: OnceLock<Bytes>,
    level: Compression,
    /// Names the content, without quotation marks.
    tag: String,
}

impl PageFiles {
    pub(crate) fn new() -> Self {
        Self(PAGE_FILES.iter().filter_map(|(name, bytes)| PageFile::new(name, bytes)).collect())
    }

    /// Returns the file of this name. The empty name is that of the page itself.
    pub(crate) fn file(&self, name: &str) -> Option<&PageFile> {
        let name = if name.is_empty() { "index.html" } else { name };
        self.0.iter().find(|file| file.name == name)
    }
}

impl PageFile {
    fn new(name: &'static str, bytes: &'static [u8]) -> Option<Self> {
        Some(Self {
            name,
            media_type: media_type(name)?,
            content: PackedBody::new(Bytes::from_static(bytes)),
        })
    }
}

impl PackedBody {
    pub(crate) fn new(plain: Bytes) -> Self {
        let hash = digest(&SHA256, &plain);
        let tag = hash.as_ref().iter().take(12).map(|byte| format!("{byte:02x}")).collect();
        Self { plain, gzip: OnceLock::new(), level: Compression::default(), tag }
    }

    /// A body that is soon replaced, so it is compressed fast. This tag names it, and no other one.
    pub(crate) fn short_lived(plain: Bytes, tag: String) -> Self {
        Self { plain, gzip: OnceLock::new(), level: Compression::fast(), tag }
    }

    pub(crate) fn tag(&self) -> &str {
        &self.tag
    }

    pub(crate) fn plain(&self) -> Bytes {
        self.plain.clone()
    }

    /// Returns the compressed content. Other tasks of this thread go on elsewhere meanwhile, because no check may wait for
    /// a page: neither if it is made here, nor if another thread makes it.
    pub(crate) fn gzip(&self) -> Bytes {
        let known = || self.gzip.get().cloned();
        let made = || self.gzip.get_or_init(|| compressed(&self.plain, self.level)).clone();
        known().unwrap_or_else(|| block_in_place(made))
    }
}

fn compressed(plain: &[u8], level: Compression) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::with_capacity(plain.len() / 4), level);
    // This cannot fail: a vector takes every byte.
    let _ = encoder.write_all(plain);
    encoder.finish().unwrap_or_default().into()
}

fn media_type(name: &str) -> Option<&'static str> {
    Some(match name.rsplit_once('.')?.1 {
        "html" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "svg" => "image/svg+xml",
        _ => return None,
    })
}

impl fmt::Debug for PageFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageFile").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It is loaded in an incident, perhaps over a slow tunnel.
    #[test]
    fn the_page_is_small() {
        let size: usize = PageFiles::new().0.iter().map(|file| file.content.plain.len()).sum();
        assert!(size > 50_000 && size <= 150_000, "{size}");
    }
}
