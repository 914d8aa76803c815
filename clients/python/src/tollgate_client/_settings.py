"""The settings of a client: checked once, when it is made."""

from __future__ import annotations

import ipaddress
import logging
import math
import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

OnFailure = Literal["open", "closed"]

_TCP = re.compile(r"(?i:(https?))://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+):([0-9]{1,5})/?")
# A name in a network of containers may have `_`.
_LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
# The longest path of a unix socket on Linux is 107 bytes, on macOS 103.
_LONGEST_PATH = 103


@dataclass(frozen=True)
class Address:
    """Where the service listens: a host and a port, or the path of a unix socket."""

    host: str
    port: int
    path: str | None = None
    secure: bool = False

    @property
    def authority(self) -> str:
        """The value of the header `Host`."""
        if self.path is not None:
            return "localhost"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        if self.path is not None:
            return f"unix:{self.path}"
        return f"{'https' if self.secure else 'http'}://{self.authority}"

    @classmethod
    def parse(cls, url: str) -> Address:
        """Reads an address in one of its three forms.

        Raises `ValueError` for everything else; the message has no part of the
        address, because that may hold a password.
        """
        if not isinstance(url, str):
            raise TypeError(f"url: expected a string, got {type(url).__name__}")
        if url.startswith("unix:"):
            return cls._unix(url.removeprefix("unix:"))
        match = _TCP.fullmatch(url)
        if match is None:
            raise ValueError(
                "url: expected http://HOST:PORT, https://HOST:PORT or unix:/absolute/path, "
                "without a user, a path, a query or a fragment"
            )
        scheme, host, port = match[1].lower(), match[2].strip("[]"), int(match[3])
        if not 0 < port < 65536:
            raise ValueError("url: the port is not between 1 and 65535")
        if not match[2].startswith("["):
            labels = host.removesuffix(".").split(".")
            if len(host) > 253 or not all(map(_LABEL.fullmatch, labels)):
                raise ValueError("url: the host is neither a name nor an address")
        else:
            try:
                ipaddress.IPv6Address(host)
            except ValueError:
                raise ValueError("url: the text in brackets is no IPv6 address") from None
        return cls(host, port, secure=scheme == "https")

    @classmethod
    def _unix(cls, path: str) -> Address:
        if path == "/" or not path.startswith("/") or path.startswith("//"):
            raise ValueError("url: a unix socket has an absolute path: unix:/absolute/path")
        if any(char in path for char in "\0?#"):
            raise ValueError("url: the path of a unix socket has no query, fragment or NUL")
        if len(os.fsencode(path)) > _LONGEST_PATH:
            raise ValueError(f"url: the path of the socket is longer than {_LONGEST_PATH} bytes")
        return cls("localhost", 0, path=path)


@dataclass(frozen=True)
class Settings:
    """Everything that a client is made of, but its connections."""

    address: Address
    timeout: float
    on_failure: OnFailure
    names: Mapping[str, OnFailure]
    max_connections: int
    logger: logging.Logger
    token: str | None = field(default=None, repr=False)
    tls: ssl.SSLContext | None = field(default=None, repr=False)

    @classmethod
    def build(
        cls,
        url: str | None,
        token: str | None,
        timeout: float,
        on_failure: OnFailure,
        names: Mapping[str, OnFailure] | None,
        max_connections: int,
        logger: logging.Logger | None,
        tls: ssl.SSLContext | None,
    ) -> Settings:
        """Checks the arguments of a client, and takes what is missing from the environment."""
        if url is None:
            url = os.environ.get("TOLLGATE_URL") or "http://127.0.0.1:8080"
        if token is None:
            token = os.environ.get("TOLLGATE_TOKEN") or None
        address = Address.parse(url)
        if tls is not None and not address.secure:
            raise ValueError("tls: only an address with https:// uses TLS")
        if address.secure and tls is None:
            tls = ssl.create_default_context()
        return cls(
            address=address,
            timeout=_timeout(timeout),
            on_failure=_on_failure("on_failure", on_failure),
            names={
                name: _on_failure(f"names[{name!r}]", mode) for name, mode in (names or {}).items()
            },
            max_connections=_max_connections(max_connections),
            logger=logger or logging.getLogger("tollgate_client"),
            token=_token(token),
            tls=tls,
        )

    def admits(self, name: str) -> bool:
        """Whether calls under this name are admitted without an answer (rule 16)."""
        return self.names.get(name, self.on_failure) == "open"


def _timeout(seconds: float) -> float:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise TypeError("timeout: expected seconds as a number")
    if not math.isfinite(seconds) or not 0.001 <= seconds <= 60:
        raise ValueError("timeout: expected 0.001 to 60 seconds")
    return float(seconds)


def _on_failure(place: str, mode: OnFailure) -> OnFailure:
    if mode not in ("open", "closed"):
        raise ValueError(f"{place}: expected 'open' or 'closed'")
    return mode


def _max_connections(count: int) -> int:
    if isinstance(count, bool) or not isinstance(count, int):
        raise TypeError("max_connections: expected a whole number")
    if not 1 <= count <= 65536:
        raise ValueError("max_connections: expected 1 to 65536")
    return count


def _token(token: str | None) -> str | None:
    if token is None:
        return None
    if not isinstance(token, str):
        raise TypeError(f"token: expected a string, got {type(token).__name__}")
    if not re.fullmatch(r"[!-~]{1,8192}", token):
        raise ValueError("token: it is empty or too long, or a header cannot have its characters")
    return token
