//! Circles of imports between sibling modules.

use std::collections::{BTreeMap, BTreeSet};

use super::source::SourceFile;

/// A module, and a sibling that it imports, with a place where it does.
type Imports = BTreeMap<String, BTreeMap<String, String>>;

/// Returns a line for each group of sibling modules of which each imports the others, directly or not.
pub(super) fn all(files: &[SourceFile]) -> Vec<String> {
    let mut packages: BTreeMap<&str, Vec<&SourceFile>> = BTreeMap::new();
    for file in files.iter().filter(|file| file.module().is_some()) {
        packages.entry(file.package()).or_default().push(file);
    }
    packages.into_iter().flat_map(|(package, files)| circles(package, &imports(&files))).collect()
}

/// Returns the imports between siblings of a crate. A module is named with its parents: `memory::shard`.
fn imports(files: &[&SourceFile]) -> Imports {
    let modules: Vec<Vec<&str>> = files.iter().filter_map(|file| file.module()).collect();
    let is_module = |path: &[&str]| modules.iter().any(|module| module.starts_with(path));
    let mut imports = Imports::new();
    for (file, module) in files.iter().zip(&modules) {
        let code: String = file.product().flat_map(|(_, line)| [line, "\n"]).collect();
        for path in paths(&code, module) {
            let common = module.iter().zip(&path).take_while(|(ours, theirs)| *ours == theirs).count();
            let (Some(_), Some(_)) = (module.get(common), path.get(common)) else { continue };
            let theirs: Vec<&str> = path[..=common].iter().map(String::as_str).collect();
            if is_module(&theirs) {
                let ours = module[..=common].join("::");
                imports
                    .entry(ours)
                    .or_default()
                    .entry(theirs.join("::"))
                    .or_insert_with(|| file.path.clone());
            }
        }
    }
    imports
}

/// Returns the paths in code that begin in its own crate, from the root of the crate, without it.
fn paths(code: &str, module: &[&str]) -> Vec<Vec<String>> {
    let mut paths = Vec::new();
    for word in ["crate::", "super::", "self::"] {
        for (at, _) in code.match_indices(word) {
            if code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':' || c == '$') {
                continue;
            }
            let (mut base, mut rest) = (module.to_vec(), &code[at..]);
            if let Some(after) = rest.strip_prefix("crate::") {
                (base, rest) = (Vec::new(), after);
            }
            while let Some(after) = rest.strip_prefix("super::") {
                base.pop();
                rest = after;
            }
            let base: Vec<String> = base.into_iter().map(str::to_owned).collect();
            expand(rest.strip_prefix("self::").unwrap_or(rest), &base, &mut paths);
        }
    }
    paths
}

/// Adds the paths of a tree of imports, such as `a::{b, c::{d, e}}`. Returns what follows the tree.
fn expand<'a>(text: &'a str, base: &[String], paths: &mut Vec<Vec<String>>) -> &'a str {
    let text = text.trim_start();
    if let Some(mut rest) = text.strip_prefix('{') {
        loop {
            rest = rest.trim_start();
            if let Some(after) = rest.strip_prefix('}') {
                return after;
            }
            let before = rest.len();
            rest = expand(rest, base, paths).trim_start();
            rest = rest.strip_prefix(',').unwrap_or(rest);
            if rest.len() == before {
                return rest;
            }
        }
    }
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let path = [base, &[name.to_owned()]].concat();
    if let Some(rest) = rest.strip_prefix("::") {
        return expand(rest, &path, paths);
    }
    paths.push(path);
    // `a as b`
    rest.trim_start().strip_prefix("as ").map_or(rest, |renamed| {
        let renamed = renamed.trim_start();
        renamed.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_')
    })
}

fn circles(package: &str, imports: &Imports) -> Vec<String> {
    let reachable: BTreeMap<&str, BTreeSet<&str>> =
        imports.keys().map(|module| (module.as_str(), reachable(module, imports))).collect();
    let mut circles: BTreeSet<BTreeSet<&str>> = BTreeSet::new();
    for (module, others) in &reachable {
        if others.contains(module) {
            let circle =
                others.iter().filter(|other| reachable.get(*other).is_some_and(|all| all.contains(module)));
            circles.insert(circle.copied().collect());
        }
    }
    circles.iter().map(|circle| describe(package, circle, imports)).collect()
}

fn describe(package: &str, circle: &BTreeSet<&str>, imports: &Imports) -> String {
    let mut line = format!("{package}: {}", circle.iter().copied().collect::<Vec<_>>().join(", "));
    for module in circle {
        let others =
            imports.get(*module).into_iter().flatten().filter(|(other, _)| circle.contains(other.as_str()));
        for (other, file) in others {
            line += &format!("\n    {module} imports {other}, such as in {file}");
        }
    }
    line
}

/// Returns the modules that this one imports, directly or not.
fn reachable<'a>(module: &str, imports: &'a Imports) -> BTreeSet<&'a str> {
    let (mut reached, mut next) = (BTreeSet::new(), vec![module]);
    while let Some(module) = next.pop() {
        for other in imports.get(module).into_iter().flat_map(BTreeMap::keys) {
            if reached.insert(other.as_str()) {
                next.push(other);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(files: &[(&str, &str)]) -> Vec<SourceFile> {
        let new =
            |(path, text): &(&str, &str)| SourceFile::new(format!("crates/a/src/{path}"), (*text).to_owned());
        files.iter().map(new).collect()
    }

    #[test]
    fn finds_a_circle_through_a_third_module_and_inside_a_folder() {
        let files = files(&[
            ("lib.rs", "mod b; mod c; mod d;"),
            ("b.rs", "use crate::{c::{C, self}, other};"),
            ("c/mod.rs", "fn c() { crate::d::d() }"),
            ("c/e.rs", "use super::f::F;"),
            ("c/f.rs", "use crate::c::e::E;"),
            ("d.rs", "use super::b as renamed;"),
        ]);
        let circles = all(&files);
        let heads: Vec<_> = circles.iter().map(|circle| circle.lines().next().unwrap()).collect();
        assert_eq!(heads, ["crates/a: b, c, d", "crates/a: c::e, c::f"]);
        assert!(circles[0].contains("d imports b, such as in crates/a/src/d.rs"), "{}", circles[0]);
    }

    #[test]
    fn a_parent_is_no_sibling() {
        let files = files(&[
            ("lib.rs", "use crate::b::B;"),
            ("b/mod.rs", "use self::c::C;"),
            ("b/c.rs", "use super::B; use crate::A; use crate::d::D;"),
            ("d.rs", "#[cfg(test)]\nmod tests {\n    use crate::b::B;\n}\n"),
        ]);
        assert_eq!(all(&files), [""; 0]);
    }
}
