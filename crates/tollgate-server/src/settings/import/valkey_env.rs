//! The environment of [user-rate-limit](https://github.com/arjunraghurama/user-rate-limit), the Valkey server.

use std::time::Duration;

use tollgate::{CountDenied, OnStoreFailure, Quota};
use tollgate_policy::{Identity, Policies, Policy};
use tollgate_redis::{KeyLayout, StoreUrl};

use super::{ImportError, ImportedPolicies};

const LIMIT: &str = "RATE_LIMIT_REQUESTS";
const WINDOW: &str = "RATE_LIMIT_WINDOW_SECONDS";
const HOST: &str = "VALKEY_HOST";
const PORT: &str = "VALKEY_PORT";

type ValkeyVariables<'a> = &'a dyn Fn(&str) -> Option<String>;

pub(super) fn read(
    variables: ValkeyVariables<'_>,
    failure: Option<OnStoreFailure>,
) -> Result<ImportedPolicies, ImportError> {
    // user-rate-limit admits everybody while its store is down.
    let failure = failure.unwrap_or(OnStoreFailure::Open);
    let policy = Policy::builder("user-rate-limit")
        .key(Identity::Attribute("user".into()))
        .quota(quota(variables)?)
        .count_denied(CountDenied::Yes)
        .on_store_failure(failure)
        .build()?;
    Ok(ImportedPolicies {
        policies: Policies::of([policy])?,
        source: "environment".into(),
        store: Some(("VALKEY_HOST, VALKEY_PORT", store(variables)?.into())),
        layout: Some(KeyLayout::USER_RATE_LIMIT),
        dialect: None,
        notes: vec![format!("while the store is down, on_store_failure is `{failure}`")],
    })
}

fn quota(variables: ValkeyVariables<'_>) -> Result<Quota, ImportError> {
    let expected = "a whole number from 0 to 1099511627775";
    let limit = read_as(variables, LIMIT, "5", expected, |text| {
        whole(text).filter(|limit| Quota::new(*limit, Duration::from_secs(1)).is_ok())
    })?;
    let expected = "a whole number of seconds, at least 1 and at most ten years";
    read_as(variables, WINDOW, "60", expected, |text| {
        Quota::new(limit, Duration::from_secs(whole(text)?)).ok()
    })
}

fn store(variables: ValkeyVariables<'_>) -> Result<String, ImportError> {
    let url = |host: &str, port: u16| match host.contains(':') && !host.starts_with('[') {
        true => format!("valkey://[{host}]:{port}"),
        false => format!("valkey://{host}:{port}"),
    };
    let port = read_as(variables, PORT, "6379", "a port from 1 to 65535", |text| {
        u16::try_from(whole(text)?).ok().filter(|port| *port > 0)
    })?;
    let host = variables(HOST).unwrap_or_else(|| "localhost".to_owned());
    let is_host = !host.contains(['/', '@', '?', '#', ',']);
    let url = Some(url(&host, port)).filter(|url| is_host && url.parse::<StoreUrl>().is_ok());
    // The value is not repeated in the error: if it is a URL, it may hold a password.
    url.ok_or(ImportError::Variable { variable: HOST, expected: "a host", found: None })
}

fn read_as<T>(
    variables: ValkeyVariables<'_>,
    variable: &'static str,
    default: &str,
    expected: &'static str,
    read: impl FnOnce(&str) -> Option<T>,
) -> Result<T, ImportError> {
    let text = variables(variable).unwrap_or_else(|| default.to_owned());
    read(&text).ok_or_else(|| ImportError::Variable { variable, expected, found: Some(text.into()) })
}

/// Parses only digits, because `parse` accepts a plus sign.
fn whole(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn imported(given: &[(&str, &str)]) -> Result<(String, String), String> {
        let variables =
            |name: &str| given.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned());
        let imported = read(&variables, None).map_err(|error| error.to_string())?;
        let quota = imported.policies.as_slice()[0].quotas()[0].quota().to_string();
        Ok((quota, imported.store.unwrap().1.expose().to_owned()))
    }

    #[test]
    fn unset_variables_have_the_defaults_of_user_rate_limit() {
        assert_eq!(imported(&[]).unwrap(), ("5/1m".to_owned(), "valkey://localhost:6379".to_owned()));
        let all = [(LIMIT, "100"), (WINDOW, "90"), (HOST, "10.0.0.7"), (PORT, "6380")];
        assert_eq!(imported(&all).unwrap(), ("100/90s".to_owned(), "valkey://10.0.0.7:6380".to_owned()));
        assert_eq!(imported(&[(HOST, "::1")]).unwrap().1, "valkey://[::1]:6379");
    }

    #[test]
    fn refuses_invalid_values_and_names_the_variable() {
        for (variable, values) in [
            (LIMIT, &["five", "-1", "+5", "5.0", "1099511627776"][..]),
            (WINDOW, &["0", "-60", "0.5", "1m", "315619201", "99999999999999999999"]),
            (PORT, &["0", "65536", "-1", "redis"]),
        ] {
            for value in values {
                let error = imported(&[(variable, value)]).unwrap_err();
                assert!(error.starts_with(&format!("{variable}: expected a ")), "{error}");
                assert!(error.ends_with(&format!("found `{value}`")), "{error}");
            }
        }
        for host in ["redis://:sesame@h", "a b", "h/1", "u:sesame@h", "h,i"] {
            assert_eq!(imported(&[(HOST, host)]).unwrap_err(), "VALKEY_HOST: expected a host", "{host}");
        }
    }
}
