//! The live page and its data: what an operator sees of this process while it runs.
//!
//! `page` has the files of the page. They hold no data: the page reads all of it from the operations in
//! [`http::dashboard`](crate::http). Nothing here is on the way of a check.

pub(crate) mod page;

use self::page::Page;

/// The page, and the data that only it needs.
#[derive(Debug)]
pub(crate) struct Dashboard {
    pub(crate) page: Page,
}

impl Dashboard {
    pub(crate) fn new() -> Self {
        Self { page: Page::new() }
    }
}
