//! Notes in words.

use std::fmt;

use super::number::{DAY, counted, grouped, lasting, moment};
use super::share::percent;
use crate::hit::MAX_ATTRIBUTE_BYTES;
use crate::quoted::code;
use crate::report::{LostQuota, Note};

/// The most policies or quotas that a note lists.
const LISTED: usize = 5;

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OfLogs(note) => f.write_str(note),
            Self::DeniedClientsContinue => f.write_str(
                "A denied client would have waited, retried or left; here it continues as in the log.",
            ),
            Self::CachedRequests => f.write_str("Caches in front of the server hide requests."),
            Self::SharedAddresses => {
                f.write_str("One address may be an office or a mobile network with many people behind it.")
            }
            Self::RefusedInLog { refused, requests } => write!(
                f,
                "{} ({}) {} answered 429 or 503 when the log was written: it shows traffic under limits that were \
                 there already.",
                counted(*refused, "request"),
                percent(*refused, *requests),
                if *refused == 1 { "was" } else { "were" }
            ),
            Self::OutOfOrder { requests } => write!(
                f,
                "{requests} requests were logged after later ones, and were replayed at the time of those."
            ),
            Self::FollowedClients { one_in, is_short_of_class_bytes } => write!(
                f,
                "{} Figures about clients and windows, and the denials of other limits computed from them, are \
                 estimates from one client in {one_in}; denied requests are counted exactly.",
                if *is_short_of_class_bytes {
                    "Fewer clients are followed than --max-clients allows: there are too many policies and classes to \
                     follow more."
                } else {
                    "There are more clients than --max-clients."
                }
            ),
            Self::IdlePolicies { policies, has_undecided } => {
                f.write_str(&idle_policies(policies))?;
                f.write_str(if *has_undecided {
                    " Requests that would be answered with an error count for no policy."
                } else {
                    ""
                })
            }
            Self::SkippedInFlight { policies } => write!(
                f,
                "Limits in flight were skipped, because a log does not say when each request ends: {}. Other quotas of \
                 these policies were counted.",
                listed(policies.iter().map(|policy| code(policy)))
            ),
            Self::UnchargedShadows { policies } => {
                let each = |(policy, requests): &(String, u64)| {
                    format!("{} ({})", code(policy), counted(*requests, "request"))
                };
                write!(
                    f,
                    "Policies in shadow mode charge nothing for requests that another policy denies: {}. To see what \
                     their quotas deny in place of that policy's, make them its `candidate`.",
                    listed(policies.iter().map(each))
                )
            }
            Self::EmptyClass { class } => write!(f, "No request is in the class {}.", code(class)),
            Self::MissingExamples => f.write_str(
                "So many clients are denied that not every first path and program is kept: those in the lists may be \
                 from a later request, or missing.",
            ),
            Self::UnmeasuredBursts { quotas } => write!(
                f,
                "The most admitted in any interval was not measured for {}: there were more admissions in a window's \
                 length than are remembered.",
                counted(*quotas, "quota")
            ),
            Self::NoTriedLimits => f.write_str(
                "Where several quotas decide together, only the policies' limit was tried; --try-limits tries others.",
            ),
            Self::FewTriedLimits { tried, quotas, most } => write!(
                f,
                "Other limits were tried for {tried} of {quotas} quotas that do not decide alone: at most {most} are \
                 tried for all quotas together."
            ),
            Self::LostLimits { limits, max_bytes } => write!(
                f,
                "The curves lack limits whose counters had no room: {}. There is room for {} MiB of counters; a smaller \
                 --try-limits or a larger --max-clients leaves more.",
                limits.iter().map(lost_quota).collect::<Vec<_>>().join(", "),
                max_bytes >> 20
            ),
            Self::NoTriedKinds => f.write_str("No other kinds of quotas were tried; --try-limits tries them."),
            Self::FewTriedKinds { tried, kinds } => write!(
                f,
                "There was room to try {tried} of {kinds} other kinds of quotas. A file with fewer policies leaves more."
            ),
            Self::LostKinds { kinds, max_bytes } => write!(
                f,
                "The report lacks kinds whose counters had no room: {}. There is room for {} MiB of counters; a larger \
                 --max-clients leaves more.",
                listed(kinds.iter().map(lost_quota)),
                max_bytes >> 20
            ),
            Self::ImpossibleKinds { quotas } => {
                let each = |(policy, quota, kinds): &(String, String, Vec<&str>)| {
                    format!("{} {quota} ({})", code(policy), kinds.join(", "))
                };
                write!(
                    f,
                    "Some kinds were not tried, because the limit is too large for them or the policy has such a quota \
                     already: {}.",
                    listed(quotas.iter().map(each))
                )
            }
            Self::FixedKinds { quotas } => write!(
                f,
                "No other kinds were tried for {}: of policies with overrides, with the limit 0 or one that comes from \
                 requests, or with windows of the calendar.",
                counted(*quotas, "quota")
            ),
            Self::MetPolicies { policies } => {
                let each = |(policy, requests): &(String, u64)| {
                    format!("{} ({})", code(policy), counted(*requests, "request"))
                };
                write!(
                    f,
                    "There are no other limits and kinds of policies that usually decide alone, but met another one in a \
                     request with several values, such as the path `/a/..%2fb` with its two readings: {}.",
                    listed(policies.iter().map(each))
                )
            }
            Self::FixedOverrides { quotas } => write!(
                f,
                "No other limits were tried for {} of overrides. They keep their limits while others are tried for \
                 their policy.",
                counted(*quotas, "quota")
            ),
            Self::StatedLimits => {
                f.write_str("No other limits were tried for limits that come from requests.")
            }
            Self::LongGaps { all, longest, from } => write!(
                f,
                "There is no request in {} of the period; the longest gap lasts {} and begins at {}. This time is not \
                 counted as part of the period. If a clock was wrong there, leave it out by --from and --to.",
                lasting(all.as_secs_f64()),
                lasting(longest.as_secs_f64()),
                moment(from)
            ),
            Self::NoWeekends => f.write_str(
                "Nearly all minutes with requests are from Monday to Friday. Traffic at weekends may differ: take a \
                 log of both.",
            ),
            Self::NoKnownClients { attribute } => write!(
                f,
                "No counted request comes from a client of --known: none has its {} in that list.",
                code(attribute)
            ),
            Self::ShortPeriod { days } => write!(
                f,
                "The period lasts {}. Traffic differs between weekdays and weekends: take a week or more.",
                lasting(days * DAY)
            ),
            Self::FewHeldOutClients { clients, per } => write!(
                f,
                "The held-out part has only {}, too few to try a limit on.",
                counted(*clients, per.words())
            ),
            Self::WithoutKey { requests, key } => {
                write!(f, "{requests} requests have no {key} and are not counted.")
            }
            Self::UndecidedRequests { requests } => write!(
                f,
                "{} requests are not counted, because the service answers them as errors: an attribute is not UTF-8, \
                 or has more than {} bytes.",
                grouped(*requests),
                grouped(MAX_ATTRIBUTE_BYTES.get() as u64)
            ),
            Self::SurveyedClients { one_in } => write!(
                f,
                "There are more clients than --max-clients, so only one in {one_in} is followed; a larger \
                 --max-clients follows more."
            ),
            Self::DependentClients => f.write_str(
                "Clients return and days differ, so clients are not independent draws: the held-out part is the \
                 better evidence.",
            ),
        }
    }
}

fn idle_policies(policies: &[String]) -> String {
    let names: Vec<String> = policies.iter().map(|name| code(name)).collect();
    let (listed, others) = names.split_at(names.len().min(LISTED));
    let listed = listed.join(", ");
    if let [_] = policies {
        return format!(
            "The policy {listed} counts no request. Check its conditions, and whether its key is in the log."
        );
    }
    let others = match others.len() {
        0 => String::new(),
        others => format!(" and {}", counted(others as u64, "other")),
    };
    format!(
        "These policies count no request: {listed}{others}. Check their conditions, and whether their keys are in the \
         log."
    )
}

fn lost_quota(LostQuota { policy, tried, quota }: &LostQuota) -> String {
    format!("{} with {tried} in place of {quota}", code(policy))
}

/// The first of some texts, and how many more there are.
fn listed(texts: impl ExactSizeIterator<Item = String>) -> String {
    let more = texts.len().saturating_sub(LISTED) as u64;
    let others = if more > 0 { format!(" and {}", counted(more, "other")) } else { String::new() };
    texts.take(LISTED).collect::<Vec<_>>().join(", ") + &others
}
