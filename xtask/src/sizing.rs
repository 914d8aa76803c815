//! `cargo xtask sizing`: the arithmetic of `docs/sizing.md`, for figures of your own.

use std::fmt;

use anyhow::Result;
use clap::{Args, ValueEnum};

/// What is to be served. Constants that are not given are those of `docs/sizing.md`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Load {
    /// Decisions a second at the peak; a request with two quotas has two
    #[arg(long, value_name = "PER_SECOND", value_parser = amount)]
    decisions: f64,
    /// Counters that live at once: the keys of one window, for each quota
    #[arg(long, value_name = "NUMBER", value_parser = amount)]
    counters: f64,
    /// What counts
    #[arg(long, value_enum, default_value = "cluster")]
    servers: StoreServers,
    /// The share of decisions that are denials which the processes know already, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share)]
    known_denials: f64,
    /// The share of the other decisions that are for hot keys, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share)]
    hot: f64,
    /// Regions with equal loads, each with servers and a share of every limit of its own
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    regions: u32,
    /// How busy a core may be at the peak, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value = "0.6", value_parser = busy)]
    load: f64,
    /// Microseconds of the store's core for a decision; 4.4 on a Cluster, 1.8 on one server
    #[arg(long, value_name = "MICROSECONDS", value_parser = amount)]
    store: Option<f64>,
    /// Microseconds of the core that asks the store
    #[arg(long, value_name = "MICROSECONDS", default_value = "1.8", value_parser = amount)]
    ask: f64,
    /// Microseconds of the store's core for a decision on a hot key
    #[arg(long, value_name = "MICROSECONDS", default_value = "0.5", value_parser = amount)]
    hot_store: f64,
    /// Microseconds of the service's core for a decision over HTTP, with what asking the store takes
    #[arg(long, value_name = "MICROSECONDS", default_value = "10.1", value_parser = amount)]
    service: f64,
    /// Bytes of the store's memory for a counter
    #[arg(long, value_name = "BYTES", default_value = "165", value_parser = amount)]
    bytes: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StoreServers {
    /// One server, or a primary that Sentinels replace
    One,
    Cluster,
}

/// What a load takes, in each region.
#[derive(Debug, PartialEq)]
struct Size {
    servers: StoreServers,
    store_cores: f64,
    /// Each of them runs scripts on one core.
    primaries: f64,
    caller_cores: f64,
    service_cores: f64,
    bytes: f64,
}

impl Load {
    pub(crate) fn print(&self) -> Result<()> {
        if self.regions > 1 {
            println!("in each of {} regions:", self.regions);
        }
        print!("{}", self.size());
        Ok(())
    }

    fn size(&self) -> Size {
        let store = self.store.unwrap_or(match self.servers {
            StoreServers::One => 1.8,
            StoreServers::Cluster => 4.4,
        });
        let regions = f64::from(self.regions);
        let (decisions, counters) = (self.decisions / regions, self.counters / regions);
        let cores = |per_second: f64, micros: f64| per_second * micros / 1e6 / self.load;
        let asked = decisions * (1.0 - self.known_denials);
        let store_cores = cores(asked, (1.0 - self.hot) * store + self.hot * self.hot_store);
        Size {
            servers: self.servers,
            store_cores,
            primaries: store_cores.ceil().max(1.0),
            caller_cores: cores(asked, self.ask),
            service_cores: cores(decisions, self.service),
            bytes: counters * self.bytes,
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { servers, store_cores, primaries, caller_cores, service_cores, bytes } = self;
        let megabytes = bytes / 1e6;
        match servers {
            StoreServers::Cluster => {
                writeln!(f, "store    {store_cores:.1} cores: {primaries} primaries, and as many replicas")?;
                writeln!(
                    f,
                    "memory   {megabytes:.0} MB, or {:.0} MB on each primary",
                    megabytes / primaries
                )?;
            }
            StoreServers::One => {
                let fits = if *store_cores > 1.0 { ": more than one server has, take a Cluster" } else { "" };
                writeln!(f, "store    {store_cores:.1} cores{fits}")?;
                writeln!(f, "memory   {megabytes:.0} MB")?;
            }
        }
        writeln!(f, "callers  {caller_cores:.1} cores, if they limit in their own process")?;
        writeln!(f, "service  {service_cores:.1} cores, if they ask the service over HTTP")
    }
}

fn amount(text: &str) -> Result<f64, String> {
    within(text, 0.0..=1e15)
}

fn share(text: &str) -> Result<f64, String> {
    within(text, 0.0..=1.0)
}

fn busy(text: &str) -> Result<f64, String> {
    within(text, 0.01..=1.0)
}

fn within(text: &str, range: std::ops::RangeInclusive<f64>) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| format!("not a number from {} to {}", range.start(), range.end()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        load: Load,
    }

