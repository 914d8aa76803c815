//! The wall clock of a server, moved by the test: a small library is preloaded into the server's process.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};

use tollgate::Timestamp;

/// The wall clock of one server. It runs as the system's does until it is moved.
///
/// Whatever the server does by wall time follows: `TIME`, expiry, the clock of its scripts. Its own timers do not,
/// so a server whose clock stands still goes on answering.
#[derive(Debug)]
pub struct ServerClock {
    link: PathBuf,
    library: PathBuf,
    reading: Mutex<ServedTime>,
}

/// In microseconds, as the server reads it.
#[derive(Debug, Clone, Copy)]
enum ServedTime {
    /// The system's clock and so much more.
    Beside(i64),
    /// This instant, for as long as it is not moved.
    Still(i64),
}

/// A library that a process takes functions from before it takes the system's.
const SOURCE: &str = include_str!("clock.c");

impl ServerClock {
    /// Puts a clock into the folder.
    pub(super) fn new(folder: &Path) -> Self {
        let library = folder.join("clock.so");
        fs::write(&library, compiled()).expect("the server's own folder");
        let clock = Self { link: folder.join("clock"), library, reading: Mutex::new(ServedTime::Beside(0)) };
        clock.write(ServedTime::Beside(0));
        clock
    }

    /// Stops it at this instant.
    pub fn set(&self, time: Timestamp) {
        let still = ServedTime::Still(time.as_unix_millis() * 1000);
        self.replace(|_| still);
    }

    /// Moves it by so many milliseconds, back if they are negative. It goes on standing still if it did, else it
    /// goes on running.
    pub fn step(&self, millis: i64) {
        self.replace(|reading| match reading {
            ServedTime::Beside(offset) => ServedTime::Beside(offset + millis * 1000),
            ServedTime::Still(time) => ServedTime::Still(time + millis * 1000),
        });
    }

    /// Lets it run as the system's clock does.
    pub fn follow_the_system(&self) {
        self.replace(|_| ServedTime::Beside(0));
    }

    /// Makes the program that the command starts read this clock.
    pub(super) fn preload(&self, command: &mut Command) {
        command.env("LD_PRELOAD", &self.library).env("TOLLGATE_CLOCK", &self.link);
    }

    fn replace(&self, next: impl FnOnce(ServedTime) -> ServedTime) {
        let mut reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        *reading = next(*reading);
        self.write(*reading);
    }

    fn write(&self, reading: ServedTime) {
        let text = match reading {
            ServedTime::Beside(offset) => offset.to_string(),
            ServedTime::Still(time) => format!("@{time}"),
        };
        let new = self.link.with_extension("new");
        symlink(text, &new).expect("the server's own folder");
        fs::rename(&new, &self.link).expect("the server's own folder");
    }
}

/// The library, compiled once a process by the system's C compiler.
fn compiled() -> &'static [u8] {
    static LIBRARY: OnceLock<Vec<u8>> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (source, library) = (folder.path().join("clock.c"), folder.path().join("clock.so"));
        fs::write(&source, SOURCE).expect("a new folder can be written to");
        let mut compiler = Command::new("cc");
        compiler.args(["-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o"]).args([&library, &source]);
        let output = compiler.output().unwrap_or_else(|error| {
            panic!("cannot run cc ({error}), which makes the clock of a server: sudo apt-get install gcc libc6-dev")
        });
        assert!(output.status.success(), "cc failed:\n{}", String::from_utf8_lossy(&output.stderr));
        fs::read(&library).expect("cc has written it")
    })
}
