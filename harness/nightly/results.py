"""The outcome of a trial, of a cell, and of a night. Pure.

    passed     VALID; also a canary that was found
    passed with losses   VALID, and acknowledged writes were lost, as the contract permits
    known      INVALID, and the suite lists every forbidden anomaly as known
    violation  INVALID otherwise; also a canary that was not found: the suite is then blind
    expectation failed   no violation, but an expectation of the user surely failed
    unknown    UNKNOWN: the verdict could not be decided
    error      the harness failed, or refused what it was given
    left out   no time was left for the trial

A violation outweighs everything; an error outweighs what could not be decided.
"""

import enum
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Final, Self

from checkers.contract import headline
from checkers.contract.headline import Headline, Standing
from harness.judging.judge import count_forbidden
from harness.nightly.cells import Cell
from harness.nightly.suite import KnownViolation

INVALID: Final = "INVALID"
TIMED_OUT: Final = -9


class Outcome(enum.StrEnum):
    """See the module. The gravest outcome comes first."""

    VIOLATION = "violation"
    UNMET = "expectation failed"
    ERROR = "error"
    UNKNOWN = "unknown"
    KNOWN = "known"
    LOSSES = "passed with losses"
    PASSED = "passed"
    LEFT_OUT = "left out"


EXIT_CODES: Final[Mapping[Outcome, int]] = {
    Outcome.VIOLATION: 1,
    Outcome.UNMET: 1,
    Outcome.ERROR: 255,
    Outcome.UNKNOWN: 2,
    Outcome.KNOWN: 0,
    Outcome.LOSSES: 0,
    Outcome.PASSED: 0,
    Outcome.LEFT_OUT: 0,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One run of a cell."""

    cell: str
    seed: int

    @property
    def name(self) -> str:
        """The name of the trial's directory, and of the trial in every list."""
        return f"{self.cell}-{self.seed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of one trial."""

    cell: str
    seed: int
    outcome: Outcome
    said: str
    """One sentence for people."""
    headline: str = ""
    """The verdict's headline: whether the contract was kept, and what was lost."""
    seconds: float = 0.0
    canary: bool = False
    verdict: str | None = None
    exit_code: int | None = None
    anomalies: Mapping[str, int] = field(default_factory=dict)
    """The forbidden anomalies: how many of each kind."""
    known: tuple[str, ...] = ()
    """Why the violation is known, with links."""
    lost: Mapping[str, int] = field(default_factory=dict)
    """Lost acknowledged writes, permitted or not, by acks mode (`1`, `all`)."""
    expectations: tuple[Mapping[str, Any], ...] = ()
    """The rows of verdict.json."""
    acked: int = 0
    p99_ms: float | None = None
    unavailable_ms: float | None = None
    """The longest time without an acknowledgement in a partition."""
    run: str | None = None
    """The run's directory, relative to the night's."""
    replay: str | None = None
    """The command that repeats the run."""

    def to_json(self) -> dict[str, Any]:
        """Return JSON-able data for `from_json`."""
        return asdict(self)

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Self:
        """Read what `to_json` returned."""
        lists = {name: tuple(raw.get(name) or ()) for name in ("known", "expectations")}
        return cls(**{**raw, "outcome": Outcome(raw["outcome"]), **lists})


def result_of_trial(
    cell: Cell,
    trial: Trial,
    *,
    exit_code: int,
    verdict: Mapping[str, Any] | None,
    complaint: str,
    known: Sequence[KnownViolation],
) -> Result:
    """Return the result of a trial whose process ended. `complaint`: its last message on stderr."""
    base = Result(
        cell=cell.name,
        seed=trial.seed,
        outcome=Outcome.ERROR,
        said=complaint or f"highwater ended with exit code {exit_code} and no message",
        canary=cell.canary,
        exit_code=exit_code,
    )
    if verdict is None or exit_code not in (0, 1, 2):
        return base
    forbidden, found = count_forbidden(verdict), headline.of(verdict)
    outcome, said = _outcome(cell, verdict, forbidden)
    reasons = _known_reasons(cell, forbidden, known) if outcome is Outcome.VIOLATION else None
    if reasons:
        outcome = Outcome.KNOWN
    if found.unmet and not cell.canary and outcome is not Outcome.VIOLATION:
        outcome, said = Outcome.UNMET, f"EXPECTATION FAILED: {'; '.join(found.unmet)}"
    return Result(
        **{
            **{name: getattr(base, name) for name in ("cell", "seed", "canary", "exit_code")},
            "outcome": outcome,
            "said": said,
            "headline": found.line,
            "lost": found.lost_by_acks,
            "verdict": str(verdict["verdict"]),
            "anomalies": forbidden,
            "known": reasons or (),
            "expectations": () if cell.canary else tuple(verdict.get("expectations") or ()),
            "acked": sum(topic.get("acked") or 0 for topic in verdict["topics"]),
            "p99_ms": _most(topic.get("p99_ms") for topic in verdict["topics"]),
            "unavailable_ms": _unavailable_ms(verdict),
        }
    )


def _outcome(
    cell: Cell, verdict: Mapping[str, Any], forbidden: Mapping[str, int]
) -> tuple[Outcome, str]:
    first = str(next(iter(verdict["reasons"]), ""))
    answer = verdict["verdict"]
    if cell.canary:
        if answer != INVALID:
            return Outcome.VIOLATION, f"the broken broker was not detected: {answer}: {first}"
        if cell.expect is not None and cell.expect not in forbidden:
            instead = ", ".join(forbidden)
            return Outcome.VIOLATION, f"{cell.expect} was expected, but only {instead} was found"
        return Outcome.PASSED, f"the broken broker was detected, as expected: {first}"
    match answer:
        case "VALID":
            return _of_valid(headline.of(verdict), first)
        case "INVALID":
            return Outcome.VIOLATION, first
        case _:
            return Outcome.UNKNOWN, first


def _of_valid(found: Headline, first: str) -> tuple[Outcome, str]:
    match found.standing:
        case Standing.LOSSES:
            return Outcome.LOSSES, found.line
        case Standing.UNDECIDED:
            return Outcome.UNKNOWN, f"EXPECTATION NOT DECIDED: {'; '.join(found.undecided)}"
        case _:
            return Outcome.PASSED, first


def _known_reasons(
    cell: Cell, forbidden: Mapping[str, int], known: Sequence[KnownViolation]
) -> tuple[str, ...] | None:
    """Return why each forbidden anomaly is known; None when one is not, and for canaries."""
    if cell.canary or not forbidden:
        return None
    found = []
    for anomaly in forbidden:
        entry = next((k for k in known if _covers(k, cell, anomaly)), None)
        if entry is None:
            return None
        found.append(entry.reason + (f" ({entry.link})" if entry.link else ""))
    return tuple(dict.fromkeys(found))


def _covers(entry: KnownViolation, cell: Cell, anomaly: str) -> bool:
    return entry.anomaly == anomaly and fnmatchcase(cell.name, entry.cell)


def _unavailable_ms(verdict: Mapping[str, Any]) -> float | None:
    return _most(
        (example["complete_ns"] - example["invoke_ns"]) / 1e6
        for anomaly in verdict["anomalies"]
        if anomaly["kind"] == "unavailable"
        for example in anomaly["examples"]
        if example.get("complete_ns") is not None and example.get("invoke_ns") is not None
    )


def _most(values: Iterable[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return round(max(found), 3) if found else None


def worst(outcomes: Iterable[Outcome]) -> Outcome:
    """Return the gravest outcome; LEFT_OUT when there is none."""
    order = list(Outcome)
    return min(outcomes, key=order.index, default=Outcome.LEFT_OUT)


def exit_code(results: Iterable[Result]) -> int:
    """Return the exit code of the whole night; 2 when nothing was tried."""
    outcome = worst(result.outcome for result in results)
    return 2 if outcome is Outcome.LEFT_OUT else EXIT_CODES[outcome]


def by_cell(results: Iterable[Result]) -> dict[str, list[Result]]:
    """Return the results of each cell, in the order in which they came."""
    found: dict[str, list[Result]] = {}
    for result in results:
        found.setdefault(result.cell, []).append(result)
    return found


class Change(enum.StrEnum):
    """A cell compared with the night before."""

    NEW = "new"
    """It fails, and did not fail the night before."""
    STILL = "still failing"
    FIXED = "fixed"
    SAME = ""


FAILED: Final = frozenset({Outcome.VIOLATION, Outcome.UNMET, Outcome.ERROR, Outcome.UNKNOWN})


def changes(now: Iterable[Result], before: Iterable[Result]) -> dict[str, Change]:
    """Return the change of each cell of tonight. A cell that was left out counts as not failed."""
    old = {cell: worst(r.outcome for r in found) for cell, found in by_cell(before).items()}
    found: dict[str, Change] = {}
    for cell, results in by_cell(now).items():
        fails = worst(r.outcome for r in results) in FAILED
        failed = old.get(cell) in FAILED
        if fails:
            found[cell] = Change.STILL if failed else Change.NEW
        else:
            found[cell] = Change.FIXED if failed else Change.SAME
    return found


def flaky(nights: Sequence[Sequence[Result]]) -> frozenset[str]:
    """Return the cells that changed between failed and passed at least twice in these nights."""
    histories: dict[str, list[bool]] = {}
    for night in nights:
        for cell, results in by_cell(night).items():
            outcome = worst(r.outcome for r in results)
            if outcome is not Outcome.LEFT_OUT:
                histories.setdefault(cell, []).append(outcome in FAILED)
    return frozenset(
        cell
        for cell, failed in histories.items()
        if sum(a != b for a, b in itertools.pairwise(failed)) >= 2
    )
