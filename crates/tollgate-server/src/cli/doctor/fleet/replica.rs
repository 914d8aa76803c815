//! What one replica answers.

use bytes::Bytes;
use http::StatusCode;
use serde::Deserialize;
use tollgate_policy::Generation;

use super::addresses::ReplicaAddress;
use crate::cli::client::NO_SERVICE;

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
    pub(super) async fn ask(ReplicaAddress { address, name, service }: ReplicaAddress) -> Self {
        let answer = match service {
            Ok(service) => match service.get("/readyz").await {
                Ok((status, body)) => ReplicaAnswer::read(status, &body),
                Err(error) => Err(error.to_string()),
            },
            Err(reason) => Err(reason),
        };
        Self { address, name, answer: answer.map_err(|reason| shortened(&reason)) }
    }
}

impl ReplicaAnswer {
    /// Reads an answer of `/readyz`: lines if the replica is ready, otherwise a problem.
    fn read(status: StatusCode, body: &Bytes) -> Result<Self, String> {
        let old = || "it names no generation: it is an older version of tollgate".to_owned();
        match status {
            StatusCode::OK => {
                let text = String::from_utf8_lossy(body);
                if !text.starts_with("ready") {
                    return Err(NO_SERVICE.to_owned());
                }
                let generation = text.lines().find_map(|line| line.strip_prefix("generation ")?.parse().ok());
                let others = text.lines().filter(|line| *line != "ready" && !line.starts_with("generation "));
                let remark = others.collect::<Vec<_>>().join("; ");
                let remark = (!remark.is_empty()).then(|| shortened(&remark));
                Ok(Self { generation: Some(generation.ok_or_else(old)?), not_ready: None, remark })
            }
            StatusCode::SERVICE_UNAVAILABLE => {
                let body: NotReadyBody = serde_json::from_slice(body)
                    .map_err(|_| "it is not ready (status 503), and does not say why".to_owned())?;
                let generation = body.generation.map(|generation| generation.parse().map_err(|_| old()));
                let generation = generation.transpose()?;
                Ok(Self { generation, not_ready: Some(shortened(&body.detail)), remark: None })
            }
            status => Err(format!("it answers with status {status}: {NO_SERVICE}")),
        }
    }
}

/// Returns the beginning of a long text.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
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
            Ok(ReplicaAnswer { generation: Some(generation), not_ready, remark })
        };
        assert_eq!(read(200, "ready\ngeneration 0123456789abcdef\n"), answer(None, None));
        assert_eq!(
            read(200, "ready; decided by open: gone\nthe file\ngeneration 0123456789abcdef\n"),
            answer(None, Some("ready; decided by open: gone; the file"))
        );
        let problem = r#"{"detail": "it stops", "generation": "0123456789abcdef"}"#;
        assert_eq!(read(503, problem), answer(Some("it stops"), None));
        let without = ReplicaAnswer {
            generation: None,
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
