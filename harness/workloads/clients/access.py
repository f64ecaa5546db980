"""How clients connect to a secured cluster: Kafka's client properties, translated per library.

The names are librdkafka's, which are those of Kafka's own clients where both have a property.
librdkafka takes all properties unchanged. The other libraries and the harness itself take the ones
in KNOWN, with SASL PLAIN only. Client processes get them through their environment, so that no file
has a secret.
"""

import json
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from harness.plans.errors import PlanError
from nodes.wire.security import ClientSecurity, Credentials, SecurityProtocol

VARIABLE: Final = "HIGHWATER_CLIENT_PROPERTIES"
PROTOCOL: Final = "security.protocol"
MECHANISMS: Final = ("sasl.mechanism", "sasl.mechanisms")
USER: Final = "sasl.username"
PASSWORD: Final = "sasl.password"
AUTHORITY: Final = "ssl.ca.location"
CERTIFICATE: Final = "ssl.certificate.location"
KEY: Final = "ssl.key.location"
KEY_PASSWORD: Final = "ssl.key.password"
HOST_NAMES: Final = "ssl.endpoint.identification.algorithm"
KNOWN: Final = frozenset(
    {PROTOCOL, *MECHANISMS, USER, PASSWORD, AUTHORITY, CERTIFICATE, KEY, KEY_PASSWORD, HOST_NAMES}
)


@dataclass(frozen=True, slots=True)
class Access:
    """The properties, with secrets. Using impossible properties raises PlanError."""

    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    def check(self, client: str) -> None:
        """Raise PlanError when the harness or this client cannot use the properties."""
        self.channel()
        if client != "librdkafka" and (unknown := sorted(self.properties.keys() - KNOWN)):
            raise PlanError(
                f"external.properties: only librdkafka has {unknown[0]}, and the client is "
                f"{client}; leave it out, or choose client librdkafka"
            )

    def channel(self) -> ClientSecurity:
        """Return the security settings of the harness itself and of our own client."""
        protocol = self._protocol()
        return ClientSecurity(
            tls=self._context() if protocol.uses_tls else None,
            credentials=self._credentials() if protocol.uses_sasl else None,
        )

    def librdkafka(self) -> dict[str, Any]:
        """Return librdkafka's settings."""
        return dict(self.properties)

    def python(self) -> dict[str, Any]:
        """Return the settings of kafka-python and aiokafka."""
        wanted, protocol = self.channel(), self._protocol()
        found: dict[str, Any] = {"security_protocol": protocol.name}
        if wanted.tls is not None:
            found["ssl_context"] = wanted.tls
        if wanted.credentials is not None:
            found |= {
                "sasl_mechanism": "PLAIN",
                "sasl_plain_username": wanted.credentials.username,
                "sasl_plain_password": wanted.credentials.password,
            }
        return found

    def environment(self) -> dict[str, str]:
        """Return the environment of a client process."""
        return {**os.environ, VARIABLE: json.dumps(dict(self.properties))}

    def _protocol(self) -> SecurityProtocol:
        name = self.properties.get(PROTOCOL, "PLAINTEXT").upper()
        if name not in SecurityProtocol.__members__:
            known = ", ".join(SecurityProtocol.__members__)
            raise PlanError(f"external.properties: {PROTOCOL} {name} is not one of {known}")
        return SecurityProtocol[name]

    def _credentials(self) -> Credentials:
        mechanism = next((self.properties[n] for n in MECHANISMS if n in self.properties), "GSSAPI")
        if mechanism.upper() != "PLAIN":
            raise PlanError(
                f"external.properties: sasl.mechanism {mechanism}: the harness connects to the "
                "cluster too, and supports only PLAIN; give a user that can log in with PLAIN"
            )
        for name in (USER, PASSWORD):
            if not self.properties.get(name):
                raise PlanError(f"external.properties: {name} is missing, and SASL needs it")
        return Credentials(username=self.properties[USER], password=self.properties[PASSWORD])

    def _context(self) -> ssl.SSLContext:
        get = self.properties.get
        try:
            context = ssl.create_default_context(cafile=get(AUTHORITY))
            if CERTIFICATE in self.properties:
                context.load_cert_chain(self.properties[CERTIFICATE], get(KEY), get(KEY_PASSWORD))
        except OSError as error:  # ssl.SSLError is one
            files = ", ".join(f"{n} {get(n)}" for n in (AUTHORITY, CERTIFICATE, KEY) if get(n))
            raise PlanError(f"external.properties: {files}: {error.strerror or error}") from error
        context.check_hostname = get(HOST_NAMES, "https").lower() not in ("", "none")
        return context


OPEN: Final = Access()
"""The access to a cluster without authentication."""


def of_this_process() -> Access:
    """Return the properties in the environment of this client process."""
    return Access(json.loads(os.environ.get(VARIABLE, "{}")))
