//! The probable kind of a client.

use std::hash::Hasher as _;

use serde::Serialize;
use siphasher::sip::SipHasher13;
use smallvec::SmallVec;

use crate::limits::setters::is_failing;

/// Parts of the names that robots and libraries give themselves, in lower case. Apps of Android call themselves `okhttp`, so
/// these are people.
const ROBOTS: [&str; 31] = [
    "bot",
    "crawl",
    "spider",
    "slurp",
    "curl/",
    "wget/",
    "python-",
    "python/",
    "go-http-client",
    "java/",
    "httpclient",
    "scrapy",
    "headless",
    "libwww",
    "node-fetch",
    "axios",
    "postman",
    "facebookexternalhit",
    "monitor",
    "uptime",
    "pingdom",
    "preview",
    "feed",
    "scan",
    "check",
    "fetch",
    "archive",
    "validator",
    "-google",
    // Where one reads about the robot.
    "http://",
    "https://",
];

/// Programs after which one address seems to be shared by many people.
const SHARED: usize = 5;

/// The probable kind of a client. It has no effect by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Kind {
    /// One person or program.
    Single,
    /// Five programs or more: perhaps an office, a school or a mobile network.
    Shared,
    /// A program that calls itself a robot or a library.
    Robot,
    /// Over half of its requests were answered with a status from 400 to 499.
    Failing,
    /// It is in the list of known clients.
    Known,
}

impl Kind {
    /// All kinds, in the order of reports.
    pub(super) const ALL: [Self; 5] = [Self::Known, Self::Single, Self::Shared, Self::Robot, Self::Failing];

    /// In words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Single => "single clients",
            Self::Shared => "shared addresses",
            Self::Robot => "robots",
            Self::Failing => "mostly errors",
            Self::Known => "known clients",
        }
    }

    /// The same for one client.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Single => "single client",
            Self::Shared => "shared address",
            Self::Robot => "robot",
            Self::Failing => "mostly errors",
            Self::Known => "known client",
        }
    }

    /// Returns whether limits against abuse should be computed without this kind.
    pub(super) const fn is_suspect(self) -> bool {
        matches!(self, Self::Robot | Self::Failing)
    }
}

/// The data about a client that shows its kind.
#[derive(Debug, Clone, Default)]
pub(super) struct Traits {
    pub(super) requests: u32,
    pub(super) failed: u32,
    is_robot: bool,
    pub(super) is_known: bool,
    programs: SmallVec<[u32; 2]>,
}

impl Traits {
    pub(super) fn note(&mut self, status: Option<u16>, user_agent: Option<&[u8]>) {
        self.requests = self.requests.saturating_add(1);
        let is_failed = status.is_some_and(|status| (400..500).contains(&status));
        self.failed = self.failed.saturating_add(u32::from(is_failed));
        let Some(user_agent) = user_agent.filter(|_| self.programs.len() < SHARED) else { return };
        let mut hasher = SipHasher13::new();
        hasher.write(user_agent);
        let program = hasher.finish() as u32;
        if !self.programs.contains(&program) {
            self.programs.push(program);
            self.is_robot |= is_robot(&String::from_utf8_lossy(user_agent));
        }
    }

    pub(super) fn kind(&self) -> Kind {
        if self.is_known {
            Kind::Known
        } else if self.is_robot {
            Kind::Robot
        } else if is_failing(self.requests.into(), self.failed.into()) {
            Kind::Failing
        } else if self.programs.len() >= SHARED {
            Kind::Shared
        } else {
            Kind::Single
        }
    }
}

fn is_robot(user_agent: &str) -> bool {
    let user_agent = user_agent.to_ascii_lowercase();
    ROBOTS.iter().any(|part| user_agent.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(requests: &[(u16, &str)]) -> Kind {
        let mut traits = Traits::default();
        requests.iter().for_each(|(status, program)| traits.note(Some(*status), Some(program.as_bytes())));
        traits.kind()
    }

    /// Of a list that others keep, two fifths were taken for people.
    #[test]
    fn most_known_robots_are_told_and_browsers_are_none() {
        let known = include_str!("../../tests/robots/user-agents.txt");
        let (robots, others): (Vec<&str>, Vec<&str>) = known.lines().partition(|line| is_robot(line));
        assert!(robots.len() >= 4 * others.len(), "{} are told, {} are not", robots.len(), others.len());
        let browsers = [
            "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
            "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36",
            "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36 \
             Edg/142.0.0.0",
            "Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.6 \
             Mobile/15E148 Safari/604.1",
            "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) SamsungBrowser/28.0 Chrome/130.0.0.0 \
             Mobile Safari/537.36",
            "okhttp/4.12.0",
            "Opera/9.80 (Windows NT 6.1; WOW64) Presto/2.12.388 Version/12.18",
        ];
        assert!(browsers.iter().all(|browser| !is_robot(browser)));
    }

    #[test]
    fn kinds_are_told_by_programs_and_errors() {
        let firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
        assert_eq!(kind(&[(200, firefox); 30]), Kind::Single);
        assert_eq!(kind(&[(404, firefox); 19]), Kind::Single);
        assert_eq!(kind(&[(404, firefox); 20]), Kind::Failing);
        assert_eq!(kind(&[(200, "Googlebot/2.1"), (200, firefox)]), Kind::Robot);
        let programs: Vec<String> = (0..5).map(|version| format!("Mozilla/5.{version}")).collect();
        let requests: Vec<(u16, &str)> = programs.iter().map(|program| (200, program.as_str())).collect();
        assert_eq!((kind(&requests), kind(&requests[..4])), (Kind::Shared, Kind::Single));
    }
}
