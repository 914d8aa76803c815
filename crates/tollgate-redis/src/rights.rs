//! The rights that a user of the server needs.

use crate::address::Address;
use crate::calls::Calls;
use crate::resp::{Command, RespValue, command};
use crate::trouble::{ConnectTrouble, Refusal, Trouble};

/// Commands that a server can refuse, to be sent when a connection is set up. They charge nothing: each fails, or finds
/// nothing, after the server has checked the user's rights.
#[derive(Debug, Clone)]
pub(crate) struct Rights {
    names: Vec<&'static str>,
    calls: Calls,
}

/// So many commands are needed without holds.
const COUNTING: usize = 10;

impl Rights {
    /// Returns the commands of counting, on a key that does not exist.
    pub(crate) fn of_counting(key: &[u8], is_cluster: bool, has_holds: bool) -> Self {
        let commands: [(&'static str, &[&[u8]]); 18] = [
            // It is about the command behind it, which here has no key.
            ("ASKING", &[]),
            ("TIME", &[]),
            ("EVALSHA", &[&[b'0'; 40], b"0"]),
            ("GET", &[key]),
            ("MGET", &[key]),
            ("SET", &[key, b"0", b"no option"]),
            ("INCRBY", &[key, b"no number"]),
            ("PEXPIRETIME", &[key]),
            ("PTTL", &[key]),
            ("DEL", &[key]),
            // Of holds.
            ("PEXPIREAT", &[key, b"no number"]),
            ("ZADD", &[key, b"no number", b"0"]),
            ("ZCARD", &[key]),
            ("ZCOUNT", &[key, b"0", b"0"]),
            ("ZMSCORE", &[key, b"0"]),
            ("ZPOPMIN", &[key, b"0"]),
            ("ZRANGE", &[key, b"0", b"0"]),
            ("ZREM", &[key, b"0"]),
        ];
        let needed = if has_holds { &commands[..] } else { &commands[..COUNTING] };
        let needed = &needed[usize::from(!is_cluster)..];
        let written: Vec<Command> =
            needed.iter().map(|(name, arguments)| command(name).args(*arguments)).collect();
        Self { names: needed.iter().map(|(name, _)| *name).collect(), calls: Calls::of_each(&written) }
    }

    pub(crate) fn commands(&self) -> &Calls {
        &self.calls
    }

    /// Returns whether the server that gave these answers allows the user all of them. Which keys it may be done to is
    /// not judged: a user may have the right to some of the counters.
    pub(crate) fn judge(&self, answers: &[RespValue], asked: &Address) -> Result<(), ConnectTrouble> {
        let mut missing = Vec::new();
        for (name, answer) in self.names.iter().zip(answers) {
            let RespValue::Error(error) = answer else { continue };
            match Trouble::of_reply(error, asked) {
                Trouble::Refused(Refusal::NoPermission) => missing.push(*name),
                Trouble::Refused(Refusal::UnknownCommand) => {
                    return Err(ConnectTrouble::of_reply(error, asked, name));
                }
                _ => {}
            }
        }
        if missing.is_empty() {
            Ok(())
        } else {
            Err(ConnectTrouble::MissingRights(missing.join(", ").into()))
        }
    }
}
