//! Writes a policy file in one of the many equivalent notations.

use fastrand::Rng;

use crate::file::{
    Cost, Counting, File, Key, Lines, Match, Mode, Named, OnMissingCost, OnMissingKey, OnMissingLimit,
    Override, Policy, Quota, QuotaChoice, Quotas, Spelling, Test,
};
use crate::pattern::{Pattern, Piece};

/// The texts of a file and of its additional files.
pub(crate) struct Texts {
    pub(crate) policies: String,
    pub(crate) beside: Vec<(String, String)>,
}

/// A variable that is never set, so that its default is used.
const UNSET: &str = "TOLLGATE_NEVER_SET";

impl File {
    pub(crate) fn written(&self) -> Texts {
        let mut writer = Writer { random: Rng::with_seed(self.style), beside: Vec::new() };
        let policies = writer.file(self);
        Texts { policies, beside: writer.beside }
    }
}

struct Writer {
    random: Rng,
    beside: Vec<(String, String)>,
}

impl Writer {
    fn file(&mut self, file: &File) -> String {
        let mut sections = Vec::new();
        if file.mode != Mode::Enforce || self.random.bool() {
            sections.push(format!("mode: {}\n", mode(file.mode)));
        }
        sections.extend(
            file.denies_unmatched
                .map(|denies| format!("unmatched: {}\n", if denies { "deny" } else { "allow" })),
        );
        sections.extend(
            file.on_missing_key.map(|it| format!("defaults: {{ on_missing_key: {} }}\n", on_missing_key(it))),
        );
        if !file.tiers.is_empty() {
            let tiers =
                file.tiers.iter().map(|(name, quotas)| format!("  {name}: {}\n", self.quotas(quotas)));
            sections.push(format!("tiers:\n{}", tiers.collect::<String>()));
        }
        for (list, lines) in [("allow", &file.allow), ("deny", &file.deny)] {
            if !lines.is_empty() {
                let lines: Vec<String> = lines.iter().map(|(name, test)| self.listed(name, test)).collect();
                sections.push(format!("{list}: {{ {} }}\n", lines.join(", ")));
            }
        }
        let mut policies = String::from("policies:");
        for policy in &file.policies {
            policies += &format!("\n  - {}", self.policy(policy));
        }
        sections.push(policies + if file.policies.is_empty() { " []\n" } else { "\n" });
        self.random.shuffle(&mut sections);
        sections.concat()
    }

    /// Writes a line of a list for the whole file, where tests have no names.
    fn listed(&mut self, name: &str, test: &Test) -> String {
        match test {
            Test::OneOf(patterns) => format!("{name}: {}", self.patterns(patterns)),
            Test::Braces { tests, .. } => match tests.first() {
                Some(Named::OneOfFrom(lines) | Named::CidrFrom(lines)) => {
                    format!("{name}_from: {}", self.lines(lines))
                }
                Some(Named::Cidr(networks)) => {
                    let networks: Vec<String> = networks.iter().map(|it| self.scalar(it)).collect();
                    format!("{name}: {}", self.one_or_list(networks))
                }
                other => panic!("no list has {other:?}"),
            },
        }
    }

    fn policy(&mut self, policy: &Policy) -> String {
        let mut keys = vec![format!("name: {}", policy.name)];
        if policy.conditions.names().next().is_some() {
            keys.push(format!("match: {}", self.conditions(&policy.conditions)));
        }
        if !policy.is_enabled {
            keys.push("enabled: false".to_owned());
        }
        match &policy.counting {
            None => keys.push("exempt: true".to_owned()),
            Some(counting) => self.counting(counting, &mut keys),
        }
        self.random.shuffle(&mut keys);
        format!("{{ {} }}", keys.join(", "))
    }

    fn counting(&mut self, counting: &Counting, keys: &mut Vec<String>) {
        keys.push(format!("key: {}", self.key(&counting.key)));
        keys.push(match &counting.quotas {
            QuotaChoice::List(quotas) => format!("quotas: {}", self.quotas(quotas)),
            QuotaChoice::Tier { attribute, default } => {
                format!("quotas: {{ tier: {attribute}, default: {default} }}")
            }
        });
        if counting.mode != Mode::Enforce {
            keys.push(format!("mode: {}", mode(counting.mode)));
        }
        keys.extend(counting.on_missing_key.map(|it| format!("on_missing_key: {}", on_missing_key(it))));
        keys.extend(counting.candidates.as_ref().map(|it| format!("candidate: {}", self.quotas(it))));
        if counting.overdraft {
            keys.push("overdraft: true".to_owned());
        }
        match &counting.cost {
            Cost::Asked => {}
            Cost::Fixed(units) => keys.push(format!("cost: {units}")),
            Cost::Attribute { name, min, max, on_missing } => {
                let min = min.map(|min| format!(", min: {min}")).unwrap_or_default();
                let on_missing = match on_missing {
                    None => String::new(),
                    Some(OnMissingCost::Error) => ", on_missing: error".to_owned(),
                    Some(OnMissingCost::Asked) => ", on_missing: asked".to_owned(),
                    Some(OnMissingCost::Fixed(units)) => format!(", on_missing: {units}"),
                };
                keys.push(format!("cost: {{ attribute: {name}, max: {max}{min}{on_missing} }}"));
            }
        }
        let overrides: Vec<String> = counting.overrides.iter().map(|over| self.over(over)).collect();
        match overrides.as_slice() {
            [] => {}
            [only] if self.random.bool() => keys.push(format!("overrides: {only}")),
            _ => keys.push(format!("overrides: [{}]", overrides.join(", "))),
        }
    }

