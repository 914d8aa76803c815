"""Settings of a framework, as arguments of a client."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

_PREFIX = "TOLLGATE_"
_ARGUMENTS = ("url", "token", "timeout", "on_failure", "names", "max_connections")


def client_arguments(config: Mapping[str, Any], others: Collection[str] = ()) -> dict[str, Any]:
    """Returns the arguments of a client out of `TOLLGATE_URL` and the like.

    `others` are settings that are no arguments. Raises `ValueError` for any further one,
    because a setting with a wrong name would have no effect.
    """
    arguments: dict[str, Any] = {}
    for setting, value in config.items():
        if not setting.startswith(_PREFIX) or setting in others:
            continue
        name = setting.removeprefix(_PREFIX).lower()
        if name not in _ARGUMENTS:
            known = sorted([*(_PREFIX + each.upper() for each in _ARGUMENTS), *others])
            raise ValueError(f"{setting}: no such setting; expected one of {', '.join(known)}")
        if value is not None:
            arguments[name] = value
    return arguments
