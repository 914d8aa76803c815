//! The requests of denied clients.

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::hit::Hit;

/// Clients of which an example is kept, when others have to go.
const MAX_CLIENTS: usize = 100_000;

/// Characters of a text that are kept.
const MAX_CHARACTERS: usize = 120;

/// The first denied request of each client. If there are too many clients, those that are denied least have none, or
/// one of a later request.
#[derive(Debug, Default)]
pub(crate) struct Examples {
    of_clients: HashMap<u32, Example>,
    is_short: bool,
}

/// A denied request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Example {
    pub(crate) user_agent: Option<Box<str>>,
    pub(crate) path: Option<Box<str>>,
}

impl Examples {
    /// Notes a denied request of a client. `denied` says how many a client has had.
    pub(crate) fn note(&mut self, client: u32, hit: &Hit<'_>, denied: impl Fn(u32) -> u64) {
        if self.of_clients.contains_key(&client) {
            return;
        }
        if self.of_clients.len() >= 2 * MAX_CLIENTS {
            self.keep_most_denied(denied);
        }
        let user_agent = hit.user_agent.map(cut);
        self.of_clients.insert(client, Example { user_agent, path: hit.path.map(cut) });
    }

    #[cold]
    fn keep_most_denied(&mut self, denied: impl Fn(u32) -> u64) {
        self.is_short = true;
        let mut clients: Vec<u32> = self.of_clients.keys().copied().collect();
        // As reports list them.
        clients.select_nth_unstable_by_key(MAX_CLIENTS, |client| (Reverse(denied(*client)), *client));
        for client in clients.split_off(MAX_CLIENTS) {
            self.of_clients.remove(&client);
        }
    }

    pub(crate) fn of(&self, client: u32) -> Example {
        self.of_clients.get(&client).cloned().unwrap_or_default()
    }

    /// Whether there were more clients than examples are kept of.
    pub(crate) const fn is_short(&self) -> bool {
        self.is_short
    }

    /// Keeps the clients that had these numbers.
    pub(crate) fn keep(&mut self, kept: &[u32]) {
        let moved = std::mem::take(&mut self.of_clients).into_iter().filter_map(|(client, example)| {
            let number = kept.binary_search(&client).ok()?;
            Some((u32::try_from(number).ok()?, example))
        });
        self.of_clients = moved.collect();
    }
}

/// The begin of a text that a stranger wrote. There may be millions of them, each as long as a line of a log.
pub(crate) fn cut(text: &[u8]) -> Box<str> {
    let text = String::from_utf8_lossy(text);
    match text.char_indices().nth(MAX_CHARACTERS) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()).into(),
        None => text.into_owned().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate::Timestamp;
    use tollgate_policy::Attributes;

    /// From the hundred thousandth denied client on, a client had neither a program nor a path, even if it was denied
    /// most.
    #[test]
    fn the_clients_that_are_denied_most_have_an_example_however_many_there_are() {
        let hit = |path: &'static str| Hit {
            path: Some(path.as_bytes()),
            user_agent: Some(b"program"),
            ..Hit::new(Timestamp::EPOCH, Attributes::default())
        };
        let often = 300_000;
        let denied = |client| if client == often { 30 } else { 1 };
        let (once, mut examples) = (hit("/once"), Examples::default());
        let most = u32::try_from(2 * MAX_CLIENTS).unwrap();
        (0..most - 1).for_each(|client| examples.note(client, &once, denied));
        examples.note(often, &hit("/often"), denied);
        assert!(!examples.is_short());
        examples.note(most, &once, denied);
        assert!(examples.is_short());
        // The least numbers are listed first among equals.
        for (client, path) in
            [(0, Some("/once")), (often, Some("/often")), (most - 2, None), (most, Some("/once"))]
        {
            assert_eq!(examples.of(client).path.as_deref(), path, "{client}");
        }
    }
}
