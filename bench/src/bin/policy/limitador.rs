//! limitador with the rules of a mix.

use std::collections::HashMap;
use std::hint::black_box;

use anyhow::{Result, anyhow, bail};
use limitador::RateLimiter;
use limitador::limit::{Context, Limit, Namespace};

use crate::Peer;
use crate::mix::{Mix, Request};

pub(crate) fn with(mix: &Mix) -> Result<Peer> {
    let limiter = RateLimiter::new(100_000);
    for (number, expression) in mix.expressions.iter().enumerate() {
        let condition = expression.as_str().try_into().map_err(|error| anyhow!("{expression}: {error}"))?;
        let variable = "user".try_into().map_err(|error| anyhow!("user: {error}"))?;
        // Rules are identified by their windows and conditions.
        let mut limit = Limit::new("bench", 1_000_000, 60, [condition], [variable]);
        limit.set_name(format!("p{number}"));
        limiter.add_limit(limit);
    }
    let namespace = "bench".into();
    Ok(Box::new(move |requests| requests.iter().try_for_each(|request| ask(&limiter, &namespace, request))))
}

/// Checks, from the attributes of a request, whether it has room.
fn ask(limiter: &RateLimiter, namespace: &Namespace, request: &Request) -> Result<()> {
    let values: HashMap<String, String> =
        request.0.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let answer = limiter.is_rate_limited(namespace, &Context::from(values), 1);
    let answer = answer.map_err(|error| anyhow!("limitador: {error}"))?;
    if black_box(answer.counters.len()) != 2 {
        bail!("{request:?} is charged by others than two: {:?}", answer.counters);
    }
    Ok(())
}
