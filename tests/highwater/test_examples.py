"""Every public name has a docstring with an example, and every example runs."""

import doctest
import inspect
from collections.abc import Iterator
from typing import Any

import pytest

import highwater
from checkers.engines.spark_sessions import local_spark_session
from tests.support.histories.golden import ALL_GOLDEN
from tests.support.require import require
from tests.support.tiers import at_turn
from tests.tools.anomaly_reports import write_run

GOLDEN = ALL_GOLDEN["replica_has_other_bytes"]
VALUES = {"Plan", "Topic", "Workload", "Nemesis", "Event", "__version__"}
"""Models of plans: the reference of plans has an example for each of their keys."""
ON_SPARK = "Table.spark"
SIMULATES = "run"
"""The example that makes a run for the others."""


def public() -> Iterator[tuple[str, Any]]:
    """(name, object) of every public function and class, and of every public method."""
    for name in highwater.__all__:
        found = getattr(highwater, name)
        if name in VALUES:
            continue
        yield name, found
        if inspect.isclass(found) and not issubclass(found, Exception):
            for each, member in vars(found).items():
                if not each.startswith("_") and (callable(member) or isinstance(member, property)):
                    yield f"{name}.{each}", member


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the examples find: a judged run, one without a verdict, a simulated one."""
    root = tmp_path_factory.mktemp("runs")
    runs = {name: write_run(root / name, GOLDEN) for name in ("judged", "unjudged")}
    highwater.check(runs["judged"])
    made = run_example(SIMULATES, {"highwater": highwater, "STORE": str(root / "store")})
    return {
        "highwater": highwater,
        "RUN": str(runs["judged"]),
        "UNJUDGED": str(runs["unjudged"]),
        "SIMULATED": str(made["run"].path),
    }


PUBLIC = dict(public())


@pytest.fixture(scope="module")
def kafka() -> Iterator[highwater.Cluster]:
    """The cluster of the examples."""
    require("netns")
    with highwater.cluster() as made:
        made.create_topic("orders")
        yield made


def needs_cluster(name: str) -> bool:
    text = inspect.getdoc(PUBLIC[name]) or ""
    return "CLUSTER" in text or "highwater.cluster(" in text


@pytest.mark.parametrize("name", [name for name in PUBLIC if needs_cluster(name)])
def test_the_example_of_every_name_that_needs_a_cluster_runs(
    name: str, kafka: highwater.Cluster
) -> None:
    run_example(name, {"highwater": highwater, "CLUSTER": kafka})
    assert kafka.faults.in_force == ()


def test_the_example_that_makes_a_run_runs(names: dict[str, Any]) -> None:
    assert highwater.load(names["SIMULATED"]).plan.target == "sim"


@pytest.mark.parametrize(
    "name",
    [name for name in PUBLIC if name not in (SIMULATES, ON_SPARK) and not needs_cluster(name)],
)
def test_the_example_of_every_public_name_runs(name: str, names: dict[str, Any]) -> None:
    run_example(name, names)


@pytest.mark.slow
@at_turn(2, 4, "checkers/test_check.py::test_spark_job")
def test_the_example_on_spark_runs(names: dict[str, Any]) -> None:
    session = local_spark_session([])
    try:
        run_example(ON_SPARK, {**names, "SPARK": session})
    finally:
        session.stop()


def run_example(name: str, names: dict[str, Any]) -> dict[str, Any]:
    """Run the example of a public name; return all names in the end."""
    text = inspect.getdoc(PUBLIC[name]) or ""
    assert ">>> " in text, f"highwater.{name} has no example"
    example = doctest.DocTestParser().get_doctest(text, dict(names), name, None, None)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    shown: list[str] = []
    runner.run(example, out=shown.append, clear_globs=False)
    assert runner.failures == 0, "".join(shown)
    return example.globs


def test_every_model_of_plans_has_a_docstring() -> None:
    for name in VALUES - {"__version__"}:
        assert inspect.getdoc(getattr(highwater, name)), name
