//! What all replicas answered, for people and for programs.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;
use tollgate_policy::{Generation, Printable};

use super::replica::{Replica, ReplicaAnswer};
use crate::args::exit_status::{FAILURE, NO_DECISION, SUCCESS};

/// All replicas with their answers.
#[derive(Debug)]
pub(super) struct FleetReport {
    replicas: Vec<Replica>,
    /// The number of replicas of each generation.
    generations: BTreeMap<Generation, usize>,
    /// The generation that all are to enforce, if one was asked for.
    expected: Option<Generation>,
}

/// The output of `--json`.
#[derive(Serialize)]
struct FleetBody<'a> {
    in_step: bool,
    /// The generation that all replicas enforce; absent if they do not enforce the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    generation: Option<String>,
    replicas: Vec<ReplicaBody<'a>>,
}

#[derive(Serialize)]
struct ReplicaBody<'a> {
    address: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    ready: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation: Option<String>,
    /// Why it is not ready, or gives no answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<&'a str>,
    /// What it adds to being ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    remark: Option<&'a str>,
}

impl FleetReport {
    pub(super) fn new(replicas: Vec<Replica>, expected: Option<Generation>) -> Self {
        let mut generations = BTreeMap::new();
        for answer in replicas.iter().flat_map(|replica| &replica.answer) {
            if let Some(generation) = answer.generation {
                *generations.entry(generation).or_default() += 1;
            }
        }
        Self { replicas, generations, expected }
    }

    /// Returns whether all replicas are ready and enforce the same limits: those that were asked for, if any were.
    pub(super) fn is_in_step(&self) -> bool {
        let is_ready = |replica: &Replica| replica.answer.as_ref().is_ok_and(|it| it.not_ready.is_none());
        !self.replicas.is_empty() && self.replicas.iter().all(is_ready) && !self.differ()
    }

    /// Returns 1 if it is known that the replicas are not in step, and 3 if only an answer is missing.
    pub(super) fn exit_status(&self) -> u8 {
        let is_not_ready = |answer: &ReplicaAnswer| answer.not_ready.is_some();
        let mut answers = self.replicas.iter().flat_map(|replica| &replica.answer);
        if self.is_in_step() {
            SUCCESS
        } else if self.differ() || answers.any(is_not_ready) {
            FAILURE
        } else {
            NO_DECISION
        }
    }

    pub(super) fn json(&self) -> String {
        let generation = self.common().filter(|_| self.is_in_step()).map(|common| common.to_string());
        let replicas = self.replicas.iter().map(ReplicaBody::new).collect();
        let body = FleetBody { in_step: self.is_in_step(), generation, replicas };
        // This cannot fail: all keys are texts.
        serde_json::to_string(&body).unwrap_or_default() + "\n"
    }

    pub(super) fn readable(&self) -> String {
        let mut text = String::new();
        let shown = |Replica { address, name, .. }: &Replica| match name {
            Some(name) => format!("{address} ({name})"),
            None => address.clone(),
        };
        let width = self.replicas.iter().map(|replica| shown(replica).len()).max().unwrap_or_default();
        for replica in &self.replicas {
            let (state, said) = match &replica.answer {
                Ok(ReplicaAnswer { generation, not_ready, remark }) => {
                    let state = if not_ready.is_some() { "not ready" } else { "ready" };
                    let generation = generation.map(|generation| generation.to_string());
                    let parts = [generation.as_deref(), not_ready.as_deref().or(remark.as_deref())];
                    (state, parts.into_iter().flatten().collect::<Vec<_>>().join("  "))
                }
                Err(reason) => ("no answer", reason.clone()),
            };
            // Writing into a string does not fail.
            let replica = format!("{:<width$}", shown(replica));
            let _ = writeln!(text, "{state:<9}  {}  {}", Printable(&replica), Printable(&said));
        }
        let _ = writeln!(text, "{}", self.summary());
        text
    }

    fn summary(&self) -> String {
        if let Some(common) = self.common().filter(|_| self.is_in_step()) {
            return format!("in step: {} of generation {common}", counted(self.replicas.len(), "replica"));
        }
        let mut generations: Vec<_> = self.generations.iter().collect();
        generations.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let each_generation = generations
            .iter()
            .map(|(generation, count)| format!("{} of generation {generation}", counted(**count, "replica")));
        let expected = self.expected.filter(|expected| self.generations.keys().any(|it| it != expected));
        let expected = expected.map(|expected| format!("generation {expected} is expected"));
        let count =
            |is_so: fn(&Replica) -> bool| self.replicas.iter().filter(|replica| is_so(replica)).count();
        let not_ready = count(|replica| replica.answer.as_ref().is_ok_and(|it| it.not_ready.is_some()));
        let silent = count(|replica| replica.answer.is_err());
        let others = [(not_ready, "not ready"), (silent, "without an answer")];
        let others = others.into_iter().filter(|(count, _)| *count > 0);
        let others = others.map(|(count, state)| format!("{count} {state}"));
        let parts: Vec<String> = each_generation.chain(expected).chain(others).collect();
        format!("not in step: {}", parts.join(", "))
    }

