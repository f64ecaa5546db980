"""Properties of brokers and clients in a plan: what may be written, and what becomes of secrets.

A value that begins with `env:` is that of an environment variable, looked up when it is used. A
secret that is written out is used, and left out of the plan that a run stores.
"""

import os
import re
from collections.abc import Mapping
from typing import Final

from harness.plans.errors import PlanError

Value = str | int | float | bool

FROM_ENVIRONMENT: Final = "env:"
"""How a property begins whose value is that of an environment variable."""
LEFT_OUT: Final = "[redacted]"
"""What a stored plan has in place of a secret."""

_SECRET: Final = re.compile(r"password|secret|token|jaas|\.pem$|keystore\.key$", re.IGNORECASE)
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")

OURS: Final = (
    "advertised.listeners", "broker.id", "cluster.id", "controller.listener.names",
    "controller.quorum.bootstrap.servers", "controller.quorum.voters", "listeners", "log.dir",
    "log.dirs", "metadata.log.dir", "node.id", "process.roles",
)  # fmt: skip
"""Broker properties that the harness sets: it must find each node and its files, to remove them."""


def is_secret(name: str) -> bool:
    """Whether a property's value is nobody's business."""
    return _SECRET.search(name) is not None


def check_broker(properties: Mapping[str, Value]) -> None:
    """Raises ValueError for a name or value that a file of properties cannot hold, and for a
    property that the harness sets."""
    for name, value in properties.items():
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"{name!r} is no property's name; write letters, digits, dots, dashes, underscores"
            )
        if name in OURS:
            raise ValueError(f"{name} is set by the harness, node by node; remove it")
        if isinstance(value, str) and _CONTROL.search(value):
            raise ValueError(
                f"{name} has a line break or another control character, which would begin another "
                "property; write its value on one line"
            )


def resolved(properties: Mapping[str, Value], where: str) -> dict[str, Value]:
    """The properties with what the environment holds. Raises PlanError, beginning with `where`."""
    return {name: _resolved(name, value, where) for name, value in properties.items()}


def _resolved(name: str, value: Value, where: str) -> Value:
    if value == LEFT_OUT:
        raise PlanError(
            f"{where}: {name} was left out when the plan was stored; write it as "
            f"{FROM_ENVIRONMENT}NAME, and it is read from that environment variable each time"
        )
    if not isinstance(value, str) or not value.startswith(FROM_ENVIRONMENT):
        return value
    variable = value.removeprefix(FROM_ENVIRONMENT)
    if variable not in os.environ:
        raise PlanError(
            f"{where}: {name} is {value}, and there is no such environment variable; "
            f"export {variable}"
        )
    return os.environ[variable]


def without_secrets(properties: Mapping[str, Value]) -> dict[str, Value]:
    """The properties as a stored plan has them."""
    return {
        name: LEFT_OUT if is_secret(name) and not str(value).startswith(FROM_ENVIRONMENT) else value
        for name, value in properties.items()
    }
