//! The report as one page: no request over the network, readable in light and dark, on paper, and without its scripts.
//!
//! The answer comes first, then why, and last what was read.

mod caveats;
mod cell;
mod chart;
mod clients;
mod compared;
mod curves;
mod escape;
mod load;
mod moment;
mod name;
mod opening;
mod policies;
mod prose;
mod quotas;
mod read;
mod routes;
mod table;
mod timeline;
mod when;

use std::fmt::Write as _;

use self::escape::HtmlText;
use super::CheckedReport;
use super::number::counted;
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
        let sections = [
            Section::new("routes", "Routes", routes::section(report)),
            Section::new("policies", "Policies", policies::section(report)),
            Section::new("load", load::title(report), load::section(report)),
            Section::new("limits", "Other limits", curves::section(report)),
            Section::new("changes", "Changes", compared::section(report)),
            Section::new("clients", "Clients", clients::section(report)),
            Section::new("when", "When", when::section(report)),
            Section::new("read", "What was read", read::section(report)),
            Section::new("caveats", "Caveats", caveats::section(report)),
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

/// A part of the page, which is left out if it has nothing to show.
struct Section {
    id: &'static str,
    title: &'static str,
    html: String,
}

impl Section {
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
fn contents(page: &mut String, sections: &[Section]) {
    page.push_str("<nav aria-label=\"Parts of this page\"><ul>\n");
    for Section { id, title, .. } in sections.iter().filter(|section| !section.html.is_empty()) {
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
