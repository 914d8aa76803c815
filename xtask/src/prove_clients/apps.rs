//! The frameworks, and the two processes of an app that each proof starts.
//!
//! An app takes its address, that of the service, that of Redis and the timeout of its client from its environment. It
//! answers `/limited` under the limit of the service, `/free` without one, `/bare` after a plain request to the service by
//! the same HTTP library, `/usual` under the framework's usual limiter on the same Redis, `/adapter` under a limiter of
//! others that counts 20 an hour in the service, and `/failures` with the client's counts.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::command::{CommandLine, command, program};
use crate::service::{KilledProcess, free_address, until};
use crate::{clients, system};

use super::connection::AppConnection;

const PYTHON_APPS: &str = "clients/python/tests/proof";
const GO_APPS: &str = "clients/go/internal/apps";

#[derive(Debug)]
pub(super) struct Framework {
    pub(super) name: &'static str,
    server: AppServer,
    /// The limiter that `/usual` has.
    pub(super) usual: &'static str,
    /// The limiter that counts in the service under `/adapter`, if there is one that counts in one step.
    pub(super) adapter: Option<&'static str>,
}

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
}

pub(super) const FRAMEWORKS: [Framework; 9] = [
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
];

/// Returns a framework's name for results and files.
pub(super) fn short_name(framework: &str) -> String {
    framework.replace('/', "")
}

impl Framework {
    /// Installs what the app needs, or builds it, and returns the command without its address.
    pub(super) fn prepare(&self, folder: &Path) -> Result<PreparedApp<'_>> {
        let program = match self.server {
            AppServer::Uvicorn(_) | AppServer::Gunicorn(_) => clients::python()?,
            AppServer::Go(app) => build_go(app, folder)?,
            AppServer::Node(app) => clients::javascript_apps()?.join(app),
        };
        Ok(PreparedApp {
            framework: self,
            program,
            log: folder.join(format!("{}.log", short_name(self.name))),
        })
    }
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

/// An app that can be started.
pub(super) struct PreparedApp<'a> {
    framework: &'a Framework,
    /// Python, a module of JavaScript, or the app itself.
    program: PathBuf,
    /// What the app writes goes to the end of this file.
    log: PathBuf,
}

impl PreparedApp<'_> {
    /// Starts two processes that ask the service at this address, and waits until they answer.
    pub(super) fn start(&self, service: SocketAddr, redis: &str, timeout: Duration) -> Result<RunningApp> {
        let addresses = [free_address()?, free_address()?];
        let mut processes = Vec::new();
        for address in addresses {
            let line = self
                .line(address)
                .environment("PYTHONDONTWRITEBYTECODE", "1")
                .environment("LISTEN", address.to_string())
                .environment("TOLLGATE_URL", format!("http://{service}"))
                .environment("REDIS_URL", redis)
                .environment("TIMEOUT", timeout.as_secs_f64().to_string());
            let mut process = KilledProcess(line.spawn_into(&self.log)?);
            let mut has_ended = false;
            until("an app answers", || {
                has_ended = matches!(process.0.try_wait(), Ok(Some(_)));
                has_ended || AppConnection::new(address).get("/free", "").is_ok_and(|it| it.status == 200)
            })?;
            ensure!(!has_ended, "an app ended by itself, see {}: {line}", self.log.display());
            processes.push(process);
        }
        Ok(RunningApp { addresses, _processes: processes })
    }

    fn line(&self, address: SocketAddr) -> CommandLine {
        let line = program(&self.program);
        let address = address.to_string();
        match self.framework.server {
            AppServer::Uvicorn(app) => {
                let port = address.rsplit(':').next().unwrap_or_default();
                line.arguments(["-m", "uvicorn", "--app-dir", PYTHON_APPS, app]).arguments([
                    "--port",
                    port,
                    "--no-access-log",
                    "--log-level",
                    "warning",
                ])
            }
            AppServer::Gunicorn(app) => line
                .arguments(["-m", "gunicorn", "--chdir", PYTHON_APPS, app, "--bind", &address])
                .arguments(["--workers", "1", "--threads", "32", "--keep-alive", "60"])
                .arguments(["--log-level", "warning"]),
            AppServer::Go(_) => line,
            AppServer::Node(_) => command("node").argument(&self.program),
        }
    }
}

/// Two processes of an app on free ports, which end on drop.
pub(super) struct RunningApp {
    pub(super) addresses: [SocketAddr; 2],
    _processes: Vec<KilledProcess>,
}

impl RunningApp {
    /// The kept-alive connections of all processes in turn.
    pub(super) fn connection(&self, index: usize) -> AppConnection {
        AppConnection::new(self.addresses[index % self.addresses.len()])
    }

    /// Returns how many calls of both processes' clients had no answer.
    pub(super) fn failures(&self) -> Result<u64> {
        let mut sum = 0;
        for address in self.addresses {
            let answer = AppConnection::new(address).get("/failures", "")?;
            let counts: Value = serde_json::from_slice(&answer.body).context("/failures sent no JSON")?;
            let counts = counts.as_object().context("/failures sent no object")?;
            sum += counts.values().filter_map(Value::as_u64).sum::<u64>();
        }
        Ok(sum)
    }
}
