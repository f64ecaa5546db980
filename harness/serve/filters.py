"""Which runs are shown: search, filters, order, pages; and how each plan went over time. Pure."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from harness.serve.summaries import State, Summary

PER_PAGE: Final = 50
TREND: Final = 30
PLANS: Final = 40
WORDS: Final = 20

ORDERS: Final[Mapping[str, str]] = {
    "newest": "newest first",
    "gravest": "gravest first",
    "longest": "longest first",
    "slowest": "slowest p99 first",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What somebody looks for; empty is everything."""

    text: str = ""
    """Words, each of which must be somewhere in what is known of a run."""
    state: str = ""
    plan: str = ""
    fault: str = ""
    order: str = "newest"
    page: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A page of the runs that were wished for."""

    runs: tuple[Summary, ...]
    found: int
    page: int
    pages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanTrend:
    """How a plan's runs went, the oldest first."""

    plan: str
    count: int
    runs: tuple[Summary, ...]
    """The last ones."""


def chosen(runs: Sequence[Summary], wish: Wish) -> Choice:
    """The runs that answer the wish; `runs` the newest first."""
    sought = _words(wish.text)
    found = [run for run in runs if _fits(run, wish) and _has(run, sought)]
    order = list(State)
    match wish.order:
        case "gravest":
            found.sort(key=lambda run: order.index(run.state))
        case "longest":
            found.sort(key=lambda run: -(run.chaos_s or 0))
        case "slowest":
            found.sort(key=lambda run: -(run.p99_ms or 0))
    pages = max(1, -(-len(found) // PER_PAGE))
    page = min(max(1, wish.page), pages)
    shown = found[(page - 1) * PER_PAGE : page * PER_PAGE]
    return Choice(runs=tuple(shown), found=len(found), page=page, pages=pages)


def trends(runs: Sequence[Summary]) -> list[PlanTrend]:
    """Every plan with its last runs, those first that ran last; `runs` the newest first."""
    grouped: dict[str, list[Summary]] = {}
    for run in runs:
        grouped.setdefault(run.plan, []).append(run)
    return [
        PlanTrend(plan=plan, count=len(found), runs=tuple(reversed(found[:TREND])))
        for plan, found in list(grouped.items())[:PLANS]
    ]


def kept(runs: Sequence[Summary]) -> tuple[list[str], list[str]]:
    """The plans and the faults that there are, for choosing among them."""
    plans = sorted({run.plan for run in runs})
    faults = sorted({name for run in runs for name in run.fault_names if name})
    return plans, faults


def _fits(run: Summary, wish: Wish) -> bool:
    return (
        wish.state in ("", run.state)
        and wish.plan in ("", run.plan)
        and (not wish.fault or wish.fault in run.fault_names)
    )


def _words(text: str) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError:  # a quotation mark that is alone
        words = text.split()
    return [word.casefold() for word in words[:WORDS]]


def _has(run: Summary, sought: Sequence[str]) -> bool:
    if not sought:
        return True
    texts = (
        *run.place, run.plan, run.run_id, run.state, run.said, run.target, run.system, run.broker,
        run.commit, f"seed {run.seed}", *run.fault_names, *run.anomalies,
        *(fault.label for fault in run.faults), *(topic.name for topic in run.topics),
    )  # fmt: skip
    known = "\n".join(texts).casefold()
    return all(word in known for word in sought)
