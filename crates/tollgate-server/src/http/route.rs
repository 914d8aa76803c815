//! Which paths there are, on which listener, and what may be done there.

use clap::ValueEnum;
use http::Method;

use super::System;
use crate::args::Answers;

/// The two sockets of the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listener {
    /// For callers: a caller's own checks.
    Public,
    /// For administrators: what reads or changes more.
    Admin,
}

/// What a path leads to.
#[derive(Clone, Copy)]
pub(super) enum Route {
    Check,
    Peek,
    Batch,
    Refund,
    Reset,
    Set,
    Policies,
    Reload,
    PolicySchema,
    Metrics,
    OpenApi,
    Health,
    Ready,
    /// A check as another system is asked.
    Other(&'static System),
}

/// Where a path is answered that is not answered here.
pub(super) enum Elsewhere {
    /// On the other listener.
    Listener(Listener),
    /// As the system of this name, if that is asked for.
    Answers(String),
}

impl Listener {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Admin => "admin",
        }
    }
}

impl Route {
    pub(super) fn at(listener: Listener, path: &str, answers: Option<&'static System>) -> Option<Self> {
        Some(match (listener, path) {
            (Listener::Public, "/v1/check") => Self::Check,
            (Listener::Public, "/v1/peek") => Self::Peek,
            (Listener::Public, "/v1/check/batch") => Self::Batch,
            (Listener::Admin, "/v1/refund") => Self::Refund,
            (Listener::Admin, "/v1/reset") => Self::Reset,
            (Listener::Admin, "/v1/set") => Self::Set,
            (Listener::Admin, "/v1/policies") => Self::Policies,
            (Listener::Admin, "/v1/policies/reload") => Self::Reload,
            (Listener::Admin, "/v1/policies/schema") => Self::PolicySchema,
            (Listener::Admin, "/metrics") => Self::Metrics,
            (Listener::Admin, "/openapi.json") => Self::OpenApi,
            (_, "/healthz") => Self::Health,
            (_, "/readyz") => Self::Ready,
            (Listener::Public, path) => Self::Other(answers.filter(|system| system.path == path)?),
            _ => return None,
        })
    }

    /// Where a path is answered that this listener does not answer; `None` if nowhere.
    pub(super) fn elsewhere(listener: Listener, path: &str) -> Option<Elsewhere> {
        let other = match listener {
            Listener::Public => Listener::Admin,
            Listener::Admin => Listener::Public,
        };
        if Self::at(other, path, None).is_some() {
            return Some(Elsewhere::Listener(other));
        }
        let answers = Answers::value_variants().iter().find(|answers| System::of(**answers).path == path)?;
        Some(Elsewhere::Answers(answers.to_possible_value()?.get_name().to_owned()))
    }

    pub(super) fn allows(self, method: &Method) -> bool {
        match *method {
            Method::GET => matches!(self, Self::Check | Self::Other(_)) || self.is_read(),
            // A check by HEAD would take units and could not say how many are left.
            Method::HEAD => self.is_read(),
            Method::POST => !matches!(self, Self::Other(_)) && !self.is_read(),
            _ => false,
        }
    }

    /// The value of the header `Allow`.
    pub(super) fn allow(self) -> &'static str {
        match self {
            Self::Check => "GET, POST",
            Self::Other(_) => "GET",
            _ if self.is_read() => "GET, HEAD",
            _ => "POST",
        }
    }

    /// Whether it only reads, and so can be asked any number of times.
    fn is_read(self) -> bool {
        matches!(
            self,
            Self::Policies | Self::PolicySchema | Self::Metrics | Self::OpenApi | Self::Health | Self::Ready
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allow_names_the_methods_that_are_allowed() {
        let routes = [
            Route::Check,
            Route::Peek,
            Route::Refund,
            Route::Reload,
            Route::Policies,
            Route::Metrics,
            Route::Ready,
            Route::Other(System::of(Answers::Rlaas)),
        ];
        for route in routes {
            for method in [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::OPTIONS] {
                let named = route.allow().split(", ").any(|name| name == method.as_str());
                assert_eq!(route.allows(&method), named, "{} {method}", route.allow());
            }
        }
    }
}
