"""What a user expects of a run beside the contract: `lost.acks-all = 0`, `publish_p99_ms <= 50`.

An expectation compares one measured quantity with a limit. The contract says what a configuration
promises; an expectation is the user's own, and every output shows it apart from the contract. It is
evaluated on the content of verdict.json. A quantity is a range, from the certain minimum to the
possible maximum. An expectation passes or fails only if the whole range does; else it is not
decided. An expectation about a quantity that was not measured never passes.
"""

import difflib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from checkers.losses import LOSSES

QUANTITIES: Final[Mapping[str, str]] = {
    "lost": "acknowledged writes that are gone (of acks=0: sent with success), permitted or not",
    "duplicates": "values at two offsets",
    "reordered": "sends at a lower offset than an earlier send of the same producer",
    "acked": "sends that were acknowledged",
    "failed": "sends that certainly did not happen",
    "indeterminate": "sends without an answer",
    "publish_p50_ms": "the median publish latency, of the slowest topic",
    "publish_p99_ms": "the 99th percentile of the publish latency, of the slowest topic",
    "unavailable_ms": "the longest time in which a partition within reach gave no acknowledgement, "
    "or a client made no progress after the last heal",
    "stale_ms": "the longest time by which a poll was behind an acknowledged record",
}
"""Every quantity with its meaning; each can be restricted to one acks mode: `lost.acks-1`."""
MODES: Final[Mapping[str, int]] = {"acks-0": 0, "acks-1": 1, "acks-all": -1}
EXAMPLE: Final = "write for example `lost.acks-all = 0` or `publish_p99_ms <= 50`"

_ANOMALIES: Final = {
    "lost": LOSSES,
    "duplicates": ("duplicate",),
    "reordered": ("reordered-send",),
}
"""The kinds of anomalies that an expectation counts; each first one has a detector."""
_PERCENTILES: Final = {"publish_p50_ms": "p50_ms", "publish_p99_ms": "p99_ms"}
_COMPARISONS: Final = ("<=", ">=", "=", "<", ">")
_UNMEASURED: Final = "not measured"
_WRITTEN: Final = re.compile(r"\s*([^\s<>=]+)\s*(<=|>=|==|=|<|>)\s*([^\s<>=]+)\s*")


class BadExpectation(ValueError):
    """The text is not an expectation; the message says why, and names the possible values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The certain minimum and the possible maximum of a quantity. why: why the two differ."""

    least: float
    most: float
    why: str = ""

    @property
    def text(self) -> str:
        """As people read it."""
        if self.least == self.most:
            return f"measured {_number(self.least)}"
        if self.why.startswith(_UNMEASURED):
            return self.why
        return f"measured {_number(self.least)} or more ({self.why})"


class Outcome(StrEnum):
    """The result of an expectation."""

    PASSED = "passed"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """A quantity, of one acks mode or of all (None), compared with a limit."""

    quantity: str
    acks: int | None
    comparison: str
    limit: float

    @property
    def text(self) -> str:
        """As it is written, in one form."""
        mode = next((f".{name}" for name, acks in MODES.items() if acks == self.acks), "")
        return f"{self.quantity}{mode} {self.comparison} {_number(self.limit)}"

    def outcome(self, measured: Range) -> Outcome:
        """Return passed or failed if the whole range is so, else unknown."""
        least, most, limit = measured.least, measured.most, self.limit
        passed, failed = {
            "<=": (most <= limit, least > limit),
            "<": (most < limit, least >= limit),
            ">=": (least >= limit, most < limit),
            ">": (least > limit, most <= limit),
            "=": (least == most == limit, not least <= limit <= most),
        }[self.comparison]
        return Outcome.PASSED if passed else Outcome.FAILED if failed else Outcome.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """An expectation, the measurement, and the result."""

    expectation: Expectation
    measured: Range
    outcome: Outcome

    @property
    def text(self) -> str:
        """Such as `publish_p99_ms <= 50, measured 83`."""
        return f"{self.expectation.text}, {self.measured.text}"

    def as_json(self) -> dict[str, Any]:
        """As verdict.json has it."""
        most = self.measured.most
        return {
            "expectation": self.expectation.text,
            "outcome": self.outcome.value,
            "at_least": self.measured.least,
            "at_most": most if math.isfinite(most) else None,
            "said": self.text,
        }


