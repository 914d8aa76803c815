//! Another program with its arguments and environment, to run, or to print for a shell.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::PipeWriter;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

use anyhow::{Context, Result, bail};

/// One command line.
#[derive(Debug, Clone)]
pub(crate) struct CommandLine {
    directory: Option<PathBuf>,
    environment: Vec<(&'static str, String)>,
    words: Vec<OsString>,
}

/// Returns the command of these words, split at white space.
pub(crate) fn command(words: &str) -> CommandLine {
    let words = words.split_whitespace().map(Into::into).collect();
    CommandLine { directory: None, environment: Vec::new(), words }
}

/// Returns a command for the program at this path, without arguments.
pub(crate) fn program(path: &Path) -> CommandLine {
    CommandLine { directory: None, environment: Vec::new(), words: vec![path.into()] }
}

/// Returns the directory into which cargo builds in this run.
pub(crate) fn target_directory() -> Result<PathBuf> {
    let this = std::env::current_exe().context("cannot find where xtask was built")?;
    let target = this.parent().and_then(Path::parent).context("xtask was not built by cargo")?;
    Ok(target.to_owned())
}

impl CommandLine {
    /// Runs in this directory instead of the current one.
    pub(crate) fn directory(self, directory: PathBuf) -> Self {
        Self { directory: Some(directory), ..self }
    }

    pub(crate) fn environment(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.environment.push((name, value.into()));
        self
    }

    pub(crate) fn argument(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.words.push(argument.as_ref().to_owned());
        self
    }

    pub(crate) fn arguments(self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        arguments.into_iter().fold(self, Self::argument)
    }

    /// Runs it to its end, with its output among ours. An error names the command.
    pub(crate) fn run(&self) -> Result<()> {
        let status = self.spawn()?.wait().with_context(|| format!("lost sight of `{self}`"))?;
        self.expect_success(status)
    }

    /// Runs it to its end, and returns its standard output.
    pub(crate) fn read(&self) -> Result<String> {
        let output = self.to_command()?.stderr(Stdio::inherit()).output();
        let output = output.with_context(|| format!("cannot run `{self}`"))?;
        self.expect_success(output.status)?;
        String::from_utf8(output.stdout).with_context(|| format!("`{self}` did not answer in UTF-8"))
    }

    /// Runs it to its end and writes its output to this file.
    pub(crate) fn run_into(&self, file: &Path) -> Result<ExitStatus> {
        let output = File::create(file).with_context(|| format!("cannot write {}", file.display()))?;
        let errors = output.try_clone().with_context(|| format!("cannot share {}", file.display()))?;
        let status = self.to_command()?.stdout(output).stderr(errors).status();
        status.with_context(|| format!("cannot run `{self}`"))
    }

    /// Runs it to its end. Returns its standard output, and the failure if there was one.
    pub(crate) fn say(&self) -> Result<(String, Result<()>)> {
        let output = self.to_command()?.stderr(Stdio::inherit()).output();
        let output = output.with_context(|| format!("cannot run `{self}`"))?;
        Ok((String::from_utf8_lossy(&output.stdout).into_owned(), self.expect_success(output.status)))
    }

    /// Whether it can be run and succeeds; its output is dropped.
    pub(crate) fn succeeds(&self) -> bool {
        let status =
            self.to_command().map(|mut command| command.stdout(Stdio::null()).stderr(Stdio::null()).status());
        matches!(status, Ok(Ok(status)) if status.success())
    }

    /// Starts it without waiting.
    pub(crate) fn spawn(&self) -> Result<Child> {
        self.to_command()?.spawn().with_context(|| format!("cannot run `{self}`"))
    }

    /// Starts it and drops its output.
    pub(crate) fn spawn_quiet(&self) -> Result<Child> {
        let mut command = self.to_command()?;
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().with_context(|| format!("cannot run `{self}`"))
    }

    /// Starts it and writes its output to the end of this file.
    pub(crate) fn spawn_into(&self, file: &Path) -> Result<Child> {
        let output = File::options().create(true).append(true).open(file);
        let output = output.with_context(|| format!("cannot write {}", file.display()))?;
        let errors = output.try_clone().with_context(|| format!("cannot share {}", file.display()))?;
        let mut command = self.to_command()?;
        command.stdout(output).stderr(errors);
        command.spawn().with_context(|| format!("cannot run `{self}`"))
    }

    /// Starts it and returns its standard output.
    pub(crate) fn spawn_piped(&self) -> Result<(Child, ChildStdout)> {
        let mut child = self
            .to_command()?
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run `{self}`"))?;
        let output = child.stdout.take().with_context(|| format!("`{self}` has no output"))?;
        Ok((child, output))
    }

    /// Starts it as the leader of a process group that writes to `output`. Its standard input stays open as long as the
    /// child is held.
    pub(crate) fn spawn_group(&self, output: PipeWriter) -> Result<Child> {
        let errors = output.try_clone().context("cannot share a pipe")?;
        let mut command = self.to_command()?;
        command.process_group(0).stdin(Stdio::piped()).stdout(output).stderr(errors);
        command.spawn().with_context(|| format!("cannot run `{self}`"))
    }

    /// Starts it as the leader of a process group, with pipes as its standard input and output.
    pub(crate) fn spawn_dialog(&self) -> Result<Child> {
        let mut command = self.to_command()?;
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.spawn().with_context(|| format!("cannot run `{self}`"))
    }

    fn expect_success(&self, status: ExitStatus) -> Result<()> {
        if !status.success() {
            bail!("this command failed ({status}): {self}");
        }
        Ok(())
    }

    fn to_command(&self) -> Result<Command> {
        let (program, arguments) = self.words.split_first().context("a command without words")?;
        let mut command = Command::new(program);
        command.args(arguments).envs(self.environment.iter().map(|(name, value)| (name, value)));
        // No command reads an answer, and our own standard input may never end: see `spawn_group`.
        command.stdin(Stdio::null());
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        Ok(command)
    }
}

impl fmt::Display for CommandLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(directory) = &self.directory {
            write!(f, "cd {} && ", quoted(&directory.to_string_lossy()))?;
        }
        for (name, value) in &self.environment {
            write!(f, "{name}={} ", quoted(value))?;
        }
        let words: Vec<_> = self.words.iter().map(|word| quoted(&word.to_string_lossy())).collect();
        f.write_str(&words.join(" "))
    }
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_a_command_in_shell_syntax() {
        let line =
            command("cargo  doc --no-deps").environment("RUSTDOCFLAGS", "-D warnings").argument("it's");
        let line = line.directory("/tmp".into());
        assert_eq!(line.to_string(), r"cd /tmp && RUSTDOCFLAGS='-D warnings' cargo doc --no-deps 'it'\''s'");
    }

    #[test]
    fn a_failure_names_the_command_and_its_status() {
        let error = command("sh -c").argument("exit 3").run().unwrap_err();
        assert_eq!(error.to_string(), "this command failed (exit status: 3): sh -c 'exit 3'");
    }

    #[test]
    fn a_program_that_is_not_there_does_not_succeed() {
        assert!(!command("no-such-program-anywhere").succeeds());
    }
}
