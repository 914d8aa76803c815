//! Pairs of policies that share all requests between them, and every kind of value that tells them apart.
//!
//! Every limit is 1, so a request that is counted is not admitted twice. Tests play each pair over each kind of value
//! at every door, and show that each request is counted, denied or an error: no value is a way past both policies.

/// The attribute on which the pairs depend.
pub const ATTRIBUTE: &str = "header.x-key";

/// The pair whose second policy denies: a request is admitted once if a key can use its value, and denied if the value
/// counts as missing.
pub const TELLING: &str = "
policies:
  - { name: keyed, key: [header.x-key], quotas: [1/1d@first_hit], on_missing_key: skip }
  - { name: anonymous, match: { header.x-key: { absent: true } }, key: [ip], quotas: [0/1d], deny_status: 403 }
";

/// Policy files in which no request without its key is an error.
pub const PAIRS: &[&str] = &[
    TELLING,
    "
policies:
  - { name: keyed, key: [header.x-key], quotas: [1/1d@first_hit], on_missing_key: skip }
  - { name: anonymous, match: { header.x-key: { absent: true } }, key: [ip], quotas: [1/1d@first_hit] }
",
    "
policies:
  - { name: keyed, match: { header.x-key: { present: true } }, key: [header.x-key], quotas: [1/1d@first_hit] }
  - { name: anonymous, match: { header.x-key: { absent: true } }, key: [ip], quotas: [1/1d@first_hit] }
",
    "
policies:
  - { name: keyed, match: { header.x-key: { not: { absent: true } } }, key: [header.x-key], quotas: [1/1d@first_hit] }
  - { name: anonymous, match: { header.x-key: { not: { present: true } } }, key: [ip], quotas: [1/1d@first_hit] }
",
    "
policies:
  - name: keyed
    match: { header.x-key: '*' }
    key: [header.x-key, ip]
    quotas: [1/1d@first_hit]
    on_missing_key: skip
  - name: anonymous
    match: { any: [{ header.x-key: { absent: true } }, { user: { present: true } }] }
    key: [ip]
    quotas: [1/1d@first_hit]
",
    "
policies:
  - name: keyed
    key: [{ address: header.x-key }]
    quotas: [1/1d@first_hit]
    on_missing_key: skip
  - { name: anonymous, match: { header.x-key: { absent: true } }, key: [ip], quotas: [1/1d@first_hit] }
",
    "
policies:
  - { name: keyed, key: [header.x-key], quotas: [1/1d@first_hit], on_missing_key: deny, deny_status: 403 }
",
    "
policies:
  - { name: either, key: { first_of: [header.x-key, ip] }, quotas: [1/1d@first_hit] }
",
    "
policies:
  - name: overridden
    key: { first_of: [header.x-key, ip] }
    quotas: [0/1d]
    overrides: [{ when: { header.x-key: { present: true } }, quotas: [1/1d@first_hit] }]
",
    "
tiers: { free: [1/1d@first_hit], none: [0/1d] }
policies:
  - { name: tier, key: [ip], quotas: { tier: header.x-key, default: free } }
",
    "
policies:
  - { name: cost, key: [ip], quotas: [1/1d@first_hit], cost: { attribute: header.x-key, max: 5, on_missing: 1 } }
",
];

/// Policy files in which a request without its key is an error.
pub const STRICT: &[&str] = &[
    "
policies:
  - { name: keyed, key: [header.x-key], quotas: [1/1d@first_hit] }
  - { name: anonymous, match: { header.x-key: { absent: true } }, key: [ip], quotas: [1/1d@first_hit] }
",
    "
policies:
  - { name: keyed, match: { header.x-key: '*' }, key: [header.x-key], quotas: [1/1d@first_hit] }
  - { name: anonymous, match: { header.x-key: { absent: true } }, key: [ip], quotas: [1/1d@first_hit] }
",
];

/// A kind of value: the lines of a header. `#` stands for a digit, so that each door has its own counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell {
    /// Its name in the manual.
    pub name: &'static str,
    lines: &'static [&'static [u8]],
}

const fn cell(name: &'static str, lines: &'static [&'static [u8]]) -> Cell {
    Cell { name, lines }
}

/// All of them.
pub const CELLS: &[Cell] = &[
    cell("none", &[]),
    cell("empty", &[b""]),
    cell("one string", &[b"a#"]),
    cell("an address", &[b"192.0.2.#"]),
    cell("two lines", &[b"a#", b"b#"]),
    cell("two equal lines", &[b"a#", b"a#"]),
    cell("an empty line and another", &[b"", b"a#"]),
    cell("not UTF-8", &[b"\xff#"]),
    cell("two lines, one of them not UTF-8", &[b"a#", b"\xff#"]),
    cell("too long", &[LONG]),
    cell("two lines, one of them too long", &[LONG, b"a#"]),
];

/// Longer than the default of `--max-attribute-bytes`, and shorter than a line of a header may be.
const LONG: &[u8] = &{
    let mut long = [b'x'; 1_100];
    long[1_099] = b'#';
    long
};

impl Cell {
    /// Returns the lines at this door.
    #[must_use]
    pub fn lines(&self, door: u8) -> Vec<Vec<u8>> {
        let digit = b'0' + door;
        let line = |line: &&[u8]| line.iter().map(|byte| if *byte == b'#' { digit } else { *byte }).collect();
        self.lines.iter().map(line).collect()
    }
}

/// What has become of two equal requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChargeFate {
    /// The first was admitted, and the second denied.
    Counted,
    /// Both were denied.
    Denied,
    /// Both were errors of the caller.
    Error,
    /// Both were admitted.
    Uncounted,
}

impl ChargeFate {
    /// Returns the fate of two requests with these statuses.
    ///
    /// # Panics
    ///
    /// If a status is not that of an admission, a denial or a caller's error.
    #[must_use]
    pub fn of(statuses: [u16; 2]) -> Self {
        match statuses {
            [200, 200] => Self::Uncounted,
            [200, 403 | 429] => Self::Counted,
            [403 | 429, 403 | 429] => Self::Denied,
            [400, 400] => Self::Error,
            others => panic!("statuses {others:?}"),
        }
    }
}
