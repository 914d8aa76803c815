//! Builds the key of a counter from a layout and a window.

use std::io::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

use tollgate::{Key, PolicyQuota, StoreError, Timestamp, Window, WindowLength};

use super::{KeyLayout, TemplatePart, WindowForm};
use crate::key_values::{KeyValue, parse};

/// A layout for a store with this prefix.
#[derive(Debug)]
pub(crate) struct LayoutNaming {
    layout: KeyLayout,
    prefix: Box<str>,
    /// The bytes that are escaped in each value, in the order of the template.
    reserved: Box<[Box<[u8]>]>,
    slots: Slots,
}

/// The slots of one key's counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slots {
    /// All of them in one, as on every single server.
    OneEachKey,
    /// Each in its own, and the next window's in yet another.
    OneEachCounter,
}

/// A value of a key as it is read.
pub(crate) type ValueText = Box<[u8]>;

/// The bytes that choose the slot of a key.
const BRACES: &[u8] = b"{}";

const UNFIT_QUOTA: StoreError =
    StoreError::Uncountable("the key layout does not support the quota's windows");
const UNFIT_KEY: StoreError = StoreError::Uncountable(
    "the key layout needs a name for every value of a key, and a text for every value",
);

impl LayoutNaming {
    pub(crate) fn new(layout: KeyLayout, prefix: &str) -> Self {
        let reserved = layout.reserved(if layout.has_braces() { BRACES } else { &[] });
        Self { layout, prefix: prefix.into(), reserved, slots: Slots::OneEachKey }
    }

    /// The same for a Cluster. There, braces in a value would choose the slot, so clients that choose values could
    /// overload one server.
    pub(crate) fn on_cluster(self) -> Self {
        let keeps_to_slot = self.layout.keeps_to_slot(&self.prefix);
        let slots = if keeps_to_slot { Slots::OneEachKey } else { Slots::OneEachCounter };
        Self { reserved: self.layout.reserved(BRACES), slots, ..self }
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns the beginning of all keys.
    pub(crate) fn head(&self) -> Vec<u8> {
        let mut head = Vec::new();
        for piece in self.layout.pieces.iter() {
            match piece {
                TemplatePart::Text(text) => head.extend_from_slice(text.as_bytes()),
                TemplatePart::Prefix => head.extend_from_slice(self.prefix.as_bytes()),
                _ => break,
            }
        }
        head
    }

    /// Returns whether all counters of one key are always in one slot.
    pub(crate) fn has_slot_for_each_key(&self) -> bool {
        self.slots == Slots::OneEachKey
    }

    /// Returns whether policies have separate counters.
    pub(crate) fn names_policy(&self) -> bool {
        self.layout.pieces.contains(&TemplatePart::Policy)
    }

    /// The length of the quota's windows in milliseconds, if they can be named.
    pub(crate) fn length(&self, quota: &PolicyQuota) -> u128 {
        match quota.quota().window() {
            WindowLength::Fixed(length) => length.as_millis(),
            _ => 0,
        }
    }

    /// Returns a key for probes, with the number of values that the layout needs.
    pub(crate) fn probe(&self, number: u64) -> Key<'static> {
        let probe = format!("tollgate-probe-{number}");
        Key::parts(std::iter::repeat_n(probe.as_str(), self.layout.values().unwrap_or(2)))
    }

    /// The window of the quota that is open then, if it can be named.
    pub(crate) fn window(&self, quota: &PolicyQuota, now: Timestamp) -> Result<Window, StoreError> {
        self.layout.validate(quota.quota()).map_err(|_| UNFIT_QUOTA)?;
        // Windows that are aligned to the epoch are the same for every key.
        Ok(quota.quota().window_at(&Key::from(""), now))
    }

    /// The key of a log, which is the same without the window, and the length of its windows in milliseconds.
    pub(crate) fn sorted_log(
        &self,
        quota: &PolicyQuota,
        values: Option<&[ValueText]>,
    ) -> Result<(Box<[u8]>, u64), StoreError> {
        self.layout.validate(quota.quota()).map_err(|_| UNFIT_QUOTA)?;
        let ([value], Ok(length)) = (values.ok_or(UNFIT_KEY)?, u64::try_from(self.length(quota))) else {
            return Err(UNFIT_KEY);
        };
        let mut name = self.head();
        // Nothing follows the value, so its end needs no escape.
        let braces = |byte: &&u8| BRACES.contains(byte);
        let reserved: Vec<u8> = self.reserved.iter().flatten().filter(braces).copied().collect();
        self.write(&mut name, value, &reserved);
        Ok((name.into_boxed_slice(), length))
    }

