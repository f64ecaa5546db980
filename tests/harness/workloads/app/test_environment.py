"""What a program is told."""

import pytest

from harness.workloads.app import environment

KNOWN = {environment.BOOTSTRAP: "a:1", environment.INSTANCE: "2"}


def test_references_are_replaced() -> None:
    """Other dollars stay."""
    text = "--servers=${HIGHWATER_BOOTSTRAP_SERVERS} $HOME ${HOME}"
    assert environment.replaced(text, KNOWN) == "--servers=a:1 $HOME ${HOME}"


def test_unknown_reference_is_an_error_that_names_the_known_ones() -> None:
    """A slip of the pen is found before the start."""
    with pytest.raises(ValueError, match="HIGHWATER_SERVERS; there are HIGHWATER_BOOTSTRAP"):
        environment.check(["app", "${HIGHWATER_SERVERS}"], {})
    environment.check(["app", "${HIGHWATER_OUTPUT}"], {"A": "${HIGHWATER_GROUP}"})


def test_environment_has_both_names() -> None:
    """Highwater's own and the program's."""
    made = environment.of_instance(
        {"PATH": "/bin"}, {"SERVERS": "${HIGHWATER_BOOTSTRAP_SERVERS}"}, KNOWN
    )
    assert made["PATH"] == "/bin"
    assert made["SERVERS"] == made[environment.BOOTSTRAP] == "a:1"
    assert made[environment.INSTANCE] == "2"


def test_credentials_are_variables() -> None:
    """Both names of the mechanism count. Without credentials the protocol is PLAINTEXT."""
    properties = {"security.protocol": "sasl_ssl", "sasl.mechanisms": "PLAIN", "sasl.username": "u"}
    found = environment.credentials(properties)
    assert found["HIGHWATER_SECURITY_PROTOCOL"] == "SASL_SSL"
    assert found["HIGHWATER_SASL_MECHANISM"] == "PLAIN"
    assert found["HIGHWATER_SASL_USERNAME"] == "u"
    assert found["HIGHWATER_SASL_PASSWORD"] == ""
    assert environment.credentials({})["HIGHWATER_SECURITY_PROTOCOL"] == "PLAINTEXT"
    environment.check(["app", "${HIGHWATER_SASL_PASSWORD}"], {})
