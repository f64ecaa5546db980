"""Properties of brokers and clients in a plan: validation, environment variables and secrets.

A value that begins with `env:` names an environment variable, which is read when the property is
used. A secret that is written into the plan is used, but the plan that a run stores leaves it out.
"""

import os
import re
from collections.abc import Mapping
from typing import Final

from harness.plans.errors import PlanError

Value = str | int | float | bool

FROM_ENVIRONMENT: Final = "env:"
"""The prefix of a value that names an environment variable."""
REDACTED: Final = "[redacted]"
"""Stands in a stored plan in place of a secret."""

_SECRET: Final = re.compile(r"password|secret|token|jaas|\.pem$|keystore\.key$", re.IGNORECASE)
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")

SET_BY_HARNESS: Final = (
    "advertised.listeners", "broker.id", "cluster.id", "controller.listener.names",
    "controller.quorum.bootstrap.servers", "controller.quorum.voters", "listeners", "log.dir",
    "log.dirs", "metadata.log.dir", "node.id", "process.roles",
)  # fmt: skip
"""Broker properties that the harness sets, because it must find each node and its files."""


def is_secret(name: str) -> bool:
    """Return whether the value of this property is a secret, by the property's name."""
    return _SECRET.search(name) is not None


def check_broker(properties: Mapping[str, Value]) -> None:
    """Raise ValueError for a name or value that a properties file cannot hold, and for a property
    that the harness sets."""
    for name, value in properties.items():
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"{name!r} cannot be a property's name; use letters, digits, dots, dashes and "
                "underscores"
            )
        if name in SET_BY_HARNESS:
            raise ValueError(f"{name} is set by the harness for each node; remove it")
        if isinstance(value, str) and _CONTROL.search(value):
            raise ValueError(
                f"{name} has a line break or another control character, which would start another "
                "property; write its value on one line"
            )


def resolved(properties: Mapping[str, Value], where: str) -> dict[str, Value]:
    """Return the properties with the values of environment variables.

    Raises PlanError, which starts with `where`.
    """
    return {name: _resolved(name, value, where) for name, value in properties.items()}


def _resolved(name: str, value: Value, where: str) -> Value:
    if value == REDACTED:
        raise PlanError(
            f"{where}: {name} was left out when the plan was stored; write it as "
            f"{FROM_ENVIRONMENT}NAME, so that it is read from that environment variable"
        )
    if not isinstance(value, str) or not value.startswith(FROM_ENVIRONMENT):
        return value
    variable = value.removeprefix(FROM_ENVIRONMENT)
    if variable not in os.environ:
        raise PlanError(
            f"{where}: {name} is {value}, but this environment variable is not set; "
            f"export {variable}"
        )
    return os.environ[variable]


def without_secrets(properties: Mapping[str, Value]) -> dict[str, Value]:
    """Return the properties with every secret redacted, as a stored plan has them."""
    return {
        name: REDACTED if is_secret(name) and not str(value).startswith(FROM_ENVIRONMENT) else value
        for name, value in properties.items()
    }
