#!/usr/bin/env python3
"""Writes the logs of this folder with the servers of Debian 12: python3 make.py

Each server is asked by sockets, and each request has its number in its path. `requests.json` has what was sent, byte for
byte, and when. The tests read the logs and compare. Packages are downloaded and unpacked, not installed.
"""

import base64
import hashlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import time

HERE = pathlib.Path(__file__).parent
PACKAGES = """nginx apache2-bin caddy haproxy libapr1 libaprutil1 liblua5.3-0 libjansson4 libcurl4 libnghttp2-14
    libpcre2-8-0 libopentracing-c-wrapper0 libopentracing1""".split()
PORT = 18099

# Header values are bytes. A request without a line of its own is `GET /NUMBER HTTP/1.1`.
HOST = b"Host: a.example"
REQUESTS = {
    1: {"headers": [b"User-Agent: curl/7.88.1"]},
    2: {"headers": [b'User-Agent: say "hi" \\ and \\x22', b'Referer: https://a.example/?"q"\\']},
    3: {"target": b"/3?a=b&c=%20d?e"},
    4: {"target": b'/4"quoted"'},
    5: {"target": b"/5\\back\\x5C"},
    6: {"target": b"/6\xc3\xa9\xff", "headers": [b"User-Agent: \xc3\xa9 \xff \x80"]},
    7: {"ip": "::1"},
    8: {"user": b"a b [c", "target": b"/8"},
    9: {"method": b"POST", "headers": [b"Content-Length: 3"], "body": b"a=b"},
    10: {"method": b"HEAD"},
    11: {"target": b"/11/%2e%2E/%41//x"},
    12: {"headers": [b"X-Forwarded-For: 192.0.2.1, 192.0.2.2", b"X-Api-Key: k\"1"]},
    13: {"raw": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"},
    14: {"target": b"http://a.example/14?b"},
    15: {"raw": b"OPTIONS * HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n"},
    16: {"target": b"/16/" + b"x" * 1200},
    17: {"raw": b"GET /17 HTTP/1.0\r\n\r\n"},
    18: {"headers": [b"User-Agent: tab\there"]},
    # The head comes in two parts, with 1.2 seconds between them.
    19: {"pause": 1.2, "headers": [b"User-Agent: slow"]},
    20: {"headers": [b"User-Agent: -"]},
    21: {"target": b"/21?"},
    22: {"raw": b"no request at all\r\n\r\n"},
    23: {"headers": [b"User-Agent: {a|b} #22", b"Referer: #"]},
}


def raw(number):
    of = REQUESTS[number]
    if "raw" in of:
        return of["raw"]
    line = of.get("method", b"GET") + b" " + of.get("target", b"/%d" % number) + b" HTTP/1.1"
    headers = [HOST, b"Connection: close", *of.get("headers", [])]
    if "user" in of:
        headers.append(b"Authorization: Basic " + base64.b64encode(of["user"] + b":secret"))
    return b"\r\n".join([line, *headers, b"", b""]) + of.get("body", b"")


def ask(number):
    """Sends a request, and returns when it began and ended, in microseconds, and the status of the answer."""
    of = REQUESTS[number]
    address = of.get("ip", "127.0.0.1")
    with socket.create_connection((address, PORT), timeout=10) as connection:
        text = raw(number)
        begin = time.time_ns() // 1000
        if "pause" in of:
            connection.sendall(text[:30])
            time.sleep(of["pause"])
            text = text[30:]
        connection.sendall(text)
        answer = b""
        try:
            if number == 13:
                connection.shutdown(socket.SHUT_WR)
            while piece := connection.recv(65536):
                answer += piece
        except ConnectionError:
            pass
    status = answer.split(b" ", 2)[1][:3].decode() if answer.startswith(b"HTTP/") else None
    return begin, time.time_ns() // 1000, status


def text(value):
    return value.decode("latin-1")


def ask_all():
    sent = []
    for number, of in REQUESTS.items():
        begin, end, status = ask(number)
        one = {"number": number, "begin": begin, "end": end, "status": status}
        if "raw" not in of:
            headers = dict(header.split(b": ", 1) for header in of.get("headers", []))
            one |= {
                "method": text(of.get("method", b"GET")),
                "target": text(of.get("target", b"/%d" % number)),
                "ip": of.get("ip", "127.0.0.1"),
                "user": text(of.get("user", b"")),
                "user_agent": text(headers.get(b"User-Agent", b"")),
                "referer": text(headers.get(b"Referer", b"")),
                "key": text(headers.get(b"X-Api-Key", b"")),
            }
        sent.append(one)
        # Apart in time, so that the log of one request is told from the next.
        time.sleep(0.02)
    return sent


NGINX = """
daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log; worker_processes 1;
events {{}}
http {{
    log_format timed '$remote_addr - $remote_user [$time_local] "$request" $status $bytes_sent "$http_referer" '
                     '"$http_user_agent" "$http_x_api_key" $msec $request_time';
    log_format json escape=json '{{"msec":$msec,"remote_addr":"$remote_addr","request":"$request","status":$status,'
                     '"request_time":$request_time,"http_user_agent":"$http_user_agent",'
                     '"http_referer":"$http_referer","remote_user":"$remote_user","http_x_api_key":"$http_x_api_key"}}';
    access_log {folder}/nginx-combined.log combined;
    access_log {folder}/nginx-timed.log timed;
    access_log {folder}/nginx-json.log json;
    client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder}; uwsgi_temp_path {folder};
    scgi_temp_path {folder};
    server {{ listen {port}; listen [::1]:{port}; location / {{ return 200 "hello"; }} }}
}}
"""

APACHE = """
ServerRoot {root}/usr/lib/apache2
ServerName a.example
Listen {port}
PidFile {folder}/apache.pid
ErrorLog {folder}/error.log
User nobody
Group nogroup
LoadModule mpm_event_module modules/mod_mpm_event.so
LoadModule authn_core_module modules/mod_authn_core.so
LoadModule authz_core_module modules/mod_authz_core.so
LoadModule alias_module modules/mod_alias.so
LoadModule auth_basic_module modules/mod_auth_basic.so
LoadModule authn_file_module modules/mod_authn_file.so
LoadModule authz_user_module modules/mod_authz_user.so
LogFormat "%h %l %u %t \\"%r\\" %>s %O \\"%{{Referer}}i\\" \\"%{{User-Agent}}i\\"" combined
LogFormat "%a %u %{{usec}}t %D \\"%r\\" %>s \\"%{{User-Agent}}i\\" \\"%{{Referer}}i\\" \\"%{{X-Api-Key}}i\\"" timed
CustomLog {folder}/apache-combined.log combined
CustomLog {folder}/apache-timed.log timed
DocumentRoot {folder}
AllowEncodedSlashes On
<Directory {folder}>
Require all granted
</Directory>
<Location /8>
AuthType Basic
AuthName a
AuthUserFile {folder}/users
Require valid-user
</Location>
"""

CADDY = """
{{
    admin off
    auto_https off
}}
:{port} {{
    log {{
        output file {folder}/caddy.log
    }}
    respond "hello"
}}
"""

HAPROXY = """
global
    log stdout format rfc3164 local0
defaults
    mode http
    log global
    option httplog
    timeout client 10s
    timeout connect 10s
    timeout server 10s
    timeout http-request 10s
frontend front
    bind 127.0.0.1:{port}
    bind ::1:{port}
    capture request header X-Api-Key len 20
    default_backend back
backend back
    http-request return status 200 content-type text/plain string hello
"""


def main(folder):
    folder.chmod(0o777)
    subprocess.run(["apt-get", "download", *PACKAGES], cwd=folder, check=True, stderr=subprocess.DEVNULL)
    root = folder / "root"
    for package in folder.glob("*.deb"):
        subprocess.run(["dpkg", "-x", package, root], check=True)
    environment = dict(os.environ, LD_LIBRARY_PATH=str(root / "usr/lib/x86_64-linux-gnu"), TZ="Europe/Berlin")
    digest = "{SHA}" + base64.b64encode(hashlib.sha1(b"secret").digest()).decode()
    (folder / "users").write_text(f"a b [c:{digest}\n")
    servers = {
        "nginx": (NGINX, lambda file: [root / "usr/sbin/nginx", "-c", file, "-e", folder / "error.log"]),
        "apache": (APACHE, lambda file: [root / "usr/sbin/apache2", "-DFOREGROUND", "-f", file]),
        "caddy": (CADDY, lambda file: [root / "usr/bin/caddy", "run", "--adapter", "caddyfile", "--config", file]),
        "haproxy": (HAPROXY, lambda file: [root / "usr/sbin/haproxy", "-db", "-f", file]),
    }
    sent = {}
    for name, (configuration, command) in servers.items():
        file = folder / f"{name}.conf"
        file.write_text(configuration.format(folder=folder, root=root, port=PORT))
        with open(folder / f"{name}.out", "wb") as out:
            server = subprocess.Popen(command(file), env=environment, stdout=out, stderr=subprocess.DEVNULL)
            try:
                for _ in range(100):
                    try:
                        socket.create_connection(("127.0.0.1", PORT)).close()
                        break
                    except OSError:
                        time.sleep(0.1)
                sent[name] = ask_all()
                time.sleep(1)
            finally:
                server.send_signal(signal.SIGTERM)
                server.wait()
    (folder / "haproxy.log").write_bytes((folder / "haproxy.out").read_bytes())
    for log in ["nginx-combined", "nginx-timed", "nginx-json", "apache-combined", "apache-timed", "caddy", "haproxy"]:
        (HERE / f"{log}.log").write_bytes((folder / f"{log}.log").read_bytes())
    lines = ",\n".join(f'"{name}": [\n' + ",\n".join(map(json.dumps, all)) + "\n]" for name, all in sent.items())
    (HERE / "requests.json").write_text("{\n" + lines + "\n}\n")


with tempfile.TemporaryDirectory() as name:
    main(pathlib.Path(name))
