"""Attributes of a request: what the caller gives, and what its key function returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

Attribute: TypeAlias = str | bool | Sequence[str]
Attributes: TypeAlias = Mapping[str, Attribute]


def checked(attributes: Attributes | None, more: Attributes) -> dict[str, Attribute]:
    """Joins the attributes of a call (rule 7).

    Raises `TypeError` or `ValueError`, which names the attribute and never its value.
    """
    if attributes is not None and not isinstance(attributes, Mapping):
        raise TypeError(f"attributes: expected a mapping, got {type(attributes).__name__}")
    joined: dict[str, Attribute] = {}
    for given in (attributes or {}, more):
        for name, value in given.items():
            if not isinstance(name, str):
                raise TypeError(f"attributes: a name is no string, but {type(name).__name__}")
            if name in joined:
                raise ValueError(f"attributes: {name!r} is given twice")
            joined[name] = _value(name, value)
    return joined


def _value(name: str, value: Attribute) -> Attribute:
    if isinstance(value, str | bool):
        return value
    if isinstance(value, list | tuple) and all(isinstance(entry, str) for entry in value):
        return list(value)
    raise TypeError(
        f"attributes[{name!r}]: expected a string, a boolean or a list of strings, "
        f"got {type(value).__name__}"
    )


def attributes_of(key: str | Attributes, place: str = "by") -> Attributes:
    """Returns the attributes that a key function means (rule 25).

    A string is sent as the attribute `key`. Raises if the function returned nothing:
    a request without a key is an error of the app, and is never admitted silently.
    """
    if isinstance(key, str):
        if not key:
            raise ValueError(f"{place}: the key of a request is an empty string")
        return {"key": key}
    if isinstance(key, Mapping):
        if not key:
            raise ValueError(f"{place}: the attributes of a request are empty")
        return key
    raise TypeError(f"{place}: expected a string or attributes, got {type(key).__name__}")
