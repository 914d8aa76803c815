//! A page of another site in a real browser, headless Chromium.
//!
//! The page is of `evil.example`, which the browser is told lies on this machine. Its server answers the page and
//! passes everything else on to the admin listener, byte by byte, as if the name had been bound to that again.

#![allow(clippy::expect_used, reason = "this is a test")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write, copy};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use serde_json::Value;

use crate::support::{HANG, Server};

/// `ADMIN` and `PUBLIC` are the origins of the listeners. Each attempt tells what the page could read.
const PAGE: &str = r#"<!doctype html><body><script>
const reset = '{"attributes": {"user": "alice"}}';
const set = '{"attributes": {"user": "alice"}, "used": 0}';
const changes = [["/v1/reset", reset], ["/v1/set", set], ["/v1/policies/reload", "{}"]];
const reads = ["/metrics", "/v1/policies", "/openapi.json"];
const seen = [];

async function attempt(what, url, options) {
  let read = null;
  try { read = await (await fetch(url, options)).text(); } catch (error) { read = ""; }
  seen.push({ what, read });
}

function form(url, type, body) {
  return new Promise((sent) => {
    const frame = document.createElement("iframe");
    frame.name = "frame" + Math.random();
    const form = document.createElement("form");
    Object.assign(form, { action: url, method: "POST", enctype: type, target: frame.name });
    const input = document.createElement("input");
    // As text, this is the body with a field more: `{"attributes": {...}, "": "="}`.
    [input.name, input.value] = type === "text/plain" ? [body.slice(0, -1) + ', "', '": 0}'] : ["body", body];
    form.append(input);
    document.body.append(frame, form);
    frame.onload = () => {
      let read = "";
      try { read = frame.contentDocument.body.textContent; } catch (error) {}
      seen.push({ what: "form " + type + " " + url, read });
      sent();
    };
    form.submit();
  });
}

function element(name, url) {
  return new Promise((done) => {
    const element = document.createElement(name);
    element.onload = element.onerror = () => done();
    element.src = url;
    document.body.append(element);
  });
}

(async () => {
  for (const [path, body] of changes) {
    const blobs = [body, new Blob([body]), new Blob([body], { type: "application/json" })];
    for (const data of blobs) {
      await attempt("no-cors " + path, "ADMIN" + path, { method: "POST", mode: "no-cors", body: data });
      await attempt("no-cors typed " + path, "ADMIN" + path,
        { method: "POST", mode: "no-cors", body: data, headers: { "content-type": "application/json" } });
      await attempt("cors " + path, "ADMIN" + path,
        { method: "POST", body: data, headers: { "content-type": "application/json" } });
      await attempt("rebound " + path, path,
        { method: "POST", body: data, headers: { "content-type": "application/json" } });
      navigator.sendBeacon("ADMIN" + path, data);
    }
    for (const type of ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
      await form("ADMIN" + path, type, body);
  }
  for (const path of reads) {
    await attempt("no-cors " + path, "ADMIN" + path, { mode: "no-cors" });
    await attempt("cors " + path, "ADMIN" + path, {});
    await attempt("rebound " + path, path, {});
    await element("script", "ADMIN" + path);
    await element("img", "ADMIN" + path);
  }
  // That the browser does reach the service: checks are for everybody.
  await attempt("check", "PUBLIC/v1/check?user=control", { mode: "no-cors" });
  await fetch("/report", { method: "POST", body: JSON.stringify(seen) });
})();
</script></body>"#;

/// The browser and its processes, killed when it is dropped.
struct Browser {
    child: Child,
    profile: PathBuf,
}

impl Browser {
    /// Opens a page. The name of the page's site leads to this machine.
    fn open(url: &str) -> Self {
        let program = "chromium-headless-shell";
        let profile = std::env::temp_dir().join(format!("tollgate-browser-{}", std::process::id()));
        let child = Command::new(program)
            // As root there is no sandbox, and in a container little shared memory.
            .args(["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--remote-debugging-port=0"])
            .arg("--host-resolver-rules=MAP evil.example 127.0.0.1")
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg(url)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // On Debian the program is a script, and the browser its child.
            .process_group(0)
            .spawn();
        let install = "is missing; install it with: sudo apt-get install chromium-headless-shell";
        let child = child.unwrap_or_else(|error| panic!("{program} {install} ({error})"));
        Self { child, profile }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let kill = format!("kill -s KILL -- -{}", self.child.id());
        let _ = Command::new("sh").args(["-c", &kill]).status();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.profile);
    }
}

