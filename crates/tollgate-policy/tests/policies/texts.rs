//! The texts of all problems and warnings, the JSON Schema, and the examples.

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt::Debug;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use tollgate_policy::{Config, ConfigError, PolicyProblem, ProblemKind, Sources};

fn parse(path: &Path) -> Result<Config, ConfigError> {
    let name = path.file_name().unwrap().to_str().unwrap();
    Config::parse_with(name, &std::fs::read_to_string(path).unwrap(), &|variable| {
        (variable == "REDIS_URL").then(|| "redis://:secret@127.0.0.1".to_owned())
    })
}

#[test]
fn every_problem_of_a_file_is_reported_with_its_place() {
    // These come from the file's user, from an additional file, and from a file with a thousand expressions.
    let mut reported = BTreeSet::from(["Other", "TableLine", "TooManyExpressions"].map(str::to_owned));
    for path in yaml_files(&file("tests/problems")) {
        let error = parse(&path).expect_err(&path.display().to_string());
        expect_snapshot(&path.with_extension("txt"), &format!("{error}\n"));
        let ConfigError::Invalid { problems, .. } = error else { panic!("{error}") };
        for problem in &problems {
            reported.insert(variant(problem.kind()));
            if let ProblemKind::Specific(specific) = problem.kind() {
                reported.insert(variant(specific.downcast_ref::<PolicyProblem>().unwrap()));
            }
        }
    }
    let mut kinds = variants("../tollgate-yaml/src/problem.rs", "ProblemKind");
    kinds.extend(variants("src/problem.rs", "PolicyProblem"));
    assert_eq!(reported, kinds, "each kind needs a file in tests/problems");
}

/// One mistake a line, in policies that are otherwise valid.
const MISTAKES: &str = r#"
key: user, quotas: [5/1q]
key: user, quotas: []
key: user, quotas: [5/1m, 6/60s]
key: user, quotas: 10r/s burst=20
key: user, quotas: ["10/1s~burst", "20/1s~burst:5"]
key: user, quotas: 1/s;2/1q
key: user, quotas: [0.5/1m]
key: user
quotas: [5/1m]
key: user, quotas: [5/1m], colour: red
key: user, quotas: [5/1m], polices: []
key: user, quotas: { tier: plan, default: silver }
key: user, quotas: { tier: plan }
key: user, quotas: [{ limit: { attribute: quota }, max: 5 }]
key: user, quotas: [{ limit: { attribute: quota, on_missing: 6 }, max: 5, window: 1m }]
key: user, quotas: [{ limit: quota, max: 5, window: 1m }]
key: user, quotas: [5/1m], candidate: [1/1m, 2/1m]
key: { first_of: [] }, quotas: [5/1m]
key: { address: ip, ipv4: 33 }, quotas: [5/1m]
key: [], quotas: [5/1m]
key: "", quotas: [5/1m]
key: { attribute: user, ipv6: 64 }, quotas: [5/1m]
match: { path: { prefx: /a } }, exempt: true
match: { path: [] }, exempt: true
match: { "": a }, exempt: true
match: { ip: { cidr: 10.0.0.1/8 } }, exempt: true
match: { ip: { cidr: here } }, exempt: true
match: { path: { regex: "(" } }, exempt: true
match: { path: { prefix: "" } }, exempt: true
match: { any: [] }, exempt: true
match: { any: [{}] }, exempt: true
match: {}, exempt: true
match: { path: { equal: [a] } }, exempt: true
match: { path: { present: maybe } }, exempt: true
match: { path: { cidr_from: /etc/hosts } }, exempt: true
match: { path: "${NOWHERE}" }, exempt: true
key: user, quotas: [5/1m], cost: { attribute: tokens }
key: user, quotas: [5/1m], cost: { max: 5 }
key: user, quotas: [5/1m], cost: { attribute: tokens, max: 5, min: 6 }
key: user, quotas: [5/1m], cost: -1
key: user, quotas: [5/1m], cost: { attribute: tokens, max: 5, on_missing: often }
key: user, quotas: [5/1m], mode: shadows
key: user, quotas: [5/1m], on_missing_key: ignore
key: user, quotas: [5/1m], on_store_failure: local
key: user, quotas: [5/1m], on_store_failure: closed, local_share: 1/2
key: user, quotas: [5/1m], on_store_failure: local, local_share: 2/1
key: user, quotas: [5/1m], headers: draft-3
key: user, quotas: [5/1m], deny_status: 200
key: user, quotas: [5/1m], count_denied: perhaps
key: user, quotas: [5/1m], enabled: sure
key: user, exempt: true
key: user, quotas: [5/1m], overrides: { by: plan }
key: user, quotas: [5/1m], overrides: { by: plan, values: { a: [5/1q] } }
key: user, quotas: [5/1m], overrides: { by: plan, values_from: ../t.csv }
key: user, quotas: [5/1m], overrides: [{ when: { plan: gold } }]
key: user, quotas: [5/1m], overrides: [{ when: {}, quotas: [1/1m] }]
"#;

