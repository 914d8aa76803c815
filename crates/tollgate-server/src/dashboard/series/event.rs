//! Events of the process that explain a change in its series.

use std::collections::VecDeque;

use tollgate::Timestamp;

/// The number of events that are kept.
const MAX: usize = 50;

/// What happened, as the page marks it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) at: Timestamp,
    pub(crate) kind: EventKind,
    pub(crate) text: Box<str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventKind {
    Reload,
    ReloadFailed,
    StoreDown,
    StoreUp,
    Draining,
    OverridesStale,
    OverridesFresh,
}

/// The last events, the latest one first.
#[derive(Debug, Default)]
pub(super) struct EventLog(VecDeque<Event>);

impl EventKind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Reload => "reload",
            Self::ReloadFailed => "reload_failed",
            Self::StoreDown => "store_down",
            Self::StoreUp => "store_up",
            Self::Draining => "draining",
            Self::OverridesStale => "overrides_stale",
            Self::OverridesFresh => "overrides_fresh",
        }
    }
}

impl EventLog {
    pub(super) fn add(&mut self, at: Timestamp, kind: EventKind, text: impl Into<Box<str>>) {
        self.0.truncate(MAX - 1);
        self.0.push_front(Event { at, kind, text: text.into() });
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Event> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_events_are_kept() {
        let mut log = EventLog::default();
        for number in 0..60 {
            log.add(Timestamp::from_unix_millis(number), EventKind::Reload, number.to_string());
        }
        let texts: Vec<&str> = log.iter().map(|event| &*event.text).collect();
        assert_eq!((texts.len(), texts[0], texts[49]), (50, "59", "10"));
    }
}
