"""The security of a connection: keys for TLS, users for SASL/PLAIN. Values only, no I/O."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum


class SecurityProtocol(IntEnum):
    """Kafka's names, and the numbers that a broker's registration uses."""

    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3

    @property
    def uses_tls(self) -> bool:
        """Whether bytes are encrypted."""
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def uses_sasl(self) -> bool:
        """Whether a client has to authenticate before its first request."""
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """A user's name and password."""

    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSecurity:
    """How a listener's connections are secured: with `tls`, by `users` (passwords by name)."""

    tls: ssl.SSLContext | None = None
    users: Mapping[str, str] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSecurity:
    """How a connection to a peer is secured."""

    tls: ssl.SSLContext | None = None
    credentials: Credentials | None = None


PLAINTEXT_SERVER = ServerSecurity()
PLAINTEXT_CLIENT = ClientSecurity()