/// Each mistake is reported on its line, in the same words as alone.
#[test]
fn no_mistake_of_a_file_hides_another() {
    let problems = |policies: &[String]| {
        let text = format!("policies:\n{}", policies.concat());
        let error = Config::parse_with("t.yaml", &text, &|_| None).expect_err(&text);
        let ConfigError::Invalid { problems, .. } = error else { panic!("{error}") };
        problems.iter().map(|problem| (problem.at().line, problem.kind().to_string())).collect::<Vec<_>>()
    };
    let mistakes = MISTAKES.lines().filter(|line| !line.is_empty()).zip(0_u32..);
    let policies: Vec<String> =
        mistakes.map(|(mistake, number)| format!("  - {{ name: p{number}, {mistake} }}\n")).collect();
    assert!(policies.len() >= 50);
    let mut alone = Vec::new();
    for (policy, line) in policies.iter().zip(2_usize..) {
        let told = problems(std::slice::from_ref(policy));
        assert!(!told.is_empty() && told.iter().all(|(line, _)| *line == 2), "{policy}: {told:?}");
        alone.extend(told.into_iter().map(|(_, text)| (line, text)));
    }
    assert_eq!(problems(&policies), alone);
}

#[test]
fn warnings_have_codes() {
    let mut told = BTreeSet::new();
    for path in yaml_files(&file("tests/warnings")) {
        let config = parse(&path).unwrap();
        let warnings: Vec<String> = config.warnings().iter().map(ToString::to_string).collect();
        expect_snapshot(&path.with_extension("txt"), &format!("{}\n", warnings.join("\n")));
        told.extend(config.warnings().iter().map(|warning| variant(warning.kind())));
    }
    // Only a program with a store knows the layout of its keys.
    told.insert("JoinedValues".to_owned());
    assert_eq!(
        told,
        variants("src/warning/mod.rs", "WarningKind"),
        "each kind needs a file in tests/warnings"
    );
}

#[test]
fn a_file_that_cannot_be_read_or_is_too_large_is_named() {
    let error = Config::load("nowhere/tollgate.yaml").unwrap_err();
    assert_eq!(error.to_string(), "cannot read nowhere/tollgate.yaml");
    let reason = error.source().unwrap().downcast_ref::<std::io::Error>().unwrap();
    assert_eq!(reason.kind(), ErrorKind::NotFound);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("large-{}.yaml", std::process::id()));
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(Config::MAX_BYTES + 1).unwrap();
    let large = Config::load(&path).unwrap_err();
    assert_eq!(
        large.to_string(),
        format!("{} is larger than 16 MiB, too large for a policy file", path.display())
    );
    file.set_len(Config::MAX_BYTES).unwrap();
    assert_eq!(Config::read(&path).unwrap().len() as u64, Config::MAX_BYTES);
    std::fs::remove_file(&path).unwrap();
    let told =
        [error, large, Config::parse("t", "").unwrap_err()].into_iter().chain(folders_that_cannot_be_read());
    let told: BTreeSet<String> = told.map(|error| variant(&error)).collect();
    assert_eq!(told, variants("../tollgate-yaml/src/error.rs", "ConfigError"));
}