    fn over(&mut self, over: &Override) -> String {
        match over {
            Override::When { conditions, quotas, candidates } => {
                let (when, quotas) = (self.conditions(conditions), self.quotas(quotas));
                let candidates = candidates.as_ref().map(|it| format!(", candidate: {}", self.quotas(it)));
                format!("{{ when: {when}, quotas: {quotas}{} }}", candidates.unwrap_or_default())
            }
            Override::Table { attribute, values, beside } => {
                let mut keys = vec![format!("by: {attribute}")];
                if !values.is_empty() || beside.is_none() {
                    let values = values.iter().map(|(value, quotas)| {
                        let value = if value.is_empty() { "''".to_owned() } else { self.scalar(value) };
                        format!("{value}: {}", self.quotas(quotas))
                    });
                    keys.push(format!("values: {{ {} }}", values.collect::<Vec<_>>().join(", ")));
                }
                if let Some(beside) = beside {
                    let line = |(value, quotas): &(String, Quotas)| {
                        let value = match value.contains([',', '"']) || self.random.bool() {
                            true => format!("\"{}\"", value.replace('"', "\"\"")),
                            false => value.clone(),
                        };
                        let quotas: Vec<&str> = quotas.iter().filter_map(in_file).collect();
                        let quotas =
                            if quotas.is_empty() { "unlimited".to_owned() } else { quotas.join(",") };
                        format!("{value},{quotas}\n")
                    };
                    let text = beside.iter().map(line).collect();
                    keys.push(format!("values_from: {}", self.beside(text, "csv")));
                }
                format!("{{ {} }}", keys.join(", "))
            }
        }
    }

    fn conditions(&mut self, conditions: &Match) -> String {
        let mut lines = self.lines_of(&conditions.lines);
        if !conditions.any.is_empty() {
            let any: Vec<String> = conditions
                .any
                .iter()
                .map(|lines| format!("{{ {} }}", self.lines_of(lines).join(", ")))
                .collect();
            lines.push(format!("any: [{}]", any.join(", ")));
        }
        self.random.shuffle(&mut lines);
        format!("{{ {} }}", lines.join(", "))
    }

    fn lines_of(&mut self, lines: &Lines) -> Vec<String> {
        lines.iter().map(|(name, test)| format!("{name}: {}", self.test(test))).collect()
    }

    fn test(&mut self, test: &Test) -> String {
        match test {
            Test::OneOf(patterns) => self.patterns(patterns),
            Test::Braces { tests, ignores_case } => {
                let mut keys: Vec<String> = tests.iter().map(|test| self.named(test)).collect();
                keys.extend(ignores_case.map(|ignores| format!("ignore_case: {ignores}")));
                self.random.shuffle(&mut keys);
                format!("{{ {} }}", keys.join(", "))
            }
        }
    }

    fn named(&mut self, test: &Named) -> String {
        match test {
            Named::Equal(text) => format!("equal: {}", self.literal(text)),
            Named::OneOf(patterns) => format!("one_of: {}", self.patterns(patterns)),
            Named::Prefix(text) => format!("prefix: {}", self.literal(text)),
            Named::Glob(pattern) => format!("glob: {}", self.pattern(pattern)),
            Named::Regex(expression) => format!("regex: {}", self.scalar(&expression.written())),
            Named::Cidr(networks) => {
                let networks: Vec<String> = networks.iter().map(|it| self.scalar(it)).collect();
                format!("cidr: {}", self.one_or_list(networks))
            }
            Named::OneOfFrom(texts) => format!("one_of_from: {}", self.lines(texts)),
            Named::CidrFrom(networks) => format!("cidr_from: {}", self.lines(networks)),
            Named::Present => "present: true".to_owned(),
            Named::Absent => "absent: true".to_owned(),
            Named::Not(test) => format!("not: {}", self.test(test)),
        }
    }

    fn patterns(&mut self, patterns: &[Pattern]) -> String {
        let patterns = patterns.iter().map(|pattern| self.pattern(pattern)).collect();
        self.one_or_list(patterns)
    }

    fn one_or_list(&mut self, values: Vec<String>) -> String {
        match values.as_slice() {
            [only] if self.random.bool() => only.clone(),
            _ => format!("[{}]", values.join(", ")),
        }
    }

