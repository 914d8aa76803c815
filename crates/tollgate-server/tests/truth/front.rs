//! Web servers in front of the service: nginx, Caddy and HAProxy as in the manual's page about proxies, and Apache, which
//! cannot ask, in front of an app that does.

use std::env;
use std::fs::{self, File};
use std::io::Write;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::thread;

use crate::free_address;
use crate::manual::{Addresses, file};
use crate::proxy::{Proxy, program};
use crate::support::folder::Folder;

/// A web server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Nginx,
    Apache,
    Caddy,
    Haproxy,
}

/// A web server that runs.
pub(crate) struct Front {
    pub(crate) address: SocketAddr,
    pub(crate) logs: Vec<Log>,
    proxy: Proxy,
}

/// A log that it writes.
#[derive(Debug, Clone)]
pub(crate) struct Log {
    pub(crate) name: &'static str,
    pub(crate) file: String,
    /// How it is read.
    pub(crate) arguments: Vec<String>,
}

/// Where the servers find each other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Behind {
    /// `None` if the app asks the service, and the web server does not.
    pub(crate) service: Option<SocketAddr>,
    pub(crate) app: SocketAddr,
}

const NGINX_SECONDS: &str = r#"log_format seconds '$remote_addr $remote_user [$time_local] "$request" $status "$http_x_api_key" "$http_x_forwarded_for" $request_time';"#;
const NGINX_JSON: &str = r#"log_format json escape=json '{"msec":$msec,"remote_addr":"$remote_addr","request":"$request","status":$status,"request_time":$request_time,"http_x_api_key":"$http_x_api_key","http_x_forwarded_for":"$http_x_forwarded_for"}';"#;
const APACHE_SECONDS: &str =
    r#"LogFormat "%a %u %t \"%r\" %>s \"%{X-Api-Key}i\" \"%{X-Forwarded-For}i\"" seconds"#;
const APACHE_MICROS: &str =
    r#"LogFormat "%a %u %{usec}t %D \"%r\" %>s \"%{X-Api-Key}i\" \"%{X-Forwarded-For}i\"" micros"#;

impl Kind {
    pub(crate) const ALL: [Self; 4] = [Self::Nginx, Self::Apache, Self::Caddy, Self::Haproxy];

    /// Those that read the clock by the C library, where it can be moved. Caddy asks the kernel by itself, as all programs
    /// in Go do.
    pub(crate) const ON_ANY_CLOCK: [Self; 3] = [Self::Nginx, Self::Apache, Self::Haproxy];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::Apache => "apache",
            Self::Caddy => "caddy",
            Self::Haproxy => "haproxy",
        }
    }

    /// Whether it asks the service. If not, the app behind it does.
    pub(crate) const fn asks(self) -> bool {
        !matches!(self, Self::Apache)
    }

    /// Whether its logs have headers.
    pub(crate) const fn logs_headers(self) -> bool {
        !matches!(self, Self::Haproxy)
    }

    /// Whether its logs keep bytes that are not UTF-8.
    pub(crate) const fn logs_bytes(self) -> bool {
        matches!(self, Self::Nginx | Self::Apache)
    }

    /// Starts it, with these variables.
    pub(crate) fn start(self, folder: &Folder, behind: Behind, variables: &[(String, String)]) -> Front {
        let proxy = free_address();
        let tollgate = behind.service.unwrap_or(behind.app);
        let addresses = Addresses { proxy, tollgate, upstream: behind.app };
        let (mut command, logs) = match self {
            Self::Nginx => nginx(folder, addresses, variables),
            Self::Apache => apache(folder, addresses),
            Self::Caddy => caddy(folder, addresses),
            Self::Haproxy => haproxy(folder, addresses, behind.service.is_some()),
        };
        command.env("TZ", "UTC").envs(variables.iter().cloned());
        let over_ipv6 = SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], proxy.port()));
        let proxy = Proxy::start(command, folder, &[proxy, over_ipv6]);
        Front { address: addresses.proxy, logs, proxy }
    }
}

