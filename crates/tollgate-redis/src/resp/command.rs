//! Commands in their wire format.

/// A command and its arguments. It is not shown, because a password may be among them.
pub(crate) struct Command {
    /// With the name of the command.
    count: usize,
    /// Each in its wire format, one after another.
    arguments: Vec<u8>,
}

/// Begins a command of this name.
pub(crate) fn command(name: impl AsRef<[u8]>) -> Command {
    Command { count: 0, arguments: Vec::new() }.arg(name)
}

impl Command {
    #[must_use]
    pub(crate) fn arg(mut self, argument: impl AsRef<[u8]>) -> Self {
        self.count += 1;
        Writer(&mut self.arguments).argument(argument.as_ref());
        self
    }

    #[must_use]
    pub(crate) fn args(self, arguments: impl IntoIterator<Item: AsRef<[u8]>>) -> Self {
        arguments.into_iter().fold(self, Self::arg)
    }

    /// Writes it at the end of these bytes.
    pub(crate) fn write(&self, bytes: &mut Vec<u8>) {
        let writer = Writer::begin(bytes, self.count);
        writer.0.extend_from_slice(&self.arguments);
    }
}

/// Writes a command argument by argument, for one that is too long to be copied once more.
pub(crate) struct Writer<'a>(&'a mut Vec<u8>);

impl<'a> Writer<'a> {
    /// Begins a command with its name and this many arguments, at the end of these bytes.
    pub(crate) fn begin(bytes: &'a mut Vec<u8>, count: usize) -> Self {
        let mut writer = Self(bytes);
        writer.head(b'*', count);
        writer
    }

    pub(crate) fn argument(&mut self, bytes: &[u8]) {
        self.head(b'$', bytes.len());
        self.0.extend_from_slice(bytes);
        self.0.extend_from_slice(b"\r\n");
    }

    /// Writes the number of arguments or bytes that follow.
    fn head(&mut self, kind: u8, count: usize) {
        self.0.push(kind);
        self.0.extend_from_slice(itoa::Buffer::new().format(count).as_bytes());
        self.0.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_written_as_the_client_library_writes_it() {
        let mut ours = b"before".to_vec();
        command("SET").arg("key\r\n").arg(b"\0\xff").args(["", "PX"]).arg("60000").write(&mut ours);
        let mut theirs = b"before".to_vec();
        redis::cmd("SET")
            .arg("key\r\n")
            .arg(b"\0\xff")
            .arg(&["", "PX"])
            .arg(60_000)
            .write_packed_command(&mut theirs);
        assert_eq!(ours.escape_ascii().to_string(), theirs.escape_ascii().to_string());
    }
}
