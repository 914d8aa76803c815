//! What the script of a shared store costs beyond the one that users write by hand, and for what; what a bucket, a
//! sliding window and a log cost, and the published scripts of peers that count in the same way.
//!
//! The server itself measures how long each script runs (`usec_per_call` of `INFO commandstats`), so neither the
//! network nor the client is in the figures. Each call charges one of 2,000 counters that exist.

use anyhow::{Context, Result};
use clap::Parser;
use redis::{Pipeline, cmd, pipe};
use tollgate::Quota;
use tollgate_bench_harness::affinity::pin_this_thread;
use tollgate_bench_harness::samples::{Samples, figure};
use tollgate_testkit::servers::{Server, ServerConnection, Software, cluster_of_one};

/// Measures parts of the script on a server of its own.
#[derive(Debug, Parser)]
struct Args {
    /// The store is valkey-server instead of redis-server
    #[arg(long)]
    valkey: bool,
    /// The store is a node of a Cluster, which checks the slot of each key that a script names
    #[arg(long)]
    slots: bool,
    /// Rounds; the figure is their median
    #[arg(long, default_value_t = 7)]
    rounds: u32,
    /// One round: shows that the bench runs, not how fast anything is
    #[arg(long)]
    quick: bool,
}

const OURS: &str = include!("../../../crates/tollgate-redis/src/script/text.in");

/// What users write by hand.
const PLAIN: &str = "
    local used = tonumber(redis.call('GET', KEYS[1]) or '0')
    if used + 1 > tonumber(ARGV[1]) then return { 0, used } end
    used = redis.call('INCRBY', KEYS[1], 1)
    if used == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
    return { 1, used }";

const TIME_AND_EXPIRY: &str = "
    local time = redis.call('TIME')
    local now, ends = time[1] * 1000 + math.floor(time[2] / 1000), redis.call('PEXPIRETIME', KEYS[1])";

/// The same, without asking for the time.
const EXPIRY_AND_LIFE: &str = "
    local ends = redis.call('PEXPIRETIME', KEYS[1])
    local now = ends - redis.call('PTTL', KEYS[1])";

const UNPACK: &str = "
    local op, times, counters, requests, units, one, other, windows, a, b =
      struct.unpack('<sdddsddsdd', ARGV[3])";

const REDIS_RATE: &str = include_str!("../peers/redis_rate.lua");
const UPSTASH: &str = include_str!("../peers/upstash_sliding.lua");

/// A script, what its counters hold, and its arguments.
struct Subject {
    name: &'static str,
    script: String,
    counter: Counter,
}

/// What a counter holds before the first call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counter {
    /// A plain count.
    Count,
    Window,
    Burst,
    Sliding,
    /// A log with five entries.
    Log,
    RedisRate,
    /// Two counts, of this hour and of the one before.
    Upstash,
}

/// A limit that no counter reaches: the most that a sliding window counts up to.
const LIMIT: u32 = 1_000_000;

/// A limit of a log that has at most 256 entries.
const LOG_LIMIT: u32 = 200;

/// From this instant on, redis_rate counts seconds.
const YEAR_2017: f64 = 1_483_228_800.0;

const HOUR_MS: i64 = 3_600_000;
const COUNTERS: usize = 2_000;
const CALLS: usize = 20_000;
/// Calls that are sent together.
const AT_ONCE: usize = 200;

fn main() -> Result<()> {
    let args = Args::parse();
    let software = if args.valkey { Software::Valkey } else { Software::Redis };
    // The server's threads inherit it.
    pin_this_thread(0)?;
    let server = if args.slots { cluster_of_one(software) } else { Server::start(software) };
    pin_this_thread(1)?;
    // The keys of Upstash's script are in different slots.
    let subjects: Vec<Subject> =
        subjects().into_iter().filter(|subject| !args.slots || subject.counter != Counter::Upstash).collect();
    let mut measured: Vec<Samples> = subjects.iter().map(|_| Samples::default()).collect();
    let rounds = if args.quick { 1 } else { args.rounds };
    // The first round warms up.
    for round in 0..=rounds {
        for (subject, samples) in subjects.iter().zip(&mut measured) {
            let micros = subject.micros_a_call(&mut server.connection())?;
            if round > 0 {
                samples.push(micros);
            }
        }
    }
    let median = |name| {
        let samples = subjects.iter().zip(&measured).find(|(subject, _)| subject.name == name);
        samples.map_or(0.0, |(_, samples)| samples.median())
    };
    let (plain, ours) = (median("plain"), median("ours"));
    for (Subject { name, .. }, samples) in subjects.iter().zip(&measured) {
        let micros = samples.median();
        let (ratio, to_ours) = (figure(micros / plain), figure(micros / ours));
        println!("RESULT script/{name} us={} ratio={ratio} to_ours={to_ours}", figure(micros));
    }
    Ok(())
}

fn subjects() -> Vec<Subject> {
    let packed_reply = PLAIN.replace("return { 1, used }", "return cmsgpack.pack({ 1, used })");
    let subject = |name, script: String, counter| Subject { name, script, counter };
    let ours = |name, counter| subject(name, OURS.to_owned(), counter);
    vec![
        subject("empty", "return 1".to_owned(), Counter::Count),
        subject("plain", PLAIN.to_owned(), Counter::Count),
        subject("plain-time-and-expiry", TIME_AND_EXPIRY.to_owned() + PLAIN, Counter::Count),
        subject("plain-expiry-and-life", EXPIRY_AND_LIFE.to_owned() + PLAIN, Counter::Count),
        subject("plain-packed-argument", UNPACK.to_owned() + PLAIN, Counter::Count),
        subject("plain-packed-reply", packed_reply, Counter::Count),
        ours("ours", Counter::Window),
        ours("ours-burst", Counter::Burst),
        subject("redis-rate", REDIS_RATE.to_owned(), Counter::RedisRate),
        ours("ours-sliding", Counter::Sliding),
        subject("upstash-sliding", UPSTASH.to_owned(), Counter::Upstash),
        ours("ours-log", Counter::Log),
    ]
}

