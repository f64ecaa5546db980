"""Broker properties of a plan: what is refused, and where secrets go."""

import stat
from pathlib import Path

import pytest

from harness.brokers.program import write_properties
from harness.plans.plan import PlanError, build
from harness.plans.properties import LEFT_OUT, OURS, is_secret

JAAS = "listener.name.sasl_ssl.plain.sasl.jaas.config"


def plan_with(**broker: str) -> dict[str, object]:
    """A plan's raw data with these broker properties."""
    return {"seed": 1, "broker": broker}


@pytest.mark.parametrize("value", ["a\nlog.dirs=/etc", "a\r", "\x1b[31m", "\x00"])
def test_a_value_with_a_control_character_is_refused(value: str) -> None:
    """It would be another property, or reach a terminal."""
    with pytest.raises(PlanError, match=r"^p: broker: compression.type has a line break"):
        build(plan_with(**{"compression.type": value}), where="p")


@pytest.mark.parametrize("name", ["a\nlog.dirs", "a=b", " log.dirs", "", "log dirs", "#"])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    """A file of properties would read something else."""
    with pytest.raises(PlanError, match="is no property's name"):
        build(plan_with(**{name: "x"}), where="p")


@pytest.mark.parametrize("name", OURS)
def test_a_property_that_the_harness_sets_is_refused(name: str) -> None:
    """A node that wrote elsewhere would leave its files behind."""
    with pytest.raises(PlanError, match=f"{name} is set by the harness"):
        build(plan_with(**{name: "/elsewhere"}), where="p")


def test_a_secret_is_used_and_not_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan that is stored names the environment variable, or says that it left something out."""
    monkeypatch.setenv("USERS", "user_a=hush")
    plan = build(plan_with(**{JAAS: "env:USERS", "ssl.key.password": "hush"}), where="p")
    assert plan.resolved_broker() == {JAAS: "user_a=hush", "ssl.key.password": "hush"}
    stored = plan.to_json()["broker"]
    assert stored == {JAAS: "env:USERS", "ssl.key.password": LEFT_OUT}
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
def test_names_tell_secrets(name: str, secret: bool) -> None:
    """One rule for plans, pages and archives."""
    assert is_secret(name) == secret


def test_nobody_else_reads_a_nodes_properties(tmp_path: Path) -> None:
    """Also where the file was there before."""
    path = tmp_path / "server.properties"
    path.write_text("old=1\n")
    path.chmod(0o644)
    write_properties(path, {"ssl.key.password": "hush"})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text() == "ssl.key.password=hush\n"
