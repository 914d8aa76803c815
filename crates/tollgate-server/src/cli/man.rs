//! `tollgate man`: manual pages, generated from the same description of the commands as their help.

use std::io;

use clap::{Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use thiserror::Error;

use crate::args::Args;
use crate::args::exit_status;

/// There is no command with this name.
#[derive(Debug, Error)]
#[error("there is no command `{0}`; `tollgate --help` lists them")]
pub struct NoSuchCommand(String);

/// Returns the page of the command with these names, such as `["token", "new"]`, in roff. Without names it is that of
/// `tollgate` itself.
///
/// # Errors
///
/// If there is no such command.
pub fn page(names: &[String]) -> Result<String, NoSuchCommand> {
    // Pages of `help` would be empty. A built command has its full name, with its parents.
    let mut root = Args::command().disable_help_subcommand(true);
    root.build();
    let mut command = &root;
    for name in names {
        let found = command.find_subcommand(name);
        command = found.ok_or_else(|| NoSuchCommand(names.join(" ")))?;
    }
    let mut page = Vec::new();
    // This cannot fail: it writes into memory.
    let _ = write(command, &mut page);
    Ok(String::from_utf8_lossy(&page).into_owned())
}

fn write(command: &Command, page: &mut Vec<u8>) -> io::Result<()> {
    let man = Man::new(command.clone()).manual("Tollgate");
    man.render_title(page)?;
    man.render_name_section(page)?;
    man.render_synopsis_section(page)?;
    man.render_description_section(page)?;
    man.render_options_section(page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(page)?;
    }
    if command.get_after_help().is_some() {
        man.render_extra_section(page)?;
    }
    let mut statuses = Roff::new();
    statuses.control("SH", ["EXIT STATUS"]);
    for (status, meaning) in exit_status::of(command.get_name()) {
        statuses.control("TP", []).text([bold(status.to_string())]).text([roman(*meaning)]);
    }
    statuses.to_writer(page)
}
