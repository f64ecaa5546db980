"""Compares two runs: what differs, and by how much. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from harness.reports.redaction import redacted
from harness.reports.words import milliseconds, number
from harness.serve.summaries import Json, RunSummary, Topic, flat

ROWS: Final = 2_000
"""Differences of the plans that are listed; the rest is counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One property of both runs, in words."""

    name: str
    first: str
    second: str
    change: str = ""

    @property
    def differs(self) -> bool:
        """Whether the two runs differ in it."""
        return self.first != self.second


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The comparison of two runs."""

    about: Sequence[Row]
    topics: Sequence[tuple[str, Sequence[Row]]]
    anomalies: Sequence[Row]
    faults: Sequence[Row]
    plan: Sequence[Row]
    """Only differences."""
    more: int
    """Differences of the plans that are not listed."""


_ABOUT: Final[Mapping[str, Callable[[RunSummary], object]]] = {
    "verdict": lambda run: run.state,
    "plan": lambda run: run.plan,
    "seed": lambda run: run.seed,
    "chaos, s": lambda run: run.chaos_s,
    "target": lambda run: run.target,
    "system": lambda run: run.system,
    "broker": lambda run: run.broker,
    "nodes": lambda run: run.nodes,
    "commit": lambda run: run.commit,
}
_COUNTS: Final[Mapping[str, Callable[[Topic], int | None]]] = {
    "sent": lambda topic: topic.sent,
    "acknowledged": lambda topic: topic.acked,
    "failed": lambda topic: topic.failed,
    "info": lambda topic: topic.info,
    "lost": lambda topic: topic.lost,
    "duplicated": lambda topic: topic.duplicated,
    "reordered": lambda topic: topic.reordered,
}
_TIMES: Final[Mapping[str, Callable[[Topic], float | None]]] = {
    "p50, ms": lambda topic: topic.p50_ms,
    "p99, ms": lambda topic: topic.p99_ms,
}


def compare_runs(first: RunSummary, second: RunSummary, plans: tuple[Json, Json]) -> Comparison:
    """Compare two runs. `plans`: their plan.json."""
    differences = _plan(*plans)
    return Comparison(
        about=[
            Row(name=name, first=_sentence(of(first)), second=_sentence(of(second)))
            for name, of in _ABOUT.items()
        ],
        topics=_topics(first, second),
        anomalies=_counted(first.anomalies, second.anomalies),
        faults=_counted(_fault_counts(first), _fault_counts(second)),
        plan=differences[:ROWS],
        more=max(0, len(differences) - ROWS),
    )


def _topics(first: RunSummary, second: RunSummary) -> list[tuple[str, Sequence[Row]]]:
    ours, theirs = ({topic.name: topic for topic in run.topics} for run in (first, second))
    found: list[tuple[str, Sequence[Row]]] = []
    for name in dict.fromkeys((*ours, *theirs)):
        one, other = ours.get(name), theirs.get(name)
        rows = [_row(label, _of(one, of), _of(other, of), number) for label, of in _COUNTS.items()]
        rows += [
            _row(label, _of(one, at), _of(other, at), milliseconds) for label, at in _TIMES.items()
        ]
        topic = one or other
        assert topic is not None, "one of them has it"
        found.append((f"{name}, acks={topic.acks}", rows))
    return found


def _of(topic: Topic | None, value: Callable[[Topic], float | None]) -> float | None:
    return None if topic is None else value(topic)


def _row(
    name: str, first: float | None, second: float | None, sentence: Callable[[object], str]
) -> Row:
    return Row(
        name=name, first=sentence(first), second=sentence(second), change=_change(first, second)
    )


def _change(first: float | None, second: float | None) -> str:
    if first is None or second is None or first == second:
        return ""
    if not first:
        return f"+{second:,.0f}"
    factor = second / first
    return f"{factor:.1f} times" if factor >= 2 else f"{100 * (factor - 1):+.0f} %"


def _counted(first: Mapping[str, int], second: Mapping[str, int]) -> list[Row]:
    return [
        _row(name, first.get(name, 0), second.get(name, 0), number)
        for name in dict.fromkeys((*first, *second))
    ]


def _fault_counts(run: RunSummary) -> Mapping[str, int]:
    found: dict[str, int] = {}
    for fault in run.faults:
        key = fault.name if fault.took_effect else f"{fault.name}, without effect"
        found[key] = found.get(key, 0) + 1
    return found


def _plan(first: Json, second: Json) -> list[Row]:
    ours, theirs = flat(redacted(first)), flat(redacted(second))
    names = dict.fromkeys((*ours, *theirs))
    rows = [Row(name=name, first=ours.get(name, ""), second=theirs.get(name, "")) for name in names]
    return [row for row in rows if row.differs]


def _sentence(value: object) -> str:
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
