//! `tollgate override list`: the pages of the list, as one table.

use std::fmt::Write as _;
use std::iter;

use bytes::Bytes;
use serde::Deserialize;
use tollgate_policy::Printable;

use super::OverrideCommandError;
use super::answer::ShownOverride;
use super::request::OverrideRequest;
use super::shown::{in_json, read, warn_of_stale_answer};
use crate::args::ListOverridesArgs;

/// Overrides in the page that is listed.
const PAGE: &str = "100";

/// The most that a page may have, where all pages are listed.
const LARGEST_PAGE: &str = "1000";

/// The printed part of a page.
#[derive(Deserialize)]
struct PageBody {
    overrides_version: Option<String>,
    stale: bool,
    overrides: Vec<ShownOverride>,
    /// The last id of the page, if there are more.
    next: Option<String>,
}

/// Lists the first page, or all of them. Returns what there is, even if a later page fails.
pub(super) async fn list(args: &ListOverridesArgs) -> (String, Result<(), OverrideCommandError>) {
    let (mut after, mut text, mut overrides) = (args.after.clone(), String::new(), Vec::new());
    loop {
        let (body, page) = match page(args, after.as_deref()).await {
            Ok(page) => page,
            Err(error) => return (text + &table(&overrides), Err(error)),
        };
        if page.stale && after == args.after {
            warn_of_stale_answer();
        }
        overrides.extend(page.overrides);
        if args.service.json {
            // Each page is a line of its own.
            overrides.clear();
            text.push_str(&in_json(&body));
        }
        after = page.next;
        if after.is_none() || !args.all {
            if !args.service.json {
                text = table(&overrides);
                text.push_str(&summary(overrides.len(), page.overrides_version.as_deref(), after.as_deref()));
            }
            return (text, Ok(()));
        }
    }
}

async fn page(
    args: &ListOverridesArgs,
    after: Option<&str>,
) -> Result<(Bytes, PageBody), OverrideCommandError> {
    let request = OverrideRequest::page(&[
        ("policy", args.policy.as_deref()),
        ("label", args.label.as_deref()),
        ("after", after),
        ("limit", Some(if args.all { LARGEST_PAGE } else { PAGE })),
    ]);
    let (status, body) = request.send(&args.service).await?;
    let page = read(&args.service, status, &body)?;
    Ok((body, page))
}

/// Returns a row for each override. A column in which nothing stands is left out.
fn table(overrides: &[ShownOverride]) -> String {
    if overrides.is_empty() {
        return String::new();
    }
    let titles = ["ID", "LIMITS", "UNTIL", "LABEL", "NO EFFECT"].map(str::to_owned);
    let row = |over: &ShownOverride| {
        let label = over.label.as_ref().map(|label| Printable(label).to_string());
        [
            Printable(&over.id).to_string(),
            over.limits(),
            over.until().unwrap_or_default(),
            label.unwrap_or_default(),
            over.trouble().unwrap_or_default(),
        ]
    };
    let rows: Vec<[String; 5]> = overrides.iter().map(row).collect();
    let is_used: [bool; 5] = std::array::from_fn(|column| rows.iter().any(|row| !row[column].is_empty()));
    let rows: Vec<[String; 5]> = iter::once(titles).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: [usize; 5] = std::array::from_fn(width);
    let mut table = String::new();
    for row in &rows {
        let cells = row.iter().zip(widths).zip(is_used).filter(|(_, is_used)| *is_used);
        let cells: Vec<String> = cells.map(|((cell, width), _)| format!("{cell:<width$}")).collect();
        // Writing into a string does not fail.
        let _ = writeln!(table, "{}", cells.join("  ").trim_end());
    }
    table
}

fn summary(count: usize, version: Option<&str>, next: Option<&str>) -> String {
    let at = version.map(|version| format!(", at version {}", Printable(version))).unwrap_or_default();
    let counted = match count {
        0 => "no overrides".to_owned(),
        1 => "1 override".to_owned(),
        count => format!("{count} overrides"),
    };
    let more = match next {
        None => String::new(),
        Some(next) => format!("; more with --all, or with --after {}", Printable(next)),
    };
    format!("{counted}{at}{more}\n")
}
