"""The client libraries, and the error for one that is not installed."""

from importlib.metadata import PackageNotFoundError, version
from typing import get_args

import pytest

from harness.plans.plan import ClientName, Plan, PlanError, Workload, build
from harness.workloads.clients import libraries
from harness.workloads.launch import MODULES

CLIENTS: list[ClientName] = list(get_args(ClientName))


@pytest.mark.parametrize("client", CLIENTS)
def test_every_client_has_a_package_a_process_and_a_version(client: ClientName) -> None:
    """All are installed for the tests; reports name what was used."""
    assert client in MODULES
    libraries.check(Plan(seed=1, workload=Workload(client=client)))
    assert libraries.name_and_version(client).startswith(f"{client} ")
    assert version(libraries.PACKAGES[client]) in libraries.name_and_version(client)


def test_client_that_is_not_installed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to install."""

    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(libraries, "version", missing)
    with pytest.raises(
        PlanError, match=r"client aiokafka is not installed: pip install 'highwater"
    ):
        libraries.check(Plan(seed=1, workload=Workload(client="aiokafka")))


def test_client_flag_replaces_the_plans_client() -> None:
    """The rest of the plan's workload stays."""
    raw = {"workload": {"client": "own", "producers": 5}}
    plan = build(raw, where="p", flags={"client": "kafka-python"})
    assert (plan.workload.client, plan.workload.producers) == ("kafka-python", 5)
    with pytest.raises(PlanError, match=r"p: workload.client: input should be 'librdkafka', 'own'"):
        build(raw, where="p", flags={"client": "sarama"})
