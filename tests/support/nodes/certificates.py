"""Certificates for tests, made by the openssl command: authority, node, client, stranger."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.support.require import require

_EC_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


@dataclass(frozen=True, slots=True)
class Certificates:
    """Paths of PEM files; `node`, `client` and `stranger` hold key and certificate in one."""

    authority: Path
    node: Path
    client: Path
    stranger: Path


def make(directory: Path) -> Certificates:
    """All of them, in `directory`. Skips the test where there is no openssl."""
    require("openssl")
    authority, key = directory / "ca.pem", directory / "ca.key"
    # Python 3.13 wants the usage of an authority's key.
    extension = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")
    options = ("-x509", *_EC_KEY, "-keyout", key, "-out", authority, "-subj", "/CN=authority")
    _openssl("req", *options, *extension)
    signed = ("-CA", authority, "-CAkey", key)
    return Certificates(
        authority,
        _pair(directory, "node", "/O=highwater/CN=node", *signed),
        _pair(directory, "client", "/O=highwater/CN=client", *signed),
        _pair(directory, "stranger", "/CN=stranger"),
    )


def _pair(directory: Path, name: str, subject: str, *signed: str | Path) -> Path:
    key, certificate = directory / f"{name}.key", directory / f"{name}.crt"
    extension = ("-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=CA:FALSE")
    options = ("-x509", *_EC_KEY, "-keyout", key, "-out", certificate, "-subj", subject)
    _openssl("req", *options, *signed, *extension)
    both = directory / f"{name}.pem"
    both.write_text(key.read_text() + certificate.read_text())
    return both


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, timeout=30)
