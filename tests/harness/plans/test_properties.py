"""Broker properties of a plan: which ones are refused, and how secrets are stored."""

import stat
from pathlib import Path

import pytest

from harness.brokers.program import write_properties
from harness.plans.plan import PlanError, build
from harness.plans.properties import REDACTED, SET_BY_HARNESS, is_secret

JAAS = "listener.name.sasl_ssl.plain.sasl.jaas.config"


def plan_with(**broker: str) -> dict[str, object]:
    """A plan's raw data with these broker properties."""
    return {"seed": 1, "broker": broker}


@pytest.mark.parametrize("value", ["a\nlog.dirs=/etc", "a\r", "\x1b[31m", "\x00"])
def test_a_value_with_a_control_character_is_refused(value: str) -> None:
    """It would start another property, or control a terminal."""
    with pytest.raises(PlanError, match=r"^p: broker: compression.type has a line break"):
        build(plan_with(**{"compression.type": value}), where="p")


@pytest.mark.parametrize("name", ["a\nlog.dirs", "a=b", " log.dirs", "", "log dirs", "#"])
def test_impossible_name_of_a_property_is_refused(name: str) -> None:
    """A properties file would be read differently."""
    with pytest.raises(PlanError, match="cannot be a property's name"):
        build(plan_with(**{name: "x"}), where="p")


@pytest.mark.parametrize("name", SET_BY_HARNESS)
def test_a_property_that_the_harness_sets_is_refused(name: str) -> None:
    """The harness could not remove the files of a node that writes elsewhere."""
    with pytest.raises(PlanError, match=f"{name} is set by the harness"):
        build(plan_with(**{name: "/elsewhere"}), where="p")


def test_a_secret_is_used_and_not_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stored plan names the environment variable, or says that a secret was left out."""
    monkeypatch.setenv("USERS", "user_a=hush")
    plan = build(plan_with(**{JAAS: "env:USERS", "ssl.key.password": "hush"}), where="p")
    assert plan.resolved_broker() == {JAAS: "user_a=hush", "ssl.key.password": "hush"}
    stored = plan.to_json()["broker"]
    assert stored == {JAAS: "env:USERS", "ssl.key.password": REDACTED}
    again = build({"seed": 1, "broker": stored}, where="p")
    with pytest.raises(PlanError, match=r"ssl\.key\.password was left out .* write it as env:NAME"):
        again.resolved_broker()


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        (JAAS, True),
        ("ssl.keystore.key", True),
        ("ssl.keystore.password", True),
        ("sasl.oauthbearer.token.endpoint.url", True),
        ("ssl.keystore.certificate.chain", False),
        ("num.partitions", False),
    ],
)
def test_secrets_are_recognised_by_the_name_of_the_property(name: str, secret: bool) -> None:
    """Plans, pages and archives share this rule."""
    assert is_secret(name) == secret


def test_only_the_owner_can_read_a_properties_file(tmp_path: Path) -> None:
    """This holds for a file that existed before, too."""
    path = tmp_path / "server.properties"
    path.write_text("old=1\n")
    path.chmod(0o644)
    write_properties(path, {"ssl.key.password": "hush"})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text() == "ssl.key.password=hush\n"
