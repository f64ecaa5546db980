"""The client libraries, and the error for one that is not installed."""

import json
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, get_args

import pytest

from harness.plans.plan import Plan, PlanError, Workload, build, load
from harness.plans.workloads import OwnClient
from harness.workloads.clients import libraries
from harness.workloads.clients.program import java
from harness.workloads.launch import MODULES
from tests.support.clients.workloads import SAMPLE, require_client, workload_of

CLIENTS: list[str] = list(get_args(OwnClient))


@pytest.mark.parametrize("client", CLIENTS)
def test_every_client_has_a_package_a_process_and_a_version(client: str) -> None:
    """All are installed for the tests; reports name what was used."""
    assert client in MODULES
    require_client(client)
    workload = workload_of(client)
    libraries.check(Plan(seed=1, workload=workload))
    assert libraries.name_and_version(workload).startswith(f"{client} ")
    if client in libraries.PACKAGES:
        assert version(libraries.PACKAGES[client]) in libraries.name_and_version(workload)


def plan_with(command: tuple[str, ...], **further: Any) -> Plan:
    """A plan whose only clients are a program's."""
    workload = {"client": "program", "client_command": command, **further}
    raw = {"seed": 1, "name": "p", "topics": [{"name": "t", "acks": "all"}], "workload": [workload]}
    return build(raw, where="p")


def test_report_names_what_the_program_says_of_itself() -> None:
    """A program that has stopped working since is no reason to fail a run."""
    assert libraries.name_and_version(plan_with(SAMPLE).workload).startswith("program sample 2")
    gone = plan_with(("./gone",)).workload
    assert "cannot be started" in libraries.name_and_version(gone)


def test_report_names_every_client_once() -> None:
    """A plan may give each of its workloads another one."""
    group = {"kind": "group", "group": "g", "topic": "t"}
    workloads = [{"client": "own"}, group, {**group, "group": "h", "client": "own"}]
    raw = {"seed": 1, "name": "p", "topics": [{"name": "t", "acks": "all"}], "workload": workloads}
    found = libraries.names_and_versions(build(raw, where="p")).split(", ")
    assert [each.split()[0] for each in found] == ["own", "librdkafka"]


@pytest.mark.parametrize(
    ("command", "kind", "said"),
    [
        (("./gone",), {}, "program ./gone cannot be started: No such file or directory; see docs/"),
        ((sys.executable, "-c", ""), {}, "the client program ended with code 0; see docs/clients-"),
        ((sys.executable, "-c", "print(1)"), {}, "it is not an object: 1"),
        (("produce",), {"kind": "group", "group": "g", "topic": "t"}, "cannot do group: it can do"),
        (
            ("produce", "group"),
            {"kind": "group", "group": "g", "topic": "t", "protocol": "consumer"},
            "x 1 cannot do consumer: it can do classic; give this workload another client",
        ),
        (
            ("produce", "group"),
            {"kind": "group", "group": "g", "topics": ["t", "u"]},
            "x 1 speaks version 1 of the clients' protocol, in which a member of a group has one",
        ),
        (("group",), {}, "x 1 cannot do produce: it can do group; give"),
        (("produce",), {"kind": "compacted", "topics": ["t"]}, "x 1 cannot do compacted: it can"),
    ],
)
def test_program_that_cannot_do_the_workload_is_refused(
    command: tuple[str, ...], kind: dict[str, Any], said: str
) -> None:
    """Before anything is started. A command of kinds is a program that says that it has these."""
    if not command[0].startswith(("/", ".")):
        answer = {"id": 1, "protocol": 1, "name": "x", "version": "1", "kinds": command}
        command = (sys.executable, "-c", f"input(); print({json.dumps(answer)!r}); input()")
    with pytest.raises(PlanError) as refused:
        libraries.check(plan_with(command, **kind))
    assert "plan p: workload.client program" in str(refused.value)
    assert said in str(refused.value)


def test_program_that_writes_no_keys_is_refused_for_the_packaged_plan() -> None:
    """`highwater run compacted --client-command X` does not keep the plan's own clients."""
    answer = {"id": 1, "protocol": 1, "name": "x", "version": "1", "kinds": ["produce"]}
    command = [sys.executable, "-c", f"input(); print({json.dumps(answer)!r}); input()"]
    plan = build(load("compacted"), where="p", flags={"client_command": command})
    with pytest.raises(PlanError, match="x 1 cannot do compacted: it can do produce; give this"):
        libraries.check(plan)


def test_java_client_that_is_not_compiled_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The error says how to compile it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(java, "SOURCE_TREE", tmp_path)
    with pytest.raises(PlanError, match="run `make java-client` in the source tree"):
        libraries.check(Plan(seed=1, workload=Workload(client="java")))


def test_clients_of_no_producers_and_consumers_need_not_be_there() -> None:
    """A plan may have further workloads only."""
    kind = {"kind": "transactions", "client": "own"}
    workloads = {"workload": [kind], "topics": [{"name": "t", "acks": "all"}], "seed": 1}
    libraries.check(build(workloads, where="p"))


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
