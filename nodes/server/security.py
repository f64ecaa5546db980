"""Reads the keys and users of a node's listeners from Kafka's properties.

A property with the prefix `listener.name.<listener, lowercase>.` is for that listener alone and has
priority over the property without it, as in Kafka. Key and trust stores are PEM: files, or the
texts themselves. The listener's JAAS line names the users, as `user_<name>="<password>"`. Its
`username` and `password` are those of this node when it connects to that listener of another node.

Files are read once, at the node's start. Not supported: key stores in Java's formats, mechanisms
other than PLAIN, re-authentication, authorization.
"""

import re
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path

from nodes.config import ConfigError, NodeConfig
from nodes.wire.sasl import MECHANISM
from nodes.wire.security import ClientSecurity, Credentials, ServerSecurity

_CLIENT_AUTH = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
_TLS_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_LOGIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
_JAAS = re.compile(r'\s*([\w.$]+)\s+(\w+)((?:[^;"]|"(?:\\.|[^"\\])*")*);?\s*')
_JAAS_OPTION = re.compile(r'\s*([\w.\-]+)\s*=\s*(?:"((?:\\.|[^"\\])*)"|([^\s";]+))\s*')
_CERTIFICATES = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)


class NodeSecurity:
    """The security of every listener of a node, as a server and as a client of other nodes.

    The constructor raises ConfigError for settings that cannot work.
    """

    def __init__(self, config: NodeConfig) -> None:
        self._servers: dict[str, ServerSecurity] = {}
        self._clients: dict[str, ClientSecurity] = {}
        served = {endpoint.listener for endpoint in config.listeners}
        for listener, protocol in config.protocols.items():
            read = _Properties(config.static, listener)
            between_nodes = listener in (config.controller_listener, config.inter_broker_listener)
            options: dict[str, str] = {}
            if protocol.uses_sasl:
                controller = listener == config.controller_listener
                options = _options(read, between_nodes=between_nodes, controller=controller)
            if listener in served:
                self._servers[listener] = ServerSecurity(
                    tls=_server_context(read) if protocol.uses_tls else None,
                    users=_users(options) if protocol.uses_sasl else None,
                )
            if between_nodes:
                self._clients[listener] = ClientSecurity(
                    tls=_client_context(read) if protocol.uses_tls else None,
                    credentials=_credentials(read, options) if protocol.uses_sasl else None,
                )

    def server(self, listener: str) -> ServerSecurity:
        """The security of connections that `listener` accepts."""
        return self._servers[listener]

    def client(self, listener: str) -> ClientSecurity:
        """The security of connections to `listener` of other nodes."""
        return self._clients[listener]


class _Properties:
    """The properties as one listener sees them."""

    def __init__(self, static: Mapping[str, str], listener: str) -> None:
        self._static = static
        self._prefix = f"listener.name.{listener.lower()}."
        self.listener = listener

    def text(self, key: str, default: str = "") -> str:
        own = self._static.get(self._prefix + key)
        return self._static.get(key, default) if own is None else own

    def wrong(self, key: str, why: str) -> ConfigError:
        return ConfigError(f"{key} of listener {self.listener}: {why}")


def parse_jaas(text: str) -> dict[str, str]:
    """Return the options of a line like `...PlainLoginModule required username="a" user_b="c";`.

    Raises ValueError with a message for the user.
    """
    match = _JAAS.fullmatch(text)
    if match is None:
        raise ValueError('it does not have the form `module required name="value" ...;`')
    if match[1] != _LOGIN_MODULE:
        raise ValueError(f"the login module has to be {_LOGIN_MODULE}")
    options: dict[str, str] = {}
    rest, position = match[3], 0
    while rest[position:].strip():
        option = _JAAS_OPTION.match(rest, position)
        if option is None:
            raise ValueError(f'option {len(options) + 1} does not have the form name="value"')
        name, quoted, bare = option.groups()
        options[name] = bare if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        position = option.end()
    return options


def _options(read: _Properties, *, between_nodes: bool, controller: bool) -> dict[str, str]:
    """The options of the listener's JAAS line; PLAIN is the only mechanism. Raises ConfigError."""
    enabled = [part.strip() for part in read.text("sasl.enabled.mechanisms", "GSSAPI").split(",")]
    if enabled != [MECHANISM]:
        raise read.wrong("sasl.enabled.mechanisms", f"only {MECHANISM} is served: set it to that")
    key = "sasl.mechanism." + ("controller.protocol" if controller else "inter.broker.protocol")
    if between_nodes and read.text(key, "GSSAPI") != MECHANISM:
        raise read.wrong(key, f"only {MECHANISM} is known: set it to that")
    line = read.text("plain.sasl.jaas.config") or read.text("sasl.jaas.config")
    key = f"listener.name.{read.listener.lower()}.plain.sasl.jaas.config"
    if not line:
        raise ConfigError(f'{key} is missing: {_LOGIN_MODULE} required user_NAME="PASSWORD";')
    try:
        return parse_jaas(line)
    except ValueError as error:
        raise ConfigError(f"{key} cannot be used: {error}") from error


