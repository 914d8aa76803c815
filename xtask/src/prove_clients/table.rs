//! The results as a table for people.

use std::fmt;

use super::FrameworkReport;
use super::latency::{BAR, PathFigures};

pub(super) struct ClientsTable<'a>(pub(super) &'a [FrameworkReport]);

impl fmt::Display for ClientsTable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.iter().any(|report| report.exact.is_some()) {
            writeln!(f, "50 parallel requests against a limit of 20, two processes")?;
            for report in self.0 {
                let bursts = [
                    ("Tollgate", &report.exact),
                    (report.adapter.unwrap_or_default(), &report.adapter_exact),
                ];
                for (limiter, bursts) in
                    bursts.into_iter().filter_map(|(limiter, it)| Some((limiter, it.as_ref()?)))
                {
                    let (name, rounds, exact) = (report.framework, bursts.rounds, bursts.exact);
                    writeln!(f, "  {name:<14} {limiter:<18} {exact} of {rounds} bursts admitted exactly 20")?;
                }
            }
        }
        if self.0.iter().any(|report| !report.faults.is_empty()) {
            writeln!(f, "Faults of the service under load, two processes")?;
            writeln!(
                f,
                "  {:<14} {:<8} {:>9} {:>10} {:>9} {:>11}",
                "", "", "answers", "uncounted", "failures", "slowest"
            )?;
            for (report, fault) in self.0.iter().flat_map(|it| it.faults.iter().map(move |fault| (it, fault)))
            {
                writeln!(
                    f,
                    "  {:<14} {:<8} {:>9} {:>10} {:>9} {:>8} ms",
                    report.framework,
                    fault.fault.to_string(),
                    fault.requests,
                    fault.uncounted,
                    fault.failures,
                    fault.slowest_ms
                )?;
            }
        }
        if self.0.iter().any(|report| report.latency.is_some()) {
            writeln!(
                f,
                "Latency of the app on one connection, and requests a second on 16 (medians of the rounds)"
            )?;
            writeln!(
                f,
                "  {:<14} {:<32} {:>9} {:>9} {:>9} {:>10}",
                "", "", "p50", "added", "p99", "a second"
            )?;
            for (report, latency) in self.0.iter().filter_map(|it| Some((it, it.latency.as_ref()?))) {
                let free = latency.free;
                write_path(f, report.framework, "without a limit", free, free)?;
                write_path(f, "", "a plain request", latency.bare, free)?;
                write_path(f, "", "Tollgate", latency.limited, free)?;
                write_path(f, "", report.usual, latency.usual, free)?;
                if let (Some(name), Some(figures)) = (report.adapter, latency.adapter) {
                    write_path(f, "", &format!("{name}, in Tollgate"), figures, free)?;
                }
                writeln!(f, "  {:<14} adds {:.2} of a plain request (at most {BAR:.2})", "", latency.ratio)?;
            }
        }
        Ok(())
    }
}

fn write_path(
    f: &mut fmt::Formatter<'_>,
    framework: &str,
    path: &str,
    figures: PathFigures,
    free: PathFigures,
) -> fmt::Result {
    let PathFigures { p50_us, p99_us, a_second } = figures;
    let added = p50_us - free.p50_us;
    writeln!(
        f,
        "  {framework:<14} {path:<32} {p50_us:>6.0} us {added:>6.0} us {p99_us:>6.0} us {a_second:>10.0}"
    )
}
