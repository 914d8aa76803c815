//! The `application.yaml` of the [RLaaS Users Service](https://github.com/amitsaxena098/rlaas-users-service).
//!
//! Its sliding window is a log, which both keep in one sorted set for each user. A log in steps, which larger limits
//! need, has keys of its own.
//!
//! Windows are checked here, because RLaaS does not check them: with a window of 0 seconds it has no limit at all, and
//! with half a second its counters never expire.

use std::path::Path;
use std::time::Duration;

use tollgate::{CountDenied, OnStoreFailure, Quota, QuotaError, QuotaErrorKind, QuotaKind};
use tollgate_policy::{
    ConfigError, Identity, Policies, Policy, PolicyProblem, Position, Problem, ProblemKind, Sources,
};
use tollgate_redis::{KeyLayout, SmallFile};

use super::spring::SpringFile;
use super::{ImportError, ImportedPolicies, other_spring_variables, variable};
use crate::args::{AnswerSystem, Secret};

const ALGORITHM: &str = "rate-limiter.use-algo";
const WINDOW: &str = "rate-limiter.window-size";
const LIMIT: &str = "rate-limiter.max-requests";
const FIXED: &str = "fixed-window-algo";
const SLIDING: &str = "sliding-window-algo";
const STORE: &str = "spring.data.redis.url";
const KNOWN: [&str; 4] = [ALGORITHM, WINDOW, LIMIT, STORE];
const STORE_VARIABLE: &str = "REDIS_URL";
const SPRING_STORE_VARIABLE: &str = "SPRING_DATA_REDIS_URL";

/// The variables that override settings in Spring: without hyphens, or as earlier versions wrote them.
const VARIABLES: [(&str, [&str; 2]); 3] = [
    (ALGORITHM, ["RATELIMITER_USEALGO", "RATE_LIMITER_USE_ALGO"]),
    (WINDOW, ["RATELIMITER_WINDOWSIZE", "RATE_LIMITER_WINDOW_SIZE"]),
    (LIMIT, ["RATELIMITER_MAXREQUESTS", "RATE_LIMITER_MAX_REQUESTS"]),
];

/// Most settings that a log line lists.
const SHOWN: usize = 20;

pub(super) fn read(path: &Path, failure: Option<OnStoreFailure>) -> Result<ImportedPolicies, ImportError> {
    let name: Box<str> = path.display().to_string().into();
    if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("properties")) {
        return Err(ImportError::Properties(name));
    }
    let file = SmallFile::read(path, Sources::MAX_BYTES as usize);
    let file = file.map_err(|source| ConfigError::Unreadable { file: name.clone(), source });
    let text = file.and_then(|file| Sources::text_of(&name, &*file.bytes)).map_err(ImportError::File)?;
    let invalid = |problems: Box<[Problem]>| ImportError::File(ConfigError::invalid(&name, problems));
    let mut file = SpringFile::parse(&text).map_err(|problem| invalid([problem].into()))?;
    set_by_variables(&mut file)?;

    let (quota, store) = match (quota(&file), store(&file)) {
        (Ok(quota), Ok(store)) => (quota, store),
        (quota, store) => {
            let problems = quota.err().into_iter().flatten().chain(store.err());
            return Err(invalid(problems.collect()));
        }
    };
    let (is_log, written) = (quota.kind() == QuotaKind::Log, quota.to_string());
    let is_shared = KeyLayout::RLAAS.validate(&quota).is_ok();
    // RLaaS fails every request while its store is down.
    let failure = failure.unwrap_or(OnStoreFailure::Closed);
    let policy = Policy::builder("rlaas")
        .key(Identity::Attribute("userId".into()))
        .quota(quota)
        .count_denied(if is_log { CountDenied::No } else { CountDenied::Yes })
        .on_store_failure(failure)
        .build()?;
    let mut notes = vec![format!("while the store is down, on_store_failure is `{failure}`")];
    if is_log {
        let sets = if is_shared { "is counted in" } else { "does not read" };
        notes.push(format!("`{SLIDING}` is the log `{written}`, which {sets} RLaaS's sorted sets"));
    }
    let ignored = file.others(&KNOWN);
    if !ignored.is_empty() {
        let (shown, more) = ignored.split_at(ignored.len().min(SHOWN));
        let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
        notes.push(format!("settings of {name} that have no effect here: {}{more}", shown.join(", ")));
    }
    let known: Vec<&str> = VARIABLES.iter().flat_map(|(_, names)| *names).collect();
    let ignored = other_spring_variables(&known);
    if !ignored.is_empty() {
        notes.push(format!("variables that have no effect here: {}", ignored.join(", ")));
    }
    Ok(ImportedPolicies {
        policies: Policies::of([policy])?,
        source: name,
        store,
        layout: is_shared.then_some(KeyLayout::RLAAS),
        dialect: Some(AnswerSystem::Rlaas),
        notes,
    })
}

