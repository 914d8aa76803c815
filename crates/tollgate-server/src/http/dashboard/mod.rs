//! The operations of the live page, each in a file of its own: its files, and its data.

mod page;
mod shared_body;

pub(super) use self::page::FOLDER as PAGE_FOLDER;
use super::operation::{Handler, Operation, OperationRow, Success, later};

/// Every operation that only the page needs. `--dashboard off` removes them.
pub(super) fn rows() -> Vec<OperationRow> {
    vec![
        Operation::get("pageStart", "/", None)
            .summary("The live page")
            .success(Success::Page)
            .handled_by(later!(page_start)),
        Operation::get("pageWithoutSlash", "/ui", None)
            .summary("The live page")
            .success(Success::Page)
            .handled_by(later!(page_start)),
        Operation::get("page", PAGE_FOLDER, None)
            .summary("The live page and its files")
            .success(Success::Page)
            .handled_by(later!(page_file)),
    ]
}