impl Subject {
    /// Microseconds that the server needs for one call of the script.
    fn micros_a_call(&self, connection: &mut ServerConnection) -> Result<f64> {
        let digest: String = cmd("SCRIPT").arg("LOAD").arg(&self.script).query(connection)?;
        let (seconds, micros): (i64, i64) = cmd("TIME").query(connection)?;
        let now = seconds * 1_000 + micros / 1_000;
        let names: Vec<String> = (0..COUNTERS).map(|number| format!("counter:{number:016}")).collect();
        let mut fill = pipe();
        fill.cmd("FLUSHALL").ignore();
        names.iter().for_each(|name| self.counter.fill(&mut fill, name, now));
        fill.cmd("CONFIG").arg("RESETSTAT").ignore();
        fill.query::<()>(connection)?;
        let ours = self.counter.argument(now)?;
        for some in 0..CALLS / AT_ONCE {
            let mut calls = pipe();
            for name in names.iter().cycle().skip(some * AT_ONCE % COUNTERS).take(AT_ONCE) {
                let call = calls.cmd("EVALSHA").arg(&digest);
                match self.counter {
                    Counter::Count => call.arg(1).arg(name).arg(LIMIT).arg(HOUR_MS).arg(&ours),
                    Counter::RedisRate => {
                        call.arg(1).arg(name).arg(LIMIT).arg(LIMIT).arg(HOUR_MS / 1_000).arg(1)
                    }
                    Counter::Upstash => {
                        let before = format!("{name}:before");
                        call.arg(3).arg(name).arg(before).arg("").arg(LIMIT).arg(now).arg(HOUR_MS).arg(1)
                    }
                    _ => call.arg(1).arg(name).arg(&ours),
                };
                calls.ignore();
            }
            calls.query::<()>(connection)?;
        }
        let stats: String = cmd("INFO").arg("commandstats").query(connection)?;
        let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:"));
        let micros = line
            .into_iter()
            .flat_map(|line| line.split(','))
            .find_map(|it| it.strip_prefix("usec_per_call="));
        micros
            .context("the server does not say how long scripts ran")?
            .parse()
            .context("usec_per_call is no number")
    }
}

impl Counter {
    /// Sets a counter of which five units are used, until a second after its end.
    fn fill(self, fill: &mut Pipeline, name: &str, now: i64) {
        let nth = now / HOUR_MS;
        let (start, end) = (nth * HOUR_MS, (nth + 1) * HOUR_MS);
        let mut set = |name: &str, value: &str, end: i64| {
            fill.cmd("SET").arg(name).arg(value).arg("PXAT").arg(end + 1_000).ignore();
        };
        match self {
            Self::Count => set(name, "5", end),
            // With the number of the window above the count.
            Self::Window => set(name, &((nth % 899 + 1) * 10_i64.pow(13) + 5).to_string(), end),
            // Five units take 18 ms, which would be over before the first call.
            Self::Burst => set(name, &format!("{}.4000000", now + HOUR_MS / 2), now + HOUR_MS / 2),
            Self::Sliding => set(name, &format!("{start} 5 5"), end + HOUR_MS),
            Self::Log => {
                let steps = format!("{} 1 1000 1 1000 1 1000 1 1000 1", now - 5_000);
                set(name, &steps, now - 1_000 + HOUR_MS);
            }
            Self::RedisRate => {
                let seconds = (now + HOUR_MS / 2) as f64 / 1e3 - YEAR_2017;
                set(name, &format!("{seconds:.4}"), now + HOUR_MS / 2);
            }
            Self::Upstash => {
                set(name, "5", end + HOUR_MS);
                set(&format!("{name}:before"), "5", end);
            }
        }
    }

    /// Returns our argument for a charge of one unit.
    fn argument(self, now: i64) -> Result<Vec<u8>> {
        let start = now / HOUR_MS * HOUR_MS;
        let quota = Quota::per_hour(LIMIT).with_burst(None)?;
        let bucket = quota.bucket().context("there is no bucket")?;
        let (unit, parts) = (bucket.unit().cast_signed(), bucket.parts().cast_signed());
        let (limit, windows, a, b) = match self {
            Self::Burst => (LIMIT, "burst", unit, parts),
            Self::Sliding => (LIMIT, "sliding", 0, HOUR_MS),
            Self::Log => (LOG_LIMIT, "log", 1, HOUR_MS),
            _ => (LIMIT, "open", start, HOUR_MS),
        };
        let mut argument = b"charge\0".to_vec();
        let numbers = |into: &mut Vec<u8>, numbers: &[i64]| {
            numbers.iter().for_each(|number| into.extend_from_slice(&(*number as f64).to_le_bytes()));
        };
        numbers(&mut argument, &[1, 1, 1]);
        argument.extend_from_slice(b"1\0");
        numbers(&mut argument, &[limit.into(), 0]);
        argument.extend_from_slice(windows.as_bytes());
        argument.push(0);
        numbers(&mut argument, &[a, b]);
        if self == Self::Burst {
            numbers(&mut argument, &[bucket.highest_level(), bucket.kept_level()].map(u64::cast_signed));
        }
        Ok(argument)
    }
}
