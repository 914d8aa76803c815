//! Markdown pages: links, anchors, and prose.

use std::collections::{BTreeSet, HashMap};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// The parts of a page that are checked.
#[derive(Debug, Default)]
pub(super) struct ManualPage {
    /// The targets of links and pictures, each with its line.
    pub(super) links: Vec<(usize, String)>,
    /// What may follow `#` in a link to this page.
    pub(super) anchors: BTreeSet<String>,
    /// Paragraphs, items, headings and cells, without code.
    pub(super) blocks: Vec<ProseBlock>,
}

/// A piece of prose.
#[derive(Debug)]
pub(super) struct ProseBlock {
    pub(super) line: usize,
    pub(super) text: String,
    /// Whether it consists of whole sentences, unlike headings and cells.
    pub(super) is_sentences: bool,
}

impl ManualPage {
    pub(super) fn parse(text: &str) -> Self {
        let mut page = Self::default();
        let mut seen = HashMap::<String, usize>::new();
        let mut open: Option<ProseBlock> = None;
        let (mut in_code, mut in_table) = (false, false);
        let line =
            |offset: usize| text.as_bytes()[..offset].iter().filter(|byte| **byte == b'\n').count() + 1;
        for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
            match event {
                Event::Start(Tag::CodeBlock(_)) => in_code = true,
                Event::End(TagEnd::CodeBlock) => in_code = false,
                Event::Start(Tag::Table(_)) => in_table = true,
                Event::End(TagEnd::Table) => in_table = false,
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    page.links.push((line(range.start), dest_url.into_string()));
                }
                Event::Start(Tag::Paragraph | Tag::Item | Tag::Heading { .. } | Tag::TableCell) => {
                    page.blocks.extend(open.take());
                    open = Some(ProseBlock {
                        line: line(range.start),
                        text: String::new(),
                        is_sentences: !in_table,
                    });
                }
                Event::End(TagEnd::Heading(_)) => {
                    if let Some(block) = open.take() {
                        let slug = slug(&block.text);
                        let times = seen.entry(slug.clone()).or_default();
                        page.anchors.insert(if *times == 0 { slug } else { format!("{slug}-{times}") });
                        *times += 1;
                        page.blocks.push(ProseBlock { is_sentences: false, ..block });
                    }
                }
                Event::End(TagEnd::Paragraph | TagEnd::Item | TagEnd::TableCell) => {
                    page.blocks.extend(open.take());
                }
                Event::Text(words) if !in_code => {
                    if let Some(block) = &mut open {
                        block.text.push_str(&words);
                    }
                }
                Event::Code(code) => {
                    if let Some(block) = &mut open {
                        block.text.push_str(&code);
                    }
                }
                Event::SoftBreak | Event::HardBreak => {
                    if let Some(block) = &mut open {
                        block.text.push(' ');
                    }
                }
                Event::Html(html) | Event::InlineHtml(html) => {
                    let attributes = html.split(['"', '\'']).collect::<Vec<_>>();
                    let targets = attributes.windows(2).filter(|pair| {
                        ["src=", "srcset=", "href="].iter().any(|name| pair[0].ends_with(name))
                    });
                    page.links.extend(targets.map(|pair| (line(range.start), pair[1].to_owned())));
                }
                _ => {}
            }
        }
        page.blocks.retain(|block| !block.text.trim().is_empty());
        page
    }
}

/// Returns the anchor of a heading, as code hosts and mdBook create it.
fn slug(heading: &str) -> String {
    let kept = heading.trim().chars().filter_map(|c| match c {
        ' ' => Some('-'),
        '-' | '_' => Some(c),
        _ if c.is_alphanumeric() => Some(c),
        _ => None,
    });
    kept.flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_links_anchors_and_prose() {
        let page = ManualPage::parse(
            "# The `file`, in short\n\nOne [link](a.md#b).\nTwo `codes.rs`.\n\n```sh\n# no [link](c.md)\n```\n\n\
             <img src=\"d.svg\">\n\n## Twice\n\n| A [cell](e.md) |\n|---|\n\n## Twice\n",
        );
        let links: Vec<_> = page.links.iter().map(|(line, to)| (*line, to.as_str())).collect();
        assert_eq!(links, [(3, "a.md#b"), (10, "d.svg"), (14, "e.md")]);
        assert_eq!(
            page.anchors.iter().map(String::as_str).collect::<Vec<_>>(),
            ["the-file-in-short", "twice", "twice-1"]
        );
        let sentences: Vec<_> =
            page.blocks.iter().filter(|block| block.is_sentences).map(|block| block.text.as_str()).collect();
        assert_eq!(sentences, ["One link. Two codes.rs."]);
    }
}
