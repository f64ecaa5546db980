"""Verdicts: the result of a check, as values and as JSON.

    VALID      no violation, and enough evidence to say so
    INVALID    a violation: the contract forbids something that was found
    UNKNOWN    neither: a detector could not judge, or an assumption does not hold

Merged, INVALID outweighs UNKNOWN, which outweighs VALID.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from checkers import expectations
from checkers.contract import headline
from checkers.contract.contract import Judgement
from checkers.contract.headline import Headline
from checkers.contract.permissions import Permission
from checkers.expectations import Evaluated, Expectation


class Outcome(StrEnum):
    """The answer in one word."""

    VALID = "VALID"
    INVALID = "INVALID"
    UNKNOWN = "UNKNOWN"


_WEIGHT = {Outcome.VALID: 0, Outcome.UNKNOWN: 1, Outcome.INVALID: 2}
_DECIDES = {Judgement.FORBIDDEN: Outcome.INVALID, Judgement.UNKNOWN: Outcome.UNKNOWN}


def merge(outcomes: Iterable[Outcome]) -> Outcome:
    """Return the worst outcome; VALID if there is none."""
    return max(outcomes, key=_WEIGHT.__getitem__, default=Outcome.VALID)


class Status(StrEnum):
    """How a detector ended."""

    OK = "ok"
    CRASHED = "crashed"
    NOTHING_TO_JUDGE = "nothing-to-judge"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumption:
    """An assumption of a check. decisive: if it does not hold, the verdict cannot be VALID."""

    name: str
    holds: bool
    detail: str
    decisive: bool

    def as_json(self) -> dict[str, Any]:
        """As verdict.json has it."""
        return {
            "name": self.name,
            "holds": self.holds,
            "detail": self.detail,
            "decisive": self.decisive,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomaly:
    """All instances of one kind with one judgement for one reason.

    count: exact. examples: the first few rows of evidence (columns of EVIDENCE). group: the
    consumer group whose promise counts.
    """

    kind: str
    topic: str | None
    partition: int | None
    acks: int | None
    judgement: Judgement
    count: int
    rule: str
    aspect: str | None = None
    cause: str | None = None
    permission: Permission | None = None
    group: str | None = None
    examples: tuple[Mapping[str, Any], ...] = ()

    @property
    def what(self) -> str:
        """The kind and the place, if there is one: `duplicate in orders-1`."""
        if self.topic is None:
            return self.kind
        partition = "" if self.partition is None else f"-{self.partition}"
        return f"{self.kind} in {self.topic}{partition}"

    def as_json(self) -> dict[str, Any]:
        """The fields in verdict.json; fields that do not apply are left out."""
        made = {
            "kind": self.kind,
            "topic": self.topic,
            "partition": self.partition,
            "acks": self.acks,
            "judgement": self.judgement.value,
            "count": self.count,
            "part_of_log": self.aspect if self.kind == "lost-write" else None,
            "aspect": self.aspect if self.kind != "lost-write" else None,
            "group": self.group,
            "cause": self.cause,
            "rule": self.rule,
            **(self.permission.as_json() if self.permission else {}),
            "examples": [dict(row) for row in self.examples],
        }
        optional = ("partition", "part_of_log", "aspect", "group", "cause")
        return {
            key: value for key, value in made.items() if value is not None or key not in optional
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectorResult:
    """The result of one detector. decisive: if it could not judge, the verdict is UNKNOWN."""

    name: str
    status: Status
    seconds: float
    detail: str = ""
    decisive: bool = True
    anomalies: tuple[Anomaly, ...] = ()

    @property
    def count(self) -> int:
        """Instances found, whatever their judgement."""
        return sum(anomaly.count for anomaly in self.anomalies)

    def as_json(self) -> dict[str, Any]:
        """As verdict.json has it."""
        return {
            "name": self.name,
            "status": self.status.value,
            "count": self.count,
            "seconds": round(self.seconds, 3),
            "detail": self.detail,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The outcome, with all its evidence."""

    assumptions: tuple[Assumption, ...]
    detectors: tuple[DetectorResult, ...]
    topics: tuple[Mapping[str, Any], ...]
    contract: tuple[Mapping[str, Any], ...]
    engine: str
    checked_at: str
    extra_reasons: tuple[str, ...] = field(default=())
    promises: tuple[Mapping[str, Any], ...] = ()
    """See `checkers.promises`."""
    expect: tuple[Expectation, ...] = ()
    """The user's expectations beside the contract; they do not change the outcome."""

    @property
    def anomalies(self) -> tuple[Anomaly, ...]:
        """All anomalies, the forbidden ones first, in the detectors' order."""
        order = list(Judgement)
        found = [anomaly for result in self.detectors for anomaly in result.anomalies]
        weights = {
            Judgement.FORBIDDEN: 0,
            Judgement.UNKNOWN: 1,
            Judgement.PERMITTED: 2,
            Judgement.INFORMATIONAL: 3,
        }
        assert len(weights) == len(order)
        return tuple(sorted(found, key=lambda anomaly: weights[anomaly.judgement]))

    @property
    def outcome(self) -> Outcome:
        """INVALID, UNKNOWN or VALID."""
        return merge(outcome for outcome, _ in self._findings())

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the verdict is not VALID, the most severe reasons first; or why it is VALID."""
        found = sorted(self._findings(), key=lambda finding: -_WEIGHT[finding[0]])
        if not found:
            return ("No violations. All checks that the verdict relies on passed.",)
        return tuple(dict.fromkeys(reason for _, reason in found))

    @property
    def headline(self) -> Headline:
        """Whether the contract was kept, what was lost, and which expectations failed."""
        return headline.of(self._judged())

    @property
    def evaluated(self) -> tuple[Evaluated, ...]:
        """The result of each expectation."""
        return expectations.evaluate(self.expect, self._judged(expected=False))

    def _findings(self) -> list[tuple[Outcome, str]]:
        found: list[tuple[Outcome, str]] = []
        counts: Counter[tuple[Outcome, str, str]] = Counter()
        for anomaly in self.anomalies:
            if anomaly.judgement in _DECIDES:
                counts[_DECIDES[anomaly.judgement], *_reason(anomaly)] += anomaly.count
        found.extend(
            (outcome, f"{count:,} {what} ({why})") for (outcome, what, why), count in counts.items()
        )
        found.extend(
            (Outcome.UNKNOWN, f"failed check: {assumption.name}: {assumption.detail}")
            for assumption in self.assumptions
            if assumption.decisive and not assumption.holds
        )
        for result in self.detectors:
            if result.status is not Status.OK and result.decisive:
                reason = f"detector {result.name} {result.status.value}: {result.detail}"
                found.append((Outcome.UNKNOWN, reason))
        found.extend((Outcome.UNKNOWN, reason) for reason in self.extra_reasons)
        return found

    def as_json(self) -> dict[str, Any]:
        """The content of verdict.json."""
        made = self._judged()
        first = {"verdict": made.pop("verdict"), "headline": self.headline.as_json()}
        return {**first, **made}

    def _judged(self, *, expected: bool = True) -> dict[str, Any]:
        made = {
            "verdict": self.outcome.value,
            "reasons": list(self.reasons),
            "assumptions": [assumption.as_json() for assumption in self.assumptions],
            "topics": [dict(topic) for topic in self.topics],
            "promises": [dict(row) for row in self.promises],
            "anomalies": [anomaly.as_json() for anomaly in self.anomalies],
            "contract": [dict(row) for row in self.contract],
            "detectors": [result.as_json() for result in self.detectors],
            "engine": self.engine,
            "checked_at": self.checked_at,
        }
        if expected:
            made["expectations"] = [each.as_json() for each in self.evaluated]
        return made


def _reason(anomaly: Anomaly) -> tuple[str, str]:
    """Return the anomaly with its place, and what the contract says about it."""
    cause = anomaly.cause if anomaly.judgement is Judgement.UNKNOWN else None
    return anomaly.what, f"{anomaly.rule}: {cause}" if cause else anomaly.rule
