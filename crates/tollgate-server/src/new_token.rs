//! `tollgate token new`: a token, and the line for the file of `serve --tokens`.

use serde_json::json;

use crate::args::NewTokenArgs;
pub use crate::principals::NoRandomness;
use crate::principals::{self, Line};

/// Creates a token. Returns the text to print.
///
/// # Errors
///
/// If the system returns no random bytes.
pub fn run(args: &NewTokenArgs) -> Result<String, NoRandomness> {
    let token = principals::generate()?;
    let policies = (!args.policies.is_empty()).then_some(&args.policies[..]);
    let line = Line::of_token(&token, &args.name, &args.scopes, policies, args.expires);
    // This cannot fail: all keys are texts.
    let line = serde_json::to_string(&line).unwrap_or_default();
    Ok(if args.json {
        format!("{}\n", json!({ "token": token, "line": line }))
    } else {
        format!(
            "The token, which is shown this once:\n{token}\n\nThe line for the file of --tokens:\n{line}\n"
        )
    })
}
