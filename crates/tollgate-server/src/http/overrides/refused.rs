//! Why a request about overrides is refused.

use tollgate_policy::{InertReason, OverrideTargetError};
use tollgate_redis::RecordMatch;
use tollgate_wire::body::TimeText;

use crate::answer::override_refusal::{CurrentOverride, OverrideRefusal};
use crate::answer::rejection::{Rejection, Repeat};
use crate::answer::rejection_kind::RejectionKind;
use crate::overrides::OverridesError;

/// There is no override for these requests.
pub(super) fn not_there() -> Rejection {
    Rejection::override_refused(OverrideRefusal::NoOverride, "there is no such override")
}

/// The policy exempts or denies what it matches.
pub(super) fn counts_nothing(policy: &str) -> Rejection {
    let detail = format!("policy `{policy}` counts nothing, so it has no limits to override");
    Rejection::override_refused(OverrideRefusal::CountsNothing, detail).at("policy")
}

/// There is no such policy among those that the caller knows.
pub(super) fn no_policy<'a>(written: &str, known: impl Iterator<Item = &'a str>) -> Rejection {
    let meant = nearest(written, known).map(|name| format!("did you mean `{name}`?"));
    let meant = meant.unwrap_or_else(|| "`GET /v1/policies` lists them.".to_owned());
    let detail = format!(
        "there is no policy `{written}`: {meant} The override of a policy that is gone is named by its `id`"
    );
    Rejection::override_refused(OverrideRefusal::NoPolicy, detail).at("policy")
}

/// A policy cannot have an override for these requests.
pub(super) fn target(error: OverrideTargetError) -> Rejection {
    let detail = error.to_string();
    let at = |attribute: &str| Rejection::bad_field(format!("attributes.{attribute}"), detail.clone());
    match &error {
        OverrideTargetError::CountsNothing(policy) => counts_nothing(policy),
        OverrideTargetError::NoPartOfKey { attribute, .. }
        | OverrideTargetError::Twice(attribute)
        | OverrideTargetError::NotAlone(attribute)
        | OverrideTargetError::Address(attribute)
        | OverrideTargetError::UnknownAttribute(attribute)
        | OverrideTargetError::Text(attribute) => at(attribute),
        OverrideTargetError::Path => at("path"),
        _ => Rejection::bad_field("attributes", detail),
    }
}

/// The override is not as the condition of a change requires.
pub(super) fn mismatch(current: CurrentOverride, matching: RecordMatch) -> Rejection {
    let detail = match (&current.current, matching) {
        (None, RecordMatch::Any) => return not_there(),
        (None, _) => "there is no such override any more, so nothing was changed",
        (Some(_), RecordMatch::Absent) => "there is an override already; nothing was changed",
        (Some(_), _) => {
            "there is another override than the one that the condition names; nothing was changed"
        }
    };
    Rejection::override_refused(OverrideRefusal::PreconditionFailed, detail).with_current(current)
}

/// A change was not made, or it is unknown whether it was.
pub(super) fn change(error: OverridesError) -> Rejection {
    let refused = |refusal| Rejection::override_refused(refusal, error.to_string());
    match &error {
        OverridesError::NoPlace => refused(OverrideRefusal::NoStateDir),
        OverridesError::Off => refused(OverrideRefusal::OverridesOff),
        OverridesError::TooMany(_) => refused(OverrideRefusal::TooManyOverrides),
        OverridesError::EndPassed { now } => {
            let detail = format!("this time has passed: by the store's clock, it is {}", TimeText(*now));
            Rejection::bad_field("until", detail)
        }
        OverridesError::Mismatch { .. } => not_there(),
        OverridesError::Unfit(reason) => unfit(reason),
        OverridesError::NotLive => {
            let detail = "the override was changed, but this process could not read the change back from the store yet";
            Rejection::new(RejectionKind::OutcomeUnknown, detail).repeating(Repeat::Never)
        }
        // The log has the reason, which names addresses and files.
        error if error.may_be_made() => {
            let detail = "whether the override was changed is unknown, because the answer was lost: look at it with \
                          `/v1/overrides/get`; or repeat the change with `If-Match`, which makes it at most once";
            Rejection::new(RejectionKind::OutcomeUnknown, detail).repeating(Repeat::Never)
        }
        OverridesError::Store { .. } => Rejection::new(
            RejectionKind::StoreUnavailable,
            "the store cannot answer, and nothing was changed; the log has the reason",
        ),
        OverridesError::Journal { .. } => {
            let detail = "the change cannot be written to `--state-dir`, and nothing was changed; the log has the reason";
            Rejection::new(RejectionKind::StoreUnavailable, detail)
        }
    }
}

/// The override would apply to no request.
fn unfit(reason: &InertReason) -> Rejection {
    match reason {
        InertReason::NoPolicy(policy) => no_policy(policy, std::iter::empty()),
        InertReason::CountsNothing(policy) => counts_nothing(policy),
        InertReason::OtherKey { .. } => Rejection::conflict("policy", reason.to_string()),
        InertReason::Target(error) => target(error.clone()),
        _ => Rejection::bad_field("quotas", reason.to_string()),
    }
}

/// Returns the name that was probably meant: it differs in at most two fifths of the longer one.
fn nearest<'a>(written: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let distances = known.map(|name| (strsim::osa_distance(written, name), name));
    let nearest = distances.min_by_key(|(distance, _)| *distance);
    let is_near = |(distance, name): &(usize, &str)| 5 * distance <= 2 * name.len().max(written.len());
    nearest.filter(is_near).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_policy_that_was_probably_meant() {
        let known = || ["search", "login"].into_iter();
        assert_eq!(nearest("serch", known()), Some("search"));
        assert_eq!(nearest("exports", known()), None);
        let detail = no_policy("serch", known());
        assert!(detail.detail().contains("did you mean `search`?"), "{}", detail.detail());
        let detail = no_policy("exports", known());
        assert!(
            detail.detail().contains("`exports`: `GET /v1/policies` lists them. The"),
            "{}",
            detail.detail()
        );
    }
}
