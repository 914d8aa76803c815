//! The frameworks of the proofs, and how an app of each is built and started.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;

use crate::command::{CommandLine, command, program};
use crate::{clients, system};

use super::apps::PreparedApp;

const PYTHON_APPS: &str = "clients/python/tests/proof";
const GO_APPS: &str = "clients/go/internal/apps";

/// A JVM compiles what runs often.
const JVM_WARM_UP: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Framework {
    pub(super) name: &'static str,
    server: AppServer,
    /// The limiter that `/usual` has.
    pub(super) usual: &'static str,
    /// The limiter that counts in the service under `/adapter`, if there is one that counts in one step.
    pub(super) adapter: Option<&'static str>,
}

/// How an app runs.
#[derive(Debug)]
enum AppServer {
    /// This module of Python, served by uvicorn.
    Uvicorn(&'static str),
    /// This module of Python, served by gunicorn with one process and many threads.
    Gunicorn(&'static str),
    /// The program of this folder.
    Go(&'static str),
    /// This module of JavaScript.
    Node(&'static str),
    /// This class.
    Java(&'static str),
}

pub(super) const FRAMEWORKS: [Framework; 13] = [
    Framework {
        name: "fastapi",
        server: AppServer::Uvicorn("fastapi_app:app"),
        usual: "slowapi",
        adapter: Some("slowapi"),
    },
    Framework {
        name: "flask",
        server: AppServer::Gunicorn("flask_app:app"),
        usual: "Flask-Limiter",
        adapter: Some("Flask-Limiter"),
    },
    Framework {
        name: "django",
        server: AppServer::Gunicorn("django_app:app"),
        usual: "django-ratelimit",
        adapter: None,
    },
    Framework { name: "net/http", server: AppServer::Go("nethttp"), usual: "httprate-redis", adapter: None },
    Framework {
        name: "gin",
        server: AppServer::Go("gin"),
        usual: "ulule/limiter",
        adapter: Some("ulule/limiter"),
    },
    Framework {
        name: "express",
        server: AppServer::Node("express.mjs"),
        usual: "express-rate-limit",
        adapter: Some("express-rate-limit"),
    },
    Framework {
        name: "fastify",
        server: AppServer::Node("fastify.mjs"),
        usual: "@fastify/rate-limit",
        adapter: None,
    },
    Framework {
        name: "hono",
        server: AppServer::Node("hono.mjs"),
        usual: "hono-rate-limiter",
        adapter: None,
    },
    Framework {
        name: "nest",
        server: AppServer::Node("nest.mjs"),
        usual: "@nestjs/throttler",
        adapter: Some("@nestjs/throttler"),
    },
    Framework {
        name: "spring-mvc",
        server: AppServer::Java("MvcApp"),
        usual: "bucket4j's starter",
        adapter: None,
    },
    Framework {
        name: "spring-filter",
        server: AppServer::Java("FilterApp"),
        usual: "bucket4j's starter",
        adapter: None,
    },
    Framework {
        name: "spring-webflux",
        server: AppServer::Java("WebFluxApp"),
        usual: "bucket4j's starter",
        adapter: None,
    },
    Framework {
        name: "spring-gateway",
        server: AppServer::Java("GatewayApp"),
        usual: "RedisRateLimiter",
        adapter: None,
    },
];

impl Framework {
    /// Installs what the app needs, or builds it.
    pub(super) fn prepare(&self, folder: &Path) -> Result<PreparedApp> {
        let line = match self.server {
            AppServer::Uvicorn(app) => python()?
                .arguments(["-m", "uvicorn", "--app-dir", PYTHON_APPS, app])
                .arguments(["--no-access-log", "--log-level", "warning"]),
            AppServer::Gunicorn(app) => python()?
                .arguments(["-m", "gunicorn", "--chdir", PYTHON_APPS, app])
                .arguments(["--workers", "1", "--threads", "32", "--keep-alive", "60"])
                .arguments(["--log-level", "warning"]),
            AppServer::Go(app) => program(&build_go(app, folder)?),
            AppServer::Node(app) => command("node").argument(clients::javascript_apps()?.join(app)),
            AppServer::Java(app) => {
                let class = format!("io.github.tollgaters.apps.{app}");
                command("java -cp").arguments([clients::java_apps()?, class])
            }
        };
        let address_arguments = match self.server {
            AppServer::Uvicorn(_) => {
                |address: SocketAddr| vec!["--port".to_owned(), address.port().to_string()]
            }
            AppServer::Gunicorn(_) => |address: SocketAddr| vec!["--bind".to_owned(), address.to_string()],
            AppServer::Go(_) | AppServer::Node(_) | AppServer::Java(_) => |_: SocketAddr| Vec::new(),
        };
        let warm_up = match self.server {
            AppServer::Java(_) => JVM_WARM_UP,
            _ => Duration::ZERO,
        };
        let log = folder.join(format!("{}.log", short_name(self.name)));
        Ok(PreparedApp { line, address_arguments, warm_up, log })
    }
}

fn python() -> Result<CommandLine> {
    Ok(program(&clients::python()?).environment("PYTHONDONTWRITEBYTECODE", "1"))
}

fn build_go(app: &str, folder: &Path) -> Result<PathBuf> {
    system::GO.require()?;
    let binary = folder.join(app);
    command("go build -mod=readonly -o")
        .argument(&binary)
        .argument(format!("./{app}"))
        .directory(GO_APPS.into())
        .run()?;
    Ok(binary)
}

/// Returns a framework's name for results and files.
pub(super) fn short_name(framework: &str) -> String {
    framework.replace('/', "")
}
