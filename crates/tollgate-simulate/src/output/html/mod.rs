//! The report as one page: no request over the network, readable in light and dark, on paper, and without its scripts.
//!
//! The answer comes first, then why, and last what was read.

mod caveats;
mod cell;
mod chart;
mod curves;
mod escape;
mod moment;
mod name;
mod opening;
mod prose;
mod quotas;
mod read;
mod table;
mod timeline;
mod when;

use std::fmt::Write as _;

use self::escape::HtmlText;
use self::prose::Prose;
use self::table::HtmlTable;
use super::CheckedReport;
use super::kinds;
use super::number::counted;
use super::section::Block;
use super::sections::sections;
use crate::look::{SCRIPT, SCRIPT_DIGEST, STYLE, STYLE_DIGEST};
use crate::report::{PolicyReport, QuotaReport, Report};

impl CheckedReport {
    /// Returns the report as one page of HTML. It is the same for the same report, and smaller than 1 MB.
    #[must_use]
    pub fn html(&self) -> String {
        let report = &self.report;
        let mut page = String::new();
        let requests = counted(report.requests, "request");
        let title = match report.is_overview() {
            true => format!("What {requests} ask for"),
            false => format!("What these limits would do to {requests}"),
        };
        // Writing into a string does not fail.
        let _ = write!(
            page,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src '{STYLE_DIGEST}'; \
             script-src '{SCRIPT_DIGEST}'; base-uri 'none'; form-action 'none'\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"referrer\" content=\"no-referrer\">\n<title>{}</title>\n<style>{STYLE}</style>\n</head>\n\
             <body>\n<main>\n",
            HtmlText(&title)
        );
        let parts = sections(report);
        let tables = |id: &str| -> String {
            parts.iter().filter(|part| part.id == id).flat_map(|part| &part.blocks).map(block).collect()
        };
        let load = match report.is_overview() {
            true => ("Load", tables("peaks")),
            false => ("Losses and load", pair(&(tables("statuses") + &tables("peaks")))),
        };
        let sections = [
            PageSection::new("routes", "Routes", tables("routes")),
            PageSection::new("policies", "Policies", tables("policies") + &quotas::tightness(report)),
            PageSection::new("load", load.0, load.1),
            PageSection::new("limits", "Other limits", curves::section(report)),
            PageSection::new("kinds", "Other kinds", other_kinds(report)),
            PageSection::new("changes", "Changes", tables("changes")),
            PageSection::new("clients", "Clients", tables("clients")),
            PageSection::new("when", "When", when::section(report)),
            PageSection::new("read", "What was read", read::section(report)),
            PageSection::new("caveats", "Caveats", caveats::section(report)),
        ];
        opening::header(&mut page, self);
        contents(&mut page, &sections);
        for section in &sections {
            section.write(&mut page);
        }
        let _ = write!(page, "</main>\n<script>{SCRIPT}</script>\n</body>\n</html>\n");
        page
    }
}

/// Bytes that the table of other kinds may take.
const MAX_KIND_BYTES: usize = 60_000;

/// What other kinds of quotas would deny.
fn other_kinds(report: &Report) -> String {
    let table = kinds::table_of_all(report, MAX_KIND_BYTES);
    if table.rows.is_empty() { String::new() } else { HtmlTable::of(&table).html() }
}

/// A piece of a section that every form of output has.
fn block(block: &Block) -> String {
    match block {
        Block::Table(table) => HtmlTable::of(table).html(),
        Block::Sentence(sentence) => format!("<p>{}</p>\n", Prose(sentence)),
        Block::Detail(detail) => format!("<p class=\"soft\">{}</p>\n", Prose(detail)),
    }
}

/// Tables side by side.
fn pair(tables: &str) -> String {
    if tables.is_empty() { String::new() } else { format!("<div class=\"pair\">\n{tables}</div>\n") }
}

/// A part of the page, which is left out if it has nothing to show.
struct PageSection {
    id: &'static str,
    title: &'static str,
    html: String,
}

impl PageSection {
    const fn new(id: &'static str, title: &'static str, html: String) -> Self {
        Self { id, title, html }
    }

    fn write(&self, page: &mut String) {
        let Self { id, title, html, .. } = self;
        if !html.is_empty() {
            let _ = writeln!(page, "<section id=\"{id}\">\n<h2>{title}</h2>\n{html}</section>");
        }
    }
}

/// Links to the parts that there are.
fn contents(page: &mut String, sections: &[PageSection]) {
    page.push_str("<nav aria-label=\"Parts of this page\"><ul>\n");
    for PageSection { id, title, .. } in sections.iter().filter(|section| !section.html.is_empty()) {
        let _ = writeln!(page, "<li><a href=\"#{id}\">{title}</a></li>");
    }
    page.push_str("</ul></nav>\n");
}

/// Rows about more denied requests come first, then those about more requests.
fn weight(denied: u64, requests: u64) -> u64 {
    // Of one denied request, more than of any number that are not.
    if denied > 0 { denied.saturating_add(u64::MAX / 2) } else { requests.min(u64::MAX / 2) }
}

fn quotas(report: &Report) -> impl Iterator<Item = (&PolicyReport, &QuotaReport)> {
    report.policies.iter().flat_map(|policy| policy.quotas.iter().map(move |quota| (policy, quota)))
}
