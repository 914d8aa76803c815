//! What one replica answers.

use bytes::Bytes;
use http::StatusCode;
use serde::Deserialize;
use tollgate_policy::Generation;

use super::addresses::ReplicaAddress;
use super::patience::Patience;
use crate::cli::client::NO_SERVICE;
use crate::live::record::{NO_LIMITS, UNUSABLE};
use crate::observe::shortened::shortened;

/// The most characters of a text of a replica that are shown.
const MAX_SHOWN: usize = 300;

/// A replica, and what it answers.
#[derive(Debug)]
pub(super) struct Replica {
    pub(super) address: String,
    /// The name that has the address, if it was looked up.
    pub(super) name: Option<String>,
    /// The reason why there is none, in words.
    pub(super) answer: Result<ReplicaAnswer, String>,
}

/// The answer of a replica.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ReplicaAnswer {
    /// `None` if it has no limits yet.
    pub(super) generation: Option<Generation>,
    /// Whether it could not use its newest limits, or has started without any.
    pub(super) is_behind: bool,
    /// Why it decides nothing now, if so.
    pub(super) not_ready: Option<String>,
    /// What it adds to being ready, such as that its store fails.
    pub(super) remark: Option<String>,
}

/// The problem of a replica that is not ready.
#[derive(Deserialize)]
struct NotReadyBody {
    detail: String,
    generation: Option<String>,
}

impl Replica {
    /// Asks a replica, if it can be asked.
    pub(super) async fn ask(
        ReplicaAddress { address, name, service }: ReplicaAddress,
        patience: &Patience,
    ) -> Self {
        let limit = patience.for_a_question();
        let answer = match service {
            Ok(_) if limit.is_zero() => Err("not asked: the time of --wait is over".to_owned()),
            Ok(service) => match service.within(limit).get("/readyz").await {
                Ok((status, body)) => ReplicaAnswer::read(status, &body),
                Err(error) => Err(error.to_string()),
            },
            Err(reason) => Err(reason),
        };
        Self { address, name, answer: answer.map_err(|reason| shortened(&reason, MAX_SHOWN)) }
    }
}

impl ReplicaAnswer {
    /// Reads an answer of `/readyz`: lines if the replica is ready, otherwise a problem.
    fn read(status: StatusCode, body: &Bytes) -> Result<Self, String> {
        let no_generation = || "it names no generation: probably an older version of tollgate".to_owned();
        match status {
            StatusCode::OK => {
                let text = String::from_utf8_lossy(body);
                if !text.starts_with("ready") {
                    return Err(NO_SERVICE.to_owned());
                }
                let generation = text.lines().find_map(|line| line.strip_prefix("generation ")?.parse().ok());
                // The first line may have the text of an error.
                let is_behind =
                    text.lines().skip(1).any(|line| line.contains(UNUSABLE) || line.contains(NO_LIMITS));
                let others = text.lines().filter(|line| *line != "ready" && !line.starts_with("generation "));
                let remark = others.collect::<Vec<_>>().join("; ");
                let remark = (!remark.is_empty()).then(|| shortened(&remark, MAX_SHOWN));
                let generation = Some(generation.ok_or_else(no_generation)?);
                Ok(Self { generation, is_behind, not_ready: None, remark })
            }
            StatusCode::SERVICE_UNAVAILABLE => {
                let body: NotReadyBody = serde_json::from_slice(body)
                    .map_err(|_| "it is not ready (status 503), and does not say why".to_owned())?;
                let parse = |generation: String| generation.parse().map_err(|_| no_generation());
                let generation = body.generation.map(parse).transpose()?;
                let not_ready = Some(shortened(&body.detail, MAX_SHOWN));
                Ok(Self { generation, is_behind: false, not_ready, remark: None })
            }
            status => Err(format!("it answers with status {status}: {NO_SERVICE}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(status: u16, body: &str) -> Result<ReplicaAnswer, String> {
        ReplicaAnswer::read(StatusCode::from_u16(status).unwrap(), &Bytes::copy_from_slice(body.as_bytes()))
    }

    #[test]
    fn answers_of_all_kinds_are_read() {
        let generation: Generation = "0123456789abcdef".parse().unwrap();
        let answer = |not_ready: Option<&str>, remark: Option<&str>| {
            let (not_ready, remark) = (not_ready.map(str::to_owned), remark.map(str::to_owned));
            Ok(ReplicaAnswer { generation: Some(generation), is_behind: false, not_ready, remark })
        };
        assert_eq!(read(200, "ready\ngeneration 0123456789abcdef\n"), answer(None, None));
        assert_eq!(
            read(200, "ready; decided by open: cannot be used\nthe file\ngeneration 0123456789abcdef\n"),
            answer(None, Some("ready; decided by open: cannot be used; the file"))
        );
        for line in [
            "the policy file cannot be used: version 1 stays live",
            "no limits have arrived over xDS: every request is admitted",
        ] {
            let behind = read(200, &format!("ready\n{line}\ngeneration 0123456789abcdef\n"));
            assert_eq!(behind.map(|answer| (answer.is_behind, answer.not_ready)), Ok((true, None)), "{line}");
        }
        let problem = r#"{"detail": "it stops", "generation": "0123456789abcdef"}"#;
        assert_eq!(read(503, problem), answer(Some("it stops"), None));
        let without = ReplicaAnswer {
            generation: None,
            is_behind: false,
            not_ready: Some("no limits have arrived over xDS yet".to_owned()),
            remark: None,
        };
        assert_eq!(read(503, r#"{"detail": "no limits have arrived over xDS yet"}"#), Ok(without));
        for (status, body) in [
            (200, ""),
            (200, "ready\n"),
            (200, "ready\ngeneration x\n"),
            (200, "generation 0123456789abcdef\n"),
            (503, ""),
            (503, r#"{"detail": "it stops", "generation": "x"}"#),
            (404, problem),
        ] {
            assert!(read(status, body).is_err(), "{status} {body}");
        }
        let long = format!("ready{}\ngeneration 0123456789abcdef\n", "é".repeat(100_000));
        assert!(read(200, &long).unwrap().remark.unwrap().len() < 1_000);
    }
}