    /// The key of the counter in this window.
    pub(crate) fn name(
        &self,
        quota: &PolicyQuota,
        values: Option<&[ValueText]>,
        window: Window,
    ) -> Result<Box<[u8]>, StoreError> {
        let (mut values, mut name) = (values.ok_or(UNFIT_KEY)?.iter(), Vec::with_capacity(64));
        let mut reserved = self.reserved.iter();
        let mut reserved = || reserved.next().map_or(&[][..], |bytes| bytes);
        for piece in self.layout.pieces.iter() {
            let value = match piece {
                TemplatePart::Text(text) => {
                    name.extend_from_slice(text.as_bytes());
                    continue;
                }
                TemplatePart::Prefix => {
                    name.extend_from_slice(self.prefix.as_bytes());
                    continue;
                }
                TemplatePart::Window(form) => {
                    let _ = write!(name, "{}", form.number(window));
                    continue;
                }
                TemplatePart::Rest => {
                    let (first, rest) = values.as_slice().split_first().ok_or(UNFIT_KEY)?;
                    let reserved = reserved();
                    self.write(&mut name, first, reserved);
                    for value in rest {
                        name.push(b'_');
                        self.write(&mut name, value, reserved);
                    }
                    values = [].iter();
                    continue;
                }
                TemplatePart::Policy => quota.policy().as_bytes(),
                TemplatePart::Windows => quota.windows().as_bytes(),
                TemplatePart::Value(_) => values.next().ok_or(UNFIT_KEY)?,
            };
            self.write(&mut name, value, reserved());
        }
        if values.next().is_some() {
            return Err(UNFIT_KEY);
        }
        Ok(name.into_boxed_slice())
    }

    fn write(&self, name: &mut Vec<u8>, value: &[u8], reserved: &[u8]) {
        // A server takes braces around nothing for text, and would choose the slot by the whole key.
        if value.is_empty() && self.layout.has_braces() {
            name.push(b'%');
        }
        for byte in value {
            if reserved.contains(byte) {
                let _ = write!(name, "%{byte:02X}");
            } else {
                name.push(*byte);
            }
        }
    }
}

impl KeyLayout {
    /// Returns whether all counters of one key are in one slot of a Cluster, now and later, in a store with this
    /// prefix. Where they do not, a store refuses every request with several quotas, unless it
    /// [reserves](crate::AcrossSlots::Reserve).
    #[must_use]
    pub fn keeps_to_slot(&self, prefix: &str) -> bool {
        // Braces in the prefix may come before those of the template.
        self.has_tag_of_key() && !prefix.contains(['{', '}'])
    }

    /// The bytes that must be escaped in each value, so that its end is unambiguous, and these braces. Of the values of
    /// `{*}`, only the braces.
    fn reserved(&self, braces: &[u8]) -> Box<[Box<[u8]>]> {
        let is_value = |piece: &TemplatePart| {
            use TemplatePart::{Policy, Rest, Value, Windows};
            matches!(piece, Policy | Windows | Value(_) | Rest)
        };
        let reserved_in = |(at, piece): (usize, &TemplatePart)| {
            let behind = self.pieces.get(at + 1..).unwrap_or_default();
            let mut bytes = braces.to_vec();
            if *piece != TemplatePart::Rest {
                if let (Some(TemplatePart::Text(text)), true) = (behind.first(), behind.iter().any(is_value))
                {
                    bytes.extend(text.as_bytes().first());
                }
                if !bytes.is_empty() {
                    bytes.push(b'%');
                }
            }
            bytes.into_boxed_slice()
        };
        self.pieces.iter().enumerate().filter(|(_, piece)| is_value(piece)).map(reserved_in).collect()
    }

    /// Returns whether the template itself has braces.
    fn has_braces(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, TemplatePart::Text(text) if text.contains(['{', '}'])))
    }

    /// Returns whether the first braces enclose all values of a key and nothing that depends on the policy or the
    /// window.
    fn has_tag_of_key(&self) -> bool {
        let is_value = |piece: &TemplatePart| matches!(piece, TemplatePart::Value(_) | TemplatePart::Rest);
        let values = self.pieces.iter().filter(|piece| is_value(piece)).count();
        let (mut inside, mut tagged) = (false, 0);
        for piece in self.pieces.iter() {
            match piece {
                TemplatePart::Text(text) => {
                    for at in text.chars() {
                        match at {
                            '{' => inside = true,
                            '}' if inside => return tagged > 0 && tagged == values,
                            _ => {}
                        }
                    }
                }
                TemplatePart::Value(_) | TemplatePart::Rest if inside => tagged += 1,
                TemplatePart::Policy | TemplatePart::Windows | TemplatePart::Window(_) if inside => {
                    return false;
                }
                _ => {}
            }
        }
        false
    }
}

