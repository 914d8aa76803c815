//! The page of the manual that lists commands and flags is what the command itself says.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use clap::{Arg, Command, CommandFactory};
use tollgate_server::args::Args;

/// What comes after this line is generated.
const MARK: &str = "<!-- Generated from the command's own help: do not edit below this line. -->\n";

#[test]
fn the_page_of_the_command_line_is_current() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    let kept = fs::read_to_string(&file).unwrap();
    let (written, _) = kept.split_once(MARK).unwrap();
    let mut page = format!("{written}{MARK}");
    let mut command = Args::command();
    command.build();
    describe(&command, "tollgate", &mut page);
    if std::env::var_os("TOLLGATE_WRITE_SNAPSHOTS").is_some() {
        fs::write(&file, &page).unwrap();
        return;
    }
    assert!(kept == page, "docs/cli.md is out of step; TOLLGATE_WRITE_SNAPSHOTS=1 writes:\n{page}");
}

/// A section for each command that does something, with its arguments.
fn describe(command: &Command, name: &str, page: &mut String) {
    if !command.has_subcommands() {
        let about = command.get_long_about().or(command.get_about()).unwrap();
        writeln!(page, "\n## {name}\n\n{about}.\n").unwrap();
        for argument in
            command.get_arguments().filter(|argument| !argument.is_hide_set() && argument.get_id() != "help")
        {
            writeln!(page, "- {}", entry(argument)).unwrap();
        }
    }
    for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
        describe(below, &format!("{name} {}", below.get_name()), page);
    }
}

/// One argument: how it is written, what it does, and where its value comes from if it is not given.
fn entry(argument: &Arg) -> String {
    let value = argument.to_string();
    let help = argument.get_long_help().or(argument.get_help()).unwrap().to_string();
    let mut entry = format!("`{value}`: {}.", help.trim_end_matches('.').replace('\n', " "));
    let defaults: Vec<_> =
        argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if argument.get_action().takes_values() && !defaults.is_empty() {
        write!(entry, " Default: `{}`.", defaults.join(",")).unwrap();
    }
    if let Some(variable) = argument.get_env() {
        write!(entry, " Variable: `{}`.", variable.to_string_lossy()).unwrap();
    }
    entry
}
