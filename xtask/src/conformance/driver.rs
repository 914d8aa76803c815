//! The client program: objects of JSON, one a line, on its standard input and output.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;

use super::difference::{CaseOutcome, Difference};
use crate::command::CommandLine;
use crate::stopwatch::Stopwatch;

/// The longest that a client program takes to start, which may have to be compiled, and to answer its first line.
const START_LIMIT: Duration = Duration::from_secs(60);

/// The longest that a driver takes to end when its standard input has ended.
const END_LIMIT: Duration = Duration::from_secs(2);

/// The most that a driver may write in a line.
const MAX_LINE: u64 = 4 << 20;

/// A proxy at which nothing listens: a client that uses it reaches no server.
const NO_PROXY_THERE: &str = "http://127.0.0.1:9";

/// A client program that runs. It ends when it is dropped.
pub(super) struct ClientDriver {
    child: Child,
    /// `None` once it is closed, which tells the driver to end.
    input: Option<ChildStdin>,
    lines: Receiver<Result<String, String>>,
    /// Until when the driver has to answer.
    watch: Stopwatch,
    limit: Duration,
}

impl ClientDriver {
    /// Starts the program.
    pub(super) fn start(command: &CommandLine) -> Result<Self> {
        // All cases run with a proxy in the environment, which a client ignores.
        Self::start_behind(command, NO_PROXY_THERE)
    }

    /// Starts the program in an environment that names a proxy.
    pub(super) fn start_behind(command: &CommandLine, proxy: &str) -> Result<Self> {
        let names = ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
        let command = names.into_iter().fold(command.clone(), |line, name| line.environment(name, proxy));
        let command = command.environment("NO_PROXY", "").environment("no_proxy", "");
        let mut child = command.spawn_dialog()?;
        let input = child.stdin.take();
        let output = child.stdout.take().context("the client program has no output")?;
        let (send, lines) = mpsc::channel();
        thread::spawn(move || {
            let mut output = BufReader::new(output);
            loop {
                let mut line = Vec::new();
                let read = (&mut output).take(MAX_LINE).read_until(b'\n', &mut line);
                let line = match read {
                    Ok(0) => return,
                    Ok(_) if line.ends_with(b"\n") => String::from_utf8(line)
                        .map_err(|_| "the client program wrote a line that is not UTF-8".to_owned()),
                    Ok(_) => Err(format!(
                        "the client program wrote a line without an end, or above {MAX_LINE} bytes"
                    )),
                    Err(error) => Err(format!("the client program's output cannot be read: {error}")),
                };
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Self { child, input, lines, watch: Stopwatch::start(), limit: START_LIMIT })
    }

    /// Gives the driver this long for all answers from now on.
    pub(super) fn limit(&mut self, limit: Duration) {
        (self.watch, self.limit) = (Stopwatch::start(), limit);
    }

    /// Sends an object and waits for the answer, which is an object too.
    pub(super) fn ask(&mut self, line: &Value) -> CaseOutcome<Value> {
        let input = self.input.as_mut().ok_or_else(|| Difference::wrong("the client program has ended"))?;
        let sent = input.write_all(format!("{line}\n").as_bytes()).and_then(|()| input.flush());
        sent.map_err(|error| Difference::wrong(format!("the client program reads nothing: {error}")))?;
        let left = self.limit.saturating_sub(self.watch.elapsed());
        let answer = match self.lines.recv_timeout(left) {
            Ok(line) => line.map_err(Difference::wrong)?,
            Err(RecvTimeoutError::Timeout) => {
                self.input = None;
                let limit = self.limit.as_secs();
                return Err(Difference::wrong(format!(
                    "no answer from the client program within {limit} s: {line}"
                )));
            }
            Err(RecvTimeoutError::Disconnected) => {
                self.input = None;
                return Err(Difference::wrong(format!("the client program ended without an answer: {line}")));
            }
        };
        let value = serde_json::from_str(&answer).ok().filter(Value::is_object);
        value.ok_or_else(|| {
            Difference::wrong(format!("the client program wrote no object: {}", answer.trim_end()))
        })
    }

    /// Whether it can be asked again.
    pub(super) fn is_usable(&self) -> bool {
        self.input.is_some()
    }
}

impl Drop for ClientDriver {
    fn drop(&mut self) {
        let was_usable = self.input.take().is_some();
        let watch = Stopwatch::start();
        while was_usable && watch.elapsed() < END_LIMIT {
            if matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
        // It hangs, or did not answer. A program that has ended and was not waited for keeps its number.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }
}
