//! `tollgate --version`: the version and build of this binary.

/// Returns the version; if `is_verbose`, the commit, the features and the target of this build as well.
#[must_use]
pub fn text(is_verbose: bool) -> String {
    let version = env!("CARGO_PKG_VERSION");
    if !is_verbose {
        return format!("tollgate {version}\n");
    }
    let features =
        [("crt-static", cfg!(target_feature = "crt-static")), ("simulate", cfg!(feature = "simulate"))];
    let features: Vec<_> = features.iter().filter(|(_, is_on)| *is_on).map(|(name, _)| *name).collect();
    let features = if features.is_empty() { "none".to_owned() } else { features.join(", ") };
    let (commit, target) = (env!("BUILT_COMMIT"), env!("BUILT_TARGET"));
    format!("tollgate {version}\ncommit    {commit}\nfeatures  {features}\ntarget    {target}\n")
}
