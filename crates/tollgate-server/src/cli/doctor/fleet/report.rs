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
    expected: ExpectedFleet,
}

/// What was asked for, if anything was.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ExpectedFleet {
    /// The generation that all replicas are to have.
    pub(super) generation: Option<Generation>,
    /// The number of replicas that are to answer at least.
    pub(super) replicas: Option<usize>,
}

/// The output of `--json`.
#[derive(Serialize)]
struct FleetBody<'a> {
    in_step: bool,
    /// The generation that all replicas have; absent if they are not in step.
    #[serde(skip_serializing_if = "Option::is_none")]
    generation: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expected_generation: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expected_replicas: Option<usize>,
    replicas: Vec<ReplicaBody<'a>>,
}

#[derive(Serialize)]
struct ReplicaBody<'a> {
    address: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    ready: bool,
    /// Whether it could not use its newest limits; absent if it could.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    behind: bool,
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
    pub(super) fn new(replicas: Vec<Replica>, expected: ExpectedFleet) -> Self {
        let mut generations = BTreeMap::new();
        for answer in replicas.iter().flat_map(|replica| &replica.answer) {
            if let Some(generation) = answer.generation {
                *generations.entry(generation).or_default() += 1;
            }
        }
        Self { replicas, generations, expected }
    }

    /// Returns whether all replicas are ready, follow their source and have the same limits: those that were asked for, if
    /// any were.
    pub(super) fn is_in_step(&self) -> bool {
        let is_well = |replica: &Replica| replica.answer.as_ref().is_ok_and(|answer| !is_amiss(answer));
        let all_are_well = !self.replicas.is_empty() && self.replicas.iter().all(is_well);
        all_are_well && !self.differ() && self.missing().is_none()
    }

    /// Returns 1 if it is known that the replicas are not in step, and 3 if only an answer is missing.
    pub(super) fn exit_status(&self) -> u8 {
        let mut answers = self.replicas.iter().flat_map(|replica| &replica.answer);
        if self.is_in_step() {
            SUCCESS
        } else if self.differ() || answers.any(is_amiss) {
            FAILURE
        } else {
            NO_DECISION
        }
    }

    pub(super) fn json(&self) -> String {
        let generation = self.common().filter(|_| self.is_in_step()).map(|common| common.to_string());
        let replicas = self.replicas.iter().map(ReplicaBody::new).collect();
        let ExpectedFleet { generation: expected, replicas: expected_replicas } = self.expected;
        let expected_generation = expected.map(|expected| expected.to_string());
        let in_step = self.is_in_step();
        let body = FleetBody { in_step, generation, expected_generation, expected_replicas, replicas };
        // This cannot fail: all keys are texts.
        serde_json::to_string(&body).unwrap_or_default() + "\n"
    }

    pub(super) fn readable(&self) -> String {
        let mut text = String::new();
        let place = |Replica { address, name, .. }: &Replica| match name {
            Some(name) => format!("{address} ({name})"),
            None => address.clone(),
        };
        let width = self.replicas.iter().map(|replica| place(replica).len()).max().unwrap_or_default();
        for replica in &self.replicas {
            let (state, details) = match &replica.answer {
                Ok(ReplicaAnswer { generation, is_behind, not_ready, remark }) => {
                    let state = match not_ready {
                        Some(_) => "not ready",
                        None if *is_behind => "behind",
                        None => "ready",
                    };
                    let generation = generation.map(|generation| generation.to_string());
                    let parts = [generation.as_deref(), not_ready.as_deref().or(remark.as_deref())];
                    (state, parts.into_iter().flatten().collect::<Vec<_>>().join("  "))
                }
                Err(reason) => ("no answer", reason.clone()),
            };
            // Writing into a string does not fail.
            let replica = format!("{:<width$}", place(replica));
            let _ = writeln!(text, "{state:<9}  {}  {}", Printable(&replica), Printable(&details));
        }
        let _ = writeln!(text, "{}", self.summary());
        text
    }

    fn summary(&self) -> String {
        if let Some(common) = self.common().filter(|_| self.is_in_step()) {
            let ExpectedFleet { generation, replicas } = self.expected;
            if self.replicas.len() == 1 && generation.is_none() && replicas.is_none() {
                return format!(
                    "in step: only 1 replica, of generation {common}; there is no other to compare it with"
                );
            }
            return format!("in step: {} of generation {common}", counted(self.replicas.len(), "replica"));
        }
        let mut generations: Vec<_> = self.generations.iter().collect();
        generations.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let each_generation = generations
            .iter()
            .map(|(generation, count)| format!("{} of generation {generation}", counted(**count, "replica")));
        let expected =
            self.expected.generation.filter(|expected| self.generations.keys().any(|it| it != expected));
        let expected = expected.map(|expected| format!("generation {expected} is expected"));
        let count =
            |is_so: fn(&Replica) -> bool| self.replicas.iter().filter(|replica| is_so(replica)).count();
        let behind = count(|replica| replica.answer.as_ref().is_ok_and(|answer| answer.is_behind));
        let not_ready = count(|replica| replica.answer.as_ref().is_ok_and(|it| it.not_ready.is_some()));
        let silent = count(|replica| replica.answer.is_err());
        let others = [(behind, "behind"), (not_ready, "not ready"), (silent, "without an answer")];
        let others = others.into_iter().filter(|(count, _)| *count > 0);
        let others = others.map(|(count, state)| format!("{count} {state}"));
        let parts: Vec<String> =
            each_generation.chain(expected).chain(others).chain(self.missing()).collect();
        format!("not in step: {}", parts.join(", "))
    }

    /// Returns whether those that answer enforce different limits, or others than were asked for.
    fn differ(&self) -> bool {
        let is_other = |expected| self.generations.keys().any(|generation| *generation != expected);
        self.generations.len() > 1 || self.expected.generation.is_some_and(is_other)
    }

    /// Returns what to say if fewer replicas answer than were asked for.
    fn missing(&self) -> Option<String> {
        let answers = self.replicas.iter().filter(|replica| replica.answer.is_ok()).count();
        let expected = self.expected.replicas.filter(|expected| answers < *expected)?;
        Some(format!("{} expected", counted(expected, "replica")))
    }

    /// Returns the generation of all that answer, if it is the same.
    fn common(&self) -> Option<Generation> {
        self.generations.keys().next().copied().filter(|_| self.generations.len() == 1)
    }
}

