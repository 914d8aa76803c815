//! Commands to a server, none of which is waited for without end.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use redis::{ConnectionLike, Parser, RedisError, RedisResult, Value};

use super::config::ADMIN;
use super::patience::{self, PatientStream};

/// A connection to a server over its Unix socket, as a user with every right: to send several commands on.
///
/// # Panics
///
/// Whatever is sent on it panics if there is no answer within a minute; the message names the server and the command.
/// A minute in which this process is stopped (`SIGSTOP`) does not count.
pub struct ServerConnection {
    stream: PatientStream,
    parser: Parser,
    limit: Duration,
    server: String,
    is_logged_in: bool,
}

impl ServerConnection {
    /// To the server of this name that listens here.
    pub(super) fn open(socket: &Path, server: String) -> io::Result<Self> {
        Self::within(patience::LIMIT, socket, server)
    }

    fn within(limit: Duration, socket: &Path, server: String) -> io::Result<Self> {
        let stream = PatientStream::connect(socket, limit)?;
        Ok(Self { stream, parser: Parser::new(), limit, server, is_logged_in: false })
    }

    /// Sends the commands and reads so many replies.
    fn ask(&mut self, commands: &[u8], replies: usize) -> RedisResult<Vec<Value>> {
        // With the first command, so that it is what a server is said not to answer.
        if !self.is_logged_in {
            self.stream.write_all(&redis::cmd("AUTH").arg(ADMIN).arg(ADMIN).get_packed_command())?;
        }
        self.stream.write_all(commands)?;
        if !self.is_logged_in {
            self.parser.parse_value(&mut self.stream)?.extract_error()?;
            self.is_logged_in = true;
        }
        (0..replies).map(|_| self.parser.parse_value(&mut self.stream)).collect()
    }

    fn ask_within_limit(&mut self, commands: &[u8], replies: usize) -> RedisResult<Vec<Value>> {
        let answer = self.ask(commands, replies);
        if answer.as_ref().is_err_and(RedisError::is_timeout) {
            panic!("waited {:?} in vain: {} answers {}", self.limit, self.server, first_of(commands));
        }
        answer
    }
}

impl ConnectionLike for ServerConnection {
    fn req_packed_command(&mut self, command: &[u8]) -> RedisResult<Value> {
        Ok(self.ask_within_limit(command, 1)?.remove(0))
    }

    /// Of a transaction, the replies before the offset only say that a command is queued. One that is refused there
    /// makes the last an error.
    fn req_packed_commands(
        &mut self,
        commands: &[u8],
        offset: usize,
        count: usize,
    ) -> RedisResult<Vec<Value>> {
        Ok(self.ask_within_limit(commands, offset + count)?.split_off(offset))
    }

    fn get_db(&self) -> i64 {
        0
    }

    fn check_connection(&mut self) -> bool {
        redis::cmd("PING").exec(self).is_ok()
    }

    fn is_open(&self) -> bool {
        true
    }
}

impl fmt::Debug for ServerConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerConnection").field("server", &self.server).finish_non_exhaustive()
    }
}

/// The first of these commands, as far as it fits on a line.
fn first_of(commands: &[u8]) -> String {
    const SHOWN: usize = 100;
    let Ok(Value::Array(words)) = redis::parse_redis_value(commands) else {
        return "what it was sent".to_owned();
    };
    let text = |word: &Value| match word {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).escape_debug().to_string(),
        other => format!("{other:?}"),
    };
    let line = words.iter().map(text).collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    fn nobody_answers(send: impl FnOnce(&mut ServerConnection)) {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let _listener = UnixListener::bind(&socket).unwrap();
        let limit = Duration::from_millis(500);
        send(
            &mut ServerConnection::within(limit, &socket, "redis-server at 127.0.0.1:1".to_owned()).unwrap(),
        );
    }

    #[test]
    #[should_panic(expected = "waited 500ms in vain: redis-server at 127.0.0.1:1 answers GET the\\ncolour")]
    fn a_server_that_does_not_answer_is_named_with_the_command() {
        nobody_answers(|connection| redis::cmd("GET").arg("the\ncolour").exec(connection).unwrap());
    }

    #[test]
    #[should_panic(expected = "waited 500ms in vain: redis-server at 127.0.0.1:1 answers GET colour")]
    fn names_the_first_of_several_commands() {
        nobody_answers(|connection| redis::pipe().get("colour").get("sound").exec(connection).unwrap());
    }

    #[test]
    fn a_long_command_is_named_by_its_beginning() {
        let command = redis::cmd("SET").arg("colour").arg("é".repeat(1000)).get_packed_command();
        let named = first_of(&command);
        assert!(named.starts_with("SET colour éé") && named.ends_with("é..."), "{named}");
        assert_eq!(named.chars().count(), 103);
    }
}
