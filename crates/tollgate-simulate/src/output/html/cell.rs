//! Cells of tables.

use super::escape::HtmlText;
use super::name::HtmlName;
use crate::output::number::grouped;
use crate::output::share::percent;
use crate::report::PolicyReport;
use crate::role::Role;
use crate::shortened::narrowed;

/// Characters of a program that are shown.
const PROGRAM_WIDTH: usize = 48;

/// The content of a cell.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cell {
    pub(crate) html: String,
    /// Whether it is a figure that says that there is nothing.
    pub(crate) is_zero: bool,
}

impl Cell {
    pub(crate) fn text(text: impl std::fmt::Display) -> Self {
        Self { html: HtmlText(text).to_string(), is_zero: false }
    }

    /// A name that may be long.
    pub(crate) fn name(name: &str) -> Self {
        Self { html: HtmlName(name).to_string(), is_zero: false }
    }

    /// A policy's name, with its role if it does not decide.
    pub(crate) fn policy(policy: &PolicyReport) -> Self {
        let name = Self::name(&policy.policy);
        match policy.role {
            Role::Enforced => name,
            role => {
                let html = format!("{} <span class=\"role\">{}</span>", name.html, HtmlText(role.name()));
                Self { html, is_zero: false }
            }
        }
    }

    /// A name, and below it what the client calls itself.
    pub(crate) fn client(name: &str, program: Option<&str>) -> Self {
        let mut cell = Self::name(name);
        if let Some(program) = program.filter(|program| !program.is_empty()) {
            cell.html +=
                &format!("<br><span class=\"soft\">{}</span>", HtmlName(&narrowed(program, PROGRAM_WIDTH)));
        }
        cell
    }

    /// A time, on one line.
    pub(crate) fn whole(text: &str) -> Self {
        Self { html: format!("<span class=\"whole\">{}</span>", HtmlText(text)), is_zero: false }
    }

    pub(crate) fn number(number: u64) -> Self {
        Self { html: grouped(number), is_zero: number == 0 }
    }

    /// The denied share, as a percentage above a bar.
    pub(crate) fn denied(part: u64, whole: u64) -> Self {
        Self::share("share", part, whole)
    }

    /// A share of something else.
    pub(crate) fn part(part: u64, whole: u64) -> Self {
        Self::share("share some", part, whole)
    }

    fn share(class: &str, part: u64, whole: u64) -> Self {
        let percent = percent(part, whole);
        if part == 0 {
            return Self { html: percent, is_zero: true };
        }
        let wide = part as f64 / whole.max(1) as f64 * 100.0;
        // A bar of less than this is a speck.
        if wide < 1.0 {
            return Self { html: percent, is_zero: false };
        }
        let html = format!(
            "{percent}<svg class=\"{class}\" viewBox=\"0 0 100 1\" preserveAspectRatio=\"none\" aria-hidden=\"true\">\
             <rect width=\"{wide:.1}\" height=\"1\"/></svg>"
        );
        Self { html, is_zero: false }
    }
}
