"""How clients connect: one set of properties, translated for every library."""

import json
import ssl
from pathlib import Path

import pytest

from harness.plans.plan import PlanError
from harness.workloads.clients import access
from harness.workloads.clients.access import OPEN, Access
from nodes.wire.security import Credentials
from tests.support.nodes import certificates

LOG_IN = {"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": "secret"}


def test_without_properties_connections_are_plain() -> None:
    """Plain connections, and nothing for a library to be told."""
    assert (OPEN.channel().tls, OPEN.channel().credentials) == (None, None)
    assert OPEN.librdkafka() == {}
    assert OPEN.python() == {"security_protocol": "PLAINTEXT"}


def test_credentials_are_translated_for_every_library() -> None:
    """librdkafka gets its own names unchanged."""
    given = {"security.protocol": "sasl_plaintext", **LOG_IN}
    found = Access(given)
    assert found.channel().credentials == Credentials(username="alice", password="secret")
    assert found.channel().tls is None
    assert found.librdkafka() == given
    assert found.python() == {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "alice",
        "sasl_plain_password": "secret",
    }
    assert "secret" not in repr(found)


def test_certificates_become_a_tls_context(tmp_path: Path) -> None:
    """Host names are checked unless that is switched off."""
    files = certificates.make(tmp_path)
    given = {"security.protocol": "SSL", "ssl.ca.location": str(files.authority)}
    context = Access(given).channel().tls
    assert context is not None
    assert (context.check_hostname, context.verify_mode) == (True, ssl.CERT_REQUIRED)
    anyone = Access({**given, "ssl.endpoint.identification.algorithm": "none"}).python()
    assert (anyone["security_protocol"], anyone["ssl_context"].check_hostname) == ("SSL", False)


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        (
            {"security.protocol": "TLS"},
            "TLS is not one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL",
        ),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism GSSAPI: the harness connects"),
        (
            {"security.protocol": "SASL_PLAINTEXT", **LOG_IN, "sasl.password": ""},
            "sasl.password is missing",
        ),
        (
            {"security.protocol": "SSL", "ssl.ca.location": "/nowhere/ca.pem"},
            "ssl.ca.location /nowhere/ca.pem: No such file",
        ),
    ],
)
def test_unusable_properties_are_refused(properties: dict[str, str], words: str) -> None:
    """They are refused before anything is connected."""
    with pytest.raises(PlanError, match=words):
        Access(properties).check("librdkafka")


def test_properties_of_librdkafka_are_refused_for_other_clients() -> None:
    """Other clients would ignore them."""
    special = Access({"client.rack": "a"})
    special.check("librdkafka")
    with pytest.raises(PlanError, match=r"only librdkafka has client.rack.*is aiokafka"):
        special.check("aiokafka")


def test_processes_get_the_properties_through_their_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So no file has a password."""
    told = Access(LOG_IN).environment()
    assert json.loads(told[access.VARIABLE]) == LOG_IN
    assert "PATH" in told
    monkeypatch.setenv(access.VARIABLE, told[access.VARIABLE])
    assert access.of_this_process() == Access(LOG_IN)
    monkeypatch.delenv(access.VARIABLE)
    assert access.of_this_process() == OPEN