    fn page() -> String {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        fs::read_to_string(root.join("docs/sizing.md")).unwrap()
    }

    fn size(arguments: &str) -> Size {
        Command::try_parse_from(arguments.split_whitespace()).unwrap().load.size()
    }

    /// The page shows each command with what it prints.
    #[test]
    fn the_page_says_what_the_program_prints() {
        let page = page();
        let mut commands = 0;
        for block in page.split("```console\n").skip(1) {
            let (block, _) = block.split_once("```").unwrap();
            let (command, printed) = block.split_once('\n').unwrap();
            let arguments = command.strip_prefix("$ cargo xtask ").unwrap();
            let printed = printed.split_once("regions:\n").map_or(printed, |(_, size)| size);
            assert_eq!(size(arguments).to_string(), printed, "{command}");
            commands += 1;
        }
        assert_eq!(commands, 2);
    }

    #[test]
    fn the_tables_of_the_page_have_the_same_figures() {
        let page = page();
        let in_row = |name: &str, figure: String| {
            let row = page.lines().find(|line| line.starts_with(&format!("| {name} |"))).unwrap();
            assert!(row.contains(&figure), "{row} has no {figure}");
        };
        let study = size("sizing --decisions 400000 --counters 1000000");
        in_row("store, on a Cluster", format!("{:.1}", study.store_cores));
        in_row("callers that limit in their own process", format!("{:.1}", study.caller_cores));
        in_row("or the service over HTTP", format!("{:.1}", study.service_cores));
        in_row("memory", format!("{:.0} MB", study.bytes / 1e6));
        // The constants, from a load that takes as many cores as a decision takes microseconds.
        let one =
            |arguments: &str| size(&format!("sizing --decisions 1000000 --counters 1 --load 1 {arguments}"));
        in_row("`store`", format!("{:.1} us", one("--servers one").store_cores));
        in_row("`store-slot`", format!("{:.1} us", one("").store_cores));
        in_row("`ask`", format!("{:.1} us", one("").caller_cores));
        in_row("`service`", format!("{:.1} us", one("").service_cores));
        in_row("`hot`", format!("{:.1} us", one("--hot 1").store_cores));
        in_row("`bytes`", format!("{:.0}", one("").bytes));
    }

    #[test]
    fn known_denials_do_not_reach_the_store() {
        let all = size("sizing --decisions 400000 --counters 1");
        let half = size("sizing --decisions 400000 --counters 1 --known-denials 0.5");
        assert_eq!(half.store_cores * 2.0, all.store_cores);
        assert_eq!(half.service_cores, all.service_cores);
    }

    #[test]
    fn figures_that_make_no_sense_are_refused() {
        for arguments in ["--decisions -1", "--decisions nan", "--load 0", "--hot 1.5", "--regions 0"] {
            let words = format!("sizing --decisions 1 --counters 1 {arguments}");
            assert!(Command::try_parse_from(words.split_whitespace()).is_err(), "{arguments}");
        }
    }
}