impl<'a> ReplicaBody<'a> {
    fn new(Replica { address, name, answer }: &'a Replica) -> Self {
        let (behind, generation, problem, remark) = match answer {
            Ok(ReplicaAnswer { generation, is_behind, not_ready, remark }) => {
                let generation = generation.map(|generation| generation.to_string());
                (*is_behind, generation, not_ready.as_deref(), remark.as_deref())
            }
            Err(reason) => (false, None, Some(reason.as_str()), None),
        };
        Self { address, name: name.as_deref(), ready: problem.is_none(), behind, generation, problem, remark }
    }
}

/// Returns whether a replica is not ready, or does not follow its source.
fn is_amiss(answer: &ReplicaAnswer) -> bool {
    answer.not_ready.is_some() || answer.is_behind
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
            is_behind: false,
            not_ready: not_ready.map(str::to_owned),
            remark: None,
        });
        Replica { address: format!("10.0.0.{number}:80"), name: None, answer: answer.map_err(str::to_owned) }
    }

    fn report(answers: &[Result<(&str, Option<&str>), &str>], expected: Option<&str>) -> FleetReport {
        let replicas = (1..).zip(answers).map(|(number, answer)| replica(number, *answer)).collect();
        let generation = expected.map(|expected| expected.parse().unwrap());
        FleetReport::new(replicas, ExpectedFleet { generation, replicas: None })
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
    fn one_replica_fewer_than_expected_or_one_that_is_behind_is_not_in_step() {
        let one = || replica(1, Ok((ONE, None)));
        let expecting = |count| ExpectedFleet { generation: None, replicas: Some(count) };
        let alone = FleetReport::new(vec![one()], ExpectedFleet::default());
        assert_eq!(
            (alone.exit_status(), alone.summary().as_str()),
            (
                SUCCESS,
                "in step: only 1 replica, of generation 0000000000000001; there is no other to compare it with"
            )
        );
        let enough = FleetReport::new(vec![one()], expecting(1));
        assert_eq!(enough.summary(), "in step: 1 replica of generation 0000000000000001");
        let fewer = FleetReport::new(vec![one()], expecting(2));
        assert_eq!(
            (fewer.exit_status(), fewer.summary().as_str()),
            (NO_DECISION, "not in step: 1 replica of generation 0000000000000001, 2 replicas expected")
        );
        assert_eq!(
            fewer.json(),
            r#"{"in_step":false,"expected_replicas":2,"replicas":[{"address":"10.0.0.1:80","ready":true,"#
                .to_owned()
                + r#""generation":"0000000000000001"}]}"#
                + "\n"
        );

        let mut behind = replica(2, Ok((ONE, None)));
        behind.answer.as_mut().unwrap().is_behind = true;
        let report = FleetReport::new(vec![one(), behind], ExpectedFleet::default());
        assert_eq!(
            (report.exit_status(), report.readable().as_str()),
            (
                FAILURE,
                "ready      10.0.0.1:80  0000000000000001\n\
                 behind     10.0.0.2:80  0000000000000001\n\
                 not in step: 2 replicas of generation 0000000000000001, 1 behind\n"
            )
        );
        assert!(report.json().contains(r#""ready":true,"behind":true,"generation""#), "{}", report.json());
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