    /// Returns whether those that answer enforce different limits, or others than were asked for.
    fn differ(&self) -> bool {
        let is_other = |expected| self.generations.keys().any(|generation| *generation != expected);
        self.generations.len() > 1 || self.expected.is_some_and(is_other)
    }

    /// Returns the generation of all that answer, if it is the same.
    fn common(&self) -> Option<Generation> {
        self.generations.keys().next().copied().filter(|_| self.generations.len() == 1)
    }
}

impl<'a> ReplicaBody<'a> {
    fn new(Replica { address, name, answer }: &'a Replica) -> Self {
        let (generation, problem, remark) = match answer {
            Ok(ReplicaAnswer { generation, not_ready, remark }) => {
                let generation = generation.map(|generation| generation.to_string());
                (generation, not_ready.as_deref(), remark.as_deref())
            }
            Err(reason) => (None, Some(reason.as_str()), None),
        };
        Self { address, name: name.as_deref(), ready: problem.is_none(), generation, problem, remark }
    }
}

fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "0000000000000001";
    const TWO: &str = "0000000000000002";

    fn replica(number: usize, answer: Result<(&str, Option<&str>), &str>) -> Replica {
        let answer = answer.map(|(generation, not_ready)| ReplicaAnswer {
            generation: generation.parse().ok(),
            not_ready: not_ready.map(str::to_owned),
            remark: None,
        });
        Replica { address: format!("10.0.0.{number}:80"), name: None, answer: answer.map_err(str::to_owned) }
    }

    fn report(answers: &[Result<(&str, Option<&str>), &str>], expected: Option<&str>) -> FleetReport {
        let replicas = (1..).zip(answers).map(|(number, answer)| replica(number, *answer)).collect();
        FleetReport::new(replicas, expected.map(|expected| expected.parse().unwrap()))
    }

    #[test]
    fn the_summary_and_the_status_say_whether_the_replicas_are_in_step() {
        let (one, two) = (Ok((ONE, None)), Ok((TWO, None)));
        for (answers, expected, summary, status) in [
            (&[one, one][..], None, "in step: 2 replicas of generation 0000000000000001", SUCCESS),
            (&[one], Some(ONE), "in step: 1 replica of generation 0000000000000001", SUCCESS),
            (
                &[one, two, two],
                None,
                "not in step: 2 replicas of generation 0000000000000002, 1 replica of generation 0000000000000001",
                FAILURE,
            ),
            (
                &[one, one],
                Some(TWO),
                "not in step: 2 replicas of generation 0000000000000001, generation 0000000000000002 is expected",
                FAILURE,
            ),
            (
                &[one, Ok((ONE, Some("it stops")))],
                None,
                "not in step: 2 replicas of generation 0000000000000001, 1 not ready",
                FAILURE,
            ),
            (
                &[one, Err("gone")],
                None,
                "not in step: 1 replica of generation 0000000000000001, 1 without an answer",
                NO_DECISION,
            ),
            (
                &[one, two, Err("gone")],
                None,
                "not in step: 1 replica of generation 0000000000000001, 1 replica of generation 0000000000000002, \
                 1 without an answer",
                FAILURE,
            ),
            (
                &[one, Ok(("", Some("no limits yet")))],
                None,
                "not in step: 1 replica of generation 0000000000000001, 1 not ready",
                FAILURE,
            ),
            (&[Err("gone")], Some(ONE), "not in step: 1 without an answer", NO_DECISION),
        ] {
            let report = report(answers, expected);
            assert_eq!((report.summary().as_str(), report.exit_status()), (summary, status));
            assert_eq!(report.is_in_step(), status == SUCCESS);
        }
    }

    #[test]
    fn each_replica_is_a_line_and_an_object() {
        let without = report(&[Ok(("", Some("no limits yet")))], None);
        assert!(without.readable().starts_with("not ready  10.0.0.1:80  no limits yet\n"));
        assert!(without.json().contains(r#""ready":false,"problem":"no limits yet""#));
        let report = report(&[Ok((ONE, None)), Ok((TWO, Some("it stops"))), Err("it says \u{1b}[31m")], None);
        assert_eq!(
            report.readable(),
            "ready      10.0.0.1:80  0000000000000001\n\
             not ready  10.0.0.2:80  0000000000000002  it stops\n\
             no answer  10.0.0.3:80  it says \\u{1b}[31m\n\
             not in step: 1 replica of generation 0000000000000001, 1 replica of generation 0000000000000002, \
             1 not ready, 1 without an answer\n"
        );
        assert_eq!(
            report.json(),
            r#"{"in_step":false,"replicas":[{"address":"10.0.0.1:80","ready":true,"generation":"0000000000000001"},"#
                .to_owned()
                + r#"{"address":"10.0.0.2:80","ready":false,"generation":"0000000000000002","problem":"it stops"},"#
                + r#"{"address":"10.0.0.3:80","ready":false,"problem":"it says \u001b[31m"}]}"#
                + "\n"
        );
    }
}
