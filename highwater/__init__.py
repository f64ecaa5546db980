"""Break Kafka-protocol clusters on purpose, and find out what was lost: the public Python API.

Everything in `highwater.__all__` is public, typed and stable. All other modules of the project are
private. Names are loaded when they are first used, so `import highwater` costs nothing.

    load(run)           a stored run: its tables and its verdict
    check(run)          judge a stored run again
    run(plan)           make a run: start a cluster, break it, judge what its clients saw
    plan(source)        read a plan: a packaged one by name, or a TOML file
    cluster()           a cluster of the built-in broker for tests, and faults to break it

Every error is a `HighwaterError`. Its text says what happened and what to do.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from highwater._checking import check as check
    from highwater._clusters import Cluster as Cluster
    from highwater._clusters import cluster as cluster
    from highwater._errors import ClusterFailed as ClusterFailed
    from highwater._errors import EngineUnavailable as EngineUnavailable
    from highwater._errors import FaultFailed as FaultFailed
    from highwater._errors import HighwaterError as HighwaterError
    from highwater._errors import InvalidPlan as InvalidPlan
    from highwater._errors import InvalidRequest as InvalidRequest
    from highwater._errors import NotJudged as NotJudged
    from highwater._errors import RunFailed as RunFailed
    from highwater._errors import RunUnreadable as RunUnreadable
    from highwater._faults import FaultInForce as FaultInForce
    from highwater._faults import Faults as Faults
    from highwater._plans import Event as Event
    from highwater._plans import Nemesis as Nemesis
    from highwater._plans import Plan as Plan
    from highwater._plans import Topic as Topic
    from highwater._plans import Workload as Workload
    from highwater._plans import packaged_plans as packaged_plans
    from highwater._plans import plan as plan
    from highwater._running import run as run
    from highwater._runs import Run as Run
    from highwater._runs import load as load
    from highwater._tables import Table as Table
    from highwater._verdicts import Anomaly as Anomaly
    from highwater._verdicts import Expectation as Expectation
    from highwater._verdicts import Verdict as Verdict

_MODULES = {
    "load": "_runs",
    "check": "_checking",
    "run": "_running",
    "plan": "_plans",
    "packaged_plans": "_plans",
    "cluster": "_clusters",
    "Run": "_runs",
    "Table": "_tables",
    "Verdict": "_verdicts",
    "Anomaly": "_verdicts",
    "Expectation": "_verdicts",
    "Plan": "_plans",
    "Topic": "_plans",
    "Workload": "_plans",
    "Nemesis": "_plans",
    "Event": "_plans",
    "Cluster": "_clusters",
    "Faults": "_faults",
    "FaultInForce": "_faults",
    "HighwaterError": "_errors",
    "RunUnreadable": "_errors",
    "NotJudged": "_errors",
    "InvalidPlan": "_errors",
    "InvalidRequest": "_errors",
    "RunFailed": "_errors",
    "ClusterFailed": "_errors",
    "FaultFailed": "_errors",
    "EngineUnavailable": "_errors",
}
"""The module of every public name, in the order of the reference."""

__all__ = [  # noqa: RUF022 - in the order of the reference
    "load",
    "check",
    "run",
    "plan",
    "packaged_plans",
    "cluster",
    "Run",
    "Table",
    "Verdict",
    "Anomaly",
    "Expectation",
    "Plan",
    "Topic",
    "Workload",
    "Nemesis",
    "Event",
    "Cluster",
    "Faults",
    "FaultInForce",
    "HighwaterError",
    "RunUnreadable",
    "NotJudged",
    "InvalidPlan",
    "InvalidRequest",
    "RunFailed",
    "ClusterFailed",
    "FaultFailed",
    "EngineUnavailable",
    "__version__",
]


def __getattr__(name: str) -> object:
    """Load a public name when it is first used (PEP 562)."""
    if name == "__version__":
        from importlib.metadata import version

        found: object = version("highwater")
    elif name in _MODULES:
        from importlib import import_module

        found = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


if TYPE_CHECKING:
    __version__: str
