"""Attributes of a request: what the caller gives, and what its key function returns."""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Mapping, Sequence
from typing import TypeAlias

Attribute: TypeAlias = str | bool | Sequence[str]
Attributes: TypeAlias = Mapping[str, Attribute]

LONGEST_TEXT = 1024
_MOST_ATTRIBUTES = 64
_MOST_TEXTS = 64
_LONGEST_NAME = 128
# Longer keys are sent as their hash: a client chooses its key, and must not be able to
# make one that the service refuses.
_LONGEST_KEY = 256


def checked(
    attributes: Attributes | None, more: Attributes, others: int = 0
) -> dict[str, Attribute]:
    """Joins the attributes of a call, which go with `others` of the client (rule 7).

    Raises `TypeError` or `ValueError`, which names the attribute and never its value.
    """
    if attributes is not None and not isinstance(attributes, Mapping):
        raise TypeError(f"attributes: expected a mapping, got {type(attributes).__name__}")
    joined: dict[str, Attribute] = {}
    for given in (attributes or {}, more):
        for name, value in given.items():
            if not isinstance(name, str):
                raise TypeError(f"attributes: a name is no string, but {type(name).__name__}")
            if not 1 <= len(name) <= _LONGEST_NAME:
                raise ValueError(f"attributes: a name must have 1 to {_LONGEST_NAME} characters")
            if name in joined:
                raise ValueError(f"attributes: {name!r} is given twice")
            if len(joined) + others == _MOST_ATTRIBUTES:
                raise ValueError(f"attributes: more than {_MOST_ATTRIBUTES}, `action` included")
            joined[name] = _value(name, value)
    return joined


def _value(name: str, value: Attribute) -> Attribute:
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        _check_length(name, value)
        return value
    if isinstance(value, list | tuple) and all(isinstance(entry, str) for entry in value):
        if len(value) > _MOST_TEXTS:
            raise ValueError(f"attributes[{name!r}]: a list of more than {_MOST_TEXTS} strings")
        for entry in value:
            _check_length(name, entry)
        return list(value)
    raise TypeError(
        f"attributes[{name!r}]: expected a string, a boolean or a list of strings, "
        f"got {type(value).__name__}"
    )


def _check_length(name: str, text: str) -> None:
    # A text that is no Unicode has no length in UTF-8; writing the request refuses it.
    if len(text) > 256 and len(text.encode("utf-8", "surrogatepass")) > LONGEST_TEXT:
        raise ValueError(f"attributes[{name!r}]: it is longer than {LONGEST_TEXT} bytes")


def attributes_of(key: str | Attributes, place: str = "by") -> Attributes:
    """Returns the attributes that a key function means (rule 25).

    A string is sent as the attribute `key`, and a long text as its SHA-256. Raises if the
    function returned nothing, an empty value, or an `ip` that is no address: the service
    would refuse these, and a client that is `open` would then admit the request.
    """
    if isinstance(key, str):
        if not key:
            raise ValueError(f"{place}: the key of a request is an empty string")
        return {"key": _short(key)}
    if isinstance(key, Mapping):
        if not key:
            raise ValueError(f"{place}: the attributes of a request are empty")
        return {name: _key_value(place, name, value) for name, value in key.items()}
    raise TypeError(f"{place}: expected a string or attributes, got {type(key).__name__}")


def _key_value(place: str, name: str, value: Attribute) -> Attribute:
    if isinstance(value, str) and not value:
        raise ValueError(f"{place}: the attribute {name!r} of a request is an empty string")
    if name == "ip" and not (isinstance(value, str) and is_address(value)):
        raise ValueError(f"{place}: the attribute `ip` of a request is no address")
    if isinstance(value, str):
        return _short(value)
    if isinstance(value, list | tuple):
        if not value or "" in value:
            raise ValueError(f"{place}: the attribute {name!r} of a request has an empty value")
        return [_short(entry) if isinstance(entry, str) else entry for entry in value]
    # `checked` refuses it.
    return value


def is_address(text: str) -> bool:
    """Whether the service takes a text as an address: one with a zone it does not."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return "%" not in text


def _short(text: str) -> str:
    try:
        if len(text.encode()) <= _LONGEST_KEY:
            return text
    except UnicodeEncodeError:
        pass
    raw = text.encode("utf-8", "surrogatepass")
    return f"sha256:{hashlib.sha256(raw).hexdigest()}"
