//! The requests of denied clients.

use std::collections::HashMap;

use super::Hit;

/// Clients of which an example is kept.
const MAX_CLIENTS: usize = 100_000;

/// Characters of a text that are kept.
const MAX_CHARACTERS: usize = 120;

/// The first denied request of each client.
#[derive(Debug, Default)]
pub(super) struct Examples(HashMap<u32, Example>);

/// A denied request.
#[derive(Debug, Clone, Default)]
pub(super) struct Example {
    pub(super) user_agent: Option<Box<str>>,
    pub(super) path: Option<Box<str>>,
}

impl Examples {
    pub(super) fn note(&mut self, client: u32, hit: &Hit<'_>) {
        if self.0.len() < MAX_CLIENTS && !self.0.contains_key(&client) {
            let user_agent = hit.user_agent.map(cut);
            self.0.insert(client, Example { user_agent, path: hit.path.map(cut) });
        }
    }

    pub(super) fn of(&self, client: u32) -> Example {
        self.0.get(&client).cloned().unwrap_or_default()
    }

    /// Keeps the clients that had these numbers.
    pub(super) fn keep(&mut self, kept: &[u32]) {
        let moved = std::mem::take(&mut self.0).into_iter().filter_map(|(client, example)| {
            let number = kept.binary_search(&client).ok()?;
            Some((u32::try_from(number).ok()?, example))
        });
        self.0 = moved.collect();
    }
}

/// The begin of a text that a stranger wrote. There may be millions of them, each as long as a line of a log.
fn cut(text: &str) -> Box<str> {
    match text.char_indices().nth(MAX_CHARACTERS) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()).into(),
        None => text.into(),
    }
}
