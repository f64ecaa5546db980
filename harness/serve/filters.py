"""Selects the runs of a page: search, filters, order; and makes the trends. Pure."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from harness.serve.summaries import RunSummary, State

PER_PAGE: Final = 50
TREND: Final = 30
TRENDS: Final = 40
WORDS: Final = 20

ORDERS: Final[Mapping[str, str]] = {
    "newest": "newest first",
    "gravest": "gravest first",
    "longest": "longest first",
    "slowest": "slowest p99 first",
    "lost": "most lost writes first",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQuery:
    """A query for runs. An empty field matches every run."""

    text: str = ""
    """Words. Each must be somewhere in the facts about a run."""
    state: str = ""
    plan: str = ""
    fault: str = ""
    system: str = ""
    target: str = ""
    order: str = "newest"
    page: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """One page of the runs that match a query."""

    runs: tuple[RunSummary, ...]
    found: int
    page: int
    pages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """The runs of one plan on one system, target and broker, the oldest first."""

    plan: str
    system: str
    target: str
    broker: str
    count: int
    runs: tuple[RunSummary, ...]
    """The last runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """The values of the filters."""

    plans: Sequence[str]
    faults: Sequence[str]
    systems: Sequence[str]
    targets: Sequence[str]


def select_runs(runs: Sequence[RunSummary], query: RunQuery) -> Selection:
    """Return the runs that match the query. `runs`: the newest first."""
    sought = _words(query.text)
    found = [run for run in runs if _fits(run, query) and _has(run, sought)]
    order = list(State)
    match query.order:
        case "gravest":
            found.sort(key=lambda run: order.index(run.state))
        case "longest":
            found.sort(key=lambda run: -(run.chaos_s or 0))
        case "slowest":
            found.sort(key=lambda run: -(run.p99_ms or 0))
        case "lost":
            found.sort(key=lambda run: -(run.lost or 0))
    pages = max(1, -(-len(found) // PER_PAGE))
    page = min(max(1, query.page), pages)
    shown = found[(page - 1) * PER_PAGE : page * PER_PAGE]
    return Selection(runs=tuple(shown), found=len(found), page=page, pages=pages)


def trends(runs: Sequence[RunSummary]) -> list[Trend]:
    """Return a trend for each plan, system, target and broker, the most recent first. Runs that
    differ in one of these cannot be compared. `runs`: the newest first."""
    grouped: dict[tuple[str, str, str, str], list[RunSummary]] = {}
    for run in runs:
        grouped.setdefault((run.plan, run.system, run.target, run.broker), []).append(run)
    return [
        Trend(
            plan=plan,
            system=system,
            target=target,
            broker=broker,
            count=len(found),
            runs=tuple(reversed(found[:TREND])),
        )
        for (plan, system, target, broker), found in list(grouped.items())[:TRENDS]
    ]


def split(runs: Sequence[RunSummary]) -> tuple[list[RunSummary], list[RunSummary]]:
    """Return the runs, and the clusters that somebody started by hand."""
    clusters = [run for run in runs if run.state is State.CLUSTER]
    return [run for run in runs if run.state is not State.CLUSTER], clusters


def choices(runs: Sequence[RunSummary]) -> Choices:
    """Return the values that the filters offer."""
    return Choices(
        plans=sorted({run.plan for run in runs}),
        faults=sorted({name for run in runs for name in run.fault_names if name}),
        systems=sorted({run.system for run in runs if run.system}),
        targets=sorted({run.target for run in runs if run.target}),
    )


def _fits(run: RunSummary, query: RunQuery) -> bool:
    return (
        query.state in ("", run.state)
        and query.plan in ("", run.plan)
        and query.system in ("", run.system)
        and query.target in ("", run.target)
        and (not query.fault or query.fault in run.fault_names)
    )


def _words(text: str) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError:  # a quotation mark that is alone
        words = text.split()
    return [word.casefold() for word in words[:WORDS]]


def _has(run: RunSummary, sought: Sequence[str]) -> bool:
    if not sought:
        return True
    texts = (
        *run.place, run.plan, run.run_id, run.state, run.sentence, run.target, run.system,
        run.broker, run.commit, f"seed {run.seed}", *run.fault_names, *run.anomalies, *(fault.label
        for fault in run.faults), *(topic.name for topic in run.topics),
    )  # fmt: skip
    known = "\n".join(texts).casefold()
    return all(word in known for word in sought)