def _users(options: Mapping[str, str]) -> dict[str, str]:
    prefix = "user_"
    return {key[len(prefix) :]: value for key, value in options.items() if key.startswith(prefix)}


def _credentials(read: _Properties, options: Mapping[str, str]) -> Credentials:
    if "username" not in options or "password" not in options:
        raise read.wrong(
            "plain.sasl.jaas.config", "nodes use this listener too: add username= and password="
        )
    return Credentials(username=options["username"], password=options["password"])


# -- TLS -----------------------------------------------------------------------------------------


def _server_context(read: _Properties) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    _limit_versions(context, read)
    if not _load_key(context, read):
        raise read.wrong(
            "ssl.keystore.location",
            "missing: a PEM file with certificate chain and private key, or the PEM texts in "
            "ssl.keystore.certificate.chain and ssl.keystore.key",
        )
    wanted = read.text("ssl.client.auth", "none").lower()
    if wanted not in _CLIENT_AUTH:
        raise read.wrong("ssl.client.auth", f"{wanted!r} is none of {', '.join(_CLIENT_AUTH)}")
    context.verify_mode = _CLIENT_AUTH[wanted]
    if wanted != "none" and not _load_trust(context, read):
        raise read.wrong("ssl.truststore.location", f"missing, for ssl.client.auth={wanted}")
    return context


def _client_context(read: _Properties) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _limit_versions(context, read)
    # In Kafka, an empty algorithm means that the host name is not checked.
    context.check_hostname = read.text("ssl.endpoint.identification.algorithm", "https") != ""
    _load_key(context, read)
    if not _load_trust(context, read):
        context.load_default_certs()
    return context


def _limit_versions(context: ssl.SSLContext, read: _Properties) -> None:
    names = [
        name.strip() for name in read.text("ssl.enabled.protocols", "TLSv1.2,TLSv1.3").split(",")
    ]
    unknown = [name for name in names if name not in _TLS_VERSIONS]
    if unknown:
        raise read.wrong("ssl.enabled.protocols", f"{unknown[0]!r} is none of TLSv1.2, TLSv1.3")
    versions = sorted(_TLS_VERSIONS[name] for name in names)
    context.minimum_version, context.maximum_version = versions[0], versions[-1]


def _load_key(context: ssl.SSLContext, read: _Properties) -> bool:
    """Load this node's certificate chain and key; false if the properties name none."""
    location = read.text("ssl.keystore.location")
    chain, key = read.text("ssl.keystore.certificate.chain"), read.text("ssl.keystore.key")
    password = read.text("ssl.key.password") or ""  # never None: OpenSSL would ask the terminal
    if not location and not (chain and key):
        return False
    _require_pem(read, "ssl.keystore.type")
    try:
        if location:
            context.load_cert_chain(location, password=password)
        else:
            with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:  # mode 0600
                file.write(f"{_pem(key)}\n{_pem(chain)}\n")
                file.flush()
                context.load_cert_chain(file.name, password=password)
    except (OSError, ValueError) as error:
        raise read.wrong("ssl.keystore", f"{location or 'the PEM texts'}: {error}") from error
    return True


def _load_trust(context: ssl.SSLContext, read: _Properties) -> bool:
    """Load the trusted certificates; false if the properties name none."""
    location = read.text("ssl.truststore.location")
    text = read.text("ssl.truststore.certificates")
    if not location and not text:
        return False
    _require_pem(read, "ssl.truststore.type")
    try:
        found = _CERTIFICATES.findall(Path(location).read_text() if location else _pem(text))
        if not found:
            raise ValueError("there is no certificate in it")
        context.load_verify_locations(cadata="\n".join(found))
    except (OSError, ValueError) as error:
        raise read.wrong("ssl.truststore", f"{location or 'the PEM text'}: {error}") from error
    return True


def _require_pem(read: _Properties, key: str) -> None:
    if read.text(key, "JKS") != "PEM":
        raise read.wrong(key, "only PEM can be read: set it to that")


def _pem(text: str) -> str:
    """Split a PEM text that is on one line, with or without `\\n` between its lines."""
    text = text.replace("\\n", "\n")
    return re.sub(
        r"(-----BEGIN [A-Z ]+-----)\s*(.*?)\s*(-----END [A-Z ]+-----)",
        lambda m: "\n".join((m[1], *_wrapped(re.sub(r"\s", "", m[2])), m[3])),
        text,
        flags=re.DOTALL,
    )


def _wrapped(base64: str) -> list[str]:
    return [base64[at : at + 64] for at in range(0, len(base64), 64)]
