//! Cells of tables.

use super::escape::HtmlText;
use super::name::HtmlName;
use crate::output::number::grouped;
use crate::output::section::{Cell, Column};
use crate::output::share::percent;
use crate::role::Role;
use crate::shortened::narrowed;

/// Characters of a program that are shown.
const PROGRAM_WIDTH: usize = 48;

/// The content of a cell.
#[derive(Debug, Clone, Default)]
pub(crate) struct HtmlCell {
    pub(crate) html: String,
    /// Whether it is a figure that says that there is nothing.
    pub(crate) is_zero: bool,
}

impl HtmlCell {
    /// A piece of data, and the cell of its share, if it has one.
    pub(crate) fn of(cell: &Cell, column: &Column) -> (Self, Option<Self>) {
        let share = |part, whole| match column {
            Column { is_bar_left_out: true, .. } => Self::text(percent(part, whole)),
            Column { is_denial: true, .. } => Self::denied(part, whole),
            _ => Self::part(part, whole),
        };
        let html = match cell {
            Cell::Empty | Cell::Bar(..) => Self::default(),
            Cell::Words(_) | Cell::Estimate(..) => Self::text(cell.text()),
            Cell::Name(name) => Self::name(name),
            Cell::Client(name, program) => Self::client(name, program.as_deref()),
            Cell::Policy(policy, role) => Self::policy(policy, *role),
            Cell::Count(number) => Self::number(*number),
            Cell::Part(part, whole) => return (Self::number(*part), Some(share(*part, *whole))),
            Cell::Share(part, whole) => share(*part, *whole),
            Cell::Time(_) => Self::whole(&cell.text()),
        };
        (html, None)
    }

    pub(crate) fn text(text: impl std::fmt::Display) -> Self {
        Self { html: HtmlText(text).to_string(), is_zero: false }
    }

    /// A name that may be long.
    pub(crate) fn name(name: &str) -> Self {
        Self { html: HtmlName(name).to_string(), is_zero: false }
    }

    /// A policy's name, with its role if it does not decide.
    pub(crate) fn policy(policy: &str, role: Role) -> Self {
        let name = Self::name(policy);
        match role {
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
