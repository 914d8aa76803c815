//! `tollgate --version`: the version and build of this binary.

/// Returns the version; if `is_verbose`, the commit, the features and the target of this build as well.
#[must_use]
pub fn text(is_verbose: bool) -> String {
    let version = env!("CARGO_PKG_VERSION");
    if !is_verbose {
        return format!("tollgate {version}\n");
    }
    let libc = if cfg!(target_feature = "crt-static") { "crt-static" } else { "none" };
    let (commit, target) = (env!("TOLLGATE_BUILT_COMMIT"), env!("TOLLGATE_BUILT_TARGET"));
    format!("tollgate {version}\ncommit    {commit}\nfeatures  {libc}\ntarget    {target}\n")
}