/// An empty folder, and folders with too many or too large files.
fn folders_that_cannot_be_read() -> [ConfigError; 3] {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("folders-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("large")).unwrap();
    let empty = Config::load(&folder).unwrap_err();
    assert_eq!(
        empty.to_string(),
        format!("{} contains no file that ends in .yaml or .yml", folder.display())
    );
    for name in ["large/a.yaml", "large/b.yaml"] {
        std::fs::File::create(folder.join(name)).unwrap().set_len(Config::MAX_BYTES / 2 + 1).unwrap();
    }
    let large = Config::load(folder.join("large")).unwrap_err();
    let second = folder.join("large/b.yaml");
    assert_eq!(
        large.to_string(),
        format!("with {}, the files together are larger than 16 MiB", second.display())
    );
    let one = folder.join("one.yaml");
    std::fs::write(&one, "policies: []").unwrap();
    let many = Sources::read(std::iter::repeat_n(&one, Sources::MAX_FILES + 1)).unwrap_err();
    assert_eq!(
        many.to_string(),
        format!("{} is one file too many: at most 1000 can be read together", one.display())
    );
    std::fs::remove_dir_all(&folder).unwrap();
    [empty, large, many]
}

#[test]
fn several_files_are_read_as_one() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("several-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let files = [
        ("10-defaults.yaml", "defaults: { deny_status: 403 }\nmode: shadow\n"),
        ("20-api.yml", "policies:\n  - { name: api, key: [user], quotas: [5/1m] }\n"),
        (
            "30-login.yaml",
            "policies:\n  - { name: login, key: [ip], quotas: [9/1h], overrides: { by: user, values_from: tenants.csv } }\n",
        ),
        ("35-lists.yaml", "deny: { y_from: list.txt }\nallow:\n  x: [a]\n  user_from: \"friends.txt\"\n"),
        ("friends.txt", "alice"),
        (
            "40-list.yaml",
            "policies:\n  - { name: list, match: { ip: { \"cidr_from\": \"list.txt\" } }, exempt: true }\n",
        ),
        ("list.txt", "10.0.0.0/8\n"),
        // Files that are not policies, or incomplete.
        (".hidden.yaml", "policies: 1"),
        ("20-api.yaml~", "policies: 1"),
        ("tenants.csv", "acme,5/1m"),
    ];
    for (name, text) in files {
        std::fs::write(folder.join(name), text).unwrap();
    }
    let config = Config::load(&folder).unwrap();
    let seen = config.policies().as_slice().iter().map(|policy| {
        let file = config.file_of(policy.at().unwrap()).to_owned();
        (policy.name(), policy.deny_status(), policy.mode().name(), file)
    });
    let [api, login, lists, list] =
        ["20-api.yml", "30-login.yaml", "35-lists.yaml", "40-list.yaml"].map(|name| folder.join(name));
    let name = |path: &PathBuf| path.display().to_string();
    assert_eq!(
        seen.collect::<Vec<_>>(),
        [
            ("allow", 403, "shadow", name(&lists)),
            ("list", 403, "shadow", name(&list)),
            ("deny", 403, "shadow", name(&lists)),
            ("api", 403, "shadow", name(&api)),
            ("login", 403, "shadow", name(&login))
        ]
    );
    let table = config.policies().as_slice()[4].overrides()[0].table().unwrap();
    assert_eq!((table.attribute(), table.len()), ("user", 1));
    let address = tollgate_policy::Value::of("ip", "10.0.0.1");
    assert!(config.policies().as_slice()[1].conditions().all()[0].test().holds(Some(address)));
    let [warning] = config.warnings() else { panic!("{:?}", config.warnings()) };
    assert_eq!(config.file_of(warning.at()), name(&login));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn each_wrong_line_of_a_table_is_reported_with_its_place() {
    let file = "policies:
  - name: api
    key: [tenant]
    quotas: [5/1m]
    overrides: { by: tenant, values: { acme: [6/1m] }, values_from: tenants.csv }
";
    let table = "# tenant,quotas\n\nevil;5/1m\nfoo,5/1q\nfoo,7/1m\nbar,7/1m,8/60s\nbar,1/1h\nacme,9/1m\n\"a, b\",8/1m\nempty,\n";
    let sources = Sources::of("conf/api.yaml", file).with_table("conf/api.yaml", "tenants.csv", table);
    let error = Config::parse_sources(&sources, |_| Vec::new()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "conf/tenants.csv:3:1: expected a value, a comma and quotas, such as acme,10/1s,1000/1h
conf/tenants.csv:4:5: quota `5/1q`, column 4: unknown unit: expected ms, s, m, h, d or w (or month or year with a zone)
conf/tenants.csv:5:1: duplicate key `foo`, already given in line 4: keep one of them
conf/tenants.csv:6:5: 8/1m has the same window as 7/1m: keep one of them
conf/tenants.csv:7:1: duplicate key `bar`, already given in line 6: keep one of them
conf/tenants.csv:8:1: duplicate key `acme`, already given in line 5 of conf/api.yaml: keep one of them
conf/tenants.csv:10:7: quota ``, column 1: expected `limit/window`, such as 5/1m"
    );
}

#[test]
fn repetition_across_files_is_reported_with_both_places() {
    let said = |texts: &[(&str, &str)]| {
        let sources = texts.iter().fold(Sources::default(), |sources, (name, text)| sources.and(name, *text));
        Config::parse_sources(&sources, |_| Vec::new()).unwrap_err().to_string()
    };
    let policy = "policies: [{ name: api, key: [user], quotas: [5/1m] }]\n";
    assert_eq!(
        said(&[("a.yaml", policy), ("b.yaml", &format!("mode: shadow\n{policy}")), ("c.yaml", "mode: off\nunmatched: deny\nunmatched: deny")]),
        "b.yaml:2:12: duplicate policy name `api`, already used in line 1 of a.yaml: counters and metrics identify policies by name
c.yaml:1:1: duplicate key `mode`, already given in line 1 of b.yaml: keep one of them
c.yaml:3:1: duplicate key `unmatched`, already given in line 2: keep one of them"
    );
    assert_eq!(
        said(&[("a.yaml", "mode: shadow"), ("b.yaml", "store: { url: x }")]),
        "a.yaml:1:1: the file needs `policies`"
    );
    let broken = said(&[("a.yaml", "mode: [shadow"), ("b.yaml", "mode: shadwo")]);
    assert!(broken.contains("a.yaml:1:") && broken.contains("\nb.yaml:1:7: unknown mode"), "{broken}");
}

#[test]
fn no_message_shows_the_value_of_a_variable() {
    let text = "
mode: ${SECRET}
defaults: { deny_status: \"${SECRET}\", local_share: \"${SECRET}\", count_denied: \"${SECRET}\" }
policies:
  - name: ${SECRET}
    key: \"${SECRET}\"
    quotas: [\"${SECRET}\"]
    match: { ip: { cidr: \"${SECRET}\" }, path: { present: \"${SECRET}\" } }
  - ${SECRET}
";
    let error = Config::parse_with("t", text, &|_| Some("s3cret ".repeat(20))).unwrap_err();
    let ConfigError::Invalid { problems, .. } = &error else { panic!("{error}") };
    assert_eq!(problems.len(), 10, "{error}");
    assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
}

/// Policies with the same name from a variable were reported with its value. So were quotas with the same window, and
/// networks with bits after the prefix.
#[test]
fn no_message_shows_a_value_that_is_valid_and_does_not_fit() {
    let text = "
policies:
  - { name: \"${NAME}\", key: global, quotas: [\"${QUOTA}\", 7/60s] }
  - { name: \"${NAME}\", match: { ip: { cidr: \"${NETWORK}\" } }, key: global, quotas: [8/60s, \"${QUOTA}\"] }
";
    let value = |name: &str| match name {
        "NAME" => "s3cret",
        "QUOTA" => "777/1m",
        _ => "10.7.7.7/8",
    };
    let error = Config::parse_with("t", text, &|name| Some(value(name).to_owned())).unwrap_err().to_string();
    assert_eq!(
        error,
        "t:3:58: 7/1m has the same window as ${QUOTA}: keep one of them
t:4:5: duplicate policy name `${NAME}`, already used in line 3: counters and metrics identify policies by name
t:4:45: expected a network such as 10.0.0.0/8, found `${NETWORK}`
t:4:92: ${QUOTA} has the same window as 8/1m: keep one of them"
    );
}

/// A policy for internal callers exempted everybody if the variable with their prefix was set but empty, or contained a
/// `*`.
#[test]
fn the_value_of_a_variable_is_never_special() {
    let fits = |test: &str, value: &str, asked: &str| {
        let text = format!("policies: [{{ name: a, match: {{ x: {test} }}, exempt: true }}]");
        let config = Config::parse_with("t", &text, &|_| Some(value.to_owned()));
        config.map(|config| {
            config.policies().as_slice()[0].conditions().all()[0]
                .test()
                .holds(Some(tollgate_policy::Value::of("x", asked)))
        })
    };
    for test in ["'${X}'", "['${X}']", "{ equal: '${X}' }", "{ one_of: ['${X}'] }", "{ glob: '${X}' }"] {
        assert!(fits(test, "a*", "a*").unwrap() && !fits(test, "a*", "ab").unwrap(), "{test}");
        assert!(fits(test, "?", "?").unwrap() && !fits(test, "?", "b").unwrap(), "{test}");
        assert!(fits(test, "", "").unwrap_err().to_string().contains("the variable is empty"), "{test}");
    }
    for test in ["'${X}*'", "{ glob: '${X}*' }", "{ prefix: '${X}' }", "{ not: '${X}*' }"] {
        let is_not = test.contains("not");
        assert_eq!(fits(test, "a*", "a*b").unwrap(), !is_not, "{test}");
        assert_eq!(fits(test, "a*", "abb").unwrap(), is_not, "{test}");
        assert!(fits(test, "", "b").unwrap_err().to_string().contains("the variable is empty"), "{test}");
    }
    assert!(fits("'/*/${X}'", "a", "/b/a").unwrap());
    assert!(fits("'/*/${X}'", "a*", "/b/a*").unwrap_err().to_string().contains("`*` or `?`"));
    assert!(fits("'/${X}'", "", "/").unwrap(), "what is left is a text of its own");
    assert!(fits("''", "", "").unwrap(), "an empty text that is written is meant");
    assert!(fits("'*'", "", "b").unwrap());
}

#[test]
fn the_shipped_schema_is_that_of_the_types() {
    let schema = tollgate_policy::json_schema();
    assert!(!schema.contains("null"), "what is left out is not there with nothing in it");
    expect_snapshot(&file("schema/tollgate.schema.json"), &schema);
}

#[test]
fn the_examples_are_valid_and_without_warnings() {
    for path in yaml_files(&file("../../examples")) {
        let config = parse(&path).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(config.warnings(), [], "{}", path.display());
        assert!(!config.policies().as_slice().is_empty());
    }
}

/// The schema accepted any name, so an editor that uses it accepted files that the service refuses.
#[test]
fn the_schema_refuses_the_names_that_the_reader_refuses() {
    let schema: Value = serde_json::from_str(&tollgate_policy::json_schema()).unwrap();
    let definitions = &schema["$defs"];
    let policy = &definitions["RawPolicy"]["properties"]["name"];
    assert_eq!(policy["pattern"], "^[A-Za-z0-9_.-]{1,64}$");
    let names = [
        &definitions["Key"]["anyOf"][0],
        &definitions["RawKey"]["properties"]["attribute"],
        &definitions["RawKey"]["properties"]["address"],
        &definitions["RawCostAttribute"]["properties"]["attribute"],
        &definitions["Conditions"]["propertyNames"],
    ];
    for name in names {
        assert_eq!((&name["minLength"], &name["maxLength"]), (&1.into(), &128.into()), "{name}");
    }
}

#[test]
fn the_guide_shows_valid_files_and_has_every_key_and_code() {
    let guide = std::fs::read_to_string(file("../../docs/policies.md")).unwrap();
    let blocks: Vec<&str> =
        guide.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(blocks.len() >= 4, "{}", blocks.len());
    for block in blocks {
        // A block with an additional file runs in `recipes`.
        if block.contains("_from: ") {
            continue;
        }
        let config = Config::parse_with("docs/policies.md", block, &|_| Some("redis://127.0.0.1".to_owned()));
        assert_eq!(config.unwrap_or_else(|error| panic!("{error}\n{block}")).warnings(), []);
    }
    let schema: Value = serde_json::from_str(&tollgate_policy::json_schema()).unwrap();
    let definitions = schema["$defs"].as_object().unwrap().values().chain([&schema]);
    let keys = definitions.filter_map(|definition| definition["properties"].as_object()).flat_map(Map::keys);
    let keys: BTreeSet<&str> = keys.map(String::as_str).collect();
    assert!(keys.len() > 30, "{keys:?}");
    for key in keys {
        let is_there = [format!("`{key}`"), format!("`{key}: "), format!("{{ {key}: "), format!(", {key}: ")]
            .iter()
            .any(|written| guide.contains(written));
        assert!(is_there, "docs/policies.md says nothing of `{key}`");
    }
    let manual = std::fs::read_to_string(file("../../docs/warnings.md")).unwrap();
    for path in yaml_files(&file("tests/warnings")) {
        for warning in parse(&path).unwrap().warnings() {
            let help = warning.help();
            let heading = help.strip_prefix("docs/warnings.md#").unwrap();
            assert!(manual.contains(&format!("\n### {heading}\n")), "{help}");
        }
    }
}

/// Returns the path of a file in this crate.
fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Returns the name of a value's variant.
fn variant(value: &impl Debug) -> String {
    format!("{value:?}").chars().take_while(|character| character.is_alphanumeric()).collect()
}

/// Returns the names of all variants of a public enum, from its source, so that a new one is not forgotten here.
fn variants(source: &str, name: &str) -> BTreeSet<String> {
    let source = std::fs::read_to_string(file(source)).unwrap();
    let (_, body) = source.split_once(&format!("pub enum {name} {{\n")).unwrap();
    let (body, _) = body.split_once("\n}\n").unwrap();
    let lines = body.lines().filter_map(|line| line.strip_prefix("    "));
    let names = lines.filter(|line| line.starts_with(char::is_uppercase));
    names.map(|line| line.chars().take_while(|character| character.is_alphanumeric()).collect()).collect()
}

/// Fails unless the file holds this text; `TOLLGATE_WRITE_SNAPSHOTS=1` writes it, so that the difference can be
/// reviewed.
fn expect_snapshot(path: &Path, text: &str) {
    if std::env::var_os("TOLLGATE_WRITE_SNAPSHOTS").is_some() {
        std::fs::write(path, text).unwrap();
    }
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        kept == text,
        "{} is out of step; TOLLGATE_WRITE_SNAPSHOTS=1 writes:\n{text}\n\ninstead of:\n{kept}",
        path.display()
    );
}

/// Returns the YAML files of a folder, by name; at least one.
fn yaml_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|extension| extension == "yaml")).collect();
    files.sort();
    assert!(!files.is_empty(), "no YAML files in {}", folder.display());
    files
}
