//! A schedule as a list of steps that can be read.

use std::fmt::Write;

use super::answer::{Answer, Event, History, State, Step};
use super::linearize::Violation;
use super::world::{Ask, World};

pub(in super::super) fn trace(world: &World, history: Option<&History>, violation: &Violation) -> String {
    let mut trace = world.to_string();
    let mut events: Vec<(&Event, bool)> = Vec::new();
    for (thread, steps) in history.iter().flat_map(|history| history.threads.iter().enumerate()) {
        let is_it = |index| violation.at == Some((thread, index));
        events.extend(steps.iter().enumerate().map(|(index, event)| (event, is_it(index))));
    }
    events.sort_by_key(|(event, _)| event.returned);
    for (number, (event, is_it)) in events.into_iter().enumerate() {
        let place = if world.threads.len() > 1 {
            format!(" thread {} ({} to {})", event.thread, event.called, event.returned)
        } else {
            String::new()
        };
        let mark = if is_it { "  <-- here" } else { "" };
        let (step, answer) = (step(&event.step), answer(&event.answer));
        writeln!(trace, "{:>3}.{place} at {}: {step}: {answer}{mark}", number + 1, event.time)
            .unwrap_or_default();
    }
    writeln!(trace, "Violation: {}", violation.promise).unwrap_or_default();
    trace
}

fn step(step: &Step) -> String {
    match step {
        Step::Charge(charges) => format!("take {}", asks(charges)),
        Step::ChargeBefore(charges, end) => format!("take {} before {end}", asks(charges)),
        Step::Peek(charges) => format!("look at {}", asks(charges)),
        Step::Record(ask) => format!("record {ask}"),
        Step::Block([ask, block]) => format!("record {ask}, or block by quota {}", block.quota),
        Step::Refund(ask, start) => format!("give back {ask} of the mark {start}"),
        Step::Reset(ask) => format!("reset {ask}"),
        Step::Set(ask, used) => format!("set {used} of {ask}"),
        Step::Sweep => "drop what has closed".to_owned(),
        Step::List => "list live counters".to_owned(),
    }
}

fn asks(asks: &[Ask]) -> String {
    asks.iter().map(Ask::to_string).collect::<Vec<_>>().join(" and ")
}

fn answer(answer: &Answer) -> String {
    let state = |state: &State| {
        let State { limit, used, window, now, denial, units, reset_at, next_at, retry_at, mark } = state;
        let said = denial.map_or("yes".to_owned(), |denial| format!("no, {denial:?}"));
        let place = window.map_or(format!("marked {mark}"), |window| format!("in {window:?}"));
        let retry = retry_at.map_or(String::new(), |at| format!(", retry at {at}"));
        let next = next_at.map_or(String::new(), |at| format!(", next at {at}"));
        format!(
            "{said}, {units} taken, {used} of {limit} used {place}, decided at {now}{retry}{next}, reset at {reset_at}"
        )
    };
    match answer {
        Answer::Counted(states, _) => states.iter().map(state).collect::<Vec<_>>().join("; "),
        Answer::Refunded(None) => "that window is over".to_owned(),
        Answer::Refunded(Some((given, used))) => format!("{given} given back, {used} used"),
        Answer::Ended(now) => format!("ended at {now}"),
        Answer::Full => "the store is full".to_owned(),
        Answer::Listed(named) => format!("{named:?}"),
        Answer::Swept => "done".to_owned(),
    }
}