/// One connection of the browser to the page's site.
fn serve(stream: TcpStream, page: &str, admin: SocketAddr, report: &Sender<String>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("content-length").then(|| value.parse().ok())?
    });
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    let mut stream = stream;
    let mut answer = |body: &str| {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close";
        write!(stream, "{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).ok()
    };
    match head.split(' ').nth(1)? {
        "/page" => answer(page),
        "/report" => {
            report.send(String::from_utf8(body).ok()?).ok()?;
            answer("")
        }
        _ => {
            let mut upstream = TcpStream::connect(admin).ok()?;
            // One request each, so that the next one is looked at here as well.
            upstream
                .write_all(head.replacen("Connection: keep-alive", "Connection: close", 1).as_bytes())
                .ok()?;
            upstream.write_all(&body).ok()?;
            copy(&mut upstream, &mut stream).ok()?;
            stream.shutdown(Shutdown::Both).ok()
        }
    }
}

#[test]
fn a_page_in_a_real_browser_changes_and_reads_nothing() {
    let server = Server::start(&["--limit", "9/1d@first_hit", "--key", "user"]);
    assert_eq!(server.get("/v1/check?user=alice&cost=3").status, 200);
    let site = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = site.local_addr().expect("an address").port();
    let page = PAGE.replace("ADMIN", &format!("http://{}", server.admin));
    let page = page.replace("PUBLIC", &format!("http://{}", server.public));
    let (reports, reported) = channel();
    let admin = server.admin;
    thread::spawn(move || {
        for stream in site.incoming().map_while(Result::ok) {
            let (page, reports) = (page.clone(), reports.clone());
            thread::spawn(move || serve(stream, &page, admin, &reports));
        }
    });

    let _browser = Browser::open(&format!("http://evil.example:{port}/page"));
    let report = reported.recv_timeout(HANG).expect("the page comes to its end");
    let seen: Vec<Value> = serde_json::from_str(&report).expect("JSON");

    assert_eq!(seen.len(), 3 * (3 * 4 + 3) + 3 * 3 + 1);
    for Attempt { what, read } in seen.iter().map(Attempt::of) {
        let is_refusal = read.contains(r#""status":403"#) && what.starts_with("rebound");
        assert!(read.is_empty() || is_refusal, "{what} read {read}");
    }
    let rebound = seen.iter().map(Attempt::of).filter(|attempt| attempt.what.starts_with("rebound"));
    assert!(rebound.clone().all(|attempt| attempt.read.contains("--allowed-host")), "{report}");
    assert_eq!(rebound.count(), 3 * 3 + 3);

    let peek = |user: &str| {
        let body = format!(r#"{{"attributes": {{"user": "{user}"}}}}"#);
        server.post("/v1/peek", &body).json()["used"].as_u64()
    };
    assert_eq!(peek("alice"), Some(3), "nothing has changed");
    assert_eq!(peek("control"), Some(1), "the browser reaches the service");
    let rejected = |status: u16| {
        let name = format!(r#"tollgate_http_requests_rejected_total{{status="{status}"}}"#);
        server.metric(&name).unwrap_or_default()
    };
    let refused = rejected(403) + rejected(415) + rejected(409);
    assert!(refused >= (3 * (3 * 3 + 3) + 3 * 3) as f64, "{refused} attempts came to the service");
    assert!(rejected(409) == 0.0, "no reload was let in");
}

/// What the page says of one attempt.
struct Attempt<'a> {
    what: &'a str,
    /// What it could read; empty if nothing.
    read: &'a str,
}

impl<'a> Attempt<'a> {
    fn of(value: &'a Value) -> Self {
        let text = |name: &str| value[name].as_str().expect("a text");
        Self { what: text("what"), read: text("read") }
    }
}