def parse(text: str) -> Expectation:
    """An expectation as people write it. Raises BadExpectation."""
    found = _WRITTEN.fullmatch(text)
    if found is None:
        raise BadExpectation(
            f"{text!r} is not an expectation: expected a quantity, one of "
            f"{' '.join(_COMPARISONS)}, and a number; {EXAMPLE}"
        )
    name, comparison, limit = found.groups()
    quantity, dot, mode = name.partition(".")
    if quantity not in QUANTITIES:
        near = difflib.get_close_matches(quantity, QUANTITIES, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise BadExpectation(
            f"{text!r}: there is no quantity {quantity!r}{hint}; quantities are "
            f"{', '.join(QUANTITIES)}, each also of one acks mode, as lost.acks-all"
        )
    if dot and mode not in MODES:
        raise BadExpectation(
            f"{text!r}: there is no acks mode {mode!r}; modes are {', '.join(MODES)}"
        )
    return Expectation(
        quantity=quantity,
        acks=MODES.get(mode),
        comparison="=" if comparison == "==" else comparison,
        limit=_limit(text, limit),
    )


def _limit(text: str, limit: str) -> float:
    try:
        number = float(limit)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise BadExpectation(f"{text!r}: {limit!r} is not a number from 0 on; {EXAMPLE}")
    return number


def read(written: object) -> tuple[Expectation, ...]:
    """Read the `expect` of a plan or suite: a table (`lost.acks-all = 0`, `unavailable_ms = "<=
    5000"`) or a list of texts. Raises BadExpectation."""
    match written:
        case None:
            return ()
        case dict():
            return tuple(map(parse, _flat(written, "")))
        case list() | tuple() if all(isinstance(each, str) for each in written):
            return tuple(map(parse, written))
        case _:
            raise BadExpectation(f"expected a table of quantities or a list of texts; {EXAMPLE}")


def _flat(table: Mapping[str, Any], before: str) -> Iterator[str]:
    for name, value in table.items():
        match value:
            case dict():
                yield from _flat(value, f"{before}{name}.")
            case str():
                yield f"{before}{name} {value}"
            case _:
                yield f"{before}{name} = {value}"


def of_plan(plan: Mapping[str, Any]) -> tuple[Expectation, ...]:
    """Return the expectations of a plan, including the `bounds` of earlier plans.

    Raises BadExpectation.
    """
    bounds = plan.get("bounds") or {}
    if not isinstance(bounds, Mapping):
        raise BadExpectation(f"bounds: expected a table; {EXAMPLE}")
    once = [f"{name} <= {limit}" for name, limit in bounds.items() if limit is not None]
    return (*read(plan.get("expect")), *map(parse, once))


def evaluate(
    expectations: Sequence[Expectation], verdict: Mapping[str, Any]
) -> tuple[Evaluated, ...]:
    """Evaluate expectations on the content of a verdict.json."""
    found = []
    for each in expectations:
        measured = _measured(each, verdict)
        found.append(Evaluated(expectation=each, measured=measured, outcome=each.outcome(measured)))
    return tuple(found)


# -- measuring


def _measured(wanted: Expectation, verdict: Mapping[str, Any]) -> Range:
    topics = [t for t in verdict["topics"] if wanted.acks in (None, t["acks"])]
    if not topics:
        return _unmeasured(
            "no topic has these acks" if verdict["topics"] else "nothing was counted"
        )
    anomalies = [a for a in verdict["anomalies"] if wanted.acks in (None, a["acks"])]
    open_end = _incomplete(verdict)
    match wanted.quantity:
        case "lost" | "duplicates" | "reordered" as name:
            return _counted(name, anomalies, open_end, verdict)
        case "publish_p50_ms" | "publish_p99_ms" as name:
            return _slowest([t[_PERCENTILES[name]] for t in topics], open_end)
        case "unavailable_ms":
            return _longest_unavailable(anomalies, open_end, verdict)
        case "stale_ms":
            open_end = open_end or _no_word_of("stale-read", verdict)
            return _range(_longest(anomalies, "stale-read"), open_end)
        case name:
            return _range([sum(t[name] for t in topics)], open_end)


def _counted(
    name: str, anomalies: Sequence[Mapping[str, Any]], open_end: str, verdict: Mapping[str, Any]
) -> Range:
    kinds = _ANOMALIES[name]
    count = sum(a["count"] for a in anomalies if a["kind"] in kinds)
    unseen = sum(a["count"] for a in anomalies if a["kind"] == "unseen")
    if name == "lost" and unseen:
        open_end = open_end or "the final reads did not reach the end"
    return _range([count], open_end or _no_word_of(kinds[0], verdict))


def _slowest(latencies: Sequence[float | None], open_end: str) -> Range:
    known = [each for each in latencies if each is not None]
    if not known:
        return _unmeasured("no send was acknowledged")
    none = "a topic had no acknowledged send" if len(known) < len(latencies) else ""
    return _range(known, open_end or none)


def _longest_unavailable(
    anomalies: Sequence[Mapping[str, Any]], open_end: str, verdict: Mapping[str, Any]
) -> Range:
    """The longest gap. Clients and partitions that were stuck at the end count too."""
    judged = [a for a in anomalies if a.get("aspect") not in ("out-of-reach", "reassignment")]
    gaps = _longest(judged, "unavailable")
    if not gaps:
        return _unmeasured("no partition was written to with acks=1 or acks=all")
    open_end = open_end or _no_word_of("unavailable", verdict)
    return _range([*gaps, *_longest(judged, "stuck")], open_end)


def _longest(anomalies: Sequence[Mapping[str, Any]], kind: str) -> list[float]:
    return [
        (row["complete_ns"] - row["invoke_ns"]) / 1e6
        for anomaly in anomalies
        if anomaly["kind"] == kind
        for row in anomaly["examples"]
        if row.get("complete_ns") is not None and row.get("invoke_ns") is not None
    ]


def _incomplete(verdict: Mapping[str, Any]) -> str:
    """Return why more may have happened than was found; empty if the record is complete."""
    if not verdict["assumptions"]:
        return "the record was not examined"
    broken = [a["name"] for a in verdict["assumptions"] if a["decisive"] and not a["holds"]]
    return f"failed check: {broken[0]}" if broken else ""


def _no_word_of(detector: str, verdict: Mapping[str, Any]) -> str:
    """Return why a detector did not judge; empty if it did."""
    row = next((row for row in verdict["detectors"] if row["name"] == detector), None)
    if row is None:
        return f"detector {detector} did not run"
    return "" if row["status"] == "ok" else f"detector {detector} {row['status']}: {row['detail']}"


def _range(values: Sequence[float], open_end: str) -> Range:
    """Return the greatest value (0 without any), or a range if the record is incomplete."""
    least = max(values, default=0)
    return Range(least=least, most=math.inf if open_end else least, why=open_end)


def _unmeasured(why: str) -> Range:
    return Range(least=0, most=math.inf, why=f"{_UNMEASURED}: {why}")


def _number(value: float) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".")
