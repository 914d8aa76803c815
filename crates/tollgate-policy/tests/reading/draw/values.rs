//! Values of attributes: few and similar.

use super::{ALPHABET, Draw, WORDS};
use crate::address::Address;

impl Draw {
    /// Draws a value for the file, which requests will then use as well.
    pub(super) fn noted(&mut self, name: &str) -> String {
        let value = self.value_of(name);
        self.near.push((name.to_owned(), value.clone()));
        value
    }

    pub(super) fn value_near(&mut self, name: &str) -> Option<String> {
        let near: Vec<usize> = (0..self.near.len()).filter(|at| self.near[*at].0 == name).collect();
        self.random.choice(&near).map(|at| self.near[*at].1.clone())
    }

    pub(super) fn value_of(&mut self, name: &str) -> String {
        match (name, self.random.u32(..10)) {
            ("method", 0..8) => self.pick(&WORDS[..5]).to_owned(),
            ("ip", 0..9) => self.address(),
            ("units", 0..8) => {
                let numbers = ["0", "1", "7", "007", "40", "99999999999999999999999", "-1", "+3", "3.0", ""];
                self.pick(&numbers).to_owned()
            }
            ("path", 0..8) => format!("/{}", self.text()),
            (_, 0) => self.address(),
            (_, 1 | 2) => self.pick(&WORDS).to_owned(),
            _ => self.text(),
        }
    }

    fn text(&mut self) -> String {
        let length = self.random.usize(..6);
        let usual = if self.once_in(3) { ALPHABET.len() } else { 6 };
        (0..length).map(|_| ALPHABET[self.random.usize(..usual)]).collect()
    }

    /// Returns a path that is the second one if its dot segments are removed, and begins like the first.
    pub(super) fn detour(&mut self, first: &str, second: &str) -> String {
        let up = *self.random.choice(&["/..", "/%2e%2E", "%2f.."]).expect("there are some");
        let steps = first.split('/').filter(|segment| !matches!(*segment, "" | "." | "..")).count();
        format!("{}{}{second}", first.trim_end_matches('/'), up.repeat(steps))
    }

    /// Returns a slightly different value, or the same in another spelling.
    pub(super) fn damaged(&mut self, value: &str) -> String {
        let at =
            (0..=self.random.usize(..=value.len())).rev().find(|at| value.is_char_boundary(*at)).unwrap_or(0);
        let (before, after) = value.split_at(at);
        let pieces =
            ["", "/", "//", "/./", "/../", ".", "%2F", "%61", "%C3%A9", "%C3", "%ff", "%", "a", "\n"];
        match self.random.u32(..5) {
            0..3 => format!("{before}{}{after}", self.pick(&pieces)),
            3 => value.to_uppercase(),
            _ => before.to_owned(),
        }
    }

    fn address(&mut self) -> String {
        let (ipv4, ipv6) = (self.ipv4(), self.ipv6());
        let plain = Address::of(&ipv4).spelled();
        match self.random.u32(..12) {
            0..5 => plain,
            5 => format!("::ffff:{plain}"),
            6 => format!(
                "0:0::FFFF:{:02x}{:02x}:{:x}",
                ipv4[0],
                ipv4[1],
                u16::from(ipv4[2]) << 8 | u16::from(ipv4[3])
            ),
            7 => format!("64:ff9b::{plain}"),
            8 => Address::of(&ipv6).spelled(),
            9 => {
                let groups = ipv6.chunks(2).map(|pair| format!("{:02X}{:02X}", pair[0], pair[1]));
                groups.collect::<Vec<_>>().join(":")
            }
            10 => format!("{plain}:80"),
            _ => {
                let nearly = [
                    "10.0.0",
                    "10.0.0.256",
                    "010.0.0.1",
                    ":::",
                    "::1::",
                    "fe80::1%eth0",
                    "1:2:3:4:5:6:7::",
                    "::",
                ];
                self.pick(&nearly).to_owned()
            }
        }
    }

    pub(super) fn ipv4(&mut self) -> [u8; 4] {
        let any = self.random.u32(..).to_be_bytes();
        if self.once_in(6) { any } else { [10, any[1] % 3, 0, any[3] % 4] }
    }

    pub(super) fn ipv6(&mut self) -> [u8; 16] {
        let any = self.random.u128(..).to_be_bytes();
        let mut few =
            [0x20, 0x01, 0x0d, 0xb8, 0, any[5] % 3, 0, any[7] % 2, 0, 0, 0, 0, 0, 0, 0, any[15] % 4];
        if self.once_in(8) {
            few[..8].fill(0);
        }
        if self.once_in(6) { any } else { few }
    }
}
