//! The process in which one limiter is measured.

use std::ops::Range;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tollgate_bench::contestants::Contestant;
use tollgate_bench_harness::affinity::pin_this_thread;
use tollgate_bench_harness::keys::{BYTES, Chunk, write_key};
use tollgate_bench_harness::resident::{peak_resident_bytes, resident_bytes};
use tollgate_bench_harness::stopwatch::{Stopwatch, time_on_core};

use crate::figures::{Figures, Pauses};
use crate::subjects::{Empty, Subject};

const LONG: Duration = Duration::from_millis(1);

/// Charges between two readings of the time on the core, which is a system call. There are few, so that a long charge
/// rarely gets a discount for an earlier pause.
const RESTART: u32 = 64;

/// Starts a child and reads its line.
pub(crate) fn run(limiter: &str, keys: u32) -> Result<Figures> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--child", limiter, "--keys", &keys.to_string()]).stderr(Stdio::inherit());
    let output = command.output().with_context(|| format!("{command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}", output.status);
    let line = String::from_utf8(output.stdout)?;
    line.parse().with_context(|| format!("{command:?} said `{line}`"))
}

/// Measures in this process.
pub(crate) fn measure(subject: &Subject, keys: u32) -> Result<Figures> {
    pin_this_thread(0)?;
    // A first charge to another limiter loads code and initializes the allocator.
    charge_each(&*subject.build(1).limiter, 0..1)?;
    let before = resident_bytes()?;

    let Empty { limiter, close_windows } = subject.build(keys);
    let grow = stage(&*limiter, 0..keys)?;
    let after = resident_bytes()?;
    let later_stage = |keys| {
        let close_windows = close_windows.as_deref()?;
        close_windows();
        Some(stage(&*limiter, keys))
    };
    let same_keys = later_stage(0..keys).transpose()?;
    let other_keys = later_stage(keys..2 * keys).transpose()?;

    let a_key = |bytes: u64| bytes.saturating_sub(before) as f64 / f64::from(keys);
    let (bytes_per_key, peak_bytes_per_key) = (a_key(after), a_key(peak_resident_bytes()?));
    Ok(Figures { bytes_per_key, peak_bytes_per_key, grow, same_keys, other_keys })
}

/// Charges every key, then runs the clock-reading loop for the same time.
fn stage(limiter: &dyn Contestant, keys: Range<u32>) -> Result<Pauses> {
    let watch = Stopwatch::start();
    let pauses = charge_each(limiter, keys)?;
    Ok(Pauses { idle_longest_ms: millis(longest_gap(watch.elapsed())), ..pauses })
}

fn charge_each(limiter: &dyn Contestant, keys: Range<u32>) -> Result<Pauses> {
    let (mut longest, mut longest_on_core, mut sum) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    let mut long = 0_u32;
    let count = f64::from(keys.end - keys.start);
    let mut text = String::with_capacity(BYTES);
    let mut core = Core::start();
    for key in keys {
        write_key(&mut text, key);
        if key.is_multiple_of(RESTART) {
            core = Core::start();
        }
        let (texts, strings) = ([text.as_str()], std::slice::from_ref(&text));
        let watch = Stopwatch::start();
        let admitted = limiter.decide(Chunk { texts: &texts, strings });
        let took = watch.elapsed();
        ensure!(admitted == 1, "key {key} was not admitted");
        longest = longest.max(took);
        long += u32::from(took > LONG);
        sum += took;
        if took > longest_on_core {
            longest_on_core = longest_on_core.max(took.saturating_sub(core.time_away()));
        }
    }
    Ok(Pauses {
        longest_ms: millis(longest),
        longest_on_core_ms: millis(longest_on_core),
        over_1_ms: long.into(),
        nanos_each: sum.as_secs_f64() * 1e9 / count,
        idle_longest_ms: 0.0,
    })
}

/// Tells how long this thread was off its core.
struct Core {
    watch: Stopwatch,
    before: Duration,
}

impl Core {
    fn start() -> Self {
        Self { watch: Stopwatch::start(), before: time_on_core() }
    }

    fn time_away(&self) -> Duration {
        let on_core = time_on_core().saturating_sub(self.before);
        self.watch.elapsed().saturating_sub(on_core)
    }
}

/// Returns the longest time between two readings of the clock in an otherwise empty loop.
fn longest_gap(length: Duration) -> Duration {
    let watch = Stopwatch::start();
    let (mut last, mut longest) = (Duration::ZERO, Duration::ZERO);
    while last < length {
        let now = watch.elapsed();
        longest = longest.max(now - last);
        last = now;
    }
    longest
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