/// Overrides settings of the file by variables, as Spring does.
fn set_by_variables(file: &mut SpringFile) -> Result<(), ImportError> {
    for (setting, names) in VARIABLES {
        let Some((variable, text)) = names.into_iter().find_map(|name| Some((name, variable(name)?))) else {
            continue;
        };
        let number = text.parse::<u64>().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
        let (is_valid, expected) = match setting {
            ALGORITHM => ([FIXED, SLIDING].contains(&&*text), "`fixed-window-algo` or `sliding-window-algo`"),
            WINDOW => (
                number.is_some_and(|window| Quota::new(0, Duration::from_secs(window)).is_ok()),
                "a whole number of seconds, at least 1 and at most ten years",
            ),
            _ => (
                number.is_some_and(|limit| Quota::new(limit, Duration::from_secs(1)).is_ok()),
                "a whole number from 0 to 1099511627775",
            ),
        };
        if !is_valid {
            return Err(ImportError::Variable { variable, expected, found: Some(text.into()) });
        }
        file.set(setting, text);
    }
    Ok(())
}

fn quota(file: &SpringFile) -> Result<Quota, Vec<Problem>> {
    let (algorithm, window, limit) = (algorithm(file), number(file, WINDOW, 1), number(file, LIMIT, 0));
    let mut problems = Vec::new();
    let (is_log, window, limit) = match (algorithm, window, limit) {
        (Ok(algorithm), Ok(window), Ok(limit)) => (algorithm == SLIDING, window, limit),
        (algorithm, window, limit) => {
            problems.extend(algorithm.err());
            problems.extend(window.err());
            problems.extend(limit.err());
            problems.sort_by_key(Problem::at);
            return Err(problems);
        }
    };
    let quota = Quota::new(limit.0, Duration::from_secs(window.0));
    quota.and_then(|quota| if is_log { log(&quota) } else { Ok(quota) }).map_err(|error| {
        // The position of the number that makes the quota invalid.
        let at = if Quota::new(0, Duration::from_secs(window.0)).is_err() { window.1 } else { limit.1 };
        vec![Problem::new(at, PolicyProblem::Quota(error).into())]
    })
}

/// Returns the exact log, or the log with the shortest round step that fits.
fn log(quota: &Quota) -> Result<Quota, QuotaError> {
    let with_step = |millis| quota.clone().with_log(Duration::from_millis(millis));
    with_step(1).or_else(|error| match error.kind() {
        QuotaErrorKind::LogEntries { fitting_step } => with_step(fitting_step),
        _ => Err(error),
    })
}

/// Returns the name of the algorithm, one of the two.
fn algorithm(file: &SpringFile) -> Result<&'static str, Problem> {
    let setting = file.setting(ALGORITHM).ok_or_else(|| missing(file, ALGORITHM))?;
    let message = match setting.resolve(&variable)?.as_str() {
        FIXED => return Ok(FIXED),
        SLIDING => return Ok(SLIDING),
        _ => format!("unknown algorithm `{}`: expected `{FIXED}` or `{SLIDING}`", setting.text),
    };
    Err(Problem::new(setting.at, ProblemKind::Other(message.into())))
}

/// Returns a whole number and its position.
fn number(file: &SpringFile, name: &'static str, from: u64) -> Result<(u64, Position), Problem> {
    let setting = file.setting(name).ok_or_else(|| missing(file, name))?;
    let text = setting.resolve(&variable)?;
    let is_whole = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|number| is_whole && *number >= from);
    number.map(|number| (number, setting.at)).ok_or_else(|| {
        let expected = format!("a whole number from {from} for `{name}`").into();
        let found = format!("`{}`", setting.text).into();
        Problem::new(setting.at, ProblemKind::Expected { expected, found })
    })
}

fn missing(file: &SpringFile, key: &'static str) -> Problem {
    let at = file.section("rate-limiter").unwrap_or(Position::new(1, 1));
    Problem::new(at, ProblemKind::MissingKey { section: "RLaaS", key })
}

/// Returns the URL of the store, with the name of its setting.
fn store(file: &SpringFile) -> Result<Option<(&'static str, Secret)>, Problem> {
    if let Some(url) = variable(SPRING_STORE_VARIABLE) {
        return Ok(Some((SPRING_STORE_VARIABLE, url.into())));
    }
    match file.setting(STORE) {
        Some(setting) => match setting.resolve(&variable) {
            Ok(url) => Ok(Some((STORE, url.into()))),
            // `--store` may name the store instead.
            Err(problem) if matches!(problem.kind(), ProblemKind::UnsetVariable(_)) => Ok(None),
            Err(problem) => Err(problem),
        },
        None => Ok(variable(STORE_VARIABLE).map(|url| (STORE_VARIABLE, url.into()))),
    }
}
