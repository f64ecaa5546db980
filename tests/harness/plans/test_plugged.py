"""Systems, targets and client programs of other packages."""

from collections.abc import Iterator
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from harness.brokers.choose import broker_program_of
from harness.plans import plugged
from harness.plans.plan import SYSTEM_NAMES, TARGET_NAMES, Plan, PlanError, build
from harness.plans.plugged import CLIENTS, SYSTEMS, TARGETS
from harness.plans.workloads import CLIENT_NAMES
from harness.targets import clean, kinds
from harness.targets import plugged as targets
from harness.workloads.clients import libraries

DECLARED = "tests.support.targets.plugged"


@pytest.fixture(autouse=True)
def declared(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Entry points of packages that are not installed."""
    points = {
        group: [EntryPoint(name, f"{DECLARED}:{what}", group) for name, what in several.items()]
        for group, several in {
            SYSTEMS: {"better": "system", "gone": "nothing", "nodes": "system", "Loud!": "system"},
            TARGETS: {"moon": "MOON", "mars": "system"},
            CLIENTS: {"sample": "command", "failing": "failing", "empty": "empty"},
        }.items()
    }
    monkeypatch.setattr(plugged, "entry_points", lambda group: points.get(group, []))
    for each in (plugged._declared, plugged._points):
        each.cache_clear()
    yield
    for each in (plugged._declared, plugged._points):
        each.cache_clear()


def plan(**changes: Any) -> Plan:
    """A plan with these keys."""
    return build({"seed": 1, "name": "p", **changes}, where="p")


def test_plan_names_a_system_of_another_package() -> None:
    """The package's function gets the plan."""
    assert broker_program_of(plan(system="better", nodes=2)).versions() == {"nodes": "2"}
    assert plan(system="better").to_json()["system"] == "better"


def test_plan_names_a_target_of_another_package() -> None:
    """It has its own kind, and its own way to clean up."""
    assert isinstance(kinds.kind_of(plan(target="moon")), kinds.LocalKind)
    assert clean._handlers()["moon.crater"]({"kind": "moon.crater"}) == "a crater"
    with pytest.raises(PlanError, match=r"target mars: .* is no PluggedTarget"):
        kinds.kind_of(plan(target="mars"))
    assert set(targets.undo()) == {"moon.crater"}


def test_plan_names_a_client_of_another_package() -> None:
    """Its command is asked for when it is needed."""
    found = plan(workload={"client": "sample"}).workload
    assert list(libraries.command(found))[-1] == "a-client"
    flags = build({"seed": 1}, where="p", flags={"client": "sample"})
    assert flags.workload.client == "sample"
    kind = {"kind": "transactions", "client": "sample"}
    further = plan(workload=[kind], topics=[{"name": "t", "acks": "all"}]).more_workloads[0]
    assert list(libraries.command(further))[-1] == "a-client"


@pytest.mark.parametrize(
    ("client", "said"),
    [
        ("failing", "its package (?) gave no command: RuntimeError: not compiled"),
        ("empty", "its package gave an empty command"),
    ],
)
def test_client_without_a_command_is_refused(client: str, said: str) -> None:
    """With the package's own reason."""
    with pytest.raises(PlanError) as refused:
        libraries.command(plan(workload={"client": client}).workload)
    assert said in str(refused.value)


def test_what_does_not_load_is_an_error_of_the_plan_that_names_it() -> None:
    """Other plans do not notice."""
    with pytest.raises(PlanError, match=r"the entry point gone \(highwater.systems\) of package"):
        broker_program_of(plan(system="gone"))
    broker_program_of(plan(system="nodes"))


def test_unknown_name_is_refused_with_all_names() -> None:
    """Ours, and those of other packages."""
    with pytest.raises(PlanError, match=r"'external', 'better' or 'gone', not \"bettr\"; did you"):
        plan(system="bettr")
    with pytest.raises(PlanError, match=r"target: input should be 'local'.*, not 3"):
        plan(target=3)
    with pytest.raises(PlanError, match=r"workload.client: input should be .*'sample'"):
        plan(workload={"client": "sampl"})


def test_problems_name_what_cannot_be_used() -> None:
    """A name of ours, a name that a plan cannot have, and what does not load."""
    loud, nodes, gone = SYSTEM_NAMES.problems()
    assert "its name must have small letters" in loud
    assert "there is a nodes of highwater's own; give it another name" in nodes
    assert "gone (highwater.systems)" in gone
    assert "has no attribute 'nothing'" in gone
    assert list(CLIENT_NAMES.packages()) == ["empty", "failing", "sample"]
    assert TARGET_NAMES.problems() == []
