//! What every request of a client must be, whatever the case: rule 4 of the contract.

use serde_json::Value;

use super::request::SeenRequest;

/// A field that a body may have, and its default value, which is left out.
type BodyField = (&'static str, Option<u64>);

/// Those of a check. The last three are for limits with the call.
const CHECK: [BodyField; 5] =
    [("attributes", None), ("cost", Some(1)), ("policy", None), ("quotas", None), ("on_store_failure", None)];

/// The paths, and their fields.
const OPERATIONS: [(&str, &[BodyField]); 6] = [
    ("/v1/check", &CHECK),
    ("/v1/peek", &CHECK),
    (
        "/v1/reserve",
        &[("attributes", None), ("cost", Some(1)), ("units", Some(1)), ("expires_after", None), ("id", None)],
    ),
    ("/v1/renew", &[("hold", None)]),
    ("/v1/settle", &[("hold", None), ("cost", None)]),
    (
        "/v1/count",
        &[
            ("policy", None),
            ("attributes", None),
            ("quotas", None),
            ("window", None),
            ("operation", None),
            ("cost", Some(1)),
            ("used", None),
            ("block", None),
            ("on_store_failure", None),
        ],
    ),
];

/// Fields with texts as their default values.
const DEFAULT_TEXTS: [(&str, &str); 2] = [("operation", "add"), ("on_store_failure", "open")];

/// Headers that no client sends. Libraries take the first as leave to repeat a request; the others belong to proxies.
const NO_HEADERS: [&str; 9] = [
    "idempotency-key",
    "x-idempotency-key",
    "expect",
    "proxy-authorization",
    "proxy-connection",
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-host",
    "via",
];

/// Returns an error that says which rule the request breaks.
///
/// `host` is the address that the client was given, unless it has none. `token` is the one that it was given.
pub(super) fn check(request: &SeenRequest, host: Option<&str>, token: Option<&str>) -> Result<(), String> {
    if request.method != "POST" {
        return Err(format!("the method is {}", request.method));
    }
    if request.header("content-type") != ["application/json"] {
        return Err(format!("the Content-Type is {:?}", request.header("content-type")));
    }
    let hosts = request.header("host");
    if hosts.len() != 1 || host.is_some_and(|host| hosts != [host]) {
        return Err(format!("the Host is {hosts:?}"));
    }
    let expected: Vec<String> = token.iter().map(|token| format!("Bearer {token}")).collect();
    if request.header("authorization") != expected {
        return Err(format!("the Authorization is {:?}", request.header("authorization")));
    }
    if let Some(name) = NO_HEADERS.iter().find(|name| !request.header(name).is_empty()) {
        return Err(format!("there is a header {name}: {:?}", request.header(name)));
    }
    match request.header("user-agent")[..] {
        [agent] if is_user_agent(agent) => {}
        ref agents => return Err(format!("the User-Agent is {agents:?}, not tollgate-LANGUAGE/VERSION")),
    }
    check_fields(request)
}

/// Whether it is `tollgate-LANGUAGE/VERSION`.
fn is_user_agent(agent: &str) -> bool {
    let words = agent.strip_prefix("tollgate-").and_then(|rest| rest.split_once('/'));
    words.is_some_and(|(language, version)| {
        !language.is_empty()
            && language.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
            && version.starts_with(|c: char| c.is_ascii_digit())
            && version.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-+".contains(&byte))
    })
}

fn check_fields(request: &SeenRequest) -> Result<(), String> {
    let operation = OPERATIONS.iter().find(|(path, _)| *path == request.path);
    let (_, fields) = operation.ok_or_else(|| format!("the path is {}", request.path))?;
    let body = request.body.as_object().ok_or_else(|| format!("the body is {}", request.body))?;
    for (name, value) in body {
        let Some((_, default)) = fields.iter().find(|(field, _)| field == name) else {
            return Err(format!("{} has no field `{name}`: {}", request.path, request.body));
        };
        let is_default_text = || {
            let text = DEFAULT_TEXTS.iter().find(|(field, _)| field == name);
            text.is_some_and(|(_, text)| value == text)
        };
        if value.is_null() || *value == default.map_or(Value::Null, Value::from) || is_default_text() {
            return Err(format!("the field `{name}` has its default value: {}", request.body));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::request::RequestReader;
    use super::*;

    const HEAD: &str = "Host: a:1\r\nContent-Type: application/json\r\nUser-Agent: tollgate-go/0.1.0\r\n";

    fn check_text(path: &str, head: &str, body: &str) -> Result<(), String> {
        let text = format!("POST {path} HTTP/1.1\r\n{head}Content-Length: {}\r\n\r\n{body}", body.len());
        let request = RequestReader::new(text.as_bytes()).next().unwrap().unwrap();
        check(&request, Some("a:1"), None)
    }

    #[test]
    fn accepts_what_the_contract_allows() {
        check_text("/v1/check", HEAD, r#"{"attributes": {"action": "search"}, "cost": 2}"#).unwrap();
        check_text("/v1/settle", HEAD, r#"{"hold": "h", "cost": 1}"#).unwrap();
    }

    #[test]
    fn refuses_what_the_contract_forbids() {
        let error = |path: &str, head: &str, body: &str| check_text(path, head, body).unwrap_err();
        assert_eq!(error("/check", HEAD, "{}"), "the path is /check");
        assert!(error("/v1/check", HEAD, "[]").starts_with("the body is"));
        assert!(error("/v1/check", HEAD, r#"{"cost": 1}"#).starts_with("the field `cost` has its default"));
        assert!(
            error("/v1/check", HEAD, r#"{"cost": null}"#).starts_with("the field `cost` has its default")
        );
        assert!(error("/v1/check", HEAD, r#"{"units": 2}"#).starts_with("/v1/check has no field `units`"));
        assert!(error("/v1/count", HEAD, r#"{"operation": "add"}"#).starts_with("the field `operation`"));
        for (header, word) in [
            ("Idempotency-Key: 1", "idempotency-key"),
            ("Content-Type: application/json", "Content-Type"),
            ("Authorization: Bearer a", "Authorization"),
            ("User-Agent: other", "User-Agent"),
            ("Via: 1.1 a", "via"),
        ] {
            let error = error("/v1/check", &format!("{HEAD}{header}\r\n"), "{}");
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn a_user_agent_names_language_and_version() {
        assert!(is_user_agent("tollgate-python/0.1.0"));
        assert!(!is_user_agent("tollgate-/0.1.0"));
        assert!(!is_user_agent("tollgate-python"));
        assert!(!is_user_agent("tollgate-python/0.1.0 httpx/0.28"));
    }
}