impl Front {
    /// Ends it.
    pub(crate) fn stop(self) -> Vec<Log> {
        drop(self.proxy);
        self.logs
    }
}

impl Log {
    /// Its lines about requests with this text. Caddy logs errors in lines of their own.
    pub(crate) fn count(&self, text: &str) -> usize {
        let log = fs::read(&self.file).unwrap_or_default();
        let is_of = |line: &&str| line.contains(text) && !line.contains("http.log.error");
        String::from_utf8_lossy(&log).lines().filter(is_of).count()
    }

    fn new(name: &'static str, folder: &Folder, file: &str, arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        Self { name, file: folder.path(file), arguments }
    }
}

/// Where logs with headers have the user and the client.
const NAMES: [&str; 4] = ["--attr", "header.x-api-key=header:X-Api-Key", "--attr", "ip=xff:127.0.0.0/8"];

fn replace(text: String, find: &str, put: &str) -> String {
    assert!(text.contains(find), "{find} is not in {text}");
    text.replacen(find, put, 1)
}

fn nginx(folder: &Folder, at: Addresses, variables: &[(String, String)]) -> (Command, Vec<Log>) {
    let port = at.proxy.port();
    // nginx takes all variables from its environment but these.
    let kept: String = variables.iter().map(|(name, _)| format!("env {name};\n")).collect();
    let own = format!(
        "http {{\n    client_body_temp_path body;\n    proxy_temp_path proxy;\n    fastcgi_temp_path fastcgi;\n    \
         uwsgi_temp_path uwsgi;\n    scgi_temp_path scgi;\n    {NGINX_SECONDS}\n    {NGINX_JSON}\n    \
         access_log seconds.log seconds;\n    access_log json.log json;\n"
    );
    let text = replace(kept + &file("proxies.md", "nginx.conf", at), "http {\n", &own);
    let listen = format!("listen 127.0.0.1:{port};");
    let text = replace(text, &listen, &format!("{listen} listen [::1]:{port};"));
    folder.write("nginx.conf", &text);
    let include = file("proxies.md", "tollgate.conf", at);
    let include =
        replace(include, "X-Forwarded-For $remote_addr", "X-Forwarded-For $proxy_add_x_forwarded_for");
    folder.write("tollgate.conf", &include);
    let mut command = Command::new(program("TOLLGATE_NGINX"));
    command.args(["-p", folder.root().to_str().expect("text"), "-c", "nginx.conf", "-e", "error.log"]);
    command.args(["-g", "daemon off; master_process off; pid nginx.pid;"]);
    let logs = vec![
        Log::new(
            "nginx/seconds",
            folder,
            "seconds.log",
            &[&["--format", NGINX_SECONDS], &NAMES[..]].concat(),
        ),
        Log::new("nginx/json", folder, "json.log", &NAMES),
    ];
    (command, logs)
}

fn apache(folder: &Folder, at: Addresses) -> (Command, Vec<Log>) {
    let program = program("TOLLGATE_APACHE");
    let root =
        Path::new(&program).parent().and_then(Path::parent).expect("it is in usr/sbin").join("lib/apache2");
    let (root, folder_path) = (root.display(), folder.root().display());
    let (port, app) = (at.proxy.port(), at.upstream);
    let modules: String = ["mpm_event", "authz_core", "proxy", "proxy_http"]
        .map(|module| format!("LoadModule {module}_module modules/mod_{module}.so\n"))
        .concat();
    let text = format!(
        "ServerRoot {root}\nDefaultRuntimeDir {folder_path}\nServerName shop.example\nListen 127.0.0.1:{port}\n\
         Listen [::1]:{port}\nPidFile {folder_path}/apache.pid\nErrorLog {folder_path}/error.log\nUser nobody\n\
         Group nogroup\n{modules}{APACHE_SECONDS}\n{APACHE_MICROS}\nCustomLog {folder_path}/seconds.log seconds\n\
         CustomLog {folder_path}/micros.log micros\nAllowEncodedSlashes NoDecode\nProxyPass / http://{app}/ nocanon\n"
    );
    let mut command = Command::new(program);
    // In one process that can be killed.
    command.args(["-X", "-f", &folder.write("apache.conf", &text)]);
    set_libraries(&mut command, "TOLLGATE_APACHE_LIBRARIES");
    let with = |format: &'static str| [&["--format", format], &NAMES[..]].concat();
    let logs = vec![
        Log::new("apache/seconds", folder, "seconds.log", &with(APACHE_SECONDS)),
        Log::new("apache/micros", folder, "micros.log", &with(APACHE_MICROS)),
    ];
    (command, logs)
}

