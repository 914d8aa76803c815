"""The default key of a middleware: the address of the client, as the server gives it."""

from __future__ import annotations

import ipaddress
import logging

from ._keys import Attributes, is_address

_logger = logging.getLogger("tollgate_client")
_warned: set[str] = set()


def address_of(address: str | None, forwarded_for: str | None) -> Attributes:
    """Returns the address as the attribute `ip`. Raises `RuntimeError` if there is none.

    A text that is no address may come from a header that clients choose.

    Warns once if a proxy seems to hide the clients: they would all share one limit.
    """
    if not address:
        raise RuntimeError("the server gives no address of the client: set `by` to another key")
    # Link-local addresses have the name of the interface, which the service does not know.
    address = address.partition("%")[0]
    if not is_address(address):
        raise RuntimeError(
            "what the server gives as the client is no IP address: configure its proxies, or set "
            "`by` to another key (in tests with TestClient, give it client=('127.0.0.1', 1))"
        )
    if forwarded_for is not None and "proxy" not in _warned:
        _warn_of_proxy(address, forwarded_for)
    return {"ip": address}


def _warn_of_proxy(address: str, forwarded_for: str) -> None:
    if ipaddress.ip_address(address).is_private and address not in forwarded_for:
        _warned.add("proxy")
        _logger.warning(
            "tollgate: requests come through a proxy whose X-Forwarded-For the server does not "
            "trust, so all clients count as one: configure it, as with uvicorn "
            "--forwarded-allow-ips, or set `by` to another key"
        )