    fn pattern(&mut self, Pattern(pieces): &Pattern) -> String {
        let written = pieces.iter().map(|piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Variable(text) => variable(text),
            Piece::Star => "*".to_owned(),
            Piece::Any => "?".to_owned(),
        });
        self.scalar(&written.collect::<String>())
    }

    /// Writes a text without special characters, literally or as the default of a variable.
    fn literal(&mut self, text: &str) -> String {
        let is_variable = !text.is_empty() && self.random.u32(..4) == 0;
        self.scalar(&if is_variable { variable(text) } else { text.to_owned() })
    }

    fn scalar(&mut self, text: &str) -> String {
        let is_plain = text.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '/')
            && text.chars().all(|it| it.is_ascii_alphanumeric() || "/._-".contains(it));
        match self.random.u32(..3) {
            0 if is_plain => text.to_owned(),
            1 if !text.contains('\n') => format!("'{}'", text.replace('\'', "''")),
            _ => format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")),
        }
    }

    fn lines(&mut self, lines: &[String]) -> String {
        let mut text = String::from("# one on each line\n");
        for line in lines {
            text += line;
            text += *self.random.choice(&["\n", " # why\n", "\n\n"]).expect("there are some");
        }
        self.beside(text, "txt")
    }

    fn beside(&mut self, text: String, extension: &str) -> String {
        let name = format!("beside-{}.{extension}", self.beside.len());
        self.beside.push((name.clone(), text));
        name
    }

    fn quotas(&mut self, quotas: &Quotas) -> String {
        let fixed: Option<Vec<&str>> = quotas.iter().map(in_file).collect();
        match fixed {
            Some(fixed) if fixed.is_empty() => "unlimited".to_owned(),
            Some(fixed) if self.random.u32(..4) == 0 => {
                let all = fixed.join(";");
                let all = if self.random.bool() { variable(&all) } else { all };
                self.one_or_list(vec![format!("'{all}'")])
            }
            _ => {
                let quotas = quotas.iter().map(|quota| self.quota(quota)).collect();
                self.one_or_list(quotas)
            }
        }
    }

    fn quota(&mut self, quota: &Quota) -> String {
        let (attribute, on_missing, max, windows) = match quota {
            Quota::Fixed(Spelling { in_file, .. }) => return format!("'{in_file}'"),
            Quota::By { attribute, on_missing, max, windows } => (attribute, on_missing, max, windows),
        };
        let on_missing = match on_missing {
            None => String::new(),
            Some(OnMissingLimit::Error) => ", on_missing: error".to_owned(),
            Some(OnMissingLimit::Fixed(limit)) => format!(", on_missing: {limit}"),
        };
        let mut keys = [
            format!("limit: {{ attribute: {attribute}{on_missing} }}"),
            format!("max: {max}"),
            format!("window: {}", self.scalar(windows.in_file)),
        ];
        self.random.shuffle(&mut keys);
        format!("{{ {} }}", keys.join(", "))
    }

    fn key(&mut self, key: &Key) -> String {
        match key {
            Key::All(parts) => self.keys(parts),
            Key::Global => "global".to_owned(),
            key => {
                let key = self.part(key);
                if self.random.bool() { format!("[{key}]") } else { key }
            }
        }
    }

    fn keys(&mut self, keys: &[Key]) -> String {
        let keys: Vec<String> = keys.iter().map(|key| self.part(key)).collect();
        format!("[{}]", keys.join(", "))
    }

    fn part(&mut self, key: &Key) -> String {
        match key {
            Key::Global => "global".to_owned(),
            Key::Attribute(name) if name != "ip" && self.random.bool() => name.clone(),
            Key::Attribute(name) => format!("{{ attribute: {name} }}"),
            Key::Address { name, ipv4: 32, ipv6: 64 } if name == "ip" && self.random.bool() => name.clone(),
            Key::Address { name, ipv4: 32, ipv6: 64 } => format!("{{ address: {name} }}"),
            Key::Address { name, ipv4, ipv6 } => format!("{{ address: {name}, ipv4: {ipv4}, ipv6: {ipv6} }}"),
            Key::All(parts) => self.keys(parts),
            Key::FirstOf(choices) => format!("{{ first_of: {} }}", self.keys(choices)),
        }
    }
}

/// Returns how a quota is written where only texts are allowed.
fn in_file(quota: &Quota) -> Option<&'static str> {
    match quota {
        Quota::Fixed(spelling) => Some(spelling.in_file),
        Quota::By { .. } => None,
    }
}

fn variable(text: &str) -> String {
    format!("${{{UNSET}:-{text}}}")
}

fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Off => "off",
        Mode::Shadow => "shadow",
        Mode::Enforce => "enforce",
    }
}

fn on_missing_key(on_missing_key: OnMissingKey) -> &'static str {
    match on_missing_key {
        OnMissingKey::Error => "error",
        OnMissingKey::Deny => "deny",
        OnMissingKey::Skip => "skip",
    }
}
