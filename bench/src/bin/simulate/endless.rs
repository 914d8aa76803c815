//! Logs that are made while they are read, through a pipe.

use std::io::Write;
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context, Result};
use tollgate_bench_harness::samples::figure;
use tollgate_bench_harness::stopwatch::Stopwatch;

use crate::log::{Form, Lines, Traffic};
use crate::process::{Ended, watched};

/// How many parts of equal length the lines of `flat` have, of which one is a million if there are 100 million.
const PARTS: u64 = 100;

/// How much is written at once.
const PIECE: usize = 64 << 10;

/// Runs a command that reads so many lines from its standard input. Calls back after each line with its number, and
/// with the time. What the command holds back to put it in order is of a minute, so the reading lags by as much all
/// the time.
pub(crate) fn run(
    mut command: Command,
    count: u64,
    traffic: Traffic,
    mut written: impl FnMut(u64, Stopwatch) + Send,
) -> Result<Ended> {
    let watch = Stopwatch::start();
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut child = child.with_context(|| format!("{command:?}"))?;
    let mut input = child.stdin.take().context("its input is piped")?;
    thread::scope(|scope| {
        let writer = scope.spawn(move || -> Result<()> {
            let (mut lines, mut text) = (Lines::new(Form::Combined, traffic), Vec::with_capacity(2 * PIECE));
            for number in 1..=count {
                lines.push(&mut text);
                if text.len() >= PIECE || number == count {
                    input.write_all(&text).context("nobody reads the log any more")?;
                    text.clear();
                }
                written(number, watch);
            }
            Ok(())
        });
        let ended = watched(child, watch, &command);
        writer.join().ok().context("the writer panicked")??;
        ended
    })
}

/// Whether the last lines take as long as those at a tenth of the way.
pub(crate) fn flat(tollgate: &impl Fn(&[&str]) -> Command, count: u64, traffic: Traffic) -> Result<()> {
    let part = (count / PARTS).max(1);
    let mut ends = Vec::new();
    let ended = run(tollgate(&["-"]), count, traffic, |number, watch| {
        if number.is_multiple_of(part) {
            ends.push(watch.elapsed().as_secs_f64());
        }
    })?;
    let parts: Vec<f64> = ends.windows(2).filter_map(|pair| Some(pair.get(1)? - pair.first()?)).collect();
    // The first part begins before the first end, so the part behind the tenth end is the eleventh.
    let tenth = parts.get(8).copied().context("there are too few lines")?;
    let last = parts.last().copied().context("there are too few lines")?;
    println!(
        "RESULT simulate/flat lines={count} lines_per_s={:.0} tenth_part_s={} last_part_s={} ratio={} resident_mib={:.0}",
        count as f64 / ended.seconds,
        figure(tenth),
        figure(last),
        figure(last / tenth),
        ended.resident_bytes as f64 / f64::from(1 << 20)
    );
    println!("\nseconds of each part of {part} lines, and of the parts before the last:");
    for (place, seconds) in parts.iter().enumerate().filter(|(place, _)| (place + 2) % 10 == 0) {
        println!("{:>4} {}", place + 2, figure(*seconds));
    }
    println!();
    Ok(())
}