fn caddy(folder: &Folder, at: Addresses) -> (Command, Vec<Log>) {
    let bind = "\tbind 127.0.0.1\n";
    let log = format!("\tbind 127.0.0.1 ::1\n\tlog {{\n\t\toutput file {}\n\t}}\n", folder.path("caddy.log"));
    let text = replace(file("proxies.md", "Caddyfile", at), bind, &log);
    let asks = "\t\t\tmethod GET\n";
    let text = replace(text, asks, &format!("{asks}\t\t\ttrusted_proxies 127.0.0.0/8\n"));
    let config = folder.write("Caddyfile", &text);
    let mut command = Command::new(program("TOLLGATE_CADDY"));
    command.args(["run", "--config", &config, "--adapter", "caddyfile"]);
    let root = folder.root();
    command.env("HOME", root).env("XDG_DATA_HOME", root).env("XDG_CONFIG_HOME", root);
    command.env("CADDY_ADMIN", free_address().to_string());
    (command, vec![Log::new("caddy/json", folder, "caddy.log", &NAMES)])
}

/// It sends its log to a socket, as it does to a syslog daemon.
fn haproxy(folder: &Folder, at: Addresses, asks: bool) -> (Command, Vec<Log>) {
    let port = at.proxy.port();
    let log = syslog(&folder.path("haproxy.log"));
    folder.write("tollgate.lua", &file("proxies.md", "tollgate.lua", at));
    let text = replace(
        file("proxies.md", "haproxy.cfg", at),
        "global\n",
        &format!("global\n    nbthread 1\n    log {log} len 32768 format rfc3164 local0\n"),
    );
    let text =
        replace(text, "defaults\n", "defaults\n    log global\n    option httplog\n    option dontlognull\n");
    let text = match asks {
        true => text,
        false => without_script(&text),
    };
    let bind = format!("    bind 127.0.0.1:{port}\n");
    let trusts = "    http-request set-src req.hdr(x-forwarded-for) if { src 127.0.0.0/8 } { req.hdr(x-forwarded-for) -m found }\n";
    let text = replace(text, &bind, &format!("{bind}    bind ::1:{port}\n{trusts}"));
    let mut command = Command::new(program("TOLLGATE_HAPROXY"));
    command.args(["-db", "-f", &folder.write("haproxy.cfg", &text)]);
    set_libraries(&mut command, "TOLLGATE_HAPROXY_LIBRARIES");
    (command, vec![Log::new("haproxy/syslog", folder, "haproxy.log", &[])])
}

/// The app asks in its place, and has to know the client.
fn without_script(text: &str) -> String {
    let kept = text.lines().filter(|line| !line.contains("tollgate") && !line.contains("txn."));
    let kept: String = kept.map(|line| format!("{line}\n")).collect();
    replace(kept, "defaults\n", "defaults\n    option forwardfor\n")
}

/// Where the daemon listens that writes what it gets into this file.
fn syslog(file: &str) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let address = socket.local_addr().expect("an address");
    let mut file = File::create(file).expect("a file");
    thread::spawn(move || {
        let mut line = vec![0; 1 << 16];
        while let Ok(length) = socket.recv(&mut line) {
            let line = line[..length].trim_ascii_end();
            if file.write_all(&[line, b"\n"].concat()).is_err() {
                return;
            }
        }
    });
    address
}

fn set_libraries(command: &mut Command, variable: &str) {
    if let Some(libraries) = env::var_os(variable) {
        command.env("LD_LIBRARY_PATH", libraries);
    }
}
