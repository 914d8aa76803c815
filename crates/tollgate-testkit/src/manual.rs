//! The code of the manual's pages, for tests that run it.

/// A block of code of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block<'a> {
    /// The word after the fence, such as `rust`.
    pub language: &'a str,
    /// The lines of the block.
    pub text: &'a str,
}

/// Returns the blocks of code of a page, in their order.
#[must_use]
pub fn blocks(page: &str) -> Vec<Block<'_>> {
    let blocks = page.split(FENCE).skip(1).step_by(2);
    let block = |block| {
        let (language, text) = str::split_once(block, '\n').unwrap_or((block, ""));
        Block { language, text }
    };
    blocks.map(block).collect()
}

/// Returns the code in the sentences of a page, in its order.
#[must_use]
pub fn inline_code(page: &str) -> Vec<&str> {
    let prose = page.split(FENCE).step_by(2);
    prose.flat_map(|prose| prose.split('`').skip(1).step_by(2)).collect()
}

const FENCE: &str = "\n```";

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str =
        "# A page\n\nRun `this`:\n\n```sh\nfirst\nsecond\n```\n\nor `that`:\n\n```text\n```\n\nThe end.\n";

    #[test]
    fn blocks_have_their_language_and_their_lines() {
        let expected =
            [Block { language: "sh", text: "first\nsecond" }, Block { language: "text", text: "" }];
        assert_eq!(blocks(PAGE), expected);
    }

    #[test]
    fn code_in_blocks_is_in_no_sentence() {
        assert_eq!(inline_code(PAGE), ["this", "that"]);
    }
}