impl WindowForm {
    fn number(self, window: Window) -> i64 {
        let start = window.start().as_unix_millis();
        match self {
            Self::Index => {
                let length = i64::try_from(window.length().as_millis()).unwrap_or(i64::MAX);
                start.div_euclid(length.max(1))
            }
            Self::StartSeconds => start.div_euclid(1_000),
            Self::StartMillis => start,
        }
    }
}

/// The values of a key as they are read, nested ones in the order in which they are written; `None` if one of them has
/// no text.
pub(crate) fn values(canonical: &[u8]) -> Option<Box<[ValueText]>> {
    let (mut texts, mut rest) = (Vec::new(), canonical);
    while !rest.is_empty() {
        let (value, after) = parse(rest)?;
        match value {
            KeyValue::Text(text) => texts.push(text.into()),
            KeyValue::Number(number) => texts.push(number.to_string().into_bytes().into()),
            KeyValue::Negative(number) => texts.push(format!("-{number}").into_bytes().into()),
            KeyValue::V4(address) => texts.push(Ipv4Addr::from(address).to_string().into_bytes().into()),
            KeyValue::V6(address) => texts.push(Ipv6Addr::from(address).to_string().into_bytes().into()),
            KeyValue::Parts(parts) => texts.extend(values(parts)?),
            KeyValue::Bytes(_) | KeyValue::Other(..) => return None,
        }
        rest = after;
    }
    Some(texts.into_boxed_slice())
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};
    use std::net::IpAddr;
    use std::time::Duration;

    use proptest::prelude::*;
    use tollgate::Quota;

    use super::*;
    use crate::slot;

    const NOW: Timestamp = Timestamp::from_unix_millis(1_700_000_100_000);

    fn name(layout: KeyLayout, quota: &str, key: &Key<'_>) -> Result<String, String> {
        let naming = LayoutNaming::new(layout, "ratelimiter");
        let quota = PolicyQuota::new("log:in", quota.parse().unwrap());
        let said = |error: StoreError| error.to_string();
        let window = naming.window(&quota, NOW).map_err(said)?;
        let name = naming.name(&quota, values(&key.canonical_bytes()).as_deref(), window).map_err(said)?;
        Ok(String::from_utf8(name.into_vec()).unwrap())
    }

    fn of(template: &str, quota: &str, key: &Key<'_>) -> String {
        name(template.parse().unwrap(), quota, key).unwrap()
    }

    /// Clients that choose their names could all be counted in one slot, by one server.
    #[test]
    fn no_value_chooses_its_slot() {
        let naming = LayoutNaming::new("limit:{user}:{window}".parse().unwrap(), "p").on_cluster();
        let quota = PolicyQuota::new("any", "5/1h".parse().unwrap());
        let window = quota.quota().window_at(&Key::from(""), Timestamp::EPOCH);
        let name = |value: &str| naming.name(&quota, Some(&[value.as_bytes().into()]), window).unwrap();
        let slots: HashSet<u16> = (0..100).map(|user| slot::of(&name(&format!("{{tag}}-{user}")))).collect();
        assert!(slots.len() > 80, "{} slots", slots.len());
        assert_eq!(&*name("{a}%"), b"limit:%7Ba%7D%25:0");
        assert_ne!(name("{a}"), name("%7Ba%7D"));
    }

    /// The values of `{*}` were written with their braces, so all keys of such a client were in one slot.
    #[test]
    fn no_value_of_the_rest_chooses_its_slot() {
        let quota = PolicyQuota::new("any", "5/1h".parse().unwrap());
        let window = quota.quota().window_at(&Key::from(""), Timestamp::EPOCH);
        let name = |naming: &LayoutNaming, value: &str| {
            let values = ["d", "k", value].map(|value| value.as_bytes().into());
            String::from_utf8(naming.name(&quota, Some(&values), window).unwrap().into_vec()).unwrap()
        };
        let naming = LayoutNaming::new(KeyLayout::ENVOY_RATELIMIT, "");
        assert_eq!(name(&naming, "{a}%"), "d_k_{a}%_0");
        let naming = naming.on_cluster();
        assert_eq!(name(&naming, "{a}%"), "d_k_%7Ba%7D%_0");
        let slots: HashSet<u16> =
            (0..100).map(|user| slot::of(name(&naming, &format!("{{tag}}-{user}")).as_bytes())).collect();
        assert!(slots.len() > 80, "{} slots", slots.len());
    }

    /// Braces around nothing choose no slot: the counters of such a key were in several.
    #[test]
    fn one_slot_for_each_key_holds_whatever_its_values() {
        let (minute, hour): (Quota, Quota) = ("5/1m".parse().unwrap(), "5/1h".parse().unwrap());
        for template in ["l:{{{user}}}:{windows}:{window}", "l:{{{*}}}:{windows}:{window}"] {
            let naming = LayoutNaming::new(template.parse().unwrap(), "").on_cluster();
            assert!(naming.has_slot_for_each_key());
            for value in ["", "}", "{", "{}", "}{", "%", "a"] {
                let values: [ValueText; 1] = [value.as_bytes().into()];
                let slot = |quota: &Quota| {
                    let quota = PolicyQuota::new("any", quota.clone());
                    let window = naming.window(&quota, NOW).unwrap();
                    slot::of(&naming.name(&quota, Some(&values), window).unwrap())
                };
                assert_eq!(slot(&minute), slot(&hour), "{template} {value:?}");
            }
        }
    }

    #[test]
    fn names_are_those_of_the_published_systems() {
        let named = |layout, quota, key: Key<'_>| name(layout, quota, &key).unwrap();
        assert_eq!(named(KeyLayout::RLAAS, "5/1m", "alice".into()), "rlaas:rate_limit:alice:28333335");
        assert_eq!(named(KeyLayout::USER_RATE_LIMIT, "5/1m", "alice".into()), "rate_limit:alice:28333335");
        assert_eq!(
            named(KeyLayout::LEETDEZINE, "5/1m", ("abc", "/search").into()),
            "user:abc:/search:28333335"
        );
        assert_eq!(
            named(KeyLayout::SPRING_STARTER, "5/10s", "global:com.example.ApiController#getData".into()),
            "ratelimiter:global:com.example.ApiController#getData:1700000100000"
        );
    }

    /// The keys that envoyproxy/ratelimit's own tests expect.
    #[test]
    fn names_are_those_of_envoys_rate_limit_service() {
        let named = |prefix: &str, length: u64, now: i64, values: &[&str]| {
            let naming = LayoutNaming::new(KeyLayout::ENVOY_RATELIMIT, prefix);
            let quota = Quota::new(5, Duration::from_secs(length)).unwrap();
            let quota = PolicyQuota::new("envoy:domain", quota);
            let window = naming.window(&quota, Timestamp::from_unix_millis(now * 1_000)).unwrap();
            let key = Key::parts(values.iter().copied());
            let name = naming.name(&quota, values_of(&key).as_deref(), window).unwrap();
            String::from_utf8(name.into_vec()).unwrap()
        };
        let (minute, day, month) = (60, 86_400, 2_592_000);
        for (prefix, length, now, values, expected) in [
            ("", 1, 1234, &["domain", "key", "value"][..], "domain_key_value_1234"),
            (
                "",
                minute,
                1234,
                &["domain", "key2", "value2", "subkey2", "subvalue2"],
                "domain_key2_value2_subkey2_subvalue2_1200",
            ),
            ("prefix:", 1, 1234, &["domain", "key", "value"], "prefix:domain_key_value_1234"),
            ("", 1, 1234, &["domain", "files", "files/*"], "domain_files_files/*_1234"),
            ("", day, 1_000_000, &["d", "k", ""], "d_k__950400"),
            ("", month, 3_000_000, &["d", "{k}", "%"], "d_{k}_%_2592000"),
            ("", 1, 7, &["d", "a", "b_c"], "d_a_b_c_7"),
            ("", 1, 7, &["d", "a_b", "c"], "d_a_b_c_7"),
        ] {
            assert_eq!(named(prefix, length, now, values), expected);
        }
    }

    fn values_of(key: &Key<'_>) -> Option<Box<[ValueText]>> {
        values(&key.canonical_bytes())
    }

    #[test]
    fn the_rest_of_the_values_needs_one() {
        let key = Key::from(("a:", "b", "c"));
        assert_eq!(of("x:{first}:{*}:{window_start}", "5/1m", &key), "x:a%3A:b_c:1700000100");
        assert_eq!(
            name("x:{first}:{*}:{window}".parse().unwrap(), "5/1m", &"a".into()),
            Err(UNFIT_KEY.to_string())
        );
    }

    #[test]
    fn every_name_of_a_template_is_written() {
        let key = Key::from(("a", 7_u64));
        let all = "{prefix}/{policy}|{windows}|{user}|{id}|{window}|{window_start}|{window_start_ms}";
        assert_eq!(of(all, "5/10s", &key), "ratelimiter/log:in|10s|a|7|170000010|1700000100|1700000100000");
        // A key of a user or else an address names which of them it is.
        let caller = Key::from((Key::from(("ip", Key::from(IpAddr::from([10, 0, 0, 1])))), "/search"));
        assert_eq!(
            of("{prefix}:{kind}:{caller}:{endpoint}:{window}", "5/1m", &caller),
            "ratelimiter:ip:10.0.0.1:/search:28333335"
        );
    }

    #[test]
    fn separators_in_values_are_escaped() {
        let template = "user:{user}:{endpoint}:{window}";
        let key = Key::from(("a:b%", "/c:d%"));
        assert_eq!(of(template, "5/1m", &key), "user:a%3Ab%25:/c:d%:28333335");
        assert_eq!(of("l:{{{user}}}:{window}", "5/1m", &"}{".into()), "l:{%7D%7B}:28333335");
    }

    #[test]
    fn keys_without_a_name_are_refused() {
        for key in [Key::from(("a", "b")), Key::parts([""; 0]), Key::from(b"bytes")] {
            assert_eq!(name(KeyLayout::RLAAS, "5/1m", &key), Err(UNFIT_KEY.to_string()), "{key:?}");
        }
        assert_eq!(name(KeyLayout::LEETDEZINE, "5/1m", &"a".into()), Err(UNFIT_KEY.to_string()));
        assert_eq!(name(KeyLayout::RLAAS, "5/1m@first_hit", &"a".into()), Err(UNFIT_QUOTA.to_string()));
    }

    #[test]
    fn one_slot_for_all_counters_of_a_key_needs_braces_around_its_values() {
        for (template, expected) in [
            ("l:{{{user}}}:{windows}:{window}", true),
            ("l:{{{user}:{endpoint}}}:{window}", true),
            ("l:{{{prefix}:{user}}}:{window}", true),
            ("l:{user}:{window}", false),
            ("l:{{{user}}}:{endpoint}:{window}", false),
            ("l:{{{user}:{window}}}", false),
            ("l:{{{policy}:{user}}}:{window}", false),
            ("l:{{}}:{{{user}}}:{window}", false),
        ] {
            let naming = LayoutNaming::new(template.parse().unwrap(), "p").on_cluster();
            assert_eq!(naming.has_slot_for_each_key(), expected, "{template}");
        }
        let behind_braces = LayoutNaming::new("{prefix}:{{{user}}}:{window}".parse().unwrap(), "{}");
        assert!(behind_braces.has_slot_for_each_key(), "there is one server");
        assert!(!behind_braces.on_cluster().has_slot_for_each_key());
    }

    #[test]
    fn the_head_is_what_all_names_begin_with() {
        let head = |layout| String::from_utf8(LayoutNaming::new(layout, "ratelimiter").head()).unwrap();
        assert_eq!(head(KeyLayout::RLAAS), "rlaas:rate_limit:");
        assert_eq!(head(KeyLayout::SPRING_STARTER), "ratelimiter:");
    }

    proptest! {
        /// Different values have different names, however they are chosen.
        #[test]
        fn different_counters_have_different_names(
            template in prop::sample::select(vec![
                "u:{user}:{endpoint}:{window}",
                "u:{policy}:{user}:{windows}:{window}",
                "u{{{user}:{endpoint}}}:{window}",
                "u:{window}:{user}a{endpoint}",
            ]),
            counters in prop::collection::vec(
                ("[a:1{}%]{0,4}", "[a:1{}%]{0,4}", 0..3_i64),
                2..60,
            ),
        ) {
            let naming = LayoutNaming::new(template.parse().unwrap(), "p");
            let mut seen = HashMap::new();
            for (first, second, minute) in counters {
                let has_policy = template.contains("policy");
                let quota = PolicyQuota::new(&first, "5/1m".parse().unwrap());
                let texts: Vec<ValueText> = if has_policy { vec![&second] } else { vec![&first, &second] }
                    .into_iter()
                    .map(|text| text.as_bytes().into())
                    .collect();
                let window = naming.window(&quota, NOW + std::time::Duration::from_secs(60) * u32::try_from(minute).unwrap()).unwrap();
                let name = naming.name(&quota, Some(&texts), window).unwrap();
                let counter = (first, second, minute);
                let known = seen.entry(name).or_insert_with(|| counter.clone());
                prop_assert_eq!(known, &counter);
            }
        }
    }
}
