"""The pytest plugin: break Kafka under the program that a test starts.

    kafka_cluster   a cluster of the built-in broker; shared by the session or by each module
    faults          breaks that cluster; after the test everything is healed and has recovered
    verdict         the verdict of the plan of `@pytest.mark.chaos(plan=...)`

A failed test shows its faults, or its verdict, in sections of pytest's own output. Nothing but
pytest is imported before a fixture is used.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    import highwater

MARKER: Final = "chaos"
SECTION: Final = "highwater"
_told = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the cluster, each with an ini setting of the same meaning."""
    group = parser.getgroup("highwater", "break Kafka under your program")
    group.addoption(
        "--kafka-scope",
        choices=("session", "module"),
        help="whether all tests share one kafka_cluster (session) or those of a module (module); "
        "ini: kafka_scope; default: session",
    )
    group.addoption(
        "--kafka-nodes", type=int, help="nodes of kafka_cluster; ini: kafka_nodes; default: 3"
    )
    group.addoption(
        "--kafka-disks",
        action="store_true",
        help="give every node a disk of its own, which faults of disks need (as root); "
        "ini: kafka_disks",
    )
    parser.addini("kafka_scope", "see --kafka-scope", default="session")
    parser.addini("kafka_nodes", "see --kafka-nodes", default="3")
    parser.addini("kafka_disks", "see --kafka-disks", type="bool", default=False)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers",
        "chaos(plan, **changes): run a plan of highwater (the name of a packaged one, a TOML file "
        "or a highwater.Plan) before the test; the fixture `verdict` has the result",
    )


def pytest_itemcollected(item: pytest.Item) -> None:
    """A marked test runs its plan, also if it does not name the fixture."""
    names: list[str] | None = getattr(item, "fixturenames", None)
    if item.get_closest_marker(MARKER) and names is not None and "verdict" not in names:
        names.append("verdict")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, Any, Any]:
    """Add what the fixtures tell to the report of a test that failed."""
    report: Any = yield
    told = item.stash.get(_told, [])
    if report.failed and told:
        report.sections.append((SECTION, "\n".join(told)))
        told.clear()
    return report


def _scope(fixture_name: str, config: pytest.Config) -> Literal["session", "module"]:
    chosen = config.getoption("--kafka-scope", None) or config.getini("kafka_scope")
    if chosen not in ("session", "module"):
        raise pytest.UsageError(f"kafka_scope is session or module, not {chosen!r}")
    return "module" if chosen == "module" else "session"


@pytest.fixture(scope=_scope)
def kafka_cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[highwater.Cluster]:
    """A cluster of the built-in broker: `.bootstrap_servers`, `.create_topic`, `.read`, `.nodes`.

    It starts in seconds, needs no root, and ends with the tests.
    """
    import highwater

    config = request.config
    nodes = config.getoption("--kafka-nodes") or config.getini("kafka_nodes")
    try:
        made = highwater.cluster(
            nodes=int(nodes),
            disks=bool(config.getoption("--kafka-disks") or config.getini("kafka_disks")),
            store=tmp_path_factory.mktemp("kafka"),
        )
    except (highwater.HighwaterError, ValueError) as error:
        pytest.fail(f"kafka_cluster: {error}", pytrace=False)
    with made:
        yield made


@pytest.fixture
def faults(
    request: pytest.FixtureRequest, kafka_cluster: highwater.Cluster
) -> Iterator[highwater.Faults]:
    """Breaks `kafka_cluster`: `with faults.partition("leader:orders/0"):`.

    After the test every fault is healed, and the cluster has recovered.
    """
    import highwater
    from highwater._faults import Faults

    made = Faults(kafka_cluster._ask)
    request.node.stash[_told] = _FaultLines(made, kafka_cluster.path)
    yield made
    try:
        made.heal_all()
        if made.injected:
            kafka_cluster.await_recovery()
    except highwater.HighwaterError as error:
        pytest.fail(f"after the test: {error}", pytrace=False)


class _FaultLines(list[str]):
    """The lines about the faults of a test, made when they are shown."""

    def __init__(self, made: highwater.Faults, path: Path) -> None:
        super().__init__(["faults"])  # a list without items would not be shown
        self._made = made
        self._path = path

    def __iter__(self) -> Iterator[str]:
        lines = [str(each) for each in self._made.injected] or ["no fault was injected"]
        return iter([*lines, f"logs of the nodes: {self._path}/nodes/*/node.log"])


@pytest.fixture
def verdict(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> highwater.Verdict:
    """The verdict of the plan of `@pytest.mark.chaos(plan=...)`.

    `assert verdict.ok` fails with what was lost and why in pytest's output. The path of the report
    is in the properties of the test (`highwater_report`, also in JUnit files).
    """
    import highwater

    marker = request.node.get_closest_marker(MARKER)
    if marker is None:
        raise pytest.UsageError(
            "the fixture `verdict` needs a plan: mark the test with "
            '@pytest.mark.chaos(plan="first-light")'
        )
    plan, changes = _plan_of(marker)
    try:
        made = highwater.plan(plan, **changes) if isinstance(plan, str) else plan
        run = highwater.run(made, store=tmp_path_factory.mktemp("chaos"))
        found = run.verdict
    except highwater.HighwaterError as error:
        pytest.fail(f"chaos: {error}", pytrace=False)
    where = str(run.report or run.path)
    request.node.user_properties.append(("highwater_report", where))
    request.node.stash[_told] = [*str(found).splitlines(), f"report: {where}"]
    return found


def _plan_of(marker: pytest.Mark) -> tuple[Any, dict[str, Any]]:
    """The plan of a marker, and the changes to it. Raises UsageError."""
    given = {**dict(zip(("plan",), marker.args, strict=False)), **marker.kwargs}
    if "plan" not in given or len(marker.args) > 1:
        raise pytest.UsageError('write the marker as @pytest.mark.chaos(plan="first-light")')
    plan = given.pop("plan")
    return (str(plan) if isinstance(plan, Path) else plan), given
