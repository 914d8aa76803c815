//! Endpoints for monitoring: metrics, and health in Spring's format.

use http::header::ACCEPT;
use http::{Request, StatusCode};
use hyper::body::Incoming;

use super::wire::HealthReply;
use super::{Edge, Reply, reply};
use crate::access::caller::Caller;
use crate::answer::rejection::Rejection;
use crate::metrics::TextFormat;

impl Edge {
    /// Answers in the older text format if the client prefers it, else in OpenMetrics. The figures cover all policies,
    /// so callers that may use only some are refused.
    pub(super) async fn metrics(
        &self,
        caller: &Caller,
        request: Request<Incoming>,
    ) -> Result<Reply, Rejection> {
        caller.may_touch_all()?;
        let accept = request.headers().get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let format = if prefers_plain(accept) { TextFormat::Plain } else { TextFormat::OpenMetrics };
        Ok(reply::text(format.content_type(), self.scrape.text(format).into()))
    }

    pub(super) async fn health(&self) -> Result<Reply, Rejection> {
        self.ready().await?;
        Ok(reply::json(StatusCode::OK, &HealthReply::UP))
    }
}

/// Returns whether these `Accept` headers prefer plain text to OpenMetrics.
fn prefers_plain<'a>(accept: impl Iterator<Item = &'a str>) -> bool {
    let (mut plain, mut open) = (0.0_f32, 0.0_f32);
    for range in accept.flat_map(|value| value.split(',')) {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
        let weight = parts.find_map(|part| part.strip_prefix("q=")?.parse().ok()).unwrap_or(1.0);
        match kind.as_str() {
            "text/plain" | "text/*" => plain = plain.max(weight),
            "application/openmetrics-text" | "application/*" | "*/*" => open = open.max(weight),
            _ => {}
        }
    }
    plain > open
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_is_for_clients_that_prefer_it() {
        let prefers = |accept: &str| prefers_plain([accept].into_iter());
        assert!(
            prefers("text/plain") && prefers("text/plain; version=0.0.4") && prefers("TEXT/PLAIN, */*;q=0.1")
        );
        assert!(!prefers("") && !prefers("*/*") && !prefers("text/html") && !prefers("text/plain, */*"));
        // The header that Prometheus sends.
        assert!(!prefers(
            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
             application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;q=0.4,text/plain;version=0.0.4;\
             q=0.3,*/*;q=0.2"
        ));
        assert!(prefers("text/plain;version=0.0.4;q=0.5,*/*;q=0.1"));
    }
}
