//! `cargo xtask prove publish`: checks each crate as it would be published.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::command::command;

pub(crate) fn prove() -> Result<()> {
    let metadata = command("cargo metadata --format-version 1 --locked --all-features").read()?;
    let metadata: Value = serde_json::from_str(&metadata).context("cargo metadata is no JSON")?;
    let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    let (ours, others): (Vec<_>, Vec<_>) = packages.iter().partition(|package| package["source"].is_null());
    let published = ours.into_iter().filter(|package| package["publish"].is_null());
    let published: Vec<&Value> = published.collect();
    let lowest = version(&published.first().context("nothing is published")?["rust_version"]);
    let lowest = lowest.context("our crates name no rust-version")?;
    for package in &published {
        for field in ["description", "documentation", "license", "readme", "rust_version"] {
            ensure!(package[field].is_string(), "{} has no {field}", package["name"]);
        }
        for field in ["categories", "keywords", "authors"] {
            let is_filled = package[field].as_array().is_some_and(|values| !values.is_empty());
            ensure!(is_filled, "{} has no {field}", package["name"]);
        }
    }
    for package in others {
        let needs = version(&package["rust_version"]);
        ensure!(
            needs.is_none_or(|needs| needs <= lowest),
            "{} {} needs Rust {}, which is newer than our rust-version",
            package["name"],
            package["version"],
            package["rust_version"]
        );
    }
    // Builds each crate from its package.
    command("cargo publish --dry-run --locked --workspace --allow-dirty").run()?;
    println!("RESULT prove/publish crates={} violations=0", published.len());
    Ok(())
}

/// Parses major, minor and patch.
fn version(text: &Value) -> Option<[u32; 3]> {
    let mut parts = text.as_str()?.split('.').map(str::parse);
    let mut next = || parts.next().unwrap_or(Ok(0)).ok();
    Some([next()?, next()?, next()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without both, docs.rs does not mark what needs a feature.
    #[test]
    fn every_published_crate_with_features_has_badges_for_them() {
        let metadata = command("cargo metadata --format-version 1 --locked --no-deps").read().unwrap();
        let metadata: Value = serde_json::from_str(&metadata).unwrap();
        let packages = metadata["packages"].as_array().unwrap().iter();
        let with_features = packages.filter(|package| {
            package["publish"].is_null() && package["features"].as_object().is_some_and(|all| !all.is_empty())
        });
        let mut names = Vec::new();
        for package in with_features {
            let name = package["name"].as_str().unwrap();
            let docs = &package["metadata"]["docs"]["rs"];
            assert_eq!(docs["all-features"], true, "{name}");
            assert_eq!(docs["rustdoc-args"], serde_json::json!(["--cfg", "docsrs"]), "{name}");
            let targets = package["targets"].as_array().unwrap().iter();
            let mut libraries = targets.filter(|target| target["kind"] == serde_json::json!(["lib"]));
            let source = libraries.next().and_then(|library| library["src_path"].as_str()).unwrap();
            let source = std::fs::read_to_string(source).unwrap();
            assert!(source.contains("\n#![cfg_attr(docsrs, feature(doc_cfg))]\n"), "{name}");
            names.push(name);
        }
        names.sort_unstable();
        assert_eq!(
            names,
            [
                "tollgate",
                "tollgate-policy",
                "tollgate-server",
                "tollgate-tower",
                "tollgate-wire",
                "tollgate-yaml",
            ]
        );
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        let of = |text: &str| version(&Value::from(text));
        assert_eq!(of("1.89"), Some([1, 89, 0]));
        assert!(of("1.100") > of("1.89.1"));
        assert_eq!(version(&Value::Null), None);
    }
}
