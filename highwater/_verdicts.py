"""A verdict as a value: what a run showed, what the contract says about it, and why."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

from checkers.contract import headline
from checkers.losses import LOSSES

Outcome = Literal["VALID", "INVALID", "UNKNOWN"]
MAX_TOLD = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomaly:
    """All instances of one kind of anomaly with one judgement for one reason.

    `judgement` is forbidden, unknown, permitted or informational. `acks` is 0, 1 or -1 (all).
    `count` is exact; `examples` are a few rows of evidence. docs/anomalies/index.md has the kinds.

    Example:
        >>> for anomaly in highwater.check(RUN).forbidden:
        ...     print(anomaly.kind, anomaly.topic, anomaly.count)
        divergent-replicas none 1
    """

    kind: str
    judgement: str
    count: int
    topic: str | None
    partition: int | None
    acks: int | None
    group: str | None
    aspect: str | None
    cause: str | None
    rule: str
    examples: tuple[Mapping[str, Any], ...]

    @classmethod
    def _of(cls, found: Mapping[str, Any]) -> Self:
        return cls(
            kind=str(found["kind"]),
            judgement=str(found["judgement"]),
            count=int(found["count"]),
            topic=found.get("topic"),
            partition=found.get("partition"),
            acks=found.get("acks"),
            group=found.get("group"),
            aspect=found.get("aspect") or found.get("part_of_log"),
            cause=found.get("cause"),
            rule=str(found.get("rule", "")),
            examples=tuple(found.get("examples") or ()),
        )

    @property
    def values(self) -> tuple[str, ...]:
        """The values of the examples, as `client:sequence`.

        Example:
            >>> lost = highwater.load(SIMULATED).verdict.lost[0]
            >>> len(lost.values) <= lost.count
            True
        """
        found = [row["value"] for row in self.examples if row.get("value") is not None]
        return tuple(f"{value >> 32}:{value & 0xFFFF_FFFF}" for value in found)

    def __str__(self) -> str:
        where = "" if self.topic is None else f" in {self.topic}"
        if self.partition is not None:
            where += f"-{self.partition}"
        text = f"{self.count:,} {self.kind}{where} ({self.judgement}: {self.rule})"
        if self.cause:
            text += f"\n    {self.cause}"
        if self.values:
            more = " ..." if self.count > len(self.values) else ""
            text += f"\n    values: {', '.join(self.values[:MAX_TOLD])}{more}"
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """A bound that the user set beside the contract, and whether the run met it.

    `outcome` is passed, failed or unknown. `said` is a sentence with the measured value.

    Example:
        >>> (expectation,) = highwater.check(RUN, expect=["lost.acks-all = 0"]).expectations
        >>> expectation.outcome
        'passed'
    """

    text: str
    outcome: str
    said: str

    @classmethod
    def _of(cls, found: Mapping[str, Any]) -> Self:
        said = str(found.get("said", ""))
        text = str(found.get("expectation", said))
        return cls(text=text, outcome=str(found["outcome"]), said=said)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Verdict:
    """The answer about a run, with its evidence.

    `outcome` is VALID (the contract was kept), INVALID (it was broken) or UNKNOWN (the record does
    not decide). VALID does not say that nothing was lost: see `anomalies` and `headline`.

    Example:
        >>> verdict = highwater.check(RUN)
        >>> verdict.outcome, verdict.ok
        ('INVALID', False)
        >>> print(str(verdict).splitlines()[0])
        INVALID: CONTRACT BROKEN
    """

    outcome: Outcome
    headline: str
    reasons: tuple[str, ...]
    anomalies: tuple[Anomaly, ...]
    expectations: tuple[Expectation, ...]
    raw: Mapping[str, Any]
    """The content of verdict.json, with everything that has no field here."""

    @classmethod
    def _of(cls, found: Mapping[str, Any]) -> Self:
        return cls(
            outcome=found["verdict"],
            headline=headline.of(found).line,
            reasons=tuple(found.get("reasons") or ()),
            anomalies=tuple(Anomaly._of(each) for each in found.get("anomalies") or ()),
            expectations=tuple(Expectation._of(each) for each in found.get("expectations") or ()),
            raw=found,
        )

    @property
    def ok(self) -> bool:
        """Whether the contract was kept and every expectation passed.

        Example:
            >>> highwater.check(RUN).ok
            False
        """
        return self.outcome == "VALID" and all(e.outcome == "passed" for e in self.expectations)

    @property
    def forbidden(self) -> tuple[Anomaly, ...]:
        """The anomalies that the contract forbids.

        Example:
            >>> [anomaly.kind for anomaly in highwater.check(RUN).forbidden]
            ['divergent-replicas']
        """
        return tuple(each for each in self.anomalies if each.judgement == "forbidden")

    @property
    def lost(self) -> tuple[Anomaly, ...]:
        """Lost writes, permitted or not, each with its cause.

        Example:
            >>> sum(anomaly.count for anomaly in highwater.check(RUN).lost)
            0
        """
        return tuple(each for each in self.anomalies if each.kind in LOSSES)

    def __repr__(self) -> str:
        """One line, so that `assert verdict.ok` shows it whole."""
        return f"<{self.outcome}: {self.headline}>"

    def __str__(self) -> str:
        told = [each for each in self.anomalies if each.judgement != "informational"]
        lines = [
            f"{self.outcome}: {self.headline}",
            *(f"  {each}" for each in self.reasons[:MAX_TOLD]),
        ]
        lines += [
            f"  expectation {each.outcome}: {each.said}"
            for each in self.expectations
            if each.outcome != "passed"
        ]
        lines += [f"  {each}" for each in told[:MAX_TOLD]]
        if len(told) > MAX_TOLD:
            lines.append(f"  and {len(told) - MAX_TOLD} more anomalies")
        return "\n".join(lines)
